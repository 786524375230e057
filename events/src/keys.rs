//! Ordered keys and values in a folder: fjall on a real disk, maps in memory in the simulation. What the keys mean is
//! decided by the event history and the object history.

mod memory;

use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};

use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{KeyspaceCreateOptions, PersistMode, UserKey, UserValue};

pub use memory::MemoryFolder;
use memory::{MemoryBatch, MemoryKeys, Space};

/// Size in bytes at which the newest writes of a map go from memory to a file. A burst of writes keeps two or three such
/// pieces in memory; reads of the newest entries do not need them, because those are in the tail of the event hub.
const MEMTABLE_BYTES: u64 = 16 << 20;

/// Place of a store.
#[derive(Debug, Clone)]
pub enum Folder {
    /// A folder of the machine's file system.
    Disk(PathBuf),
    /// A folder in memory.
    Memory(MemoryFolder),
}

impl From<&Path> for Folder {
    fn from(path: &Path) -> Self {
        Self::Disk(path.to_owned())
    }
}

impl From<&PathBuf> for Folder {
    fn from(path: &PathBuf) -> Self {
        Self::Disk(path.clone())
    }
}

impl Folder {
    /// Whether a store in this folder never waits for a disk. Its user then does without threads, so that a run depends
    /// only on its seed.
    pub fn is_in_memory(&self) -> bool {
        match self {
            Self::Disk(_) => false,
            Self::Memory(_) => true,
        }
    }
}

/// An open store.
pub(crate) enum Store {
    Disk(fjall::Database),
    Memory(MemoryKeys),
}

/// One ordered map of a store.
pub(crate) enum Keys {
    Disk(fjall::Keyspace),
    Memory(Space),
}

/// Writes that take effect together.
pub(crate) enum Batch {
    Disk(fjall::OwnedWriteBatch),
    Memory(MemoryBatch),
}

/// A key with its value.
pub(crate) type Pair = (UserKey, UserValue);

impl Store {
    /// Opens the store in a folder, or creates an empty one.
    pub(crate) fn open(folder: &Folder) -> fjall::Result<Self> {
        Ok(match folder {
            Folder::Disk(path) => Self::Disk(crate::background::open(|| {
                fjall::Database::builder(path)
                    // While one of two workers joins files, the other one keeps a processor busy without any work.
                    .worker_threads(1)
                    .open()
            })?),
            Folder::Memory(folder) => Self::Memory(folder.open()),
        })
    }

    /// Opens a map of the store. `block_bytes` is the size of one read from a disk, if it is not the default.
    pub(crate) fn keys(&self, name: &'static str, block_bytes: Option<u32>) -> fjall::Result<Keys> {
        self.open_keys(name, || match block_bytes {
            Some(bytes) => options().data_block_size_policy(BlockSizePolicy::all(bytes)),
            None => options(),
        })
    }

    /// Same as [`Self::keys`], for values that are compressed already.
    pub(crate) fn packed_keys(&self, name: &'static str, block_bytes: u32) -> fjall::Result<Keys> {
        let block_size = BlockSizePolicy::all(block_bytes);
        let compression = CompressionPolicy::disabled();
        self.open_keys(name, || options().data_block_size_policy(block_size).data_block_compression_policy(compression))
    }

    fn open_keys(&self, name: &'static str, options: impl FnOnce() -> KeyspaceCreateOptions) -> fjall::Result<Keys> {
        Ok(match self {
            Self::Disk(db) => Keys::Disk(db.keyspace(name, options)?),
            Self::Memory(keys) => Keys::Memory(keys.space(name)),
        })
    }

    /// An empty batch.
    pub(crate) fn batch(&self) -> Batch {
        match self {
            Self::Disk(db) => Batch::Disk(db.batch()),
            Self::Memory(keys) => Batch::Memory(keys.batch()),
        }
    }

    /// Returns once everything that was written is durable. Blocks.
    pub(crate) fn sync(&self) -> fjall::Result<()> {
        match self {
            Self::Disk(db) => db.persist(PersistMode::SyncAll),
            Self::Memory(keys) => keys.sync(),
        }
    }
}

impl Keys {
    pub(crate) fn get(&self, key: impl AsRef<[u8]>) -> fjall::Result<Option<UserValue>> {
        match self {
            Self::Disk(keys) => keys.get(key),
            Self::Memory(space) => Ok(space.get(key.as_ref())),
        }
    }

    pub(crate) fn contains_key(&self, key: impl AsRef<[u8]>) -> fjall::Result<bool> {
        match self {
            Self::Disk(keys) => keys.contains_key(key),
            Self::Memory(space) => Ok(space.get(key.as_ref()).is_some()),
        }
    }

    pub(crate) fn insert(&self, key: impl Into<UserKey>, value: impl Into<UserValue>) -> fjall::Result<()> {
        match self {
            Self::Disk(keys) => keys.insert(key, value),
            Self::Memory(space) => space.write(key.into(), Some(value.into())),
        }
    }

    pub(crate) fn remove(&self, key: impl Into<UserKey>) -> fjall::Result<()> {
        match self {
            Self::Disk(keys) => keys.remove(key),
            Self::Memory(space) => space.write(key.into(), None),
        }
    }

    /// The pairs of a range of keys, in order from both ends.
    pub(crate) fn range<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Box<dyn DoubleEndedIterator<Item = fjall::Result<Pair>> + '_> {
        match self {
            Self::Disk(keys) => Box::new(keys.range(range).map(fjall::Guard::into_inner)),
            Self::Memory(space) => Box::new(space.range(owned(range.start_bound()), owned(range.end_bound())).map(Ok)),
        }
    }

    /// The keys of a range, in order.
    pub(crate) fn keys_of<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> Box<dyn Iterator<Item = fjall::Result<UserKey>> + '_> {
        match self {
            Self::Disk(keys) => Box::new(keys.range(range).map(fjall::Guard::key)),
            Self::Memory(space) => {
                Box::new(space.range(owned(range.start_bound()), owned(range.end_bound())).map(|(key, _)| Ok(key)))
            }
        }
    }
}

fn options() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES)
}

fn owned<K: AsRef<[u8]>>(bound: Bound<&K>) -> Bound<UserKey> {
    bound.map(|key| UserKey::from(key.as_ref()))
}

impl Batch {
    pub(crate) fn insert(&mut self, keys: &Keys, key: impl Into<UserKey>, value: impl Into<UserValue>) {
        match (self, keys) {
            (Self::Disk(batch), Keys::Disk(keys)) => batch.insert(keys, key, value),
            (Self::Memory(batch), Keys::Memory(space)) => batch.write(space, key.into(), Some(value.into())),
            (Self::Disk(_), Keys::Memory(_)) | (Self::Memory(_), Keys::Disk(_)) => unreachable!("{MIXED}"),
        }
    }

    pub(crate) fn remove(&mut self, keys: &Keys, key: impl Into<UserKey>) {
        match (self, keys) {
            (Self::Disk(batch), Keys::Disk(keys)) => batch.remove(keys, key),
            (Self::Memory(batch), Keys::Memory(space)) => batch.write(space, key.into(), None),
            (Self::Disk(_), Keys::Memory(_)) | (Self::Memory(_), Keys::Disk(_)) => unreachable!("{MIXED}"),
        }
    }

    pub(crate) fn commit(self) -> fjall::Result<()> {
        match self {
            Self::Disk(batch) => batch.commit(),
            Self::Memory(batch) => batch.commit(),
        }
    }
}

/// Reason why a batch never meets the maps of another kind of store.
const MIXED: &str = "a batch and the maps that it writes are of one store";
