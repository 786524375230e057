//! Filling anew what is derived from the log when it was lost: the event history and the record of what entries did, both in one replay.
//! Which part of the log is read, and that it is applied to a state, is the shell's; what a store keeps of an entry is the store's.
//!
//! A store goes on being written at its newer end. Entries below that are filled in oldest first, and readers see them when all are there:
//! until then they are told from which index on the store is complete. How far the filling came is kept with what is filled in, so it goes
//! on after a crash where it was.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use songline_commands::Kind;
use songline_projections::Change;
use tokio::sync::watch;

use crate::event::HistoryError;
use crate::touches::{AppliedEntry, TouchesError};

/// How many entries are written at once at most.
const ENTRIES_AT_ONCE: usize = 512;
/// How many changed rows are held until they are written.
const CHANGES_AT_ONCE: usize = 4096;

/// How far the filling of a store has come. Indexes are those that users see, unless they say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filling {
    /// Index of the oldest entry that is filled in; 0 while none is.
    pub from: u64,
    /// Index of the newest entry that is filled in.
    pub through: u64,
    /// The same as the log counts.
    pub raft_through: u64,
    /// What the store was complete from when the filling began: entries below it are wanted.
    pub before: u64,
}

impl Filling {
    /// One that has not begun.
    pub fn new(before: u64) -> Self {
        Self { before, ..Self::default() }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.from, self.through, self.raft_through, self.before].iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    /// `None`: the bytes are none of `to_bytes`.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        let [from, through, raft_through, before] = numbers else { return None };
        let number = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
        let filling = Self { from: number(from), through: number(through), raft_through: number(raft_through), before: number(before) };
        rest.is_empty().then_some(filling)
    }
}

/// Why a store could not be filled.
#[derive(Debug, thiserror::Error)]
pub enum RefillError {
    /// The event history failed.
    #[error(transparent)]
    Events(#[from] HistoryError),
    /// The record of what entries did failed.
    #[error(transparent)]
    Touches(#[from] TouchesError),
}

/// A store that can be filled anew.
pub trait Refill: Send + Sync + 'static {
    /// What it is called in answers and logs.
    fn name(&self) -> &'static str;

    /// Whether entries are missing that the log may have, with every change of that.
    fn losses(&self) -> watch::Receiver<bool>;

    /// Where an interrupted filling stands, or a new one.
    fn filling(&self) -> Result<Filling, RefillError>;

    /// Drops what is filled in so far. The filling begins with the entry at `from`.
    fn begin_at(&self, filling: &mut Filling, from: u64) -> Result<(), RefillError>;

    /// The entry at `index` replaced the state: what was before it is another history. Begins behind it.
    fn begin_restored(&self, filling: &mut Filling, index: u64) -> Result<(), RefillError>;

    /// Fills in entries, in order, and keeps with them that it came to `next`. False, and nothing is filled in: the store was reset, cut or
    /// opened anew meanwhile, and is not as `filling` says.
    fn fill(&self, filling: &mut Filling, entries: &[AppliedEntry], next: Reached) -> Result<bool, RefillError>;

    /// Everything that is wanted is filled in: the store reaches back to [`Filling::from`]. False: as of [`Self::fill`].
    fn end(&self, filling: &Filling) -> Result<bool, RefillError>;

    /// The log has nothing of what is missing.
    fn give_up(&self) -> Result<(), RefillError>;
}

/// An index in both counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// As users see it.
    pub index: u64,
    /// As the log counts.
    pub raft_index: u64,
}

/// How a store's filling stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It wants more.
    Open,
    /// The store was changed by somebody else. It has to be begun once more.
    Abandoned,
    /// It is complete, or as complete as it can be.
    Ended,
}

struct Lost {
    store: Arc<dyn Refill>,
    filling: Filling,
    standing: Standing,
}

/// What came of the filling of one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refilled {
    /// It reaches back to this index now.
    From(u64),
    /// The log has nothing older than what is there.
    NothingOlder,
    /// It was changed by somebody else meanwhile, or the replay ended early: it has to be tried again.
    Abandoned,
}

/// One replay of the log that fills all lost stores.
pub struct Refiller {
    lost: Vec<Lost>,
    entries: Vec<AppliedEntry>,
    changes: usize,
    reached: Reached,
}

impl Refiller {
    /// Takes those of the stores that are lost. `None`: none is.
    pub fn of(stores: impl IntoIterator<Item = Arc<dyn Refill>>) -> Result<Option<Self>, RefillError> {
        let mut lost = Vec::new();
        for store in stores.into_iter().filter(|store| *store.losses().borrow()) {
            let filling = store.filling()?;
            lost.push(Lost { store, filling, standing: Standing::Open });
        }
        let refiller = Self { lost, entries: Vec::new(), changes: 0, reached: Reached::default() };
        Ok((!refiller.lost.is_empty()).then_some(refiller))
    }

