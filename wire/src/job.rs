//! Jobs in lists and histories, and request bodies about jobs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use songline_model::{Blob, Job, JobDiff, JobStatus, JobSubmission, JobSummary, Multiregion, ScalingEvent, Str, Time};

use crate::responses::QueryMeta;

/// A job in lists, with its summary.
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
    #[serde(with = "songline_model::unix_nanos")]
    submit_time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<&'a BTreeMap<Str, Str>>,
}

impl<'a> JobStub<'a> {
    /// Makes the stub of a row; `meta`: whether it shows the job's meta.
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

/// A version of a job, as Nomad shows it: the payload of a dispatched job in the block form of Snappy.
pub fn version(job: &Job) -> Cow<'_, Job> {
    if !job.dispatched {
        return Cow::Borrowed(job);
    }
    let payload = job.payload.as_ref().map(|payload| payload.0.as_slice()).unwrap_or_default();
    Cow::Owned(Job { payload: Some(Blob(literal_block(payload))), ..job.clone() })
}

/// A Snappy block of one literal: the length in groups of seven bits, the literal's tag and its bytes.
fn literal_block(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(0x80 | (length & 0x7f) as u8);
        length >>= 7;
    }
    out.push(length as u8);
    // A literal has at most 64 KiB here: its length minus one is in the tag, or in one or two bytes after it.
    for part in bytes.chunks(1 << 16) {
        let [low, high, ..] = (part.len() - 1).to_le_bytes();
        match (high, low) {
            (0, 0..60) => out.push(low << 2),
            (0, _) => out.extend_from_slice(&[60 << 2, low]),
            (_, _) => out.extend_from_slice(&[61 << 2, low, high]),
        }
        out.extend_from_slice(part);
    }
    out
}

/// Answer of `job/ID/versions`: the kept versions, and their differences if asked for.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobVersionsResponse<'a> {
    /// Newest first, each from [`version`].
    pub versions: Vec<Cow<'a, Job>>,
    /// Differences between each version and its predecessor.
    pub diffs: Option<Vec<JobDiff>>,
    /// Index and metadata.
    #[serde(flatten)]
    pub meta: QueryMeta,
}

/// Decodes a submitted job. Refuses a volume mount without its volume or its destination, which has no stored form.
pub fn with_whole_mounts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<songline_model::spec::Job>, D::Error> {
    let job: Option<songline_model::spec::Job> = Option::deserialize(deserializer)?;
    let groups = job.iter().flat_map(|job| job.task_groups.iter().flatten());
    let tasks = groups.flat_map(|group| group.tasks.iter().flatten());
    let mut mounts = tasks.flat_map(|task| task.volume_mounts.iter().flatten());
    if mounts.any(|mount| mount.volume.is_none() || mount.destination.is_none()) {
        return Err(D::Error::custom("volume mount needs Volume and Destination"));
    }
    Ok(job)
}

/// Body of the registration of a job.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobRegisterRequest {
    /// Source of the job.
    pub submission: Option<JobSubmission>,
    /// The job.
    #[serde(deserialize_with = "with_whole_mounts")]
    pub job: Option<songline_model::spec::Job>,
    /// Whether `job_modify_index` must equal the stored index.
    pub enforce_index: bool,
    /// Expected modify index; 0: the job must not exist.
    pub job_modify_index: u64,
    /// Whether existing groups keep their counts.
    pub preserve_counts: bool,
    /// Priority of the evaluation: 0 for the job's, or 1 to 100.
    pub eval_priority: i64,
    /// Whether to override policies of another edition: needs a capability, and has no effect.
    pub policy_override: bool,
    /// Region; takes precedence over that of the query.
    pub region: Str,
    /// Namespace if the query names none.
    pub namespace: Str,
}

/// Answer of a region to the check of its part of a multiregion job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobPart {
    /// Version of the job in the region; `None`: it is not registered there.
    pub version: Option<u64>,
    /// Whether the registration would change the job.
    pub changed: bool,
}

impl JobPart {
    /// Lowest version that the job has in the region after the registration.
    pub fn next_version(self) -> u64 {
        match self.version {
            None => 0,
            Some(version) if self.changed => version + 1,
            Some(version) => version,
        }
    }
}

/// Body of the dry run of a registration.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobPlanRequest {
    /// The job.
    #[serde(deserialize_with = "with_whole_mounts")]
    pub job: Option<songline_model::spec::Job>,
    /// Whether to answer with the differences to the stored job.
    pub diff: bool,
    /// Same as in [`JobRegisterRequest`].
    pub policy_override: bool,
    /// Region; takes precedence over that of the query.
    pub region: Str,
    /// Namespace if the query names none.
    pub namespace: Str,
}

