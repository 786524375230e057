//! Evaluations that follow from a change of a node: for jobs with allocations on the node, and for system jobs that
//! may run there. They are entries of their own; the proposer of the change writes them after it.

use std::collections::BTreeMap;

use songline_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType, Node, NodeStatus, Time};

use crate::state::State;

/// Whether a change of status requires evaluations of the jobs on the node.
pub fn node_transition_needs_evals(before: NodeStatus, after: NodeStatus) -> bool {
    after == NodeStatus::Down
        || matches!((before, after), (NodeStatus::Initializing | NodeStatus::Down, NodeStatus::Ready))
        || (before == NodeStatus::Disconnected) != (after == NodeStatus::Disconnected)
}

/// Whether a registration changes anything that placements depend on. A new node counts as `initializing` before.
pub fn node_registration_needs_evals(before: Option<&Node>, after: &Node) -> bool {
    let Some(before) = before else {
        return node_transition_needs_evals(NodeStatus::Initializing, after.status);
    };
    let devices = |node: &Node| node.node_resources.as_ref().and_then(|resources| resources.devices.clone());
    after.status == NodeStatus::Down
        || before.datacenter != after.datacenter
        || before.name != after.name
        || before.node_class != after.node_class
        || before.attributes != after.attributes
        || before.meta != after.meta
        || before.host_volumes != after.host_volumes
        || drivers_differ(before, after)
        || devices(before) != devices(after)
}

/// One evaluation for each job with an allocation on the node, whatever its status, and one for each system job that
/// covers the node. `index` is that of the node's change, `fresh` makes the ids. The node may be gone from the tables.
///
/// A purged job gets an evaluation too, so that its remaining allocations are stopped; type and priority come from
/// their copy of the job.
pub fn node_evals(
    view: &State,
    node: &Node,
    index: u64,
    now: Time,
    mut fresh: impl FnMut() -> EvalId,
) -> Vec<Evaluation> {
    let mut jobs: BTreeMap<JobKey, (JobType, i64)> = BTreeMap::new();
    for alloc in view.allocs_of_node(node.id) {
        jobs.entry(alloc.job_key()).or_insert_with_key(|key| {
            let job = view.job_by_key(key).or(alloc.job.as_ref());
            job.map_or((JobType::Service, DEFAULT_PRIORITY), |job| (job.kind.clone(), job.priority))
        });
    }
    for job in view.system_jobs().filter(|job| job.covers(node)) {
        jobs.entry(job.key()).or_insert_with(|| (job.kind.clone(), job.priority));
    }
    let eval = |(key, (kind, priority)): (JobKey, (JobType, i64))| Evaluation {
        id: fresh(),
        namespace: key.namespace,
        priority,
        kind,
        triggered_by: EvalTrigger::NodeUpdate,
        job_id: key.id,
        node_id: Some(node.id),
        node_modify_index: index,
        status: EvalStatus::Pending,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    };
    jobs.into_iter().map(eval).collect()
}

/// Priority of a job that is known neither to the tables nor to its allocations.
const DEFAULT_PRIORITY: i64 = 50;

fn drivers_differ(before: &Node, after: &Node) -> bool {
    let shape = |node: &Node| -> Vec<_> {
        let drivers = node.drivers.iter().flatten();
        drivers
            .map(|(name, driver)| (name.clone(), driver.detected, driver.healthy, driver.attributes.clone()))
            .collect()
    };
    shape(before) != shape(after)
}

#[cfg(test)]
mod tests;
