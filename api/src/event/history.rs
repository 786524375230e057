//! The durable history of events: derived from the log, off the commit path, rebuilt from the log when it is lost.
//!
//! Events are filed in blocks by the index of the last entry in the block, big endian, so that a range of keys is a range of the log. New
//! entries are written in small blocks, which are joined to larger ones for faster reads. The form of an event is not known here.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fjall::config::BlockSizePolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use tokio::sync::watch;

use super::batch::Batch;
use super::block::{self, Block};
use crate::refill::{Filling, Reached, Refill, RefillError};
use crate::touches::AppliedEntry;

/// Why history could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The store failed.
    #[error("{doing} event history")]
    Store {
        /// What was being done.
        doing: &'static str,
        #[source]
        source: fjall::Error,
    },
    /// A stored event cannot be read.
    #[error("event history is damaged at index {0}")]
    Damaged(u64),
    /// The history was closed because its disk failed, and could not be opened since.
    #[error("event history is closed until its disk works")]
    Closed,
    /// A thread of the hub could not be started.
    #[error("starting a thread of the event hub")]
    Thread(#[source] io::Error),
}

/// A store of events.
pub trait History: Send + Sync + 'static {
    /// Adds the events of entries, in order. The history covers everything up to `through` then. Entries that are there already stay.
    fn append(&self, batches: &[Arc<Batch>], through: u64) -> Result<(), HistoryError>;

    /// Blocks with the entries after an index, oldest first: the next block if there is one, and more of them up to `bytes_max`.
    fn read(&self, after: u64, bytes_max: usize) -> Result<Vec<Block>, HistoryError>;

    /// Index of the oldest entry that is covered.
    fn oldest(&self) -> u64;

    /// Index of the newest entry that is covered.
    fn last(&self) -> u64;

    /// Brings everything that was written to disk.
    fn sync(&self) -> Result<(), HistoryError>;

    /// Drops everything: the history covers the entries from `first_index` on.
    fn reset(&self, first_index: u64) -> Result<(), HistoryError>;

    /// Does the same as [`Self::reset`], and marks the entries before as missing, though the log may have them.
    fn lose(&self, first_index: u64) -> Result<(), HistoryError> {
        self.reset(first_index)
    }

    /// Forgets entries before `index`.
    fn forget_before(&self, index: u64) -> Result<(), HistoryError>;

    /// Whether [`Self::read`] never waits for a disk.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Opens the history anew after a failure: a store that failed to write once writes nothing any more. `last` may be lower than before,
    /// because the newest entries were not on disk yet.
    fn reopen(&self) -> Result<(), HistoryError> {
        Ok(())
    }
}

/// Size at which a block is closed: large enough that a reader spends its time copying, and small for what a slow reader holds.
const BLOCK_BYTES: usize = 32 * 1024;
/// Mark of a history without its older entries, which the log may have.
const LOST: &str = "lost";
/// Mark with the progress of filling in these entries.
const FILLING: &str = "filling";
/// Bytes that are read from disk at once.
const STORE_READ_BYTES: u32 = 32 * 1024;
/// Deletes go through in pieces of this many keys.
const DELETE_KEYS_AT_ONCE: usize = 4096;

/// A history in a folder.
pub struct FjallHistory {
    path: PathBuf,
    /// `None`: it could not be opened after a failure.
    store: RwLock<Option<Store>>,
    oldest: AtomicU64,
    last: AtomicU64,
    lost: watch::Sender<bool>,
    small: Mutex<Small>,
    /// Held while older entries are filled in or dropped, so that a fill never writes into a history that was replaced meanwhile.
    older: Mutex<()>,
}

