//! Compares the servers' list of allocations with those on the node: which to fetch, add, update and remove.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{AllocClientStatus, AllocId, Allocation, Dur, FlatMap};
use songline_rpc::RpcError;

/// Delay after a refused call; up to the same time is added at random.
pub const WATCH_RETRY: Dur = Dur::from_secs(30);
/// Delay after an answer that lacked allocations; up to the same time is added at random.
pub const MISSING_RETRY: Dur = Dur::from_secs(2);
/// Delay while no server is reachable; up to the same time is added at random. Short, so that new allocations do not
/// wait long for a server that has recovered.
const NO_LEADER_RETRY: Dur = Dur::from_secs(1);

/// Delay after this error before the next round; up to the same time is added at random.
pub fn retry_after(error: &RpcError) -> Dur {
    match error {
        RpcError::NoLeader | RpcError::Lost(_) => NO_LEADER_RETRY,
        RpcError::Remote(_) | RpcError::Coded { .. } => WATCH_RETRY,
    }
}

/// Whether the servers know this node's id with another secret, so that the node has to register again.
pub fn is_unknown(error: &RpcError) -> bool {
    error.to_string().contains("node secret ID does not match")
}

/// Consequences of an answer of `Node.GetClientAllocs`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Allocations to be fetched: missing here, or outdated.
    pub pull: Vec<AllocId>,
    /// Allocations that are up to date.
    pub unchanged: BTreeSet<AllocId>,
}

/// Compares an answer with the allocations on this node (`alloc_modify_index` by id). `None` for an answer that is
/// older than the last one, or a timeout, which must not remove anything. Invalid allocations could not be set up
/// before and are not tried again.
pub fn wanted(
    here: &BTreeMap<AllocId, u64>,
    invalid: &BTreeSet<AllocId>,
    min_index: u64,
    index: u64,
    answer: &FlatMap<AllocId, u64>,
) -> Option<Wanted> {
    if index <= min_index {
        return None;
    }
    let mut wanted = Wanted::default();
    for (id, modify_index) in answer {
        let newer = here.get(id).is_none_or(|known| modify_index > known);
        if newer && !invalid.contains(id) {
            wanted.pull.push(*id);
        } else {
            wanted.unchanged.insert(*id);
        }
    }
    Some(wanted)
}

impl Wanted {
    /// Whether the fetched allocations lack one, or have it older than in the answer: the asked server may be behind.
    pub fn lacks_any(&self, pulled: &BTreeMap<AllocId, Arc<Allocation>>, answer: &FlatMap<AllocId, u64>) -> bool {
        let lacks = |id: &AllocId| {
            pulled.get(id).is_none_or(|alloc| answer.get(id).is_some_and(|index| alloc.alloc_modify_index < *index))
        };
        self.pull.iter().any(lacks)
    }
}

/// Changes of the allocations on this node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Allocations to be stopped and destroyed.
    pub removed: Vec<AllocId>,
    /// Allocations with a newer copy.
    pub updated: Vec<AllocId>,
    /// Allocations to be started.
    pub added: Vec<AllocId>,
}

/// The changes once the wanted allocations were fetched (`pulled`, with their `alloc_modify_index`).
pub fn changes(
    here: &BTreeMap<AllocId, u64>,
    pulled: &BTreeMap<AllocId, u64>,
    unchanged: &BTreeSet<AllocId>,
) -> Changes {
    let mut changes = Changes::default();
    for (id, known) in here {
        match pulled.get(id) {
            Some(index) if index > known => changes.updated.push(*id),
            Some(_) => {}
            None if unchanged.contains(id) => {}
            None => changes.removed.push(*id),
        }
    }
    changes.added.extend(pulled.keys().filter(|id| !here.contains_key(*id)));
    changes
}

/// Whether an allocation that was stopped here begins anew: the servers went back to a state in which it runs. `known`
/// is the local copy.
pub fn begins_anew(known: &Allocation, update: &Allocation) -> bool {
    known.server_terminal() && !update.terminal() && update.alloc_modify_index > known.alloc_modify_index
}

/// Whether an update only marks a reconnect of this node and does not change the allocation. `known` is the
/// `alloc_modify_index` of the local copy.
pub fn is_reconnect(known: u64, update: &Allocation) -> bool {
    update.client_status == AllocClientStatus::Unknown && update.alloc_modify_index > known && !update.server_terminal()
}
