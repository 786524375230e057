//! The node's fingerprint: attributes, resources and networks, from /proc, /sys and a few files. Drivers add their
//! own attributes.
//!
//! Fingerprints have the reference's names (`arch`, `cpu`, `network`, ..), by which `fingerprint.allowlist` and
//! `fingerprint.denylist` leave some of them out.

pub(crate) mod cloud;

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use songline_model::{
    ABILITY_PREFIX, AGENT_VERSION, DriverInfo, NetworkResource, Node, NodeCpuResources, NodeDiskResources,
    NodeMemoryResources, NodeNetworkResource, NodeResources, Resources, Str, Time,
};

use crate::cgroup::hierarchy::Hierarchy;
use crate::config::ClientConfig;
use crate::driver::Fingerprint;
use crate::options::{self, FINGERPRINT};
use crate::{consul, network, procfs, signal, stats};

/// Drivers that a node lists only once their program was there: recorded nodes without it list `docker`, and not these.
const LISTED_WHEN_DETECTED: &[&str] = &["java", "qemu"];
/// Version of the reference whose wire and behaviour this node implements: servers gate features on it.
const NOMAD_VERSION: &str = "1.6.5";
/// Abilities that this agent has wherever it runs.
const EVERYWHERE: &[&str] = &[
    "check",
    "consul",
    "cores",
    "csi_plugin",
    "csi_volume",
    "dns",
    "migrate",
    "sticky",
    "task_network",
    "template",
    "vault",
    "volume",
    "volume_mount",
];
/// Abilities of this agent, some of them only on machines that have what they need;
/// `songline_scheduler::feasible::abilities` has those that groups may need.
pub const ABILITIES: &[&str] = &[
    "bridge",
    "check",
    "consul",
    "cores",
    "csi_plugin",
    "csi_volume",
    "dns",
    "migrate",
    "network_none",
    "sticky",
    "task_network",
    "template",
    "vault",
    "volume",
    "volume_mount",
];
/// Abilities that depend on networks of allocations.
const OF_NETWORKS: &[&str] = &["bridge", "network_none"];
/// Capacity in MHz of a machine that does not report its processor speed.
const CPU_FALLBACK_MHZ: i64 = 1000;
const MB: u64 = 1 << 20;

