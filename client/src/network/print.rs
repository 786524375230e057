//! The part of a node's fingerprint about networks of allocations: the bridge, networks that are configured for CNI
//! plugins, versions of the plugins, and addresses of this host that have a name.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use songline_model::{NetworkResource, NodeNetworkAddress, NodeNetworkResource, Str};

use super::admin;
use super::list::{self, BRIDGE_PLUGINS};
use super::settings::{HostNetwork, NetworkSettings};
use crate::netlink;

/// Ability of nodes that have networks of modes `bridge` and `cni/NAME`.
const BRIDGE: &str = "bridge";
/// Ability of nodes that have networks of mode `none`.
const NO_NETWORK: &str = "network_none";
/// Longest time of a plugin that is asked for its version, and interval at which its end is looked for.
const VERSION_MAX: Duration = Duration::from_secs(2);
const VERSION_POLL: Duration = Duration::from_millis(2);

/// Networks that a node offers to allocations.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Print {
    /// Attributes of the node.
    pub attributes: BTreeMap<String, String>,
    /// Modes of networks, with their devices.
    pub networks: Vec<(String, Str)>,
    /// Abilities of the agent.
    pub abilities: Vec<&'static str>,
}

impl Print {
    /// Looks at the machine. Runs each plugin once to learn its version. Blocks.
    pub fn read(settings: &NetworkSettings) -> Self {
        let mut print = Self::default();
        print.attributes.extend(versions(settings));
        if !rustix::process::geteuid().is_root() {
            return print;
        }
        print.abilities.push(NO_NETWORK);
        let configured = list::configured(&settings.cni_config_dir);
        match missing(settings) {
            None => {
                let hairpin = settings.bridge_hairpin.to_string();
                print.attributes.insert("nomad.bridge.hairpin_mode".to_owned(), hairpin);
                print.networks.push(("bridge".to_owned(), settings.bridge_name.clone()));
                print.abilities.push(BRIDGE);
            }
            Some(missing) => {
                tracing::info!(missing, "this node has no networks of mode bridge");
                if !configured.is_empty() {
                    print.abilities.push(BRIDGE);
                }
            }
        }
        print.networks.extend(configured.into_keys().map(|name| (format!("cni/{name}"), name.into())));
        print
    }

    /// Networks of the node, as jobs ask for them.
    pub fn resources(&self) -> impl Iterator<Item = NetworkResource> {
        self.networks
            .iter()
            .map(|(mode, _)| NetworkResource { mode: mode.as_str().into(), ..NetworkResource::default() })
    }

    /// Networks of the node with their devices.
    pub fn node_resources(&self) -> impl Iterator<Item = NodeNetworkResource> {
        self.networks.iter().map(|(mode, device)| NodeNetworkResource {
            mode: mode.as_str().into(),
            device: device.clone(),
            ..NodeNetworkResource::default()
        })
    }
}

/// Programs and plugins that the bridge needs and this machine does not have.
fn missing(settings: &NetworkSettings) -> Option<String> {
    if !has_module() {
        return Some("the kernel module bridge".to_owned());
    }
    if !admin::has_command() {
        return Some("the command iptables".to_owned());
    }
    let lost = BRIDGE_PLUGINS.iter().find(|name| settings.plugin(name).is_none())?;
    Some(format!("the CNI plugin {lost} in {}", settings.cni_path))
}

/// Whether the kernel has the module, as a part of it, loaded or loadable.
fn has_module() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let modules = Path::new("/lib/modules").join(release);
    let listed =
        |path: &Path, is_it: fn(&str) -> bool| fs::read_to_string(path).is_ok_and(|text| text.lines().any(is_it));
    Path::new("/sys/module/bridge").exists()
        || listed(Path::new("/proc/modules"), |line| line.starts_with("bridge "))
        || ["modules.builtin", "modules.dep"].iter().any(|list| {
            listed(&modules.join(list), |line| line.split(':').next().is_some_and(|path| path.contains("/bridge.ko")))
        })
}

