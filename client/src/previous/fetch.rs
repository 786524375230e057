//! Download of an earlier allocation's data from its node.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use songline_model::{Node, Secret, Str, with_sources};
use songline_rpc::RpcError;
use tokio::sync::mpsc;

use super::{Wanted, unpack};
use crate::allocdir::AllocDir;

/// Longest time that connecting may take.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Longest time without any data.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Number of pieces that are buffered while the disk is slow.
const PIECES_MAX: usize = 16;

/// Reasons why the data of an earlier allocation cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("asking for the node of the previous allocation: {0}")]
    Servers(#[source] RpcError),
    #[error("the node of the previous allocation is not known any more")]
    NoNode,
    #[error("the CA certificate for HTTP of other nodes is invalid")]
    Certificate,
    #[error("the node of the previous allocation has the HTTP address {0:?}, which is no address")]
    Address(Str),
    #[error("fetching the data from {address}: {reason}")]
    Http { address: Str, reason: String },
    #[error("the node at {address} refused the data with status {status}")]
    Status { address: Str, status: u16 },
    #[error("unpacking the data: {0}")]
    Unpack(#[source] io::Error),
}

/// Fetches the data into a directory of its own, then moves it to the successor.
pub(super) async fn fetch(
    wanted: Wanted,
    node: &Node,
    token: &Secret,
    region: &str,
    ca_pem: &[String],
) -> Result<(), FetchError> {
    let address = node.http_addr.clone();
    let failed = |error: reqwest::Error| FetchError::Http {
        address: address.clone(),
        reason: with_sources(&error.without_url()),
    };
    let socket: SocketAddr = address.parse().map_err(|_| FetchError::Address(address.clone()))?;
    let builder = match ca_pem {
        [] => crate::tls::http_client(),
        pem => crate::tls::http_client_trusting(pem).map_err(|_| FetchError::Certificate)?,
    };
    // The certificate of a node has this name, not its address.
    let name = format!("client.{region}.nomad");
    let builder = builder.no_proxy().connect_timeout(CONNECT_MAX).read_timeout(SILENCE_MAX).resolve(&name, socket);
    let place = if node.tls_enabled { format!("https://{name}:{}", socket.port()) } else { format!("http://{socket}") };
    let url = format!("{place}/v1/client/allocation/{}/snapshot", wanted.previous);
    let request = builder.build().map_err(failed)?.get(url).header("X-Nomad-Token", token.reveal());
    let answer = request.send().await.map_err(failed)?;
    if !answer.status().is_success() {
        return Err(FetchError::Status { address: address.clone(), status: answer.status().as_u16() });
    }
    let (to, pieces) = mpsc::channel(PIECES_MAX);
    let mut body = answer.bytes_stream();
    let pump = async move {
        while let Some(piece) = body.next().await {
            if to.send(piece.map_err(|error| io::Error::other(with_sources(&error)))).await.is_err() {
                return;
            }
        }
        // An empty piece is the end: without it, the sender was dropped before.
        let _ = to.send(Ok(Bytes::new())).await;
    };
    let place =
        tokio::task::spawn_blocking(move || put(&wanted, Pieces { from: pieces, now: Bytes::new(), ended: false }));
    let ((), placed) = tokio::join!(pump, place);
    placed.map_err(io::Error::other).and_then(|placed| placed).map_err(FetchError::Unpack)
}

/// Unpacks the tar and moves its directories to the successor. Blocks.
fn put(wanted: &Wanted, pieces: Pieces) -> io::Result<()> {
    let parent = wanted.to.root().parent().ok_or_else(|| io::Error::other("an allocation's directory has a parent"))?;
    let staging = AllocDir::new(parent, &wanted.previous);
    // What an interrupted attempt left.
    staging.remove()?;
    staging.build()?;
    let tasks: Vec<&str> = wanted.tasks.iter().map(Str::as_str).collect();
    let moved = unpack::unpack(pieces, &staging.open()?, wanted.previous, &tasks)
        .and_then(|()| wanted.to.adopt(&staging, &tasks));
    staging.remove()?;
    moved
}

/// Received bytes for a reader that blocks.
struct Pieces {
    from: mpsc::Receiver<io::Result<Bytes>>,
    now: Bytes,
    ended: bool,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.now.is_empty() && !self.ended {
            self.now = self.from.blocking_recv().ok_or(io::ErrorKind::UnexpectedEof)??;
            self.ended = self.now.is_empty();
        }
        let count = self.now.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.now[..count]);
        self.now.advance(count);
        Ok(count)
    }
}