/// The node's description without identity and drivers.
pub(crate) fn node(config: &ClientConfig) -> Node {
    let mut attributes = BTreeMap::new();
    let mut put = |key: &str, value: String| {
        let wanted = source_of(key).is_none_or(|source| options::is_wanted(config, FINGERPRINT, source));
        if wanted && !value.is_empty() {
            attributes.insert(Str::new(key), Str::new(value));
        }
    };
    let cpu = Cpu::read();
    let compute = config.cpu_total_compute.unwrap_or_else(|| cpu.total_mhz());
    put("cpu.arch", arch().to_owned());
    put("cpu.modelname", cpu.model.clone());
    put("cpu.frequency", cpu.mhz.to_string());
    put("cpu.numcores", cpu.cores.to_string());
    let reservable = reservable_cores(config, &cpu);
    put("cpu.reservablecores", reservable.len().to_string());
    put("cpu.totalcompute", compute.to_string());
    let uname = rustix::system::uname();
    let hostname = uname.nodename().to_string_lossy().into_owned();
    let (os_name, os_version) = os();
    put("os.name", os_name);
    put("os.version", os_version);
    put("kernel.name", std::env::consts::OS.to_owned());
    put("kernel.version", uname.release().to_string_lossy().into_owned());
    put("kernel.arch", uname.machine().to_string_lossy().into_owned());
    put("kernel.landlock", landlock_version());
    put("unique.hostname", hostname.clone());
    put("os.signals", signal::names());
    put("nomad.version", NOMAD_VERSION.to_owned());
    put("nomad.revision", env!("CARGO_PKG_VERSION").to_owned());
    put(AGENT_VERSION, env!("CARGO_PKG_VERSION").to_owned());
    let own_networks = network::Print::read(&config.network);
    for name in EVERYWHERE.iter().chain(&own_networks.abilities) {
        put(&format!("{ABILITY_PREFIX}{name}"), "true".to_owned());
    }
    put("nomad.advertise.address", config.http_addr.to_string());
    put("nomad.service_discovery", config.service_discovery.to_string());
    let memory_bytes = procfs::memory().get("MemTotal").copied().unwrap_or(0);
    put("memory.totalbytes", memory_bytes.to_string());
    let memory_mb = config.memory_total_mb.unwrap_or_else(|| to_mb(memory_bytes));
    let disk = stats::disk_of(&config.alloc_dir()).or_else(|| stats::disk_of(&config.data_dir));
    let mut disk = disk.unwrap_or_default();
    if let Some(mb) = config.disk_free_mb {
        disk.available = u64::try_from(mb).unwrap_or(0) * MB;
    }
    put("unique.storage.volume", disk.device.clone());
    put("unique.storage.bytestotal", disk.size.to_string());
    put("unique.storage.bytesfree", disk.available.to_string());
    let disk_mb = config.disk_total_mb.unwrap_or_else(|| to_mb(disk.available));
    let cgroups = Hierarchy::find(&config.cgroup_parent);
    cgroup_attributes(cgroups.as_ref()).iter().for_each(|(key, value)| put(key, value.clone()));
    let network = Network::read(config);
    put("unique.network.ip-address", network.ip.to_string());
    own_networks.attributes.iter().for_each(|(key, value)| put(key, value.clone()));

    let networks = Some(vec![network.resource()]);
    let of_allocs = own_networks.resources();
    let meta = with_default_meta(config.meta.clone());
    Node {
        datacenter: config.datacenter.clone(),
        name: if config.name.is_empty() { hostname.into() } else { config.name.clone() },
        http_addr: config.http_addr.clone(),
        tls_enabled: config.http_tls,
        node_class: config.node_class.clone(),
        node_pool: config.node_pool.as_str().into(),
        attributes: Some(Arc::new(attributes)),
        node_resources: Some(Arc::new(NodeResources {
            cpu: NodeCpuResources {
                cpu_shares: compute,
                total_cpu_cores: cpu.cores,
                reservable_cpu_cores: Some(reservable),
            },
            memory: NodeMemoryResources { memory_mb },
            disk: NodeDiskResources { disk_mb },
            devices: None,
            node_networks: Some(network.node_resources(config).chain(own_networks.node_resources()).collect()),
            networks: Some(networks.iter().flatten().cloned().chain(of_allocs).collect()),
            min_dynamic_port: config.min_dynamic_port,
            max_dynamic_port: config.max_dynamic_port,
        })),
        reserved_resources: Some(config.reserved.clone()),
        resources: Some(Resources { cpu: compute, memory_mb, disk_mb, networks, ..Resources::default() }),
        reserved: Some(Resources {
            cpu: config.reserved.cpu.cpu_shares,
            memory_mb: config.reserved.memory.memory_mb,
            disk_mb: config.reserved.disk.disk_mb,
            ..Resources::default()
        }),
        cgroup_parent: cgroups.map(|cgroups| cgroups.parent()).unwrap_or_default().into(),
        links: Some(BTreeMap::new()),
        meta: Some(meta),
        host_volumes: Some(config.host_volumes.clone()),
        drivers: Some(BTreeMap::new()),
        csi_controller_plugins: Some(BTreeMap::new()),
        csi_node_plugins: Some(BTreeMap::new()),
        ..Node::default()
    }
}

