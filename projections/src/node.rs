//! Nodes: registration, status, drains and eligibility. The leader's loops watch heartbeats and drains, and propose
//! the commands that follow from the passing of time.

pub(crate) mod evals;
pub(crate) mod ready;
pub(crate) mod standing;
pub(crate) mod usage;

use std::sync::Arc;

use songline_commands::{
    AddNodeEvents, DeregisterNode, DeregisterNodes, FinishNodeDrains, RegisterNode, UpdateNodeDrain,
    UpdateNodeEligibility, UpdateNodeStatus,
};
use songline_model::{
    ALL_NODE_POOL, DEFAULT_NODE_POOL, DrainMetadata, DrainStatus, DrainStrategy, Eligibility, Node, NodeEvent, NodeId,
    NodePool, NodePoolName, NodeStatus, Str, Time, UnixSecs,
};

use crate::csi;
use crate::index::move_key;
use crate::prefix::IdPrefix;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

/// Largest number of events of a node; the oldest ones are dropped.
const NODE_EVENTS_MAX: usize = 10;

const REJECTED_PLANS: &str = "Node marked as ineligible for scheduling due to multiple plan rejections, refer to https://www.nomadproject.io/s/port-plan-failure for more information";

impl Rules<NodeId, Node> for tables::Nodes {
    fn key(row: &Node) -> NodeId {
        row.id
    }

    #[cfg(test)]
    fn in_story(row: &Node) -> String {
        format!("node:{}", crate::story::name(row.id.as_bytes()))
    }

    fn reindex(state: &mut State, before_row: Option<&Arc<Node>>, after_row: Option<&Arc<Node>>) {
        let pool = |node: &Arc<Node>| (node.node_pool.clone(), node.id);
        let (before, after) = (before_row.map(pool), after_row.map(pool));
        if before != after {
            before.map(|key| state.by.nodes_by_pool.remove(&key));
            after.map(|key| state.by.nodes_by_pool.insert(key));
        }
        ready::move_node(&mut state.by.ready_nodes, before_row, after_row);
        let secret = |node: &Arc<Node>| (Str::from(node.secret_id.reveal()), node.id);
        move_key(&mut state.by.nodes_by_secret, before_row.map(secret), after_row.map(secret));
    }
}

impl State {
    /// The node with this id.
    pub fn node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.tables.nodes.get(&id)
    }

    /// All nodes, by id.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = &Arc<Node>> {
        self.tables.nodes.iter()
    }

    /// The node with this secret.
    pub fn node_by_secret(&self, secret: &str) -> Option<NodeId> {
        let start = (Str::from(secret), NodeId::NIL);
        let found =
            self.by.nodes_by_secret.range(start..).next().filter(|(known, _)| known == secret && !secret.is_empty());
        found.map(|(_, id)| *id)
    }

    /// The nodes of a pool, by id. The pool `all` has every node.
    pub fn nodes_in_pool<'a>(&'a self, pool: &str) -> Box<dyn DoubleEndedIterator<Item = &'a Arc<Node>> + 'a> {
        if pool == ALL_NODE_POOL {
            return Box::new(self.nodes());
        }
        let pool = NodePoolName::from(pool);
        let range = (pool.clone(), NodeId::NIL)..=(pool, NodeId::from_bytes([0xff; 16]));
        Box::new(self.by.nodes_by_pool.range(range).filter_map(|(_, id)| self.node(*id)))
    }

    /// The nodes whose id has this prefix, by id.
    pub fn nodes_with_prefix<'s>(
        &'s self,
        prefix: &IdPrefix,
    ) -> impl DoubleEndedIterator<Item = &'s Arc<Node>> + use<'s> {
        let (low, high) = prefix.bounds();
        self.tables.nodes.range(NodeId::from_bytes(low)..=NodeId::from_bytes(high))
    }
}

