//! The metrics of a server: one registry with two encoders, for the reference's JSON form and for Prometheus' text
//! form.
//!
//! A measurement touches one series, and no two series share a lock. Gauges of the tables are updated as the tables
//! change (`kept`), so a scrape reads numbers and walks no table. `docs/metrics.md` lists all metrics and their
//! units.

mod family;
mod json;
mod kept;
pub(crate) mod node;
mod process;
mod prometheus;
mod rates;
mod scheduling;
mod series;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use songline_api::{Cluster as _, RateOp, Route, Served};
use songline_commands::Kind;
use songline_model::{JobType, PlanResult, Time};
use songline_projections::{Change, State, Table};
use songline_scheduler::broker::BrokerStats;

use super::Core;
use super::machine::Reaction;
use family::{Family, Labels, Rows};
use kept::Kept;
use rates::Rates;
pub(crate) use series::Timer;
use series::{Counter, Marks, Series, Shown};
use timers::Timers;

/// Length of an interval in seconds, as in the reference. The JSON form shows the last complete one.
const INTERVAL_SECONDS: i64 = 10;
/// Interval at which the contact with the other servers is measured.
const LOOK: Duration = Duration::from_secs(1);

/// Declares instruments: help, field, kind and name of each.
macro_rules! instruments {
    ($(#[doc = $help:literal] $field:ident: $kind:ident = $name:literal;)*) => {
        /// The metrics with names that are known at compile time.
        #[derive(Debug, Default)]
        pub(crate) struct Instruments {
            $(#[doc = $help] pub(crate) $field: $kind,)*
        }

        impl Instruments {
            fn rotate(&self) {
                $(self.$field.rotate();)*
            }

            fn tell(&self, shown: Shown, out: &mut Vec<Family>) {
                $(out.push(self.$field.family($name, $help.trim(), shown));)*
            }
        }
    };
}

instruments! {
    /// Entries that this server proposed as the leader and that were applied.
    raft_apply: Counter = "nomad.raft.apply";
    /// Time from handing an entry to the log until it is committed, in milliseconds.
    raft_commit: Timer = "nomad.raft.commitTime";
    /// Time of applying an entry, in milliseconds.
    raft_fsm_apply: Timer = "nomad.raft.fsm.apply";
    /// Entries that were applied at once.
    raft_batch: Amount = "songline.raft.batch_entries";
    /// Time since a follower heard of the leader, or the leader of a follower, looked at every second; in milliseconds.
    raft_contact: Timer = "nomad.raft.leader.lastContact";
    /// How often this server became the leader.
    raft_leader: Counter = "nomad.raft.state.leader";
    /// How often this server ceased to lead.
    raft_follower: Counter = "nomad.raft.state.follower";
    /// Time until everything of earlier terms is applied when leadership begins, in milliseconds.
    leader_barrier: Timer = "nomad.nomad.leader.barrier";
    /// Time of checking a plan against the newest state, in milliseconds.
    plan_evaluate: Timer = "nomad.nomad.plan.evaluate";
    /// Time of writing a checked plan, in milliseconds.
    plan_apply: Timer = "nomad.nomad.plan.apply";
    /// Time from handing in a plan until its result, in milliseconds.
    plan_submit: Timer = "nomad.nomad.plan.submit";
    /// Time that the applier waits for the state that a plan was made on, in milliseconds.
    plan_wait: Timer = "nomad.nomad.plan.wait_for_index";
    /// Nodes of plans that were refused because they no longer fit.
    plan_node_rejected: Series = "nomad.nomad.plan.node_rejected";
    /// Plans that were checked.
    plans: Counter = "songline.plan.evaluated";
    /// Allocations that accepted plans place.
    plan_allocs_placed: Series = "songline.plan.allocs_placed";
    /// Time that a worker waits for an evaluation, in milliseconds.
    worker_dequeue: Timer = "nomad.nomad.worker.dequeue_eval";
    /// Time that a worker waits for a state that it needs, in milliseconds.
    worker_wait: Timer = "nomad.nomad.worker.wait_for_index";
    /// Time from handing in a plan until the worker may go on, in milliseconds.
    worker_submit_plan: Timer = "nomad.nomad.worker.submit_plan";
    /// Time of writing evaluations that were changed, in milliseconds.
    worker_update_eval: Timer = "nomad.nomad.worker.update_eval";
    /// Time of writing evaluations that a scheduler made, in milliseconds.
    worker_create_eval: Timer = "nomad.nomad.worker.create_eval";
    /// Time of giving an evaluation back, in milliseconds.
    worker_send_ack: Timer = "nomad.nomad.worker.send_ack";
    /// Evaluations that workers were done with, one way or the other.
    worker_evals: Counter = "songline.worker.evals_processed";
    /// Time of taking an evaluation from the broker, in milliseconds.
    eval_dequeue: Timer = "nomad.nomad.eval.dequeue";
    /// Time of acknowledging an evaluation, in milliseconds.
    eval_ack: Timer = "nomad.nomad.eval.ack";
    /// Time of giving an evaluation back as failed, in milliseconds.
    eval_nack: Timer = "nomad.nomad.eval.nack";
    /// How often work on an evaluation has panicked, in a scheduler worker or in the plan applier.
    scheduling_panics: Counter = "songline.scheduler.panics";
    /// Calls of the node RPC that came to this server.
    rpc_request: Counter = "nomad.nomad.rpc.request";
    /// Reads that this server answered, by HTTP or the node RPC.
    rpc_query: Counter = "nomad.nomad.rpc.query";
    /// Calls of the node RPC that were refused or failed.
    rpc_request_error: Counter = "nomad.nomad.rpc.request_error";
    /// Connections to the server's port.
    rpc_accept_conn: Counter = "nomad.nomad.rpc.accept_conn";
    /// Reports of nodes about allocations that they do not have.
    alloc_updates_dropped: Series = "songline.alloc_updates.dropped";
    /// Events that were delivered to event sinks.
    event_sink_events: Series = "songline.event_sinks.delivered";
    /// Deliveries to event sinks that failed and were tried again.
    event_sink_failures: Counter = "songline.event_sinks.failures";
    /// Time of a scrape, in milliseconds.
    scrape: Timer = "songline.metrics.scrape";
}

/// Amounts, shown as a summary.
#[derive(Debug, Default)]
pub(crate) struct Amount(Series);

impl Amount {
    pub(crate) fn add(&self, amount: usize) {
        self.0.add(amount as f64);
    }

    fn rotate(&self) {
        self.0.rotate();
    }

    fn family(&self, name: &'static str, help: &'static str, shown: Shown) -> Family {
        Family::summary(name, help, self.0.read(shown))
    }
}

impl Counter {
    fn family(&self, name: &'static str, help: &'static str, shown: Shown) -> Family {
        Family::counter(name, help, self.read(shown))
    }
}

impl Series {
    /// The sum of the values, as a counter.
    fn family(&self, name: &'static str, help: &'static str, shown: Shown) -> Family {
        Family::counter(name, help, self.read(shown))
    }
}

impl Timer {
    fn family(&self, name: &'static str, help: &'static str, shown: Shown) -> Family {
        Family::summary(name, help, self.read(shown))
    }
}

/// Values by the name of what they belong to.
pub(crate) type Labelled = Vec<(String, u64)>;

/// The registry of a server.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) at: Instruments,
    kept: Kept,
    rates: Rates,
    timers: Timers,
    /// Timers of scheduler runs by kind of evaluation.
    invoke_scheduler: BTreeMap<&'static str, Timer>,
    process_eval: BTreeMap<&'static str, Timer>,
    /// Number of plans that wait for the applier or are being written.
    plans_queued: AtomicUsize,
    /// Intervals of totals that are counted elsewhere, in the order of [`Core::followed`].
    followed: [Marks; FOLLOWED],
    interval: Mutex<Interval>,
}

/// Kinds of evaluations that have schedulers.
const SCHEDULERS: [&str; 4] = ["service", "batch", "system", "sysbatch"];

/// Number of totals that are counted elsewhere.
const FOLLOWED: usize = 6;

/// The current interval and the one before it.
#[derive(Debug, Clone, Copy)]
struct Interval {
    /// Start of the current interval.
    since: Instant,
    /// Start and length of the last complete interval. `None` during the first one.
    finished: Option<(Time, Duration)>,
}

impl Metrics {
    /// An empty registry. `dispatched`: whether summaries of dispatched jobs are shown.
    pub(crate) fn new(dispatched: bool) -> Self {
        let timers = || SCHEDULERS.iter().map(|kind| (*kind, Timer::default())).collect();
        Self {
            at: Instruments::default(),
            kept: Kept::new(dispatched),
            rates: Rates::default(),
            timers: Timers::default(),
            invoke_scheduler: timers(),
            process_eval: timers(),
            plans_queued: AtomicUsize::new(0),
            followed: Default::default(),
            interval: Mutex::new(Interval { since: Instant::now(), finished: None }),
        }
    }

    pub(crate) fn count_plan(&self, result: &PlanResult, rejected: usize) {
        self.at.plans.add_one();
        if rejected > 0 {
            self.at.plan_node_rejected.add(rejected as f64);
        }
        let placed: usize = result.node_allocation.values().map(Vec::len).sum();
        if placed > 0 {
            self.at.plan_allocs_placed.add(placed as f64);
        }
    }

    /// Counts a panic in work on an evaluation, in a scheduler worker or in the plan applier.
    pub(crate) fn count_panic(&self) {
        self.at.scheduling_panics.add_one();
    }

    /// Number of panics in work on evaluations.
    #[cfg(test)]
    pub(crate) fn panics(&self) -> u64 {
        self.at.scheduling_panics.read(Shown::Current).count
    }

    pub(crate) fn count_dropped_updates(&self, dropped: u64) {
        self.at.alloc_updates_dropped.add(dropped as f64);
    }

    /// Counts a request.
    pub(crate) fn count_served(&self, served: Served) {
        if served.op != RateOp::Write {
            self.at.rpc_query.add_one();
        }
        self.rates.count(served);
    }

    /// Records the time of an HTTP answer.
    pub(crate) fn measure_answer(&self, route: Route, took: Duration) {
        self.timers.route(route, took);
        if let Some(rate) = route.rate.filter(|rate| !rate.timer.is_empty()) {
            self.timers.call(rate.timer, took);
        }
    }

    /// Records the time of a call, by the reference's name of its timer. An empty name has no timer.
    pub(crate) fn measure_call(&self, timer: &'static str, took: Duration) {
        if !timer.is_empty() {
            self.timers.call(timer, took);
        }
    }

    /// Records an entry that this server proposed: its time until the answer, and the part of it that apply took.
    pub(crate) fn measure_proposal(&self, took: Duration, applying: Duration) {
        self.at.raft_apply.add_one();
        self.at.raft_commit.record(took.saturating_sub(applying));
    }

    /// Records an entry that was applied.
    pub(crate) fn measure_entry(&self, kind: Kind, took: Duration) {
        self.at.raft_fsm_apply.record(took);
        self.timers.message(kind, took);
    }

    /// Records one run of a scheduler.
    pub(crate) fn measure_scheduler(&self, kind: &JobType, took: Duration) {
        if let Some(timer) = self.invoke_scheduler.get(kind.as_str()) {
            timer.record(took);
        }
    }

    /// Records an evaluation that a worker has answered: when it was delivered, and when the worker began to answer.
    pub(crate) fn answered(&self, kind: &JobType, delivered: Instant, answering: Instant) {
        self.at.worker_evals.add_one();
        self.at.worker_send_ack.since(answering);
        if let Some(timer) = self.process_eval.get(kind.as_str()) {
            timer.since(delivered);
        }
    }

    /// Number of evaluations that workers of this server were done with.
    #[cfg(test)]
    pub(crate) fn evals_processed(&self) -> u64 {
        self.at.worker_evals.read(Shown::Current).count
    }

    /// Counts a plan as waiting until the returned guard is dropped.
    pub(crate) fn plan_waits(&self) -> PlanWaits<'_> {
        self.plans_queued.fetch_add(1, Ordering::Relaxed);
        PlanWaits(&self.plans_queued)
    }

    /// Updates the gauges of tables from a batch of entries; `view` is the state after it. Batches have to arrive in
    /// order.
    pub(crate) fn follow(&self, view: &State, batch: &[Reaction]) {
        let mut changes = batch.iter().flat_map(|reaction| reaction.changes.iter());
        if changes.clone().any(|change| matches!(change, Change::Restored)) {
            // The view also has the entries of this batch that follow the restore.
            return self.kept.rebuild(view);
        }
        self.kept.on_changes(&mut changes);
    }

    /// Recounts the gauges of tables, for a state that replaced another one.
    pub(crate) fn replaced(&self, view: &State) {
        self.kept.rebuild(view);
    }

    /// Ends the interval at the time `now`.
    fn rotate(&self, now: Time, followed: [u64; FOLLOWED]) {
        self.at.rotate();
        self.rates.rotate();
        self.timers.rotate();
        self.invoke_scheduler.values().chain(self.process_eval.values()).for_each(Timer::rotate);
        self.followed.iter().zip(followed).for_each(|(marks, total)| marks.rotate(total));
        let mut interval = self.interval.lock();
        let length = interval.since.elapsed();
        *interval = Interval { since: Instant::now(), finished: Some((before(now, length), length)) };
    }

    fn shown(&self) -> Shown {
        if self.interval.lock().finished.is_some() { Shown::Finished } else { Shown::Current }
    }

    /// Adds the families of the registry. [`Core::gauges`] has the gauges that are kept elsewhere.
    fn tell(&self, followed: [u64; FOLLOWED], leads: bool, out: &mut Vec<Family>) {
        let shown = self.shown();
        self.at.tell(shown, out);
        self.rates.tell(shown, out);
        self.timers.tell(shown, out);
        for (kind, timer) in &self.invoke_scheduler {
            let name = format!("nomad.nomad.worker.invoke_scheduler.{kind}");
            out.push(Family::summary(name, "Time of one run of this scheduler, in milliseconds.", timer.read(shown)));
        }
        let rows = self
            .process_eval
            .iter()
            .map(|(kind, timer)| (Labels::new(&[("eval_type", kind)]), timer.read(shown)))
            .collect();
        out.push(Family {
            name: "nomad.nomad.broker.process_time".into(),
            help: "Time from the delivery of an evaluation until it is answered, in milliseconds.".into(),
            rows: Rows::Summaries(rows),
        });
        for ((marks, total), (name, help)) in self.followed.iter().zip(followed).zip(FOLLOWED_NAMES) {
            out.push(Family::counter(name, help, marks.read(total, shown)));
        }
        self.kept.of_every_server(out);
        if leads {
            self.kept.of_leader(out);
        }
    }

    /// Start and length in seconds of the interval that the JSON form shows.
    fn interval(&self, now: Time) -> (Time, f64) {
        let interval = *self.interval.lock();
        let (began, length) = interval.finished.unwrap_or_else(|| {
            let length = interval.since.elapsed();
            (before(now, length), length)
        });
        (began, length.as_secs_f64().max(1e-3))
    }
}