/// Name of the fingerprint that an attribute is of; `None` for those that every node has.
fn source_of(attribute: &str) -> Option<&'static str> {
    const EXACT: [(&str, &str); 3] = [("cpu.arch", "arch"), ("kernel.landlock", "landlock"), ("os.signals", "signal")];
    const PREFIXES: [(&str, &str); 11] = [
        ("cpu.", "cpu"),
        ("kernel.", "host"),
        ("memory.", "memory"),
        ("nomad.bridge.", "bridge"),
        ("nomad.", "nomad"),
        ("os.", "host"),
        ("plugins.cni.", "plugins_cni"),
        ("unique.cgroup.", "cgroup"),
        ("unique.hostname", "host"),
        ("unique.network.", "network"),
        ("unique.storage.", "storage"),
    ];
    let exact = EXACT.iter().find(|(name, _)| *name == attribute);
    let found = exact.or_else(|| PREFIXES.iter().find(|(prefix, _)| attribute.starts_with(prefix)));
    found.map(|(_, source)| *source)
}

/// Attributes of the control groups; those that are absent are empty.
pub(crate) fn cgroup_attributes(cgroups: Option<&Hierarchy>) -> [(&'static str, String); 2] {
    [
        ("unique.cgroup.mountpoint", cgroups.map(|all| all.mount().display().to_string()).unwrap_or_default()),
        ("unique.cgroup.version", cgroups.map(|all| all.version().to_owned()).unwrap_or_default()),
    ]
}

/// Version of the kernel's Landlock, such as `v3`; empty without it.
fn landlock_version() -> String {
    /// Asks for the version and makes no ruleset.
    const VERSION: libc::c_ulong = 1;
    #[allow(unsafe_code)]
    // SAFETY: with this flag the kernel reads nothing through the pointer, which has to be null.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    if version > 0 { format!("v{version}") } else { String::new() }
}

/// Replaces the networks of allocations that the node offers, and what it tells about their plugins.
pub(crate) fn apply_networks(node: &mut Node, print: &network::Print) {
    let mut resources = node.node_resources.as_deref().cloned().unwrap_or_default();
    let mut networks = resources.networks.take().unwrap_or_default();
    networks.retain(|network| network.mode == "host");
    networks.extend(print.resources());
    let mut with_devices = resources.node_networks.take().unwrap_or_default();
    with_devices.retain(|network| network.mode == "host");
    with_devices.extend(print.node_resources());
    node.node_resources =
        Some(Arc::new(NodeResources { networks: Some(networks), node_networks: Some(with_devices), ..resources }));
    let of_networks = |key: &&Str| {
        let of_networks = ["plugins.cni.", "nomad.bridge."].iter().any(|prefix| key.starts_with(prefix));
        of_networks || OF_NETWORKS.iter().any(|name| **key == format!("{ABILITY_PREFIX}{name}"))
    };
    let known = node.attributes.clone().unwrap_or_default();
    let gone = known.keys().filter(of_networks).map(|key| (key.clone(), Str::default()));
    let abilities = print.abilities.iter().map(|name| (Str::from(format!("{ABILITY_PREFIX}{name}")), "true".into()));
    let told = print.attributes.iter().map(|(key, value)| (Str::from(key.as_str()), Str::from(value.as_str())));
    apply_attributes(node, gone.chain(abilities).chain(told));
}

/// Sets attributes of the node; empty values remove theirs. Returns whether the node has changed.
pub(crate) fn apply_attributes(node: &mut Node, found: impl IntoIterator<Item = (Str, Str)>) -> bool {
    let before = node.attributes.clone().unwrap_or_default();
    let mut attributes = BTreeMap::clone(&before);
    for (key, value) in found {
        if value.is_empty() {
            attributes.remove(&key);
        } else {
            attributes.insert(key, value);
        }
    }
    if attributes == *before {
        return false;
    }
    node.attributes = Some(Arc::new(attributes));
    true
}

/// Adds a driver's fingerprint to the node. Returns whether the node has changed, and whether the driver's health
/// has.
pub(crate) fn apply_driver(node: &mut Node, name: &Str, print: &Fingerprint, now: Time) -> (bool, bool) {
    let mut attributes = node.attributes.as_deref().cloned().unwrap_or_default();
    let mut own: BTreeMap<Str, Str> = print.attributes.clone();
    let flag: Str = format!("driver.{name}").into();
    if print.detected {
        attributes.insert(flag.clone(), "1".into());
    } else {
        attributes.remove(&flag);
        own.clear();
    }
    // `driver.NAME.KEY` are attributes of the node as well, so that jobs can select by them.
    let prefix = format!("{flag}.");
    attributes.retain(|key, _| !key.starts_with(&prefix));
    let further = own.iter().filter(|(key, _)| key.starts_with(&prefix));
    attributes.extend(further.map(|(key, value)| (key.clone(), value.clone())));
    let driver = DriverInfo {
        attributes: Some(own),
        detected: print.detected,
        healthy: print.healthy,
        health_description: print.description.clone(),
        update_time: Some(now),
    };
    let drivers = node.drivers.get_or_insert_default();
    let before = drivers.get(name).cloned();
    if before.is_none() && !print.detected && LISTED_WHEN_DETECTED.contains(&name.as_str()) {
        return (false, false);
    }
    let same = before
        .as_ref()
        .is_some_and(|before| DriverInfo { update_time: before.update_time, ..driver.clone() } == *before);
    let flipped = before.is_some_and(|before| before.healthy != driver.healthy);
    if same {
        return (false, false);
    }
    drivers.insert(name.clone(), driver);
    node.attributes = Some(Arc::new(attributes));
    (true, flipped)
}

/// Adds what the Consul agent says about itself. Returns whether the node has changed.
pub(crate) fn apply_consul(node: &mut Node, print: &consul::Print) -> bool {
    let mut attributes = node.attributes.as_deref().cloned().unwrap_or_default();
    attributes.retain(|key, _| !key.starts_with("consul.") && key != "unique.consul.name");
    attributes.extend(print.attributes.clone());
    let mut links = node.links.clone().unwrap_or_default();
    links.extend(print.link.clone().map(|link| ("consul".into(), link)));
    let changed = node.attributes.as_deref() != Some(&attributes) || node.links.as_ref() != Some(&links);
    node.attributes = Some(Arc::new(attributes));
    node.links = Some(links);
    changed
}

/// Cores that tasks may reserve: those of the configuration that exist, without those that are reserved for the host.
fn reservable_cores(config: &ClientConfig, cpu: &Cpu) -> Vec<u64> {
    let reserved = config.reserved.cpu.reserved_cpu_cores.as_deref().unwrap_or_default();
    let all = 0..cpu.cores;
    let wanted = config.reservable_cores.clone().unwrap_or_else(|| all.clone().collect());
    wanted.into_iter().filter(|core| all.contains(core) && !reserved.contains(core)).collect()
}

/// Processor speed per core, in MHz.
pub(crate) fn mhz_per_core() -> f64 {
    Cpu::read().mhz as f64
}

fn to_mb(bytes: u64) -> i64 {
    i64::try_from(bytes / MB).unwrap_or(i64::MAX)
}

/// Configured metadata, with the defaults of keys that are not configured.
pub(crate) fn with_default_meta(configured: BTreeMap<Str, Str>) -> BTreeMap<Str, Str> {
    let envoy = "docker.io/envoyproxy/envoy:v${NOMAD_envoy_version}";
    let mut meta = BTreeMap::from([
        ("connect.sidecar_image".into(), envoy.into()),
        ("connect.gateway_image".into(), envoy.into()),
        ("connect.log_level".into(), "info".into()),
        ("connect.proxy_concurrency".into(), "1".into()),
    ]);
    meta.extend(configured);
    meta
}

/// Go's name of this architecture.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

struct Cpu {
    model: String,
    mhz: i64,
    cores: u64,
}

impl Cpu {
    fn read() -> Self {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let all = |key: &str| {
            let key = key.to_owned();
            text.lines().filter_map(move |line| {
                line.split_once(':').filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
            })
        };
        let cores = all("processor").count().max(1) as u64;
        let boost = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").unwrap_or_default();
        let khz: Option<i64> = boost.trim().parse().ok();
        let shown = all("cpu MHz").filter_map(|mhz| mhz.parse::<f64>().ok()).fold(0.0, f64::max);
        let mhz = khz.map_or(shown as i64, |khz| khz / 1000);
        Self { model: all("model name").next().unwrap_or_default().to_owned(), mhz, cores }
    }

    fn total_mhz(&self) -> i64 {
        if self.mhz > 0 { self.mhz * i64::try_from(self.cores).unwrap_or(1) } else { CPU_FALLBACK_MHZ }
    }
}

fn os() -> (String, String) {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_owned()).unwrap_or_default()
    };
    (value("ID"), value("VERSION_ID"))
}

