//! The durable history of events: derived from the log, off the commit path, rebuilt from the log when it is lost.
//!
//! Keys are index and ordinal, big endian, so that a range of keys is a range of the log. What an event looks like is not known here.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use serde::{Deserialize, Serialize};
use songline_model::Str;

use super::batch::{Batch, EncodedEvent};

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
    /// A thread of the hub could not be started.
    #[error("starting a thread of the event hub")]
    Thread(#[source] io::Error),
}

/// Where events stay.
pub trait History: Send + Sync + 'static {
    /// Adds the events of entries, in order; everything up to `through` is known then. Entries that are there already stay.
    fn append(&self, batches: &[Arc<Batch>], through: u64) -> Result<(), HistoryError>;

    /// The entries with events after an index, oldest first, at most so many.
    fn range(&self, after: u64, batches_max: usize) -> Result<Vec<Arc<Batch>>, HistoryError>;

    /// Index of the oldest entry that is covered.
    fn oldest(&self) -> u64;

    /// Index of the newest entry that is covered.
    fn last(&self) -> u64;

    /// Brings everything that was written to disk.
    fn sync(&self) -> Result<(), HistoryError>;

    /// Forgets everything and covers what comes from `first_index` on.
    fn reset(&self, first_index: u64) -> Result<(), HistoryError>;

    /// Forgets entries before `index`.
    fn forget_before(&self, index: u64) -> Result<(), HistoryError>;
}

/// A history in a folder.
pub struct FjallHistory {
    db: Database,
    /// (index, ordinal) -> event.
    events: Keyspace,
    /// (topic, key, index) -> kind of the entry: the history of one object.
    touches: Keyspace,
    /// `oldest` and `last`.
    marks: Keyspace,
    oldest: AtomicU64,
    last: AtomicU64,
}

#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    kind: u16,
    topic: Str,
    key: Str,
    namespace: Str,
    filter_keys: Vec<Str>,
    step: u8,
    #[serde(borrow, with = "serde_bytes")]
    json: &'a [u8],
}

/// Deletes go through in pieces of this many keys.
const DELETE_KEYS_AT_ONCE: usize = 4096;

impl FjallHistory {
    /// Opens a history, or makes an empty one that covers what comes from index 1 on.
    pub fn open(path: &Path) -> Result<Self, HistoryError> {
        let fail = |source| HistoryError::Store { doing: "opening", source };
        let db = Database::builder(path).open().map_err(fail)?;
        let open = |name: &str| db.keyspace(name, KeyspaceCreateOptions::default).map_err(fail);
        let (events, touches, marks) = (open("events")?, open("touches")?, open("marks")?);
        let read = |name: &str| -> Result<Option<u64>, HistoryError> {
            let bytes = marks.get(name).map_err(fail)?;
            Ok(bytes.and_then(|bytes| Some(u64::from_be_bytes(bytes.as_ref().try_into().ok()?))))
        };
        let (oldest, last) = (read("oldest")?.unwrap_or(1), read("last")?.unwrap_or(0));
        Ok(Self { db, events, touches, marks, oldest: AtomicU64::new(oldest), last: AtomicU64::new(last) })
    }

    fn delete_range(&self, keyspace: &Keyspace, before: Option<u64>) -> Result<(), HistoryError> {
        let fail = |source| HistoryError::Store { doing: "dropping old", source };
        loop {
            let mut batch = self.db.batch();
            let mut keys = 0;
            for guard in keyspace.iter() {
                let (key, _) = guard.into_inner().map_err(fail)?;
                if before.is_some_and(|before| index_of(&key) >= before) || keys == DELETE_KEYS_AT_ONCE {
                    break;
                }
                batch.remove(keyspace, key);
                keys += 1;
            }
            if keys == 0 {
                return Ok(());
            }
            batch.commit().map_err(fail)?;
        }
    }
}