/// Registers a node: every field is the node's own except those that the servers decide. A known node keeps its
/// status, so that a restarted agent can not skip the steps of reconnecting.
pub(crate) fn register(tx: &mut Tx<'_>, cmd: &RegisterNode) -> Result<(), Rejected> {
    let mut node = cmd.node.clone();
    if node.node_pool.is_empty() {
        node.node_pool = DEFAULT_NODE_POOL.into();
    }
    if node.node_pool == ALL_NODE_POOL {
        return Err(Rejected::NodeInAllPool);
    }
    match tx.node(node.id).cloned() {
        Some(stored) => {
            if stored.secret_id != node.secret_id {
                return Err(Rejected::NodeSecretMismatch(node.id));
            }
            node.create_index = stored.create_index;
            node.status = stored.status;
            node.events.clone_from(&stored.events);
            node.scheduling_eligibility = stored.scheduling_eligibility;
            node.drain_strategy.clone_from(&stored.drain_strategy);
            node.last_drain.clone_from(&stored.last_drain);
            node.last_missed_heartbeat_index = node.last_missed_heartbeat_index.max(stored.last_missed_heartbeat_index);
            node.last_alloc_update_index = node.last_alloc_update_index.max(stored.last_alloc_update_index);
        }
        None => {
            // The index of the first event is 0, as in the reference.
            node.events = Some(vec![NodeEvent {
                message: "Node registered".into(),
                subsystem: "Cluster".into(),
                timestamp: Some(node.status_updated_at.time()),
                ..NodeEvent::default()
            }]);
            node.create_index = tx.index();
        }
    }
    if node.drain_strategy.is_some() {
        node.scheduling_eligibility = Eligibility::Ineligible;
    }
    node.modify_index = tx.index();
    if cmd.create_node_pool && tx.node_pool(&node.node_pool).is_none() {
        let (name, index) = (node.node_pool.clone(), tx.index());
        tx.put::<tables::NodePools>(NodePool { name, create_index: index, modify_index: index, ..NodePool::default() });
    }
    let node = Arc::new(node);
    tx.put::<tables::Nodes>(Arc::clone(&node));
    csi::plugin::node_registered(tx, &node);
    Ok(())
}

pub(crate) fn deregister(tx: &mut Tx<'_>, cmd: &DeregisterNode) -> Result<(), Rejected> {
    delete_all(tx, &[cmd.node_id])
}

pub(crate) fn deregister_batch(tx: &mut Tx<'_>, cmd: &DeregisterNodes) -> Result<(), Rejected> {
    delete_all(tx, &cmd.node_ids)
}

fn delete_all(tx: &mut Tx<'_>, ids: &[NodeId]) -> Result<(), Rejected> {
    if ids.is_empty() {
        return Err(Rejected::NodeIdsMissing);
    }
    for id in ids {
        if !tx.delete::<tables::Nodes>(id) {
            return Err(Rejected::NodeOfListNotFound(*id));
        }
        csi::plugin::node_deregistered(tx, *id);
    }
    Ok(())
}

/// Sets a node's status. The two indexes later decide whether a reconnected node has reported its allocs since its
/// missed heartbeat. The status is derived from the current row, which may have changed since the command was
/// proposed.
pub(crate) fn update_status(tx: &mut Tx<'_>, cmd: &UpdateNodeStatus) -> Result<(), Rejected> {
    let mut node = changed(tx, cmd.node_id, cmd.updated_at, cmd.event.as_ref())?;
    let status = standing::next_node_status(tx, &node, cmd.status);
    if status.is_unresponsive() && !node.status.is_unresponsive() {
        node.last_missed_heartbeat_index = tx.index();
    }
    if status == NodeStatus::Ready && node.status != NodeStatus::Ready {
        node.last_missed_heartbeat_index = 0;
    }
    node.status = status;
    tx.put::<tables::Nodes>(node);
    Ok(())
}

pub(crate) fn update_drain(tx: &mut Tx<'_>, cmd: &UpdateNodeDrain) -> Result<(), Rejected> {
    let mut node = changed(tx, cmd.node_id, cmd.updated_at, cmd.event.as_ref())?;
    let ended = DrainEnd { status: DrainStatus::Canceled, mark_eligible: cmd.mark_eligible };
    let note =
        DrainMetadata { accessor_id: cmd.updated_by.clone(), meta: cmd.meta.clone(), ..DrainMetadata::default() };
    set_drain(&mut node, cmd.drain_strategy.as_ref(), &ended, note, cmd.updated_at);
    tx.put::<tables::Nodes>(node);
    Ok(())
}

/// Ends complete drains. The node stays ineligible, since the operator wanted the machine empty.
pub(crate) fn finish_drains(tx: &mut Tx<'_>, cmd: &FinishNodeDrains) -> Result<(), Rejected> {
    for id in &cmd.node_ids {
        // The drain may have ended already: the proposer may not have learned of its first success and proposed again,
        // or an operator may have cancelled the drain in between.
        if tx.node(*id).is_some_and(|node| node.drain_strategy.is_none()) {
            continue;
        }
        let mut node = changed(tx, *id, cmd.updated_at, cmd.event.as_ref())?;
        let ended = DrainEnd { status: DrainStatus::Complete, mark_eligible: false };
        set_drain(&mut node, None, &ended, DrainMetadata::default(), cmd.updated_at);
        tx.put::<tables::Nodes>(node);
    }
    Ok(())
}

