//! What becomes of a node's status when it, or the servers for it, ask for one. The entry that asks decides with the rows as they are then:
//! heartbeats, misses and reports of allocations come in any order, and some of them at once.

use songline_model::{Node, NodeStatus};

use crate::state::State;

/// The status that a node gets when `wanted` is asked for.
///
/// A node that was away is `initializing` until it has told of its allocations: else they would be taken for placed, or placed again, by
/// what was true before.
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