impl History for FjallHistory {
    fn append(&self, batches: &[Arc<Batch>], through: u64) -> Result<(), HistoryError> {
        let fail = |source| HistoryError::Store { doing: "writing", source };
        let known = self.last.load(Ordering::Acquire);
        let through = through.max(known);
        let mut write = self.db.batch();
        for batch in batches.iter().filter(|batch| batch.index > known) {
            for (ordinal, event) in (0u32..).zip(&batch.events) {
                let mut key = [0; 12];
                key[..8].copy_from_slice(&batch.index.to_be_bytes());
                key[8..].copy_from_slice(&ordinal.to_be_bytes());
                let stored = Stored {
                    kind: batch.kind,
                    topic: event.topic.clone(),
                    key: event.key.clone(),
                    namespace: event.namespace.clone(),
                    filter_keys: event.filter_keys.clone(),
                    step: event.step,
                    json: &event.json,
                };
                let value = rmp_serde::to_vec(&stored).expect("texts, numbers and bytes fit into msgpack");
                write.insert(&self.events, key, value);
                write.insert(&self.touches, touch_key(event, batch.index), batch.kind.to_be_bytes());
            }
        }
        if through > known {
            write.insert(&self.marks, "last", through.to_be_bytes());
        }
        write.commit().map_err(fail)?;
        self.last.store(through, Ordering::Release);
        Ok(())
    }

    fn range(&self, after: u64, batches_max: usize) -> Result<Vec<Arc<Batch>>, HistoryError> {
        let fail = |source| HistoryError::Store { doing: "reading", source };
        let mut out: Vec<Arc<Batch>> = Vec::new();
        let mut current: Option<(u64, u16, Vec<EncodedEvent>)> = None;
        let start = (after + 1).to_be_bytes().to_vec();
        for guard in self.events.range(start..) {
            let (key, value) = guard.into_inner().map_err(fail)?;
            let index = index_of(&key);
            let stored: Stored<'_> = rmp_serde::from_slice(&value).map_err(|_| HistoryError::Damaged(index))?;
            if current.as_ref().is_some_and(|(at, ..)| *at != index)
                && let Some((at, kind, events)) = current.take()
            {
                out.push(Arc::new(Batch::new(at, kind, events)));
                if out.len() == batches_max {
                    return Ok(out);
                }
            }
            let json = Bytes::copy_from_slice(stored.json);
            let event = EncodedEvent::new(stored.topic, stored.key, stored.namespace, stored.filter_keys, stored.step, json);
            current.get_or_insert_with(|| (index, stored.kind, Vec::new())).2.push(event);
        }
        if let Some((at, kind, events)) = current {
            out.push(Arc::new(Batch::new(at, kind, events)));
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
        self.db.persist(PersistMode::SyncAll).map_err(|source| HistoryError::Store { doing: "syncing", source })
    }

    fn reset(&self, first_index: u64) -> Result<(), HistoryError> {
        self.delete_range(&self.events, None)?;
        self.delete_range(&self.touches, None)?;
        let fail = |source| HistoryError::Store { doing: "resetting", source };
        let mut write = self.db.batch();
        write.insert(&self.marks, "oldest", first_index.to_be_bytes());
        write.insert(&self.marks, "last", first_index.saturating_sub(1).to_be_bytes());
        write.commit().map_err(fail)?;
        self.oldest.store(first_index, Ordering::Release);
        self.last.store(first_index.saturating_sub(1), Ordering::Release);
        Ok(())
    }

    fn forget_before(&self, index: u64) -> Result<(), HistoryError> {
        if index <= self.oldest() {
            return Ok(());
        }
        // First the mark: a reader must not be told that something is there which is being dropped.
        self.oldest.store(index, Ordering::Release);
        let fail = |source| HistoryError::Store { doing: "dropping old", source };
        self.marks.insert("oldest", index.to_be_bytes()).map_err(fail)?;
        self.delete_range(&self.events, Some(index))
    }
}

fn index_of(key: &[u8]) -> u64 {
    key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn touch_key(event: &EncodedEvent, index: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(event.topic.len() + event.namespace.len() + event.key.len() + 11);
    for part in [&event.topic, &event.namespace, &event.key] {
        key.extend_from_slice(part.as_bytes());
        key.push(0);
    }
    key.extend_from_slice(&index.to_be_bytes());
    key
}
