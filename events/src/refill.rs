//! Refill of lost stores that are derived from the log: the event history and the record of what entries did. One
//! replay of the log fills both. The shell chooses the part of the log to read and applies it to a state; a store
//! decides what it keeps of an entry.
//!
//! Meanwhile new entries are written to a store as usual. Older entries are filled in oldest first, and readers see
//! them only when all of them are there: until then answers report the index from which on the store is complete. The
//! progress of a refill is stored with its entries, so that the refill continues after a crash.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::watch;

use crate::entry::{AppliedEntry, restores};
use crate::hub::error::HistoryError;
use crate::object_history::error::ObjectHistoryError;

/// Largest number of entries that are written at once.
const ENTRIES_AT_ONCE: usize = 512;
/// Number of changed rows after which the collected entries are written.
const CHANGES_AT_ONCE: usize = 4096;

/// Progress of the refill of a store. Indexes are those that users see, unless a field says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Filling {
    /// Index of the oldest filled entry; 0 before the refill has begun.
    pub from: u64,
    /// Index of the newest filled entry.
    pub through: u64,
    /// Raft index of the same entry.
    pub raft_through: u64,
    /// Index from which on the store was complete when the refill began: only entries below it are filled in.
    pub before: u64,
}

impl Filling {
    /// A refill that has not begun, of a store that is complete from `before` on.
    pub fn new(before: u64) -> Self {
        Self { before, ..Self::default() }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.from, self.through, self.raft_through, self.before]
            .iter()
            .flat_map(|number| number.to_be_bytes())
            .collect()
    }

    /// Parses bytes of `to_bytes`. `None`: they have another length.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        let [from, through, raft_through, before] = numbers else { return None };
        let number = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
        let filling = Self {
            from: number(from),
            through: number(through),
            raft_through: number(raft_through),
            before: number(before),
        };
        rest.is_empty().then_some(filling)
    }
}

/// Failure of a refill.
#[derive(Debug, thiserror::Error)]
pub enum RefillError {
    /// The event history failed.
    #[error(transparent)]
    Events(#[from] HistoryError),
    /// The record of what entries did failed.
    #[error(transparent)]
    ObjectHistory(#[from] ObjectHistoryError),
}

/// A store that can be refilled from the log.
pub trait Refill: Send + Sync + 'static {
    /// Name of the store in answers and logs.
    fn name(&self) -> &'static str;

    /// Reports whether the store lacks entries that the log may have, and every change of that.
    fn losses(&self) -> watch::Receiver<bool>;

    /// Progress of an interrupted refill, or of a new one.
    fn filling(&self) -> Result<Filling, RefillError>;

    /// Drops the entries that were filled in so far, and starts the refill with the entry at `from`.
    fn begin_at(&self, filling: &mut Filling, from: u64) -> Result<(), RefillError>;

    /// Restarts the refill at the entry at `index`, which replaced the state: entries before it belong to another
    /// history. A store may omit that entry itself.
    fn begin_restored(&self, filling: &mut Filling, index: u64) -> Result<(), RefillError>;

    /// Fills in entries, in order, and stores `next` with them as the progress. Returns false and fills in nothing
    /// when the store was reset, truncated or reopened meanwhile, so that it no longer matches `filling`.
    fn fill(&self, filling: &mut Filling, entries: &[AppliedEntry], next: Reached) -> Result<bool, RefillError>;

    /// Ends a refill that has all wanted entries: the store reaches back to [`Filling::from`] now. False: see
    /// [`Self::fill`].
    fn end(&self, filling: &Filling) -> Result<bool, RefillError>;

    /// Ends the refill without entries: the log has none of the missing ones.
    fn give_up(&self) -> Result<(), RefillError>;
}

/// A position in the log, in both kinds of indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// Index as users see it.
    pub index: u64,
    /// Raft index.
    pub raft_index: u64,
}

/// State of the refill of one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// The store wants more entries.
    Open,
    /// Another writer changed the store. The refill has to begin again.
    Abandoned,
    /// The store is complete, or as complete as the log allows.
    Ended,
}

/// A lost store and its refill.
struct Lost {
    store: Arc<dyn Refill>,
    filling: Filling,
    standing: Standing,
}

