//! The durable history of events: derived from the log outside the commit path, and refilled from the log when it is
//! lost.
//!
//! Events are stored in blocks. The key of a block is the index of its last entry, big endian, so that a range of
//! keys is a range of the log. New entries are written in small blocks, which are joined to larger ones for faster
//! reads. This module does not look inside events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use tokio::sync::watch;

use super::batch::Batch;
use super::block::{Block, Encoder};
use super::error::HistoryError;
use crate::entry::AppliedEntry;
use crate::keys::{self, Folder, Keys};
use crate::refill::{Filling, Reached, Refill, RefillError};

/// A store of events.
pub trait History: Send + Sync + 'static {
    /// Appends the events of entries, in order. Afterwards the history covers everything up to `through`. Entries
    /// that are already stored stay as they are.
    fn append(&self, batches: &[Arc<Batch>], through: u64) -> Result<(), HistoryError>;

    /// Blocks with the entries after an index, oldest first. The next block is included whatever its size, further
    /// ones up to `bytes_max` bytes.
    fn read(&self, after: u64, bytes_max: usize) -> Result<Vec<Block>, HistoryError>;

    /// Index of the oldest covered entry.
    fn oldest(&self) -> u64;

    /// Index of the newest covered entry.
    fn last(&self) -> u64;

    /// Syncs everything that was written to disk.
    fn sync(&self) -> Result<(), HistoryError>;

    /// Drops all entries. Afterwards the history covers the entries from `first_index` on.
    fn reset(&self, first_index: u64) -> Result<(), HistoryError>;

    /// Same as [`Self::reset`], and marks the earlier entries as missing, though the log may have them.
    fn lose(&self, first_index: u64) -> Result<(), HistoryError> {
        self.reset(first_index)
    }

    /// Drops entries before `index`.
    fn forget_before(&self, index: u64) -> Result<(), HistoryError>;

    /// Whether [`Self::read`] never waits for a disk, so that it may run on an async thread.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Reopens the history after a failure: a store that failed to write once refuses all further writes. `last` may
    /// be lower than before, because the newest entries were not synced yet.
    fn reopen(&self) -> Result<(), HistoryError> {
        Ok(())
    }
}

/// Size in bytes at which a block is closed: large enough for cheap sequential reads, small enough for the memory
/// that slow subscribers hold.
const BLOCK_BYTES: usize = 32 * 1024;
/// Mark of a history that lacks older entries which the log may have.
const LOST: &str = "lost";
/// Mark with the progress of the refill of these entries.
const FILLING: &str = "filling";
/// Size of one read from disk, in bytes.
const STORE_READ_BYTES: u32 = 32 * 1024;
/// Number of keys per delete batch.
const DELETE_KEYS_AT_ONCE: usize = 4096;

/// A history in a folder.
pub struct StoredHistory {
    folder: Folder,
    /// `None`: reopening failed after a write failure.
    store: RwLock<Option<Store>>,
    oldest: AtomicU64,
    last: AtomicU64,
    lost: watch::Sender<bool>,
    small: Mutex<Small>,
    /// Encoder of new blocks, kept for its buffers.
    encoder: Mutex<Encoder>,
    /// Held while older entries are filled in or dropped, so that a refill never writes into a history that was
    /// replaced meanwhile.
    older: Mutex<()>,
}

/// The open store.
struct Store {
    db: keys::Store,
    /// Index of the last entry -> block.
    blocks: Keys,
    /// `oldest`, `last`, `lost` and `filling`.
    marks: Keys,
}

/// The marks of a store.
struct Marks {
    oldest: u64,
    last: u64,
    lost: bool,
}

fn fail(doing: &'static str) -> impl FnOnce(fjall::Error) -> HistoryError {
    move |source| HistoryError::Store { doing, source }
}

