//! Accepting on a server's port: the first byte decides who gets the connection.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::{Conn, FirstByte};

/// What a connection may take.
#[derive(Debug, Clone)]
pub struct PortLimits {
    /// How long a connection may keep silent before it says what it is.
    pub handshake_within: Duration,
}

impl Default for PortLimits {
    fn default() -> Self {
        Self { handshake_within: Duration::from_secs(5) }
    }
}

/// Who gets the connections.
pub trait Accept: Send + Sync + 'static {
    /// Speaks over a connection until it ends. `first` is neither `Tls` nor `RaftOfReference`.
    fn accept(self: Arc<Self>, first: FirstByte, conn: Conn, from: SocketAddr) -> impl Future<Output = ()> + Send;
}

/// Accepts until `closing`. Connections end by themselves when their speakers are told to.
pub async fn serve<A: Accept>(listener: TcpListener, limits: PortLimits, acceptor: Arc<A>, closing: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.cancelled() => return,
        };
        match accepted {
            Ok((stream, from)) => {
                let (limits, acceptor, closing) = (limits.clone(), Arc::clone(&acceptor), closing.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = welcome(stream, from, limits, acceptor) => {}
                        () = closing.cancelled() => {}
                    }
                });
            }
            Err(error) => {
                // Out of files, most likely: the connections that there are will end some time.
                tracing::warn!(%error, "accepting a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn welcome<A: Accept>(mut stream: TcpStream, from: SocketAddr, limits: PortLimits, acceptor: Arc<A>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%from, %error, "a connection went at once");
        return;
    }
    let Ok(Ok(byte)) = tokio::time::timeout(limits.handshake_within, stream.read_u8()).await else { return };
    match FirstByte::of(byte) {
        Some(FirstByte::Tls | FirstByte::RaftOfReference) | None => tracing::warn!(%from, byte, "a connection that is not spoken here"),
        Some(first) => acceptor.accept(first, Box::new(stream), from).await,
    }
}