/// Versions of the plugins by attribute. Programs that do not tell a version have none.
fn versions(settings: &NetworkSettings) -> BTreeMap<String, String> {
    let entries = settings.plugin_dirs().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    let mut found = BTreeMap::new();
    for entry in entries {
        let runs = entry.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
        let name = entry.file_name().to_string_lossy().into_owned();
        if !runs || found.contains_key(&name) {
            continue;
        }
        if let Some(version) = version(&entry.path()) {
            found.insert(name, version);
        }
    }
    found.into_iter().map(|(name, version)| (format!("plugins.cni.version.{name}"), version)).collect()
}

/// The version that a plugin tells, such as `v1.2.0`. A plugin that does not answer in time is killed.
fn version(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let begun = Instant::now();
    while child.try_wait().is_ok_and(|ended| ended.is_none()) {
        if begun.elapsed() > VERSION_MAX {
            let _ = child.kill();
            break;
        }
        std::thread::sleep(VERSION_POLL);
    }
    let output = child.wait_with_output().ok()?;
    told_version(&String::from_utf8_lossy(&[output.stdout, output.stderr].concat()))
}

fn told_version(said: &str) -> Option<String> {
    let first = said.lines().find(|line| line.starts_with("CNI ") && line.contains(" plugin "))?;
    let word = first.split(" plugin ").nth(1)?.trim().trim_start_matches("version ").trim();
    (!word.is_empty()).then(|| word.split_whitespace().next().unwrap_or_default().to_owned())
}

/// Addresses of this host that jobs may ask for, by interface: those of a host network, and the `default` one, which is
/// the address `ip` of the interface `device`. The default comes first.
pub(crate) fn host_addresses(
    networks: &BTreeMap<Str, HostNetwork>,
    (device, ip): (&str, IpAddr),
) -> Vec<(String, Vec<NodeNetworkAddress>)> {
    let names: BTreeMap<u32, String> = fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let index = fs::read_to_string(entry.path().join("ifindex")).ok()?.trim().parse().ok()?;
            Some((index, entry.file_name().to_string_lossy().into_owned()))
        })
        .collect();
    let listed = if networks.is_empty() { Ok(Vec::new()) } else { netlink::addresses() };
    let listed = listed.unwrap_or_else(|error| {
        tracing::warn!(%error, "listing the addresses of this host");
        Vec::new()
    });
    let all = listed.iter().filter_map(|address| Some((names.get(&address.index)?.as_str(), address.ip)));
    aliased(networks, (device, ip), all)
}