/// A plan that waits or is being written.
#[derive(Debug)]
pub(crate) struct PlanWaits<'a>(&'a AtomicUsize);

impl Drop for PlanWaits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Names and help of the totals that are counted elsewhere.
const FOLLOWED_NAMES: [(&str, &str); FOLLOWED] = [
    ("songline.disk.failures", "How often the log's disk has failed."),
    ("songline.disk.returns", "How often the log's disk has come back."),
    ("songline.events.frames", "Frames of event streams that were handed to subscribers."),
    ("songline.events.bytes", "Bytes of these frames."),
    ("songline.events.fell_behind", "How often a subscriber of events fell behind what is in memory."),
    ("songline.events.gaps", "How often a subscriber was told that events are gone."),
];

/// Starts the task that ends an interval every ten seconds and measures contact with the other servers every second.
pub(crate) fn start(core: &Arc<Core>) {
    tokio::spawn(run(Arc::downgrade(core)));
}

async fn run(core: Weak<Core>) {
    let mut ended = None;
    loop {
        let Some(server) = core.upgrade() else { return };
        if server.shutdown.is_cancelled() {
            return;
        }
        server.look_at_contact();
        let now = server.now();
        let interval = now.secs() / INTERVAL_SECONDS;
        if ended.is_some_and(|ended| ended != interval) {
            server.metrics.rotate(now, server.followed());
        }
        ended = Some(interval);
        drop(server);
        tokio::time::sleep(LOOK).await;
    }
}

