//! Source of the event stream: the changes of every applied entry become events, encoded once, kept in a bounded tail
//! and a durable history.
//!
//! The apply thread only queues shared rows. One thread of the hub encodes them, a second one writes the history.
//! Subscribers read the tail, or the history when their cursor is older than the tail. Readers never hold up writers.

mod batch;
mod block;
pub(crate) mod error;
mod filter;
mod history;
mod inbox;
mod json;
mod payloads;
mod permit;
mod rendering;
mod sink;
mod snapshot;
mod subscription;
mod tail;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use songline_commands::Kind;
use songline_projections::Change;
use tokio::sync::{Semaphore, watch};
// Over a history in memory time is the simulation's; without one both clocks are the same.
use tokio::time::Instant;

pub use batch::{Batch, Dialect, EncodedEvent, Format, Label, full_frame};
pub use block::Block;
pub use error::HistoryError;
pub use filter::{Expression, Interest, InvalidTopic};
pub use history::{History, StoredHistory};
pub use payloads::Payloads;
pub use permit::Permit;
pub use sink::UnusableSink;
pub use subscription::{CLOSED, Start, Subscription};

use inbox::{Inbox, Item};
use rendering::Renderings;
use tail::Tail;
/// Number of subscribers that may read the history at the same time.
const HISTORY_READERS_MAX: usize = 4;
/// Interval at which a checkpoint checks how far the history is written.
const HISTORY_LOOK: Duration = Duration::from_millis(5);
/// Back-off before the second attempt to reopen a failed history. It doubles after every failed attempt ..
const REOPEN_AFTER: Duration = Duration::from_secs(1);
/// .. up to this bound.
const REOPEN_AFTER_MAX: Duration = Duration::from_secs(30);
/// Longest time until the mark of the history follows entries without events.
const MARK_INTERVAL: Duration = Duration::from_millis(500);

/// Bounds of the tail in memory. Both hold: the first one that is reached counts.
#[derive(Debug, Clone, Copy)]
pub struct HubConfig {
    /// Entries kept in memory.
    pub tail_batches_max: usize,
    /// Bytes of msgpack kept in memory. JSON that subscribers asked for comes on top.
    pub tail_bytes_max: usize,
    /// Frames that a plain request without an index starts with; the reference's `event_buffer_size`.
    pub backlog_frames: usize,
    /// Selects entries whose events the hub loses on purpose: the simulation shows with it that its checkers notice.
    pub skips: Option<fn(u64) -> bool>,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self { tail_batches_max: 4096, tail_bytes_max: 64 << 20, backlog_frames: 100, skips: None }
    }
}

/// State of the hub that subscribers are notified of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct News {
    /// Index of the newest entry in the tail.
    index: u64,
    /// Rises when the state was replaced: every stream of an older epoch ends.
    epoch: u64,
    /// The hub is closed.
    closed: bool,
}

/// Counters of all streams since the start, and the number of open streams.
#[derive(Debug, Default)]
struct Counts {
    subscribers: AtomicU64,
    frames: AtomicU64,
    bytes: AtomicU64,
    fell_behind: AtomicU64,
    gaps: AtomicU64,
}

/// Number of open streams, and counters of all streams since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamCounts {
    /// Streams that are open.
    pub subscribers: u64,
    /// Frames with events that were handed to subscribers.
    pub frames: u64,
    /// Bytes of these frames, before compression.
    pub bytes: u64,
    /// Times that a subscriber that had been reading from memory found its next entry dropped from memory.
    pub fell_behind: u64,
    /// Times that entries which a subscriber still wanted were gone from memory and history. The plain dialect has no
    /// mark for a gap.
    pub gaps: u64,
}

/// The source of all event streams of a server.
pub struct EventHub {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Writer of the history in a hub without threads.
    writer: Mutex<Writer>,
}

struct Shared {
    config: HubConfig,
    inbox: Inbox,
    tail: Mutex<Tail>,
    news: watch::Sender<News>,
    history: Option<Arc<dyn History>>,
    history_turns: Arc<Semaphore>,
    renderings: Mutex<Renderings>,
    /// Batches and resets that the history has not written yet.
    unwritten: Inbox,
    counts: Counts,
    /// Subscribers that wait for an entry which has not passed here yet. Only they are woken by entries without events.
    ahead: AtomicUsize,
    /// First index after the last restored archive. Entries before it belong to another history, even while they are
    /// not dropped yet.
    floor: AtomicU64,
}

