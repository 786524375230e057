//! Turns node registrations and status changes into log entries, with the events that explain them. The projections
//! decide on the resulting status and on the evaluations that follow.

use songline_commands::{RegisterNode, UpdateNodeStatus};
use songline_model::{ALL_NODE_POOL, DEFAULT_NODE_POOL, Node, NodeEvent, NodeStatus, Time};
use songline_projections::State;

/// The entry that registers a node, and whether evaluations follow. `create_node_pool`: the node's pool is created if it
/// is missing. `Err` is the refusal as the node gets it.
pub fn registration(
    view: &State,
    mut node: Node,
    create_node_pool: bool,
    now: Time,
) -> Result<(RegisterNode, bool), String> {
    check_registration(&node)?;
    let known = view.node(node.id);
    if let Some(known) = known {
        if known.secret_id != node.secret_id {
            return Err("node secret ID does not match. Not registering node.".to_owned());
        }
        node.status = known.status;
    }
    if node.node_pool.is_empty() {
        node.node_pool = DEFAULT_NODE_POOL.into();
    }
    node.status_updated_at = now.into();
    node.computed_class = node.compute_class();
    let needs_evals = songline_projections::node_registration_needs_evals(known.map(|known| &**known), &node);
    Ok((RegisterNode { node, create_node_pool }, needs_evals))
}

/// The entry that sets a node's status when `wanted` is requested, with `event` or else one that explains the status.
/// `None` when neither status nor events would change.
pub fn status_update(
    view: &State,
    node: &Node,
    wanted: NodeStatus,
    event: Option<NodeEvent>,
    now: Time,
) -> Option<UpdateNodeStatus> {
    let (status, explanation) = next_status(view, node, wanted, now);
    let event = event.or(explanation);
    if status == node.status && event.is_none() {
        return None;
    }
    Some(UpdateNodeStatus { node_id: node.id, status, event, updated_at: now.into() })
}

/// The event of a node that missed its heartbeat.
pub fn missed_event(now: Time) -> NodeEvent {
    cluster_event("Node heartbeat missed", now)
}

/// The status that a node gets when `wanted` is requested, and an event that explains it.
fn next_status(view: &State, node: &Node, wanted: NodeStatus, now: Time) -> (NodeStatus, Option<NodeEvent>) {
    let next = songline_projections::next_node_status(view, node, wanted);
    let event = match (node.status, wanted) {
        (NodeStatus::Initializing, NodeStatus::Ready) if view.node_pool(&node.node_pool).is_none() => {
            waits_for_pool(node, now)
        }
        (NodeStatus::Down, NodeStatus::Ready) => Some(cluster_event("Node reregistered by heartbeat", now)),
        _ => None,
    };
    (next, event)
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
    // Event times are whole seconds, as on the wire.
    let timestamp = Some(Time::from_secs(now.secs()));
    NodeEvent { message: message.into(), subsystem: "Cluster".into(), details: None, timestamp, create_index: 0 }
}

fn check_registration(node: &Node) -> Result<(), String> {
    let missing = [
        (node.id.is_nil(), "node ID"),
        (node.datacenter.is_empty(), "datacenter"),
        (node.name.is_empty(), "node name"),
        (node.attributes.as_ref().is_none_or(|attributes| attributes.is_empty()), "attributes"),
        (node.secret_id.is_empty(), "node secret ID"),
    ];
    if let Some((_, what)) = missing.into_iter().find(|(missing, _)| *missing) {
        return Err(format!("missing {what} for client registration"));
    }
    if node.node_pool == ALL_NODE_POOL {
        return Err("node is not allowed to register in node pool \"all\"".to_owned());
    }
    let valid = node.node_pool.len() <= 128
        && node.node_pool.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if !valid {
        return Err(format!("invalid node pool: invalid name {:?}", node.node_pool.as_str()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
