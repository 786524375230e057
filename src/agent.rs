//! One agent: a server, a node, or both, and their HTTP port. This module starts and stops the parts in the right
//! order.

mod client_only;
mod for_task;
mod guard;
mod relay;
mod reload;
mod shown;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use anyhow::Context;
use futures_util::future::BoxFuture;
use songline_api::AgentInfo;
use songline_api::{Limits, Secure};
use songline_client::reverse::NodeCalls;
use songline_client::{Client, ClientConfig, ServerReads, TaskApi, VaultSettings};
use songline_log::{Disk, RealDisk};
use songline_rpc::Gauges;
use songline_rpc::port::Dialer;
use songline_server::forwarding::Forwarder;
use songline_server::vault::Vault;
use songline_server::{Core, Setup, Surroundings};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::about::OwnProcess;
use crate::config::AgentConfig;
use crate::config::network::advertised;
use crate::event_sinks::Outlets;
use crate::https::{self, Certificates};
use crate::listen::{self, Bound};
use crate::outgoing::HttpFetch;
use crate::reads::OwnReads;
use crate::task_api::OwnApi;
use crate::vault::HttpVault;

use client_only::ClientOnly;
use for_task::ForTask;
use relay::Relay;
use reload::Reloadable;

/// Version of the reference whose interface this agent implements.
pub const REFERENCE_VERSION: &str = "1.6.5";

/// Longest wait of a stopping agent for its own loops.
const LET_GO_WAIT: std::time::Duration = std::time::Duration::from_secs(3);

/// A running agent.
pub struct Agent {
    config: AgentConfig,
    server: Option<Arc<Core>>,
    client: Option<Arc<Client<Core>>>,
    /// A node that reaches its servers over the network: in an agent without a server, or beside one of several
    /// servers.
    client_only: Option<Arc<ClientOnly>>,
    http: SocketAddr,
    listener: JoinHandle<()>,
    closing: CancellationToken,
    reloadable: Reloadable,
    /// Temporary directory of a dev agent; deleted with the agent.
    temporary: Option<tempfile::TempDir>,
}

