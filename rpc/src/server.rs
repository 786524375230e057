//! Calls of a node agent to the servers.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use songline_model::{
    AllocId, Allocation, CsiVolume, CsiVolumeClaim, CsiVolumeKey, DrainStrategy, Dur, Eligibility, FlatMap,
    NamespaceName, Node, NodeEvent, NodeId, NodeStatus, Secret, ServiceRegistration, Str,
};

use crate::{AllocReport, RpcError};

/// Calls that servers answer for node agents. Every call but the first `node_register` carries the node's id and
/// secret.
pub trait Servers: Send + Sync + 'static {
    /// `Node.Register`: at the start, and whenever the node's description changes.
    fn node_register(&self, node: Node) -> impl Future<Output = Result<NodeUpdateResponse, RpcError>> + Send;

    /// `Node.UpdateStatus`: the heartbeat. The node always sends `ready`; the servers decide on the resulting status.
    fn node_update_status(
        &self,
        from: &NodeAuth,
        status: NodeStatus,
    ) -> impl Future<Output = Result<NodeUpdateResponse, RpcError>> + Send;

    /// `Node.GetClientAllocs`: the allocations that the node should run. Blocks until the answer's index is above
    /// `min_index`.
    fn node_get_client_allocs(
        &self,
        from: &NodeAuth,
        query: BlockingQuery,
    ) -> impl Future<Output = Result<ClientAllocs, RpcError>> + Send;

    /// `Alloc.GetAllocs`: whole allocations with their jobs. If the answer lacks any of them, the call is repeated.
    fn alloc_get_allocs(
        &self,
        from: &NodeAuth,
        ids: Vec<AllocId>,
    ) -> impl Future<Output = Result<Vec<Arc<Allocation>>, RpcError>> + Send;

    /// `Alloc.GetAllocs` as a blocking query: the allocations and their newest index, once all of them exist at the
    /// server and one of them is above `min_index`. By default the answer comes at once.
    fn alloc_get_newer_allocs(
        &self,
        from: &NodeAuth,
        ids: Vec<AllocId>,
        _query: BlockingQuery,
    ) -> impl Future<Output = Result<(Vec<Arc<Allocation>>, u64), RpcError>> + Send {
        async move {
            let allocs = self.alloc_get_allocs(from, ids).await?;
            let index = allocs.iter().map(|alloc| alloc.modify_index).max().unwrap_or(1);
            Ok((allocs, index))
        }
    }

    /// `Alloc.GetAlloc`: one allocation of any node and the index of the answer; `None` when it does not exist. Blocks
    /// until the answer's index is above `min_index`.
    fn alloc_get_alloc(
        &self,
        from: &NodeAuth,
        id: AllocId,
        query: BlockingQuery,
    ) -> impl Future<Output = Result<(Option<Arc<Allocation>>, u64), RpcError>> + Send;

    /// `Node.GetNode`: a node without its secret; `None` when it does not exist.
    fn node_get_node(&self, from: &NodeAuth, id: NodeId)
    -> impl Future<Output = Result<Option<Node>, RpcError>> + Send;

    /// `Node.UpdateAlloc`: client status of allocations. Returns the index of the entry, which is durable.
    fn node_update_alloc(
        &self,
        from: &NodeAuth,
        allocs: Vec<AllocReport>,
    ) -> impl Future<Output = Result<u64, RpcError>> + Send;

    /// `ServiceRegistration.Upsert`: registers services of allocations on the node. Registrations that already exist
    /// make no entry. Returns the index of the entry, 0 without one.
    fn service_registration_upsert(
        &self,
        from: &NodeAuth,
        services: Vec<ServiceRegistration>,
    ) -> impl Future<Output = Result<u64, RpcError>> + Send;

    /// `ServiceRegistration.DeleteByID`: deletes a service registration. Returns the index of the entry.
    fn service_registration_delete_by_id(
        &self,
        from: &NodeAuth,
        namespace: NamespaceName,
        id: Str,
    ) -> impl Future<Output = Result<u64, RpcError>> + Send;

    /// `CSIVolume.Claim`: takes a claim on a volume for an allocation of the node. A controller that has to attach the
    /// volume has done so before the answer.
    fn csi_volume_claim(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> impl Future<Output = Result<ClaimedVolume, RpcError>> + Send;

    /// `CSIVolume.Unpublish`: releases a claim of an allocation of the node. Returns the index of the entry.
    fn csi_volume_unpublish(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> impl Future<Output = Result<u64, RpcError>> + Send;

    /// `Node.UpdateDrain`: drains the node on its own request. Returns the index of the entry.
    fn node_update_drain(
        &self,
        from: &NodeAuth,
        strategy: DrainStrategy,
        meta: BTreeMap<Str, Str>,
    ) -> impl Future<Output = Result<u64, RpcError>> + Send;

    /// `Node.DeriveVaultToken`: new tokens of Vault for tasks of an allocation of the node, each in a wrapping of its
    /// own, by task. The inner error is the answer of servers that have no token to give.
    fn node_derive_vault_token(
        &self,
        from: &NodeAuth,
        alloc: AllocId,
        tasks: Vec<Str>,
    ) -> impl Future<Output = Result<Result<WrappedTokens, NoVaultToken>, RpcError>> + Send;

    /// `Node.EmitEvents`: reports events on the node.
    fn node_emit_events(
        &self,
        from: &NodeAuth,
        events: Vec<NodeEvent>,
    ) -> impl Future<Output = Result<u64, RpcError>> + Send;
}

/// The calling node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAuth {
    /// Id of the node.
    pub id: NodeId,
    /// Secret of the node, which the node made itself and registered with.
    pub secret: Secret,
}

/// Tokens of Vault by task. Each is the token of a wrapping, out of which the task's token can be taken once.
pub type WrappedTokens = BTreeMap<Str, Secret>;

/// Reason why servers give no token of Vault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NoVaultToken {
    /// The reason.
    pub why: Str,
    /// Whether a later attempt may succeed.
    pub recoverable: bool,
}

/// A volume with its secrets, and what a node needs to mount it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClaimedVolume {
    /// The volume.
    pub volume: CsiVolume,
    /// The controller's context for mounting it.
    pub publish_context: BTreeMap<Str, Str>,
}

/// Bounds of a blocking query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockingQuery {
    /// Answer when the index is above this one; 0 answers at once.
    pub min_index: u64,
    /// Answer after this time in any case; 0 means 300 s.
    pub max_wait: Dur,
}

/// Answer to registration and heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeUpdateResponse {
    /// Time within which the next heartbeat has to come; 0 when the node is down.
    pub heartbeat_ttl: Dur,
    /// Index of the entry that the call made, 0 without one.
    pub index: u64,
    /// Whether the node takes new allocations; an operator may have changed it.
    pub eligibility: Eligibility,
    /// Number of nodes in the cluster.
    pub nodes: u32,
    /// Addresses of the servers, `host:port`.
    pub servers: Vec<Str>,
}

/// Answer to `Node.GetClientAllocs`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientAllocs {
    /// Every allocation of the node with its `alloc_modify_index`. The node fetches one that it lacks or has with a
    /// lower index. It stops and destroys one that is missing here.
    pub allocs: FlatMap<AllocId, u64>,
    /// Index for the next call; at least 1.
    pub index: u64,
    /// Tokens by which allocations prove to the previous node that they may take over their predecessor's data.
    pub migrate_tokens: BTreeMap<AllocId, Str>,
}
