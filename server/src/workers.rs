//! Scheduler workers: each takes one evaluation at a time from the leader, which may be another server, runs the
//! scheduler on this server's view, and gives plans and rows to the leader.

pub(crate) mod leases;
pub(crate) mod pool;
pub(crate) mod remote;
pub(crate) mod source;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use songline_api::Leader;
use songline_model::{Evaluation, PlanResult};
use songline_projections::State;
use songline_scheduler::{Scheduler, Step};

use super::leadership::LeadershipTerm;
use super::metrics::Timer;
use super::panics::{self, Panicked};
use super::{Core, timing};
use pool::{Doing, Worker};
use remote::Remote;
use source::{Answer, Delivered, Own, Source};

/// Longest wait of a worker for the view that its evaluation needs.
const VIEW_WAIT: Duration = Duration::from_secs(5);
/// Longest sleep of an idle worker: bounds the delay after a missed notification.
const IDLE_WAIT: Duration = Duration::from_millis(500);
/// Longest rest of a worker without a place to work.
const REST_WAIT: Duration = Duration::from_secs(5);
/// Longest wait of a server that is behind, before it looks again where it belongs.
const BEHIND_WAIT: Duration = Duration::from_secs(50);
/// First rest after a leader that did not answer; each further one takes twice as long ..
const BACK_OFF_FIRST: Duration = Duration::from_millis(20);
/// .. up to this.
const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// Number of failures after which the rests grow no more.
const FAILURES_MAX: u32 = 10;
/// Rest after a leader of another version.
const OTHER_VERSION_WAIT: Duration = Duration::from_secs(30);

/// Reasons why the work on an evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// A plan's result was not available in time, or a write failed.
    #[error("{0}")]
    Told(String),
    /// The view did not reach this index in time.
    #[error("timed out after 5s waiting for index={0}")]
    Late(u64),
    /// The scheduler or the plan applier panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl From<String> for Failure {
    fn from(told: String) -> Self {
        Self::Told(told)
    }
}

/// Starts the workers.
pub(crate) fn start(core: &Arc<Core>) {
    let asked = core.facts.config.num_schedulers;
    let count = if asked > 0 { asked } else { std::thread::available_parallelism().map_or(1, usize::from) };
    replace(core, count, Some(core.facts.config.enabled_schedulers.clone()));
}

/// Replaces the workers, each on a thread of its own, because scheduling is CPU-bound.
pub(crate) fn replace(core: &Arc<Core>, count: usize, enabled: Option<Vec<&'static str>>) {
    for (n, worker) in core.workers.replace(count, enabled, core.now(), || core.world().uuid()).into_iter().enumerate()
    {
        let weak = Arc::downgrade(core);
        let body = Box::pin(async move { run(weak, &worker).await });
        if let Err(error) = core.world().start_loop(format!("scheduler-{n}"), body) {
            tracing::error!(%error, "a scheduler worker has no thread");
        }
    }
}

async fn run(core: Weak<Core>, worker: &Arc<Worker>) {
    let mut pace = Pace { idle: Instant::now(), failures: 0 };
    loop {
        let Some(core) = core.upgrade() else { return };
        if core.shutdown.is_cancelled() || worker.is_stopping() {
            core.workers.forget(worker);
            return;
        }
        // The term is read before the delivery: a delivery of a later term is given back, and one of an earlier
        // term is never worked on under a later one.
        match place(&core, worker) {
            // Short waits, because a waiting worker must not keep the server alive.
            Place::Here(term) => pace.turn(&core, worker, &Own::new(&core, term, IDLE_WAIT)).await,
            Place::At(leader) => pace.turn(&core, worker, &Remote::new(&core, leader)).await,
            Place::Nowhere => {
                worker.does(Doing::Paused);
                until_elsewhere(&core, worker).await;
                pace.idle = Instant::now();
            }
        }
    }
}

/// The leader whose evaluations a worker processes.
#[derive(Debug)]
enum Place {
    /// This server.
    Here(Arc<LeadershipTerm>),
    /// The server at this address.
    At(Arc<str>),
    /// No leader is known, or this server is not fit to work, or the worker rests.
    Nowhere,
}