impl Core {
    /// The reference's JSON form: the last complete interval.
    pub(crate) fn metrics_json(&self) -> String {
        let families = self.families();
        let (began, seconds) = self.metrics.interval(self.now());
        json::object(&families, &timestamp(began), seconds)
    }

    /// The Prometheus text form: since the start, and quantiles of the last complete interval.
    pub(crate) fn metrics_text(&self) -> String {
        prometheus::text(&self.families())
    }

    /// All families, sorted by name.
    fn families(&self) -> Vec<Family> {
        let started = Instant::now();
        let mut out = Vec::new();
        let leads = self.term().is_some();
        self.metrics.tell(self.followed(), leads, &mut out);
        self.gauges(leads, &mut out);
        process::tell(&mut out);
        node::tell(&self.connections.gauges(), &mut out);
        node::tell_counts(&self.connections.counts(), &mut out);
        out.sort_by(|a, b| a.name.cmp(&b.name));
        self.metrics.at.scrape.since(started);
        out
    }

    fn followed(&self) -> [u64; FOLLOWED] {
        let events = self.events().counts();
        [self.disk.failures(), self.disk.returns(), events.frames, events.bytes, events.fell_behind, events.gaps]
    }

    /// Measures the time since this server last heard of its followers, or of its leader.
    fn look_at_contact(&self) {
        if self.log().is_leader() {
            let peers = self.log().peers();
            peers.values().filter_map(|peer| peer.last_heard).for_each(|ago| self.metrics.at.raft_contact.record(ago));
        } else if let Some(ago) = self.log().last_contact() {
            self.metrics.at.raft_contact.record(ago);
        }
    }

