//! The agent's typed configuration. `config/file.rs` reads files; the command line parses flags.

pub mod file;
pub mod network;

use std::collections::BTreeMap;
use std::path::PathBuf;

use songline_api::{AclSettings, UiSettings};
use songline_client::tls::Trust;
use songline_client::{ClientConfig, ConsulSettings, PublishSettings};
use songline_model::{Dur, Secret, Str};
use songline_server::config::{DEFAULT_RPC_PORT, JoinConfig, ServerConfig, with_port};

use network::{Addresses, TlsConfig};

/// Settings of blocks without `enabled`.
#[derive(Debug, Clone, Default)]
pub struct NotEnabled {
    /// Settings of `server` blocks.
    pub server: ServerConfig,
    /// Settings of `client` and `plugin` blocks.
    pub client: ClientConfig,
}

/// The block `vault`.
#[derive(Debug, Clone)]
pub struct VaultConfig {
    /// Whether jobs may use Vault.
    pub enabled: bool,
    /// Address, an URL.
    pub address: String,
    /// Token of the servers, with which they create the tokens of tasks.
    pub token: Secret,
    /// Role that tokens of tasks are created from; empty uses none.
    pub create_from_role: String,
    /// Time for which a token lives unless it is renewed, if no role says it; as Vault writes durations.
    pub task_token_ttl: String,
    /// Namespace of tasks that name none.
    pub namespace: String,
    /// Certificates of TLS connections.
    pub trust: Trust,
}

impl Default for VaultConfig {
    fn default() -> Self {
        Self {
            enabled: false,
            address: "https://vault.service.consul:8200".into(),
            token: Secret::default(),
            create_from_role: String::new(),
            task_token_ttl: "72h".into(),
            namespace: String::new(),
            trust: Trust::default(),
        }
    }
}

/// All settings of an agent.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Region.
    pub region: String,
    /// Datacenter of the server and the node.
    pub datacenter: String,
    /// Name of the node; with the region appended, the name of the server.
    pub name: String,
    /// Directory of everything durable. Absent with `dev`, which uses a temporary directory that is deleted on a
    /// clean exit.
    pub data_dir: Option<PathBuf>,
    /// Dev mode: a server and a node on one machine, with data in a temporary directory.
    pub dev: bool,
    /// Address to listen on.
    pub bind_addr: String,
    /// HTTP port; 0 takes a free one.
    pub http_port: u16,
    /// Port of the node RPC and of server-to-server traffic; 0 takes a free one.
    pub rpc_port: u16,
    /// Second port for the same protocols as `rpc_port`. Configurations for the reference name it to join a server; 0
    /// takes a free one.
    pub serf_port: u16,
    /// Addresses to listen on that override `bind_addr`.
    pub addresses: Addresses,
    /// Addresses that others dial, `host` or `host:port`, where they differ from the listening addresses.
    pub advertise: Addresses,
    /// TLS certificates and their use.
    pub tls: TlsConfig,
    /// Whether an interrupted server (SIGINT) leaves the cluster first.
    pub leave_on_interrupt: bool,
    /// Whether a terminated server (SIGTERM) leaves the cluster first.
    pub leave_on_terminate: bool,
    /// Log level, `trace` to `error`.
    pub log_level: String,
    /// Whether log lines are JSON.
    pub log_json: bool,
    /// Whether debugging routes are enabled.
    pub enable_debug: bool,
    /// Headers added to every HTTP answer.
    pub response_headers: BTreeMap<String, String>,
    /// The web page: whether it is served, its label and links.
    pub ui: UiSettings,
    /// ACL settings: whether callers have to authenticate.
    pub acl: AclSettings,
    /// Token of the server for its own requests to other regions; a management token of the authoritative one.
    pub replication_token: Secret,
    /// The server's settings; `None` runs no server.
    pub server: Option<ServerConfig>,
    /// The node's settings; `None` runs no node.
    pub client: Option<ClientConfig>,
    /// Settings of a server and a node that are not enabled yet. A later block may enable them.
    pub not_enabled: NotEnabled,
    /// The Consul agent of this machine.
    pub consul: ConsulSettings,
    /// Vault, for the tokens of tasks.
    pub vault: VaultConfig,
    /// Servers that the node joins, in addition to those of `client.servers`.
    pub client_join: JoinConfig,
    /// Whether rate counters are labelled by caller.
    pub rpc_rate_labels: bool,
    /// Whether the metrics include summaries of dispatched jobs.
    pub dispatched_metrics: bool,
    /// Whether the metrics are available in Prometheus format.
    pub prometheus_metrics: bool,
    /// Metrics that the node publishes.
    pub publish: PublishSettings,
    /// Largest number of HTTP connections from one address; 0 is no bound.
    pub http_max_conns_per_client: usize,
    /// Timeout of a TLS handshake on the HTTP port.
    pub https_handshake_timeout: Dur,
    /// Timeout of a connection to the servers' port until its protocol byte has arrived, and of its TLS handshake.
    pub rpc_handshake_timeout: Dur,
    /// Largest number of connections to the servers' port from one address; 0 is no bound.
    pub rpc_max_conns_per_client: usize,
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            region: "global".into(),
            datacenter: "dc1".into(),
            name: host_name(),
            data_dir: None,
            acl: AclSettings::default(),
            replication_token: Secret::default(),
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
            ui: UiSettings::default(),
            server: None,
            client: None,
            not_enabled: NotEnabled::default(),
            consul: ConsulSettings::default(),
            vault: VaultConfig::default(),
            client_join: JoinConfig::default(),
            rpc_rate_labels: true,
            dispatched_metrics: true,
            prometheus_metrics: false,
            publish: PublishSettings::default(),
            http_max_conns_per_client: 100,
            https_handshake_timeout: Dur::from_secs(5),
            rpc_handshake_timeout: Dur::from_secs(5),
            rpc_max_conns_per_client: 100,
        }
    }
}

