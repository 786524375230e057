//! The ports that an agent with a server has beside HTTP: bound before anything starts, so that a port of 0 is known in time.

use std::net::SocketAddr;

use anyhow::Context;
use songline_rpc::port::{Dialer, PortLimits, Tls, TlsSettings};
use tokio::net::TcpListener;

use crate::config::AgentConfig;
use crate::config::network::{TlsVersion, advertised};
use crate::server::Ports;
use crate::trust;

/// What is bound, and where.
pub(crate) struct Bound {
    /// For the server.
    pub(crate) ports: Ports,
    /// Port of the node RPC.
    pub(crate) rpc_port: u16,
    /// Port of membership.
    pub(crate) serf_port: u16,
}

/// Binds both ports. The same is spoken on them.
pub(crate) async fn bind(config: &AgentConfig) -> anyhow::Result<Bound> {
    let (rpc, rpc_addr) = bound(config.rpc_bind()).await?;
    let (serf, serf_addr) = bound(config.serf_bind()).await?;
    let tls = tls(config)?;
    let advertised = advertised(config.advertise.rpc.as_deref(), rpc_addr);
    let server = config.server.as_ref().context("the ports are those of a server")?;
    let trust = trust::of(config, server, &advertised).await?;
    let limits = PortLimits {
        handshake_within: config.rpc_handshake_timeout.to_std(),
        connections_per_address_max: config.rpc_max_conns_per_client,
        tls: tls.clone(),
        servers: Some(trust.clone()),
    };
    let ports = Ports {
        listeners: vec![rpc, serf],
        limits,
        advertised,
        verify_names: config.tls.rpc && config.tls.verify_server_hostname,
        dialer: tls.map_or_else(Dialer::plain, Dialer::secured).of_server(trust.clone()),
        trust,
    };
    Ok(Bound { ports, rpc_port: rpc_addr.port(), serf_port: serf_addr.port() })
}

/// What connections between agents are made safe with, if they are to be.
pub(crate) fn tls(config: &AgentConfig) -> anyhow::Result<Option<Tls>> {
    let told = &config.tls;
    if !told.rpc {
        return Ok(None);
    }
    let file = |file: &Option<std::path::PathBuf>| file.clone().unwrap_or_default();
    let settings = TlsSettings {
        ca_file: file(&told.ca_file),
        cert_file: file(&told.cert_file),
        key_file: file(&told.key_file),
        region: config.region.clone(),
        verify_server_hostname: told.verify_server_hostname,
        upgrade: told.rpc_upgrade_mode,
        only_tls13: told.min_version == TlsVersion::Tls13,
    };
    Ok(Some(Tls::load(&settings)?))
}

async fn bound(at: (&str, u16)) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(at).await.with_context(|| format!("binding {}:{}", at.0, at.1))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
