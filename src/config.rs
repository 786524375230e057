//! What an agent is told: the typed configuration. Reading files is in `config/file.rs`, flags are the command line's.

pub mod file;

use std::collections::BTreeMap;
use std::path::PathBuf;

use songline_api::AclSettings;
use songline_client::ClientConfig;
use songline_model::{Dur, SchedulerConfiguration};
use songline_scheduler::leader::gc::GcAges;
use songline_scheduler::leader::heartbeats::HeartbeatLimits;
use songline_scheduler::leader::root_keys::RootKeyAges;

/// Everything that an agent can be told.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Region.
    pub region: String,
    /// Datacenter of server and node.
    pub datacenter: String,
    /// Name of the node; with the region, that of the server.
    pub name: String,
    /// Where everything durable is. Absent with `dev`: a temporary directory that goes on a clean exit.
    pub data_dir: Option<PathBuf>,
    /// A server and a node in memory of one machine.
    pub dev: bool,
    /// Address to listen on.
    pub bind_addr: String,
    /// Port of HTTP; 0 takes a free one.
    pub http_port: u16,
    /// Port of the node RPC and of the servers among each other. Announced only, so far.
    pub rpc_port: u16,
    /// Port of membership. Announced only.
    pub serf_port: u16,
    /// `trace` to `error`.
    pub log_level: String,
    /// Log lines as JSON.
    pub log_json: bool,
    /// Whether routes for debugging answer.
    pub enable_debug: bool,
    /// Headers on every answer.
    pub response_headers: BTreeMap<String, String>,
    /// Whether callers have to show who they are.
    pub acl: AclSettings,
    /// The server, if there is one.
    pub server: Option<ServerConfig>,
    /// The node, if there is one.
    pub client: Option<ClientConfig>,
    /// Whether rate counters tell callers apart.
    pub rpc_rate_labels: bool,
    /// Whether Prometheus may ask.
    pub prometheus_metrics: bool,
    /// How many connections one address may have.
    pub http_max_conns_per_client: usize,
}

/// What a server is told.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// How many evaluations are worked on at a time; 0 takes the number of processors.
    pub num_schedulers: usize,
    /// How often nodes show up.
    pub heartbeats: HeartbeatLimits,
    /// How old garbage gets.
    pub gc: GcAges,
    /// How often garbage is collected.
    pub gc_interval: Dur,
    /// How old root keys get.
    pub root_keys: RootKeyAges,
    /// How often root keys are looked after.
    pub root_key_gc_interval: Dur,
    /// Whether there is an event stream.
    pub enable_event_broker: bool,
    /// How many batches a plain subscriber can go back.
    pub event_buffer_size: usize,
    /// Highest priority of a job.
    pub job_max_priority: i64,
    /// Largest kept source of a job, in bytes.
    pub job_max_source_bytes: u64,
    /// How many versions of a job are kept.
    pub job_tracked_versions: u64,
    /// How long log segments are kept.
    pub log_retention_age: Dur,
    /// How many bytes of log segments are kept.
    pub log_retention_bytes: u64,
    /// How the cluster schedules until somebody says otherwise.
    pub default_scheduler_config: SchedulerConfiguration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            num_schedulers: 0,
            heartbeats: HeartbeatLimits::default(),
            gc: GcAges::default(),
            gc_interval: Dur::from_mins(5),
            root_keys: RootKeyAges::default(),
            root_key_gc_interval: Dur::from_mins(10),
            enable_event_broker: true,
            event_buffer_size: 100,
            job_max_priority: 100,
            job_max_source_bytes: 1_000_000,
            job_tracked_versions: 6,
            log_retention_age: Dur::from_hours(7 * 24),
            log_retention_bytes: 8 << 30,
            default_scheduler_config: default_scheduler_config(),
        }
    }
}

/// How a new cluster schedules: binpack, and system jobs may evict others.
pub fn default_scheduler_config() -> SchedulerConfiguration {
    let mut config = SchedulerConfiguration::default();
    config.preemption_config.system_scheduler_enabled = true;
    config
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            region: "global".into(),
            datacenter: "dc1".into(),
            name: host_name(),
            data_dir: None,
            acl: AclSettings::default(),
            dev: false,
            bind_addr: "0.0.0.0".into(),
            http_port: 4646,
            rpc_port: 4647,
            serf_port: 4648,
            log_level: "info".into(),
            log_json: false,
            enable_debug: false,
            response_headers: BTreeMap::new(),
            server: None,
            client: None,
            rpc_rate_labels: true,
            prometheus_metrics: false,
            http_max_conns_per_client: 100,
        }
    }
}

impl AgentConfig {
    /// A server and a node for one machine, with every driver, everything in a temporary directory.
    pub fn dev() -> Self {
        let client = ClientConfig::dev(PathBuf::new());
        Self {
            dev: true,
            bind_addr: "127.0.0.1".into(),
            enable_debug: true,
            prometheus_metrics: true,
            server: Some(ServerConfig::default()),
            client: Some(client),
            ..Self::default()
        }
    }
}

impl AgentConfig {
    /// Says what is missing or contradicts itself.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.server.is_none() && self.client.is_none() {
            anyhow::bail!("Must specify either server, client or dev mode for the agent.");
        }
        match &self.data_dir {
            None if !self.dev => anyhow::bail!("Must specify \"data_dir\" config option or \"data-dir\" CLI flag"),
            Some(dir) if !dir.is_absolute() => anyhow::bail!("data-dir must be given as an absolute path: got {}", dir.display()),
            _ => {}
        }
        if self.region.contains('\0') {
            anyhow::bail!("Region contains invalid characters");
        }
        if self.datacenter.contains(['\0', '*']) {
            anyhow::bail!("Datacenter contains invalid characters (null or '*')");
        }
        if let Some(client) = &self.client {
            if client.min_dynamic_port > client.max_dynamic_port {
                let (min, max) = (client.min_dynamic_port, client.max_dynamic_port);
                anyhow::bail!("Invalid dynamic port range: min_dynamic_port={min} and max_dynamic_port={max}");
            }
            if client.node_pool == songline_model::ALL_NODE_POOL {
                anyhow::bail!("Invalid node pool: \"all\" is not allowed for a node");
            }
            if client.host_volumes.values().any(|volume| volume.path.is_empty()) {
                anyhow::bail!("Missing path in host_volume config");
            }
        }
        Ok(())
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
