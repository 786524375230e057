//! Answers of writes: which index they got, and what they made.

use std::collections::BTreeMap;

use serde::Serialize;
use songline_model::{AllocMetric, EvalId, Evaluation, JobDiff, PlanAnnotations, Str};

/// `QueryMeta` of the wire, as it stands inside of answers.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct QueryMeta {
    /// Index.
    pub index: u64,
    /// Nanoseconds since the leader was heard of.
    pub last_contact: i64,
    /// Whether a leader is known.
    pub known_leader: bool,
    /// Where the next page starts.
    pub next_token: Str,
}

impl QueryMeta {
    /// What a write says.
    pub fn written(index: u64) -> Self {
        Self { index, ..Self::default() }
    }
}

/// An index and nothing else.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct WriteMeta {
    /// Index.
    pub index: u64,
}

/// `JobRegisterResponse` of the wire.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobRegisterResponse {
    /// The evaluation that was made.
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    /// Its index.
    pub eval_create_index: u64,
    /// The job's.
    pub job_modify_index: u64,
    /// What is accepted but unwise.
    pub warnings: String,
    /// Index.
    #[serde(flatten)]
    pub meta: QueryMeta,
}

/// `JobDeregisterResponse` of the wire.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobDeregisterResponse {
    /// The evaluation that was made.
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    /// Its index.
    pub eval_create_index: u64,
    /// The job's.
    pub job_modify_index: u64,
    /// Of volumes that are given back.
    #[serde(rename = "VolumeEvalID")]
    pub volume_eval_id: EvalId,
    /// Its index.
    pub volume_eval_index: u64,
    /// Index.
    #[serde(flatten)]
    pub meta: QueryMeta,
}

/// `JobPlanResponse` of the wire.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobPlanResponse {
    /// What would happen.
    pub annotations: Option<PlanAnnotationsView>,
    /// What would not be placed.
    #[serde(rename = "FailedTGAllocs")]
    pub failed_tg_allocs: Option<BTreeMap<Str, AllocMetric>>,
    /// The stored job's, 0 when there is none.
    pub job_modify_index: u64,
    /// Evaluations that would be made.
    pub created_evals: Option<Vec<Evaluation>>,
    /// What differs.
    pub diff: Option<JobDiff>,
    /// When a periodic job would run next: RFC 3339, in the job's time zone.
    pub next_periodic_launch: Option<String>,
    /// What is accepted but unwise.
    pub warnings: String,
    /// The stored job's index again.
    pub index: u64,
}

/// `PlanAnnotations` of the wire.
#[derive(Debug, Default, Serialize)]
pub struct PlanAnnotationsView {
    /// Per group.
    #[serde(flatten)]
    pub updates: PlanAnnotations,
    /// Who would have to give way: nobody, preemption comes later.
    #[serde(rename = "PreemptedAllocs")]
    pub preempted_allocs: Option<Vec<()>>,
}

/// `JobDispatchResponse` of the wire.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobDispatchResponse {
    /// The child.
    #[serde(rename = "DispatchedJobID")]
    pub dispatched_job_id: Str,
    /// Its evaluation.
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    /// Its index.
    pub eval_create_index: u64,
    /// The child's.
    pub job_create_index: u64,
    /// Index.
    pub index: u64,
}

/// `JobValidateResponse` of the wire.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobValidateResponse {
    /// Always, when the job could be read at all.
    pub driver_config_validated: bool,
    /// Each refusal.
    pub validation_errors: Option<Vec<String>>,
    /// All of them in one text.
    pub error: String,
    /// What is accepted but unwise.
    pub warnings: String,
}

/// `NodeUpdateResponse` of the wire.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeUpdateResponse {
    /// Nanoseconds.
    #[serde(rename = "HeartbeatTTL")]
    pub heartbeat_ttl: i64,
    /// Evaluations that were made.
    #[serde(rename = "EvalIDs")]
    pub eval_ids: Option<Vec<EvalId>>,
    /// Their index.
    pub eval_create_index: u64,
    /// The node's.
    pub node_modify_index: u64,
    /// Unused.
    pub features: u64,
    /// The leader's address.
    #[serde(rename = "LeaderRPCAddr")]
    pub leader_rpc_addr: String,
    /// How many nodes there are.
    pub num_nodes: u64,
    /// The servers.
    pub servers: Option<Vec<NodeServerInfo>>,
    /// Whether the node takes work.
    pub scheduling_eligibility: Str,
    /// Index.
    #[serde(flatten)]
    pub meta: QueryMeta,
}

/// `NodeServerInfo` of the wire.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeServerInfo {
    /// `host:port`.
    #[serde(rename = "RPCAdvertiseAddr")]
    pub rpc_advertise_addr: String,
    /// 1.
    #[serde(rename = "RPCMajorVersion")]
    pub rpc_major_version: i64,
    /// 1.
    #[serde(rename = "RPCMinorVersion")]
    pub rpc_minor_version: i64,
    /// Datacenter.
    pub datacenter: String,
}

/// `NodeDrainUpdateResponse` and `NodeEligibilityUpdateResponse` of the wire.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeChangeResponse {
    /// The node's; always 0 for eligibility.
    pub node_modify_index: u64,
    /// Evaluations that were made.
    #[serde(rename = "EvalIDs")]
    pub eval_ids: Option<Vec<EvalId>>,
    /// Their index.
    pub eval_create_index: u64,
    /// Index.
    pub index: u64,
}

/// `DeploymentUpdateResponse` of the wire.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeploymentUpdateResponse {
    /// The evaluation that was made.
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    /// Its index.
    pub eval_create_index: u64,
    /// The deployment's.
    pub deployment_modify_index: u64,
    /// The version that was gone back to.
    pub reverted_job_version: Option<u64>,
    /// Index.
    pub index: u64,
}

impl DeploymentUpdateResponse {
    /// What a deployment that was written at `index` says, with the evaluation that was written with it.
    pub fn at(index: u64, eval: Option<EvalId>, reverted_job_version: Option<u64>) -> Self {
        let eval_create_index = if eval.is_some() { index } else { 0 };
        let eval_id = eval.unwrap_or_default();
        Self { eval_id, eval_create_index, deployment_modify_index: index, reverted_job_version, index }
    }
}

/// An evaluation and an index: `AllocStopResponse`, `PeriodicForceResponse` without its create index.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocStopResponse {
    /// The evaluation that was made.
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    /// Index.
    pub index: u64,
}

/// A number of things.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EvalCountResponse {
    /// How many.
    pub count: u64,
    /// Index.
    #[serde(flatten)]
    pub meta: QueryMeta,
}

/// How many were deleted.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EvalDeleteResponse {
    /// How many.
    pub count: u64,
    /// Index.
    pub index: u64,
}