/// As [`host_addresses`], of these addresses.
fn aliased<'a>(
    networks: &BTreeMap<Str, HostNetwork>,
    default: (&'a str, IpAddr),
    all: impl Iterator<Item = (&'a str, IpAddr)>,
) -> Vec<(String, Vec<NodeNetworkAddress>)> {
    let address = |ip: IpAddr, alias: &str, reserved_ports: Str| NodeNetworkAddress {
        family: if ip.is_ipv4() { "ipv4" } else { "ipv6" }.into(),
        alias: alias.into(),
        address: ip.to_string().into(),
        reserved_ports,
        ..NodeNetworkAddress::default()
    };
    let mut found = vec![(default.0.to_owned(), vec![address(default.1, "default", Str::default())])];
    for (device, ip) in all {
        for (name, network) in networks.iter().filter(|(_, network)| network.has(device, ip)) {
            let named = address(ip, name, network.reserved_ports.clone());
            match found.iter_mut().find(|(other, _)| other == device) {
                Some((_, addresses)) => addresses.push(named),
                None => found.push((device.to_owned(), vec![named])),
            }
        }
    }
    found
}

impl HostNetwork {
    /// Whether an address of an interface belongs to the host network.
    fn has(&self, device: &str, ip: IpAddr) -> bool {
        let in_range = self.cidr.is_empty() || in_range(&self.cidr, ip).unwrap_or(false);
        in_range && (self.interface.is_empty() || self.interface == device)
    }
}

/// Whether a range in CIDR notation has the address; `None` if the text is no range.
pub(crate) fn in_range(cidr: &str, ip: IpAddr) -> Option<bool> {
    let (net, bits) = cidr.split_once('/')?;
    let (net, bits): (IpAddr, u32) = (net.parse().ok()?, bits.parse().ok()?);
    let same = |net: u128, ip: u128, width: u32| {
        let shift = width.checked_sub(bits)?;
        Some(net.checked_shr(shift).unwrap_or(0) == ip.checked_shr(shift).unwrap_or(0))
    };
    match (net, ip) {
        (IpAddr::V4(net), IpAddr::V4(ip)) => same(u32::from(net).into(), u32::from(ip).into(), 32),
        (IpAddr::V6(net), IpAddr::V6(ip)) => same(net.into(), ip.into(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn host_networks_choose_addresses_by_range_and_interface() {
        let network = |cidr: &str, interface: &str, ports: &str| HostNetwork {
            cidr: cidr.into(),
            interface: interface.into(),
            reserved_ports: ports.into(),
        };
        let networks = BTreeMap::from([
            ("all".into(), network("", "", "")),
            ("dmz".into(), network("", "eth1", "22,80")),
            ("lan".into(), network("10.0.0.0/8", "", "")),
            ("v6".into(), network("fd00::/8", "eth1", "")),
        ]);
        let all = [("lo", "127.0.0.1"), ("eth0", "10.0.0.5"), ("eth1", "192.0.2.7"), ("eth1", "fd00::7")];
        let all = all.map(|(device, text)| (device, ip(text)));
        let found = aliased(&networks, ("eth0", ip("10.0.0.5")), all.into_iter());
        let line = |(device, addresses): &(String, Vec<NodeNetworkAddress>)| {
            let shown = addresses.iter().map(|at| format!("{}={} {}", at.alias, at.address, at.reserved_ports));
            format!("{device}: {}\n", shown.map(|text| text.trim().to_owned()).collect::<Vec<_>>().join(", "))
        };
        expect![[r#"
            eth0: default=10.0.0.5, all=10.0.0.5, lan=10.0.0.5
            lo: all=127.0.0.1
            eth1: all=192.0.2.7, dmz=192.0.2.7 22,80, all=fd00::7, dmz=fd00::7 22,80, v6=fd00::7
        "#]]
        .assert_eq(&found.iter().map(line).collect::<String>());
    }

    #[test]
    fn ranges_have_the_addresses_with_the_same_first_bits() {
        let cases = [
            ("172.26.64.0/20", "172.26.79.255", Some(true)),
            ("172.26.64.0/20", "172.26.80.0", Some(false)),
            ("0.0.0.0/0", "8.8.8.8", Some(true)),
            ("::/0", "8.8.8.8", Some(false)),
            ("::/0", "fd00::1", Some(true)),
            ("10.0.0.1/32", "10.0.0.1", Some(true)),
            ("10.0.0.1/33", "10.0.0.1", None),
            ("10.0.0.1", "10.0.0.1", None),
        ];
        for (range, address, expected) in cases {
            assert_eq!(in_range(range, ip(address)), expected, "{range} {address}");
        }
    }

    #[test]
    fn versions_are_read_from_what_plugins_print() {
        let said = |text: &str| told_version(text).unwrap_or_default();
        assert_eq!(said("CNI bridge plugin v1.2.0\nCNI protocol versions supported: 1.0.0\n"), "v1.2.0");
        assert_eq!(said("CNI bridge plugin version unknown\nCNI protocol versions supported: 1.0.0\n"), "unknown");
        assert_eq!(said("usage: other\n"), "");
    }
}
