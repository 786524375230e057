//! What node calls mean: which status a heartbeat leads to, and which evaluations follow from a change of a node.
//!
//! Pure functions of a view; the calls themselves are in `endpoint.rs`.

use std::collections::BTreeSet;

use songline_model::{Dur, EvalId, EvalStatus, EvalTrigger, Evaluation, Job, JobKey, JobType, Node, NodeEvent, NodeId, NodeStatus, Time};
use songline_projections::State;

/// The status that a node gets when it, or the servers for it, ask for `wanted`; and an event that explains it.
pub fn next_status(view: &State, node: &Node, wanted: NodeStatus, now: Time) -> (NodeStatus, Option<NodeEvent>) {
    match (node.status, wanted) {
        (NodeStatus::Initializing, NodeStatus::Ready) => {
            if view.node_pool(&node.node_pool).is_none() {
                return (NodeStatus::Initializing, waits_for_pool(node, now));
            }
            // A node that comes back says how its allocs fare before it gets new ones: else they would be placed twice.
            let has_live = view.allocs_of_node(node.id).any(|alloc| !alloc.terminal());
            let has_reported = node.last_alloc_update_index > node.last_missed_heartbeat_index;
            if has_live && !has_reported { (NodeStatus::Initializing, None) } else { (NodeStatus::Ready, None) }
        }
        (NodeStatus::Disconnected, NodeStatus::Ready) => (NodeStatus::Initializing, None),
        (NodeStatus::Down, NodeStatus::Ready) => (NodeStatus::Ready, Some(cluster_event("Node reregistered by heartbeat", now))),
        (_, wanted) => (wanted, None),
    }
}

/// Whether a change of status needs evaluations of the jobs on the node.
pub fn transition_needs_evals(before: NodeStatus, after: NodeStatus) -> bool {
    after == NodeStatus::Down
        || matches!((before, after), (NodeStatus::Initializing | NodeStatus::Down, NodeStatus::Ready))
        || (before == NodeStatus::Disconnected) != (after == NodeStatus::Disconnected)
}

/// Whether a registration changes what jobs may have been placed by.
pub fn registration_needs_evals(before: &Node, after: &Node) -> bool {
    let devices = |node: &Node| node.node_resources.as_ref().and_then(|resources| resources.devices.clone());
    before.datacenter != after.datacenter
        || before.name != after.name
        || before.node_class != after.node_class
        || before.attributes != after.attributes
        || before.meta != after.meta
        || before.host_volumes != after.host_volumes
        || drivers_differ(before, after)
        || devices(before) != devices(after)
}

/// One evaluation for each job with an alloc on the node, and for each system job that could have one.
pub fn evals(view: &State, node: NodeId, index: u64, now: Time, mut fresh: impl FnMut() -> EvalId) -> Vec<Evaluation> {
    let mut seen = BTreeSet::new();
    let mut made = Vec::new();
    let mut add = |key: JobKey, job: Option<&Job>| {
        if !seen.insert(key.clone()) {
            return;
        }
        let (kind, priority) = job.map_or((JobType::Service, 50), |job| (job.kind.clone(), job.priority));
        made.push(Evaluation {
            id: fresh(),
            namespace: key.namespace,
            priority,
            kind,
            triggered_by: EvalTrigger::NodeUpdate,
            job_id: key.id,
            node_id: Some(node),
            node_modify_index: index,
            status: EvalStatus::Pending,
            create_time: now.nanos(),
            modify_time: now.nanos(),
            ..Evaluation::default()
        });
    };
    for alloc in view.allocs_of_node(node) {
        add(alloc.job_key(), alloc.job.as_deref());
    }
    if let Some(node) = view.node(node) {
        for job in view.jobs().filter(|job| job.kind == JobType::System && !job.stop && accepts(job, node)) {
            add(job.key(), Some(job));
        }
    }
    made
}

/// The event of a node that was not heard of in time.
pub fn missed_event(now: Time) -> NodeEvent {
    cluster_event("Node heartbeat missed", now)
}

fn accepts(job: &Job, node: &Node) -> bool {
    let pool = job.node_pool == songline_model::ALL_NODE_POOL || job.node_pool == node.node_pool;
    pool && songline_scheduler::feasible::in_datacenters(node, job.datacenters.as_deref().unwrap_or_default())
}

fn drivers_differ(before: &Node, after: &Node) -> bool {
    let shape = |node: &Node| -> Vec<_> {
        let drivers = node.drivers.iter().flatten();
        drivers.map(|(name, driver)| (name.clone(), driver.detected, driver.healthy, driver.attributes.clone())).collect()
    };
    shape(before) != shape(after)
}

fn waits_for_pool(node: &Node, now: Time) -> Option<NodeEvent> {
    const TEXT: &str = "Node registered but waiting for node pool to be created";
    let said = node.events.iter().flatten().any(|event| event.message == TEXT);
    (!said).then(|| {
        let mut event = cluster_event(TEXT, now);
        event.details = Some([("node_pool".into(), node.node_pool.0.clone())].into());
        event
    })
}

fn cluster_event(message: &str, now: Time) -> NodeEvent {
    // Events carry whole seconds, as the wire shows them.
    let timestamp = Some(Time::from_secs(now.secs()));
    NodeEvent { message: message.into(), subsystem: "Cluster".into(), details: None, timestamp, create_index: 0 }
}

/// How long a poll without a bound waits.
pub const POLL_MAX: Dur = Dur::from_secs(300);