impl Agent {
    /// Starts everything that the configuration names. The HTTP port answers when this function returns.
    pub fn start(config: AgentConfig) -> BoxFuture<'static, anyhow::Result<Self>> {
        Self::start_on(config, Arc::new(RealDisk))
    }

    /// Like [`Self::start`], with the log of its server in another file system than the machine's.
    pub fn start_on(config: AgentConfig, disk: Arc<dyn Disk>) -> BoxFuture<'static, anyhow::Result<Self>> {
        Box::pin(Self::start_parts(config, disk))
    }

    async fn start_parts(config: AgentConfig, disk: Arc<dyn Disk>) -> anyhow::Result<Self> {
        let temporary = match &config.data_dir {
            Some(_) => None,
            None if config.dev => Some(
                tempfile::Builder::new()
                    .prefix("songline-dev-")
                    .tempdir()
                    .context("making a directory for the dev agent")?,
            ),
            None => anyhow::bail!("Must specify \"data_dir\" config option or \"data-dir\" CLI flag"),
        };
        let data_dir = match (&config.data_dir, &temporary) {
            (Some(dir), _) => dir.clone(),
            (None, Some(dir)) => dir.path().to_owned(),
            (None, None) => unreachable!("one of the two was made above"),
        };
        std::fs::create_dir_all(&data_dir)
            .with_context(|| format!("making the data directory {}", data_dir.display()))?;
        let (host, port) = config.http_bind();
        let listener = TcpListener::bind((host, port)).await.with_context(|| format!("binding {host}:{port}"))?;
        let http = listener.local_addr()?;
        let https = Certificates::load(&config.tls)?;
        let secure = https.clone().map(|found| https::secure(found, config.https_handshake_timeout));
        let Some(mut server_config) = config.server.clone() else {
            let reloadable = Reloadable { https, tls: None };
            return Self::start_client_only(config, data_dir, temporary, (listener, secure), reloadable).await;
        };
        let alone = server_config.starts_alone();
        server_config.replication_token = config.replication_token.clone();
        let vault = if config.vault.enabled { Some(HttpVault::new(&config.vault)?) } else { None };
        server_config.vault = vault.clone().map(|vault| Arc::new(vault) as Arc<dyn Vault>);
        server_config.event_receivers = Some(Arc::new(Outlets::new(server_config.event_sink_dir.clone())?));
        let Bound { ports, rpc_port, serf_port } = listen::bind(&config).await?;
        let reloadable = Reloadable { https, tls: ports.limits.tls.clone() };
        let config = AgentConfig { rpc_port, serf_port, ..config };
        let setup = Setup {
            info: info(&config, http),
            config: server_config,
            dir: data_dir.join("server"),
            agent_config: shown::config(&config, &data_dir),
            ports,
            disk,
            outgoing: Arc::new(HttpFetch::default()),
            surroundings: Surroundings::default(),
        };
        let server = Core::start(setup).await?;
        let closing = CancellationToken::new();
        if let Some(vault) = vault {
            tokio::spawn(closing.clone().run_until_cancelled_owned(vault.keep_token()));
        }
        let limits = Limits { connections_per_client_max: config.http_max_conns_per_client, ..Limits::default() };
        let listener =
            tokio::spawn(songline_api::serve_with(listener, server.http_api(), secure, limits, closing.clone()));
        let (mut client, mut client_only) = (None, None);
        if let Some(settings) = &config.client {
            let task_api: Arc<OwnApi> = Arc::new(OwnApi::new(server.task_api()));
            let reads = Arc::new(OwnReads::new(server.http_api()));
            let told = told(&config, settings, &data_dir, http, &closing);
            let told = ClientConfig { task_api: Some(task_api), server_reads: Some(reads), ..told };
            if alone {
                let node = Arc::new(Client::start(told, Arc::clone(&server)).await.context("starting the node agent")?);
                let calls = NodeCalls::default();
                calls.set(&node);
                server.add_local_node(node.node_id(), Arc::clone(&node), Arc::new(calls));
                server.show_gauges(Arc::downgrade(&node) as Weak<dyn Gauges>);
                client = Some(node);
            } else {
                // A node beside one of several servers uses the network as other nodes do: leadership moves, and the
                // node has to outlive its own server's failures.
                let mut addresses = vec![server.cluster().address().into()];
                addresses.extend(config.server_addresses());
                let node =
                    Arc::new(ClientOnly::start(told, addresses, server.dialer().clone(), config.acl.enabled).await?);
                server.set_own_node(node.client.node_id());
                server.show_gauges(Arc::downgrade(&node.client) as Weak<dyn Gauges>);
                client_only = Some(node);
            }
        }
        Ok(Self { config, server: Some(server), client, client_only, http, listener, closing, reloadable, temporary })
    }

    /// Starts a node whose servers are in other processes.
    async fn start_client_only(
        config: AgentConfig,
        data_dir: PathBuf,
        temporary: Option<tempfile::TempDir>,
        (listener, secure): (TcpListener, Option<Secure>),
        reloadable: Reloadable,
    ) -> anyhow::Result<Self> {
        let http = listener.local_addr()?;
        let settings = config.client.clone().context("an agent needs a server or a client block that is enabled")?;
        let closing = CancellationToken::new();
        let reads = Arc::new(OwnReads::later());
        let told = told(&config, &settings, &data_dir, http, &closing);
        let task_api = Arc::new(OwnApi::later());
        let told = ClientConfig {
            server_reads: Some(Arc::clone(&reads) as Arc<dyn ServerReads>),
            task_api: Some(Arc::clone(&task_api) as Arc<dyn TaskApi>),
            ..told
        };
        let tls = listen::tls(&config)?;
        let reloadable = Reloadable { tls: tls.clone(), ..reloadable };
        let dialer = tls.map_or_else(Dialer::plain, Dialer::secured);
        let client_only =
            Arc::new(ClientOnly::start(told, config.server_addresses(), dialer.clone(), config.acl.enabled).await?);
        let shown = shown::config(&config, &data_dir);
        let relay = Relay::new(Arc::clone(&client_only), Forwarder::of_node(dialer), &config, shown);
        let relay = Arc::new(relay);
        reads.set(relay.clone());
        let region = config.region.as_str().into();
        let for_task = ForTask::new(relay.clone(), Arc::clone(&client_only), region, config.acl.enabled);
        task_api.set(Arc::new(for_task));
        let limits = Limits { connections_per_client_max: config.http_max_conns_per_client, ..Limits::default() };
        let listener = tokio::spawn(songline_api::serve_with(listener, relay, secure, limits, closing.clone()));
        Ok(Self {
            config,
            server: None,
            client: None,
            client_only: Some(client_only),
            http,
            listener,
            closing,
            reloadable,
            temporary,
        })
    }

    /// Base URL of this agent: `http://host:port` or `https://host:port`.
    pub fn http_addr(&self) -> String {
        let ip = if self.http.ip().is_unspecified() { std::net::Ipv4Addr::LOCALHOST.into() } else { self.http.ip() };
        let scheme = if self.config.tls.http { "https" } else { "http" };
        format!("{scheme}://{}", SocketAddr::new(ip, self.http.port()))
    }

    /// The server in this process, if there is one.
    pub fn server(&self) -> Option<&Arc<Core>> {
        self.server.as_ref()
    }

    /// Configuration that the agent was started with.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Returns when the log has failed for good: the process should then end, so that a supervisor restarts it.
    pub async fn failed(&self) -> String {
        match &self.server {
            Some(server) => server.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Leaves the cluster before a stop: a node is drained if its configuration asks for that, then a server transfers
    /// leadership and ceases to be a member.
    pub fn leave(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(node) = &self.client {
                node.drain().await;
            }
            if let Some(node) = &self.client_only {
                node.client.drain().await;
            }
            if let Some(server) = &self.server {
                server.leave().await;
            }
        })
    }

    /// Ends streams, tasks of a dev agent, and the log, in this order.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(self.stop_parts())
    }

    async fn stop_parts(self) {
        if let Some(client) = &self.client {
            // A dev agent's directory is deleted at the end, so no task may be left that runs in it.
            client.shutdown(self.config.dev).await;
        }
        if let Some(client_only) = &self.client_only {
            client_only.stop(self.config.dev).await;
        }
        if let Some(server) = &self.server {
            server.shutdown_token().cancel();
        }
        self.closing.cancel();
        // The listener ends by itself after the cancellation; a panic in it was logged already.
        let _ = self.listener.await;
        drop(self.client);
        if let Some(server) = self.server {
            server.remove_local_nodes();
            server.stop().await;
            // The stores are closed when the last loop drops its reference to the server; their directory must not be
            // deleted before.
            let deadline = tokio::time::Instant::now() + LET_GO_WAIT;
            while Arc::strong_count(&server) > 1 && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
        drop(self.temporary);
    }
}

