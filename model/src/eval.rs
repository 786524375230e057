//! Evaluations: requests to a scheduler to look at a job after a change.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::empty::is_empty;
use crate::{
    AllocMetric, DeploymentId, Dur, EvalId, EvalStatus, EvalTrigger, JobId, JobType, NamespaceName, NodeId, Secret,
    Str, Time,
};

/// An evaluation: the job to look at, the reason, and the outcome.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Evaluation {
    #[serde(rename = "ID", skip_serializing_if = "is_empty")]
    pub id: EvalId,
    #[serde(skip_serializing_if = "is_empty")]
    pub namespace: NamespaceName,
    /// From 1 to 100, or to the highest that the servers permit; larger ones are first.
    #[serde(skip_serializing_if = "is_empty")]
    pub priority: i64,
    #[serde(rename = "Type", skip_serializing_if = "is_empty")]
    pub kind: JobType,
    #[serde(skip_serializing_if = "is_empty")]
    pub triggered_by: EvalTrigger,
    #[serde(rename = "JobID", skip_serializing_if = "is_empty")]
    pub job_id: JobId,
    #[serde(skip_serializing_if = "is_empty")]
    pub job_modify_index: u64,
    #[serde(rename = "NodeID", with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub node_id: Option<NodeId>,
    #[serde(skip_serializing_if = "is_empty")]
    pub node_modify_index: u64,
    #[serde(rename = "DeploymentID", with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub deployment_id: Option<DeploymentId>,
    #[serde(skip_serializing_if = "is_empty")]
    pub status: EvalStatus,
    #[serde(skip_serializing_if = "is_empty")]
    pub status_description: Str,
    /// Delay before the evaluation is worked on; 0: none.
    #[serde(skip_serializing_if = "is_empty")]
    pub wait: Dur,
    /// Time before which the evaluation is not worked on.
    #[serde(skip_serializing_if = "is_empty")]
    pub wait_until: Option<Time>,
    #[serde(with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub next_eval: Option<EvalId>,
    #[serde(with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub previous_eval: Option<EvalId>,
    #[serde(with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub blocked_eval: Option<EvalId>,
    #[serde(rename = "FailedTGAllocs", skip_serializing_if = "is_empty")]
    pub failed_tg_allocs: Option<Arc<BTreeMap<Str, AllocMetric>>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub class_eligibility: Option<Arc<BTreeMap<Str, bool>>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub quota_limit_reached: Str,
    #[serde(skip_serializing_if = "is_empty")]
    pub escaped_computed_class: bool,
    #[serde(skip_serializing_if = "is_empty")]
    pub annotate_plan: bool,
    /// Number of allocations that could not be placed, by task group.
    #[serde(skip_serializing_if = "is_empty")]
    pub queued_allocations: Option<Arc<BTreeMap<Str, i64>>>,
    #[serde(rename = "LeaderACL", skip_serializing_if = "is_empty")]
    pub leader_acl: Secret,
    #[serde(skip_serializing_if = "is_empty")]
    pub snapshot_index: u64,
    #[serde(skip_serializing_if = "is_empty")]
    pub create_index: u64,
    #[serde(skip_serializing_if = "is_empty")]
    pub modify_index: u64,
    #[serde(with = "crate::unix_nanos", skip_serializing_if = "is_empty")]
    pub create_time: Time,
    /// Time of the last change.
    #[serde(with = "crate::unix_nanos", skip_serializing_if = "is_empty")]
    pub modify_time: Time,
}
