//! One agent: a server, a node, or both, and their HTTP port. Starting and stopping in the right order is all there is here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde_json::json;
use songline_api::AgentInfo;
use songline_api::{Api, Limits};
use songline_client::{Client, ClientConfig};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::AgentConfig;
use crate::server::{Core, Setup};
use crate::task_api::OwnApi;

/// The version of the reference whose interface this agent has.
pub const REFERENCE_VERSION: &str = "1.6.5";

/// How long a stopping agent waits for its own loops.
const LET_GO_WAIT: std::time::Duration = std::time::Duration::from_secs(3);

/// A running agent.
pub struct Agent {
    config: AgentConfig,
    server: Option<Arc<Core>>,
    client: Option<Arc<Client<Core>>>,
    http: SocketAddr,
    listener: JoinHandle<()>,
    closing: CancellationToken,
    /// The directory of a dev agent, gone when the agent is.
    temporary: Option<tempfile::TempDir>,
}

impl Agent {
    /// Starts everything that the configuration names. The HTTP port answers when this returns.
    pub async fn start(config: AgentConfig) -> anyhow::Result<Self> {
        let temporary = match &config.data_dir {
            Some(_) => None,
            None if config.dev => {
                Some(tempfile::Builder::new().prefix("songline-dev-").tempdir().context("making a directory for the dev agent")?)
            }
            None => anyhow::bail!("Must specify \"data_dir\" config option or \"data-dir\" CLI flag"),
        };
        let data_dir = match (&config.data_dir, &temporary) {
            (Some(dir), _) => dir.clone(),
            (None, Some(dir)) => dir.path().to_owned(),
            (None, None) => unreachable!("one of the two was made above"),
        };
        std::fs::create_dir_all(&data_dir).with_context(|| format!("making the data directory {}", data_dir.display()))?;
        let server_config =
            config.server.clone().context("an agent without a server has no servers to talk to yet: enable the server block")?;

        let listener = TcpListener::bind((config.bind_addr.as_str(), config.http_port))
            .await
            .with_context(|| format!("binding {}:{}", config.bind_addr, config.http_port))?;
        let http = listener.local_addr()?;
        let setup = Setup {
            info: info(&config, http),
            config: server_config,
            dir: data_dir.join("server"),
            agent_config: shown_config(&config, &data_dir),
            rpc_port: config.rpc_port,
        };
        let server = Core::start(setup).await?;
        let closing = CancellationToken::new();
        let limits = Limits { connections_per_client_max: config.http_max_conns_per_client, ..Limits::default() };
        let listener = tokio::spawn(songline_api::serve(listener, Arc::clone(&server), limits, closing.clone()));
        let client = match &config.client {
            Some(settings) => {
                let told = ClientConfig {
                    name: config.name.as_str().into(),
                    datacenter: config.datacenter.as_str().into(),
                    region: config.region.as_str().into(),
                    data_dir: data_dir.join("client"),
                    http_addr: http.to_string().into(),
                    task_api: Some(Arc::new(OwnApi(Api::new(Arc::clone(&server))))),
                    ..settings.clone()
                };
                let client = Arc::new(Client::start(told, Arc::clone(&server)).await.context("starting the node agent")?);
                server.add_local_node(client.node_id(), Arc::clone(&client));
                Some(client)
            }
            None => None,
        };
        Ok(Self { config, server: Some(server), client, http, listener, closing, temporary })
    }

    /// `http://host:port` of this agent.
    pub fn http_addr(&self) -> String {
        let ip = if self.http.ip().is_unspecified() { std::net::Ipv4Addr::LOCALHOST.into() } else { self.http.ip() };
        format!("http://{}", SocketAddr::new(ip, self.http.port()))
    }

    /// The server in this process, if there is one.
    pub fn server(&self) -> Option<&Arc<Core>> {
        self.server.as_ref()
    }

    /// What it was told.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Returns when the log has failed for good: the process should end, for a supervisor to start it anew.
    pub async fn failed(&self) -> String {
        match &self.server {
            Some(server) => server.log().failed().await.to_string(),
            None => std::future::pending().await,
        }
    }

    /// Ends streams, tasks of a dev agent, and the log, in this order.
    pub async fn stop(self) {
        if let Some(client) = &self.client {
            // A dev agent's directory goes with it, so nothing may be left that runs in there.
            client.shutdown(self.config.dev).await;
        }
        if let Some(server) = &self.server {
            server.shutdown_token().cancel();
        }
        self.closing.cancel();
        // The listener ends by itself once told; one that panicked has said so.
        let _ = self.listener.await;
        drop(self.client);
        if let Some(server) = self.server {
            server.remove_local_nodes();
            server.stop().await;
            // The stores are closed when the last of the loops has let go of them; a directory must not go before.
            let deadline = tokio::time::Instant::now() + LET_GO_WAIT;
            while Arc::strong_count(&server) > 1 && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
        drop(self.temporary);
    }
}

fn info(config: &AgentConfig, http: SocketAddr) -> AgentInfo {
    let server = config.server.clone().unwrap_or_default();
    let ip = if http.ip().is_unspecified() { "127.0.0.1".to_owned() } else { http.ip().to_string() };
    AgentInfo {
        version: REFERENCE_VERSION.into(),
        name: format!("{}.{}", config.name, config.region),
        region: config.region.clone(),
        datacenter: config.datacenter.clone(),
        server_ip: ip,
        serf_port: config.serf_port,
        enable_debug: config.enable_debug,
        enable_event_broker: server.enable_event_broker,
        acl: config.acl,
        rpc_rate_labels: config.rpc_rate_labels,
        job_max_source_bytes: server.job_max_source_bytes,
        job_max_priority: server.job_max_priority,
        job_tracked_versions: server.job_tracked_versions,
        default_scheduler_config: server.default_scheduler_config,
        response_headers: config.response_headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
    }
}

/// The configuration in the reference's shape, as far as it exists here. There are no secrets in it.
fn shown_config(config: &AgentConfig, data_dir: &Path) -> serde_json::Value {
    let path = |dir: PathBuf| dir.display().to_string();
    json!({
        "ACL": { "Enabled": config.acl.enabled },
        "BindAddr": config.bind_addr,
        "Client": { "Enabled": config.client.is_some() },
        "DataDir": path(data_dir.to_owned()),
        "Datacenter": config.datacenter,
        "DevMode": config.dev,
        "EnableDebug": config.enable_debug,
        "LogLevel": config.log_level,
        "NodeName": config.name,
        "Ports": { "HTTP": config.http_port, "RPC": config.rpc_port, "Serf": config.serf_port },
        "Region": config.region,
        "Server": { "Enabled": config.server.is_some(), "BootstrapExpect": 1 },
        "Telemetry": { "PrometheusMetrics": config.prometheus_metrics },
        "Version": { "Version": REFERENCE_VERSION, "VersionPrerelease": "", "VersionMetadata": "", "Revision": "" },
    })
}
