//! Which allocations to fetch, take up, change and give up, from what the servers say the node should have.

use std::collections::{BTreeMap, BTreeSet};

use songline_model::{AllocClientStatus, AllocId, Allocation};

/// What an answer of `Node.GetClientAllocs` asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// To be fetched: not here yet, or here in an older form.
    pub pull: Vec<AllocId>,
    /// Here as they should be.
    pub unchanged: BTreeSet<AllocId>,
}

/// Compares an answer with what is here (`alloc_modify_index` by id). `None`: the answer is older than the last one, or a timeout, and
/// must not remove anything. Invalid ones could not be set up before and are not tried again.
pub fn wanted(
    here: &BTreeMap<AllocId, u64>,
    invalid: &BTreeSet<AllocId>,
    min_index: u64,
    index: u64,
    answer: &BTreeMap<AllocId, u64>,
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

/// What is to happen with the allocations of this node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// To be stopped and destroyed.
    pub removed: Vec<AllocId>,
    /// To be told of their new form.
    pub updated: Vec<AllocId>,
    /// To be started.
    pub added: Vec<AllocId>,
}

/// What follows once the wanted allocations were fetched (`pulled`, with their `alloc_modify_index`).
pub fn changes(here: &BTreeMap<AllocId, u64>, pulled: &BTreeMap<AllocId, u64>, unchanged: &BTreeSet<AllocId>) -> Changes {
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

/// Whether an update only says that the servers see this node again, rather than that the allocation is to change. `known` is the
/// `alloc_modify_index` of the copy that is here.
pub fn is_reconnect(known: u64, update: &Allocation) -> bool {
    update.client_status == AllocClientStatus::Unknown && update.alloc_modify_index > known && !update.server_terminal()
}
