//! One subscriber of the event stream: its cursor, its source (tail or history) and the marks that it gets.
//!
//! A subscriber reads the tail, or the history while the tail no longer has its next entry. No entry is skipped
//! silently: entries that neither has any more are reported as a gap. `rendering` makes the frames of an entry, `snapshot`
//! the rows before the first entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use songline_projections::State;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;

use super::batch::{Dialect, Format, mark};
use super::filter::Interest;
use super::permit::Permit;
use super::rendering::{Rendered, Rendering};
use super::snapshot::{Piece, Snapshot};
use super::tail::Read;
use super::{Ahead, EventHub, News, Shared};

/// Time between two heartbeats of a stream.
const HEARTBEAT: Duration = Duration::from_secs(30);
/// Longest time between two checkpoint marks, which tell a subscriber in our dialects the index that its stream has
/// reached.
const CHECKPOINT: Duration = Duration::from_secs(10);
/// Entries of the tail read between two checks of the clock and the permit.
const BATCHES_AT_ONCE: usize = 64;
/// Bytes prepared at once: enough for one write of many small frames, and the bound of what a stalled subscriber
/// holds.
const BYTES_AT_ONCE: usize = 32 * 1024;
/// Rounds of a busy stream between two checks for shutdown: the check takes a lock that all streams share.
const ROUNDS_BETWEEN_LOOKS: u32 = 16;
/// Wait of a subscriber for the history's writer when that has not written the entries yet that the tail dropped.
const WRITER_WAIT: Duration = Duration::from_millis(5);
/// Last frame of a stream that ends for another reason than a refusal.
pub const CLOSED: &str = "subscription closed by server, client should resubscribe";

/// Start position of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The position that the reference derives from the parameter `index`.
    Plain(u64),
    /// The oldest entry in memory.
    Oldest,
    /// The first entry after this index.
    After(u64),
    /// The next entry that is applied.
    Now,
}

/// A stream that has not started yet.
pub struct Subscription {
    hub: Arc<EventHub>,
    rendering: Arc<Rendering>,
    /// Index of the last entry that was processed.
    cursor: u64,
    news: watch::Receiver<News>,
    epoch: u64,
    snapshot: Option<Snapshot>,
    permit: Option<Arc<dyn Permit>>,
    /// Whether memory had dropped the next entry at the last read. True at first, so that a start in the history does
    /// not count as falling behind.
    behind: bool,
    /// Set by the connection when its client does not read.
    stalled: Option<Arc<AtomicBool>>,
    /// Whether the subscriber has got the caught-up mark.
    caught_up: bool,
    /// Highest index that the subscriber has been sent.
    told: u64,
    /// Present while the subscription is counted in [`Shared::ahead`].
    ahead: Option<Ahead>,
    ended: bool,
}

enum Next {
    Frames(Bytes),
    Waiting,
    Ended,
}

impl EventHub {
    /// Creates a subscription.
    pub fn subscribe(
        self: &Arc<Self>,
        interest: Interest,
        format: Format,
        dialect: Dialect,
        start: Start,
    ) -> Subscription {
        let news = self.shared.news.subscribe();
        let epoch = news.borrow().epoch;
        let cursor = match start {
            Start::Plain(index) => self.shared.tail.lock().plain_start(index, self.shared.config.backlog_frames),
            Start::Oldest => self.shared.tail.lock().complete_after(),
            Start::After(index) => index,
            Start::Now => self.settled(),
        };
        self.shared.counts.subscribers.fetch_add(1, Ordering::Relaxed);
        Subscription {
            hub: Arc::clone(self),
            rendering: self.shared.renderings.lock().get(interest, format, dialect),
            cursor,
            news,
            epoch,
            snapshot: None,
            permit: None,
            behind: true,
            stalled: None,
            caught_up: false,
            told: 0,
            ahead: None,
            ended: false,
        }
    }
}

impl Subscription {
    /// Prepends the rows of a view; the stream continues after the view's index. Take the view after subscribing: if
    /// the state is replaced between the two, the stream notices it by its epoch and ends.
    pub fn beginning_with(mut self, view: Arc<State>) -> Self {
        let snapshot = Snapshot::new(view);
        self.cursor = snapshot.index();
        self.snapshot = Some(snapshot);
        self
    }

    /// Logs the cursor when the stream is dropped while `stalled` is set.
    pub fn watched_by(mut self, stalled: Arc<AtomicBool>) -> Self {
        self.stalled = Some(stalled);
        self
    }