impl AgentConfig {
    /// A server and a node on one machine, with every driver and all data in a temporary directory.
    pub fn dev() -> Self {
        let client = ClientConfig::dev(PathBuf::new());
        Self {
            dev: true,
            bind_addr: "127.0.0.1".into(),
            enable_debug: true,
            prometheus_metrics: true,
            publish: PublishSettings { node: true, allocs: true, ..PublishSettings::default() },
            server: Some(ServerConfig::default()),
            client: Some(client),
            ..Self::default()
        }
    }
}

impl AgentConfig {
    /// Listening address of HTTP.
    pub fn http_bind(&self) -> (&str, u16) {
        (self.addresses.http.as_deref().unwrap_or(&self.bind_addr), self.http_port)
    }

    /// Listening address of the node RPC and of other servers.
    pub fn rpc_bind(&self) -> (&str, u16) {
        (self.addresses.rpc.as_deref().unwrap_or(&self.bind_addr), self.rpc_port)
    }

    /// Listening address of the second port, for configurations that know the reference's membership port only.
    pub fn serf_bind(&self) -> (&str, u16) {
        (self.addresses.serf.as_deref().unwrap_or(&self.bind_addr), self.serf_port)
    }

    /// Addresses of the servers configured for the node, `host:port`, without duplicates.
    pub fn server_addresses(&self) -> Vec<Str> {
        let told =
            self.client.iter().flat_map(|client| &client.servers).map(|address| with_port(address, DEFAULT_RPC_PORT));
        let mut addresses: Vec<Str> = Vec::new();
        for address in told.chain(self.client_join.addresses()) {
            if !addresses.iter().any(|known| *known == address) {
                addresses.push(address.into());
            }
        }
        addresses
    }

    /// Checks that a node without a server has servers to connect to: flags may name those that files do not.
    pub fn check_servers_known(&self) -> anyhow::Result<()> {
        if self.client.is_some() && self.server.is_none() && self.server_addresses().is_empty() {
            anyhow::bail!(
                "client: an agent without a server needs servers: name them in client.servers or client.server_join"
            );
        }
        Ok(())
    }

    /// Validates the settings. An error names a missing or contradicting setting.
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
            if let Some(dir) = server.event_sink_dir.as_ref().filter(|dir| !dir.is_absolute()) {
                anyhow::bail!(
                    "server.event_sink_dir must be an absolute path: got {}",
                    one_line(&dir.to_string_lossy())
                );
            }
            let rejections = server.plan_rejections;
            if rejections.enabled && (rejections.node_threshold == 0 || rejections.node_window.0 <= 0) {
                anyhow::bail!("server.plan_rejection_tracker: node_threshold and node_window must be above 0");
            }
            if server.non_voting_server && server.starts_alone() {
                anyhow::bail!("server.non_voting_server: a server without a vote needs others to join");
            }
        }
        if let Some(client) = &self.client {
            self.client_join.check("client.server_join")?;
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

/// The text with line breaks and other control characters replaced by blanks, so that an error may quote it.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
