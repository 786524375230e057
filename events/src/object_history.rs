//! The record of what every entry of the log did to every object: derived from applied entries outside the commit
//! path, kept in a folder.
//!
//! The apply thread only queues shared rows; a separate thread writes which objects an entry created, changed and
//! dropped. Which fields it changed is found when a reader asks, by a comparison of two events. When the folder was
//! deleted, entries before the newest checkpoint are filled in again from the log. The actor and the cause of an entry
//! are in the log itself.

mod diff;
pub(crate) mod error;
mod object;
mod store;
#[cfg(test)]
mod tests;
mod versions;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use songline_model::Time;
use tokio::sync::watch;

pub use diff::FieldChange;
pub use error::ObjectHistoryError;
pub use object::{Object, ObjectKind};
pub use store::{EntryMark, Order};
pub use versions::{ObjectChange, ObjectDiff};

use crate::entry::AppliedEntry;
use crate::hub::EventHub;
use crate::keys::Folder;
use crate::refill::{Filling, Reached, Refill, RefillError};
use store::{Marked, Store};
use versions::Versions;

/// Largest number of entries that are written at once.
const ENTRIES_AT_ONCE: usize = 512;

/// Back-off after a failed write. It doubles after every further failure ..
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// .. up to this bound.
const AFTER_FAILURE_MAX: Duration = Duration::from_secs(30);

/// Largest number of changed rows in the queue while the store can be written. Rows of former states stay in memory
/// until they are written, and the writer has a low priority: without a bound a long burst of writes would fill the
/// memory with them. This many take about 100 MB.
const QUEUED_CHANGES_MAX: usize = 30_000;

#[derive(Default)]
struct Queue {
    entries: Vec<AppliedEntry>,
    /// Number of changed rows of `entries` and of the entries that the thread is writing.
    changes: usize,
    /// The last write failed. A store that cannot be written holds up nobody.
    failing: bool,
    /// Index of the newest entry, with or without a command.
    through: u64,
    closed: bool,
}

struct Shared {
    folder: Folder,
    /// `None`: reopening failed after a write failure.
    store: RwLock<Option<Store>>,
    marked: Arc<Marked>,
    queue: Mutex<Queue>,
    filled: Condvar,
    /// The queue got shorter, or its store cannot be written.
    emptied: Condvar,
    /// Index of the newest written entry.
    written: watch::Sender<u64>,
}

