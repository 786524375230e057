//! What an agent is told before it starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use songline_model::{ClientHostVolumeConfig, Dur, NodeReservedResources, Str};

use crate::about::AboutAgent;
use crate::task_api::TaskApi;

/// Configuration of a node agent.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// A server and a node in one process on one machine: nothing waits long, `raw_exec` is on.
    pub dev: bool,
    /// Name of the node; empty is the host's name.
    pub name: Str,
    /// Its datacenter.
    pub datacenter: Str,
    /// Its region; tasks see it.
    pub region: Str,
    /// Its node pool.
    pub node_pool: Str,
    /// Its class, free to choose.
    pub node_class: Str,
    /// What jobs may select by; `unique.` keys do not enter the computed class.
    pub meta: BTreeMap<Str, Str>,
    /// Where everything durable is: `state` and `alloc` below it.
    pub data_dir: PathBuf,
    /// Where HTTP requests for this node are answered, `host:port`.
    pub http_addr: Str,
    /// The servers that it meets first, `host` or `host:port`; what they answer replaces this.
    pub servers: Vec<Str>,
    /// Options by driver name, as in `plugin "raw_exec" { config { .. } }`.
    pub plugins: BTreeMap<Str, serde_json::Map<String, serde_json::Value>>,
    /// Further options (`driver.allowlist`, `fingerprint.network.disallow_link_local`, ..).
    pub options: BTreeMap<Str, Str>,
    /// Directories of this host that jobs may mount.
    pub host_volumes: BTreeMap<Str, ClientHostVolumeConfig>,
    /// What is kept back from jobs.
    pub reserved: NodeReservedResources,
    /// The interface whose address jobs get; empty is that of the default route.
    pub network_interface: Str,
    /// Processor capacity in MHz, instead of what the machine says.
    pub cpu_total_compute: Option<i64>,
    /// Memory in MB, instead of what the machine says.
    pub memory_total_mb: Option<i64>,
    /// Disk in MB, instead of what the machine says.
    pub disk_total_mb: Option<i64>,
    /// Lowest port that is handed out.
    pub min_dynamic_port: i64,
    /// Highest port that is handed out.
    pub max_dynamic_port: i64,
    /// The longest a task may take to end.
    pub kill_timeout_max: Dur,
    /// The cgroup, below the mounts, that has those of all tasks; empty is the usual one.
    pub cgroup_parent: Str,
    /// How often terminal allocations are looked through.
    pub gc_interval: Dur,
    /// How many allocations stay on this node before the oldest terminal ones are collected.
    pub gc_allocs_max: usize,
    /// Percent of the disk in use above which the oldest terminal allocations are collected.
    pub gc_disk_usage_percent: f64,
    /// Whether nobody may run commands in tasks of this node.
    pub disable_remote_exec: bool,
    /// The program that supervises tasks, with its first arguments; empty is this program and `executor`.
    pub executor: Vec<PathBuf>,
    /// Answers what tasks ask over the socket in their secrets. `None`: they have no such socket.
    pub task_api: Option<Arc<dyn TaskApi>>,
    /// Answers what servers ask about the agent. `None`: there is nothing to be told.
    pub about: Option<Arc<dyn AboutAgent>>,
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
            options: BTreeMap::new(),
            host_volumes: BTreeMap::new(),
            reserved: NodeReservedResources::default(),
            network_interface: Str::default(),
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
            about: None,
        }
    }
}

impl ClientConfig {
    /// The defaults of `agent -dev`.
    pub fn dev(data_dir: PathBuf) -> Self {
        Self { dev: true, data_dir, gc_interval: Dur::from_mins(10), gc_disk_usage_percent: 99.0, ..Self::default() }
    }

    /// A boolean option of a driver; `otherwise` when nothing is said.
    pub(crate) fn plugin_flag(&self, driver: &str, option: &str, otherwise: bool) -> bool {
        match self.plugins.get(driver).and_then(|options| options.get(option)) {
            Some(serde_json::Value::Bool(flag)) => *flag,
            Some(serde_json::Value::String(text)) => matches!(text.as_str(), "true" | "1"),
            Some(_) | None => otherwise,
        }
    }

    /// Where the agent's own state is.
    pub fn state_dir(&self) -> PathBuf {
        self.data_dir.join("state")
    }

    /// Where allocations have their directories.
    pub fn alloc_dir(&self) -> PathBuf {
        self.data_dir.join("alloc")
    }

    /// Where executors and the agent meet, one directory per run of a task.
    pub(crate) fn runs_dir(&self) -> PathBuf {
        self.data_dir.join("state").join("runs")
    }

    /// The command that starts an executor.
    pub(crate) fn executor_command(&self) -> std::io::Result<Vec<PathBuf>> {
        if self.executor.is_empty() { Ok(vec![std::env::current_exe()?, "executor".into()]) } else { Ok(self.executor.clone()) }
    }
}
