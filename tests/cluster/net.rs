//! Network namespaces, one for each server, and their connections: a card that ends in the switch, for traffic
//! between servers, and a virtual cable to this process's own namespace, for clients, which no fault affects. So an
//! isolated server can still be queried. Everything is removed on drop; leftovers of a killed run are removed when
//! the next run begins.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::Process;
use crate::switch::{Faults, Switch};
use crate::tun;

#[cfg(test)]
mod tests;

/// Prefix of the names of all namespaces and cards of these tests. The process id follows.
const PREFIX: &str = "slt";
/// Largest packet between servers, in bytes.
const MTU: &str = "9000";
/// Number of networks that this process has created.
static NETWORKS: AtomicU32 = AtomicU32::new(0);

/// The reason why this machine cannot create namespaces, if it cannot.
pub fn missing() -> Option<String> {
    // Tried once: tests begin at the same time, and concurrent attempts would disturb each other.
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    MISSING.get_or_init(tried).clone()
}

fn tried() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".into());
    }
    if !tun::allowed() {
        return Some("needs /dev/net/tun".into());
    }
    let probe = format!("{PREFIX}{}probe", std::process::id());
    let made = ip(&["netns", "add", &probe]).and_then(|()| ip(&["netns", "del", &probe]));
    made.err().map(|error| format!("needs network namespaces: {error:#}"))
}

/// Connected namespaces.
pub struct Net {
    spaces: Vec<Space>,
    switch: Switch,
}

/// One namespace.
struct Space {
    name: String,
    /// Address of the namespace for clients in this process's namespace.
    outside: IpAddr,
}

impl Net {
    /// Creates `count` namespaces.
    pub fn new(count: usize, seed: u64) -> Result<Net> {
        sweep();
        let network = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let mut spaces = Vec::new();
        let mut cards = Vec::new();
        for n in 0..count {
            let stem = format!("{PREFIX}{}n{network}s{n}", std::process::id());
            ip(&["netns", "add", &stem])?;
            // From here on the namespace is removed on drop, also after an error.
            spaces.push(Space { name: stem.clone(), outside: outside(network, n, 2) });
            ip(&["-n", &stem, "link", "set", "lo", "up"])?;
            let card = format!("{stem}t");
            cards.push(tun::open(&card)?);
            ip(&["link", "set", &card, "netns", &stem])?;
            ip(&["-n", &stem, "addr", "add", &format!("{}/24", inside(n)), "dev", &card])?;
            ip(&["-n", &stem, "link", "set", &card, "mtu", MTU, "up"])?;
            let cable = format!("{stem}c");
            ip(&["link", "add", &cable, "type", "veth", "peer", "name", "out", "netns", &stem])?;
            ip(&["addr", "add", &format!("{}/30", outside(network, n, 1)), "dev", &cable])?;
            ip(&["link", "set", &cable, "up"])?;
            ip(&["-n", &stem, "addr", "add", &format!("{}/30", outside(network, n, 2)), "dev", "out"])?;
            ip(&["-n", &stem, "link", "set", "out", "up"])?;
        }
        Ok(Net { spaces, switch: Switch::start(cards, seed)? })
    }

    /// A command that runs in namespace `n`.
    pub fn command(&self, n: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.spaces[n].name, program]);
        command
    }

    /// Moves the calling thread into namespace `n` for good: its new sockets are opened there.
    pub fn enter(&self, n: usize) -> Result<()> {
        let path = format!("/run/netns/{}", self.spaces[n].name);
        let space = File::open(&path).with_context(|| format!("opening {path}"))?;
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("entering {path}"))
    }

    /// Address at which clients reach `port` of namespace `n`.
    pub fn address(&self, n: usize, port: u16) -> SocketAddr {
        SocketAddr::new(self.spaces[n].outside, port)
    }

    /// Replaces the faults of the network between the namespaces.
    pub fn set(&self, faults: Faults) {
        self.switch.set(faults);
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Address of namespace `n` for the other namespaces.
pub fn inside(n: usize) -> IpAddr {
    let last = u8::try_from(n + 1).expect("few servers");
    IpAddr::V4(Ipv4Addr::new(10, 99, 0, last))
}

/// An address of the cable to namespace `n`. Concurrent runs in other processes must use other addresses.
fn outside(network: u32, n: usize, end: u8) -> IpAddr {
    let run = std::process::id().wrapping_add(network.wrapping_mul(7919)) % (64 * 256);
    let [_, _, high, low] = run.to_be_bytes();
    let last = u8::try_from(4 * n).expect("few servers") + end;
    IpAddr::V4(Ipv4Addr::new(10, 128 + high, low, last))
}

/// Removes leftovers of runs that have ended: their processes, then their namespaces.
fn sweep() {
    let there = Command::new("ip").args(["netns", "list"]).output().map(|out| out.stdout).unwrap_or_default();
    for line in String::from_utf8_lossy(&there).lines() {
        let name = line.split(' ').next().unwrap_or_default();
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let owner: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if owner.is_empty() || fs::exists(format!("/proc/{owner}")).unwrap_or(true) {
            continue;
        }
        remove(name);
    }
}

/// Kills all processes in a namespace, tasks of nodes too, and removes the namespace with its cards and cables.
fn remove(name: &str) {
    let inside = Command::new("ip").args(["netns", "pids", name]).output().map(|out| out.stdout).unwrap_or_default();
    for pid in String::from_utf8_lossy(&inside).lines().filter_map(|pid| pid.parse().ok()) {
        if let Some(process) = Process::find(pid) {
            process.kill();
        }
    }
    let _gone = ip(&["netns", "del", name]);
}

/// Runs `ip` of iproute2.
fn ip(args: &[&str]) -> Result<()> {
    let out = Command::new("ip").args(args).output().context("running ip, of iproute2")?;
    ensure!(out.status.success(), "ip {}: {}", args.join(" "), String::from_utf8_lossy(&out.stderr).trim());
    Ok(())
}
