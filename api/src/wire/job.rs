//! Jobs in lists and their histories, and requests about jobs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use songline_model::{Job, JobDiff, JobStatus, JobSubmission, JobSummary, Multiregion, ScalingEvent, Str};

use crate::wire::responses::QueryMeta;

/// `JobListStub` of the wire.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobStub<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    #[serde(rename = "ParentID")]
    parent_id: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    datacenters: &'a Option<Vec<Str>>,
    node_pool: &'a str,
    multiregion: &'a Option<Multiregion>,
    #[serde(rename = "Type")]
    kind: &'a str,
    priority: i64,
    periodic: bool,
    parameterized_job: bool,
    stop: bool,
    status: JobStatus,
    status_description: &'a str,
    job_summary: Option<&'a JobSummary>,
    create_index: u64,
    modify_index: u64,
    job_modify_index: u64,
    submit_time: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a BTreeMap<Str, Str>>,
}

impl<'a> JobStub<'a> {
    /// The stub of a row; `meta`: whether it shows the job's meta.
    pub fn new(job: &'a Job, summary: Option<&'a JobSummary>, meta: bool) -> Self {
        Self {
            id: &job.id,
            parent_id: &job.parent_id,
            name: &job.name,
            namespace: &job.namespace,
            datacenters: &job.datacenters,
            node_pool: &job.node_pool,
            multiregion: &job.multiregion,
            kind: job.kind.as_str(),
            priority: job.priority,
            periodic: job.is_periodic(),
            parameterized_job: job.is_parameterized(),
            stop: job.stop,
            status: job.status,
            status_description: &job.status_description,
            job_summary: summary,
            create_index: job.create_index,
            modify_index: job.modify_index,
            job_modify_index: job.job_modify_index,
            submit_time: job.submit_time,
            meta: job.meta.as_ref().filter(|map| meta && !map.is_empty()),
        }
    }
}

/// `JobVersionsResponse` of the wire.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobVersionsResponse<'a> {
    /// Newest first.
    pub versions: Vec<&'a Job>,
    /// From each version's predecessor to it.
    pub diffs: Option<Vec<JobDiff>>,
    /// Index.
    #[serde(flatten)]
    pub meta: QueryMeta,
}

/// `JobRegisterRequest` of the wire, as it is sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobRegisterRequest {
    /// What it was written as.
    pub submission: Option<JobSubmission>,
    /// The job.
    pub job: Option<songline_model::spec::Job>,
    /// Whether `job_modify_index` must be the stored one.
    pub enforce_index: bool,
    /// 0: must not exist.
    pub job_modify_index: u64,
    /// Whether counts of known groups are kept.
    pub preserve_counts: bool,
    /// 0, or 1 to 100.
    pub eval_priority: i64,
    /// Whether policies of another edition are to be overridden: that needs a capability, and does nothing.
    pub policy_override: bool,
    /// Wins over the query.
    pub region: Str,
    /// When the query names none.
    pub namespace: Str,
}

/// `JobPlanRequest` of the wire, as it is sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobPlanRequest {
    /// The job.
    pub job: Option<songline_model::spec::Job>,
    /// Whether to say what differs.
    pub diff: bool,
    /// As with a registration.
    pub policy_override: bool,
    /// Wins over the query.
    pub region: Str,
    /// When the query names none.
    pub namespace: Str,
}

/// `JobValidateRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobValidateRequest {
    /// The job.
    pub job: Option<songline_model::spec::Job>,
    /// Wins over the query.
    pub region: Str,
}

/// `JobsParseRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobsParseRequest {
    /// The job file.
    #[serde(rename = "JobHCL")]
    pub job_hcl: String,
    /// Whether it is of the older language.
    #[serde(rename = "HCLv1")]
    pub hclv1: bool,
    /// Values of its variables.
    pub variables: String,
    /// Whether to fill in what is absent.
    pub canonicalize: bool,
}

/// `JobEvaluateRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobEvaluateRequest {
    /// Must be that of the path.
    #[serde(rename = "JobID")]
    pub job_id: Str,
    /// How.
    pub eval_options: EvalOptions,
}

/// `EvalOptions` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EvalOptions {
    /// Whether failed allocations are replaced whatever their policy says.
    pub force_reschedule: bool,
}

/// `JobRevertRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobRevertRequest {
    /// Must be that of the path.
    #[serde(rename = "JobID")]
    pub job_id: Str,
    /// To which version.
    pub job_version: u64,
    /// Only when this is the current one.
    pub enforce_prior_version: Option<u64>,
}

/// `JobStabilityRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobStabilityRequest {
    /// Must be that of the path.
    #[serde(rename = "JobID")]
    pub job_id: Str,
    /// Which version.
    pub job_version: u64,
    /// What it is.
    pub stable: bool,
}

/// `JobDispatchRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDispatchRequest {
    /// Must be that of the path.
    #[serde(rename = "JobID")]
    pub job_id: Str,
    /// What the child gets, in base64.
    pub payload: Option<Str>,
    /// What the child is told.
    pub meta: Option<BTreeMap<Str, Str>>,
    /// A repeated one answers the earlier child.
    pub idempotency_token: Str,
    /// Comes into the child's id.
    pub id_prefix_template: Str,
}

/// `ScalingRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ScalingRequest {
    /// How many.
    pub count: Option<i64>,
    /// `Job` and `Group`.
    pub target: Option<BTreeMap<Str, Str>>,
    /// Why.
    pub message: Str,
    /// Whether it tells of a failure.
    pub error: bool,
    /// Anything.
    pub meta: Option<BTreeMap<Str, serde_json::Value>>,
    /// Must be that of the query.
    pub namespace: Str,
}

/// `JobScaleStatus` of the wire.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobScaleStatus<'a> {
    /// Which.
    #[serde(rename = "JobID")]
    pub job_id: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its index.
    pub job_create_index: u64,
    /// Its index.
    pub job_modify_index: u64,
    /// Whether it is stopped.
    pub job_stopped: bool,
    /// By group.
    pub task_groups: BTreeMap<&'a str, GroupScaleStatus<'a>>,
}

/// `TaskGroupScaleStatus` of the wire.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GroupScaleStatus<'a> {
    /// The count.
    pub desired: i64,
    /// Allocations that are not over.
    pub placed: i64,
    /// Of these: running.
    pub running: i64,
    /// Of these: healthy.
    pub healthy: i64,
    /// Of these: not healthy.
    pub unhealthy: i64,
    /// What scaled it and what was told of that, newest first.
    pub events: Option<&'a [ScalingEvent]>,
}
