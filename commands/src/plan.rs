//! Command for the accepted part of a plan.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_model::{
    Allocation, Deployment, DeploymentStatusUpdate, EvalId, Evaluation, Job, NodeId, PreemptAlloc, StopAlloc, Time,
};

/// Stop, place and preempt allocations, and update deployments, in one entry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplyPlan {
    /// The job version of placed allocations.
    pub job: Option<Arc<Job>>,
    /// Allocations to stop, in plan order.
    pub stopped: Vec<StopAlloc>,
    /// New allocations and those updated in place; one without a `job` takes the job of this command.
    pub updated: Vec<Arc<Allocation>>,
    /// Allocations to preempt, in plan order.
    pub preempted: Vec<PreemptAlloc>,
    /// Deployment to create or to replace.
    pub deployment: Option<Deployment>,
    /// New statuses of deployments; those of terminal deployments are ignored.
    pub deployment_updates: Vec<DeploymentStatusUpdate>,
    /// The evaluation that the plan was made for.
    pub eval_id: EvalId,
    /// Evaluations for the jobs of preempted allocations.
    pub preemption_evals: Vec<Evaluation>,
    /// Nodes that rejected too many plans, to be made ineligible.
    pub ineligible_nodes: Vec<NodeId>,
    /// Whether the desired transitions of `updated` stay as they are stored. They are set by other entries, some after the
    /// scheduler has copied the rows. Plans of earlier versions replaced them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeps_transitions: bool,
    /// Time of the change.
    #[serde(with = "songline_model::unix_nanos")]
    pub updated_at: Time,
}
