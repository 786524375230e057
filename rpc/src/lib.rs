//! Calls between node agents and servers: two traits and their payloads, and the transports behind them.
//!
//! The calls are those of the reference's node RPC, so that the network transport fits behind the same traits.

mod about;
pub mod agent_wire;
mod exec;
mod gauge;
pub mod message;
pub mod msgpack;
pub mod net;
mod node;
pub mod port;
mod server;
pub mod servers_wire;
pub mod world;
pub mod yamux;

pub use about::*;
pub use exec::*;
pub use gauge::*;
pub use message::{AllocReport, CSI_RETRYABLE};
pub use node::*;
pub use server::*;

/// Error of a call, as the caller sees it. The text does not change: agents match on its contents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// The other side refused or failed, with this text.
    #[error("{0}")]
    Remote(String),
    /// The same with a status code for the HTTP answer.
    #[error("{text}")]
    Coded {
        /// HTTP status.
        code: u16,
        /// Text of the error.
        text: String,
    },
    /// There is no leader to ask.
    #[error("No cluster leader")]
    NoLeader,
    /// The other side is shutting down or unreachable. The call may or may not have taken effect.
    #[error("rpc connection lost: {0}")]
    Lost(String),
}

impl RpcError {
    /// A refusal with this text.
    pub fn remote(text: impl Into<String>) -> Self {
        RpcError::Remote(text.into())
    }
}
