//! One reader of the event stream: where it stands, where it reads from, and the marks it is told.
//!
//! It reads the tail; when the tail has dropped what comes next, the history, until it has caught up again. Nothing is skipped: what
//! neither has any more is told as a gap.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;

use super::batch::{Batch, Format, mark};
use super::filter::Interest;
use super::tail::Read;
use super::{EventHub, News, Shared};

/// An idle stream says that it lives so often.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// A subscriber in our dialect learns so often how far the log is, when no frame tells it.
const CHECKPOINT: Duration = Duration::from_secs(10);
/// Entries read at once: enough to make one write of many small frames, few enough to stay under a few megabytes.
const BATCHES_AT_ONCE: usize = 64;
/// What a plain stream ends with.
const CLOSED: &str = "subscription closed by server, client should resubscribe";

/// Which of the two forms of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The reference's frames and nothing else.
    Plain,
    /// One frame an entry, and marks.
    Ours,
}

/// Where a stream starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// As the reference reads `index`.
    Plain(u64),
    /// With the first entry after this one.
    After(u64),
    /// With what comes next.
    Now,
}

/// A stream that is about to start.
pub struct Subscription {
    hub: Arc<EventHub>,
    interest: Interest,
    format: Format,
    dialect: Dialect,
    /// Index of the last entry that was dealt with.
    cursor: u64,
    news: watch::Receiver<News>,
    epoch: u64,
    everything: bool,
    /// Whether the reader has been told that it is at the end.
    caught_up: bool,
    /// The highest index that the reader has been told.
    told: u64,
}

enum Next {
    Frames(Bytes),
    Waiting,
    Ended,
}

impl EventHub {
    /// A new reader.
    pub fn subscribe(self: &Arc<Self>, interest: Interest, format: Format, dialect: Dialect, start: Start) -> Subscription {
        let news = self.shared.news.subscribe();
        let epoch = news.borrow().epoch;
        let cursor = match start {
            Start::Plain(index) => self.shared.tail.lock().plain_start(index, self.shared.config.backlog_frames),
            Start::After(index) => index,
            Start::Now => self.settled(),
        };
        let everything = interest.is_everything();
        Subscription { hub: Arc::clone(self), interest, format, dialect, cursor, news, epoch, everything, caught_up: false, told: 0 }
    }
}

