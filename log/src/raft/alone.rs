//! Forces a single survivor of a cluster without majority to go on alone. The log must not be open. The operator must
//! know that the other servers will not come back: entries that only they have are lost, and entries of this server
//! that were not committed count from now on.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::adapt;
use super::types::Vote;
use crate::error::OpenError;
use crate::members::{Members, NodeId};
use crate::position::Position;
use crate::record::{Kind, Record};
use crate::store::{Done, Store, StoreConfig};

/// State of the log before, and the entry written after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alone {
    /// Position of the last entry; `None`: the log was empty. Of several survivors, the one with the highest position
    /// should go on.
    pub last: Option<Position>,
    /// Entries above this position may not have been acknowledged; they count from now on.
    pub committed: Option<Position>,
    /// Position of the new membership entry with this server alone.
    pub written: Position,
}

/// Appends a membership entry to the log in `dir` that makes server `id` at `address` the only member. The server leads
/// once it is started.
pub fn stand_alone(dir: &Path, id: NodeId, address: &str) -> Result<Alone, OpenError> {
    let log_dir = dir.join("log");
    let failed = |doing: &'static str| OpenError::io(doing, &log_dir);
    if !log_dir.try_exists().map_err(failed("looking for"))? {
        return Err(failed("looking for")(io::ErrorKind::NotFound.into()));
    }
    let (store, _) = Store::open(&log_dir, StoreConfig::default())?;
    let voted = adapt::decode_vote(&store.vote()).map_err(failed("reading the vote in"))?;
    let last = store.last();
    // Above every term known here. Another server may have led in a later term that this one never heard of.
    let term = voted.map_or(0, |vote| vote.leader_id().term).max(last.term) + 1;
    let members = Members { voters: vec![BTreeSet::from([id])], addresses: BTreeMap::from([(id, address.to_owned())]) };
    let written = Position { term, index: last.next };
    let record = Record { position: written, kind: Kind::Membership, payload: members.encode().into() };
    wait(|done| store.save_vote(adapt::encode_vote(&Vote::new(term, id)), done))
        .map_err(failed("writing the vote in"))?;
    wait(|done| store.append(vec![record], done)).map_err(failed("writing to"))?;
    let alone = Alone { last: last.last(), committed: store.committed().last(), written };
    store.close();
    Ok(alone)
}

fn wait(change: impl FnOnce(Done) -> io::Result<()>) -> io::Result<()> {
    let (tx, rx) = std::sync::mpsc::channel();
    change(Box::new(move |outcome| drop(tx.send(outcome))))?;
    rx.recv().map_err(|_| io::Error::other("the log's writer stopped"))?
}
