//! Delivery to one sink: reads its events from the hub, from its position on, and hands them to the receiver until it
//! has them. The position is written after a delivery, so that a crash repeats events and never skips one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use songline_api::{Proposal, ProposeError};
use songline_commands::{Actor, EventSinkChange, MoveEventSink};
use songline_events::hub::{Dialect, Format, Interest, Start};
use songline_model::{EventSink, EventSinkProgress, Str};
use tokio::time::Instant;

use super::line::{Line, lines};
use super::{DeliveryError, Frame, Parcel, Receiver, Receivers, Standing};
use crate::leadership::LeadershipTerm;
use crate::{Core, panics};

/// Back-off after the first failure of a delivery. It doubles after every further failure ..
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// .. up to this bound.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);
/// Shortest time between two writes of the position.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// Shortest time between two writes of the same failure.
const FAILURE_EVERY: Duration = Duration::from_secs(60);
/// Number of entries without events for the sink after which the position is written nevertheless, so that it stays
/// within the kept log. A write for every mark would never end: it is an entry itself.
const ENTRIES_UNSAVED_MAX: u64 = 1000;
/// Time for which a delivery waits for further events while it has room for them.
const LINGER: Duration = Duration::from_millis(10);
/// Bytes of a delivery that has several frames.
const PARCEL_BYTES_MAX: usize = 1 << 20;
/// Longest text of a failure that is kept, in bytes.
const ERROR_BYTES_MAX: usize = 512;
/// Delay before a stream that ended is opened again, and between two looks at a history that is being filled.
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The run has ended: the sink was changed or deleted.
#[derive(Debug)]
struct Over;

/// The task of one sink.
pub(super) struct Delivery {
    core: Arc<Core>,
    term: Arc<LeadershipTerm>,
    receivers: Arc<dyn Receivers>,
    sink: Arc<EventSink>,
    receiver: Option<Box<dyn Receiver>>,
    run: u64,
    standing: Standing,
    /// Totals since the sink was created.
    delivered: u64,
    gaps: u64,
    /// Position of the row.
    saved: u64,
    /// Whether frames were delivered since the last write of the position.
    unsaved: bool,
    save_at: Instant,
    /// The failure that was written last, and the time of the write.
    told: Option<(Str, Instant)>,
    /// Lines that were read and not used yet.
    read: VecDeque<(Line, Bytes)>,
}

impl Delivery {
    pub(super) fn new(
        core: Arc<Core>,
        term: Arc<LeadershipTerm>,
        receivers: Arc<dyn Receivers>,
        sink: &Arc<EventSink>,
        progress: &EventSinkProgress,
    ) -> Self {
        Self {
            core,
            term,
            receivers,
            sink: Arc::clone(sink),
            receiver: None,
            run: progress.run,
            standing: Standing { reached: progress.position, ..Standing::default() },
            delivered: progress.delivered,
            gaps: progress.gaps,
            saved: progress.position,
            unsaved: false,
            save_at: Instant::now(),
            told: None,
            read: VecDeque::new(),
        }
    }

    /// Delivers until the run has ended or the task is dropped.
    pub(super) async fn run(mut self) {
        loop {
            match panics::caught(self.deliver_stream()).await {
                Ok(Ok(())) => {}
                Ok(Err(Over)) => return,
                Err(error) => tracing::error!(sink = %self.sink.id, %error, "delivering events; it is tried again"),
            }
            self.read.clear();
            tokio::time::sleep(OPEN_AGAIN_AFTER).await;
        }
    }

    /// Delivers the events of one stream. Streams end when the state is replaced by that of an archive.
    async fn deliver_stream(&mut self) -> Result<(), Over> {
        let interest = match Interest::of_sink(&self.sink) {
            Ok(interest) => interest,
            // The sink was admitted by another version.
            Err(error) => return self.failed(&DeliveryError(error.to_string())).await,
        };
        self.wait_for_history().await;
        let (dialect, start) = (Dialect::of_sink(&self.sink), Start::After(self.standing.reached));
        let stream = self.core.events().subscribe(interest, Format::Json, dialect, start);
        let stream = stream.into_stream(self.core.shutdown_token().clone());
        tokio::pin!(stream);
        let mut caught_up = false;
        loop {
            let gathered = self.gather(&mut stream).await?;
            if !gathered.frames.is_empty() {
                self.deliver(gathered.frames).await?;
            }
            if let Some(through) = gathered.through {
                self.standing.reached = self.standing.reached.max(through);
            }
            caught_up = gathered.caught_up.unwrap_or(caught_up);
            self.standing.idle = caught_up && self.read.is_empty();
            self.show();
            if self.standing.reached >= self.saved.saturating_add(ENTRIES_UNSAVED_MAX) {
                self.unsaved = true;
            }
            self.save_if_due().await?;
            if gathered.closed {
                return Ok(());
            }
        }
    }

    /// Waits while a lost history is filled anew: its entries would be reported as a gap.
    async fn wait_for_history(&self) {
        let is_missing = || {
            let refillings = self.core.stores.refillings();
            refillings.iter().any(|it| it.store == "events" && it.filling.before > self.standing.reached + 1)
        };
        while is_missing() {
            tokio::time::sleep(OPEN_AGAIN_AFTER).await;
        }
    }

