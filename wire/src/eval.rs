//! Evaluations with their relatives, and request bodies about them.

use serde::{Deserialize, Serialize};
use songline_model::{DeploymentId, EvalId, EvalStatus, EvalTrigger, Evaluation, NodeId, Str, Time};

/// An evaluation with its related evaluations.
#[derive(Debug, Serialize)]
pub struct EvalView<'a> {
    #[serde(flatten)]
    row: &'a Evaluation,
    #[serde(rename = "RelatedEvals", skip_serializing_if = "Vec::is_empty")]
    related: Vec<EvalStub<'a>>,
}

impl<'a> EvalView<'a> {
    /// Makes the view of a row and its relatives.
    pub fn new(row: &'a Evaluation, related: Vec<EvalStub<'a>>) -> Self {
        Self { row, related }
    }
}

/// An evaluation without its related ones, as other evaluations name it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EvalStub<'a> {
    #[serde(rename = "ID")]
    id: EvalId,
    namespace: &'a str,
    priority: i64,
    #[serde(rename = "Type")]
    kind: &'a str,
    triggered_by: EvalTrigger,
    #[serde(rename = "JobID")]
    job_id: &'a str,
    #[serde(rename = "NodeID")]
    node_id: NodeId,
    #[serde(rename = "DeploymentID")]
    deployment_id: DeploymentId,
    status: EvalStatus,
    status_description: &'a str,
    wait_until: Option<Time>,
    next_eval: EvalId,
    previous_eval: EvalId,
    blocked_eval: EvalId,
    create_index: u64,
    modify_index: u64,
    #[serde(with = "songline_model::unix_nanos")]
    create_time: Time,
    #[serde(with = "songline_model::unix_nanos")]
    modify_time: Time,
}

impl<'a> EvalStub<'a> {
    /// Makes the stub of a row.
    pub fn new(eval: &'a Evaluation) -> Self {
        Self {
            id: eval.id,
            namespace: &eval.namespace,
            priority: eval.priority,
            kind: eval.kind.as_str(),
            triggered_by: eval.triggered_by,
            job_id: &eval.job_id,
            node_id: eval.node_id.unwrap_or_default(),
            deployment_id: eval.deployment_id.unwrap_or_default(),
            status: eval.status,
            status_description: &eval.status_description,
            wait_until: eval.wait_until,
            next_eval: eval.next_eval.unwrap_or_default(),
            previous_eval: eval.previous_eval.unwrap_or_default(),
            blocked_eval: eval.blocked_eval.unwrap_or_default(),
            create_index: eval.create_index,
            modify_index: eval.modify_index,
            create_time: eval.create_time,
            modify_time: eval.modify_time,
        }
    }
}

/// Body that deletes evaluations, by id or by filter.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EvalDeleteRequest {
    /// Ids of the evaluations to delete.
    #[serde(rename = "EvalIDs")]
    pub eval_ids: Option<Vec<Str>>,
    /// Filter expression that selects the evaluations to delete, instead of ids.
    pub filter: Str,
}
