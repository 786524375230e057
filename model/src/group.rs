//! Task groups, which are placed together on one node, and the policies of a group.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Affinity, Constraint, Dur, NetworkResource, Service, Spread, Str, Task};

/// A task group: tasks that are placed together, with a count.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskGroup {
    pub name: Str,
    /// Wanted number of allocations.
    pub count: i64,
    pub update: Option<UpdateStrategy>,
    pub migrate: Option<MigrateStrategy>,
    pub constraints: Option<Vec<Constraint>>,
    pub scaling: Option<ScalingPolicy>,
    pub restart_policy: Option<RestartPolicy>,
    pub tasks: Option<Vec<Task>>,
    pub ephemeral_disk: Option<EphemeralDisk>,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub reschedule_policy: Option<ReschedulePolicy>,
    pub affinities: Option<Vec<Affinity>>,
    pub spreads: Option<Vec<Spread>>,
    pub networks: Option<Vec<NetworkResource>>,
    pub consul: Option<Consul>,
    pub services: Option<Vec<Service>>,
    pub volumes: Option<BTreeMap<Str, VolumeRequest>>,
    /// Time between the deregistration of services and the end of the tasks.
    pub shutdown_delay: Option<Dur>,
    /// Time after which a node that hears no server stops the allocation itself; `None`: it keeps running.
    pub stop_after_client_disconnect: Option<Dur>,
    /// Time for which an allocation on a disconnected node is `unknown` before it is `lost`; `None`: it is lost at
    /// once.
    pub max_client_disconnect: Option<Dur>,
}

/// Pace and checks of a roll-out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct UpdateStrategy {
    /// Pause between batches of system jobs.
    pub stagger: Dur,
    /// Number of allocations that are replaced at once; 0: all, without a deployment.
    pub max_parallel: i64,
    pub health_check: Str,
    /// Time for which an allocation has to be healthy before it counts.
    pub min_healthy_time: Dur,
    /// Longest time from the placement until an allocation is healthy.
    pub healthy_deadline: Dur,
    /// Longest time without a newly healthy allocation; 0: the first unhealthy one fails the deployment.
    pub progress_deadline: Dur,
    pub auto_revert: bool,
    pub auto_promote: bool,
    /// Number of canaries; 0: none.
    pub canary: i64,
}

/// Pace of migration from draining nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct MigrateStrategy {
    /// Number of allocations that migrate at once.
    pub max_parallel: i64,
    pub health_check: Str,
    /// Time for which a replacement has to be healthy before the next one migrates.
    pub min_healthy_time: Dur,
    /// Longest time until a replacement is healthy.
    pub healthy_deadline: Dur,
}

/// Restarts of a failed task on its node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RestartPolicy {
    /// Number of restarts in an interval.
    pub attempts: i64,
    pub interval: Dur,
    /// Pause before a restart; the node adds up to a quarter at random.
    pub delay: Dur,
    pub mode: Str,
    pub render_templates: bool,
}

/// Replacements of a failed allocation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ReschedulePolicy {
    /// Number of replacements in an interval; without effect if `unlimited`.
    pub attempts: i64,
    pub interval: Dur,
    pub delay: Dur,
    pub delay_function: Str,
    /// Bound of a growing delay; 0: none.
    pub max_delay: Dur,
    pub unlimited: bool,
}

/// The disk that the tasks of an allocation share.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EphemeralDisk {
    pub sticky: bool,
    /// In MiB.
    #[serde(rename = "SizeMB")]
    pub size_mb: i64,
    pub migrate: bool,
}

/// A scaling policy: bounds of the count, and data for an autoscaler.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ScalingPolicy {
    #[serde(rename = "ID")]
    pub id: Str,
    #[serde(rename = "Type")]
    pub kind: Str,
    pub target: Option<BTreeMap<Str, Str>>,
    pub policy: Option<BTreeMap<Str, Value>>,
    pub min: i64,
    pub max: i64,
    pub enabled: bool,
    pub create_index: u64,
    pub modify_index: u64,
}

/// A host or CSI volume that the group uses.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeRequest {
    pub name: Str,
    #[serde(rename = "Type")]
    pub kind: Str,
    pub source: Str,
    pub read_only: bool,
    pub access_mode: Str,
    pub attachment_mode: Str,
    pub mount_options: Option<CsiMountOptions>,
    pub per_alloc: bool,
}

impl VolumeRequest {
    /// Name of the volume that the allocation of this name uses: the source, which with `per_alloc` ends in the
    /// allocation's index, `[0]`.
    pub fn volume_of(&self, alloc_name: &str) -> Str {
        let index = alloc_name.rfind('[').filter(|_| self.per_alloc).map_or("", |at| &alloc_name[at..]);
        format!("{}{index}", self.source).into()
    }

    /// Whether some allocation of the group uses the CSI volume with this id.
    pub fn may_use_csi_volume(&self, id: &str) -> bool {
        let rest = id.strip_prefix(self.source.as_str());
        self.kind == "csi" && rest.is_some_and(|rest| rest.is_empty() != self.per_alloc)
    }
}

/// Mount options in a job's volume request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiMountOptions {
    #[serde(rename = "FSType")]
    pub fs_type: Str,
    pub mount_flags: Option<Vec<Str>>,
}

/// The Consul namespace of the group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Consul {
    pub namespace: Str,
}

impl TaskGroup {
    /// The task of this name.
    pub fn task(&self, name: &str) -> Option<&Task> {
        self.tasks.iter().flatten().find(|task| task.name == name)
    }
}
