//! Allocations: one task group placed on one node.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::empty::is_empty;
use crate::{
    AllocClientStatus, AllocDesiredStatus, AllocId, AllocMetric, AllocStateField, AllocatedResources, DeploymentId,
    DnsConfig, Dur, EvalId, FlatMap, Job, JobId, JobKey, NamespaceName, NodeId, RootKeyId, Str, TaskGroup,
    TaskIdentity, TaskState, Time,
};

/// An allocation: the server's intention for one instance of a task group, and the node's reports about it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Allocation {
    #[serde(rename = "ID", skip_serializing_if = "is_empty")]
    pub id: AllocId,
    #[serde(skip_serializing_if = "is_empty")]
    pub namespace: NamespaceName,
    #[serde(rename = "EvalID", with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub eval_id: Option<EvalId>,
    #[serde(skip_serializing_if = "is_empty")]
    pub name: Str,
    #[serde(rename = "NodeID", with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub node_id: Option<NodeId>,
    #[serde(skip_serializing_if = "is_empty")]
    pub node_name: Str,
    #[serde(rename = "JobID", skip_serializing_if = "is_empty")]
    pub job_id: JobId,
    #[serde(skip_serializing_if = "is_empty")]
    pub job: Option<Arc<Job>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub task_group: Str,
    #[serde(skip_serializing_if = "is_empty")]
    pub allocated_resources: Option<Arc<AllocatedResources>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub metrics: Option<Arc<AllocMetric>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub desired_status: AllocDesiredStatus,
    #[serde(skip_serializing_if = "is_empty")]
    pub desired_description: Str,
    #[serde(skip_serializing_if = "is_empty")]
    pub desired_transition: DesiredTransition,
    #[serde(skip_serializing_if = "is_empty")]
    pub client_status: AllocClientStatus,
    #[serde(skip_serializing_if = "is_empty")]
    pub client_description: Str,
    #[serde(skip_serializing_if = "is_empty")]
    pub task_states: Option<Arc<FlatMap<Str, TaskState>>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub alloc_states: Option<Vec<AllocState>>,
    #[serde(with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub previous_allocation: Option<AllocId>,
    #[serde(with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub next_allocation: Option<AllocId>,
    #[serde(rename = "DeploymentID", with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub deployment_id: Option<DeploymentId>,
    #[serde(skip_serializing_if = "is_empty")]
    pub deployment_status: Option<Arc<AllocDeploymentStatus>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub reschedule_tracker: Option<Arc<RescheduleTracker>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub network_status: Option<Arc<AllocNetworkStatus>>,
    #[serde(rename = "FollowupEvalID", with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub followup_eval_id: Option<EvalId>,
    #[serde(skip_serializing_if = "is_empty")]
    pub preempted_allocations: Option<Vec<AllocId>>,
    #[serde(with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub preempted_by_allocation: Option<AllocId>,
    #[serde(rename = "SigningKeyID", with = "crate::ids::optional", skip_serializing_if = "is_empty")]
    pub signing_key_id: Option<RootKeyId>,
    /// One identity per task, signed with `signing_key_id`. Only the log and checkpoints hold the signatures that
    /// complete the tokens.
    #[serde(skip_serializing_if = "is_empty")]
    pub signed_identities: Option<Arc<[TaskIdentity]>>,
    #[serde(skip_serializing_if = "is_empty")]
    pub create_index: u64,
    #[serde(skip_serializing_if = "is_empty")]
    pub modify_index: u64,
    #[serde(skip_serializing_if = "is_empty")]
    pub alloc_modify_index: u64,
    /// Time at which the allocation was placed.
    #[serde(with = "crate::unix_nanos", skip_serializing_if = "is_empty")]
    pub create_time: Time,
    /// Time of the last change.
    #[serde(with = "crate::unix_nanos", skip_serializing_if = "is_empty")]
    pub modify_time: Time,
}

/// One recorded change of a field of the allocation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocState {
    pub field: AllocStateField,
    pub value: Str,
    pub time: Time,
}

/// A request to migrate or replace the allocation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DesiredTransition {
    pub migrate: Option<bool>,
    pub reschedule: Option<bool>,
    pub force_reschedule: Option<bool>,
    pub no_shutdown_delay: Option<bool>,
}

