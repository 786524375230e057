//! The nodes that can take allocations, by pool and datacenter, kept as nodes change: an attempt to place allocations
//! copies no list of nodes.

use std::sync::Arc;

use imbl::{OrdMap, Vector};
use songline_model::{ALL_NODE_POOL, Node, NodeId, NodePoolName, Str};

use crate::state::State;

/// Ids, in order, of the ready nodes of each pool and datacenter.
pub(crate) type ReadyByPool = OrdMap<(NodePoolName, Str), Vector<NodeId>>;

/// The ready nodes of one pool and datacenter.
#[derive(Debug, Clone, Copy)]
pub struct ReadyNodes<'a> {
    /// Name of the datacenter.
    pub datacenter: &'a Str,
    ids: &'a Vector<NodeId>,
}

impl State {
    /// The ready nodes of a pool, by datacenter. The pool `all` has every node, and may have a datacenter once for each
    /// pool.
    pub fn ready_nodes<'a>(&'a self, pool: &'a str) -> impl Iterator<Item = ReadyNodes<'a>> {
        let is_in_pool = move |name: &NodePoolName| pool == ALL_NODE_POOL || *name == *pool;
        let all = self.by.ready_nodes.iter().filter(move |((name, _), _)| is_in_pool(name));
        all.map(|((_, datacenter), ids)| ReadyNodes { datacenter, ids })
    }
}

impl ReadyNodes<'_> {
    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The node at a position in order of id.
    pub fn get(&self, at: usize) -> Option<NodeId> {
        self.ids.get(at).copied()
    }

    /// The nodes in order of id.
    pub fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.ids.iter().copied()
    }
}

/// Moves a node within the ready nodes.
pub(crate) fn move_node(nodes: &mut ReadyByPool, before: Option<&Arc<Node>>, after: Option<&Arc<Node>>) {
    let place =
        |node: &Arc<Node>| node.is_ready().then(|| ((node.node_pool.clone(), node.datacenter.clone()), node.id));
    let (before, after) = (before.and_then(place), after.and_then(place));
    if before == after {
        return;
    }
    if let Some((key, id)) = before
        && let Some(ids) = nodes.get_mut(&key)
    {
        if let Ok(at) = ids.binary_search(&id) {
            ids.remove(at);
        }
        if ids.is_empty() {
            nodes.remove(&key);
        }
    }
    if let Some((key, id)) = after {
        let ids = nodes.entry(key).or_default();
        if let Err(at) = ids.binary_search(&id) {
            ids.insert(at, id);
        }
    }
}
