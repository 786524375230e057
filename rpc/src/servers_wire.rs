//! Requests of nodes to servers, as bytes: `Servers` over any carrier of requests and answers, and the reverse.
//! Connections, and methods that the trait lacks, are elsewhere.

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

/// Carries requests to a server and answers back. It adds the headers.
pub trait RpcClient: Send + Sync + 'static {
    /// Sends the body of a request for `Service.Method` and waits for the body of the answer.
    fn call(&self, method: &str, body: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, RpcError>> + Send;
}

/// Data that answers need of the answering server beside [`Servers`](crate::Servers).
pub trait ServerContext: Send + Sync {
    /// The node with this secret, for requests that name no node.
    fn node_of(&self, secret: &Secret) -> Option<NodeId>;
    /// Address of the leader, `host:port`; empty without a leader.
    fn leader_rpc_addr(&self) -> Str;
    /// Datacenter of the servers.
    fn datacenter(&self) -> Str;
}

/// Reason why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    /// The method is not in [`SERVED`].
    #[error("rpc: can't find method {0}")]
    Unknown(String),
    /// The body cannot be decoded for the method.
    #[error("{}", .0.on_wire(0))]
    Decode(DecodeError),
    /// The request was refused, or failed.
    #[error(transparent)]
    Refused(#[from] RpcError),
}
