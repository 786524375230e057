//! Requests about deployments.

use serde::Deserialize;
use songline_model::Str;

/// `DeploymentPauseRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentPauseRequest {
    /// Must be that of the path.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Str,
    /// Whether to pause or to go on.
    pub pause: bool,
}

/// `DeploymentAllocHealthRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentAllocHealthRequest {
    /// Must be that of the path.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Str,
    /// These are well.
    #[serde(rename = "HealthyAllocationIDs")]
    pub healthy_allocation_ids: Option<Vec<Str>>,
    /// These are not.
    #[serde(rename = "UnhealthyAllocationIDs")]
    pub unhealthy_allocation_ids: Option<Vec<Str>>,
}

/// `DeploymentUnblockRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentUnblockRequest {
    /// Must be that of the path.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Str,
}

/// `DeploymentPromoteRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentPromoteRequest {
    /// Must be that of the path.
    #[serde(rename = "DeploymentID")]
    pub deployment_id: Str,
    /// Every group.
    pub all: bool,
    /// These groups.
    pub groups: Option<Vec<Str>>,
}
