//! openraft's log storage, implemented with `Store`.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use tokio::sync::oneshot;

use super::adapt;
use super::types::{Entry, LogId, Types, Vote};
use crate::position::Edge;
use crate::store::{Done, Store};

/// Bytes read from the files at a time.
const READ_BYTES: usize = 4 << 20;

/// Most bytes of entries in one message to another server.
const REPLICATION_BYTES: usize = 1 << 20;

/// The store, as openraft's log storage.
#[derive(Debug, Clone)]
pub(crate) struct LogStorage {
    pub store: Arc<Store>,
    /// Whether a start forgets that this server had won its election: see `read_vote`.
    pub asks_anew: bool,
}

impl LogStorage {
    /// Stops all writes to the store after a file error, because such an error ends consensus. `InvalidInput` is no
    /// fault of the files and does not count.
    fn noted<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.inspect_err(|error| {
            if error.kind() != io::ErrorKind::InvalidInput {
                self.store.give_up(error);
            }
        })
    }

    fn read(&self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut next = start.max(self.store.oldest());
        while next < end {
            let records = self.store.read(next..end, READ_BYTES)?;
            let Some(last) = records.last() else { break };
            next = last.position.index + 1;
            for record in records {
                entries.push(adapt::entry(record)?);
            }
        }
        Ok(entries)
    }
}

impl<R: Send + Sync + 'static> RaftLogReader<Types<R>> for LogStorage {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end + 1,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        self.noted(self.read(start, end))
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<Entry>> {
        let read = self.store.read(start..end, REPLICATION_BYTES);
        self.noted(read.and_then(|records| records.into_iter().map(adapt::entry).collect()))
    }

    /// Only called at a start. A restarted leader of several voters must not go on in its term: its disk does not tell
    /// how far that term had committed, so its reads could be older than acknowledged writes. Only its vote for itself
    /// is kept.
    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        let vote = adapt::decode_vote(&self.store.vote())?;
        Ok(vote.map(|vote| match vote.leader_id() {
            leader if self.asks_anew => Vote::new(leader.term, leader.voted_for),
            _ => vote,
        }))
    }
}

impl<R: Send + Sync + 'static> RaftLogStorage<Types<R>> for LogStorage {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types<R>>> {
        Ok(LogState {
            last_purged_log_id: self.store.floor().last().map(adapt::log_id),
            last_log_id: self.store.last().last().map(adapt::log_id),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let vote = adapt::encode_vote(vote);
        on_disk(|done| self.store.save_vote(vote, done)).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        self.noted(self.store.save_committed(adapt::edge(committed.as_ref())))
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.store.committed().last().map(adapt::log_id))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types<R>>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let records = entries.into_iter().map(adapt::record).collect();
        self.store.append(records, Box::new(|outcome| callback.io_completed(outcome)))
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let next = adapt::edge(last.as_ref()).next;
        on_disk(|done| self.store.truncate(next, done)).await
    }

    async fn purge(&mut self, last: LogId) -> io::Result<()> {
        let floor = Edge::after(adapt::position(&last));
        on_disk(|done| self.store.purge(floor, done)).await
    }
}

/// Waits until a change is on disk.
async fn on_disk(change: impl FnOnce(Done) -> io::Result<()>) -> io::Result<()> {
    let (tx, rx) = oneshot::channel();
    change(Box::new(move |outcome| {
        // The receiver is gone when openraft was shut down meanwhile.
        let _ = tx.send(outcome);
    }))?;
    rx.await.map_err(|_| io::Error::other("the log's writer stopped"))?
}