struct Network {
    device: String,
    ip: IpAddr,
    mbits: i64,
}

impl Network {
    /// The interface whose addresses jobs get: the configured one; in dev mode the loopback interface; otherwise the
    /// default route's.
    fn read(config: &ClientConfig) -> Self {
        let loopback = || ("lo".to_owned(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let (device, ip) = match config.network_interface.as_str() {
            "" if config.dev => loopback(),
            "" => default_route().unwrap_or_else(loopback),
            name => match preferred(&addresses_of(name), !options::is_set(config, options::NO_LINK_LOCAL)) {
                Some(ip) => (name.to_owned(), IpAddr::V4(ip)),
                None => loopback(),
            },
        };
        Self { mbits: config.network_speed_mbits.unwrap_or_else(|| mbits(&device)), device, ip }
    }

    fn resource(&self) -> NetworkResource {
        let bits = if self.ip.is_ipv4() { 32 } else { 128 };
        NetworkResource {
            mode: "host".into(),
            device: self.device.as_str().into(),
            cidr: format!("{}/{bits}", self.ip).into(),
            ip: self.ip.to_string().into(),
            mbits: self.mbits,
            ..NetworkResource::default()
        }
    }

    /// The interfaces of this host that have an address with a name.
    fn node_resources(&self, config: &ClientConfig) -> impl Iterator<Item = NodeNetworkResource> {
        let found = network::host_addresses(&config.network.host_networks, (&self.device, self.ip));
        found.into_iter().map(|(device, addresses)| NodeNetworkResource {
            mode: "host".into(),
            mac_address: fact(&device, "address").into(),
            speed: mbits(&device),
            device: device.into(),
            addresses: Some(addresses),
        })
    }
}

/// The address of an interface that tasks get: one that is valid on this link only is the last choice, if it is one.
fn preferred(addresses: &[Ipv4Addr], link_local: bool) -> Option<Ipv4Addr> {
    let routed = addresses.iter().find(|address| !address.is_link_local());
    routed.or_else(|| addresses.first().filter(|_| link_local)).copied()
}

/// A text that the kernel tells of an interface; empty if there is none.
fn fact(device: &str, file: &str) -> String {
    fs::read_to_string(format!("/sys/class/net/{device}/{file}")).unwrap_or_default().trim().to_owned()
}

/// Speed of an interface in Mbit/s, or a default where the kernel does not know it.
fn mbits(device: &str) -> i64 {
    fact(device, "speed").parse().ok().filter(|speed| *speed > 0).unwrap_or(1000)
}

/// Interface and source address of the default route.
fn default_route() -> Option<(String, IpAddr)> {
    let device = routes().into_iter().find(|route| route.mask == 0)?.device;
    // Connecting a UDP socket sends nothing; the kernel only chooses a route. The target address is reserved for
    // documentation.
    let socket = UdpSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))).ok()?;
    socket.connect(SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 9))).ok()?;
    Some((device, socket.local_addr().ok()?.ip()))
}

