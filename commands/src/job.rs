//! Commands about jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_model::{Deployment, Evaluation, Job, JobKey, JobSubmission, Str};

/// Add a job, or make a new version of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RegisterJob {
    /// The whole job, canonical and valid; indexes and version ignored unless the version is higher than the stored one.
    pub job: Arc<Job>,
    /// What it was written as.
    pub submission: Option<JobSubmission>,
    /// Whether `job_modify_index` must be the stored one.
    pub enforce_index: bool,
    /// 0 means: must not exist.
    pub job_modify_index: u64,
    /// Whether the counts of known groups are kept.
    pub preserve_counts: bool,
    /// The evaluation that goes with it.
    pub eval: Option<Evaluation>,
    /// A deployment that is made with it.
    pub deployment: Option<Deployment>,
    /// How many versions are kept.
    pub versions_max: u64,
}

/// Stop a job, or purge it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeregisterJob {
    /// Which.
    pub job: JobKey,
    /// Whether the row goes too.
    pub purge: bool,
    /// Whether its tasks skip their shutdown delay.
    pub no_shutdown_delay: bool,
    /// Unix nanoseconds of the stopping version.
    pub submit_time: i64,
    /// Written even when the job is gone.
    pub eval: Option<Evaluation>,
    /// How many versions are kept.
    pub versions_max: u64,
}

/// Stop or purge jobs, all at once.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeregisterJobs {
    /// Which, and whether each is purged.
    pub jobs: BTreeMap<JobKey, bool>,
    /// The evaluations that go with them.
    pub evals: Vec<Evaluation>,
    /// Unix nanoseconds.
    pub submit_time: i64,
    /// How many versions are kept.
    pub versions_max: u64,
}

/// Mark one version of a job stable, or not.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetJobStability {
    /// Which.
    pub job: JobKey,
    /// Which version.
    pub version: u64,
    /// What it is.
    pub stable: bool,
}

/// Count all job summaries anew.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReconcileSummaries {
    /// Per group, what a dry run of the scheduler would have queued.
    pub queued: BTreeMap<JobKey, BTreeMap<Str, i64>>,
}
