//! Accepts connections on a server's port and dispatches them by their first byte.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio_util::sync::CancellationToken;

use super::FirstByte;
use super::counts::{Counted, Counts};
use super::link::{Conn, Listener};
use super::tls::Tls;
use super::trust::{OtherEnd, Refused, ServerTrust};

/// Bounds on the port's connections, and the proofs that it demands.
#[derive(Debug, Clone)]
pub struct PortLimits {
    /// Timeout for the first byte of a connection, and for the TLS handshake.
    pub handshake_within: Duration,
    /// Most connections of one address; 0 means unbounded.
    pub connections_per_address_max: usize,
    /// TLS of the port. `None`: the port does not accept TLS.
    pub tls: Option<Tls>,
    /// Proofs demanded of other servers. `None`: connections of servers are refused.
    pub servers: Option<ServerTrust>,
}

impl Default for PortLimits {
    fn default() -> Self {
        Self { handshake_within: Duration::from_secs(5), connections_per_address_max: 100, tls: None, servers: None }
    }
}

/// Handler of accepted connections.
pub trait Accept: Send + Sync + 'static {
    /// Serves a connection until it ends. `first` is neither `Tls` nor `RaftOfReference`. If only servers use that
    /// byte, the other end has proved that it is a server.
    fn accept(self: Arc<Self>, first: FirstByte, conn: Conn, from: SocketAddr) -> impl Future<Output = ()> + Send;

    /// The same over TLS: `names` are the region's names in the caller's certificate.
    fn accept_named(
        self: Arc<Self>,
        first: FirstByte,
        conn: Conn,
        from: SocketAddr,
        names: Arc<[String]>,
    ) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        let _ = names;
        self.accept(first, conn, from)
    }
}

/// Accepts connections until `closing` is cancelled, which also drops the connections still being served.
pub async fn serve<A: Accept>(
    mut listener: impl Listener,
    limits: PortLimits,
    acceptor: Arc<A>,
    closing: CancellationToken,
) {
    let counts = Counts::new(limits.connections_per_address_max);
    loop {
        let accepted = tokio::select! {
            biased;
            () = closing.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                // Dropping `stream` closes the connection.
                let Some(counted) = counts.count(from.ip()) else {
                    tracing::warn!(%from, "too many connections from this address");
                    continue;
                };
                let (limits, acceptor, closing) = (limits.clone(), Arc::clone(&acceptor), closing.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        biased;
                        () = closing.cancelled() => {}
                        () = welcome(stream, from, counted, limits, acceptor) => {}
                    }
                });
            }
            Err(error) => {
                // Most likely out of file descriptors: wait for other connections to end.
                tracing::warn!(%error, "accepting a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn welcome<A: Accept>(
    mut stream: Conn,
    from: SocketAddr,
    mut counted: Counted,
    limits: PortLimits,
    acceptor: Arc<A>,
) {
    let Some(byte) = first_byte(&mut stream, limits.handshake_within).await else { return };
    match (FirstByte::of(byte), &limits.tls) {
        (Some(FirstByte::Tls), Some(tls)) => {
            let (mut stream, names) = match tokio::time::timeout(limits.handshake_within, tls.accept(stream)).await {
                Ok(Ok(shaken)) => shaken,
                Ok(Err(error)) => return tracing::warn!(%from, %error, "a handshake of TLS"),
                Err(_) => return tracing::warn!(%from, "a handshake of TLS took too long"),
            };
            let Some(byte) = first_byte(&mut stream, limits.handshake_within).await else { return };
            match FirstByte::of(byte) {
                Some(FirstByte::Tls | FirstByte::RaftOfReference) | None => not_spoken(from, byte),
                Some(first) if counted.is_for(first) => {
                    let Some(conn) = proven(first, Box::new(stream), from, Some(&names), &limits).await else { return };
                    acceptor.accept_named(first, conn, from, names).await;
                }
                Some(_) => tracing::warn!(%from, "too many connections of this kind from this address"),
            }
        }
        (Some(FirstByte::Tls | FirstByte::RaftOfReference) | None, _) => not_spoken(from, byte),
        (Some(_), Some(tls)) if !tls.takes_plain() => tracing::warn!(%from, "a connection without TLS"),
        (Some(first), _) if counted.is_for(first) => {
            let Some(conn) = proven(first, stream, from, None, &limits).await else { return };
            acceptor.accept(first, conn, from).await;
        }
        (Some(_), _) => tracing::warn!(%from, "too many connections of this kind from this address"),
    }
}

/// Has the other end prove that it is a server, if only servers use the first byte. `None`: it was refused, which is
/// logged.
async fn proven(
    first: FirstByte,
    conn: Conn,
    from: SocketAddr,
    names: Option<&[String]>,
    limits: &PortLimits,
) -> Option<Conn> {
    if !first.is_of_servers() {
        return Some(conn);
    }
    let Some(servers) = &limits.servers else {
        tracing::warn!(%from, ?first, error = %Refused::NoServer, "a connection of a server was refused");
        return None;
    };
    let other = OtherEnd { ip: from.ip(), names };
    match tokio::time::timeout(limits.handshake_within, servers.accept(first, conn, other)).await {
        Ok(Ok(conn)) => return Some(conn),
        Ok(Err(error)) => tracing::warn!(%from, ?first, %error, "a connection of a server was refused"),
        Err(_) => tracing::warn!(%from, ?first, "a server took too long to prove that it is one"),
    }
    None
}

fn not_spoken(from: SocketAddr, byte: u8) {
    tracing::warn!(%from, byte, "a connection that is not spoken here");
}

async fn first_byte(stream: &mut (impl AsyncRead + Unpin), within: Duration) -> Option<u8> {
    tokio::time::timeout(within, stream.read_u8()).await.ok()?.ok()
}
