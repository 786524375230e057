//! Rows of a plan: the form in which stopped, changed and new allocations are written. Which allocations these are is
//! decided by `generic` and `system`.

use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocId, Allocation, Evaluation, Job, NodeStatus, Plan, PreemptAlloc,
    StopAlloc, Str, Time,
};
use songline_projections::State;

use crate::generic::stack::Selected;
use crate::reconcile::{Stop, Tainted, why};

/// An empty plan of `eval` for this version of the job.
pub(crate) fn plan(view: &State, job: Option<&Arc<Job>>, eval: &Evaluation) -> Plan {
    Plan {
        eval_id: eval.id,
        priority: eval.priority,
        all_at_once: job.is_some_and(|job| job.all_at_once),
        job: job.cloned(),
        snapshot_index: view.applied_index(),
        ..Plan::default()
    }
}

/// Stops an allocation.
pub(crate) fn stop(plan: &mut Plan, stop: &Stop, now: Time) {
    let node = stop.alloc.node_id.unwrap_or_default();
    // Drop other rows of this allocation from the plan: they are applied after the stop and would undo it.
    if let Some(rows) = plan.node_allocation.get_mut(&node) {
        rows.retain(|row| row.id != stop.alloc.id);
        if rows.is_empty() {
            plan.node_allocation.remove(&node);
        }
    }
    let stops = plan.node_update.entry(node).or_default();
    let planned: StopAlloc = stop.planned(now);
    match stops.iter_mut().find(|other| other.id == planned.id) {
        // The later reason is the more exact one.
        Some(other) => *other = planned,
        None => stops.push(planned),
    }
}

/// Writes the row of a new or changed allocation.
pub(crate) fn write(plan: &mut Plan, mut alloc: Allocation, now: Time) {
    // A row of the plan's own job version need not carry the job.
    let of_plan = alloc.job.as_ref().zip(plan.job.as_ref()).is_some_and(|(own, job)| {
        own.version == job.version
            && own.create_index == job.create_index
            && own.job_modify_index == job.job_modify_index
    });
    if of_plan {
        alloc.job = None;
    }
    alloc.modify_time = now;
    plan.node_allocation.entry(alloc.node_id.unwrap_or_default()).or_default().push(Arc::new(alloc));
}

/// Preempts allocations of lower priority in favour of a new one.
pub(crate) fn preempt(plan: &mut Plan, alloc: &mut Allocation, victims: &[Arc<Allocation>], now: Time) {
    if victims.is_empty() {
        return;
    }
    alloc.preempted_allocations = Some(victims.iter().map(|victim| victim.id).collect());
    let row = |victim: &Arc<Allocation>| PreemptAlloc { id: victim.id, preempted_by: alloc.id, modify_time: now };
    plan.node_preemptions.entry(alloc.node_id.unwrap_or_default()).or_default().extend(victims.iter().map(row));
    let desired = plan.annotations.as_mut().map(|annotations| &mut annotations.desired_tg_updates);
    if let Some(desired) = desired.and_then(|groups| groups.get_mut(&alloc.task_group)) {
        desired.preemptions += victims.len() as u64;
    }
}

/// Stopped allocations that are lost: their node is down or gone and so cannot report that they ended.
pub(crate) fn unreachable<'a>(allocs: &'a [Arc<Allocation>], tainted: &'a Tainted) -> impl Iterator<Item = Stop> + 'a {
    let is_lost = |alloc: &&Arc<Allocation>| {
        let down = match alloc.node_id.and_then(|id| tainted.get(&id)) {
            Some(None) => true,
            Some(Some(node)) => node.status == NodeStatus::Down,
            None => false,
        };
        let live = matches!(alloc.client_status, AllocClientStatus::Running | AllocClientStatus::Pending);
        down && live && alloc.server_terminal()
    };
    allocs.iter().filter(is_lost).map(self::lost)
}

/// Stops an allocation whose node is down or gone, or stayed disconnected for too long.
pub(crate) fn lost(alloc: &Arc<Allocation>) -> Stop {
    let client_status = Some(AllocClientStatus::Lost);
    Stop { alloc: alloc.clone(), description: why::LOST, client_status, followup: None }
}

/// Name and predecessor of a new allocation.
pub(crate) struct New<'a> {
    pub id: AllocId,
    pub group: Str,
    pub name: Str,
    pub previous: Option<&'a Allocation>,
}

/// The row of a new allocation on the node that was selected for it.
pub(crate) fn new_alloc(new: New<'_>, job: &Job, eval: &Evaluation, selected: Selected, now: Time) -> Allocation {
    Allocation {
        id: new.id,
        namespace: job.namespace.clone(),
        eval_id: Some(eval.id),
        name: new.name,
        node_id: Some(selected.node.id),
        node_name: selected.node.name.clone(),
        job_id: job.id.clone(),
        // The allocation runs the plan's job, which is attached when the plan is applied.
        job: None,
        task_group: new.group,
        allocated_resources: Some(selected.resources),
        metrics: Some(Arc::new(selected.metric)),
        desired_status: AllocDesiredStatus::Run,
        client_status: AllocClientStatus::Pending,
        previous_allocation: new.previous.map(|previous| previous.id),
        create_time: now,
        modify_time: now,
        ..Allocation::default()
    }
}
