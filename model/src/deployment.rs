//! Deployments: the roll-out of one version of a service job.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AllocId, DeploymentId, DeploymentStatus, Dur, JobId, NamespaceName, Str, Time};

/// A roll-out with one state per task group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Deployment {
    #[serde(rename = "ID")]
    pub id: DeploymentId,
    pub namespace: NamespaceName,
    #[serde(rename = "JobID")]
    pub job_id: JobId,
    pub job_version: u64,
    pub job_modify_index: u64,
    pub job_spec_modify_index: u64,
    pub job_create_index: u64,
    pub is_multiregion: bool,
    pub task_groups: Option<BTreeMap<Str, DeploymentState>>,
    pub status: DeploymentStatus,
    pub status_description: Str,
    pub eval_priority: i64,
    pub create_index: u64,
    pub modify_index: u64,
}

/// Progress of one task group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DeploymentState {
    pub auto_revert: bool,
    pub auto_promote: bool,
    /// Longest time without a newly healthy allocation; 0: the first unhealthy one fails the deployment.
    pub progress_deadline: Dur,
    /// Time at which the group fails the deployment unless another allocation becomes healthy before; `None`:
    /// unbounded, or not placed yet.
    pub require_progress_by: Option<Time>,
    pub promoted: bool,
    pub placed_canaries: Option<Vec<AllocId>>,
    pub desired_canaries: i64,
    pub desired_total: i64,
    pub placed_allocs: i64,
    pub healthy_allocs: i64,
    pub unhealthy_allocs: i64,
}

impl Deployment {
    /// Whether the deployment is still in progress.
    pub fn is_active(&self) -> bool {
        self.status.is_active()
    }

    /// Whether some group has canaries that are not promoted yet.
    pub fn requires_promotion(&self) -> bool {
        self.is_active()
            && self.task_groups.iter().flatten().any(|(_, group)| group.desired_canaries > 0 && !group.promoted)
    }
}