fn place(core: &Core, worker: &Worker) -> Place {
    if let Some(term) = core.term() {
        let rests = core.members_count() > 1 && core.workers.rests_on_leader(worker);
        return if rests { Place::Nowhere } else { Place::Here(term) };
    }
    match core.leader() {
        Leader::At(address) if core.is_fit_for_work() => Place::At(address),
        Leader::At(_) | Leader::Here | Leader::Unknown => Place::Nowhere,
    }
}

/// Returns when the worker's place may have changed.
async fn until_elsewhere(core: &Core, worker: &Worker) {
    // Subscribed before the place is looked at once more: a change between the two ends the wait.
    let (mut terms, mut members) = (core.leader.term.subscribe(), core.log().members());
    members.mark_unchanged();
    let leader = core.leader();
    if !matches!(place(core, worker), Place::Nowhere) {
        return;
    }
    tokio::select! {
        biased;
        () = core.shutdown.cancelled() => {}
        () = worker.stopping() => {}
        Ok(()) = terms.changed() => {}
        Ok(()) = members.changed() => {}
        () = core.leader_other_than(&leader) => {}
        // A failing disk that works again announces nothing.
        () = tokio::time::sleep(REST_WAIT) => {}
    }
}

impl Core {
    fn members_count(&self) -> usize {
        self.log().members().borrow().addresses.len()
    }

    /// Whether this server may process evaluations of another leader: it is a member whose state follows the log.
    fn is_fit_for_work(&self) -> bool {
        let is_member = self.log().members().borrow().addresses.contains_key(&self.connections.cluster.id());
        is_member && self.disk_trouble().is_none() && self.fence.why().is_none()
    }
}

/// The rhythm of one worker.
struct Pace {
    /// Time since when the worker waits for an evaluation.
    idle: Instant,
    /// Number of consecutive failures to get one.
    failures: u32,
}

impl Pace {
    /// Waits for an evaluation and processes it.
    async fn turn(&mut self, core: &Arc<Core>, worker: &Worker, source: &impl Source) {
        worker.does(Doing::Waiting);
        if !caught_up(core).await {
            return;
        }
        match source.dequeue(&worker.types).await {
            Ok(Some(delivered)) => {
                self.failures = 0;
                core.metrics.at.worker_dequeue.since(self.idle);
                serve(core, worker, source, &delivered).await;
                self.idle = Instant::now();
            }
            Ok(None) => self.failures = 0,
            Err(error) => self.back_off(core, worker, &error).await,
        }
    }

