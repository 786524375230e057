//! Commands for jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_model::{Deployment, Evaluation, Job, JobKey, JobSubmission, Str, Time};

/// Register a job, or a new version of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RegisterJob {
    /// The whole job in canonical form, validated; indexes are ignored, and so is a version not higher than the stored
    /// one.
    pub job: Arc<Job>,
    /// Source text of the job.
    pub submission: Option<JobSubmission>,
    /// Whether `job_modify_index` must equal the stored one.
    pub enforce_index: bool,
    /// Expected job modify index; 0 means that the job must not exist.
    pub job_modify_index: u64,
    /// Whether existing groups keep their current counts.
    pub preserve_counts: bool,
    /// Evaluation to create together with the job.
    pub eval: Option<Evaluation>,
    /// Deployment to create together with the job.
    pub deployment: Option<Deployment>,
    /// Number of job versions to keep.
    pub versions_max: u64,
}

/// Stop or purge a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeregisterJob {
    /// The job.
    pub job: JobKey,
    /// Whether the row is deleted too.
    pub purge: bool,
    /// Whether the tasks skip their shutdown delay.
    pub no_shutdown_delay: bool,
    /// Submit time of the stopping version; 0 keeps that of the current one.
    #[serde(with = "songline_model::unix_nanos")]
    pub submit_time: Time,
    /// Evaluation to create, even when the job is gone.
    pub eval: Option<Evaluation>,
    /// Number of job versions to keep.
    pub versions_max: u64,
}

/// Stop or purge several jobs in one entry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeregisterJobs {
    /// The jobs, and whether each is purged.
    pub jobs: BTreeMap<JobKey, bool>,
    /// Evaluations to create together with the jobs' changes.
    pub evals: Vec<Evaluation>,
    /// Submit time of the stopping versions; 0 keeps those of the current ones.
    #[serde(with = "songline_model::unix_nanos")]
    pub submit_time: Time,
    /// Number of job versions to keep.
    pub versions_max: u64,
}

/// Mark one version of a job stable or unstable.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetJobStability {
    /// The job.
    pub job: JobKey,
    /// The version.
    pub version: u64,
    /// Whether the version is stable.
    pub stable: bool,
}

/// Recount all job summaries.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReconcileSummaries {
    /// Numbers of queued allocations by job and group, from a dry run of the scheduler.
    pub queued: BTreeMap<JobKey, BTreeMap<Str, i64>>,
}