    fn gauges(&self, leads: bool, out: &mut Vec<Family>) {
        let (broker, types, (blocked, escaped), over_quota) = {
            let queues = self.queues();
            let over_quota = queues.blocked.waiting_for_quota();
            (queues.broker.stats(), queues.broker.stats_by_type(), queues.blocked.stats(), over_quota)
        };
        let mut gauge = |name, help, value: u64| out.push(Family::gauge(name, help, value as f64));
        let BrokerStats { ready, unacked, pending, waiting, cancelable } = broker;
        gauge("nomad.nomad.broker.total_ready", "Evaluations that are ready for a worker.", ready as u64);
        gauge("nomad.nomad.broker.total_unacked", "Evaluations that a worker has.", unacked as u64);
        gauge("nomad.nomad.broker.total_pending", "Evaluations behind another one of their job.", pending as u64);
        gauge("nomad.nomad.broker.total_waiting", "Evaluations that wait for their time.", waiting as u64);
        gauge("nomad.nomad.broker.total_cancelable", "Evaluations that newer ones made useless.", cancelable as u64);
        gauge("nomad.nomad.blocked_evals.total_blocked", "Evaluations that wait for capacity.", blocked as u64);
        gauge(
            "nomad.nomad.blocked_evals.total_escaped",
            "Blocked evaluations that any node may unblock.",
            escaped as u64,
        );
        gauge(
            "nomad.nomad.blocked_evals.total_quota_limit",
            "Blocked evaluations that wait for a quota.",
            over_quota as u64,
        );
        let queued = self.metrics.plans_queued.load(Ordering::Relaxed);
        gauge("nomad.nomad.plan.queue_depth", "Plans that wait for the applier or are being written.", queued as u64);
        gauge(
            "nomad.nomad.heartbeat.active",
            "Nodes whose heartbeats this server waits for.",
            self.leader.heartbeats.lock().watched() as u64,
        );
        gauge("songline.leader", "1 while this server leads.", u64::from(leads));
        for (kind, ready, unacked) in types {
            let names = [format!("nomad.nomad.broker.{kind}_ready"), format!("nomad.nomad.broker.{kind}_unacked")];
            for (name, value) in names.into_iter().zip([ready, unacked]) {
                let rows = Rows::Gauges(vec![(Labels::none(), value as f64)]);
                out.push(Family { name: name.into(), help: "Evaluations for this scheduler.".into(), rows });
            }
        }
        self.gauges_of_scheduling(out);
        self.gauges_of_log(leads, out);
    }

