//! Commands about allocations.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocId, AllocNetworkStatus, DesiredTransition, Evaluation, NodeId, Str, TaskState,
};

/// What a node says of one of its allocations. Everything else of the row is the servers' own.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientAlloc {
    /// Which.
    pub id: AllocId,
    /// The node that says so, as it was authenticated.
    pub node_id: NodeId,
    /// How it fares.
    pub client_status: AllocClientStatus,
    /// The same for people.
    pub client_description: Str,
    /// By task.
    pub task_states: Option<Arc<BTreeMap<Str, TaskState>>>,
    /// Its health, if it has become known.
    pub deployment_status: Option<AllocDeploymentStatus>,
    /// Its address.
    pub network_status: Option<AllocNetworkStatus>,
    /// Unix nanoseconds.
    pub modify_time: i64,
}

/// Take over what nodes say. Several nodes may share one entry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateAllocsFromClient {
    /// In the order they came.
    pub allocs: Vec<ClientAlloc>,
    /// What follows from them.
    pub evals: Vec<Evaluation>,
}

/// Ask for allocations to move or to be replaced. Unknown ones are skipped.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetDesiredTransitions {
    /// What is set; what is left open stays.
    pub allocs: BTreeMap<AllocId, DesiredTransition>,
    /// What follows.
    pub evals: Vec<Evaluation>,
}