/// The open store.
struct Store {
    db: Database,
    /// Index of the last entry -> block.
    blocks: Keyspace,
    /// `oldest`, `last`, `lost` and `filling`.
    marks: Keyspace,
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
    fn open(path: &Path) -> Result<(Self, Marks), HistoryError> {
        let db = crate::background::open(|| Database::builder(path).open()).map_err(fail("opening"))?;
        let marks = db.keyspace("marks", KeyspaceCreateOptions::default).map_err(fail("opening"))?;
        let large = || KeyspaceCreateOptions::default().data_block_size_policy(BlockSizePolicy::all(STORE_READ_BYTES));
        let blocks = db.keyspace("blocks", large).map_err(fail("opening"))?;
        let read = |name: &str| -> Result<Option<u64>, HistoryError> {
            let bytes = marks.get(name).map_err(fail("opening"))?;
            Ok(bytes.and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?))))
        };
        let (oldest, last) = (read("oldest")?.unwrap_or(1), read("last")?.unwrap_or(0));
        let lost = marks.contains_key(LOST).map_err(fail("opening"))?;
        Ok((Self { db, blocks, marks }, Marks { oldest, last, lost }))
    }

    fn insert(&self, write: &mut OwnedWriteBatch, batches: &[Arc<Batch>]) {
        if let Some(last) = batches.last() {
            write.insert(&self.blocks, last.index.to_be_bytes(), block::encode(batches.iter().map(|batch| &**batch)));
        }
    }

    /// Drops the keys below `before`.
    fn delete_range(&self, keyspace: &Keyspace, before: Option<u64>) -> Result<(), HistoryError> {
        loop {
            let mut batch = self.db.batch();
            let mut keys = 0;
            for guard in keyspace.iter() {
                let key = guard.key().map_err(fail("dropping old"))?;
                if before.is_some_and(|before| index_of(&key) >= before) || keys == DELETE_KEYS_AT_ONCE {
                    break;
                }
                batch.remove(keyspace, key);
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

impl FjallHistory {
    /// Opens a history, or makes an empty one that covers what comes from index 1 on.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        let (store, marks) = Store::open(path)?;
        Ok(Self {
            path: path.to_owned(),
            store: RwLock::new(Some(store)),
            oldest: AtomicU64::new(marks.oldest),
            last: AtomicU64::new(marks.last),
            lost: watch::Sender::new(marks.lost),
            small: Mutex::default(),
            older: Mutex::default(),
        })
    }

    /// The open store. The guard must be dropped before the store can be opened anew.
    fn store(&self) -> Result<MappedRwLockReadGuard<'_, Store>, HistoryError> {
        RwLockReadGuard::try_map(self.store.read(), Option::as_ref).map_err(|_| HistoryError::Closed)
    }

    /// Progress of a fill, as stored. `None`: there is none, or it was made for another oldest entry.
    fn stored_filling(&self, store: &Store) -> Result<Option<Filling>, HistoryError> {
        let bytes = store.marks.get(FILLING).map_err(fail("filling"))?;
        Ok(bytes.and_then(|bytes| Filling::from_bytes(&bytes)).filter(|filling| filling.before == self.oldest()))
    }

    /// Drops the entries that were filled in below the oldest one, and starts the fill at index `from`.
    fn fill_from(&self, filling: &mut Filling, from: u64) -> Result<(), HistoryError> {
        let _alone = self.older.lock();
        let store = self.store()?;
        store.marks.remove(FILLING).map_err(fail("filling"))?;
        store.delete_range(&store.blocks, Some(self.oldest()))?;
        (filling.from, filling.through) = (from, from - 1);
        store.marks.insert(FILLING, filling.to_bytes()).map_err(fail("filling"))
    }

    /// Removes the marks of a lost history: no entry is missing that the log has. `oldest`: the history reaches back to this index now.
    fn found(&self, store: &Store, oldest: Option<u64>) -> Result<(), HistoryError> {
        let mut write = store.db.batch();
        if let Some(oldest) = oldest {
            write.insert(&store.marks, "oldest", oldest.to_be_bytes());
        }
        write.remove(&store.marks, LOST);
        write.remove(&store.marks, FILLING);
        write.commit().map_err(fail("filling"))?;
        self.lost.send_replace(false);
        Ok(())
    }

    /// Drops all entries. The history covers the entries from `first_index` on; `lost`: the log may have those before.
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

impl Refill for FjallHistory {
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
        // A restore ends all streams, and the first stream after it begins behind its entry.
        Ok(self.fill_from(filling, index + 1)?)
    }

    fn fill(&self, filling: &mut Filling, entries: &[AppliedEntry], next: Reached) -> Result<bool, RefillError> {
        let batches = entries.iter().map(|entry| Arc::new(Batch::encode(entry.index, entry.kind, &entry.changes)));
        let batches: Vec<Arc<Batch>> = batches.filter(|batch| !batch.is_empty()).collect();
        let _alone = self.older.lock();
        // Held throughout: a store that is opened anew may have lost entries that its progress does not tell of.
        let store = self.store()?;
        if self.stored_filling(&store)? != Some(*filling) {
            return Ok(false);
        }
        let mut write = store.db.batch();
        let mut small = Small::default();
        for batch in batches {
            small.bytes += batch.bytes();
            small.batches.push(batch);
            if small.bytes >= BLOCK_BYTES {
                store.insert(&mut write, &small.batches);
                small = Small::default();
            }
        }
        store.insert(&mut write, &small.batches);
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
        self.oldest.store(filling.from, Ordering::Release);
        Ok(true)
    }

    fn give_up(&self) -> Result<(), RefillError> {
        let _alone = self.older.lock();
        Ok(self.found(&*self.store()?, None)?)
    }
}

impl History for FjallHistory {
    fn append(&self, batches: &[Arc<Batch>], through: u64) -> Result<(), HistoryError> {
        let known = self.last.load(Ordering::Acquire);
        let through = through.max(known);
        let store = self.store()?;
        let mut write = store.db.batch();
        let mut kept = self.small.lock();
        let mut small = kept.clone();
        let mut fresh = small.batches.len();
        for batch in batches.iter().filter(|batch| batch.index > known) {
            small.bytes += batch.bytes();
            small.batches.push(Arc::clone(batch));
            if small.bytes >= BLOCK_BYTES {
                small.keys.iter().for_each(|key| write.remove(&store.blocks, key.to_be_bytes()));
                store.insert(&mut write, &small.batches);
                (small, fresh) = (Small::default(), 0);
            }
        }
        if let Some(last) = small.batches.get(fresh..).and_then(|fresh| fresh.last()) {
            small.keys.push(last.index);
        }
        store.insert(&mut write, &small.batches[fresh..]);
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
        for guard in self.store()?.blocks.range((after + 1).to_be_bytes()..) {
            let (key, value) = guard.into_inner().map_err(fail("reading"))?;
            if !out.is_empty() && bytes + value.len() > bytes_max {
                break;
            }
            bytes += value.len();
            out.push(Block::parse(Bytes::from_owner(value), index_of(&key))?);
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
        self.store()?.db.persist(PersistMode::SyncAll).map_err(fail("syncing"))
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
        // First the mark: readers must not count on entries that are being dropped.
        self.oldest.store(index, Ordering::Release);
        let store = self.store()?;
        store.marks.insert("oldest", index.to_be_bytes()).map_err(fail("dropping old"))?;
        store.delete_range(&store.blocks, Some(index))
    }

    fn reopen(&self) -> Result<(), HistoryError> {
        let mut store = self.store.write();
        // The old store holds the folder until it is dropped.
        *store = None;
        let (opened, marks) = Store::open(&self.path)?;
        // Small blocks on disk stay small: they are not joined any more.
        *self.small.lock() = Small::default();
        let oldest = self.oldest.fetch_max(marks.oldest, Ordering::AcqRel).max(marks.oldest);
        if oldest > marks.oldest {
            // Older entries were dropped before, and the failed store has lost that.
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
