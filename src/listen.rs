//! The ports that an agent with a server has beside HTTP: bound before anything starts, so that a port of 0 is known in time.

use std::net::SocketAddr;

use anyhow::Context;
use songline_rpc::port::{Dialer, PortLimits};
use tokio::net::TcpListener;

use crate::config::AgentConfig;
use crate::config::network::advertised;
use crate::server::Ports;

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
    let limits = PortLimits { handshake_within: config.rpc_handshake_timeout.to_std() };
    let ports = Ports {
        listeners: vec![rpc, serf],
        limits,
        advertised: advertised(config.advertise.rpc.as_deref(), rpc_addr),
        dialer: Dialer::plain(),
    };
    Ok(Bound { ports, rpc_port: rpc_addr.port(), serf_port: serf_addr.port() })
}

async fn bound(at: (&str, u16)) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(at).await.with_context(|| format!("binding {}:{}", at.0, at.1))?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
