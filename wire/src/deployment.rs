//! Request bodies about deployments.

use serde::Deserialize;
use songline_model::Str;

/// Body that pauses or resumes a deployment.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentPauseRequest {
    /// Must equal the id in the path.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Str,
    /// True pauses the deployment, false resumes it.
    pub pause: bool,
}

/// Body that sets the health of allocations of a deployment.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentAllocHealthRequest {
    /// Must equal the id in the path.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Str,
    /// Allocations to mark as healthy.
    #[serde(rename = "HealthyAllocationIDs")]
    pub healthy_allocation_ids: Option<Vec<Str>>,
    /// Allocations to mark as unhealthy.
    #[serde(rename = "UnhealthyAllocationIDs")]
    pub unhealthy_allocation_ids: Option<Vec<Str>>,
}

/// Body that unblocks a deployment that waits for another region.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentUnblockRequest {
    /// Must equal the id in the path.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Str,
}

/// Body that promotes a deployment's canaries.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentPromoteRequest {
    /// Must equal the id in the path.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Str,
    /// Promote all groups.
    pub all: bool,
    /// Groups to promote.
    pub groups: Option<Vec<Str>>,
}