impl EventHub {
    /// Starts a hub whose first published entry will be `first_index`. A history that ends before the entry preceding
    /// it is marked as lost and begins anew at `first_index`: otherwise no reader would notice the missing entries.
    ///
    /// Over a history in memory the hub has no threads: what is published is encoded and written at once.
    pub fn start(
        config: HubConfig,
        history: Option<Arc<dyn History>>,
        first_index: u64,
    ) -> Result<Arc<Self>, HistoryError> {
        let shared = Shared::new(config, history, first_index)?;
        let mut threads = Vec::new();
        if shared.has_threads() {
            threads.push(spawn("events-encode", Arc::clone(&shared), Shared::encode_loop)?);
            if shared.history.is_some() {
                threads.push(spawn("events-history", Arc::clone(&shared), Shared::history_loop)?);
            }
        }
        Ok(Arc::new(Self { shared, threads: Mutex::new(threads), writer: Mutex::default() }))
    }

    /// Encodes and writes all queued entries in a hub without threads.
    fn news(&self) {
        let shared = &self.shared;
        if shared.has_threads() {
            return;
        }
        let queued = |inbox: &Inbox| inbox.take(Duration::ZERO).unwrap_or_default();
        shared.encode(queued(&shared.inbox), &mut Vec::new());
        let settled = shared.settled();
        if let Some(history) = &shared.history {
            self.writer.lock().write(shared, &**history, queued(&shared.unwritten), settled);
        }
    }

    /// Queues the changes of an entry. Call it in the order of the entries, after the entry's view is published. It
    /// neither encodes nor waits.
    pub fn publish(&self, index: u64, kind: Kind, changes: Arc<Vec<Change>>) {
        if crate::entry::restores(kind, &changes) {
            self.begin_after(index);
        } else if crate::event::is_silent(&changes) {
            self.shared.inbox.pass(index);
            self.shared.wake_those_ahead();
        } else {
            self.shared.inbox.push(index, Item::Entry { index, kind, changes });
            self.news();
        }
    }

    /// Marks all entries up to `index` as published. The newest of them may have no events.
    pub fn pass(&self, index: u64) {
        self.shared.inbox.pass(index);
        self.news();
        self.shared.wake_those_ahead();
    }

    /// Ends all streams, because the state was replaced at `index` by a restored archive or by the state of another
    /// server. Entries before `index` are never published here: a subscriber that returns with an older index gets a
    /// gap mark.
    pub fn begin_after(&self, index: u64) {
        self.shared.inbox.push(index, Item::Reset { index });
        self.news();
    }

    /// Counters of the hub's streams.
    pub fn counts(&self) -> StreamCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { subscribers, frames, bytes, fell_behind, gaps } = &self.shared.counts;
        StreamCounts {
            subscribers: read(subscribers),
            frames: read(frames),
            bytes: read(bytes),
            fell_behind: read(fell_behind),
            gaps: read(gaps),
        }
    }

    /// Index of the newest entry whose events, if it has any, can be read.
    pub fn settled(&self) -> u64 {
        self.shared.settled()
    }

    /// Returns once the events of all entries up to `index` can be read; false when that takes longer than `within`.
    pub async fn reach(&self, index: u64, within: Duration) -> bool {
        let mut news = self.shared.news.subscribe();
        // Counted before it looks, as in `Subscription::caught_up`: entries without events wake only those counted.
        let _ahead = Ahead::new(&self.shared);
        let reached = tokio::time::timeout(within, news.wait_for(|_| self.settled() >= index)).await;
        matches!(reached, Ok(Ok(_)))
    }

    /// Index of the newest entry in the history: later entries have to be published again after a restart. 0 without
    /// a history.
    pub fn history_last(&self) -> u64 {
        self.shared.history.as_ref().map_or(0, |history| history.last())
    }

    /// Returns once the history holds everything up to `index` durably; false when that takes longer than `within`.
    /// Blocks. Entries that a checkpoint covers are not replayed, so a checkpoint calls this before it takes effect.
    pub fn write_through(&self, index: u64, within: Duration) -> Result<bool, HistoryError> {
        let Some(history) = &self.shared.history else { return Ok(true) };
        let deadline = Instant::now() + within;
        self.news();
        while history.last() < index {
            if !self.shared.has_threads() || Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(HISTORY_LOOK);
        }
        history.sync()?;
        Ok(true)
    }

    /// Drops history before `index`, because the log was truncated there.
    pub fn forget_before(&self, index: u64) -> Result<(), HistoryError> {
        match &self.shared.history {
            Some(history) => history.forget_before(index),
            None => Ok(()),
        }
    }

    /// Ends all streams and writes the rest of the history. Blocks until that is done.
    pub fn close(&self) {
        self.shared.inbox.close();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the event hub has panicked");
            }
        }
    }
}

