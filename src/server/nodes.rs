//! What is said of node calls: the events that explain a status. Which status it is, and which evaluations follow, the projections decide;
//! the calls themselves are in `endpoint.rs`.

use songline_model::{Dur, Node, NodeEvent, NodeStatus, Time};
use songline_projections::State;

/// The status that a node would get now when `wanted` is asked for, and an event that explains it.
pub fn next_status(view: &State, node: &Node, wanted: NodeStatus, now: Time) -> (NodeStatus, Option<NodeEvent>) {
    let next = songline_projections::next_node_status(view, node, wanted);
    let event = match (node.status, wanted) {
        (NodeStatus::Initializing, NodeStatus::Ready) if view.node_pool(&node.node_pool).is_none() => waits_for_pool(node, now),
        (NodeStatus::Down, NodeStatus::Ready) => Some(cluster_event("Node reregistered by heartbeat", now)),
        _ => None,
    };
    (next, event)
}

/// The event of a node that was not heard of in time.
pub fn missed_event(now: Time) -> NodeEvent {
    cluster_event("Node heartbeat missed", now)
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
