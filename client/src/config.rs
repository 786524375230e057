//! Configuration of a node agent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use songline_model::{ClientHostVolumeConfig, Dur, NodeReservedResources, Str};
use songline_rpc::world::{Machine, World};

use crate::about::AboutAgent;
use crate::artifact::ArtifactSettings;
use crate::consul::ConsulSettings;
use crate::network::NetworkSettings;
use crate::task_api::TaskApi;
use crate::template::{ServerReads, TemplateSettings};
use crate::vault::VaultSettings;

/// Configuration of a node agent.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Dev mode: a server and a node in one process on one machine, with short delays and `raw_exec` enabled.
    pub dev: bool,
    /// Name of the node; empty takes the host's name.
    pub name: Str,
    /// Datacenter of the node.
    pub datacenter: Str,
    /// Region of the node; tasks see it.
    pub region: Str,
    /// Node pool.
    pub node_pool: Str,
    /// Node class, a free text.
    pub node_class: Str,
    /// Metadata that jobs may select by; `unique.` keys do not enter the computed class.
    pub meta: BTreeMap<Str, Str>,
    /// Directory of everything durable, with `state` and `alloc` below it.
    pub data_dir: PathBuf,
    /// Directory of the agent's own state, in place of that below `data_dir`.
    pub own_state_dir: Option<PathBuf>,
    /// Parent of the allocations' directories, in place of that below `data_dir`.
    pub own_alloc_dir: Option<PathBuf>,
    /// Whether the node's id is random. Otherwise it follows from the machine's own id, so that a node that lost its
    /// data directory keeps its id.
    pub no_host_uuid: bool,
    /// Address of the HTTP interface for this node, `host:port`.
    pub http_addr: Str,
    /// Initial servers, `host` or `host:port`; the servers' answers replace this list.
    pub servers: Vec<Str>,
    /// Options by driver name, as in `plugin "raw_exec" { config { .. } }`.
    pub plugins: BTreeMap<Str, serde_json::Map<String, serde_json::Value>>,
    /// Whether the HTTP interfaces of nodes use TLS, that of this node too.
    pub http_tls: bool,
    /// Certificates by which the HTTP interfaces of other nodes are verified, in PEM; empty means the system's.
    pub http_ca_pem: Vec<String>,
    /// Further options (`driver.allowlist`, `fingerprint.network.disallow_link_local`, ..).
    pub options: BTreeMap<Str, Str>,
    /// Directories of this host that jobs may mount.
    pub host_volumes: BTreeMap<Str, ClientHostVolumeConfig>,
    /// Resources that are reserved for the host.
    pub reserved: NodeReservedResources,
    /// Network interface whose address jobs get; empty takes the interface of the default route.
    pub network_interface: Str,
    /// Speed of the network interface in Mbit/s, in place of the fingerprinted one.
    pub network_speed_mbits: Option<i64>,
    /// Networks of allocations, and names of this host's addresses.
    pub network: NetworkSettings,
    /// Processor capacity in MHz, in place of the fingerprinted one.
    pub cpu_total_compute: Option<i64>,
    /// Memory in MB, in place of the fingerprinted one.
    pub memory_total_mb: Option<i64>,
    /// Disk in MB, in place of the fingerprinted one.
    pub disk_total_mb: Option<i64>,
    /// Free disk in MB, in place of the fingerprinted one.
    pub disk_free_mb: Option<i64>,
    /// Processor cores that tasks may reserve, in place of all of them.
    pub reservable_cores: Option<Vec<u64>>,
    /// Whether services of jobs may be kept by the servers.
    pub service_discovery: bool,
    /// Lowest dynamic port.
    pub min_dynamic_port: i64,
    /// Highest dynamic port.
    pub max_dynamic_port: i64,
    /// Upper bound of tasks' kill timeouts.
    pub kill_timeout_max: Dur,
    /// Cgroup below the mounts that is the parent of all tasks' cgroups; empty takes the default one.
    pub cgroup_parent: Str,
    /// Files and directories of the host that tasks of `exec` see, with their places in the task's root. Empty takes
    /// the driver's own list.
    pub chroot_env: BTreeMap<Str, Str>,
    /// Interval of garbage collection of terminal allocations.
    pub gc_interval: Dur,
    /// Number of allocations on this node above which the oldest terminal ones are collected.
    pub gc_allocs_max: usize,
    /// Percent of the disk in use above which the oldest terminal allocations are collected.
    pub gc_disk_usage_percent: f64,
    /// Percent of the inodes in use above which the oldest terminal allocations are collected.
    pub gc_inode_usage_percent: f64,
    /// Number of allocations that are collected concurrently.
    pub gc_parallel_destroys: usize,
    /// Drain of the node before its agent stops. `None`: it is not drained.
    pub drain_on_shutdown: Option<DrainOnShutdown>,
    /// Bounds of fetching artifacts.
    pub artifact: ArtifactSettings,
    /// Whether running commands in tasks of this node is disabled.
    pub disable_remote_exec: bool,
    /// The executor program, which supervises tasks, with its first arguments; empty takes this program and
    /// `executor`.
    pub executor: Vec<PathBuf>,
    /// Answers requests of tasks over the socket in their secrets directories. `None`: tasks have no such socket.
    pub task_api: Option<Arc<dyn TaskApi>>,
    /// Limits of templates, and how servers are asked for their data.
    pub template: TemplateSettings,
    /// The node's Consul agent. `None`: the node has none.
    pub consul: Option<ConsulSettings>,
    /// Vault, for tasks with a `vault` block. `None`: the node has none.
    pub vault: Option<VaultSettings>,
    /// Reads of the servers' API for templates. `None`: templates wait for answers that do not come.
    pub server_reads: Option<Arc<dyn ServerReads>>,
    /// Answers servers' requests about the agent. `None`: such requests are refused.
    pub about: Option<Arc<dyn AboutAgent>>,
    /// Gauges that the node publishes for the metrics of its agent.
    pub publish: PublishSettings,
    /// The machine that the node runs on.
    pub world: Arc<dyn World>,
}

