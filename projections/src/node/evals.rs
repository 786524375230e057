//! Which changes of a node need evaluations, and which evaluations: for jobs that have something on the node, and for system jobs that
//! could. They are entries of their own; whoever wrote the change writes them after it.

use std::collections::BTreeMap;

use songline_model::{EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType, Node, NodeStatus, Time};

use crate::state::State;

/// Whether a change of status needs evaluations of the jobs on the node.
pub fn node_transition_needs_evals(before: NodeStatus, after: NodeStatus) -> bool {
    after == NodeStatus::Down
        || matches!((before, after), (NodeStatus::Initializing | NodeStatus::Down, NodeStatus::Ready))
        || (before == NodeStatus::Disconnected) != (after == NodeStatus::Disconnected)
}

/// Whether a registration changes what jobs may have been placed by. A new node begins as `initializing`.
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

/// One evaluation for each job with an allocation on the node, whatever its status, and one for each system job that looks at such nodes.
/// `index` is that of the node's change, `fresh` names the evaluations. The node need not be in the tables any more.
///
/// A job that was purged has its evaluation too, or nobody would stop what is left of it; what it was its allocations know.
pub fn node_evals(view: &State, node: &Node, index: u64, now: Time, mut fresh: impl FnMut() -> EvalId) -> Vec<Evaluation> {
    let mut jobs: BTreeMap<JobKey, (JobType, i64)> = BTreeMap::new();
    for alloc in view.allocs_of_node(node.id) {
        jobs.entry(alloc.job_key()).or_insert_with_key(|key| {
            let job = view.job_by_key(key).or(alloc.job.as_ref());
            job.map_or((JobType::Service, DEFAULT_PRIORITY), |job| (job.kind.clone(), job.priority))
        });
    }
    for job in view.jobs().filter(|job| job.kind == JobType::System && !job.stop && job.covers(node)) {
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
        create_time: now.nanos(),
        modify_time: now.nanos(),
        ..Evaluation::default()
    };
    jobs.into_iter().map(eval).collect()
}

/// Of a job that nobody knows any more.
const DEFAULT_PRIORITY: i64 = 50;

fn drivers_differ(before: &Node, after: &Node) -> bool {
    let shape = |node: &Node| -> Vec<_> {
        let drivers = node.drivers.iter().flatten();
        drivers.map(|(name, driver)| (name.clone(), driver.detected, driver.healthy, driver.attributes.clone())).collect()
    };
    shape(before) != shape(after)
}

#[cfg(test)]
mod tests;
