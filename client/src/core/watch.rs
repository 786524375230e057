//! Which allocations to fetch, take up, change and give up, from what the servers say the node should have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{AllocClientStatus, AllocId, Allocation, Dur};
use songline_rpc::RpcError;

/// Wait after a call that was refused, and up to once more.
pub const WATCH_RETRY: Dur = Dur::from_secs(30);
/// Wait after an answer that lacked allocations, and up to once more.
pub const MISSING_RETRY: Dur = Dur::from_secs(2);
/// Wait while servers are away, and up to once more: new allocations should not wait longer for a server that has come back than it took.
const AWAY_RETRY: Dur = Dur::from_secs(1);

/// How long to wait after this error before the next round, and up to once more.
pub fn retry_after(error: &RpcError) -> Dur {
    match error {
        RpcError::NoLeader | RpcError::Lost(_) => AWAY_RETRY,
        RpcError::Remote(_) | RpcError::Coded { .. } => WATCH_RETRY,
    }
}

/// Whether the servers know this node's id with another secret, so that it has to register again.
pub fn is_unknown(error: &RpcError) -> bool {
    error.to_string().contains("node secret ID does not match")
}

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

impl Wanted {
    /// Whether what was fetched lacks something, or has it in an older form than the answer said: the server that was asked may be behind.
    pub fn lacks_any(&self, pulled: &BTreeMap<AllocId, Arc<Allocation>>, answer: &BTreeMap<AllocId, u64>) -> bool {
        let lacks = |id: &AllocId| pulled.get(id).is_none_or(|alloc| answer.get(id).is_some_and(|index| alloc.alloc_modify_index < *index));
        self.pull.iter().any(lacks)
    }
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
