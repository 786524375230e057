//! Configuration of a node agent.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use songline_model::{ClientHostVolumeConfig, Dur, NodeReservedResources, Str};
use songline_rpc::world::{Machine, World};

use crate::about::AboutAgent;
use crate::consul::ConsulSettings;
use crate::network::NetworkSettings;
use crate::task_api::TaskApi;
use crate::template::{ServerReads, TemplateSettings};

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
    /// Networks of allocations, and names of this host's addresses.
    pub network: NetworkSettings,
    /// Processor capacity in MHz, in place of the fingerprinted one.
    pub cpu_total_compute: Option<i64>,
    /// Memory in MB, in place of the fingerprinted one.
    pub memory_total_mb: Option<i64>,
    /// Disk in MB, in place of the fingerprinted one.
    pub disk_total_mb: Option<i64>,
    /// Lowest dynamic port.
    pub min_dynamic_port: i64,
    /// Highest dynamic port.
    pub max_dynamic_port: i64,
    /// Upper bound of tasks' kill timeouts.
    pub kill_timeout_max: Dur,
    /// Cgroup below the mounts that is the parent of all tasks' cgroups; empty takes the default one.
    pub cgroup_parent: Str,
    /// Interval of garbage collection of terminal allocations.
    pub gc_interval: Dur,
    /// Number of allocations on this node above which the oldest terminal ones are collected.
    pub gc_allocs_max: usize,
    /// Percent of the disk in use above which the oldest terminal allocations are collected.
    pub gc_disk_usage_percent: f64,
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
    /// Reads of the servers' API for templates. `None`: templates wait for answers that do not come.
    pub server_reads: Option<Arc<dyn ServerReads>>,
    /// Answers servers' requests about the agent. `None`: such requests are refused.
    pub about: Option<Arc<dyn AboutAgent>>,
    /// The machine that the node runs on.
    pub world: Arc<dyn World>,
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
            http_addr: Str::default(),
            servers: Vec::new(),
            plugins: BTreeMap::new(),
            http_tls: false,
            http_ca_pem: Vec::new(),
            options: BTreeMap::new(),
            host_volumes: BTreeMap::new(),
            reserved: NodeReservedResources::default(),
            network_interface: Str::default(),
            network: NetworkSettings::default(),
            cpu_total_compute: None,
            memory_total_mb: None,
            disk_total_mb: None,
            min_dynamic_port: 20000,
            max_dynamic_port: 32000,
            kill_timeout_max: Dur::from_secs(30),
            cgroup_parent: Str::default(),
            gc_interval: Dur::from_mins(1),
            gc_allocs_max: 50,
            gc_disk_usage_percent: 80.0,
            disable_remote_exec: false,
            executor: Vec::new(),
            task_api: None,
            template: TemplateSettings::default(),
            consul: None,
            server_reads: None,
            about: None,
            world: Arc::new(Machine::default()),
        }
    }
}

impl ClientConfig {
    /// Defaults of `agent -dev`.
    pub fn dev(data_dir: PathBuf) -> Self {
        Self { dev: true, data_dir, gc_interval: Dur::from_mins(10), gc_disk_usage_percent: 99.0, ..Self::default() }
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
        self.data_dir.join("state")
    }

    /// Parent of the allocations' directories.
    pub fn alloc_dir(&self) -> PathBuf {
        self.data_dir.join("alloc")
    }

    /// Parent of the directories that the agent shares with executors, one for each run of a task.
    pub(crate) fn runs_dir(&self) -> PathBuf {
        self.data_dir.join("state").join("runs")
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