/// Health of the allocation for its deployment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocDeploymentStatus {
    pub healthy: Option<bool>,
    /// Time at which the health was decided.
    pub timestamp: Option<Time>,
    pub canary: bool,
    pub modify_index: u64,
}

/// Earlier attempts that led to an allocation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RescheduleTracker {
    pub events: Option<Vec<RescheduleEvent>>,
}

/// One earlier attempt and its replacement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RescheduleEvent {
    /// Time of the replacement.
    #[serde(with = "crate::unix_nanos")]
    pub reschedule_time: Time,
    #[serde(rename = "PrevAllocID")]
    pub prev_alloc_id: AllocId,
    #[serde(rename = "PrevNodeID")]
    pub prev_node_id: NodeId,
    /// Delay between the failure and the replacement.
    pub delay: Dur,
}

/// The interface and address that the node gave the allocation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocNetworkStatus {
    pub interface_name: Str,
    pub address: Str,
    #[serde(rename = "DNS")]
    pub dns: Option<DnsConfig>,
}

impl Allocation {
    /// Whether the servers want the allocation to stop.
    pub fn server_terminal(&self) -> bool {
        matches!(self.desired_status, AllocDesiredStatus::Stop | AllocDesiredStatus::Evict)
    }

    /// Whether the client status is final.
    pub fn client_terminal(&self) -> bool {
        self.client_status.is_terminal()
    }

    /// Whether the allocation is over for the servers or for its node: it occupies no resources of the node any more.
    pub fn terminal(&self) -> bool {
        self.server_terminal() || self.client_terminal()
    }

    /// Whether the allocation's identities may still be used: until both the servers and the node are done with the
    /// allocation.
    pub fn needs_signing_key(&self) -> bool {
        !(self.server_terminal() && self.client_terminal())
    }

    /// The key of the allocation's job.
    pub fn job_key(&self) -> JobKey {
        JobKey { namespace: self.namespace.clone(), id: self.job_id.clone() }
    }

    /// The allocation's task group in its job; `None` if the job has no group of that name.
    pub fn group(&self) -> Option<&TaskGroup> {
        self.job.as_ref()?.group(&self.task_group)
    }

    /// The number in brackets of the allocation's name: `job.group[3]` is 3.
    pub fn name_index(&self) -> Option<u64> {
        let start = self.name.rfind('[')?;
        self.name.get(start + 1..self.name.len().checked_sub(1)?)?.parse().ok()
    }

    /// Whether the last recorded client status is `unknown`: the node was disconnected, and its return has not been
    /// processed yet.
    pub fn needs_to_reconnect(&self) -> bool {
        let last = self.alloc_states.iter().flatten().rfind(|state| state.field == AllocStateField::ClientStatus);
        last.is_some_and(|state| state.value == AllocClientStatus::Unknown.as_str())
    }

    /// Time of the last change to `unknown`.
    pub fn last_unknown(&self) -> Option<Time> {
        self.alloc_states
            .iter()
            .flatten()
            .filter(|state| state.value == AllocClientStatus::Unknown.as_str())
            .map(|state| state.time)
            .max()
    }

    /// Health as the node reported it for the deployment: `None` before the first report.
    pub fn health(&self) -> Option<bool> {
        self.deployment_status.as_ref()?.healthy
    }

    /// Whether the allocation is a canary of its deployment.
    pub fn is_canary(&self) -> bool {
        self.deployment_status.as_ref().is_some_and(|status| status.canary)
    }
}

impl DesiredTransition {
    /// Overwrites the fields that `other` sets; the rest stay.
    pub fn merge(&mut self, other: &DesiredTransition) {
        self.migrate = other.migrate.or(self.migrate);
        self.reschedule = other.reschedule.or(self.reschedule);
        self.force_reschedule = other.force_reschedule.or(self.force_reschedule);
        self.no_shutdown_delay = other.no_shutdown_delay.or(self.no_shutdown_delay);
    }

    /// Whether the allocation has to move to another node.
    pub fn should_migrate(&self) -> bool {
        self.migrate == Some(true)
    }

    /// Whether the allocation may be replaced even though it has not failed.
    pub fn should_reschedule(&self) -> bool {
        self.reschedule == Some(true)
    }

    /// Whether the allocation is to be replaced regardless of its reschedule policy.
    pub fn should_force_reschedule(&self) -> bool {
        self.force_reschedule == Some(true)
    }
}
