//! Commands about deployments.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_model::{AllocId, DeploymentId, DeploymentStatusUpdate, Evaluation, Job, Str};

/// Change a deployment's status. Refused when it has ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateDeploymentStatus {
    /// Which, and to what.
    pub update: DeploymentStatusUpdate,
    /// What follows.
    pub eval: Option<Evaluation>,
    /// The job to go back to.
    pub job: Option<Arc<Job>>,
    /// How many job versions are kept.
    pub versions_max: u64,
}

/// Call allocations of a deployment healthy or unhealthy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetDeploymentAllocHealth {
    /// Which.
    pub deployment_id: DeploymentId,
    /// These are well.
    pub healthy: Vec<AllocId>,
    /// These are not.
    pub unhealthy: Vec<AllocId>,
    /// Unix nanoseconds.
    pub timestamp: i64,
    /// What becomes of the deployment.
    pub update: Option<DeploymentStatusUpdate>,
    /// What follows.
    pub eval: Option<Evaluation>,
    /// The job to go back to.
    pub job: Option<Arc<Job>>,
    /// How many job versions are kept.
    pub versions_max: u64,
}

/// Promote the canaries of some groups of a deployment, or of all. Refused when too few of them are healthy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PromoteDeployment {
    /// Which.
    pub deployment_id: DeploymentId,
    /// Every group, whatever `groups` says.
    pub all: bool,
    /// These groups; unknown ones are skipped.
    pub groups: Vec<Str>,
    /// What follows.
    pub eval: Option<Evaluation>,
}

/// Drop deployments. Missing ones are skipped.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteDeployments {
    /// Which.
    pub ids: Vec<DeploymentId>,
}
