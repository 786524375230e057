//! The ports of an agent with a server, except HTTP. They are bound before anything starts, because the actual number
//! of a port configured as 0 is needed early.

use std::net::SocketAddr;

use anyhow::Context;
use songline_rpc::port::{Dialer, PortLimits, ServerTrust, Tls, TlsSettings};
use songline_server::config::ServerConfig;
use songline_server::trust::{self, Reached};
use songline_server::{Ports, StartError};
use tokio::net::TcpListener;

use crate::config::AgentConfig;
use crate::config::network::{TlsVersion, advertised};

/// The bound sockets and their ports.
pub(crate) struct Bound {
    /// Sockets for the server.
    pub(crate) ports: Ports,
    /// Port of the node RPC.
    pub(crate) rpc_port: u16,
    /// Second port, announced as the membership port.
    pub(crate) serf_port: u16,
}

/// Binds both ports. The same protocols are spoken on both.
pub(crate) async fn bind(config: &AgentConfig) -> anyhow::Result<Bound> {
    let (rpc, rpc_addr) = bound(config.rpc_bind()).await?;
    let (serf, serf_addr) = bound(config.serf_bind()).await?;
    let tls = tls(config)?;
    let advertised = advertised(config.advertise.rpc.as_deref(), rpc_addr);
    let server = config.server.as_ref().context("the ports are those of a server")?;
    let trust = trust(config, server, &advertised).await?;
    let limits = PortLimits {
        handshake_within: config.rpc_handshake_timeout.to_std(),
        connections_per_address_max: config.rpc_max_conns_per_client,
        tls: tls.clone(),
        servers: Some(trust.clone()),
    };
    let ports = Ports {
        listeners: vec![Box::new(rpc), Box::new(serf)],
        limits,
        advertised,
        verify_names: config.tls.rpc && config.tls.verify_server_hostname,
        dialer: tls.map_or_else(Dialer::plain, Dialer::secured).of_server(trust.clone()),
        trust,
    };
    Ok(Bound { ports, rpc_port: rpc_addr.port(), serf_port: serf_addr.port() })
}

/// Proof that other servers have to give to the configuration's server, which they reach at `advertised`.
async fn trust(config: &AgentConfig, server: &ServerConfig, advertised: &str) -> Result<ServerTrust, StartError> {
    let reached = Reached { region: &config.region, advertised, port: config.rpc_port, tls: config.tls.rpc };
    trust::of(server, reached).await
}

/// TLS for connections between agents; `None` where it is not configured.
pub(crate) fn tls(config: &AgentConfig) -> anyhow::Result<Option<Tls>> {
    Ok(tls_settings(config).map(|settings| Tls::load(&settings)).transpose()?)
}

/// Settings of TLS for connections between agents; `None` where it is not configured.
pub(crate) fn tls_settings(config: &AgentConfig) -> Option<TlsSettings> {
    let told = &config.tls;
    let file = |file: &Option<std::path::PathBuf>| file.clone().unwrap_or_default();
    told.rpc.then(|| TlsSettings {
        ca_file: file(&told.ca_file),
        cert_file: file(&told.cert_file),
        key_file: file(&told.key_file),
        region: config.region.clone(),
        verify_server_hostname: told.verify_server_hostname,
        upgrade: told.rpc_upgrade_mode,
        only_tls13: told.min_version == TlsVersion::Tls13,
    })
}

async fn bound(at: (&str, u16)) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(at).await.with_context(|| format!("binding {}:{}", at.0, at.1))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

#[cfg(test)]
mod tests;
