//! The allocations of one simulated node: a machine without a clock. [`super::node`] makes the calls and waits for the
//! deadlines.
//!
//! An allocation that waits for nothing costs a few words, so that millions fit into one process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use songline_client::core::{Jitter, is_reconnect};
use songline_model::{AllocDeploymentStatus, AllocId, Allocation, FlatMap, Time};
use songline_rpc::AllocReport;

use super::behaviour::{Behaviour, End};
use super::reports::{self, States, Step};
use super::tally::Tally;
use super::updates::{Updates, Urgency};

/// Phase of an allocation on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Pending,
    Running,
    Dead,
}

/// An allocation on the node.
#[derive(Debug)]
struct Held {
    /// `alloc_modify_index` of the copy that the node has fetched.
    index: u64,
    phase: Phase,
    waits: Option<Box<Waits>>,
}

/// Deadlines of an allocation, and the data that is needed then.
#[derive(Debug)]
struct Waits {
    alloc: Arc<Allocation>,
    states: Option<Arc<States>>,
    health: Option<AllocDeploymentStatus>,
    start: Option<Time>,
    healthy: Option<Time>,
    end: Option<(Time, End)>,
    stop: Option<Time>,
}

impl Waits {
    fn of(alloc: Arc<Allocation>, states: Option<Arc<States>>) -> Self {
        let health = alloc.deployment_status.as_deref().cloned();
        Self { alloc, states, health, start: None, healthy: None, end: None, stop: None }
    }

    fn next(&self) -> Option<Time> {
        [self.start, self.healthy, self.end.map(|(at, _)| at), self.stop].into_iter().flatten().min()
    }
}

/// The allocations of a node.
#[derive(Debug)]
pub(super) struct Allocs {
    behaviour: Arc<Behaviour>,
    tally: Arc<Tally>,
    jitter: Jitter,
    held: BTreeMap<AllocId, Held>,
    timers: BTreeSet<(Time, AllocId)>,
    updates: Updates,
}

impl Allocs {
    pub(super) fn new(behaviour: Arc<Behaviour>, tally: Arc<Tally>, jitter: Jitter) -> Self {
        let updates = Updates::new(behaviour.update_interval, behaviour.typical_ticks);
        Self { behaviour, tally, jitter, held: BTreeMap::new(), timers: BTreeSet::new(), updates }
    }

    /// The allocations of the servers' list that have to be fetched. Allocations that are not in the list are dropped.
    pub(super) fn on_listed(&mut self, listed: &FlatMap<AllocId, u64>) -> Vec<AllocId> {
        // Both are ordered by id, and the list comes with every placement on the node: one pass over both.
        let (mut gone, mut wanted) = (Vec::new(), Vec::new());
        let mut held = self.held.iter().peekable();
        for (id, index) in listed {
            while let Some((lost, _)) = held.next_if(|(known, _)| *known < id) {
                gone.push(*lost);
            }
            match held.next_if(|(known, _)| *known == id) {
                Some((_, known)) if known.index >= *index => {}
                Some(_) | None => wanted.push(*id),
            }
        }
        gone.extend(held.map(|(id, _)| *id));
        for id in gone {
            self.enter(id, Phase::Dead);
            self.wait(id, None);
            self.held.remove(&id);
            self.updates.forget(id);
        }
        wanted
    }

    /// Fetched copies of allocations.
    pub(super) fn on_fetched(&mut self, now: Time, fetched: Vec<Arc<Allocation>>) {
        for alloc in fetched {
            let (id, index) = (alloc.id, alloc.alloc_modify_index);
            match self.held.get_mut(&id) {
                None => {
                    self.held.insert(id, Held { index, phase: Phase::Dead, waits: None });
                    self.add(now, alloc);
                }
                Some(held) if held.index < index => {
                    let known = std::mem::replace(&mut held.index, index);
                    self.change(now, alloc, known);
                }
                Some(_) => {}
            }
        }
    }

    /// Ids of the running allocations.
    pub(super) fn running(&self) -> Vec<AllocId> {
        self.held.iter().filter(|(_, held)| held.phase == Phase::Running).map(|(id, _)| *id).collect()
    }