impl Subscription {
    /// The frames, until the hub closes, the state is replaced or `shutdown` is cancelled.
    pub fn into_stream(mut self, shutdown: CancellationToken) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
        async_stream::stream! {
            yield Ok(mark(self.format, &json!({})));
            let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
            heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut checkpoint = tokio::time::interval_at(Instant::now() + CHECKPOINT, CHECKPOINT);
            checkpoint.set_missed_tick_behavior(MissedTickBehavior::Delay);
            if let Some(gap) = self.gap() {
                yield Ok(gap);
            }
            loop {
                match self.next().await {
                    Next::Frames(frames) => {
                        if !frames.is_empty() {
                            yield Ok(frames);
                        }
                        continue;
                    }
                    Next::Ended => break,
                    Next::Waiting => {}
                }
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => break,
                    _ = heartbeat.tick() => yield Ok(mark(self.format, &json!({}))),
                    changed = self.news.changed() => if changed.is_err() { break },
                    _ = checkpoint.tick(), if self.dialect == Dialect::Ours => {
                        if let Some(frame) = self.checkpoint() {
                            yield Ok(frame);
                        }
                    }
                }
            }
            if self.dialect == Dialect::Plain {
                yield Ok(Bytes::from_static(CLOSED.as_bytes()));
            }
        }
    }

    /// Says what cannot be had any more, and goes on after it.
    fn gap(&mut self) -> Option<Bytes> {
        let oldest = self.oldest();
        if self.cursor + 1 >= oldest {
            return None;
        }
        self.cursor = oldest - 1;
        (self.dialect == Dialect::Ours).then(|| mark(self.format, &json!({"Index": 0, "Gap": {"Oldest": oldest}})))
    }

    /// Index of the oldest entry whose events can still be read.
    fn oldest(&self) -> u64 {
        let in_memory = self.shared().tail.lock().complete_after() + 1;
        match &self.shared().history {
            Some(history) => in_memory.min(history.oldest()).max(self.shared().floor.load(Ordering::Acquire)),
            None => in_memory,
        }
    }

    async fn next(&mut self) -> Next {
        let news = *self.news.borrow_and_update();
        if news.epoch != self.epoch || news.closed {
            return Next::Ended;
        }
        let settled = self.hub.settled();
        let read = self.shared().tail.lock().after(self.cursor, BATCHES_AT_ONCE);
        match read {
            Read::Batches(batches) => Next::Frames(self.frames(&batches)),
            Read::Nothing => self.caught_up(settled),
            Read::Behind => self.read_history().await,
        }
    }

    /// Nothing up to `settled` is left to be read.
    fn caught_up(&mut self, settled: u64) -> Next {
        self.cursor = self.cursor.max(settled);
        if self.dialect == Dialect::Plain || self.caught_up {
            return Next::Waiting;
        }
        self.caught_up = true;
        self.told = self.cursor;
        Next::Frames(mark(self.format, &json!({"Index": self.cursor, "CaughtUp": true})))
    }

    fn checkpoint(&mut self) -> Option<Bytes> {
        let settled = self.hub.settled();
        if !matches!(self.shared().tail.lock().after(self.cursor, 1), Read::Nothing) {
            return None;
        }
        self.cursor = self.cursor.max(settled);
        if self.told >= self.cursor {
            return None;
        }
        self.told = self.cursor;
        Some(mark(self.format, &json!({"Index": self.cursor, "Checkpoint": true})))
    }

    async fn read_history(&mut self) -> Next {
        let Some(history) = self.shared().history.clone() else {
            return Next::Frames(self.gap().unwrap_or_default());
        };
        if self.dialect == Dialect::Ours && self.caught_up {
            self.caught_up = false;
            return Next::Frames(mark(self.format, &json!({"Index": self.cursor, "FellBehind": true})));
        }
        if let Some(gap) = self.gap() {
            return Next::Frames(gap);
        }
        let cursor = self.cursor;
        let read = tokio::task::spawn_blocking(move || {
            // Taken before the scan: everything up to here is in what the scan sees.
            let through = history.last();
            history.range(cursor, BATCHES_AT_ONCE).map(|batches| (through, batches))
        });
        match read.await {
            Ok(Ok((through, batches))) => {
                let frames = self.frames(&batches);
                if batches.len() < BATCHES_AT_ONCE {
                    self.cursor = self.cursor.max(through);
                }
                if self.cursor == cursor {
                    // The tail has dropped what the history is still writing.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Next::Frames(frames)
            }
            Ok(Err(error)) => {
                tracing::error!(error = &error as &dyn std::error::Error, "reading event history");
                Next::Ended
            }
            Err(_) => Next::Ended,
        }
    }

    /// What of these entries the reader wants to see, in one piece.
    fn frames(&mut self, batches: &[Arc<Batch>]) -> Bytes {
        let split = self.dialect == Dialect::Plain;
        let mut first: Option<Bytes> = None;
        let mut joined = BytesMut::new();
        let mut add = |frame: &Bytes| match (&first, joined.is_empty()) {
            (None, _) => first = Some(frame.clone()),
            (Some(one), true) => {
                joined.extend_from_slice(one);
                joined.extend_from_slice(frame);
            }
            (Some(_), false) => joined.extend_from_slice(frame),
        };
        for batch in batches {
            let before = self.told;
            if self.everything {
                batch.frames(self.format, split).iter().for_each(&mut add);
                self.told = batch.index;
            } else {
                for frame in batch.frames_of(self.format, split, |event| self.interest.wants(event)) {
                    add(&frame);
                    self.told = batch.index;
                }
            }
            debug_assert!(self.told >= before, "entries come in order");
            self.cursor = self.cursor.max(batch.index);
        }
        if joined.is_empty() { first.unwrap_or_default() } else { joined.freeze() }
    }

    fn shared(&self) -> &Shared {
        &self.hub.shared
    }
}
