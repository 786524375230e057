//! Tracker of rejected plans: counts how often the applier rejected a node's part of a plan, and names the nodes that
//! are to take no more work. A node whose agent and servers disagree about what runs there would otherwise be chosen
//! again and again. A machine without a clock; it keeps nothing that must survive a leadership term.

use std::collections::{BTreeMap, VecDeque};

use songline_model::{Dur, NodeId, Time};

/// Nodes whose rejections are counted; of more, the one that was rejected longest ago is forgotten.
const NODES_MAX: usize = 50;
/// Nodes that may become ineligible at once.
const BURST: u32 = 10;
/// Interval after which one more node may become ineligible: five in half an hour.
const REFILL: Dur = Dur::from_mins(6);

/// When a node is rejected too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectionLimits {
    /// Whether such a node becomes ineligible. Rejections are counted either way.
    pub enabled: bool,
    /// Number of rejections within the window.
    pub node_threshold: u32,
    /// Length of the window.
    pub node_window: Dur,
}

impl Default for RejectionLimits {
    fn default() -> Self {
        Self { enabled: false, node_threshold: 100, node_window: Dur::from_mins(5) }
    }
}

/// Rejections of plans by node, within the window.
#[derive(Debug)]
pub struct Rejections {
    limits: RejectionLimits,
    /// Times of each node's rejections, the oldest first.
    nodes: BTreeMap<NodeId, VecDeque<Time>>,
    /// Nodes that may still become ineligible.
    left: u32,
    /// Time from which the next refill of `left` counts.
    refilled: Time,
}

impl Rejections {
    /// A tracker without rejections.
    pub fn new(limits: RejectionLimits) -> Self {
        Self { limits, nodes: BTreeMap::new(), left: BURST, refilled: Time::default() }
    }

    /// Forgets all rejections: a new leadership term begins.
    pub fn clear(&mut self) {
        *self = Self::new(self.limits);
    }

    /// Counts a rejection. True: the node has reached the threshold and is to become ineligible.
    pub fn on_rejected(&mut self, node: NodeId, now: Time) -> bool {
        let times = self.nodes.entry(node).or_default();
        times.push_back(now);
        let oldest = now.plus(Dur(-self.limits.node_window.0));
        while times.front().is_some_and(|at| *at < oldest) {
            times.pop_front();
        }
        // More than the threshold decides nothing, and a busy node must not fill the memory.
        let kept_max = self.limits.node_threshold.max(1) as usize;
        while times.len() > kept_max {
            times.pop_front();
        }
        let is_bad = times.len() >= kept_max;
        self.forget_oldest();
        is_bad && self.limits.enabled && self.may_mark(now)
    }

    /// Number of rejections of each node within the window that ends now, at most the threshold. Nodes without any are
    /// left out.
    pub fn scores(&self, now: Time) -> impl Iterator<Item = (NodeId, usize)> {
        let oldest = now.plus(Dur(-self.limits.node_window.0));
        let scores = self.nodes.iter().map(move |(id, times)| (*id, times.iter().filter(|at| **at >= oldest).count()));
        scores.filter(|(_, score)| *score > 0)
    }

    fn forget_oldest(&mut self) {
        if self.nodes.len() > NODES_MAX {
            let oldest = self.nodes.iter().min_by_key(|(_, times)| times.back().copied()).map(|(id, _)| *id);
            self.nodes.remove(&oldest.expect("there are more than NODES_MAX nodes"));
        }
    }

    /// Takes one of the markings that are left, so that a defect elsewhere cannot take the whole fleet out of service.
    fn may_mark(&mut self, now: Time) -> bool {
        let refills = now.since(self.refilled).0 / REFILL.0;
        let earned = u32::try_from(refills.max(0)).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(earned).min(BURST);
        let is_full = self.left == BURST;
        self.refilled = if is_full { now } else { self.refilled.plus(Dur(REFILL.0 * i64::from(earned))) };
        let may = self.left > 0;
        self.left = self.left.saturating_sub(1);
        may
    }
}

#[cfg(test)]
mod tests;
