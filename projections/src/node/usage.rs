//! Resources that the allocations of each node use, kept as allocations are written: neither the scheduler nor the plan
//! applier sums up the allocations of a node.

use std::sync::Arc;

use imbl::OrdMap;
use songline_model::{Allocation, Amount, NodeId};

use crate::state::State;

/// Resources that the allocations of one node use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeUsage {
    /// Amount of the allocations that their node has not ended: those that run or may start.
    pub held: Amount,
    /// Amount of the allocations that neither the servers nor their node ended.
    pub live: Amount,
    /// Number of allocations that their node has not ended and that hold ports, reserved cores or devices.
    pub exclusive: u64,
    /// Number of those that the servers ended, so that another allocation may hold the same ports.
    pub exclusive_stopping: u64,
}

impl NodeUsage {
    fn of(alloc: &Allocation) -> Self {
        if alloc.client_terminal() {
            return Self::default();
        }
        let held = alloc.amount();
        let stopping = alloc.server_terminal();
        let live = if stopping { Amount::default() } else { held };
        let exclusive = alloc.has_exclusive();
        Self { held, live, exclusive: u64::from(exclusive), exclusive_stopping: u64::from(exclusive && stopping) }
    }

    fn add(&mut self, other: Self) {
        self.held = self.held.plus(other.held);
        self.live = self.live.plus(other.live);
        self.exclusive += other.exclusive;
        self.exclusive_stopping += other.exclusive_stopping;
    }

    fn subtract(&mut self, other: Self) {
        self.held = self.held.minus(other.held);
        self.live = self.live.minus(other.live);
        self.exclusive -= other.exclusive;
        self.exclusive_stopping -= other.exclusive_stopping;
    }
}

impl State {
    /// Resources that the allocations of a node use.
    pub fn usage_of_node(&self, id: NodeId) -> NodeUsage {
        self.by.usage_by_node.get(&id).copied().unwrap_or_default()
    }
}

/// Moves the resources of an allocation from those that `before` used to those that `after` uses.
pub(crate) fn count(
    usage: &mut OrdMap<NodeId, NodeUsage>,
    before: Option<&Arc<Allocation>>,
    after: Option<&Arc<Allocation>>,
) {
    if before.zip(after).is_some_and(|(before, after)| use_the_same(before, after)) {
        return;
    }
    let of = |row: &Arc<Allocation>| Some((row.node_id?, NodeUsage::of(row)));
    if let Some((node, gone)) = before.and_then(of)
        && let Some(known) = usage.get_mut(&node)
    {
        known.subtract(gone);
        if *known == NodeUsage::default() {
            usage.remove(&node);
        }
    }
    if let Some((node, new)) = after.and_then(of).filter(|(_, new)| *new != NodeUsage::default()) {
        usage.entry(node).or_default().add(new);
    }
}

/// Whether both rows use the same resources of the same node. Most changes of a row leave these as they are.
fn use_the_same(before: &Allocation, after: &Allocation) -> bool {
    let resources = match (&before.allocated_resources, &after.allocated_resources) {
        (Some(before), Some(after)) => Arc::ptr_eq(before, after),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    let ends = |row: &Allocation| (row.client_terminal(), row.server_terminal());
    resources && before.node_id == after.node_id && ends(before) == ends(after)
}
