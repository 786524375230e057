//! Batches alloc updates for the servers: ticks of 200 ms, urgent updates at the next tick, others at every fifth.
//! The shell sends them. Nothing here blocks a runner, because only the newest update of each allocation is kept.

use std::collections::BTreeMap;

use songline_model::{AllocClientStatus, AllocDeploymentStatus, AllocId, Allocation, Dur, Time};
use songline_rpc::AllocReport;

use super::jitter::Jitter;

const TICK: Dur = Dur::from_millis(200);
/// Ticks between sends when nothing is urgent.
const TYPICAL_TICKS: u64 = 5;
const RETRY: Dur = Dur::from_secs(5);

/// Urgency of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// The servers know it already.
    None,
    /// May wait for other updates.
    Typical,
    /// Sent at the next tick.
    Urgent,
}

/// Compares an update with the last one that the servers acknowledged. Only a change of the client status is urgent.
///
/// Before the first acknowledgement the servers hold their own initial status, `pending`. (The reference lets a first
/// `running` wait for the fifth tick; a job then shows as running up to a second late.)
pub fn priority(acknowledged: Option<&AllocReport>, update: &AllocReport) -> Priority {
    match acknowledged {
        None if update.client_status == AllocClientStatus::Pending => Priority::Typical,
        None => Priority::Urgent,
        Some(known) if known.client_status != update.client_status => Priority::Urgent,
        Some(known) if known == update => Priority::None,
        Some(_) => Priority::Typical,
    }
}

/// Pending updates of a node.
#[derive(Debug)]
pub struct AllocSync {
    pending: BTreeMap<AllocId, AllocReport>,
    acknowledged: BTreeMap<AllocId, AllocReport>,
    in_flight: Option<Vec<AllocReport>>,
    /// Whether the servers have answered. Nothing is sent before: states from before a restart may be outdated.
    contacted: bool,
    started: Time,
    /// Tick number at the last send.
    last_send: u64,
    /// Newest tick that was processed: a fifth tick counts only once, and only if an update was waiting for it.
    last_seen: u64,
    not_before: Time,
    jitter: Jitter,
}

impl AllocSync {
    /// Creates the batches; ticks count from `now`.
    pub fn new(now: Time, jitter: Jitter) -> Self {
        Self {
            pending: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            in_flight: None,
            contacted: false,
            started: now,
            last_send: 0,
            last_seen: 0,
            not_before: now,
            jitter,
        }
    }

    /// The servers have listed the allocations of this node.
    pub fn on_contact(&mut self) {
        self.contacted = true;
    }

    /// Restores an update that the servers acknowledged before a restart.
    pub fn restore_acknowledged(&mut self, update: AllocReport) {
        self.acknowledged.insert(update.id, update);
    }

    /// Records the newest update of an allocation.
    pub fn put(&mut self, now: Time, update: AllocReport) {
        if self.pending.is_empty() {
            self.last_seen = self.last_seen.max(self.tick(now));
        }
        self.pending.insert(update.id, update);
    }

    /// The servers had marked the node as down: earlier acknowledgements are void, so all states are sent again,
    /// `known` at once. The servers set the node to ready only then.
    pub fn say_again(&mut self, now: Time, known: impl IntoIterator<Item = AllocReport>) {
        self.acknowledged.clear();
        // The reason to delay a retry of the last batch is gone.
        self.not_before = now;
        for update in known {
            self.put(now, update);
        }
    }

    /// The servers have changed an allocation; `copy` is theirs, `known` the newest update. Their copy lacks what they
    /// have acknowledged if they went back to an earlier state: the update is sent again. (A copy that is fetched while
    /// an update is on its way may cause an update too many.)
    pub fn compare(&mut self, now: Time, copy: &Allocation, known: AllocReport) {
        let Some(acknowledged) = self.acknowledged.get(&copy.id) else { return };
        let is_judged = |status: Option<&AllocDeploymentStatus>| status.is_some_and(|status| status.healthy.is_some());
        let lacks_health = is_judged(acknowledged.deployment_status.as_ref())
            && is_judged(known.deployment_status.as_ref())
            && !is_judged(copy.deployment_status.as_deref());
        if !copy.client_terminal() && (acknowledged.client_status != copy.client_status || lacks_health) {
            self.acknowledged.remove(&copy.id);
            self.put(now, known);
        }
    }

    /// The servers have dropped an allocation, or its runner is replaced: no earlier update is sent for it any more.
    pub fn forget(&mut self, id: &AllocId) {
        self.pending.remove(id);
        self.acknowledged.remove(id);
        // A refused batch is pending again. It must not bring back an update of the old runner while the new one waits
        // and has none.
        if let Some(batch) = &mut self.in_flight {
            batch.retain(|update| update.id != *id);
        }
    }

    /// Time at which [`Self::on_time`] is due. `None` when there is nothing to send, or nothing may be sent now.
    pub fn next_deadline(&self, now: Time) -> Option<Time> {
        if !self.contacted || self.in_flight.is_some() || self.pending.is_empty() {
            return None;
        }
        let next_tick = self.started.plus(Dur(TICK.nanos() * (self.tick(now) as i64 + 1)));
        Some(next_tick.max(self.not_before))
    }

    /// The updates to send now, if any. They stay in flight until [`Self::on_sent`].
    pub fn on_time(&mut self, now: Time) -> Option<Vec<AllocReport>> {
        if !self.contacted || self.in_flight.is_some() || self.pending.is_empty() || now < self.not_before {
            return None;
        }
        let mut urgent = false;
        for (id, update) in &self.pending {
            urgent |= priority(self.acknowledged.get(id), update) == Priority::Urgent;
        }
        let tick = self.tick(now);
        let fifths = |tick: u64| tick.saturating_sub(self.last_send) / TYPICAL_TICKS;
        let typical_due = fifths(tick) > fifths(self.last_seen);
        self.last_seen = tick;
        if !urgent && !typical_due {
            return None;
        }
        let acknowledged = &self.acknowledged;
        let batch: Vec<AllocReport> = std::mem::take(&mut self.pending)
            .into_values()
            .filter(|update| priority(acknowledged.get(&update.id), update) != Priority::None)
            .collect();
        self.last_send = tick;
        if batch.is_empty() {
            return None;
        }
        self.in_flight = Some(batch.clone());
        Some(batch)
    }

    /// Result of the last batch. Returns the updates that are acknowledged now; a refused batch is pending again,
    /// except where there is a newer update.
    pub fn on_sent(&mut self, now: Time, accepted: bool) -> Vec<AllocReport> {
        let batch = self.in_flight.take().unwrap_or_default();
        if !accepted {
            for update in batch {
                self.pending.entry(update.id).or_insert(update);
            }
            self.not_before = now.plus(self.jitter.stretched(RETRY));
            return Vec::new();
        }
        for update in &batch {
            self.acknowledged.insert(update.id, update.clone());
        }
        batch
    }

    fn tick(&self, now: Time) -> u64 {
        u64::try_from(now.since(self.started).nanos() / TICK.nanos()).unwrap_or(0)
    }
}
