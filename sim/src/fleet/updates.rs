//! Updates of a node that wait to be sent in one call. Only the newest of each allocation is kept.

use std::collections::BTreeMap;

use songline_client::core::Jitter;
use songline_model::{AllocId, Dur, Time};
use songline_rpc::AllocReport;

/// Delay after a failed call; up to the same time is added at random.
const RETRY: Dur = Dur::from_secs(1);

/// How long an update may wait for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    /// The client status has changed.
    Urgent,
    /// Anything else.
    Typical,
}

/// The updates of one node.
#[derive(Debug)]
pub(super) struct Updates {
    urgent: Dur,
    typical: Dur,
    waiting: BTreeMap<AllocId, AllocReport>,
    due: Option<Time>,
    in_flight: Vec<AllocReport>,
}

impl Updates {
    /// `interval`: longest wait of an urgent update. Typical ones wait for `ticks` intervals.
    pub(super) fn new(interval: Dur, ticks: u32) -> Self {
        let typical = Dur(interval.nanos().saturating_mul(i64::from(ticks.max(1))));
        Self { urgent: interval, typical, waiting: BTreeMap::new(), due: None, in_flight: Vec::new() }
    }

    pub(super) fn put(&mut self, now: Time, update: AllocReport, urgency: Urgency) {
        self.waiting.insert(update.id, update);
        let wait = match urgency {
            Urgency::Urgent => self.urgent,
            Urgency::Typical => self.typical,
        };
        let due = now.plus(wait);
        self.due = Some(self.due.map_or(due, |before| before.min(due)));
    }

    /// The newest update of an allocation that has not been acknowledged.
    pub(super) fn newest(&self, id: AllocId) -> Option<&AllocReport> {
        self.waiting.get(&id).or_else(|| self.in_flight.iter().find(|update| update.id == id))
    }

    pub(super) fn forget(&mut self, id: AllocId) {
        self.waiting.remove(&id);
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        if self.in_flight.is_empty() { self.due } else { None }
    }

    /// The updates to send now. Empty if none are due. [`Self::on_sent`] has to follow.
    pub(super) fn on_time(&mut self, now: Time) -> Vec<AllocReport> {
        if self.next_deadline().is_none_or(|due| due > now) {
            return Vec::new();
        }
        self.due = None;
        self.in_flight = std::mem::take(&mut self.waiting).into_values().collect();
        self.in_flight.clone()
    }

    /// Result of the last call. Updates that were not accepted wait again, except where there is a newer one.
    pub(super) fn on_sent(&mut self, now: Time, accepted: bool, jitter: &mut Jitter) {
        let sent = std::mem::take(&mut self.in_flight);
        if accepted {
            return;
        }
        for update in sent {
            self.waiting.entry(update.id).or_insert(update);
        }
        self.due = Some(now.plus(jitter.stretched(RETRY)));
    }
}