    /// Rests after a leader's failure to answer, or until another server leads.
    async fn back_off(&mut self, core: &Core, worker: &Worker, error: &str) {
        tracing::debug!(error, failures = self.failures, "no evaluation from the leader; the worker asks again");
        worker.does(Doing::BackingOff);
        // An older leader does not know the method, and another scheduler version gets no evaluations.
        let is_of_another_version = error.contains("rpc: can't find") || error.contains("dequeue disallowed");
        let wait = match is_of_another_version {
            true => OTHER_VERSION_WAIT,
            false => (BACK_OFF_FIRST * 2_u32.saturating_pow(self.failures)).min(BACK_OFF_MAX),
        };
        self.failures = (self.failures + 1).min(FAILURES_MAX);
        let leader = core.leader();
        tokio::select! {
            biased;
            () = core.shutdown.cancelled() => {}
            () = worker.stopping() => {}
            () = core.leader_other_than(&leader) => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Waits until this server's view has what its last evaluation needed and did not get in time: an evaluation that it
/// took earlier would only be given back again. False if the view is still behind after a bounded wait.
async fn caught_up(core: &Core) -> bool {
    let behind = core.workers.behind();
    tokio::select! {
        biased;
        view = core.wait_for_index(behind, BEHIND_WAIT) => view.is_some(),
        () = core.shutdown.cancelled() => false,
    }
}

/// Works on a delivery and answers it.
async fn serve(core: &Arc<Core>, worker: &Worker, source: &impl Source, delivered: &Delivered) {
    let eval = &delivered.eval;
    let began = Instant::now();
    let outcome =
        panics::caught(work(core, source, worker, delivered)).await.unwrap_or_else(|panicked| Err(panicked.into()));
    let answering = Instant::now();
    let answered = source.answer(delivered, Answer::of(&outcome)).await;
    core.metrics.answered(&eval.kind, began, answering);
    match outcome {
        Ok(()) => {}
        Err(Failure::Panicked(panicked)) => {
            core.metrics.count_panic();
            tracing::error!(eval = %eval.id, job = %eval.job_id, error = %panicked, "scheduling panicked; the evaluation is given back");
        }
        Err(error @ (Failure::Told(_) | Failure::Late(_))) if source.is_over() => {
            tracing::debug!(eval = %eval.id, job = %eval.job_id, %error, "the leader has changed; the next one has the evaluation");
        }
        Err(error @ (Failure::Told(_) | Failure::Late(_))) => {
            if let Failure::Late(index) = error {
                core.workers.fell_behind(index);
            }
            tracing::warn!(eval = %eval.id, job = %eval.job_id, %error, "evaluation failed; it is tried again");
        }
    }
    if let Err(error) = answered {
        tracing::debug!(eval = %eval.id, %error, "the evaluation had been taken back meanwhile");
    }
}

async fn work(core: &Arc<Core>, source: &impl Source, worker: &Worker, delivered: &Delivered) -> Result<(), Failure> {
    let eval = &delivered.eval;
    worker.does(Doing::WaitingForView);
    let mut view = wait(core, delivered.needed).await?;
    // The row may have changed while the evaluation waited: cancelled by a newer one of its job, or finished by a
    // worker whose answer was lost. A terminal one needs no work.
    let current = view.eval(eval.id).unwrap_or_else(|| Arc::clone(eval));
    if current.status.is_terminal() {
        return Ok(());
    }
    // An evaluation that was blocked again knows its classes. Its row may not: it is written only if more differs.
    let newest = if current.modify_index > eval.modify_index { &current } else { eval };
    let mut scheduler = Scheduler::new(Evaluation::clone(newest), core.world().number());
    let mut result: Option<PlanResult> = None;
    loop {
        worker.does(Doing::Scheduling);
        #[cfg(test)]
        core.hooks.on_scheduling(&eval.job_id);
        let started = core.world().steady();
        let step = scheduler.step(&view, delivered.clock.now(core), result.as_ref());
        let took = core.world().steady().saturating_sub(started);
        core.metrics.measure_scheduler(&eval.kind, took);
        let stands_for = core.world().decision_time();
        if stands_for > Duration::ZERO {
            tokio::time::sleep(stands_for).await;
        }
        match timing::stamp(step, took) {
            Step::Submit { create, plan } => {
                worker.does(Doing::Submitting);
                write(source, delivered, create, &core.metrics.at.worker_create_eval).await?;
                let answer = core.metrics.at.worker_submit_plan.of(source.submit(delivered, *plan)).await?;
                let newer = answer.refresh_index.max(answer.alloc_index);
                if newer > 0 {
                    worker.does(Doing::WaitingForView);
                    view = wait(core, newer).await?;
                }
                result = Some(answer);
            }
            Step::Done { create, done } => {
                let (rows, waits) = done.rows(&view, create);
                write(source, delivered, rows, &core.metrics.at.worker_update_eval).await?;
                if let Some(waits) = waits {
                    source.reblock(delivered, waits).await?;
                }
                return Ok(());
            }
        }
    }
}

async fn write(
    source: &impl Source,
    delivered: &Delivered,
    evals: Vec<Evaluation>,
    timer: &Timer,
) -> Result<(), String> {
    if evals.is_empty() {
        return Ok(());
    }
    timer.of(source.write(delivered, evals)).await
}

async fn wait(core: &Arc<Core>, index: u64) -> Result<Arc<State>, Failure> {
    core.metrics.at.worker_wait.of(core.wait_for_index(index, VIEW_WAIT)).await.ok_or(Failure::Late(index))
}

#[cfg(test)]
mod tests;
