//! Request bodies about deployments.

use serde::Deserialize;
use songline_model::Str;

/// `DeploymentPauseRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentPauseRequest {
    /// Must equal the id in the path.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Str,
    /// True pauses the deployment, false resumes it.
    pub pause: bool,
}

/// `DeploymentAllocHealthRequest` of the wire.
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

/// `DeploymentUnblockRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentUnblockRequest {
    /// Must equal the id in the path.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Str,
}

/// `DeploymentPromoteRequest` of the wire.
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