    fn gauges_of_log(&self, leads: bool, out: &mut Vec<Family>) {
        let view = self.view();
        let (applied, unapplied) = (view.applied_index(), self.log().unapplied());
        let mut gauge = |name, help, value: u64| out.push(Family::gauge(name, help, value as f64));
        gauge("nomad.raft.appliedIndex", "Index of the last entry that this server has applied.", applied);
        gauge("nomad.raft.lastIndex", "Index of the last entry in this server's log.", applied + unapplied);
        gauge("nomad.raft.peers", "Servers of the cluster.", self.log().members().borrow().addresses.len() as u64);
        gauge("nomad.state.snapshotIndex", "Index of the last entry that changed a row.", view.latest_index());
        gauge("songline.raft.unapplied", "Entries in the log that are not applied yet.", unapplied);
        gauge(
            "songline.disk.failed",
            "1 while the log's disk does not work.",
            u64::from(self.disk_trouble().is_some()),
        );
        gauge(
            "songline.disk.full",
            "1 while the disk is too full for more entries.",
            u64::from(self.room.check().is_err()),
        );
        gauge("songline.events.subscribers", "Event streams that are open.", self.events().counts().subscribers);
        if leads {
            let health = self.cluster_health();
            gauge("nomad.nomad.autopilot.healthy", "1 while all servers are well.", u64::from(health.healthy));
            let help = "How many servers may fail before nothing can be written.";
            gauge("nomad.nomad.autopilot.failure_tolerance", help, health.failure_tolerance);
            self.gauges_of_event_sinks(out);
        }
        let rows = Table::ALL.iter().map(|table| (table.name(), view.table_len(*table) as u64));
        out.push(Family::by("songline.state.rows", "Rows of each table.", "table", rows));
    }
}

