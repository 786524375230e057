//! Responses of writes: their index, and the created objects.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use songline_model::{AllocMetric, EvalId, Evaluation, JobDiff, PlanAnnotations, Str, form};

use crate::alloc::AllocStub;

/// Metadata of a read in the body of an answer.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct QueryMeta {
    /// Index.
    pub index: u64,
    /// Nanoseconds since the last contact with the leader.
    pub last_contact: i64,
    /// Whether a leader is known.
    pub known_leader: bool,
    /// Token of the next page.
    pub next_token: Str,
}

impl QueryMeta {
    /// Metadata in the response of a write.
    pub fn written(index: u64) -> Self {
        Self { index, ..Self::default() }
    }
}

/// Response with an index only.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct WriteMeta {
    /// Index.
    pub index: u64,
}

/// Answer to the registration, scaling and evaluation of a job.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobRegisterResponse {
    /// Id of the created evaluation.
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    /// Index of the evaluation.
    pub eval_create_index: u64,
    /// Modify index of the job.
    pub job_modify_index: u64,
    /// Warnings about the job.
    pub warnings: String,
    /// Index and metadata.
    #[serde(flatten)]
    pub meta: QueryMeta,
}

/// Answer to the stop of a job: `JobDeregisterResponse` of the reference.
#[derive(Debug, Default)]
pub struct JobDeregisterResponse {
    /// Id of the created evaluation.
    pub eval_id: EvalId,
    /// Index of the evaluation.
    pub eval_create_index: u64,
    /// Modify index of the job.
    pub job_modify_index: u64,
    /// Id of the evaluation that releases volumes.
    pub volume_eval_id: EvalId,
    /// Index of that evaluation.
    pub volume_eval_index: u64,
    /// Index and metadata.
    pub meta: QueryMeta,
}

/// The members are in alphabetical order, as scripts that print the answer have seen them.
impl Serialize for JobDeregisterResponse {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(9))?;
        members.serialize_entry("EvalCreateIndex", &self.eval_create_index)?;
        members.serialize_entry("EvalID", &self.eval_id)?;
        members.serialize_entry("Index", &self.meta.index)?;
        members.serialize_entry("JobModifyIndex", &self.job_modify_index)?;
        members.serialize_entry("KnownLeader", &self.meta.known_leader)?;
        members.serialize_entry("LastContact", &self.meta.last_contact)?;
        members.serialize_entry("NextToken", &self.meta.next_token)?;
        members.serialize_entry("VolumeEvalID", &self.volume_eval_id)?;
        members.serialize_entry("VolumeEvalIndex", &self.volume_eval_index)?;
        members.end()
    }
}

/// Answer to the dry run of a registration.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobPlanResponse<'a> {
    /// Allocations that the scheduler would place, stop and update.
    pub annotations: Option<PlanAnnotationsView<'a>>,
    /// Metrics of the allocations that it could not place.
    #[serde(rename = "FailedTGAllocs")]
    pub failed_tg_allocs: Option<BTreeMap<Str, AllocMetric>>,
    /// Modify index of the stored job, 0 when there is none.
    pub job_modify_index: u64,
    /// Evaluations that the scheduler would create.
    pub created_evals: Option<Vec<Evaluation>>,
    /// Differences to the stored job.
    pub diff: Option<JobDiff>,
    /// Next launch of a periodic job: RFC 3339, in the job's time zone.
    #[serde(serialize_with = "time_as_text")]
    pub next_periodic_launch: Option<String>,
    /// Warnings about the job.
    pub warnings: String,
    /// Modify index of the stored job, as in `job_modify_index`.
    pub index: u64,
}

/// Writes a time that is a text already.
fn time_as_text<S: Serializer>(time: &Option<String>, s: S) -> Result<S::Ok, S::Error> {
    /// The text of a time.
    struct Text<'a>(&'a str);
    impl Serialize for Text<'_> {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            s.serialize_newtype_struct(form::TIME, self.0)
        }
    }
    time.as_deref().map(Text).serialize(s)
}

