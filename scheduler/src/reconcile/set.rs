//! Sets of allocations, sorted by the state of their nodes and by whether they may be rescheduled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocId, Allocation, Deployment, Dur, EvalId, Node, NodeId, NodeStatus, Str,
    TaskRunState, Time,
};

use super::Reconciler;
use crate::reschedule;

/// Nodes that are gone (`None`), unresponsive or draining.
pub type Tainted = BTreeMap<NodeId, Option<Arc<Node>>>;

/// An allocation is rescheduled now if its time is at most this far away.
const RESCHEDULE_WINDOW: Dur = Dur(1_000_000_000);

/// Allocations by id.
#[derive(Debug, Clone, Default)]
pub struct Set(BTreeMap<AllocId, Arc<Allocation>>);

/// Allocations by the state of their nodes.
#[derive(Debug, Default)]
pub(super) struct ByTaint {
    pub untainted: Set,
    pub migrate: Set,
    pub lost: Set,
    pub disconnecting: Set,
    pub reconnecting: Set,
    pub ignored: Set,
}

/// Allocations by when they may be rescheduled.
#[derive(Debug, Default)]
pub(super) struct ByReschedule {
    pub untainted: Set,
    pub now: Set,
    pub later: Vec<Later>,
}

/// An allocation with the time of its follow-up evaluation.
#[derive(Debug, Clone)]
pub(super) struct Later {
    pub alloc: Arc<Allocation>,
    pub at: Time,
}

/// Set of [`ByTaint`] that an allocation belongs to.
enum Taint {
    Untainted,
    Migrate,
    Lost,
    Disconnecting,
    Reconnecting,
    Ignored,
}

impl Set {
    pub(super) fn insert(&mut self, alloc: Arc<Allocation>) {
        self.0.insert(alloc.id, alloc);
    }

    pub(super) fn remove(&mut self, id: AllocId) {
        self.0.remove(&id);
    }

    pub(super) fn get(&self, id: AllocId) -> Option<&Arc<Allocation>> {
        self.0.get(&id)
    }

    pub(super) fn contains(&self, id: AllocId) -> bool {
        self.0.contains_key(&id)
    }

    /// Number of allocations.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All allocations, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Allocation>> {
        self.0.values()
    }

    /// All allocations, by the numbers in their names.
    pub(super) fn in_name_order(&self) -> Vec<Arc<Allocation>> {
        let mut allocs: Vec<Arc<Allocation>> = self.0.values().cloned().collect();
        allocs.sort_by_key(|alloc| (alloc.name_index().unwrap_or(0), alloc.id));
        allocs
    }

    pub(super) fn without(mut self, mut is_out: impl FnMut(&Allocation) -> bool) -> Set {
        self.0.retain(|_, alloc| !is_out(alloc));
        self
    }

    pub(super) fn minus(&mut self, other: &Set) {
        if !other.is_empty() {
            self.0.retain(|id, _| !other.contains(*id));
        }
    }

    pub(super) fn add(&mut self, other: Set) {
        self.0.extend(other.0);
    }

    /// Sorts by the state of the nodes.
    pub(super) fn by_taint(&self, input: &Reconciler<'_>) -> ByTaint {
        let mut sorted = ByTaint::default();
        for alloc in self.iter() {
            let set = match taint(alloc, input) {
                Taint::Untainted => &mut sorted.untainted,
                Taint::Migrate => &mut sorted.migrate,
                Taint::Lost => &mut sorted.lost,
                Taint::Disconnecting => &mut sorted.disconnecting,
                Taint::Reconnecting => &mut sorted.reconnecting,
                Taint::Ignored => &mut sorted.ignored,
            };
            set.insert(alloc.clone());
        }
        sorted
    }

    /// Sorts by when allocations may be rescheduled. Allocations that were replaced or are over are in none of the
    /// sets.
    pub(super) fn by_reschedule(
        &self,
        input: &Reconciler<'_>,
        deployment: Option<&Deployment>,
        disconnecting: bool,
    ) -> ByReschedule {
        let mut sorted = ByReschedule::default();
        for alloc in self.iter() {
            let waits = disconnecting && alloc.client_status == AllocClientStatus::Unknown;
            let replaced = alloc.next_allocation.is_some() && alloc.terminal();
            if waits || replaced {
                continue;
            }
            let (untainted, ignored) = past(alloc, input.batch);
            if ignored {
                continue;
            }
            match due(alloc, input, deployment, disconnecting) {
                Due::Now => sorted.now.insert(alloc.clone()),
                Due::Later(at) if !untainted || disconnecting => {
                    sorted.untainted.insert(alloc.clone());
                    sorted.later.push(Later { alloc: alloc.clone(), at });
                }
                Due::Later(_) | Due::Never => sorted.untainted.insert(alloc.clone()),
            }
        }
        sorted
    }
}

impl Set {
    /// The set without stopped allocations of batch jobs whose work another allocation of the same name does or has
    /// done. A node that was lost and comes back reports the end of an allocation whose replacement was placed
    /// meanwhile; counted twice, the two would leave another name of the group without an allocation.
    pub(super) fn without_repeated_work(self) -> Set {
        let stopped = |alloc: &Allocation| alloc.desired_status == AllocDesiredStatus::Stop;
        let mut taken: BTreeSet<Str> =
            self.iter().filter(|alloc| !stopped(alloc)).map(|alloc| alloc.name.clone()).collect();
        self.without(|alloc| stopped(alloc) && !taken.insert(alloc.name.clone()))
    }
}

/// Disconnect window of the allocation's group.
pub(crate) fn max_disconnect(alloc: &Allocation) -> Option<Dur> {
    alloc.group()?.max_client_disconnect
}

