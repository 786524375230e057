//! What nodes ask of servers, as bytes: [`Servers`] over anything that carries a request there and an answer back, and the other way round.
//! Connections are not here, nor are methods beside those of the trait.

mod ask;
mod serve;

#[cfg(test)]
mod tests;

use std::future::Future;

use songline_model::{NodeId, Secret, Str};

use crate::RpcError;
use crate::msgpack::DecodeError;

pub use ask::{RemoteServers, call};
pub use serve::{SERVED, serve_servers};

/// Carries requests to a server and answers back; headers are its business.
pub trait RpcClient: Send + Sync + 'static {
    /// Sends the body of a request for `Service.Method` and waits for the body of the answer.
    fn call(&self, method: &str, body: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, RpcError>> + Send;
}

/// What answers need of the server that gives them, beside what [`Servers`](crate::Servers) says.
pub trait ServerContext: Send + Sync {
    /// The node with this secret: some requests name no node.
    fn node_of(&self, secret: &Secret) -> Option<NodeId>;
    /// Where the leader listens, `host:port`; empty when there is none.
    fn leader_rpc_addr(&self) -> Str;
    /// Of the servers.
    fn datacenter(&self) -> Str;
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// No method of the trait: [`SERVED`] has those.
    #[error("rpc: can't find method {0}")]
    Unknown(String),
    /// Its body is none of that method.
    #[error("{}", .0.on_wire(0))]
    Decode(DecodeError),
    /// It was refused, or failed.
    #[error(transparent)]
    Refused(#[from] RpcError),
}