/// Numbers of allocations that a plan would place, stop and update, by group.
#[derive(Debug, Default, Serialize)]
pub struct PlanAnnotationsView<'a> {
    /// Changes by group.
    #[serde(flatten)]
    pub updates: PlanAnnotations,
    /// Allocations of other jobs to preempt; null: none.
    #[serde(rename = "PreemptedAllocs")]
    pub preempted_allocs: Option<Vec<AllocStub<'a>>>,
}

/// Answer to a dispatch: the child job and its evaluation.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobDispatchResponse {
    /// Id of the child.
    #[serde(rename = "DispatchedJobID")]
    pub dispatched_job_id: Str,
    /// Id of the child's evaluation.
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    /// Index of the evaluation.
    pub eval_create_index: u64,
    /// Create index of the child.
    pub job_create_index: u64,
    /// Index.
    pub index: u64,
}

/// Answer to the validation of a job.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobValidateResponse {
    /// Always true for a job that could be parsed.
    pub driver_config_validated: bool,
    /// One text per error.
    pub validation_errors: Option<Vec<String>>,
    /// All errors in one text.
    pub error: String,
    /// Warnings about the job.
    pub warnings: String,
}

/// Answer to a change of a node: its evaluations, heartbeat and servers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeUpdateResponse {
    /// Lifetime of a heartbeat, in nanoseconds.
    #[serde(rename = "HeartbeatTTL")]
    pub heartbeat_ttl: i64,
    /// Ids of the created evaluations.
    #[serde(rename = "EvalIDs")]
    pub eval_ids: Option<Vec<EvalId>>,
    /// Index of the evaluations.
    pub eval_create_index: u64,
    /// Modify index of the node.
    pub node_modify_index: u64,
    /// Unused.
    pub features: u64,
    /// `host:port` of the leader's server port.
    #[serde(rename = "LeaderRPCAddr")]
    pub leader_rpc_addr: String,
    /// Number of nodes in the cluster.
    pub num_nodes: u64,
    /// Servers of the cluster.
    pub servers: Option<Vec<NodeServerInfo>>,
    /// Scheduling eligibility of the node.
    pub scheduling_eligibility: Str,
    /// Index and metadata.
    #[serde(flatten)]
    pub meta: QueryMeta,
}

/// Address and version of a server, as nodes learn it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeServerInfo {
    /// `host:port` of the server port.
    #[serde(rename = "RPCAdvertiseAddr")]
    pub rpc_advertise_addr: String,
    /// Always 1.
    #[serde(rename = "RPCMajorVersion")]
    pub rpc_major_version: i64,
    /// Always 1.
    #[serde(rename = "RPCMinorVersion")]
    pub rpc_minor_version: i64,
    /// Datacenter.
    pub datacenter: String,
}

/// Answer to a change of drain or eligibility.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeChangeResponse {
    /// Modify index of the node; always 0 for eligibility.
    pub node_modify_index: u64,
    /// Ids of the created evaluations.
    #[serde(rename = "EvalIDs")]
    pub eval_ids: Option<Vec<EvalId>>,
    /// Index of the evaluations.
    pub eval_create_index: u64,
    /// Index.
    pub index: u64,
}

/// Answer to a change of a deployment.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeploymentUpdateResponse {
    /// Id of the created evaluation.
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    /// Index of the evaluation.
    pub eval_create_index: u64,
    /// Modify index of the deployment.
    pub deployment_modify_index: u64,
    /// Job version of the rollback; absent without one.
    pub reverted_job_version: Option<u64>,
    /// Index.
    pub index: u64,
}

impl DeploymentUpdateResponse {
    /// Response for a deployment that was written at `index`, with the evaluation of the same entry.
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
    /// Id of the created evaluation.
    #[serde(rename = "EvalID")]
    pub eval_id: EvalId,
    /// Index.
    pub index: u64,
}

/// Number of evaluations.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EvalCountResponse {
    /// Number of matching evaluations.
    pub count: u64,
    /// Index and metadata.
    #[serde(flatten)]
    pub meta: QueryMeta,
}

/// Result of a deletion.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct EvalDeleteResponse {
    /// Number of deleted evaluations.
    pub count: u64,
    /// Index.
    pub index: u64,
}
