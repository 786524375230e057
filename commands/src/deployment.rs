//! Commands for deployments.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_model::{AllocId, DeploymentId, DeploymentStatusUpdate, Evaluation, Job, Str, Time};

/// Set a deployment's status. Refused for a terminal deployment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateDeploymentStatus {
    /// The deployment and its new status.
    pub update: DeploymentStatusUpdate,
    /// Evaluation that follows.
    pub eval: Option<Evaluation>,
    /// Job version to roll back to, as a new version.
    pub job: Option<Arc<Job>>,
    /// Number of job versions to keep.
    pub versions_max: u64,
}

/// Set the health of a deployment's allocations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetDeploymentAllocHealth {
    /// Id of the deployment.
    pub deployment_id: DeploymentId,
    /// Allocations that become healthy.
    pub healthy: Vec<AllocId>,
    /// Allocations that become unhealthy.
    pub unhealthy: Vec<AllocId>,
    /// Time of the change.
    #[serde(with = "songline_model::unix_nanos")]
    pub timestamp: Time,
    /// Resulting status of the deployment.
    pub update: Option<DeploymentStatusUpdate>,
    /// Evaluation that follows.
    pub eval: Option<Evaluation>,
    /// Job version to roll back to, as a new version.
    pub job: Option<Arc<Job>>,
    /// Number of job versions to keep.
    pub versions_max: u64,
}

/// Promote the canaries of some or all groups of a deployment. Refused when too few canaries are healthy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PromoteDeployment {
    /// Id of the deployment.
    pub deployment_id: DeploymentId,
    /// Whether to promote every group, regardless of `groups`.
    pub all: bool,
    /// Groups to promote; unknown ones are skipped.
    pub groups: Vec<Str>,
    /// Evaluation that follows.
    pub eval: Option<Evaluation>,
}

/// Delete deployments. Missing ones are skipped.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteDeployments {
    /// Ids of the deployments.
    pub ids: Vec<DeploymentId>,
}
