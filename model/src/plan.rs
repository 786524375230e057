//! Plans: changes that a scheduler proposes, and the part that was accepted. Only the result of a plan is written to
//! the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    AllocClientStatus, AllocId, AllocState, Allocation, Deployment, DeploymentId, DeploymentStatus, EvalId, Job,
    NodeId, Str, Time,
};

/// Changes that a scheduler proposes, computed on a view at `snapshot_index`. The bytes are what servers of one cluster
/// say to each other.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Plan {
    /// The evaluation that the plan is for.
    pub eval_id: EvalId,
    /// 1 to 100; the plan queue takes higher priorities first.
    pub priority: i64,
    /// Whether the plan is accepted as a whole or not at all.
    pub all_at_once: bool,
    /// The job version that new allocations run; absent when the job is gone.
    pub job: Option<Arc<Job>>,
    /// Allocations to stop, by node.
    pub node_update: BTreeMap<NodeId, Vec<StopAlloc>>,
    /// Allocations to place or to update in place, by node. An absent `job` means the plan's job.
    pub node_allocation: BTreeMap<NodeId, Vec<Arc<Allocation>>>,
    /// Allocations to preempt, by node.
    pub node_preemptions: BTreeMap<NodeId, Vec<PreemptAlloc>>,
    /// A deployment to create or to replace.
    pub deployment: Option<Deployment>,
    /// Deployments whose status changes.
    pub deployment_updates: Vec<DeploymentStatusUpdate>,
    /// Annotations for a dry run; absent unless requested.
    pub annotations: Option<PlanAnnotations>,
    /// Log index of the view that the plan was computed on.
    pub snapshot_index: u64,
}

impl Plan {
    /// Whether the plan changes nothing.
    pub fn is_no_op(&self) -> bool {
        self.node_update.is_empty()
            && self.node_allocation.is_empty()
            && self.node_preemptions.is_empty()
            && self.deployment.is_none()
            && self.deployment_updates.is_empty()
    }
}

/// Applied part of a plan. Nodes whose changes did not fit the newest view are missing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanResult {
    /// Stopped allocations, by node.
    pub node_update: BTreeMap<NodeId, Vec<StopAlloc>>,
    /// Placed and updated allocations, by node.
    pub node_allocation: BTreeMap<NodeId, Vec<Arc<Allocation>>>,
    /// Preempted allocations, by node.
    pub node_preemptions: BTreeMap<NodeId, Vec<PreemptAlloc>>,
    /// Created or replaced deployment.
    pub deployment: Option<Deployment>,
    /// Changed statuses of deployments.
    pub deployment_updates: Vec<DeploymentStatusUpdate>,
    /// Nodes that rejected too many plans and were made ineligible.
    pub ineligible_nodes: Vec<NodeId>,
    /// When above 0, the plan was accepted in part only: the scheduler retries on a view of at least this index.
    pub refresh_index: u64,
    /// Index of the entry that applied the result; 0 when nothing was applied.
    pub alloc_index: u64,
}

impl PlanResult {
    /// The part of the result that the scheduler which submitted the plan looks at: of allocations only their ids. A
    /// scheduler on another server gets this.
    #[must_use]
    pub fn in_short(self) -> Self {
        let id_only = |alloc: Arc<Allocation>| Arc::new(Allocation { id: alloc.id, ..Allocation::default() });
        let ids = |allocs: Vec<Arc<Allocation>>| allocs.into_iter().map(id_only).collect();
        let node_allocation = self.node_allocation.into_iter().map(|(node, allocs)| (node, ids(allocs))).collect();
        Self { node_allocation, node_preemptions: BTreeMap::new(), ..self }
    }
}

/// Stops one allocation. The allocation keeps its own job version.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StopAlloc {
    /// The allocation to stop.
    pub id: AllocId,
    /// Reason, for people.
    pub desired_description: Str,
    /// `lost` or `unknown` when the servers decide in place of the node; absent keeps the node's status.
    pub client_status: Option<AllocClientStatus>,
    /// The evaluation that will look at the allocation again.
    pub followup_eval_id: Option<EvalId>,
    /// State to append to the allocation's history.
    pub append_state: Option<AllocState>,
    /// Time of the change. 0 keeps the row's.
    #[serde(with = "crate::unix_nanos")]
    pub modify_time: Time,
}

/// Preempts one allocation in favour of another.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PreemptAlloc {
    /// The allocation to preempt.
    pub id: AllocId,
    /// The allocation that takes the place.
    pub preempted_by: AllocId,
    /// Time of the change. 0 keeps the row's.
    #[serde(with = "crate::unix_nanos")]
    pub modify_time: Time,
}

/// Sets the status of a deployment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeploymentStatusUpdate {
    /// The deployment.
    pub deployment_id: DeploymentId,
    /// The new status.
    pub status: DeploymentStatus,
    /// Reason, for people.
    pub status_description: Str,
}

/// Changes that a dry run of the scheduler would make.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PlanAnnotations {
    /// Numbers of changes, by group.
    #[serde(rename = "DesiredTGUpdates")]
    pub desired_tg_updates: BTreeMap<Str, DesiredUpdates>,
}

/// Numbers of allocations of a group that a scheduler would leave, place, stop or change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DesiredUpdates {
    /// Unchanged.
    pub ignore: u64,
    /// Newly placed.
    pub place: u64,
    /// Migrated to another node.
    pub migrate: u64,
    /// Stopped.
    pub stop: u64,
    /// Updated without a restart.
    pub in_place_update: u64,
    /// Replaced.
    pub destructive_update: u64,
    /// Canaries placed.
    pub canary: u64,
    /// Preempted in favour of others.
    pub preemptions: u64,
}