/// Configuration of the agent's node: its own block, completed with the settings of the whole agent.
fn told(
    config: &AgentConfig,
    settings: &ClientConfig,
    data_dir: &Path,
    http: SocketAddr,
    closing: &CancellationToken,
) -> ClientConfig {
    let about = OwnProcess { tells: config.acl.enabled || config.enable_debug, closing: closing.clone() };
    ClientConfig {
        about: Some(Arc::new(about)),
        name: config.name.as_str().into(),
        datacenter: config.datacenter.as_str().into(),
        region: config.region.as_str().into(),
        data_dir: data_dir.join("client"),
        http_addr: advertised(config.advertise.http.as_deref(), http).into(),
        http_tls: config.tls.http,
        consul: Some(config.consul.clone()),
        vault: config.vault.enabled.then(|| VaultSettings {
            address: config.vault.address.as_str().into(),
            namespace: config.vault.namespace.as_str().into(),
            trust: config.vault.trust.clone(),
        }),
        publish: config.publish,
        // A file that cannot be read has kept the agent from starting before.
        http_ca_pem: config.tls.ca_file.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect(),
        ..settings.clone()
    }
}

fn info(config: &AgentConfig, http: SocketAddr) -> AgentInfo {
    let server = config.server.clone().unwrap_or_default();
    let ip = if http.ip().is_unspecified() { "127.0.0.1".to_owned() } else { http.ip().to_string() };
    AgentInfo {
        version: REFERENCE_VERSION.into(),
        name: format!("{}.{}", config.name, config.region),
        region: config.region.clone(),
        authoritative_region: server.authoritative_region.unwrap_or_else(|| config.region.clone()),
        datacenter: config.datacenter.clone(),
        server_ip: ip,
        serf_port: config.serf_port,
        enable_debug: config.enable_debug,
        enable_event_broker: server.enable_event_broker,
        acl: config.acl,
        rpc_rate_labels: config.rpc_rate_labels,
        dispatched_metrics: config.dispatched_metrics,
        prometheus_metrics: config.prometheus_metrics,
        job_max_source_bytes: server.job_max_source_bytes,
        job_max_priority: server.job_max_priority,
        vault_enabled: config.vault.enabled,
        job_tracked_versions: server.job_tracked_versions,
        default_scheduler_config: server.default_scheduler_config,
        ui: config.ui.clone(),
        response_headers: config.response_headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
    }
}
