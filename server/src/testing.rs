//! Servers that tests start in this process, with real sockets and directories. A node agent, configuration files and
//! HTTPS are not here.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use songline_api::{AclSettings, AgentInfo, Limits};
use songline_log::{Disk, RealDisk};
use songline_rpc::port::{Dialer, Listener, PortLimits, Tls, TlsSettings};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfig;
use crate::trust::{self, Reached};
use crate::{Core, NoProviders, Ports, Setup, Surroundings};

/// Longest wait of a stopping server for its own loops.
const LET_GO_WAIT: Duration = Duration::from_secs(3);

/// Settings of a test server.
#[derive(Clone)]
pub(crate) struct Settings {
    pub name: String,
    /// Directory with the server's data; `None` makes one that is deleted with the server.
    pub data_dir: Option<PathBuf>,
    pub acl: bool,
    /// Address that other servers dial, where it differs from the listening address.
    pub advertise: Option<String>,
    pub tls: Option<TlsSettings>,
    pub server: ServerConfig,
    pub disk: Arc<dyn Disk>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "server-0".into(),
            data_dir: None,
            acl: false,
            advertise: None,
            tls: None,
            server: ServerConfig::default(),
            disk: Arc::new(RealDisk),
        }
    }
}

impl Settings {
    /// The next server of a new cluster of `expect` servers, of which `others` have been started.
    pub(crate) fn next_of(expect: usize, others: &[TestServer]) -> Self {
        let mut server = ServerConfig { bootstrap_expect: (expect > 0).then_some(expect), ..ServerConfig::default() };
        server.join.retry_join = others.iter().map(|other| other.core.cluster().address().to_owned()).collect();
        Self { name: format!("server-{}", others.len()), server, ..Self::default() }
    }
}

/// A running server and its HTTP port.
pub(crate) struct TestServer {
    pub core: Arc<Core>,
    /// Port of the node RPC and of other servers.
    pub rpc_port: u16,
    http: SocketAddr,
    listener: JoinHandle<()>,
    closing: CancellationToken,
    _temporary: Option<tempfile::TempDir>,
}

impl TestServer {
    /// Starts a server. Its ports answer when this function returns.
    pub(crate) async fn start(settings: Settings) -> anyhow::Result<Self> {
        let Settings { name, data_dir, acl, advertise, tls, server, disk } = settings;
        let temporary = if data_dir.is_none() { Some(tempfile::tempdir()?) } else { None };
        let data_dir = data_dir
            .or_else(|| temporary.as_ref().map(|dir| dir.path().to_owned()))
            .context("one of the two is there")?;
        let http = TcpListener::bind("127.0.0.1:0").await?;
        let http_addr = http.local_addr()?;
        let (ports, rpc_port, serf_port) = ports(&server, tls.as_ref(), advertise).await?;
        let info = info(&name, acl, &server, serf_port);
        let dir = data_dir.join("server");
        let core = Core::start(Setup {
            config: server,
            info,
            dir,
            agent_config: Default::default(),
            ports,
            disk,
            outgoing: Arc::new(NoProviders),
            surroundings: Surroundings::default(),
        })
        .await?;
        let closing = CancellationToken::new();
        let listener =
            tokio::spawn(songline_api::serve_with(http, core.http_api(), None, Limits::default(), closing.clone()));
        Ok(Self { core, rpc_port, http: http_addr, listener, closing, _temporary: temporary })
    }

    /// Base URL of the HTTP port.
    pub(crate) fn http_addr(&self) -> String {
        format!("http://{}", self.http)
    }

    /// Ends streams, then the log. The directory can be used again when this function returns.
    pub(crate) async fn stop(self) {
        self.core.shutdown_token().cancel();
        self.closing.cancel();
        self.listener.await.expect("the listener ends without a panic");
        self.core.stop().await;
        // The stores are closed when the last loop drops its reference to the server.
        let deadline = tokio::time::Instant::now() + LET_GO_WAIT;
        while Arc::strong_count(&self.core) > 1 && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Binds the two ports of a server and derives its trust in other servers.
async fn ports(
    server: &ServerConfig,
    tls: Option<&TlsSettings>,
    advertise: Option<String>,
) -> anyhow::Result<(Ports, u16, u16)> {
    let (rpc, serf) = (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    let (bound, serf_port) = (rpc.local_addr()?, serf.local_addr()?.port());
    let listeners: Vec<Box<dyn Listener>> = vec![Box::new(rpc), Box::new(serf)];
    let advertised = advertise.unwrap_or_else(|| bound.to_string());
    let reached = Reached { region: "global", advertised: &advertised, port: bound.port(), tls: tls.is_some() };
    let trust = trust::of(server, reached).await?;
    let tls = tls.map(Tls::load).transpose()?;
    let limits = PortLimits { tls: tls.clone(), servers: Some(trust.clone()), ..PortLimits::default() };
    let dialer = tls.map_or_else(Dialer::plain, Dialer::secured).of_server(trust.clone());
    Ok((Ports { listeners, limits, advertised, dialer, trust, verify_names: false }, bound.port(), serf_port))
}

fn info(name: &str, acl: bool, server: &ServerConfig, serf_port: u16) -> AgentInfo {
    AgentInfo {
        version: "1.6.5".into(),
        name: format!("{name}.global"),
        region: "global".into(),
        authoritative_region: "global".into(),
        datacenter: "dc1".into(),
        server_ip: "127.0.0.1".into(),
        serf_port,
        enable_debug: true,
        enable_event_broker: server.enable_event_broker,
        job_max_source_bytes: server.job_max_source_bytes,
        job_max_priority: server.job_max_priority,
        vault_enabled: server.vault.is_some(),
        rpc_rate_labels: true,
        dispatched_metrics: true,
        prometheus_metrics: true,
        acl: AclSettings { enabled: acl, ..AclSettings::default() },
        job_tracked_versions: server.job_tracked_versions,
        default_scheduler_config: server.default_scheduler_config.clone(),
        response_headers: Vec::new(),
        ui: songline_api::UiSettings::default(),
    }
}

/// An HTTP client that needs none of the machine's certificates.
pub(crate) fn http_client() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let roots =
        versions.expect("the provider knows TLS 1.2 and 1.3").with_root_certificates(rustls::RootCertStore::empty());
    let client = reqwest::Client::builder().tls_backend_preconfigured(roots.with_no_client_auth()).build();
    client.expect("a client can be made")
}