pub(crate) fn update_eligibility(tx: &mut Tx<'_>, cmd: &UpdateNodeEligibility) -> Result<(), Rejected> {
    let mut node = changed(tx, cmd.node_id, cmd.updated_at, cmd.event.as_ref())?;
    if node.drain_strategy.is_some() && cmd.eligibility == Eligibility::Eligible {
        return Err(Rejected::NodeDraining(cmd.node_id));
    }
    node.scheduling_eligibility = cmd.eligibility;
    tx.put::<tables::Nodes>(node);
    Ok(())
}

/// Adds events to nodes. The modify index stays, so that blocking queries on the node do not wake.
pub(crate) fn add_events(tx: &mut Tx<'_>, cmd: &AddNodeEvents) -> Result<(), Rejected> {
    for (id, events) in &cmd.events {
        let mut node = Node::clone(tx.node(*id).ok_or(Rejected::NodeNotFound(*id))?);
        for event in events {
            add_event(&mut node, event.clone(), tx.index());
        }
        tx.put::<tables::Nodes>(node);
    }
    Ok(())
}

/// Makes a node ineligible because plans for it keep failing. `at` is the time of the plan's result.
pub(crate) fn refuse_work(tx: &mut Tx<'_>, id: NodeId, at: Time) -> Result<(), Rejected> {
    let event = NodeEvent {
        message: REJECTED_PLANS.into(),
        subsystem: "Scheduler".into(),
        timestamp: Some(at),
        ..NodeEvent::default()
    };
    let mut node = changed(tx, id, at.into(), Some(&event))?;
    node.scheduling_eligibility = Eligibility::Ineligible;
    tx.put::<tables::Nodes>(node);
    Ok(())
}

/// Records the index at which the node reported its allocs. The modify index stays.
pub(crate) fn told_of_allocs(tx: &mut Tx<'_>, id: NodeId) {
    if let Some(stored) = tx.node(id) {
        let mut node = Node::clone(stored);
        node.last_alloc_update_index = tx.index();
        tx.put::<tables::Nodes>(node);
    }
}

/// A copy of the stored row with the fields that every change of status, drain or eligibility sets.
fn changed(tx: &Tx<'_>, id: NodeId, updated_at: UnixSecs, event: Option<&NodeEvent>) -> Result<Node, Rejected> {
    let mut node = Node::clone(tx.node(id).ok_or(Rejected::NodeNotFound(id))?);
    node.status_updated_at = updated_at;
    node.modify_index = tx.index();
    if let Some(event) = event {
        add_event(&mut node, event.clone(), tx.index());
    }
    Ok(node)
}

fn add_event(node: &mut Node, mut event: NodeEvent, index: u64) {
    event.create_index = index;
    let events = node.events.get_or_insert_default();
    events.push(event);
    let surplus = events.len().saturating_sub(NODE_EVENTS_MAX);
    events.drain(..surplus);
}

struct DrainEnd {
    status: DrainStatus,
    mark_eligible: bool,
}

/// Starts, changes or ends a drain, and updates the record of the last drain. `note` holds the caller's accessor and
/// metadata, if any.
fn set_drain(
    node: &mut Node,
    strategy: Option<&DrainStrategy>,
    ended: &DrainEnd,
    note: DrainMetadata,
    updated_at: UnixSecs,
) {
    let before = node.drain_strategy.take();
    let now = Some(updated_at.time());
    if before.is_some() || strategy.is_some() {
        let fresh = || DrainMetadata { started_at: now, meta: note.meta.clone(), ..DrainMetadata::default() };
        let mut last = match (&before, node.last_drain.take()) {
            (None, _) => fresh(),
            (Some(_), Some(last)) => last,
            (Some(drain), None) => {
                DrainMetadata { started_at: drain.started_at.map(|at| Time::from_secs(at.secs())), ..fresh() }
            }
        };
        last.updated_at = now;
        if note.meta.as_ref().is_some_and(|meta| !meta.is_empty()) {
            last.meta = note.meta;
        }
        if !note.accessor_id.is_empty() {
            last.accessor_id = note.accessor_id;
        }
        last.status = if strategy.is_some() { DrainStatus::Draining } else { ended.status };
        node.last_drain = Some(last);
    }
    node.drain_strategy = strategy.cloned();
    if strategy.is_some() {
        node.scheduling_eligibility = Eligibility::Ineligible;
    } else if ended.mark_eligible {
        node.scheduling_eligibility = Eligibility::Eligible;
    }
}

#[cfg(test)]
mod tests;