    /// Ends the stream as soon as `permit` refuses it.
    pub fn permitted_by(mut self, permit: Arc<dyn Permit>) -> Self {
        self.permit = Some(permit);
        self
    }

    /// The frames, until the hub closes, the state is replaced, the permit refuses or `shutdown` is cancelled.
    pub fn into_stream(
        mut self,
        shutdown: CancellationToken,
    ) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send + 'static {
        async_stream::stream! {
            let mut why = self.refusal();
            let mut heartbeat_at = Instant::now();
            let mut checkpoint_at = heartbeat_at + CHECKPOINT;
            let alarm = tokio::time::sleep_until(checkpoint_at);
            tokio::pin!(alarm);
            let ending = shutdown.clone();
            let ending = ending.cancelled();
            tokio::pin!(ending);
            let mut rounds = 0_u32;
            while why.is_none() {
                let now = Instant::now();
                if now >= heartbeat_at {
                    heartbeat_at += HEARTBEAT;
                    yield Ok(mark(self.rendering.format, &json!({})));
                }
                if now >= checkpoint_at {
                    checkpoint_at = now + CHECKPOINT;
                    if let Some(frame) = self.checkpoint() {
                        yield Ok(frame);
                    }
                }
                rounds = rounds.wrapping_add(1);
                if rounds.is_multiple_of(ROUNDS_BETWEEN_LOOKS) && shutdown.is_cancelled() {
                    break;
                }
                let before = self.cursor;
                match self.next().await {
                    Next::Frames(frames) if frames.is_empty() => tokio::task::yield_now().await,
                    Next::Frames(frames) => {
                        why = self.refusal();
                        if why.is_none() {
                            checkpoint_at = Instant::now() + CHECKPOINT;
                            yield Ok(frames);
                        } else {
                            // The frames are dropped, so the closing mark must not name an index beyond them.
                            self.cursor = before;
                        }
                    }
                    Next::Ended => break,
                    Next::Waiting => tokio::select! {
                        biased;
                        changed = self.news.changed() => if changed.is_err() { break },
                        () = &mut ending => break,
                        () = &mut alarm => alarm.as_mut().reset(heartbeat_at.min(checkpoint_at)),
                    },
                }
                if why.is_none() {
                    why = self.refusal();
                }
            }
            self.ended = true;
            yield Ok(self.closing(why.unwrap_or_else(|| CLOSED.to_owned())));
        }
    }

    /// The last frame: a mark, or the plain text in the plain dialect. Its msgpack, which the reference does not have,
    /// also ends with the mark, because a decoder cannot read a text among the maps.
    fn closing(&self, why: String) -> Bytes {
        if self.rendering.dialect.has_marks() || self.rendering.format == Format::Msgpack {
            mark(self.rendering.format, &json!({"Index": self.cursor_of_reader(), "Closed": why}))
        } else {
            Bytes::from(why)
        }
    }

    fn refusal(&self) -> Option<String> {
        self.permit.as_ref().and_then(|permit| permit.refusal())
    }

    /// Cursor with which the subscriber may resume; 0 until the snapshot is complete.
    fn cursor_of_reader(&self) -> u64 {
        if self.snapshot.is_some() { 0 } else { self.cursor }
    }

    /// Moves the cursor past entries that are gone, and returns the gap mark; `None` when no entry is missing.
    fn gap(&mut self) -> Option<Bytes> {
        let oldest = self.oldest();
        if self.cursor + 1 >= oldest {
            return None;
        }
        self.cursor = oldest - 1;
        self.shared().counts.gaps.fetch_add(1, Ordering::Relaxed);
        self.rendering
            .dialect
            .has_marks()
            .then(|| mark(self.rendering.format, &json!({"Index": 0, "Gap": {"Oldest": oldest}})))
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
        let cursor = self.cursor;
        let next = self.read().await;
        // The epoch rises before the tail and the history are cleared: what was read under the old one is whole.
        if self.news.borrow().epoch != self.epoch {
            self.cursor = cursor;
            return Next::Ended;
        }
        next
    }

    async fn read(&mut self) -> Next {
        if let Some(snapshot) = &mut self.snapshot {
            match snapshot.next(&self.rendering.interest, self.rendering.format, self.rendering.dialect) {
                Piece::Rows(frame) => return Next::Frames(frame.unwrap_or_default()),
                Piece::End => self.snapshot = None,
            }
        }
        let settled = self.hub.settled();
        let read = self.shared().tail.lock().after(self.cursor, BATCHES_AT_ONCE);
        match read {
            Read::Batches(batches) => {
                self.behind = false;
                let rendered = self.rendering.look(batches.iter().map(|batch| &**batch), BYTES_AT_ONCE);
                Next::Frames(self.seen(rendered))
            }
            Read::Nothing => {
                self.behind = false;
                self.caught_up(settled)
            }
            Read::Behind => self.read_history().await,
        }
    }

    /// Called when no entry up to `settled` is left to be read.
    fn caught_up(&mut self, settled: u64) -> Next {
        if settled < self.cursor {
            // The subscriber has a newer view, or comes from a server that is ahead of this one: the entries that it has
            // seen have yet to pass here. It looks once more after it was counted, because nobody wakes it before.
            if self.ahead.is_some() {
                return Next::Waiting;
            }
            self.ahead = Some(Ahead::new(&self.hub.shared));
            return Next::Frames(Bytes::new());
        }
        self.ahead = None;
        self.cursor = self.cursor.max(settled);
        if !self.rendering.dialect.has_marks() || self.caught_up {
            return Next::Waiting;
        }
        self.caught_up = true;
        self.told = self.cursor;
        Next::Frames(mark(self.rendering.format, &json!({"Index": self.cursor, "CaughtUp": true})))
    }

    /// The checkpoint mark of the cursor; `None` if the subscriber has been sent that index already. All entries up
    /// to the cursor were processed.
    fn checkpoint(&mut self) -> Option<Bytes> {
        if !self.rendering.dialect.has_marks() || self.snapshot.is_some() {
            return None;
        }
        let settled = self.hub.settled();
        if settled < self.cursor {
            return None;
        }
        if matches!(self.shared().tail.lock().after(self.cursor, 1), Read::Nothing) {
            self.cursor = self.cursor.max(settled);
        }
        if self.told >= self.cursor {
            return None;
        }
        self.told = self.cursor;
        Some(mark(self.rendering.format, &json!({"Index": self.cursor, "Checkpoint": true})))
    }

    async fn read_history(&mut self) -> Next {
        if !std::mem::replace(&mut self.behind, true) {
            self.shared().counts.fell_behind.fetch_add(1, Ordering::Relaxed);
        }
        let Some(history) = self.shared().history.clone() else {
            return Next::Frames(self.gap().unwrap_or_default());
        };
        if self.rendering.dialect.has_marks() && self.caught_up {
            self.caught_up = false;
            return Next::Frames(mark(self.rendering.format, &json!({"Index": self.cursor, "FellBehind": true})));
        }
        if let Some(gap) = self.gap() {
            return Next::Frames(gap);
        }
        // Few subscribers read at once: more would not speed up the disk, and each of them holds the bytes that it
        // has read.
        let Ok(turn) = Arc::clone(&self.shared().history_turns).acquire_owned().await else { return Next::Ended };
        let (cursor, rendering) = (self.cursor, Arc::clone(&self.rendering));
        let in_memory = history.is_in_memory();
        let read = move || {
            let _turn = turn;
            // Taken before the scan, so that the scan covers everything up to here.
            let through = history.last();
            let blocks = history.read(cursor, BYTES_AT_ONCE)?;
            let mut rendered = rendering.look_at_blocks(&blocks, cursor)?;
            if blocks.is_empty() {
                rendered.through = through;
            }
            Ok::<Rendered, super::error::HistoryError>(rendered)
        };
        let read = if in_memory { Ok(read()) } else { tokio::task::spawn_blocking(read).await };
        match read {
            Ok(Ok(rendered)) => {
                let frames = self.seen(rendered);
                if self.cursor == cursor {
                    // The tail has dropped entries that the history is still writing.
                    tokio::time::sleep(WRITER_WAIT).await;
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

    /// Counts the frames that the subscriber gets, and moves its cursor.
    fn seen(&mut self, rendered: Rendered) -> Bytes {
        self.cursor = self.cursor.max(rendered.through);
        self.told = self.told.max(rendered.told);
        if rendered.count > 0 {
            let counts = &self.shared().counts;
            counts.frames.fetch_add(rendered.count, Ordering::Relaxed);
            counts.bytes.fetch_add(rendered.frames.len() as u64, Ordering::Relaxed);
        }
        rendered.frames
    }

    fn shared(&self) -> &Shared {
        &self.hub.shared
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared().counts.subscribers.fetch_sub(1, Ordering::Relaxed);
        let does_not_read = self.stalled.as_ref().is_some_and(|stalled| stalled.load(Ordering::Acquire));
        if does_not_read && !self.ended {
            tracing::warn!(cursor = self.cursor_of_reader(), "an event stream was closed: its client reads nothing");
        }
    }
}
