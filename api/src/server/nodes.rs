//! Calls of nodes: their agents, and the CSI plugins that run there.

use std::future::Future;
use std::sync::Arc;

use songline_commands::Actor;
use songline_model::{CsiVolumeKey, NodeId, Secret};
use songline_rpc::message::{ToController, ToCsiNode};
use songline_rpc::{NodeAgent, RpcError};

use super::Agent;

/// Calls of nodes.
pub trait Nodes: Agent {
    /// RPC client of a node's agent.
    type Node: NodeAgent;

    /// Client of a node's agent; `None` when this server cannot reach the node. `token` is the secret of the user on
    /// whose behalf the call is made: remote agents check it again.
    fn node_agent(&self, node: NodeId, token: Secret) -> Option<Arc<Self::Node>>;

    /// Id of the node that runs in this process; `None` when there is none.
    fn local_node(&self) -> Option<NodeId>;

    /// Sends a request to a controller of a CSI plugin: to one after another, until one of them can answer.
    fn ask_csi_controller<C: ToController>(
        &self,
        plugin: &str,
        request: C,
    ) -> impl Future<Output = Result<C::Answer, RpcError>> + Send;

    /// Sends a request to a CSI plugin on a node.
    fn ask_csi_node<C: ToCsiNode>(
        &self,
        node: NodeId,
        request: C,
    ) -> impl Future<Output = Result<C::Answer, RpcError>> + Send;

    /// Releases all claims of a node on a CSI volume: the node unmounts it, a controller detaches it, the claims are
    /// freed. Returns the index of the last entry.
    fn detach_csi_volume(
        &self,
        actor: Actor,
        volume: &CsiVolumeKey,
        node: NodeId,
    ) -> impl Future<Output = Result<u64, RpcError>> + Send;
}