/// Body of the validation of a job.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobValidateRequest {
    /// The job.
    #[serde(deserialize_with = "with_whole_mounts")]
    pub job: Option<songline_model::spec::Job>,
    /// Region; takes precedence over that of the query.
    pub region: Str,
}

/// Body of `jobs/parse`: a job file and its variables.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobsParseRequest {
    /// Source of the job file.
    #[serde(rename = "JobHCL")]
    pub job_hcl: String,
    /// Whether the source is in the older language, HCL1.
    #[serde(rename = "hclv1")]
    pub hclv1: bool,
    /// Values of the job file's variables.
    pub variables: String,
    /// Whether to fill in defaults.
    pub canonicalize: bool,
}

/// Body of a forced evaluation of a job.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobEvaluateRequest {
    /// Must equal the id in the path.
    #[serde(rename = "JobID")]
    pub job_id: Str,
    /// Options of the evaluation.
    pub eval_options: EvalOptions,
    /// Region if the query names none.
    pub region: Str,
    /// Namespace if the query names none.
    pub namespace: Str,
}

/// Options of a forced evaluation.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EvalOptions {
    /// Whether failed allocations are replaced despite their reschedule policy.
    pub force_reschedule: bool,
}

/// Body that goes back to an earlier version of a job.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobRevertRequest {
    /// Must equal the id in the path.
    #[serde(rename = "JobID")]
    pub job_id: Str,
    /// Version to revert to.
    pub job_version: u64,
    /// Expected current version; absent: any.
    pub enforce_prior_version: Option<u64>,
    /// Must be a text; jobs keep no tokens.
    pub consul_token: Str,
    /// Must be a text; jobs keep no tokens.
    pub vault_token: Str,
    /// Region if the query names none.
    pub region: Str,
    /// Namespace if the query names none.
    pub namespace: Str,
}

/// Body that marks a version of a job as stable or not.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobStabilityRequest {
    /// Must equal the id in the path.
    #[serde(rename = "JobID")]
    pub job_id: Str,
    /// Version to mark.
    pub job_version: u64,
    /// Whether the version is stable.
    pub stable: bool,
    /// Region if the query names none.
    pub region: Str,
    /// Namespace if the query names none.
    pub namespace: Str,
}

/// Body that dispatches a parameterized job.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobDispatchRequest {
    /// Must equal the id in the path.
    #[serde(rename = "JobID")]
    pub job_id: Str,
    /// Payload of the child, in base64.
    pub payload: Option<Blob>,
    /// Meta of the child.
    pub meta: Option<BTreeMap<Str, Str>>,
    /// A dispatch with the token of an existing child answers with that child.
    pub idempotency_token: Str,
    /// Becomes part of the child's id.
    pub id_prefix_template: Str,
    /// Region if the query names none.
    pub region: Str,
    /// Namespace if the query names none.
    pub namespace: Str,
}

/// Body that scales a group, or records a scaling event.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ScalingRequest {
    /// New count of the group; absent for a scaling event only.
    pub count: Option<i64>,
    /// Target, with the keys `Job` and `Group`.
    pub target: Option<BTreeMap<Str, Str>>,
    /// Reason for the scaling event.
    pub message: Str,
    /// Whether the scaling event reports a failure.
    pub error: bool,
    /// Arbitrary data of the scaling event.
    pub meta: Option<BTreeMap<Str, serde_json::Value>>,
    /// Must equal the namespace of the query, if present.
    pub namespace: Str,
    /// Must be a boolean; without policies of another edition it has no effect.
    pub policy_override: bool,
}

/// Answer of `job/ID/scale`: counts and scaling events of every group.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct JobScaleStatus<'a> {
    /// Id of the job.
    #[serde(rename = "JobID")]
    pub job_id: &'a str,
    /// Namespace of the job.
    pub namespace: &'a str,
    /// Create index of the job.
    pub job_create_index: u64,
    /// Modify index of the job.
    pub job_modify_index: u64,
    /// Whether the job is stopped.
    pub job_stopped: bool,
    /// Status by group.
    pub task_groups: BTreeMap<&'a str, GroupScaleStatus<'a>>,
}

/// Counts and scaling events of one group.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GroupScaleStatus<'a> {
    /// Count of the group.
    pub desired: i64,
    /// Number of non-terminal allocations, canaries excluded.
    pub placed: i64,
    /// Number of running ones among them.
    pub running: i64,
    /// Number of healthy ones among them.
    pub healthy: i64,
    /// Number of unhealthy ones among them.
    pub unhealthy: i64,
    /// Scaling events, newest first.
    pub events: Option<&'a [ScalingEvent]>,
}