/// Result of the refill of one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refilled {
    /// The store reaches back to this index now.
    From(u64),
    /// The log has no entries older than those of the store.
    NothingOlder,
    /// Another writer changed the store meanwhile, or the replay ended early: the refill has to be tried again.
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
    /// Prepares the refill of the lost ones among `stores`. `None`: no store is lost.
    pub fn of(stores: impl IntoIterator<Item = Arc<dyn Refill>>) -> Result<Option<Self>, RefillError> {
        let mut lost = Vec::new();
        for store in stores.into_iter().filter(|store| *store.losses().borrow()) {
            let filling = store.filling()?;
            lost.push(Lost { store, filling, standing: Standing::Open });
        }
        let refiller = Self { lost, entries: Vec::new(), changes: 0, reached: Reached::default() };
        Ok((!refiller.lost.is_empty()).then_some(refiller))
    }

    /// Raft index up to which all lost stores are filled in; 0 when a refill has not begun. A replay that starts
    /// after it would leave a hole.
    pub fn resumes_after(&self) -> u64 {
        self.lost.iter().map(|lost| lost.filling.raft_through).min().unwrap_or(0)
    }

    /// Begins the replay from a state that has applied everything up to `start`. A store whose filled entries end
    /// before `start` drops them.
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

    /// Gives up all lost stores: there is no state from which the log can be replayed.
    pub fn give_up(&mut self) -> Result<(), RefillError> {
        self.lost.iter_mut().try_for_each(Lost::give_up)
    }

    /// Whether a store wants entries after the last one that was added or passed.
    pub fn wants_more(&self) -> bool {
        self.lost.iter().any(|lost| lost.standing == Standing::Open && self.reached.index + 1 < lost.filling.before)
    }

    /// Adds the next entry that holds a command; [`Self::pass`] is for the others.
    pub fn add(&mut self, entry: AppliedEntry, raft_index: u64) -> Result<(), RefillError> {
        let index = entry.index;
        if restores(entry.kind, &entry.changes) {
            self.write_now();
            // A refill that is past this entry has begun after it.
            let is_news = |lost: &&mut Lost| {
                lost.standing == Standing::Open && (lost.filling.through + 1..lost.filling.before).contains(&index)
            };
            for lost in self.lost.iter_mut().filter(is_news) {
                lost.store.begin_restored(&mut lost.filling, index)?;
                lost.end_if_none_is_wanted()?;
            }
        }
        self.changes += entry.changes.len();
        self.entries.push(entry);
        self.pass(Reached { index, raft_index });
        Ok(())
    }

    /// Advances to `reached`. Writes the collected entries when there are enough of them.
    pub fn pass(&mut self, reached: Reached) {
        self.reached = reached;
        if self.entries.len() >= ENTRIES_AT_ONCE || self.changes >= CHANGES_AT_ONCE {
            self.write_now();
        }
    }

    /// Ends the replay. Returns the result of each store by name.
    pub fn end(mut self) -> Result<Vec<(&'static str, Refilled)>, RefillError> {
        self.write_now();
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

    /// Writes the collected entries, however few they are.
    pub fn write_now(&mut self) {
        self.changes = 0;
        let entries = std::mem::take(&mut self.entries);
        for lost in self.lost.iter_mut().filter(|lost| lost.standing == Standing::Open) {
            let Filling { from, through, before, .. } = lost.filling;
            if self.reached.index <= through || through + 1 >= before {
                continue;
            }
            let is_wanted =
                |entry: &&AppliedEntry| entry.index >= from && entry.index > through && entry.index < before;
            let wanted: Vec<AppliedEntry> = entries.iter().filter(is_wanted).cloned().collect();
            let next = Reached { index: self.reached.index.min(before - 1), ..self.reached };
            let filled = lost.store.fill(&mut lost.filling, &wanted, next).unwrap_or_else(|error| {
                // The other stores are filled nevertheless.
                tracing::error!(
                    store = lost.store.name(),
                    error = &error as &dyn std::error::Error,
                    "filling in entries of the log"
                );
                false
            });
            if !filled {
                lost.standing = Standing::Abandoned;
            }
        }
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
