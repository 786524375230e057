//! Descriptions of simulated nodes for their registration: identity, attributes, resources, networks and drivers of a machine with Linux.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use songline_model::{
    DriverInfo, NetworkResource, Node, NodeCpuResources, NodeDiskResources, NodeId, NodeMemoryResources,
    NodeNetworkAddress, NodeNetworkResource, NodeReservedResources, NodeResources, NodeStatus, Resources, Secret, Str,
    Time,
};
use songline_rpc::NodeAuth;
use uuid::{Builder, Uuid};

/// Port of the nodes' HTTP addresses. Nothing listens there.
const HTTP_PORT: u16 = 4646;
const INTERFACE: &str = "eth0";
const SPEED_MBITS: i64 = 10_000;
/// Signals as Linux agents list them.
const SIGNALS: &str = "SIGABRT,SIGALRM,SIGBUS,SIGCHLD,SIGCONT,SIGFPE,SIGHUP,SIGILL,SIGINT,SIGIO,SIGIOT,SIGKILL,SIGNULL,SIGPIPE,\
SIGPROF,SIGQUIT,SIGSEGV,SIGSTOP,SIGSYS,SIGTERM,SIGTRAP,SIGTSTP,SIGTTIN,SIGTTOU,SIGURG,SIGUSR1,SIGUSR2,SIGWINCH,SIGXCPU,SIGXFSZ";

/// Description of the nodes of a fleet.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Beginning of the names; the number of the node follows.
    pub name_prefix: String,
    /// Ids and secrets follow from this text and the number of the node, so that a fleet that starts again has the same
    /// nodes. `None`: random ones.
    pub id_seed: Option<String>,
    /// Datacenters, node classes and node pools: every combination is used equally often. An empty list is the default.
    pub datacenters: Vec<Str>,
    /// See `datacenters`.
    pub node_classes: Vec<Str>,
    /// See `datacenters`.
    pub node_pools: Vec<Str>,
    /// Capacity in MHz.
    pub cpu_mhz: i64,
    /// Number of cores.
    pub cores: u64,
    /// Memory in MB.
    pub memory_mb: i64,
    /// Disk in MB.
    pub disk_mb: i64,
    /// Names of healthy drivers.
    pub drivers: Vec<Str>,
    /// Version that the nodes have; servers gate features on it.
    pub nomad_version: Str,
    /// Further attributes, which take precedence.
    pub attributes: BTreeMap<Str, Str>,
    /// Metadata.
    pub meta: BTreeMap<Str, Str>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            name_prefix: "sim-".to_owned(),
            id_seed: None,
            datacenters: Vec::new(),
            node_classes: Vec::new(),
            node_pools: Vec::new(),
            cpu_mhz: 100_000,
            cores: 32,
            memory_mb: 262_144,
            disk_mb: 1_000_000,
            drivers: vec!["mock_driver".into(), "raw_exec".into()],
            nomad_version: "1.6.5".into(),
            attributes: BTreeMap::new(),
            meta: BTreeMap::new(),
        }
    }
}

impl Profile {
    /// Identity of node number `n`.
    pub(super) fn auth(&self, n: usize) -> NodeAuth {
        let uuid = |what: &str| match &self.id_seed {
            Some(seed) => seeded(&format!("{seed}/{what}/{n}")),
            None => Uuid::new_v4(),
        };
        NodeAuth { id: NodeId::from(uuid("id")), secret: Secret::new(uuid("secret").to_string()) }
    }

    /// Description of node number `n` for its registration at `now`.
    pub(super) fn node(&self, n: usize, auth: &NodeAuth, now: Time) -> Node {
        let classes = self.datacenters.len().max(1);
        let pools = classes * self.node_classes.len().max(1);
        let name = format!("{}{n}", self.name_prefix);
        let ip = address(n);
        let network = NetworkResource {
            mode: "host".into(),
            device: INTERFACE.into(),
            cidr: format!("{ip}/32").into(),
            ip: ip.to_string().into(),
            mbits: SPEED_MBITS,
            ..NetworkResource::default()
        };
        let (cpu, memory_mb, disk_mb) = (self.cpu_mhz, self.memory_mb, self.disk_mb);
        Node {
            id: auth.id,
            secret_id: auth.secret.clone(),
            datacenter: turn(&self.datacenters, n).unwrap_or_else(|| "dc1".into()),
            node_class: turn(&self.node_classes, n / classes).unwrap_or_default(),
            node_pool: turn(&self.node_pools, n / pools).unwrap_or_else(|| "default".into()).as_str().into(),
            http_addr: format!("{ip}:{HTTP_PORT}").into(),
            attributes: Some(Arc::new(self.attributes(&name, ip))),
            node_resources: Some(Arc::new(self.resources(ip, &network))),
            reserved_resources: Some(NodeReservedResources::default()),
            resources: Some(Resources {
                cpu,
                memory_mb,
                disk_mb,
                networks: Some(vec![network]),
                ..Resources::default()
            }),
            reserved: Some(Resources::default()),
            links: Some(BTreeMap::new()),
            meta: Some(self.meta.clone()),
            drivers: Some(self.drivers.iter().map(|name| (name.clone(), driver(now))).collect()),
            host_volumes: Some(BTreeMap::new()),
            csi_controller_plugins: Some(BTreeMap::new()),
            csi_node_plugins: Some(BTreeMap::new()),
            status: NodeStatus::Initializing,
            name: name.into(),
            ..Node::default()
        }
    }

