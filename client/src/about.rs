//! Requests of servers about the agent that contains this node: machine, profiles, log. The agent implements the
//! trait.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use songline_rpc::{AskMonitor, AskProfile, Profile, RpcError, StreamFrame};
use tokio::sync::mpsc;

/// Answers questions about an agent.
pub trait AboutAgent: fmt::Debug + Send + Sync {
    /// Description of the machine, as the JSON of `HostData`.
    fn host(&self) -> BoxFuture<'static, Result<Bytes, RpcError>>;

    /// A CPU or memory profile.
    fn profile(&self, ask: AskProfile) -> BoxFuture<'static, Result<Profile, RpcError>>;

    /// Log lines from now on, until the receiver is dropped.
    fn log(&self, ask: AskMonitor) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError>;
}