impl Store {
    fn open(folder: &Folder) -> Result<(Self, Marks), HistoryError> {
        let db = keys::Store::open(folder).map_err(fail("opening"))?;
        let marks = db.keys("marks", None).map_err(fail("opening"))?;
        let blocks = db.packed_keys("blocks", STORE_READ_BYTES).map_err(fail("opening"))?;
        let read = |name: &str| -> Result<Option<u64>, HistoryError> {
            let bytes = marks.get(name).map_err(fail("opening"))?;
            Ok(bytes.and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?))))
        };
        let (oldest, last) = (read("oldest")?.unwrap_or(1), read("last")?.unwrap_or(0));
        let lost = marks.contains_key(LOST).map_err(fail("opening"))?;
        Ok((Self { db, blocks, marks }, Marks { oldest, last, lost }))
    }

    fn insert(&self, write: &mut keys::Batch, batches: &[Arc<Batch>], encoder: &mut Encoder) {
        if let Some(last) = batches.last() {
            let block = encoder.encode(batches.iter().map(|batch| &**batch));
            write.insert(&self.blocks, last.index.to_be_bytes(), block);
        }
    }

    /// Drops the keys below `before`.
    fn delete_range(&self, from: &Keys, before: Option<u64>) -> Result<(), HistoryError> {
        loop {
            let mut batch = self.db.batch();
            let mut keys = 0;
            for key in from.keys_of::<[u8; 8]>(..) {
                let key = key.map_err(fail("dropping old"))?;
                if before.is_some_and(|before| index_of(&key) >= before) || keys == DELETE_KEYS_AT_ONCE {
                    break;
                }
                batch.remove(from, key);
                keys += 1;
            }
            if keys == 0 {
                return Ok(());
            }
            batch.commit().map_err(fail("dropping old"))?;
        }
    }
}

/// Batches in small blocks since the last large block.
#[derive(Clone, Default)]
struct Small {
    batches: Vec<Arc<Batch>>,
    bytes: usize,
    /// Keys of the small blocks.
    keys: Vec<u64>,
}

impl StoredHistory {
    /// Opens a history. A new one is empty and covers the entries from index 1 on.
    pub fn open(folder: impl Into<Folder>) -> Result<Self, HistoryError> {
        let folder = folder.into();
        let (store, marks) = Store::open(&folder)?;
        Ok(Self {
            folder,
            store: RwLock::new(Some(store)),
            oldest: AtomicU64::new(marks.oldest),
            last: AtomicU64::new(marks.last),
            lost: watch::Sender::new(marks.lost),
            small: Mutex::default(),
            encoder: Mutex::default(),
            older: Mutex::default(),
        })
    }

