//! Wire form of allocations: with fields for older clients, and as stubs in lists.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocDesiredStatus, AllocId, AllocatedResources, Allocation,
    DesiredTransition, EvalId, FlatMap, NodeId, RescheduleTracker, Resources, Str, TaskState, Time,
};

use crate::display;

/// A whole allocation: the row, its resources in the old form, and texts for its tasks' events.
#[derive(Debug, Serialize)]
pub struct AllocView<'a> {
    #[serde(flatten)]
    row: Cow<'a, Allocation>,
    #[serde(flatten)]
    legacy: LegacyResources,
}

impl<'a> AllocView<'a> {
    /// Makes the view of a row.
    pub fn new(alloc: &'a Allocation) -> Self {
        let mut row = Cow::Borrowed(alloc);
        if let Some(states) = display::filled(alloc.task_states.as_deref()) {
            row.to_mut().task_states = Some(Arc::new(states));
        }
        if alloc.signed_identities.is_some() {
            row.to_mut().signed_identities = None;
        }
        Self { legacy: LegacyResources::new(alloc), row }
    }
}

/// An allocation in an event, without its job.
#[derive(Debug)]
pub struct EventAlloc<'a>(pub &'a Allocation);

impl Serialize for EventAlloc<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let row = Cow::Owned(Allocation { job: None, signed_identities: None, ..self.0.clone() });
        AllocView { legacy: LegacyResources::new(self.0), row }.serialize(s)
    }
}

/// Resources in the form of the time before groups and tasks had their own.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct LegacyResources {
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Resources>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_resources: Option<Resources>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_resources: Option<BTreeMap<Str, Resources>>,
}

impl LegacyResources {
    /// Names of the fields, by which filters read them.
    pub const NAMES: [&'static str; 3] = ["Resources", "SharedResources", "TaskResources"];

    /// Computes the resources of an allocation.
    pub fn new(alloc: &Allocation) -> Self {
        let Some(allocated) = &alloc.allocated_resources else {
            return Self { resources: None, shared_resources: None, task_resources: None };
        };
        let shared = &allocated.shared;
        let mut total =
            Resources { disk_mb: shared.disk_mb, networks: shared.networks.clone(), ..Resources::default() };
        let mut by_task = BTreeMap::new();
        for (name, task) in allocated.tasks.iter().flatten() {
            let cores =
                task.cpu.reserved_cores.as_ref().map_or(0, |cores| i64::try_from(cores.len()).unwrap_or(i64::MAX));
            let max = if task.memory.memory_max_mb > 0 { task.memory.memory_max_mb } else { task.memory.memory_mb };
            total.cpu += task.cpu.cpu_shares;
            total.cores += cores;
            total.memory_mb += task.memory.memory_mb;
            total.memory_max_mb += max;
            let resources = Resources {
                cpu: task.cpu.cpu_shares,
                cores: 0,
                memory_mb: task.memory.memory_mb,
                memory_max_mb: task.memory.memory_max_mb,
                networks: task.networks.clone(),
                ..Resources::default()
            };
            by_task.insert(name.clone(), resources);
        }
        Self {
            resources: Some(Resources { cores: 0, ..total }),
            shared_resources: Some(Resources {
                disk_mb: shared.disk_mb,
                networks: shared.networks.clone(),
                ..Resources::default()
            }),
            task_resources: Some(by_task).filter(|tasks| !tasks.is_empty()),
        }
    }
}

/// An allocation in lists. No field is omitted except resources.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AllocStub<'a> {
    #[serde(rename = "ID")]
    id: AllocId,
    #[serde(rename = "EvalID")]
    eval_id: EvalId,
    name: &'a str,
    namespace: &'a str,
    #[serde(rename = "NodeID")]
    node_id: NodeId,
    node_name: &'a str,
    #[serde(rename = "JobID")]
    job_id: &'a str,
    job_type: &'a str,
    job_version: u64,
    task_group: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated_resources: Option<&'a AllocatedResources>,
    desired_status: AllocDesiredStatus,
    desired_description: &'a str,
    client_status: AllocClientStatus,
    client_description: &'a str,
    desired_transition: &'a DesiredTransition,
    task_states: Option<Cow<'a, FlatMap<Str, TaskState>>>,
    deployment_status: Option<&'a AllocDeploymentStatus>,
    #[serde(rename = "FollowupEvalID")]
    followup_eval_id: EvalId,
    next_allocation: AllocId,
    reschedule_tracker: Option<&'a RescheduleTracker>,
    preempted_allocations: &'a Option<Vec<AllocId>>,
    preempted_by_allocation: AllocId,
    create_index: u64,
    modify_index: u64,
    #[serde(with = "songline_model::unix_nanos")]
    create_time: Time,
    #[serde(with = "songline_model::unix_nanos")]
    modify_time: Time,
}

/// Optional fields of a list of allocations.
#[derive(Debug, Clone, Copy)]
pub struct AllocFields {
    /// Whether to show resources.
    pub resources: bool,
    /// Whether to show task states.
    pub task_states: bool,
}

impl Default for AllocFields {
    fn default() -> Self {
        Self { resources: false, task_states: true }
    }
}

impl<'a> AllocStub<'a> {
    /// Makes the stub of a row.
    pub fn new(alloc: &'a Allocation, fields: AllocFields) -> Self {
        let states = alloc.task_states.as_deref().filter(|_| fields.task_states);
        let filled = display::filled(states);
        Self {
            id: alloc.id,
            eval_id: alloc.eval_id.unwrap_or_default(),
            name: &alloc.name,
            namespace: &alloc.namespace,
            node_id: alloc.node_id.unwrap_or_default(),
            node_name: &alloc.node_name,
            job_id: &alloc.job_id,
            job_type: alloc.job.as_ref().map_or("", |job| job.kind.as_str()),
            job_version: alloc.job.as_ref().map_or(0, |job| job.version),
            task_group: &alloc.task_group,
            allocated_resources: alloc.allocated_resources.as_deref().filter(|_| fields.resources),
            desired_status: alloc.desired_status,
            desired_description: &alloc.desired_description,
            client_status: alloc.client_status,
            client_description: &alloc.client_description,
            desired_transition: &alloc.desired_transition,
            task_states: filled.map(Cow::Owned).or(states.map(Cow::Borrowed)),
            deployment_status: alloc.deployment_status.as_deref(),
            followup_eval_id: alloc.followup_eval_id.unwrap_or_default(),
            next_allocation: alloc.next_allocation.unwrap_or_default(),
            reschedule_tracker: alloc.reschedule_tracker.as_deref(),
            preempted_allocations: &alloc.preempted_allocations,
            preempted_by_allocation: alloc.preempted_by_allocation.unwrap_or_default(),
            create_index: alloc.create_index,
            modify_index: alloc.modify_index,
            create_time: alloc.create_time,
            modify_time: alloc.modify_time,
        }
    }
}
