//! Scheduler workers: each takes one evaluation at a time, runs the scheduler on a view, and writes its plans and
//! rows to the log.

pub(crate) mod pool;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use songline_api::{Proposal, ProposeError};
use songline_commands::{Actor, Cause, Kind, UpdateEvals};
use songline_model::{Evaluation, PlanResult};
use songline_projections::State;
use songline_scheduler::broker::{Delivery, Token};
use songline_scheduler::{Scheduler, Step};

use super::leadership::LeadershipTerm;
use super::metrics::Timer;
use super::panics::{self, Panicked};
use super::{Core, timing};
use pool::{Doing, Worker};

/// Longest wait of a worker for the view that its evaluation needs.
const VIEW_WAIT: Duration = Duration::from_secs(5);
/// Longest sleep of an idle worker: bounds the delay after a missed notification.
const IDLE_WAIT: Duration = Duration::from_millis(500);

/// Reasons why the work on an evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// A state or a plan's result was not available in time, or a write failed.
    #[error("{0}")]
    Told(String),
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
    replace(core, count, None);
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
    let mut idle = Instant::now();
    loop {
        let Some(core) = core.upgrade() else { return };
        if core.shutdown.is_cancelled() || worker.is_stopping() {
            core.workers.forget(worker);
            return;
        }
        let woken = core.leader.work.notified();
        tokio::pin!(woken);
        woken.as_mut().enable();
        // The term is read before the delivery: a delivery of a later term is given back, and one of an earlier
        // term is never worked on under a later one.
        let term = core.term();
        let asked = Instant::now();
        let delivery = term.as_ref().and_then(|_| core.queues().broker.dequeue(&worker.types, core.pace()));
        let Some((term, Delivery { eval, token, .. })) = term.zip(delivery) else {
            worker.does(Doing::Waiting);
            idle = core.term().map_or_else(Instant::now, |_| idle);
            // Short waits, because a waiting worker must not keep the server alive.
            let _ = tokio::time::timeout(IDLE_WAIT, woken).await;
            continue;
        };
        core.metrics.at.eval_dequeue.since(asked);
        core.metrics.at.worker_dequeue.since(idle);
        let delivered = Instant::now();
        let outcome = panics::caught(work(&core, &term, worker, &eval, token))
            .await
            .unwrap_or_else(|panicked| Err(panicked.into()));
        let answering = Instant::now();
        let now = core.pace();
        let mut queues = core.queues();
        let answered = match &outcome {
            Ok(()) => queues.broker.ack(eval.id, token, now),
            Err(Failure::Told(_)) => queues.broker.nack(eval.id, token, now),
            Err(Failure::Panicked(Panicked(message))) => {
                queues.broker.nack_panicked(eval.id, token, message.clone(), now)
            }
        };
        drop(queues);
        core.metrics.answered(outcome.is_ok(), &eval.kind, delivered, answering);
        idle = Instant::now();
        match outcome {
            Ok(()) => {}
            Err(Failure::Panicked(panicked)) => {
                core.metrics.count_panic();
                tracing::error!(eval = %eval.id, job = %eval.job_id, error = %panicked, "scheduling panicked; the evaluation is given back");
            }
            Err(Failure::Told(error)) if term.is_over() => {
                tracing::debug!(eval = %eval.id, job = %eval.job_id, error, "this server leads no more; the next leader has the evaluation");
            }
            Err(Failure::Told(error)) => {
                tracing::warn!(eval = %eval.id, job = %eval.job_id, error, "evaluation failed; it is tried again");
            }
        }
        if let Err(error) = answered {
            tracing::debug!(eval = %eval.id, %error, "the evaluation had been taken back meanwhile");
        }
        // An answer makes the next evaluation of the job ready, or sets its deadline.
        core.leader.work.notify_one();
        core.leader.deadlines.notify_one();
    }
}

async fn work(
    core: &Arc<Core>,
    term: &Arc<LeadershipTerm>,
    worker: &Worker,
    eval: &Arc<Evaluation>,
    token: Token,
) -> Result<(), Failure> {
    // Every entry that was written for this job before has to be in the view.
    let needed = core.view().evals_of_job(&eval.namespace, &eval.job_id).map(|eval| eval.modify_index).max();
    worker.does(Doing::WaitingForView);
    let mut view = wait(core, needed.unwrap_or(0).max(eval.modify_index)).await?;
    // The row may have changed while the evaluation waited; a terminal one needs no work.
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
        let step = scheduler.step(&view, core.now(), result.as_ref());
        let took = core.world().steady().saturating_sub(started);
        core.metrics.measure_scheduler(&eval.kind, took);
        let stands_for = core.world().decision_time();
        if stands_for > Duration::ZERO {
            tokio::time::sleep(stands_for).await;
        }
        match timing::stamp(step, took) {
            Step::Submit { create, plan } => {
                worker.does(Doing::Submitting);
                write(core, term, eval, create, &core.metrics.at.worker_create_eval).await?;
                let started = Instant::now();
                core.queues().broker.pause_nack(eval.id, token).map_err(|error| error.to_string())?;
                let answer = core.submit_plan(term, *plan).await;
                core.queues().broker.reset_nack(eval.id, token, core.pace()).map_err(|error| error.to_string())?;
                core.metrics.at.worker_submit_plan.since(started);
                let answer = answer?;
                let newer = answer.refresh_index.max(answer.alloc_index);
                if newer > 0 {
                    worker.does(Doing::WaitingForView);
                    view = wait(core, newer).await?;
                }
                result = Some(answer);
            }
            Step::Done { create, done } => {
                let (rows, waits) = done.rows(&view, create);
                write(core, term, eval, rows, &core.metrics.at.worker_update_eval).await?;
                if let Some(waits) = waits {
                    core.queues().reblock(waits, token, core.pace());
                }
                return Ok(());
            }
        }
    }
}

async fn write(
    core: &Arc<Core>,
    term: &LeadershipTerm,
    parent: &Evaluation,
    evals: Vec<Evaluation>,
    timer: &Timer,
) -> Result<(), String> {
    if evals.is_empty() {
        return Ok(());
    }
    let cause = Some(Cause::new(parent.modify_index, Kind::EvalUpdate));
    let proposal = Proposal {
        actor: Actor::Leader("scheduler".into()),
        cause,
        idempotency: None,
        command: UpdateEvals { evals }.into(),
    };
    match timer.of(core.write_under(term, proposal)).await {
        Ok(_) => Ok(()),
        Err(ProposeError::Rejected(refusal)) => Err(refusal.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

async fn wait(core: &Arc<Core>, index: u64) -> Result<Arc<State>, String> {
    core.metrics
        .at
        .worker_wait
        .of(core.wait_for_index(index, VIEW_WAIT))
        .await
        .ok_or_else(|| format!("timed out after 5s waiting for index={index}"))
}

#[cfg(test)]
mod tests;
