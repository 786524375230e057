//! Network namespaces, one for each server, and how they are wired: one card that ends in the switch, for what servers say to each other,
//! and one cable to this process's own namespace, for clients, which no fault touches. So an isolated server can be asked what it thinks.
//! Whatever is made here goes when it is dropped; what a run that was killed has left goes when the next begins.

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

/// What the names of all namespaces and cards of these tests begin with. The id of the process follows.
const PREFIX: &str = "slt";
/// Largest packet between servers, in bytes.
const MTU: &str = "9000";
/// How many networks this process has made.
static NETWORKS: AtomicU32 = AtomicU32::new(0);

/// Why there can be no namespaces here, if there can be none.
pub fn missing() -> Option<String> {
    // Tried once: tests begin at the same time, and two that try would be in each other's way.
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

/// Namespaces that are wired to each other.
pub struct Net {
    spaces: Vec<Space>,
    switch: Switch,
}

/// One namespace.
struct Space {
    name: String,
    /// Its address for clients, in this process's namespace.
    outside: IpAddr,
}

impl Net {
    /// Makes `count` namespaces.
    pub fn new(count: usize, seed: u64) -> Result<Net> {
        sweep();
        let network = NETWORKS.fetch_add(1, Ordering::Relaxed);
        let mut spaces = Vec::new();
        let mut cards = Vec::new();
        for n in 0..count {
            let stem = format!("{PREFIX}{}n{network}s{n}", std::process::id());
            ip(&["netns", "add", &stem])?;
            // From here on it is taken down again, whatever else fails.
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

    /// Moves the calling thread into namespace `n`, for good: sockets it opens are in there.
    pub fn enter(&self, n: usize) -> Result<()> {
        let path = format!("/run/netns/{}", self.spaces[n].name);
        let space = File::open(&path).with_context(|| format!("opening {path}"))?;
        move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).with_context(|| format!("entering {path}"))
    }

    /// Where clients find `port` of namespace `n`.
    pub fn address(&self, n: usize, port: u16) -> SocketAddr {
        SocketAddr::new(self.spaces[n].outside, port)
    }

    /// From now on the network between the namespaces has these faults and no others.
    pub fn set(&self, faults: Faults) {
        self.switch.set(faults);
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// The address of namespace `n` among its like.
pub fn inside(n: usize) -> IpAddr {
    let last = u8::try_from(n + 1).expect("few servers");
    IpAddr::V4(Ipv4Addr::new(10, 99, 0, last))
}

/// An address of the cable to namespace `n`. Other runs on this machine, in other processes, must have others.
fn outside(network: u32, n: usize, end: u8) -> IpAddr {
    let run = std::process::id().wrapping_add(network.wrapping_mul(7919)) % (64 * 256);
    let [_, _, high, low] = run.to_be_bytes();
    let last = u8::try_from(4 * n).expect("few servers") + end;
    IpAddr::V4(Ipv4Addr::new(10, 128 + high, low, last))
}

/// Removes what runs that are gone have left: their processes, then their namespaces.
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

/// Ends what runs in a namespace, tasks of nodes too, and removes it: its cards and cables go with it.
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