    /// The open store. The guard must be dropped before the store can be reopened.
    fn store(&self) -> Result<MappedRwLockReadGuard<'_, Store>, HistoryError> {
        RwLockReadGuard::try_map(self.store.read(), Option::as_ref).map_err(|_| HistoryError::Closed)
    }

    /// Stored progress of a refill. `None`: there is none, or it was made for another oldest entry.
    fn stored_filling(&self, store: &Store) -> Result<Option<Filling>, HistoryError> {
        let bytes = store.marks.get(FILLING).map_err(fail("filling"))?;
        Ok(bytes.and_then(|bytes| Filling::from_bytes(&bytes)).filter(|filling| filling.before == self.oldest()))
    }

    /// Drops the entries that were filled in below the oldest one, and starts the refill at index `from`.
    fn fill_from(&self, filling: &mut Filling, from: u64) -> Result<(), HistoryError> {
        let _alone = self.older.lock();
        let store = self.store()?;
        store.marks.remove(FILLING).map_err(fail("filling"))?;
        store.delete_range(&store.blocks, Some(self.oldest()))?;
        (filling.from, filling.through) = (from, from - 1);
        store.marks.insert(FILLING, filling.to_bytes()).map_err(fail("filling"))
    }

    /// Removes the marks of a lost history: the history has all entries that the log has. With `oldest` it reaches
    /// back to that index now.
    fn found(&self, store: &Store, oldest: Option<u64>) -> Result<(), HistoryError> {
        let mut write = store.db.batch();
        if let Some(oldest) = oldest {
            write.insert(&store.marks, "oldest", oldest.to_be_bytes());
        }
        write.remove(&store.marks, LOST);
        write.remove(&store.marks, FILLING);
        write.commit().map_err(fail("filling"))?;
        // Before the news: a reader that hears of the whole history reads how far back it reaches.
        if let Some(oldest) = oldest {
            self.oldest.store(oldest, Ordering::Release);
        }
        self.lost.send_replace(false);
        Ok(())
    }

    /// Drops all entries. The history covers the entries from `first_index` on; with `lost`, the log may have earlier
    /// ones.
    fn begin_anew(&self, first_index: u64, lost: bool) -> Result<(), HistoryError> {
        let _alone = self.older.lock();
        *self.small.lock() = Small::default();
        let store = self.store()?;
        store.delete_range(&store.blocks, None)?;
        let mut write = store.db.batch();
        write.insert(&store.marks, "oldest", first_index.to_be_bytes());
        write.insert(&store.marks, "last", first_index.saturating_sub(1).to_be_bytes());
        write.remove(&store.marks, FILLING);
        if lost {
            write.insert(&store.marks, LOST, [1]);
        } else {
            write.remove(&store.marks, LOST);
        }
        write.commit().map_err(fail("resetting"))?;
        self.oldest.store(first_index, Ordering::Release);
        self.last.store(first_index.saturating_sub(1), Ordering::Release);
        self.lost.send_replace(lost);
        Ok(())
    }
}

impl Refill for StoredHistory {
    fn name(&self) -> &'static str {
        "events"
    }

    fn losses(&self) -> watch::Receiver<bool> {
        self.lost.subscribe()
    }

    fn filling(&self) -> Result<Filling, RefillError> {
        Ok(self.stored_filling(&*self.store()?)?.unwrap_or_else(|| Filling::new(self.oldest())))
    }

    fn begin_at(&self, filling: &mut Filling, from: u64) -> Result<(), RefillError> {
        Ok(self.fill_from(filling, from)?)
    }

    fn begin_restored(&self, filling: &mut Filling, index: u64) -> Result<(), RefillError> {
        // A restore ends all streams. The first stream after it begins after the restore's entry, so that entry
        // itself is left out.
        Ok(self.fill_from(filling, index + 1)?)
    }

    fn fill(&self, filling: &mut Filling, entries: &[AppliedEntry], next: Reached) -> Result<bool, RefillError> {
        let batches = entries.iter().map(|entry| Arc::new(Batch::encode(entry.index, entry.kind, &entry.changes)));
        let batches: Vec<Arc<Batch>> = batches.filter(|batch| !batch.is_empty()).collect();
        let _alone = self.older.lock();
        // The guard is held throughout: a store that is reopened meanwhile may have lost entries that the stored
        // progress counts as written.
        let store = self.store()?;
        if self.stored_filling(&store)? != Some(*filling) {
            return Ok(false);
        }
        let mut write = store.db.batch();
        let mut encoder = Encoder::default();
        let mut small = Small::default();
        for batch in batches {
            small.bytes += batch.bytes();
            small.batches.push(batch);
            if small.bytes >= BLOCK_BYTES {
                store.insert(&mut write, &small.batches, &mut encoder);
                small = Small::default();
            }
        }
        store.insert(&mut write, &small.batches, &mut encoder);
        (filling.through, filling.raft_through) = (next.index, next.raft_index);
        write.insert(&store.marks, FILLING, filling.to_bytes());
        write.commit().map_err(fail("filling"))?;
        Ok(true)
    }

    fn end(&self, filling: &Filling) -> Result<bool, RefillError> {
        let _alone = self.older.lock();
        let store = self.store()?;
        if self.stored_filling(&store)? != Some(*filling) {
            return Ok(false);
        }
        self.found(&store, Some(filling.from))?;
        Ok(true)
    }

    fn give_up(&self) -> Result<(), RefillError> {
        let _alone = self.older.lock();
        Ok(self.found(&*self.store()?, None)?)
    }
}