/// Whether the allocation has been unknown for longer than its disconnect window.
pub(crate) fn is_expired(alloc: &Allocation, limit: Dur, now: Time) -> bool {
    alloc.client_status == AllocClientStatus::Unknown
        && alloc.last_unknown().is_some_and(|since| since.plus(limit) <= now)
}

/// Sorts one allocation by the state of its node. The first rule that matches wins. Terminal allocations come before
/// the rules about nodes, so that finished work is neither lost nor done again because its node went away later.
fn taint(alloc: &Allocation, input: &Reconciler<'_>) -> Taint {
    let limit = if input.disconnects { max_disconnect(alloc) } else { None };
    let supported = limit.is_some();
    let status = alloc.client_status;
    let came_back = supported
        && matches!(status, AllocClientStatus::Unknown | AllocClientStatus::Running | AllocClientStatus::Failed)
        && alloc.needs_to_reconnect();
    let expired = limit.is_some_and(|limit| is_expired(alloc, limit, input.now));
    let runs = alloc.desired_status == AllocDesiredStatus::Run;
    let node = alloc.node_id.and_then(|id| input.tainted.get(&id));
    let node_status = node.map(|node| node.as_ref().map(|node| node.status));

    if came_back && runs && status == AllocClientStatus::Failed {
        return Taint::Reconnecting;
    }
    if alloc.terminal() && !came_back {
        return if supported && alloc.server_terminal() { Taint::Ignored } else { Taint::Untainted };
    }
    match node_status {
        Some(Some(NodeStatus::Disconnected)) if !supported => return Taint::Lost,
        // A stopped allocation is not waited for: it ends with its node, or at the end of its disconnect window.
        Some(Some(NodeStatus::Disconnected)) if alloc.server_terminal() && !expired => return Taint::Ignored,
        Some(Some(NodeStatus::Disconnected)) if status == AllocClientStatus::Running => return Taint::Disconnecting,
        Some(Some(NodeStatus::Disconnected)) if status == AllocClientStatus::Pending => return Taint::Lost,
        Some(Some(NodeStatus::Ready)) if came_back => return if expired { Taint::Lost } else { Taint::Reconnecting },
        _ => {}
    }
    // A stopped allocation needs no migration: its replacement, if any, was placed when it was stopped.
    if alloc.desired_transition.should_migrate() && !alloc.server_terminal() {
        return Taint::Migrate;
    }
    if supported && expired {
        return Taint::Lost;
    }
    if supported && runs && status == AllocClientStatus::Unknown {
        return Taint::Untainted;
    }
    if came_back && status == AllocClientStatus::Failed && alloc.desired_status == AllocDesiredStatus::Stop {
        return Taint::Ignored;
    }
    match node_status {
        None if came_back => Taint::Reconnecting,
        None => Taint::Untainted,
        Some(None | Some(NodeStatus::Down)) => Taint::Lost,
        Some(Some(NodeStatus::Initializing | NodeStatus::Ready | NodeStatus::Disconnected)) => Taint::Untainted,
    }
}

/// Returns (whether the allocation counts as existing in any case, whether it is over and counts nowhere).
fn past(alloc: &Allocation, batch: bool) -> (bool, bool) {
    match (batch, alloc.desired_status) {
        (true, AllocDesiredStatus::Stop) if ran_successfully(alloc) => (true, false),
        (_, AllocDesiredStatus::Stop | AllocDesiredStatus::Evict) => (false, true),
        (true, AllocDesiredStatus::Run) => (alloc.client_status != AllocClientStatus::Failed, false),
        (false, AllocDesiredStatus::Run) => {
            (false, matches!(alloc.client_status, AllocClientStatus::Complete | AllocClientStatus::Lost))
        }
    }
}

/// Whether all tasks ended successfully.
pub(crate) fn ran_successfully(alloc: &Allocation) -> bool {
    let mut states = alloc.task_states.iter().flat_map(|states| states.values()).peekable();
    states.peek().is_some() && states.all(|state| state.state == TaskRunState::Dead && !state.failed)
}

enum Due {
    Now,
    Later(Time),
    Never,
}

fn due(alloc: &Allocation, input: &Reconciler<'_>, deployment: Option<&Deployment>, disconnecting: bool) -> Due {
    let of_deployment =
        deployment.is_some_and(|deployment| deployment.is_active() && alloc.deployment_id == Some(deployment.id));
    // The deployment's watcher ignores failures of allocations that were healthy before. So they are rescheduled here,
    // or nothing would replace them, not even at the end of the deployment.
    let was_healthy = alloc.client_status == AllocClientStatus::Failed && alloc.health() == Some(true);
    // For other allocations of an active deployment, only the watcher may ask for a replacement.
    if of_deployment && !was_healthy && !alloc.desired_transition.should_reschedule() {
        return Due::Never;
    }
    if alloc.desired_transition.should_force_reschedule() {
        return Due::Now;
    }
    let expected: Option<EvalId> = Some(input.eval.id);
    let asked = alloc.followup_eval_id == expected && !input.eval.id.is_nil();
    let at = if disconnecting {
        reschedule::at_after(alloc, input.now)
    } else if alloc.client_status == AllocClientStatus::Unknown {
        // The follow-up runs at that time. If it finds no room, any later evaluation may reschedule the allocation.
        let at = alloc.last_unknown().and_then(|since| reschedule::at_after(alloc, since));
        at.filter(|at| asked || *at <= input.now)
    } else {
        reschedule::at(alloc)
    };
    match at {
        Some(at) if asked || at.since(input.now) <= RESCHEDULE_WINDOW => Due::Now,
        Some(at) if alloc.followup_eval_id.is_none() || disconnecting => Due::Later(at),
        Some(_) | None => Due::Never,
    }
}
