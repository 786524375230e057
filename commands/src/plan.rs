//! What was accepted of a plan.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_model::{Allocation, Deployment, DeploymentStatusUpdate, EvalId, Evaluation, Job, NodeId, PreemptAlloc, StopAlloc};

/// Stop, place and preempt allocations, and move deployments, all at once.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplyPlan {
    /// The version that placed allocations run.
    pub job: Option<Arc<Job>>,
    /// In plan order.
    pub stopped: Vec<StopAlloc>,
    /// New ones and ones updated in place; without a `job` they take this entry's.
    pub updated: Vec<Arc<Allocation>>,
    /// In plan order.
    pub preempted: Vec<PreemptAlloc>,
    /// A deployment to create or to replace.
    pub deployment: Option<Deployment>,
    /// Of deployments that have ended these are ignored.
    pub deployment_updates: Vec<DeploymentStatusUpdate>,
    /// The evaluation behind it.
    pub eval_id: EvalId,
    /// For the jobs of preempted allocations.
    pub preemption_evals: Vec<Evaluation>,
    /// Nodes that refused too many plans.
    pub ineligible_nodes: Vec<NodeId>,
    /// Unix nanoseconds.
    pub updated_at: i64,
}
