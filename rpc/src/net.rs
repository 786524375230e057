//! Calls of the node RPC over connections: framing, errors as text, serving and calling.
//!
//! Bodies are opaque here: one msgpack value each, in both directions.

mod channel;
mod header;
mod hold;
mod line;
mod pool;
mod serve;
#[cfg(test)]
mod tests;
mod values;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::RpcError;
use crate::msgpack::DecodeError;
use crate::yamux::Session;

pub use channel::{Channel, ChannelReader, ChannelWriter, open_channel};
pub use header::{RequestHeader, ResponseHeader, StreamAnswer, StreamOpening};
pub use line::call_over;
pub use pool::{OnSession, Pool, PoolLimits};
pub use serve::{serve, serve_session};
pub use values::Values;

/// Longest header, in bytes.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Longest request that is accepted, in bytes.
pub const REQUEST_BYTES_MAX: usize = 32 << 20;

/// Longest answer that is accepted, in bytes.
pub const ANSWER_BYTES_MAX: usize = 512 << 20;

/// The caller, as far as its connection identifies it. Only TLS and the servers' key prove anything: one session
/// carries calls of many users.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Address of the other end.
    pub from: SocketAddr,
    /// Names in the caller's certificate; `None` without TLS.
    pub names: Option<Arc<[String]>>,
    /// Whether the other end has proved that it is a server.
    pub is_server: bool,
    /// Session that the call came over, if any; calls back to the caller can use it.
    pub session: Option<Session>,
}

impl Caller {
    /// A caller without TLS and without a session.
    pub fn plain(from: SocketAddr) -> Self {
        Self { from, names: None, is_server: false, session: None }
    }

    /// Waits until the caller can no longer receive an answer. Waits for ever where that cannot be known.
    pub async fn gone(&self) {
        match &self.session {
            Some(session) => {
                session.closed().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// Reason why a call was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No service has the name before the dot.
    NoService,
    /// The service has no method with the name after the dot.
    NoMethod,
    /// The body cannot be decoded for the method.
    Body(DecodeError),
    /// The call was decoded but failed.
    Failed(RpcError),
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        Self::Failed(error)
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::Body(error)
    }
}

/// Answers calls. After an answer about an unknown method or an undecodable body the stream is closed.
pub trait Dispatch: Send + Sync + 'static {
    /// Answers a call; `body` is one msgpack value.
    fn call(&self, method: &str, body: Bytes, caller: &Caller) -> impl Future<Output = Result<Bytes, Refusal>> + Send;

    /// Whether `method` is a streaming call of this dispatcher.
    fn streams(&self, method: &str) -> bool;

    /// Answers a streaming call for which `streams` returned true. The opening has been accepted; the request is the
    /// next value.
    fn stream(&self, method: &str, channel: Channel, caller: &Caller) -> impl Future<Output = ()> + Send;
}

/// Prefix of the text of an error with a status code.
const CODED: &str = "RPC Error:: ";

impl RpcError {
    /// Text of the error on the wire: the code first, if there is one.
    pub fn wire_text(&self) -> String {
        match self {
            Self::Coded { code, text } => format!("{CODED}{code},{text}"),
            Self::Remote(_) | Self::NoLeader | Self::Lost(_) => self.to_string(),
        }
    }

    /// Parses an error's text from the wire. The text of an error without a code is kept as it is.
    pub fn of_wire_text(text: &str) -> Self {
        let coded = text.find(CODED).and_then(|at| text[at + CODED.len()..].split_once(','));
        match coded.and_then(|(code, text)| Some((code.parse().ok()?, text))) {
            Some((code, text)) => Self::Coded { code, text: text.to_owned() },
            None => Self::Remote(text.to_owned()),
        }
    }

    /// The error one hop further: errors without a code get the prefix `rpc error: `.
    #[must_use]
    pub fn over_a_hop(self) -> Self {
        match self {
            Self::Remote(text) => Self::Remote(format!("rpc error: {text}")),
            Self::NoLeader => Self::Remote(format!("rpc error: {}", Self::NoLeader)),
            Self::Coded { .. } | Self::Lost(_) => self,
        }
    }
}
