//! A remote node, called over the session that exists at the time of the call.

use std::sync::Weak;

use bytes::Bytes;
use songline_model::{NodeId, Secret};
use songline_rpc::RpcError;
use songline_rpc::agent_wire::{Reach, RemoteAgent};
use songline_rpc::message::Caller;
use songline_rpc::net::Channel;

use super::super::Core;

/// A node that some server has a session with.
pub type RemoteNode = RemoteAgent<ByServers>;

/// Calls through this server's sessions, or through another server.
#[derive(Debug, Clone)]
pub struct ByServers {
    core: Weak<Core>,
    node: NodeId,
}

/// The node, for a caller that was authorized before. The node authorizes the token again.
pub(super) fn remote_node(core: &Core, node: NodeId, token: Secret) -> RemoteNode {
    let region = core.facts.info.region.as_str().into();
    RemoteAgent::new(
        ByServers { core: Weak::clone(&core.own), node },
        node,
        Caller { region, auth_token: token, ..Caller::default() },
    )
}

fn going() -> RpcError {
    RpcError::Lost("server is shutting down".into())
}

impl Reach for ByServers {
    async fn call(&self, method: &str, body: Vec<u8>) -> Result<Bytes, RpcError> {
        self.core.upgrade().ok_or_else(going)?.call_node(self.node, method, &body).await
    }

    async fn open(&self, method: &str, request: Vec<u8>) -> Result<Channel, RpcError> {
        self.core.upgrade().ok_or_else(going)?.stream_of_node(self.node, method, &request).await
    }
}