    /// Reports running allocations again; the servers had marked the node as down.
    pub(super) fn say_again(&mut self, now: Time, fetched: &[Arc<Allocation>]) {
        for alloc in fetched {
            let runs = self.held.get(&alloc.id).is_some_and(|held| held.phase == Phase::Running);
            if runs && self.updates.newest(alloc.id).is_none() {
                self.updates.put(now, reports::again(alloc), Urgency::Urgent);
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.updates.next_deadline()).min()
    }

    /// Carries out what is due. Returns the updates to send now; [`Self::on_sent`] has to follow if there are any.
    pub(super) fn on_time(&mut self, now: Time) -> Vec<AllocReport> {
        while self.timers.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, id)) = self.timers.pop_first() {
                self.fire(now, id);
            }
        }
        self.updates.on_time(now)
    }

    /// Result of the call with the last updates.
    pub(super) fn on_sent(&mut self, now: Time, accepted: bool) {
        self.updates.on_sent(now, accepted, &mut self.jitter);
    }

    /// A new allocation.
    fn add(&mut self, now: Time, alloc: Arc<Allocation>) {
        if alloc.client_terminal() {
            return;
        }
        if alloc.server_terminal() {
            self.say(now, Step::Stopped, &alloc, None, None);
            return;
        }
        let delay = self.behaviour.starts_after(&mut self.jitter);
        if delay.nanos() <= 0 {
            self.start(now, Waits::of(alloc, None));
            return;
        }
        let states = self.say(now, Step::Received, &alloc, None, None);
        self.enter(alloc.id, Phase::Pending);
        self.wait(alloc.id, Some(Waits { start: Some(now.plus(delay)), ..Waits::of(alloc, Some(states)) }));
    }

    /// A newer copy of an allocation of which the node had the copy of index `known`.
    fn change(&mut self, now: Time, alloc: Arc<Allocation>, known: u64) {
        let id = alloc.id;
        let Some(held) = self.held.get_mut(&id) else { return };
        let phase = held.phase;
        let before = held.waits.take();
        if let Some(at) = before.as_ref().and_then(|waits| waits.next()) {
            self.timers.remove(&(at, id));
        }
        let newest = self.updates.newest(id).and_then(|update| update.task_states.clone());
        let states = before.as_ref().and_then(|waits| waits.states.clone()).or(newest);
        let states = states.or_else(|| alloc.task_states.clone());
        let mut waits = match before {
            Some(before) => Waits { alloc: Arc::clone(&alloc), ..*before },
            None => Waits::of(Arc::clone(&alloc), states.clone()),
        };
        match phase {
            Phase::Dead => {}
            Phase::Pending | Phase::Running if alloc.server_terminal() => {
                let delay = self.behaviour.stops_after(&mut self.jitter);
                waits.stop.get_or_insert(now.plus(delay));
                waits.start = None;
            }
            Phase::Pending => {}
            Phase::Running => {
                if is_reconnect(known, &alloc) {
                    let health = waits.health.clone();
                    waits.states = Some(self.say(now, Step::Reconnected, &alloc, states.as_deref(), health));
                }
                self.await_health(now, &mut waits);
            }
        }
        self.wait(id, Some(waits));
        if self.behaviour.stop_delay.max.nanos() <= 0 {
            self.fire(now, id);
        }
    }

    /// Does what is due for one allocation.
    fn fire(&mut self, now: Time, id: AllocId) {
        let Some(waits) = self.held.get_mut(&id).and_then(|held| held.waits.take()) else { return };
        let mut waits = *waits;
        if let Some(at) = waits.next() {
            self.timers.remove(&(at, id));
        }
        let due = |time: Option<Time>| time.is_some_and(|at| at <= now);
        if due(waits.stop) {
            self.finish(now, Step::Stopped, &waits);
        } else if due(waits.start) {
            self.start(now, waits);
        } else if let Some((_, end)) = waits.end.filter(|(at, _)| *at <= now) {
            if end == End::Failed && waits.alloc.deployment_id.is_some() {
                let health = waits.health.get_or_insert_default();
                if health.healthy.is_none() {
                    (health.healthy, health.timestamp) = (Some(false), Some(now));
                }
            }
            self.finish(now, Step::Ended(end), &waits);
        } else if due(waits.healthy) {
            waits.healthy = None;
            self.now_healthy(now, &mut waits);
            let states = waits.states.clone().unwrap_or_default();
            let update = reports::report(Step::Started, &waits.alloc, states, waits.health.clone());
            self.updates.put(now, update, Urgency::Typical);
            self.wait(id, Some(waits));
        } else {
            self.wait(id, Some(waits));
        }
    }

    /// The tasks run from now on.
    fn start(&mut self, now: Time, mut waits: Waits) {
        let (id, alloc) = (waits.alloc.id, Arc::clone(&waits.alloc));
        waits.start = None;
        waits.end = self.behaviour.end(&alloc, now, &mut self.jitter);
        self.await_health(now, &mut waits);
        if waits.healthy.is_some_and(|at| at <= now) {
            waits.healthy = None;
            self.now_healthy(now, &mut waits);
        }
        let health = waits.health.clone();
        waits.states = Some(self.say(now, Step::Started, &alloc, waits.states.as_deref(), health));
        self.enter(id, Phase::Running);
        self.wait(id, Some(waits));
    }

    fn await_health(&self, now: Time, waits: &mut Waits) {
        let known = waits.health.as_ref().and_then(|health| health.healthy).or_else(|| waits.alloc.health());
        if waits.alloc.deployment_id.is_some() && known.is_none() && waits.healthy.is_none() {
            waits.healthy = Some(now.plus(self.behaviour.healthy_after(&waits.alloc)));
        }
    }

    fn now_healthy(&self, now: Time, waits: &mut Waits) {
        let health = waits.health.get_or_insert_default();
        (health.healthy, health.timestamp) = (Some(true), Some(now));
    }

    /// The allocation has ended.
    fn finish(&mut self, now: Time, step: Step, waits: &Waits) {
        self.say(now, step, &waits.alloc, waits.states.as_deref(), waits.health.clone());
        let ended = match step {
            Step::Ended(End::Failed) => &self.tally.failed,
            Step::Ended(End::Complete) | Step::Stopped | Step::Received | Step::Started | Step::Reconnected => {
                &self.tally.completed
            }
        };
        ended.fetch_add(1, Ordering::Relaxed);
        self.enter(waits.alloc.id, Phase::Dead);
    }

    /// Puts an update of a step. Returns the states of the tasks after it.
    fn say(
        &mut self,
        now: Time,
        step: Step,
        alloc: &Allocation,
        before: Option<&States>,
        health: Option<AllocDeploymentStatus>,
    ) -> Arc<States> {
        let states = Arc::new(reports::after(step, alloc, before, now, self.behaviour.tells_events));
        let urgency = if step == Step::Received { Urgency::Typical } else { Urgency::Urgent };
        self.updates.put(now, reports::report(step, alloc, Arc::clone(&states), health), urgency);
        states
    }

    fn enter(&mut self, id: AllocId, phase: Phase) {
        if let Some(held) = self.held.get_mut(&id) {
            count(&self.tally, held.phase, -1);
            held.phase = phase;
            count(&self.tally, phase, 1);
        }
    }

    /// Sets what an allocation waits for. An allocation that waits for no time drops the rest.
    fn wait(&mut self, id: AllocId, waits: Option<Waits>) {
        let Some(held) = self.held.get_mut(&id) else { return };
        if let Some(at) = held.waits.as_ref().and_then(|before| before.next()) {
            self.timers.remove(&(at, id));
        }
        let next = waits.as_ref().and_then(Waits::next);
        held.waits = waits.filter(|_| next.is_some()).map(Box::new);
        if let Some(at) = next {
            self.timers.insert((at, id));
        }
    }
}

impl Drop for Allocs {
    fn drop(&mut self) {
        for held in self.held.values() {
            count(&self.tally, held.phase, -1);
        }
    }
}

fn count(tally: &Tally, phase: Phase, by: i64) {
    match phase {
        Phase::Pending => tally.pending.fetch_add(by, Ordering::Relaxed),
        Phase::Running => tally.running.fetch_add(by, Ordering::Relaxed),
        Phase::Dead => 0,
    };
}
