//! Calls of the node RPC over connections: framing, errors as text, who serves a stream and who calls over one.
//!
//! What bodies say is not here: they are bytes of one msgpack value each, in both directions.

mod channel;
mod header;
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

/// The longest header, in bytes.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;

/// The longest request that is taken in, in bytes.
pub const REQUEST_BYTES_MAX: usize = 32 << 20;

/// The longest answer that is taken in, in bytes.
pub const ANSWER_BYTES_MAX: usize = 512 << 20;

/// The caller, as far as its connection identifies it. Nothing is proven but what TLS or the servers' key prove: one session carries calls
/// of many users.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The address of the other end.
    pub from: SocketAddr,
    /// The names that the caller's certificate has; `None` without TLS.
    pub names: Option<Arc<[String]>>,
    /// Whether the other end has proved that it is a server.
    pub is_server: bool,
    /// The session that the call came over, if it came over one: calls can go back over it.
    pub session: Option<Session>,
}

impl Caller {
    /// A caller without TLS and without a session.
    pub fn plain(from: SocketAddr) -> Self {
        Self { from, names: None, is_server: false, session: None }
    }

    /// Waits until the caller cannot hear an answer any more; for ever where that cannot be known.
    pub async fn gone(&self) {
        match &self.session {
            Some(session) => {
                session.closed().await;
            }
            None => std::future::pending().await,
        }
    }
}

/// Why a call was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is nothing with the name before the dot.
    NoService,
    /// The service has nothing with the name behind the dot.
    NoMethod,
    /// The body is not what the method takes.
    Body(DecodeError),
    /// It was understood and failed.
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

/// What answers calls. Who says that there is no such method has its stream closed behind the answer, as has an undecodable body.
pub trait Dispatch: Send + Sync + 'static {
    /// Answers a call with the one value of its body.
    fn call(&self, method: &str, body: Bytes, caller: &Caller) -> impl Future<Output = Result<Bytes, Refusal>> + Send;

    /// Whether `method` is a streaming call that is answered here.
    fn streams(&self, method: &str) -> bool;

    /// Answers a streaming call that `streams` has said yes to; the caller has been told to go on, its request comes next.
    fn stream(&self, method: &str, channel: Channel, caller: &Caller) -> impl Future<Output = ()> + Send;
}

/// What comes before an error with a status code.
const CODED: &str = "RPC Error:: ";

impl RpcError {
    /// As the wire has it: its text, behind its code if it has one.
    pub fn wire_text(&self) -> String {
        match self {
            Self::Coded { code, text } => format!("{CODED}{code},{text}"),
            Self::Remote(_) | Self::NoLeader | Self::Lost(_) => self.to_string(),
        }
    }

    /// What a text of the wire means. The text of an error without a code is kept as it is.
    pub fn of_wire_text(text: &str) -> Self {
        let coded = text.find(CODED).and_then(|at| text[at + CODED.len()..].split_once(','));
        match coded.and_then(|(code, text)| Some((code.parse().ok()?, text))) {
            Some((code, text)) => Self::Coded { code, text: text.to_owned() },
            None => Self::Remote(text.to_owned()),
        }
    }

    /// The same one hop further: errors without a code say that they came over a session.
    #[must_use]
    pub fn over_a_hop(self) -> Self {
        match self {
            Self::Remote(text) => Self::Remote(format!("rpc error: {text}")),
            Self::NoLeader => Self::Remote(format!("rpc error: {}", Self::NoLeader)),
            Self::Coded { .. } | Self::Lost(_) => self,
        }
    }
}