    fn attributes(&self, name: &str, ip: Ipv4Addr) -> BTreeMap<Str, Str> {
        let bytes = |mb: i64| mb.saturating_mul(1 << 20).to_string();
        let own = [
            ("cpu.arch", "amd64".to_owned()),
            ("cpu.modelname", "simulated".to_owned()),
            ("cpu.frequency", (self.cpu_mhz / i64::try_from(self.cores.max(1)).unwrap_or(i64::MAX)).to_string()),
            ("cpu.numcores", self.cores.to_string()),
            ("cpu.reservablecores", self.cores.to_string()),
            ("cpu.totalcompute", self.cpu_mhz.to_string()),
            ("kernel.arch", "x86_64".to_owned()),
            ("kernel.name", "linux".to_owned()),
            ("kernel.version", "6.1.0".to_owned()),
            ("memory.totalbytes", bytes(self.memory_mb)),
            ("nomad.advertise.address", format!("{ip}:{HTTP_PORT}")),
            ("nomad.revision", "simulated".to_owned()),
            ("nomad.service_discovery", "true".to_owned()),
            ("nomad.version", self.nomad_version.to_string()),
            ("os.name", "simulated".to_owned()),
            ("os.signals", SIGNALS.to_owned()),
            ("os.version", "1".to_owned()),
            ("unique.cgroup.mountpoint", "/sys/fs/cgroup".to_owned()),
            ("unique.cgroup.version", "v2".to_owned()),
            ("unique.hostname", name.to_owned()),
            ("unique.network.ip-address", ip.to_string()),
            ("unique.storage.bytesfree", bytes(self.disk_mb)),
            ("unique.storage.bytestotal", bytes(self.disk_mb)),
            ("unique.storage.volume", "/dev/vda1".to_owned()),
        ];
        let drivers = self.drivers.iter().map(|name| (Str::from(format!("driver.{name}")), Str::from("1")));
        let own = own.into_iter().map(|(key, value)| (Str::new(key), Str::from(value)));
        own.chain(drivers).chain(self.attributes.clone()).collect()
    }

    fn resources(&self, ip: Ipv4Addr, network: &NetworkResource) -> NodeResources {
        let address = NodeNetworkAddress {
            family: "ipv4".into(),
            alias: "default".into(),
            address: ip.to_string().into(),
            ..NodeNetworkAddress::default()
        };
        let cores = u16::try_from(self.cores).unwrap_or(u16::MAX);
        NodeResources {
            cpu: NodeCpuResources {
                cpu_shares: self.cpu_mhz,
                total_cpu_cores: self.cores,
                reservable_cpu_cores: Some((0..u64::from(cores)).collect()),
            },
            memory: NodeMemoryResources { memory_mb: self.memory_mb },
            disk: NodeDiskResources { disk_mb: self.disk_mb },
            networks: Some(vec![network.clone()]),
            node_networks: Some(vec![NodeNetworkResource {
                mode: "host".into(),
                device: INTERFACE.into(),
                speed: SPEED_MBITS,
                addresses: Some(vec![address]),
                ..NodeNetworkResource::default()
            }]),
            min_dynamic_port: 20_000,
            max_dynamic_port: 32_000,
            ..NodeResources::default()
        }
    }
}

fn driver(now: Time) -> DriverInfo {
    DriverInfo {
        detected: true,
        healthy: true,
        health_description: "Healthy".into(),
        update_time: Some(now),
        ..DriverInfo::default()
    }
}

/// The entry of a list that is number `n`'s turn; `None` of an empty list.
fn turn(list: &[Str], n: usize) -> Option<Str> {
    list.get(n.checked_rem(list.len())?).cloned()
}

/// Address of node number `n` in `10.0.0.0/8`. Addresses repeat after 16 million nodes.
fn address(n: usize) -> Ipv4Addr {
    let [_, b, c, d] = u32::try_from((n + 1) & 0x00ff_ffff).unwrap_or(0).to_be_bytes();
    Ipv4Addr::new(10, b, c, d)
}

fn seeded(text: &str) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
    Builder::from_random_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_makes_the_same_identities_again() {
        let seeded = Profile { id_seed: Some("a".to_owned()), ..Profile::default() };
        assert_eq!(seeded.auth(7).id, seeded.auth(7).id);
        assert_ne!(seeded.auth(7).id, seeded.auth(8).id);
        assert_ne!(Profile::default().auth(7).id, Profile::default().auth(7).id);
    }

    #[test]
    fn every_combination_of_datacenter_class_and_pool_is_used() {
        let lists = Profile {
            datacenters: vec!["a".into(), "b".into()],
            node_classes: vec!["small".into(), "large".into()],
            node_pools: vec!["default".into(), "gpu".into()],
            ..Profile::default()
        };
        let nodes: std::collections::BTreeSet<_> = (0..8)
            .map(|n| lists.node(n, &lists.auth(n), Time::default()))
            .map(|node| (node.datacenter, node.node_class, node.node_pool.to_string()))
            .collect();
        assert_eq!(nodes.len(), 8);
    }
}
