//! Event sinks on the leader: one task for each sink delivers its events. This file starts and ends the tasks as the
//! table changes; `delivery` is the work of one task. Talking to receivers is the program's part: it implements
//! [`Receivers`].

mod delivery;
mod line;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use songline_model::{EventSink, EventSinkName, EventSinkProgress, Time};
use songline_projections::Change;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::Core;
use super::leadership::LeadershipTerm;
use super::metrics::Labelled;
use delivery::Delivery;

/// Receivers of events, by the kinds of sinks.
pub trait Receivers: fmt::Debug + Send + Sync + 'static {
    /// Whether events can be delivered to a sink; the reason if not.
    fn takes(&self, sink: &EventSink) -> Result<(), String>;

    /// The receiver of a sink in its run `run`. Nothing is connected yet.
    fn open(&self, sink: &EventSink, run: u64) -> Result<Box<dyn Receiver>, DeliveryError>;
}

/// One receiver of events.
pub trait Receiver: Send + Sync {
    /// Delivers frames, in their order. Success means that the receiver has all of them for good. After a failure it
    /// may have any of them, and gets them again.
    fn deliver<'a>(&'a mut self, parcel: &'a Parcel) -> Delivering<'a>;
}

/// Answer to [`Receiver::deliver`].
pub type Delivering<'a> = Pin<Box<dyn Future<Output = Result<(), DeliveryError>> + Send + 'a>>;

/// Frames that are delivered together: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// The frames, in the order of the log.
    pub frames: Vec<Frame>,
    /// Time of the delivery, for signatures.
    pub at: Time,
}

impl Parcel {
    /// Index up to which the sink has everything once the parcel is delivered.
    pub fn last(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.position)
    }

    /// Index of the first frame.
    pub fn first(&self) -> u64 {
        self.frames.first().map_or(0, |frame| frame.position)
    }
}

/// The events of one log entry, or a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Index of the entry; of a gap, the index of the last entry that is gone.
    pub position: u64,
    /// The frame as the event stream shows it: a JSON object and a line feed.
    pub line: Bytes,
    /// Number of events; 0 is a gap.
    pub events: u64,
}

/// Failure of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeliveryError(pub String);

/// State of the deliveries on this server while it leads.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// Notified when sinks may have to begin, to end or to begin anew.
    changed: Notify,
    standings: Mutex<BTreeMap<EventSinkName, Standing>>,
}

/// How far the delivery to one sink has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Standing {
    /// Index up to which every event of the sink was delivered.
    reached: u64,
    /// Whether all events up to now were delivered.
    idle: bool,
    /// Whether the last delivery failed.
    failing: bool,
}

impl Deliveries {
    /// Has the tasks compared with the table.
    pub(super) fn look_again(&self) {
        self.changed.notify_one();
    }

    /// Looks at a change of any table.
    pub(super) fn on_change(&self, change: &Change) {
        let run = |row: &Option<Arc<EventSinkProgress>>| row.as_ref().map(|row| row.run);
        if let Change::EventSinkProgress { before, after } = change
            && run(before) != run(after)
        {
            self.look_again();
        }
    }

    /// Forgets everything at the end of a leadership term.
    pub(super) fn forget(&self) {
        self.standings.lock().clear();
    }

    fn set(&self, name: &EventSinkName, standing: Standing) {
        // A task that has just been ended must not leave a standing behind: its sink may be gone.
        if let Some(known) = self.standings.lock().get_mut(name) {
            *known = standing;
        }
    }
}

impl Core {
    /// Index up to which this server has delivered all events of a sink. `None` if it does not deliver to the sink.
    pub(super) fn event_sink_reached(&self, name: &str) -> Option<u64> {
        let standing = self.leader.event_sinks.standings.lock().get(name).copied()?;
        Some(if standing.idle { self.view().applied_index() } else { standing.reached })
    }

    /// Whether this server can deliver to a sink; the reason if not.
    pub(super) fn takes_event_sink(&self, sink: &EventSink) -> Result<(), String> {
        match &self.facts.config.event_receivers {
            Some(receivers) => receivers.takes(sink),
            None => Err("this server delivers no events".to_owned()),
        }
    }

    /// Lag in entries and failure (0 or 1) of each sink that this server delivers to.
    pub(super) fn event_sink_gauges(&self) -> (Labelled, Labelled) {
        let applied = self.view().applied_index();
        let standings = self.leader.event_sinks.standings.lock();
        let lag = |it: &Standing| if it.idle { 0 } else { applied.saturating_sub(it.reached) };
        let lags = standings.iter().map(|(name, it)| (name.to_string(), lag(it))).collect();
        let failing = standings.iter().map(|(name, it)| (name.to_string(), u64::from(it.failing))).collect();
        (lags, failing)
    }
}

/// Starts the deliveries; they end with the leadership term.
pub(crate) fn start(core: &Arc<Core>, term: &Arc<LeadershipTerm>) {
    let Some(receivers) = core.facts.config.event_receivers.clone() else { return };
    let (core, under) = (Arc::clone(core), Arc::clone(term));
    term.spawn(async move { run(&core, &under, &receivers).await });
}

/// A task and the run of its sink.
struct Running {
    run: u64,
    _task: AbortOnDropHandle<()>,
}

async fn run(core: &Arc<Core>, term: &Arc<LeadershipTerm>, receivers: &Arc<dyn Receivers>) {
    let mut running: BTreeMap<EventSinkName, Running> = BTreeMap::new();
    loop {
        let view = core.view();
        let wanted = view.event_sinks().filter_map(|sink| Some((sink, view.event_sink_progress(&sink.id)?)));
        let wanted: Vec<_> = wanted.map(|(sink, progress)| (Arc::clone(sink), Arc::clone(progress))).collect();
        // Ends the tasks of sinks that are gone or were changed: a handle aborts its task when it is dropped.
        running.retain(|name, task| wanted.iter().any(|(sink, progress)| sink.id == *name && progress.run == task.run));
        let deliveries = &core.leader.event_sinks;
        deliveries.standings.lock().retain(|name, _| running.contains_key(name));
        for (sink, progress) in wanted {
            if running.contains_key(&sink.id) {
                continue;
            }
            let standing = Standing { reached: progress.position, ..Standing::default() };
            deliveries.standings.lock().insert(sink.id.clone(), standing);
            let delivery = Delivery::new(Arc::clone(core), Arc::clone(term), Arc::clone(receivers), &sink, &progress);
            let task = AbortOnDropHandle::new(tokio::spawn(delivery.run()));
            running.insert(sink.id.clone(), Running { run: progress.run, _task: task });
        }
        deliveries.changed.notified().await;
    }
}