    /// The log's index up to which every store is filled in already: a replay from a later state would leave a hole. 0: none has begun.
    pub fn resumes_after(&self) -> u64 {
        self.lost.iter().map(|lost| lost.filling.raft_through).min().unwrap_or(0)
    }

    /// The replay begins with a state, which has applied everything up to `start`. What is filled in and does not reach up to it is dropped.
    pub fn begin(&mut self, start: Reached) -> Result<(), RefillError> {
        self.reached = start;
        for lost in &mut self.lost {
            if lost.filling.from == 0 || lost.filling.raft_through < start.raft_index {
                lost.filling.raft_through = start.raft_index;
                lost.store.begin_at(&mut lost.filling, start.index + 1)?;
            }
            lost.end_if_none_is_wanted()?;
        }
        Ok(())
    }

    /// There is no state that the log can be replayed from.
    pub fn give_up(&mut self) -> Result<(), RefillError> {
        self.lost.iter_mut().try_for_each(Lost::give_up)
    }

    /// Whether some store wants what comes after the last entry that was added.
    pub fn wants_more(&self) -> bool {
        self.lost.iter().any(|lost| lost.standing == Standing::Open && self.reached.index + 1 < lost.filling.before)
    }

    /// Takes the next entry. Entries that hold no command are passed.
    pub fn add(&mut self, entry: AppliedEntry, raft_index: u64) -> Result<(), RefillError> {
        let index = entry.index;
        if entry.changes.iter().any(|change| matches!(change, Change::Restored)) {
            self.write_now()?;
            // A filling that goes on behind it has begun there already.
            let is_news =
                |lost: &&mut Lost| lost.standing == Standing::Open && (lost.filling.through + 1..lost.filling.before).contains(&index);
            for lost in self.lost.iter_mut().filter(is_news) {
                lost.store.begin_restored(&mut lost.filling, index)?;
                lost.end_if_none_is_wanted()?;
            }
        }
        self.changes += entry.changes.len();
        self.entries.push(entry);
        self.pass(Reached { index, raft_index })
    }

    /// Takes note of an entry of which nothing is kept. Writes what has come together when that is enough.
    pub fn pass(&mut self, reached: Reached) -> Result<(), RefillError> {
        self.reached = reached;
        if self.entries.len() >= ENTRIES_AT_ONCE || self.changes >= CHANGES_AT_ONCE {
            self.write_now()?;
        }
        Ok(())
    }

    /// Nothing comes any more. Answers what has become of each store, by its name.
    pub fn end(mut self) -> Result<Vec<(&'static str, Refilled)>, RefillError> {
        self.write_now()?;
        let mut told = Vec::new();
        for lost in &mut self.lost {
            if lost.standing == Standing::Open {
                let is_whole = lost.filling.through + 1 >= lost.filling.before && lost.store.end(&lost.filling)?;
                lost.standing = if is_whole { Standing::Ended } else { Standing::Abandoned };
            }
            let came_of_it = match lost.standing {
                Standing::Open | Standing::Abandoned => Refilled::Abandoned,
                Standing::Ended if lost.filling.from < lost.filling.before => Refilled::From(lost.filling.from),
                Standing::Ended => Refilled::NothingOlder,
            };
            told.push((lost.store.name(), came_of_it));
        }
        Ok(told)
    }

    /// Writes what has come together, however little it is.
    pub fn write_now(&mut self) -> Result<(), RefillError> {
        self.changes = 0;
        let entries = std::mem::take(&mut self.entries);
        for lost in self.lost.iter_mut().filter(|lost| lost.standing == Standing::Open) {
            let Filling { from, through, before, .. } = lost.filling;
            if self.reached.index <= through || through + 1 >= before {
                continue;
            }
            let is_wanted = |entry: &&AppliedEntry| entry.index >= from && entry.index > through && entry.index < before;
            let wanted: Vec<AppliedEntry> = entries.iter().filter(is_wanted).cloned().collect();
            let next = Reached { index: self.reached.index.min(before - 1), ..self.reached };
            if !lost.store.fill(&mut lost.filling, &wanted, next)? {
                lost.standing = Standing::Abandoned;
            }
        }
        Ok(())
    }
}

impl Lost {
    fn give_up(&mut self) -> Result<(), RefillError> {
        self.store.give_up()?;
        self.filling.from = self.filling.before;
        self.standing = Standing::Ended;
        Ok(())
    }

    fn end_if_none_is_wanted(&mut self) -> Result<(), RefillError> {
        if self.filling.from >= self.filling.before { self.give_up() } else { Ok(()) }
    }
}

/// Whether an entry is one that replaced the state. Another one of the same kind was refused, or repeats one before.
pub(crate) fn restores(kind: Kind, changes: &[Change]) -> bool {
    kind == Kind::Restore && changes.iter().any(|change| matches!(change, Change::Restored))
}
