//! Jobs: named, versioned specifications. Admission (defaults, validation, comparison) is in the files below `job/`.

mod admit;
mod canonical;
mod child;
mod compare;
mod connect;
mod diff;
mod errors;
mod expose;
mod implied;
mod multiregion;
mod scaling;
mod validate;

use std::collections::BTreeMap;

pub use admit::{AdmitContext, Admitted, Languages, NotAdmitted};
pub use diff::{DiffType, DifferentJobs, FieldDiff, JobDiff, ObjectDiff, TaskDiff, TaskGroupDiff};
pub use errors::{Errors, warnings_text};
pub use multiregion::{INCOMPLETE, OnFailure};
use serde::{Deserialize, Serialize};

use crate::{
    Affinity, Blob, Constraint, JobId, JobKey, JobStatus, JobType, NamespaceName, NodePoolName, Secret, Spread, Str,
    TaskGroup, Time, UpdateStrategy,
};

/// The stored form of one version of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Job {
    pub stop: bool,
    pub region: Str,
    pub namespace: NamespaceName,
    #[serde(rename = "ID")]
    pub id: JobId,
    #[serde(rename = "ParentID")]
    pub parent_id: JobId,
    pub name: Str,
    #[serde(rename = "Type")]
    pub kind: JobType,
    pub priority: i64,
    pub all_at_once: bool,
    pub datacenters: Option<Vec<Str>>,
    pub node_pool: NodePoolName,
    pub constraints: Option<Vec<Constraint>>,
    pub affinities: Option<Vec<Affinity>>,
    pub spreads: Option<Vec<Spread>>,
    pub task_groups: Option<Vec<TaskGroup>>,
    pub update: UpdateStrategy,
    pub multiregion: Option<Multiregion>,
    pub periodic: Option<PeriodicConfig>,
    pub parameterized_job: Option<ParameterizedJobConfig>,
    pub dispatched: bool,
    pub dispatch_idempotency_token: Str,
    pub payload: Option<Blob>,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub consul_token: Secret,
    pub consul_namespace: Str,
    pub vault_token: Secret,
    pub vault_namespace: Str,
    #[serde(rename = "NomadTokenID")]
    pub nomad_token_id: Str,
    pub status: JobStatus,
    pub status_description: Str,
    pub stable: bool,
    pub version: u64,
    /// Time at which this version was submitted.
    #[serde(with = "crate::unix_nanos")]
    pub submit_time: Time,
    pub create_index: u64,
    pub modify_index: u64,
    pub job_modify_index: u64,
}

/// The schedule on which a job launches children.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PeriodicConfig {
    pub enabled: bool,
    pub spec: Str,
    pub specs: Option<Vec<Str>>,
    pub spec_type: Str,
    pub prohibit_overlap: bool,
    pub time_zone: Str,
}

/// Payload and metadata that a dispatch needs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ParameterizedJobConfig {
    pub payload: Str,
    pub meta_required: Option<Vec<Str>>,
    pub meta_optional: Option<Vec<Str>>,
}

/// Regions that a job is deployed to, and their order.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Multiregion {
    pub strategy: Option<MultiregionStrategy>,
    pub regions: Option<Vec<MultiregionRegion>>,
}

/// Parallelism and failure handling across regions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MultiregionStrategy {
    pub max_parallel: i64,
    pub on_failure: Str,
}

/// Settings of the job in one region.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MultiregionRegion {
    pub name: Str,
    pub count: i64,
    pub datacenters: Option<Vec<Str>>,
    pub node_pool: Str,
    pub meta: Option<BTreeMap<Str, Str>>,
}

/// The source text and variables of a job version.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobSubmission {
    pub source: Str,
    pub format: Str,
    pub variable_flags: Option<BTreeMap<Str, Str>>,
    pub variables: Str,
    pub namespace: NamespaceName,
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    pub version: u64,
    pub job_modify_index: u64,
}

/// Numbers of allocations by state, and of child jobs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobSummary {
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    pub namespace: NamespaceName,
    pub summary: Option<BTreeMap<Str, TaskGroupSummary>>,
    pub children: Option<JobChildrenSummary>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// Numbers of one group's allocations by state.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroupSummary {
    pub queued: i64,
    pub complete: i64,
    pub failed: i64,
    pub running: i64,
    pub starting: i64,
    pub lost: i64,
    pub unknown: i64,
}

/// Numbers of child jobs by status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct JobChildrenSummary {
    pub pending: i64,
    pub running: i64,
    pub dead: i64,
}

impl Job {
    /// The job's namespace and id.
    pub fn key(&self) -> JobKey {
        JobKey { namespace: self.namespace.clone(), id: self.id.clone() }
    }

    /// The job's group of this name.
    pub fn group(&self, name: &str) -> Option<&TaskGroup> {
        self.task_groups.iter().flatten().find(|group| group.name == name)
    }

    /// The job's groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = &TaskGroup> {
        self.task_groups.iter().flatten()
    }

    /// Whether the job launches children on a schedule.
    pub fn is_periodic(&self) -> bool {
        self.periodic.is_some()
    }

    /// Whether the job is periodic and enabled.
    pub fn is_periodic_active(&self) -> bool {
        self.periodic.as_ref().is_some_and(|periodic| periodic.enabled) && !self.stop && !self.is_parameterized()
    }

    /// Whether the job runs only through children that are dispatched.
    pub fn is_parameterized(&self) -> bool {
        self.parameterized_job.is_some() && !self.dispatched
    }

    /// Whether the job lists regions.
    pub fn is_multiregion(&self) -> bool {
        self.multiregion.as_ref().is_some_and(|multiregion| multiregion.regions.iter().flatten().next().is_some())
    }
}
