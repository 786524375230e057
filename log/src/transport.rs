//! Transport between members: the trait that the log uses to send its messages. The messages are opaque to the
//! transport.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::members::NodeId;

/// Moves messages between members. A message may be lost, duplicated or late, but must not be changed.
pub trait Transport: Send + Sync + 'static {
    /// Sends `message` to the member `to` at `address` and returns the answer of its `Log::receive`. Must end within
    /// `within`.
    fn send<'a>(
        &'a self,
        to: NodeId,
        address: &'a str,
        message: Bytes,
        within: Duration,
    ) -> BoxFuture<'a, Result<Bytes, TransportError>>;
}

/// Error of a message without answer. The message may have arrived nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The member cannot be reached now. openraft backs off before it tries again.
    #[error("{0}")]
    Unreachable(String),
    /// The member did not answer in time, or the connection broke.
    #[error("{0}")]
    Lost(String),
}

/// Transport of a log without other members.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTransport;

impl Transport for NoTransport {
    fn send<'a>(
        &'a self,
        to: NodeId,
        _: &'a str,
        _: Bytes,
        _: Duration,
    ) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        Box::pin(async move { Err(TransportError::Unreachable(format!("no such peer: {to}"))) })
    }
}