struct Route {
    device: String,
    net: u32,
    mask: u32,
}

fn routes() -> Vec<Route> {
    let text = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let address = |field: Option<&&str>| u32::from_str_radix(field?, 16).ok().map(u32::swap_bytes);
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            Some(Route {
                device: (*fields.first()?).to_owned(),
                net: address(fields.get(1))?,
                mask: address(fields.get(7))?,
            })
        })
        .collect()
}

/// The addresses of an interface: those of this machine in a network that is routed through the interface.
pub(crate) fn addresses_of(device: &str) -> Vec<Ipv4Addr> {
    if device == "lo" {
        return vec![Ipv4Addr::LOCALHOST];
    }
    let text = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut own = Vec::new();
    let mut last = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
        } else if line == "/32 host LOCAL" {
            own.extend(last.filter(|address| !own.contains(address)));
        }
    }
    let nets: Vec<Route> = routes().into_iter().filter(|route| route.device == device && route.mask != 0).collect();
    own.retain(|address| nets.iter().any(|route| u32::from(*address) & route.mask == route.net));
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_the_link_only_is_the_last_choice() {
        let [routed, local] = ["10.0.0.1", "169.254.3.4"].map(|text| text.parse::<Ipv4Addr>().expect("an address"));
        assert_eq!(preferred(&[local, routed], true), Some(routed));
        assert_eq!(preferred(&[local], true), Some(local));
        assert_eq!(preferred(&[local], false), None);
    }

    #[test]
    fn driver_without_its_program_is_listed_unless_it_is_java_or_qemu() {
        let (mut node, absent) = (Node::default(), Fingerprint::undetected("not there"));
        for name in ["docker", "java", "qemu"] {
            apply_driver(&mut node, &name.into(), &absent, Time::default());
        }
        let listed = |node: &Node| node.drivers.iter().flatten().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
        assert_eq!(listed(&node), ["docker"]);
        apply_driver(&mut node, &"java".into(), &Fingerprint::healthy("java"), Time::default());
        apply_driver(&mut node, &"java".into(), &absent, Time::default());
        assert_eq!(listed(&node), ["docker", "java"], "a program that was there and is gone is told");
    }

    #[test]
    fn fingerprints_are_left_out_by_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut config = ClientConfig::dev(dir.path().to_owned());
        let of = |config: &ClientConfig, key: &str| node(config).attribute(key).is_some();
        config.options.insert("fingerprint.denylist".into(), "storage, arch".into());
        let denied = ["cpu.arch", "unique.storage.bytesfree", "cpu.numcores"].map(|key| of(&config, key));
        config.options.insert("fingerprint.allowlist".into(), "arch,host".into());
        let allowed = ["cpu.arch", "kernel.name", "cpu.numcores"].map(|key| of(&config, key));
        assert_eq!((denied, allowed), ([false, false, true], [false, true, false]));
    }

    #[test]
    fn fingerprint_has_every_attribute_that_servers_require() {
        let dir = tempfile::tempdir().expect("a directory");
        let node = node(&ClientConfig::dev(dir.path().to_owned()));
        let needed = [
            "kernel.name",
            "kernel.arch",
            "cpu.arch",
            "cpu.numcores",
            "cpu.totalcompute",
            "memory.totalbytes",
            "os.signals",
        ];
        for name in needed.into_iter().chain([
            "nomad.version",
            "unique.hostname",
            "unique.network.ip-address",
            "unique.storage.bytesfree",
        ]) {
            assert!(node.attribute(name).is_some(), "{name} is missing");
        }
        let resources = node.node_resources.expect("resources");
        assert!(resources.cpu.cpu_shares > 0 && resources.memory.memory_mb > 0 && resources.disk.disk_mb > 0);
        let networks = resources.node_networks.as_ref().expect("networks");
        assert_eq!(networks[0].addresses.as_ref().map(|addresses| addresses[0].alias.clone()), Some("default".into()));
    }
}
