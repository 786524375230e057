//! What servers ask about the agent that this node is part of: machine, profiles, log. The agent knows it; here is only how it is asked.

use std::fmt;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use songline_rpc::{AskMonitor, AskProfile, Profile, RpcError, StreamFrame};
use tokio::sync::mpsc;

/// Answers questions about an agent.
pub trait AboutAgent: fmt::Debug + Send + Sync {
    /// The machine, as the JSON of `HostData`.
    fn host(&self) -> BoxFuture<'static, Result<Bytes, RpcError>>;

    /// A profile.
    fn profile(&self, ask: AskProfile) -> BoxFuture<'static, Result<Profile, RpcError>>;

    /// The log from now on, until nobody reads it.
    fn log(&self, ask: AskMonitor) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError>;
}
