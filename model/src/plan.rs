//! Plans: what a scheduler proposes and what of it was accepted. A plan never touches the log; its result does.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{AllocClientStatus, AllocId, AllocState, Allocation, Deployment, DeploymentId, DeploymentStatus, EvalId, Job, NodeId, Str};

/// What one scheduler wants to change, computed on a view at `snapshot_index`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// The evaluation that the plan is for.
    pub eval_id: EvalId,
    /// 1 to 100; higher ones go first in the plan queue.
    pub priority: i64,
    /// Accept everything or nothing.
    pub all_at_once: bool,
    /// The job's version that new allocations run; absent when the job is gone.
    pub job: Option<Arc<Job>>,
    /// Allocations to stop, by node.
    pub node_update: BTreeMap<NodeId, Vec<StopAlloc>>,
    /// Allocations to place or to update in place, by node. Their `job` may be absent: it is the plan's.
    pub node_allocation: BTreeMap<NodeId, Vec<Arc<Allocation>>>,
    /// Allocations that give way to others, by node.
    pub node_preemptions: BTreeMap<NodeId, Vec<PreemptAlloc>>,
    /// A deployment to create or to replace.
    pub deployment: Option<Deployment>,
    /// Deployments that change their status.
    pub deployment_updates: Vec<DeploymentStatusUpdate>,
    /// What a dry run shows, when it was asked for.
    pub annotations: Option<PlanAnnotations>,
    /// Index of the view that the plan was computed on.
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

/// What of a plan was applied. Nodes that did not fit the newest view are missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanResult {
    /// As in the plan.
    pub node_update: BTreeMap<NodeId, Vec<StopAlloc>>,
    /// As in the plan.
    pub node_allocation: BTreeMap<NodeId, Vec<Arc<Allocation>>>,
    /// As in the plan.
    pub node_preemptions: BTreeMap<NodeId, Vec<PreemptAlloc>>,
    /// As in the plan.
    pub deployment: Option<Deployment>,
    /// As in the plan.
    pub deployment_updates: Vec<DeploymentStatusUpdate>,
    /// Nodes that refused plans too often and take no more work for now.
    pub ineligible_nodes: Vec<NodeId>,
    /// When above 0, the plan was accepted in part only: look again at a view of at least this index.
    pub refresh_index: u64,
    /// Index of the entry that applied the result, 0 when nothing was.
    pub alloc_index: u64,
}

/// Stops one allocation. It keeps its own job version.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StopAlloc {
    /// Which.
    pub id: AllocId,
    /// Why, as people read it.
    pub desired_description: Str,
    /// `lost` or `unknown` when the servers speak for the node; absent keeps the node's word.
    pub client_status: Option<AllocClientStatus>,
    /// The evaluation that will look at it again.
    pub followup_eval_id: Option<EvalId>,
    /// What to append to the alloc's history.
    pub append_state: Option<AllocState>,
    /// Unix nanoseconds.
    pub modify_time: i64,
}

/// Evicts one allocation for another.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PreemptAlloc {
    /// Which.
    pub id: AllocId,
    /// For whom.
    pub preempted_by: AllocId,
    /// Unix nanoseconds.
    pub modify_time: i64,
}

/// Moves a deployment to another status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeploymentStatusUpdate {
    /// Which.
    pub deployment_id: DeploymentId,
    /// To what.
    pub status: DeploymentStatus,
    /// Why, as people read it.
    pub status_description: Str,
}

/// What a dry run of the scheduler would do.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PlanAnnotations {
    /// Per group.
    #[serde(rename = "DesiredTGUpdates")]
    pub desired_tg_updates: BTreeMap<Str, DesiredUpdates>,
}

/// How many allocations of a group a scheduler would leave, place, stop or change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DesiredUpdates {
    /// Left alone.
    pub ignore: u64,
    /// New.
    pub place: u64,
    /// Moved to another node.
    pub migrate: u64,
    /// Stopped.
    pub stop: u64,
    /// Changed without a restart.
    pub in_place_update: u64,
    /// Replaced.
    pub destructive_update: u64,
    /// Canaries placed.
    pub canary: u64,
    /// Evicted for others.
    pub preemptions: u64,
}
