//! How members reach each other: what the log asks of whoever moves its messages. What is in them is not known to a transport.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::members::NodeId;

/// Moves messages between members. A message may be lost, doubled or come late; it must not come changed.
pub trait Transport: Send + Sync + 'static {
    /// Gives `message` to the member `to` at `address` and returns what its `Log::receive` answers. Must end within `within`.
    fn send<'a>(&'a self, to: NodeId, address: &'a str, message: Bytes, within: Duration) -> BoxFuture<'a, Result<Bytes, TransportError>>;
}

/// Why there is no answer. The message may have arrived nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The member cannot be reached now; it is left alone for a while.
    #[error("{0}")]
    Unreachable(String),
    /// It did not answer in time, or the connection broke.
    #[error("{0}")]
    Lost(String),
}

/// For a log that has no other members.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTransport;

impl Transport for NoTransport {
    fn send<'a>(&'a self, to: NodeId, _: &'a str, _: Bytes, _: Duration) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        Box::pin(async move { Err(TransportError::Unreachable(format!("no such peer: {to}"))) })
    }
}