impl Core {
    fn gauges_of_event_sinks(&self, out: &mut Vec<Family>) {
        let (lags, failing) = self.event_sink_gauges();
        let mut by_sink = |name, help, rows: &Labelled| {
            let rows = rows.iter().map(|(sink, value)| (sink.as_str(), *value));
            out.push(Family::by(name, help, "sink", rows));
        };
        if !lags.is_empty() {
            by_sink("songline.event_sinks.lag", "Entries that an event sink is behind.", &lags);
            by_sink("songline.event_sinks.failing", "1 while deliveries to an event sink fail.", &failing);
        }
    }
}

/// The time that is `length` earlier than `now`, in whole seconds.
fn before(now: Time, length: Duration) -> Time {
    Time::from_secs(now.secs() - i64::try_from(length.as_secs()).unwrap_or(0))
}

/// Start of an interval as the reference prints it: `2026-11-21 20:00:00 +0000 UTC`.
fn timestamp(began: Time) -> String {
    // An interval begins at a multiple of its length but ends up to a second late, so the nearest multiple is meant.
    let nearest = (began.secs() + INTERVAL_SECONDS / 2) / INTERVAL_SECONDS * INTERVAL_SECONDS;
    let whole = Time::from_secs(nearest).to_string();
    format!("{} +0000 UTC", whole.trim_end_matches('Z').replace('T', " "))
}
