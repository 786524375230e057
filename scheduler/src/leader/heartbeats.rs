//! Heartbeat deadlines: finds nodes that have been silent for too long. Their new status is decided from the tables
//! when it is proposed.

use std::collections::{BTreeMap, BTreeSet};

use songline_model::{AllocClientStatus, AllocDesiredStatus, Dur, Node, NodeId, NodeStatus, Time};
use songline_projections::State;

/// Limits of heartbeat intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeartbeatLimits {
    /// Shortest TTL given to a node.
    pub min_ttl: Dur,
    /// Most heartbeats per second of all nodes together; with many nodes the TTL grows accordingly.
    pub per_second_max: u32,
    /// Time after the TTL for which a heartbeat still counts.
    pub grace: Dur,
    /// TTL of every node after a change of leader.
    pub failover_ttl: Dur,
}

impl Default for HeartbeatLimits {
    fn default() -> Self {
        Self {
            min_ttl: Dur::from_secs(10),
            per_second_max: 50,
            grace: Dur::from_secs(10),
            failover_ttl: Dur::from_mins(5),
        }
    }
}

/// Heartbeat deadlines of the watched nodes.
#[derive(Debug, Default)]
pub struct Heartbeats {
    limits: HeartbeatLimits,
    deadlines: BTreeMap<NodeId, Time>,
    queue: BTreeSet<(Time, NodeId)>,
}

impl Heartbeats {
    /// A machine that watches no node.
    pub fn new(limits: HeartbeatLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Stops watching all nodes. A server that loses leadership calls this.
    pub fn clear(&mut self) {
        self.deadlines.clear();
        self.queue.clear();
    }

    /// Starts watching every node that is not down, with the failover TTL. A new leader calls this.
    pub fn restore(&mut self, view: &State, now: Time) {
        self.clear();
        for node in view.nodes().filter(|node| node.status != NodeStatus::Down) {
            self.watch(node.id, now.plus(self.limits.failover_ttl));
        }
    }

    /// Takes a heartbeat and returns the TTL until the next one. `stagger`, from 0 to 1, lengthens the TTL by that
    /// fraction to spread the nodes.
    pub fn on_heartbeat(&mut self, node: NodeId, stagger: f64, now: Time) -> Dur {
        let nodes = self.deadlines.len() as f64;
        let rate_bound = nodes / f64::from(self.limits.per_second_max.max(1)) * 1e9;
        let base = self.limits.min_ttl.nanos().max(rate_bound as i64);
        let ttl = Dur(base + (base as f64 * stagger.clamp(0.0, 1.0)) as i64);
        self.watch(node, now.plus(ttl).plus(self.limits.grace));
        ttl
    }

    /// Stops watching a node that is down or gone.
    pub fn forget(&mut self, node: NodeId) {
        if let Some(at) = self.deadlines.remove(&node) {
            self.queue.remove(&(at, node));
        }
    }

    /// The next time at which [`Self::on_time`] has work; `None`: no node is watched.
    pub fn next_deadline(&self) -> Option<Time> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// The nodes that missed their heartbeat. Each is returned once, and is not watched until it is heard of or watched
    /// again.
    pub fn on_time(&mut self, now: Time) -> Vec<NodeId> {
        let mut missed = Vec::new();
        while let Some(&(at, node)) = self.queue.first() {
            if at > now {
                break;
            }
            self.queue.pop_first();
            self.deadlines.remove(&node);
            missed.push(node);
        }
        missed
    }

    /// Whether a node is watched. A node that missed its heartbeat is not watched until it shows up.
    pub fn watches(&self, node: NodeId) -> bool {
        self.deadlines.contains_key(&node)
    }

    /// Number of watched nodes.
    pub fn watched(&self) -> usize {
        self.deadlines.len()
    }

    fn watch(&mut self, node: NodeId, at: Time) {
        self.forget(node);
        self.deadlines.insert(node, at);
        self.queue.insert((at, node));
    }
}

/// New status of a node that missed its heartbeat: `disconnected` while the disconnect window of one of its allocs is
/// open, else `down`.
pub fn status_after_miss(view: &State, node: &Node, now: Time) -> NodeStatus {
    if matches!(node.status, NodeStatus::Down | NodeStatus::Initializing) {
        return NodeStatus::Down;
    }
    let may_wait = view.allocs_of_node(node.id).any(|alloc| {
        let Some(window) =
            alloc.group().and_then(|group| group.max_client_disconnect).filter(|window| *window > Dur::ZERO)
        else {
            return false;
        };
        let expired = alloc
            .last_unknown()
            .is_some_and(|since| alloc.client_status == AllocClientStatus::Unknown && since.plus(window) <= now);
        alloc.desired_status == AllocDesiredStatus::Run && !expired
    });
    if may_wait { NodeStatus::Disconnected } else { NodeStatus::Down }
}

/// Whether a node is down or disconnected and the evaluations for that are missing: the tables still have live
/// allocations of it. The leader that wrote the status stopped before writing the evaluations; the next miss or the
/// next leader writes them.
pub fn was_not_looked_at(view: &State, node: &Node) -> bool {
    // Allocations may stay live after a look: a system job has no other place for its own.
    if view.evals_of_node(node.id).any(|eval| eval.node_modify_index >= node.modify_index) {
        return false;
    }
    let mut live = view.allocs_of_node(node.id).filter(|alloc| !alloc.terminal());
    match node.status {
        NodeStatus::Disconnected => live.any(|alloc| alloc.client_status != AllocClientStatus::Unknown),
        NodeStatus::Down => live.next().is_some(),
        NodeStatus::Initializing | NodeStatus::Ready => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId::from_bytes([1; 16]);

    #[test]
    fn silent_node_is_reported_once_after_its_ttl_and_the_grace() {
        let mut beats = Heartbeats::new(HeartbeatLimits::default());
        let ttl = beats.on_heartbeat(NODE, 0.5, Time::from_secs(100));
        assert_eq!(ttl, Dur::from_secs(15));
        assert_eq!(beats.next_deadline(), Some(Time::from_secs(125)));
        assert!(beats.on_time(Time::from_secs(124)).is_empty());
        assert_eq!(beats.on_time(Time::from_secs(125)), [NODE]);
        assert!(beats.on_time(Time::from_secs(999)).is_empty());
    }

    #[test]
    fn a_heartbeat_puts_the_deadline_off() {
        let mut beats = Heartbeats::new(HeartbeatLimits::default());
        beats.on_heartbeat(NODE, 0.0, Time::from_secs(0));
        beats.on_heartbeat(NODE, 0.0, Time::from_secs(10));
        assert!(beats.on_time(Time::from_secs(25)).is_empty());
        assert_eq!(beats.on_time(Time::from_secs(30)), [NODE]);
    }

    #[test]
    fn heartbeat_ttl_grows_with_the_number_of_nodes() {
        let mut beats = Heartbeats::new(HeartbeatLimits::default());
        for n in 0..=255_u8 {
            for m in 0..4_u8 {
                let mut id = [n; 16];
                id[0] = m;
                beats.on_heartbeat(NodeId::from_bytes(id), 0.0, Time::from_secs(0));
            }
        }
        assert_eq!(beats.on_heartbeat(NODE, 0.0, Time::from_secs(0)), Dur::from_millis(20_480));
    }
}