impl History for StoredHistory {
    fn append(&self, batches: &[Arc<Batch>], through: u64) -> Result<(), HistoryError> {
        let known = self.last.load(Ordering::Acquire);
        let through = through.max(known);
        let store = self.store()?;
        let mut write = store.db.batch();
        let mut encoder = self.encoder.lock();
        let mut kept = self.small.lock();
        let mut small = kept.clone();
        let mut fresh = small.batches.len();
        for batch in batches.iter().filter(|batch| batch.index > known) {
            small.bytes += batch.bytes();
            small.batches.push(Arc::clone(batch));
            if small.bytes >= BLOCK_BYTES {
                small.keys.iter().for_each(|key| write.remove(&store.blocks, key.to_be_bytes()));
                store.insert(&mut write, &small.batches, &mut encoder);
                (small, fresh) = (Small::default(), 0);
            }
        }
        if let Some(last) = small.batches.get(fresh..).and_then(|fresh| fresh.last()) {
            small.keys.push(last.index);
        }
        store.insert(&mut write, &small.batches[fresh..], &mut encoder);
        if through > known {
            write.insert(&store.marks, "last", through.to_be_bytes());
        }
        write.commit().map_err(fail("writing"))?;
        *kept = small;
        self.last.store(through, Ordering::Release);
        Ok(())
    }

    fn read(&self, after: u64, bytes_max: usize) -> Result<Vec<Block>, HistoryError> {
        let (mut out, mut bytes) = (Vec::new(), 0);
        for pair in self.store()?.blocks.range((after + 1).to_be_bytes()..) {
            let (key, value) = pair.map_err(fail("reading"))?;
            let block = Block::parse(Bytes::from_owner(value), index_of(&key))?;
            if !out.is_empty() && bytes + block.len() > bytes_max {
                break;
            }
            bytes += block.len();
            out.push(block);
            if bytes >= bytes_max {
                break;
            }
        }
        Ok(out)
    }

    fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    fn sync(&self) -> Result<(), HistoryError> {
        self.store()?.db.sync().map_err(fail("syncing"))
    }

    fn reset(&self, first_index: u64) -> Result<(), HistoryError> {
        self.begin_anew(first_index, false)
    }

    fn lose(&self, first_index: u64) -> Result<(), HistoryError> {
        self.begin_anew(first_index, true)
    }

    fn forget_before(&self, index: u64) -> Result<(), HistoryError> {
        let _alone = self.older.lock();
        if index <= self.oldest() {
            return Ok(());
        }
        // The mark is written first: readers must not rely on entries that are being dropped.
        self.oldest.store(index, Ordering::Release);
        let store = self.store()?;
        store.marks.insert("oldest", index.to_be_bytes()).map_err(fail("dropping old"))?;
        store.delete_range(&store.blocks, Some(index))
    }

    fn is_in_memory(&self) -> bool {
        self.folder.is_in_memory()
    }

    fn reopen(&self) -> Result<(), HistoryError> {
        let mut store = self.store.write();
        // The old store locks the folder until it is dropped.
        *store = None;
        let (opened, marks) = Store::open(&self.folder)?;
        // Small blocks on disk stay small: joining them would need their batches in memory.
        *self.small.lock() = Small::default();
        let oldest = self.oldest.fetch_max(marks.oldest, Ordering::AcqRel).max(marks.oldest);
        if oldest > marks.oldest {
            // Older entries were dropped before the failure, and the failed store lost that mark.
            opened.marks.insert("oldest", oldest.to_be_bytes()).map_err(fail("dropping old"))?;
            opened.delete_range(&opened.blocks, Some(oldest))?;
        }
        self.last.store(marks.last, Ordering::Release);
        self.lost.send_if_modified(|lost| std::mem::replace(lost, marks.lost) != marks.lost);
        *store = Some(opened);
        Ok(())
    }
}

fn index_of(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}