/// The record of what entries did to objects.
pub struct ObjectHistory {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ObjectHistory {
    /// Opens the record in a folder. A new record is empty.
    pub fn open(folder: impl Into<Folder>) -> Result<Arc<Self>, ObjectHistoryError> {
        let (folder, marked) = (folder.into(), Arc::new(Marked::default()));
        let store = RwLock::new(Some(Store::open_marked(&folder, &marked)?));
        let written = watch::Sender::new(marked.last());
        let (queue, filled, emptied) = Default::default();
        let shared = Arc::new(Shared { folder, store, marked, queue, filled, emptied, written });
        if shared.folder.is_in_memory() {
            return Ok(Arc::new(Self { shared, thread: Mutex::default() }));
        }
        let worker = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("touches".to_owned())
            .spawn(move || worker.run())
            .map_err(ObjectHistoryError::Thread)?;
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread)) }))
    }

    /// Announces the index of the first entry that will be published. A record that ends before the entry preceding
    /// it is marked as lost and begins anew at `first_index`: otherwise no reader would notice the missing entries.
    pub fn begin(&self, first_index: u64) -> Result<(), ObjectHistoryError> {
        if self.shared.marked.last() + 1 < first_index {
            if let Err(error) = self.shared.store().and_then(|store| store.reset(first_index, true)) {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the record of what entries did is opened anew"
                );
                self.shared.reopen()?;
                self.shared.store()?.reset(first_index, true)?;
            }
            self.shared.written.send_replace(self.shared.marked.last());
        }
        Ok(())
    }

    /// Queues an entry. Call it in the order of the entries. It does not compare rows, and waits only while the queue
    /// is at its bound. Entries that are recorded already, as in a replay of the log, are left out.
    pub fn publish(&self, entry: AppliedEntry) {
        if entry.index <= self.shared.marked.last() {
            return;
        }
        let mut queue = self.shared.queue.lock();
        while queue.changes >= QUEUED_CHANGES_MAX && !queue.failing && !queue.closed {
            self.shared.emptied.wait(&mut queue);
        }
        queue.through = entry.index;
        queue.changes += entry.changes.len();
        queue.entries.push(entry);
        drop(queue);
        self.shared.news();
    }

    /// Passes an entry without a command.
    pub fn pass(&self, index: u64) {
        self.shared.queue.lock().through = index;
        self.shared.news();
    }

    /// Returns once everything up to `index` is written; false when that takes longer than `within`.
    pub async fn reach(&self, index: u64, within: Duration) -> bool {
        let mut written = self.shared.written.subscribe();
        let reached = tokio::time::timeout(within, written.wait_for(|at| *at >= index)).await;
        matches!(reached, Ok(Ok(_)))
    }

    /// Returns once all published entries are on disk. Blocks. Entries that a checkpoint covers are not replayed, so
    /// a checkpoint calls this before it takes effect.
    pub fn write_through(&self) -> Result<(), ObjectHistoryError> {
        self.shared.drain()?;
        self.shared.store()?.sync()
    }

    /// Index of the oldest covered entry.
    pub fn oldest(&self) -> u64 {
        self.shared.marked.oldest()
    }

    /// First index after the last restored archive, 0 without one. Entries before it belong to another history.
    pub fn floor(&self) -> u64 {
        self.shared.marked.floor()
    }

    /// Changes of an object, at most `changes_max`, from the entry at `from` on in this order. The rows come from
    /// `events`, so changes that are older than the event history are left out. Reads files.
    pub fn of_object(
        &self,
        events: &EventHub,
        object: &Object,
        mut from: u64,
        order: Order,
        changes_max: usize,
    ) -> Result<Vec<ObjectChange>, ObjectHistoryError> {
        let mut versions = Versions::new(events, object);
        let mut changes = Vec::new();
        loop {
            let wanted = changes_max - changes.len();
            let touches = self.shared.store()?.of_object(object, from, order, wanted)?;
            let (is_last, last) = (touches.len() < wanted, touches.last().map(|touch| touch.index));
            for touch in touches {
                changes.extend(versions.change(touch)?);
            }
            // Changes without a field that is shown were left out.
            let next = last.and_then(|last| match order {
                Order::OldestFirst => last.checked_add(1),
                Order::NewestFirst => last.checked_sub(1),
            });
            match next {
                Some(next) if !is_last && changes.len() < changes_max => from = next,
                Some(_) | None => return Ok(changes),
            }
        }
    }

    /// Mark of an entry; `None` for entries that are not covered or hold no command. Reads files.
    pub fn entry(&self, index: u64) -> Result<Option<EntryMark>, ObjectHistoryError> {
        self.shared.store()?.entry(index)
    }

    /// Index of the first entry later than `at`; `None` when there is none. Reads files.
    pub fn first_after(&self, at: Time) -> Result<Option<u64>, ObjectHistoryError> {
        self.shared.store()?.first_after(at)
    }

    /// Drops entries before `index`, because the log was truncated there. `events` must have them still: rows that later
    /// changes are compared with are copied from there.
    pub fn forget_before(&self, index: u64, events: &EventHub) -> Result<(), ObjectHistoryError> {
        let mut payloads = events.payloads();
        self.shared.store()?.forget_before(index, |object, index| {
            let row = versions::row(&mut payloads, object, index)?;
            let json = row.map(|row| serde_json::to_vec(&row)).transpose();
            json.map_err(|source| ObjectHistoryError::Content { index, source })
        })
    }

    /// Writes the queued entries and ends the thread. Blocks until that is done.
    pub fn close(&self) {
        self.shared.queue.lock().closed = true;
        self.shared.filled.notify_all();
        self.shared.emptied.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that records what entries did has panicked");
        }
    }
}

impl Refill for ObjectHistory {
    fn name(&self) -> &'static str {
        "touches"
    }

    fn losses(&self) -> watch::Receiver<bool> {
        self.shared.marked.losses()
    }

    fn filling(&self) -> Result<Filling, RefillError> {
        Ok(self.shared.store()?.filling()?)
    }

    fn begin_at(&self, filling: &mut Filling, from: u64) -> Result<(), RefillError> {
        Ok(self.shared.store()?.fill_from(filling, from, None)?)
    }

    fn begin_restored(&self, filling: &mut Filling, index: u64) -> Result<(), RefillError> {
        // The restore's own entry is part of the new history.
        Ok(self.shared.store()?.fill_from(filling, index, Some(index))?)
    }

    fn fill(&self, filling: &mut Filling, entries: &[AppliedEntry], next: Reached) -> Result<bool, RefillError> {
        Ok(self.shared.store()?.fill(filling, entries, next)?)
    }

    fn end(&self, filling: &Filling) -> Result<bool, RefillError> {
        Ok(self.shared.store()?.end_filling(filling)?)
    }

    fn give_up(&self) -> Result<(), RefillError> {
        Ok(self.shared.store()?.found()?)
    }
}