/// Gauges that a node publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishSettings {
    /// Those of the machine, and of what allocations have of it.
    pub node: bool,
    /// Those of tasks.
    pub allocs: bool,
    /// Interval between two readings.
    pub interval: Dur,
}

impl Default for PublishSettings {
    fn default() -> Self {
        Self { node: false, allocs: false, interval: Dur::from_secs(1) }
    }
}

/// Drain of a node before its agent stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainOnShutdown {
    /// Time after which remaining allocations are stopped.
    pub deadline: Dur,
    /// Whether allocations of system jobs stay.
    pub ignore_system_jobs: bool,
    /// Whether all allocations are stopped at once.
    pub force: bool,
}

impl Default for DrainOnShutdown {
    fn default() -> Self {
        Self { deadline: Dur::from_hours(1), ignore_system_jobs: false, force: false }
    }
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            dev: false,
            name: Str::default(),
            datacenter: "dc1".into(),
            region: "global".into(),
            node_pool: songline_model::DEFAULT_NODE_POOL.into(),
            node_class: Str::default(),
            meta: BTreeMap::new(),
            data_dir: PathBuf::new(),
            own_state_dir: None,
            own_alloc_dir: None,
            no_host_uuid: true,
            http_addr: Str::default(),
            servers: Vec::new(),
            plugins: BTreeMap::new(),
            http_tls: false,
            http_ca_pem: Vec::new(),
            options: BTreeMap::new(),
            host_volumes: BTreeMap::new(),
            reserved: NodeReservedResources::default(),
            network_interface: Str::default(),
            network_speed_mbits: None,
            network: NetworkSettings::default(),
            cpu_total_compute: None,
            memory_total_mb: None,
            disk_total_mb: None,
            disk_free_mb: None,
            reservable_cores: None,
            service_discovery: true,
            min_dynamic_port: 20000,
            max_dynamic_port: 32000,
            kill_timeout_max: Dur::from_secs(30),
            cgroup_parent: Str::default(),
            chroot_env: BTreeMap::new(),
            gc_interval: Dur::from_mins(1),
            gc_allocs_max: 50,
            gc_disk_usage_percent: 80.0,
            gc_inode_usage_percent: 70.0,
            gc_parallel_destroys: 2,
            drain_on_shutdown: None,
            artifact: ArtifactSettings::default(),
            disable_remote_exec: false,
            executor: Vec::new(),
            task_api: None,
            template: TemplateSettings::default(),
            consul: None,
            vault: None,
            server_reads: None,
            about: None,
            publish: PublishSettings::default(),
            world: Arc::new(Machine::default()),
        }
    }
}

impl ClientConfig {
    /// Defaults of `agent -dev`.
    pub fn dev(data_dir: PathBuf) -> Self {
        Self {
            dev: true,
            data_dir,
            gc_interval: Dur::from_mins(10),
            gc_disk_usage_percent: 99.0,
            gc_inode_usage_percent: 99.0,
            ..Self::default()
        }
    }

    /// A boolean option of a driver; `otherwise` when it is not set.
    pub(crate) fn plugin_flag(&self, driver: &str, option: &str, otherwise: bool) -> bool {
        match self.plugins.get(driver).and_then(|options| options.get(option)) {
            Some(serde_json::Value::Bool(flag)) => *flag,
            Some(serde_json::Value::String(text)) => matches!(text.as_str(), "true" | "1"),
            Some(_) | None => otherwise,
        }
    }

    /// Directory of the agent's own state.
    pub fn state_dir(&self) -> PathBuf {
        self.own_state_dir.clone().unwrap_or_else(|| self.data_dir.join("state"))
    }

    /// Parent of the allocations' directories.
    pub fn alloc_dir(&self) -> PathBuf {
        self.own_alloc_dir.clone().unwrap_or_else(|| self.data_dir.join("alloc"))
    }

    /// Parent of the directories that the agent shares with executors, one for each run of a task.
    pub(crate) fn runs_dir(&self) -> PathBuf {
        self.state_dir().join("runs")
    }

    /// Command that starts an executor.
    pub(crate) fn executor_command(&self) -> std::io::Result<Vec<PathBuf>> {
        if self.executor.is_empty() {
            Ok(vec![std::env::current_exe()?, "executor".into()])
        } else {
            Ok(self.executor.clone())
        }
    }
}
