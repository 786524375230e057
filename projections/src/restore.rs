//! Restore of an archive: replaces the whole state, with indexes that never go back.

use imbl::OrdMap;
use songline_commands::{Idempotency, RestoreArchive};
use songline_model::{AllocId, with_sources};

use crate::change::Change;
use crate::import::cancel_orphaned_deployments;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::TABLES;
use crate::tx::{Stamp, Tx};
use crate::{Applied, Listed, Outcome, acl, alloc, idempotency};

/// Replaces the state, or refuses and leaves it unchanged. Event streams end here: rows that subscribers know may all
/// have changed. An import keeps the indexes of its tables, which clients of the other cluster know.
pub(crate) fn apply(
    state: &mut State,
    stamp: &Stamp,
    sent: Option<&Idempotency>,
    cmd: &RestoreArchive,
    read: impl FnOnce() -> Result<State, Rejected>,
) -> Applied {
    let mut tx = Tx::new(state, stamp.clone());
    if let Some(applied) = sent.and_then(|sent| idempotency::ran_before(&tx, sent)) {
        return applied;
    }
    let mut restored = match read() {
        Ok(restored) => restored,
        Err(rejected) => {
            let result = Err(rejected);
            if let Some(sent) = sent {
                idempotency::remember(&mut tx, sent, &result);
            }
            return Applied { index: stamp.index, result, changes: tx.commit(), repeated: false };
        }
    };
    let archive_index = restored.applied_index();
    let highest = archive_index.max(restored.latest_index());
    let stamp = Stamp { index: stamp.index.max(highest + 1), ..stamp.clone() };
    restored.base = stamp.index - stamp.raft_index;
    cancel_orphaned_deployments(&mut restored, &stamp);
    drop_one_time_tokens(&mut restored, &stamp);
    if cmd.renews_allocs {
        renew_allocs(&mut restored, &stamp);
    }
    let result = Ok(Outcome::Restored { archive_index });
    if let Some(sent) = sent {
        let mut tx = Tx::new(&mut restored, stamp.clone());
        idempotency::remember(&mut tx, sent, &result);
        tx.commit();
    }
    if cmd.imported.is_none() {
        // Any table may have changed, so every waiting blocking query has to wake.
        restored.table_index = [stamp.index; TABLES];
    }
    *state = restored;
    Applied { index: stamp.index, result, changes: vec![Change::Restored], repeated: false }
}

/// Reads the state of an archive and verifies its digest.
pub(crate) fn read(cmd: &RestoreArchive) -> Result<State, Rejected> {
    let digest = blake3::hash(&cmd.archive.0).to_hex();
    if digest.as_str() != cmd.digest {
        return Err(Rejected::ArchiveUnreadable(format!("its digest is {digest}, not {}", cmd.digest)));
    }
    State::read_checkpoint(&mut cmd.archive.0.as_slice())
        .map_err(|error| Rejected::ArchiveUnreadable(with_sources(&error)))
}

/// Drops all one-time tokens: a secret that was exchanged since the archive was made must not become valid again.
fn drop_one_time_tokens(restored: &mut State, stamp: &Stamp) {
    let mut tx = Tx::new(restored, stamp.clone());
    acl::drop_one_time_tokens(&mut tx);
    tx.commit();
}

/// Gives allocations the index of the entry, so that their nodes fetch them again. A node compares indexes, and the
/// archive's are below those that the node has seen since the archive was saved.
fn renew_allocs(restored: &mut State, stamp: &Stamp) {
    let mut tx = Tx::new(restored, stamp.clone());
    let renewed: Vec<AllocId> = tx.by.allocs_by_node.values().flat_map(to_renew).collect();
    for id in renewed {
        alloc::renew(&mut tx, id);
    }
    tx.commit();
}

/// The allocations of a node that the node has to fetch again: those that may run there, and those of which the servers
/// do not know yet that they have ended. Without any, it is the newest one, because a node ignores a list whose index
/// is not above that of its last list.
fn to_renew(listed: &OrdMap<AllocId, Listed>) -> Vec<AllocId> {
    let open = listed.iter().filter(|(_, listed)| !listed.row.client_terminal()).map(|(id, _)| *id);
    let open: Vec<AllocId> = open.collect();
    if !open.is_empty() {
        return open;
    }
    listed.iter().max_by_key(|(_, listed)| listed.alloc_modify_index).map(|(id, _)| *id).into_iter().collect()
}