    /// Waits for lines, and collects the frames of one parcel.
    async fn gather(
        &mut self,
        stream: &mut (impl Stream<Item = std::io::Result<Bytes>> + Unpin),
    ) -> Result<Gathered, Over> {
        let mut gathered = Gathered::default();
        loop {
            while let Some((line, bytes)) = self.read.pop_front() {
                gathered.add(line, bytes);
                if gathered.is_full(&self.sink) {
                    return Ok(gathered);
                }
            }
            let found_something = !gathered.is_empty();
            let (unsaved, save_at) = (self.unsaved, self.save_at);
            tokio::select! {
                biased;
                piece = stream.next() => match piece {
                    Some(Ok(piece)) => self.read(piece),
                    Some(Err(_)) | None => gathered.closed = true,
                },
                () = tokio::time::sleep(LINGER), if found_something => return Ok(gathered),
                () = tokio::time::sleep_until(save_at), if unsaved => self.save().await?,
            }
            if gathered.closed {
                return Ok(gathered);
            }
        }
    }

    fn read(&mut self, piece: Bytes) {
        for line in lines(piece) {
            match Line::read(&line) {
                Ok(kind) => self.read.push_back((kind, line)),
                // The hub writes JSON: a line that is none is a defect, and the stream is opened anew.
                Err(error) => {
                    tracing::error!(sink = %self.sink.id, %error, "reading a line of the event stream");
                    self.read.push_back((Line::Closed, line));
                }
            }
        }
    }

    /// Delivers frames, as often as it takes.
    async fn deliver(&mut self, frames: Vec<Frame>) -> Result<(), Over> {
        self.standing.idle = false;
        self.show();
        let mut parcel = Parcel { frames, at: self.core.now() };
        let mut wait = RETRY_AFTER;
        while let Err(error) = self.attempt(&parcel).await {
            self.core.metrics.at.event_sink_failures.add_one();
            self.failed(&error).await?;
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(RETRY_AFTER_MAX);
            parcel.at = self.core.now();
        }
        let events: u64 = parcel.frames.iter().map(|frame| frame.events).sum();
        self.core.metrics.at.event_sink_events.add(events as f64);
        self.delivered += events;
        self.gaps += parcel.frames.iter().filter(|frame| frame.events == 0).count() as u64;
        self.standing.reached = self.standing.reached.max(parcel.last());
        self.standing.failing = false;
        self.told = None;
        self.unsaved = true;
        Ok(())
    }

    async fn attempt(&mut self, parcel: &Parcel) -> Result<(), DeliveryError> {
        let receiver = match &mut self.receiver {
            Some(receiver) => receiver,
            none => none.insert(self.receivers.open(&self.sink, self.run)?),
        };
        receiver.deliver(parcel).await
    }

    /// Records a failure: in the row once, and again when it is another one or still there after a while.
    async fn failed(&mut self, error: &DeliveryError) -> Result<(), Over> {
        self.standing.failing = true;
        self.show();
        let mut text = error.to_string();
        text.truncate(text.floor_char_boundary(ERROR_BYTES_MAX));
        let text = Str::from(text);
        let now = Instant::now();
        if self.told.as_ref().is_some_and(|(told, at)| *told == text && now < *at + FAILURE_EVERY) {
            return Ok(());
        }
        tracing::warn!(sink = %self.sink.id, error = %text, "events could not be delivered; it is tried again");
        if self.unsaved {
            self.save().await?;
        }
        if self.write(EventSinkChange::Failed { run: self.run, error: text.clone() }).await? {
            self.told = Some((text, now));
        }
        Ok(())
    }

    async fn save_if_due(&mut self) -> Result<(), Over> {
        if self.unsaved && Instant::now() >= self.save_at { self.save().await } else { Ok(()) }
    }

    /// Writes the position.
    async fn save(&mut self) -> Result<(), Over> {
        let (run, position) = (self.run, self.standing.reached);
        let change = EventSinkChange::Delivered { run, position, delivered: self.delivered, gaps: self.gaps };
        if self.write(change).await? {
            self.unsaved = false;
            self.saved = position;
        }
        self.save_at = Instant::now() + SAVE_EVERY;
        Ok(())
    }

    /// Writes a change of the row. Returns whether it was written; if not, it is tried again later.
    async fn write(&self, change: EventSinkChange) -> Result<bool, Over> {
        let command = MoveEventSink { name: self.sink.id.clone(), change }.into();
        let actor = Actor::Leader("event-sinks".into());
        let proposal = Proposal { actor, cause: None, idempotency: None, command };
        match self.core.write_under(&self.term, proposal).await {
            Ok(_) => Ok(true),
            Err(ProposeError::Rejected(_)) => Err(Over),
            Err(error) => {
                tracing::debug!(sink = %self.sink.id, %error, "the progress of an event sink could not be written");
                Ok(false)
            }
        }
    }

    fn show(&self) {
        self.core.leader.event_sinks.set(&self.sink.id, self.standing);
    }
}

/// Frames of one parcel, and what marks between them say.
#[derive(Debug, Default)]
struct Gathered {
    frames: Vec<Frame>,
    bytes: usize,
    /// Index up to which every event was sent.
    through: Option<u64>,
    /// Whether the stream has caught up, if it said so.
    caught_up: Option<bool>,
    closed: bool,
}

impl Gathered {
    fn add(&mut self, line: Line, bytes: Bytes) {
        let (position, events) = match line {
            Line::Events { index, count } => (index, count),
            Line::Gap { oldest } => (oldest.saturating_sub(1), 0),
            Line::Through(index) => return self.through = Some(index),
            Line::CaughtUp(index) => {
                (self.through, self.caught_up) = (Some(index), Some(true));
                return;
            }
            Line::FellBehind => return self.caught_up = Some(false),
            Line::Closed => return self.closed = true,
            Line::Nothing => return,
        };
        self.bytes += bytes.len();
        self.frames.push(Frame { position, line: bytes, events });
    }

    fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.through.is_none() && self.caught_up.is_none()
    }

    fn is_full(&self, sink: &EventSink) -> bool {
        self.closed || self.frames.len() as u64 >= sink.batch_size.max(1) || self.bytes >= PARCEL_BYTES_MAX
    }
}