impl Drop for EventHub {
    fn drop(&mut self) {
        self.close();
    }
}

/// One waiter in the count of [`Shared::ahead`].
struct Ahead(Arc<Shared>);

impl Ahead {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.ahead.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.ahead.fetch_sub(1, Ordering::SeqCst);
    }
}

fn spawn(name: &str, shared: Arc<Shared>, run: fn(&Shared)) -> Result<JoinHandle<()>, HistoryError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared)).map_err(HistoryError::Thread)
}

/// Back-off of the attempts to reopen a failed history.
struct Failing {
    next: Instant,
    wait: Duration,
}

impl Failing {
    fn new() -> Self {
        Self { next: Instant::now(), wait: REOPEN_AFTER }
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next;
        if due {
            self.next = now + self.wait;
            self.wait = (self.wait * 2).min(REOPEN_AFTER_MAX);
        }
        due
    }
}

impl Shared {
    fn new(config: HubConfig, history: Option<Arc<dyn History>>, first_index: u64) -> Result<Arc<Self>, HistoryError> {
        if let Some(history) = &history
            && history.last() + 1 < first_index
        {
            history.lose(first_index)?;
        }
        let applied = first_index.saturating_sub(1);
        Ok(Arc::new(Self {
            config,
            inbox: Inbox::new(applied),
            tail: Mutex::new(Tail::new(applied)),
            news: watch::Sender::new(News { index: applied, ..News::default() }),
            unwritten: Inbox::new(applied),
            counts: Counts::default(),
            ahead: AtomicUsize::new(0),
            floor: AtomicU64::new(0),
            history_turns: Arc::new(Semaphore::new(HISTORY_READERS_MAX)),
            renderings: Mutex::default(),
            history,
        }))
    }

    /// Reopens the history. Entries that it lost are written again from the tail; when the tail no longer has them,
    /// the history is marked as lost and begins after them.
    fn reopen(&self, history: &dyn History, batches: &mut Vec<Arc<Batch>>) {
        let before = history.last();
        let reopened = history.reopen().and_then(|()| {
            let after = history.last();
            if after >= before {
                return Ok(());
            }
            let tail = self.tail.lock().after(after, usize::MAX);
            match tail {
                tail::Read::Batches(mut kept) => {
                    kept.retain(|batch| batches.iter().all(|waiting| waiting.index != batch.index));
                    batches.extend(kept);
                    batches.sort_by_key(|batch| batch.index);
                    Ok(())
                }
                tail::Read::Nothing => Ok(()),
                tail::Read::Behind => history.lose(before + 1),
            }
        });
        if let Err(error) = reopened {
            tracing::debug!(error = &error as &dyn std::error::Error, "event history cannot be opened yet");
        }
    }

    /// Whether threads encode and write what is published.
    fn has_threads(&self) -> bool {
        self.history.as_ref().is_none_or(|history| !history.is_in_memory())
    }

    fn settled(&self) -> u64 {
        match self.inbox.settled() {
            Some(index) => index,
            // Entries are being encoded. The newest of the tail is a lower bound, and it can be read.
            None => self.tail.lock().last_index(),
        }
    }

    /// Encodes queued entries until the hub is closed and the queue is empty.
    fn encode_loop(&self) {
        let mut buffer = Vec::new();
        while let Some(items) = self.inbox.take(Duration::from_secs(3600)) {
            self.encode(items, &mut buffer);
        }
        self.unwritten.close();
        self.news.send_modify(|news| news.closed = true);
    }