impl Drop for ObjectHistory {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// The open store. The guard must be dropped before the store can be reopened.
    fn store(&self) -> Result<MappedRwLockReadGuard<'_, Store>, ObjectHistoryError> {
        RwLockReadGuard::try_map(self.store.read(), Option::as_ref).map_err(|_| ObjectHistoryError::Closed)
    }

    /// Tells the record's thread of queued entries. A record in memory has no thread and writes them at once.
    fn news(&self) {
        if !self.folder.is_in_memory() {
            self.filled.notify_one();
            return;
        }
        if let Err(error) = self.drain() {
            tracing::debug!(error = &error as &dyn std::error::Error, "recording what entries did; it is tried again");
            // A store that cannot be opened now is opened by a later entry.
            let _ = self.reopen();
        }
    }

    fn run(&self) {
        crate::background::give_way();
        let mut pause = None;
        while self.wait() {
            match self.drain() {
                Ok(()) => {
                    if pause.take().is_some() {
                        tracing::info!("what entries did is recorded again");
                    }
                }
                Err(error) => {
                    if pause.is_none() {
                        tracing::error!(
                            error = &error as &dyn std::error::Error,
                            "recording what entries did; it is tried again"
                        );
                    }
                    let pause = pause.get_or_insert(AFTER_FAILURE);
                    if self.pause(*pause) {
                        break;
                    }
                    *pause = (*pause * 2).min(AFTER_FAILURE_MAX);
                    if let Err(error) = self.reopen() {
                        tracing::debug!(
                            error = &error as &dyn std::error::Error,
                            "the record of what entries did cannot be opened yet"
                        );
                    }
                }
            }
        }
        if let Err(error) = self.store().and_then(|store| store.sync()) {
            tracing::warn!(error = &error as &dyn std::error::Error, "closing the record of what entries did");
        }
    }

    /// Waits for entries. False: the record is closed.
    fn wait(&self) -> bool {
        let mut queue = self.queue.lock();
        while queue.through <= self.marked.last() {
            if queue.closed {
                return false;
            }
            self.filled.wait(&mut queue);
        }
        true
    }

    /// Pauses for `long`. True: the record is to be closed.
    fn pause(&self, long: Duration) -> bool {
        let until = Instant::now() + long;
        let mut queue = self.queue.lock();
        while !queue.closed {
            if self.filled.wait_until(&mut queue, until).timed_out() {
                return queue.closed;
            }
        }
        true
    }

    /// Reopens the store: a store that failed to write once refuses all further writes. Entries that the store lost
    /// are reported as a gap.
    fn reopen(&self) -> Result<(), ObjectHistoryError> {
        let mut store = self.store.write();
        let before = self.marked.last();
        // The old store locks the folder until it is dropped.
        *store = None;
        let opened = Store::open_marked(&self.folder, &self.marked)?;
        if self.marked.last() < before {
            opened.reset(before + 1, true)?;
        }
        *store = Some(opened);
        Ok(())
    }

    /// Writes all queued entries; unwritten ones stay in the queue.
    fn drain(&self) -> Result<(), ObjectHistoryError> {
        let drained = self.write_queued();
        self.queue.lock().failing = drained.is_err();
        self.emptied.notify_all();
        drained
    }

    /// The turn is taken before the queue is read, so that entries are written in order.
    fn write_queued(&self) -> Result<(), ObjectHistoryError> {
        let store = self.store()?;
        let mut turn = store.turn();
        let (entries, through) = {
            let mut queue = self.queue.lock();
            (std::mem::take(&mut queue.entries), queue.through)
        };
        let mut done = 0;
        for piece in entries.chunks(ENTRIES_AT_ONCE) {
            match turn.write(piece) {
                Ok(()) => {}
                // Writing this entry would fail every time, so the record begins anew after it.
                Err(error @ (ObjectHistoryError::Content { .. } | ObjectHistoryError::Damaged(_))) => {
                    self.queue.lock().changes -= changes_of(&entries[done..]);
                    store.reset(through + 1, false)?;
                    return Err(error);
                }
                Err(
                    error @ (ObjectHistoryError::Store { .. }
                    | ObjectHistoryError::Closed
                    | ObjectHistoryError::Events(_)
                    | ObjectHistoryError::Thread(_)),
                ) => {
                    let kept = entries[done..].to_vec();
                    self.queue.lock().entries.splice(0..0, kept);
                    return Err(error);
                }
            }
            done += piece.len();
            self.queue.lock().changes -= changes_of(piece);
            self.emptied.notify_all();
            if let Some(last) = piece.last() {
                self.written.send_replace(last.index);
            }
        }
        turn.pass_to(through)?;
        self.written.send_replace(through.max(self.marked.last()));
        Ok(())
    }
}

/// Number of changed rows of some entries.
fn changes_of(entries: &[AppliedEntry]) -> usize {
    entries.iter().map(|entry| entry.changes.len()).sum()
}
