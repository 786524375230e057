//! Calls of a node agent to the servers.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocId, AllocNetworkStatus, Allocation, Dur, Eligibility, NamespaceName, Node, NodeEvent,
    NodeId, NodeStatus, Secret, ServiceRegistration, Str, TaskState,
};

use crate::RpcError;

/// What servers answer to node agents. Every call but the first `node_register` carries the node's id and its secret.
pub trait Servers: Send + Sync + 'static {
    /// `Node.Register`: at start and whenever what the node says of itself changes.
    fn node_register(&self, node: Node) -> impl Future<Output = Result<NodeUpdateResponse, RpcError>> + Send;

    /// `Node.UpdateStatus`: the heartbeat. The status is always `ready`; the servers decide what becomes of it.
    fn node_update_status(&self, from: &NodeAuth, status: NodeStatus) -> impl Future<Output = Result<NodeUpdateResponse, RpcError>> + Send;

    /// `Node.GetClientAllocs`: which allocations the node should have. Blocks until the answer's index is above `min_index`.
    fn node_get_client_allocs(&self, from: &NodeAuth, query: BlockingQuery) -> impl Future<Output = Result<ClientAllocs, RpcError>> + Send;

    /// `Alloc.GetAllocs`: whole allocations with their jobs. The answer has all of them or the call is repeated.
    fn alloc_get_allocs(&self, from: &NodeAuth, ids: Vec<AllocId>) -> impl Future<Output = Result<Vec<Arc<Allocation>>, RpcError>> + Send;

    /// `Node.UpdateAlloc`: how allocations fare. Returns the index of the entry, durable.
    fn node_update_alloc(&self, from: &NodeAuth, allocs: Vec<AllocUpdate>) -> impl Future<Output = Result<u64, RpcError>> + Send;

    /// `ServiceRegistration.Upsert`: announces services of allocations on the node. What is announced already makes no entry. Returns the
    /// index of the entry, 0 when it made none.
    fn service_registration_upsert(
        &self,
        from: &NodeAuth,
        services: Vec<ServiceRegistration>,
    ) -> impl Future<Output = Result<u64, RpcError>> + Send;

    /// `ServiceRegistration.DeleteByID`: takes an announcement back. Returns the index of the entry.
    fn service_registration_delete_by_id(
        &self,
        from: &NodeAuth,
        namespace: NamespaceName,
        id: Str,
    ) -> impl Future<Output = Result<u64, RpcError>> + Send;

    /// `Node.EmitEvents`: events on the node.
    fn node_emit_events(&self, from: &NodeAuth, events: Vec<NodeEvent>) -> impl Future<Output = Result<u64, RpcError>> + Send;
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAuth {
    /// The node.
    pub id: NodeId,
    /// Its secret, which it made itself and registered with.
    pub secret: Secret,
}

/// How long a read may wait.
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
    /// The next heartbeat has to come within this time; 0 when the node is down.
    pub heartbeat_ttl: Dur,
    /// Index of the entry that the call made, 0 when it made none.
    pub index: u64,
    /// Whether the node takes new allocations: an operator may have changed it.
    pub eligibility: Eligibility,
    /// How many nodes there are.
    pub nodes: u32,
    /// Where the servers listen, `host:port`.
    pub servers: Vec<Str>,
}

/// Answer to `Node.GetClientAllocs`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientAllocs {
    /// Every allocation of the node and its `alloc_modify_index`: one that the node lacks or has with a lower one is fetched, one that is
    /// missing here is stopped and destroyed.
    pub allocs: BTreeMap<AllocId, u64>,
    /// For the next call; at least 1.
    pub index: u64,
    /// What allocations show the node of the one before them to take over its data.
    pub migrate_tokens: BTreeMap<AllocId, Str>,
}

/// What a node says of one of its allocations.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AllocUpdate {
    /// Which.
    pub id: AllocId,
    /// How it fares.
    pub client_status: AllocClientStatus,
    /// The same for people.
    pub client_description: Str,
    /// By task.
    pub task_states: BTreeMap<Str, TaskState>,
    /// Its health for its deployment, once known.
    pub deployment_status: Option<AllocDeploymentStatus>,
    /// Its address, once known.
    pub network_status: Option<AllocNetworkStatus>,
}
