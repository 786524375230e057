//! What an agent is told: the typed configuration. Reading files is in `config/file.rs`, flags are the command line's.

pub mod file;
pub mod network;

use std::collections::BTreeMap;
use std::path::PathBuf;

use songline_api::AclSettings;
use songline_client::ClientConfig;
use songline_log::Retention;
use songline_model::{Dur, SchedulerConfiguration, Str};
use songline_scheduler::leader::gc::GcAges;
use songline_scheduler::leader::heartbeats::HeartbeatLimits;
use songline_scheduler::leader::root_keys::RootKeyAges;

use network::{Addresses, DEFAULT_RPC_PORT, EncryptKey, JoinConfig, TlsConfig};

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
    /// Port of the node RPC and of the servers among each other; 0 takes a free one.
    pub rpc_port: u16,
    /// A second port for the same, which configurations for the reference name when they name a server to join; 0 takes a free one.
    pub serf_port: u16,
    /// Addresses to listen on where `bind_addr` is not meant.
    pub addresses: Addresses,
    /// What others are told to dial, `host` or `host:port`, where that is not what is listened on.
    pub advertise: Addresses,
    /// Certificates, and what they are for.
    pub tls: TlsConfig,
    /// Whether a server that is interrupted leaves the cluster first.
    pub leave_on_interrupt: bool,
    /// Whether a server that is terminated leaves the cluster first.
    pub leave_on_terminate: bool,
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
    /// Which servers the node joins, beside those of `client.servers`.
    pub client_join: JoinConfig,
    /// Whether rate counters tell callers apart.
    pub rpc_rate_labels: bool,
    /// Whether summaries of dispatched jobs are among the metrics.
    pub dispatched_metrics: bool,
    /// Whether Prometheus may ask.
    pub prometheus_metrics: bool,
    /// How many connections of HTTP one address may have; 0 is no bound.
    pub http_max_conns_per_client: usize,
    /// How long a handshake of TLS may take on the HTTP port.
    pub https_handshake_timeout: Dur,
    /// How long a connection to the servers' port may keep silent before it says what it is, and how long a handshake of TLS may take.
    pub rpc_handshake_timeout: Dur,
    /// How many connections to the servers' port one address may have; 0 is no bound.
    pub rpc_max_conns_per_client: usize,
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
    /// How many of the newest entries of the log are always kept, because consensus needs them. Not a key of configuration files.
    pub log_retention_entries_min: u64,
    /// How the cluster schedules until somebody says otherwise.
    pub default_scheduler_config: SchedulerConfiguration,
    /// How many servers, this one counted, must have found each other before they elect the first leader of a new cluster; 0 joins a
    /// cluster that there is.
    pub bootstrap_expect: usize,
    /// Whom to join.
    pub join: JoinConfig,
    /// What servers prove to each other that they have.
    pub encrypt: Option<EncryptKey>,
    /// Whether other servers are accepted that prove nothing: for clusters that are being moved to certificates or an `encrypt` key.
    pub allow_unauthenticated_peers: bool,
    /// Whether this server only follows: it has all that the others have, and no vote.
    pub non_voting_server: bool,
    /// Whether a server that has left joins again when it is started.
    pub rejoin_after_leave: bool,
}

impl ServerConfig {
    /// Whether this server is a cluster of its own from the start: it was told so, or it was told of nobody else.
    pub fn starts_alone(&self) -> bool {
        self.bootstrap_expect == 1 || (self.bootstrap_expect == 0 && self.join.is_empty())
    }

    /// Whether this server was told of no other: it expects none and joins none.
    pub fn is_lone(&self) -> bool {
        self.bootstrap_expect <= 1 && self.join.is_empty()
    }
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
            log_retention_entries_min: Retention::default().entries_min,
            default_scheduler_config: default_scheduler_config(),
            bootstrap_expect: 0,
            join: JoinConfig::default(),
            encrypt: None,
            allow_unauthenticated_peers: false,
            non_voting_server: false,
            rejoin_after_leave: false,
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
            addresses: Addresses::default(),
            advertise: Addresses::default(),
            tls: TlsConfig::default(),
            leave_on_interrupt: false,
            leave_on_terminate: false,
            log_level: "info".into(),
            log_json: false,
            enable_debug: false,
            response_headers: BTreeMap::new(),
            server: None,
            client: None,
            client_join: JoinConfig::default(),
            rpc_rate_labels: true,
            dispatched_metrics: true,
            prometheus_metrics: false,
            http_max_conns_per_client: 100,
            https_handshake_timeout: Dur::from_secs(5),
            rpc_handshake_timeout: Dur::from_secs(5),
            rpc_max_conns_per_client: 100,
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
    /// Where to listen for HTTP.
    pub fn http_bind(&self) -> (&str, u16) {
        (self.addresses.http.as_deref().unwrap_or(&self.bind_addr), self.http_port)
    }

    /// Where to listen for the node RPC and for other servers.
    pub fn rpc_bind(&self) -> (&str, u16) {
        (self.addresses.rpc.as_deref().unwrap_or(&self.bind_addr), self.rpc_port)
    }

    /// Where to listen for the same again, for those who know the port of membership only.
    pub fn serf_bind(&self) -> (&str, u16) {
        (self.addresses.serf.as_deref().unwrap_or(&self.bind_addr), self.serf_port)
    }

    /// The servers that the node is told of, `host:port`, each once.
    pub fn server_addresses(&self) -> Vec<Str> {
        let told = self.client.iter().flat_map(|client| &client.servers).map(|address| network::with_port(address, DEFAULT_RPC_PORT));
        let mut addresses: Vec<Str> = Vec::new();
        for address in told.chain(self.client_join.addresses()) {
            if !addresses.iter().any(|known| *known == address) {
                addresses.push(address.into());
            }
        }
        addresses
    }

    /// Says what is missing or contradicts itself.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.server.is_none() && self.client.is_none() {
            anyhow::bail!("Must specify either server, client or dev mode for the agent.");
        }
        match &self.data_dir {
            None if !self.dev => anyhow::bail!("Must specify \"data_dir\" config option or \"data-dir\" CLI flag"),
            Some(dir) if !dir.is_absolute() => {
                anyhow::bail!("data-dir must be given as an absolute path: got {}", one_line(&dir.to_string_lossy()));
            }
            _ => {}
        }
        if self.region.contains('\0') {
            anyhow::bail!("Region contains invalid characters");
        }
        if self.datacenter.contains(['\0', '*']) {
            anyhow::bail!("Datacenter contains invalid characters (null or '*')");
        }
        self.tls.check()?;
        if (1..=20).contains(&self.rpc_max_conns_per_client) {
            anyhow::bail!("limits.rpc_max_conns_per_client must be above 20, or 0 for no bound");
        }
        if let Some(server) = &self.server {
            server.join.check("server.retry_join")?;
            if server.non_voting_server && server.starts_alone() {
                anyhow::bail!("server.non_voting_server: a server without a vote needs others to join");
            }
        }
        if let Some(client) = &self.client {
            self.client_join.check("client.server_join")?;
            if self.server.is_none() && self.server_addresses().is_empty() {
                anyhow::bail!("client: an agent without a server needs servers: name them in client.servers or client.server_join");
            }
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

/// A text whose line breaks and other controls are blanks: what an error may quote.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
