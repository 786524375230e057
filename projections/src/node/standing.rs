//! Status of a node after a heartbeat or a missed one. Decided when the entry is applied, on the rows of that moment:
//! heartbeats, missed heartbeats and reports of allocations come in any order, and some of them concurrently.

use songline_model::{Node, NodeStatus};

use crate::state::State;

/// The status that a node gets when `wanted` is requested.
///
/// A disconnected node becomes `initializing` before `ready`. An `initializing` node becomes `ready` when its pool
/// exists and it has no live allocations or has reported them since its missed heartbeat: until then, the scheduler
/// would decide on outdated client statuses.
pub fn next_node_status(view: &State, node: &Node, wanted: NodeStatus) -> NodeStatus {
    match (node.status, wanted) {
        (NodeStatus::Initializing, NodeStatus::Ready) => {
            let has_live = view.allocs_of_node(node.id).any(|alloc| !alloc.terminal());
            let has_told = node.last_alloc_update_index > node.last_missed_heartbeat_index;
            let has_pool = view.node_pool(&node.node_pool).is_some();
            if has_pool && (has_told || !has_live) { NodeStatus::Ready } else { NodeStatus::Initializing }
        }
        (NodeStatus::Disconnected, NodeStatus::Ready) => NodeStatus::Initializing,
        (_, wanted) => wanted,
    }
}

#[cfg(test)]
mod tests;
