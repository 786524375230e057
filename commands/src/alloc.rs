//! Commands for allocations.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocId, AllocNetworkStatus, DesiredTransition, Evaluation, FlatMap,
    NodeId, Str, TaskState, Time,
};

/// A node's report of one of its allocations. Only the servers change the other fields of the row.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientAlloc {
    /// The allocation.
    pub id: AllocId,
    /// The authenticated node that sent the report.
    pub node_id: NodeId,
    /// Client status.
    pub client_status: AllocClientStatus,
    /// Client status for people.
    pub client_description: Str,
    /// States of the tasks, by task name.
    pub task_states: Option<Arc<FlatMap<Str, TaskState>>>,
    /// Health for the deployment, if known.
    pub deployment_status: Option<AllocDeploymentStatus>,
    /// Network address of the allocation.
    pub network_status: Option<AllocNetworkStatus>,
    /// Time of the report.
    #[serde(with = "songline_model::unix_nanos")]
    pub modify_time: Time,
}

/// Apply reports of nodes. Reports of several nodes may share one entry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateAllocsFromClient {
    /// The reports in the order of their arrival.
    pub allocs: Vec<ClientAlloc>,
    /// Evaluations that follow from the reports.
    pub evals: Vec<Evaluation>,
}

/// Request that allocations migrate or be replaced. Unknown allocations are skipped.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetDesiredTransitions {
    /// Transitions by allocation; fields that are not set stay as they are.
    pub allocs: BTreeMap<AllocId, DesiredTransition>,
    /// Evaluations that follow.
    pub evals: Vec<Evaluation>,
}