    fn encode(&self, items: Vec<Item>, buffer: &mut Vec<u8>) {
        for item in items {
            match item {
                Item::Reset { index } => {
                    // First the epoch: a subscriber that finds it unchanged after a read has read nothing of the new
                    // state.
                    self.news.send_modify(|news| {
                        news.index = index;
                        news.epoch += 1;
                    });
                    self.unwritten.push(index, Item::Reset { index });
                    self.floor.store(index + 1, Ordering::Release);
                    self.tail.lock().clear(index);
                }
                Item::Entry { index, .. } if self.config.skips.is_some_and(|skips| skips(index)) => {}
                Item::Entry { index, kind, changes } => {
                    let batch = Arc::new(Batch::encode_in(buffer, index, kind, &changes));
                    // The batch is queued for the history before it enters the tail: the history's thread takes the
                    // tail's newest entry as its mark, and writes only batches above its mark.
                    if self.history.is_some() {
                        self.unwritten.push(index, Item::Batch(Arc::clone(&batch)));
                    }
                    if !batch.is_empty() {
                        self.tail.lock().push(batch, &self.config);
                    }
                    self.news.send_modify(|news| news.index = index);
                }
                // Only the history's queue holds batches.
                Item::Batch(_) => {}
            }
        }
        self.inbox.done();
        self.wake_those_ahead();
    }

    /// Wakes the subscribers that wait for an entry which has just passed. A subscriber is counted before it looks once
    /// more (`Subscription::caught_up`), and the index has passed before the count is read here: with `SeqCst` at least
    /// one of the two sees the other, so no subscriber sleeps over its entry.
    fn wake_those_ahead(&self) {
        if self.ahead.load(Ordering::SeqCst) > 0 {
            self.news.send_modify(|news| news.index = news.index.max(self.settled()));
        }
    }

    /// Writes the history, several entries at once when they arrive quickly.
    fn history_loop(&self) {
        let Some(history) = &self.history else { return };
        crate::background::give_way();
        let mut writer = Writer::default();
        loop {
            // Read before the queue is taken: everything up to `settled` is queued by now, so the history covers it
            // after the write.
            let settled = self.settled();
            let Some(items) = self.unwritten.take(MARK_INTERVAL) else { break };
            writer.write(self, &**history, items, settled);
        }
        writer.close(self, &**history);
    }
}

/// Events that are not in the history yet.
#[derive(Default)]
struct Writer {
    /// Batches to be written. They stay after a failed write: that costs memory, but no reader gets an unnoticed
    /// hole.
    batches: Vec<Arc<Batch>>,
    failing: Option<Failing>,
    /// First index of the history, when a reset of it is still to be written.
    anew: Option<u64>,
}

impl Writer {
    /// Writes queued items. Together with the history they hold all events of entries up to `settled`.
    fn write(&mut self, shared: &Shared, history: &dyn History, items: Vec<Item>, settled: u64) {
        let mut through = settled;
        for item in items {
            match item {
                Item::Batch(batch) => self.batches.push(batch),
                Item::Reset { index } => {
                    self.batches.clear();
                    through = index;
                    self.anew = Some(index + 1);
                }
                Item::Entry { .. } => {}
            }
        }
        let mut written = self.anew.map_or(Ok(()), |first| history.reset(first));
        if written.is_ok() {
            self.anew = None;
        }
        through = through.max(self.batches.last().map_or(0, |last| last.index));
        if through > history.last() {
            written = written.and_then(|()| history.append(&self.batches, through));
        }
        match written {
            Ok(()) => {
                self.batches.clear();
                if self.failing.take().is_some() {
                    tracing::info!("event history is written again");
                }
            }
            // Streams that need the missing entries wait for them.
            Err(error) => {
                let failing = self.failing.get_or_insert_with(|| {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "writing event history; it is opened anew and tried again"
                    );
                    Failing::new()
                });
                if failing.is_due() {
                    shared.reopen(history, &mut self.batches);
                }
            }
        }
        shared.unwritten.done();
    }

    fn close(mut self, shared: &Shared, history: &dyn History) {
        if self.failing.is_some() {
            shared.reopen(history, &mut self.batches);
        }
        let closed = history.append(&self.batches, shared.settled()).and_then(|()| history.sync());
        if let Err(error) = closed {
            tracing::warn!(error = &error as &dyn std::error::Error, "closing event history");
        }
    }
}
