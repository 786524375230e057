//! What node agents and servers say to each other: two traits and their payloads. Transports are behind them.
//!
//! The calls are those of the reference's node RPC, so that the network transport can slot in behind the same traits.

mod about;
pub mod agent_wire;
mod exec;
pub mod message;
pub mod msgpack;
pub mod net;
mod node;
pub mod port;
mod server;
pub mod servers_wire;
pub mod yamux;

pub use about::*;
pub use exec::*;
pub use node::*;
pub use server::*;

/// Why a call failed, as the caller sees it. The text is part of the wire: agents act on what it contains.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// The other side refused or failed; its text.
    #[error("{0}")]
    Remote(String),
    /// With a status code that HTTP answers with.
    #[error("{text}")]
    Coded {
        /// HTTP status.
        code: u16,
        /// The text.
        text: String,
    },
    /// Nobody could be asked.
    #[error("No cluster leader")]
    NoLeader,
    /// The other side is shutting down or unreachable; the call may or may not have had its effect.
    #[error("rpc connection lost: {0}")]
    Lost(String),
}

impl RpcError {
    /// A refusal with this text.
    pub fn remote(text: impl Into<String>) -> Self {
        RpcError::Remote(text.into())
    }
}
