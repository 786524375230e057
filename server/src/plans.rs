//! The plan queue and the single plan applier: checks plans in order against the newest view, while the previous plan
//! is being written. A plan belongs to the leadership term in which it was made, and is refused after the end of that
//! term.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use songline_api::{RateOp, Served};
use songline_commands::{Actor, ApplyPlan, Cause, Kind};
use songline_model::{Plan, PlanResult};
use songline_projections::State;
use songline_scheduler::applier::{self, Queue};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::leadership::LeadershipTerm;
use super::workers::Failure;
use super::{Core, panics};

/// Refusal of plans that may not be written any more.
const DISABLED: &str = "plan queue is disabled";

/// Longest wait of the applier for the view that a plan was made on.
const VIEW_WAIT: Duration = Duration::from_secs(10);

struct Waiting {
    term: Arc<LeadershipTerm>,
    plan: Plan,
    done: oneshot::Sender<Result<PlanResult, Failure>>,
}

/// Sender of schedulers' plans. The queue has no bound of its own: each worker of the cluster waits for the result of
/// its plan before it makes another.
#[derive(Debug)]
pub(crate) struct PlanQueue {
    queue: mpsc::UnboundedSender<Waiting>,
}

/// Receiver of the plan queue.
pub(crate) struct PlanReceiver(mpsc::UnboundedReceiver<Waiting>);

impl PlanQueue {
    pub(crate) fn new() -> (Self, PlanReceiver) {
        let (queue, receiver) = mpsc::unbounded_channel();
        (Self { queue }, PlanReceiver(receiver))
    }

    /// Submits a plan and returns its accepted part, once that is durable and applied.
    pub(crate) async fn submit(&self, term: Arc<LeadershipTerm>, plan: Plan) -> Result<PlanResult, Failure> {
        let (done, result) = oneshot::channel();
        let closed = || Failure::Told(DISABLED.to_owned());
        self.queue.send(Waiting { term, plan, done }).map_err(|_| closed())?;
        result.await.map_err(|_| closed())?
    }
}

impl Core {
    /// Submits a plan, and counts it as a write of the endpoint `plan`, as the reference does.
    pub(crate) async fn submit_plan(&self, term: &Arc<LeadershipTerm>, plan: Plan) -> Result<PlanResult, Failure> {
        let _waits = self.metrics.plan_waits();
        self.metrics.count_served(Served { endpoint: "plan", op: RateOp::Write, identity: None });
        self.metrics.at.plan_submit.of(self.leader.plans.submit(Arc::clone(term), plan)).await
    }
}

/// Starts the applier on a thread of its own, because checking plans is CPU-bound.
pub(crate) fn start(core: &Arc<Core>, receiver: PlanReceiver) {
    let body = Box::pin(run(Arc::downgrade(core), receiver));
    if let Err(error) = core.world().start_loop("plan-applier".into(), body) {
        tracing::error!(%error, "the plan applier has no thread: nothing will be placed");
    }
}

/// The plan that is being written, and the state as it will be after it. `after` is a guess until the write has
/// succeeded: other entries may come before the plan's.
struct Outstanding {
    raft_term: u64,
    writing: JoinHandle<Option<u64>>,
    after: State,
}

/// The plan that is being written, and the highest index of written ones.
#[derive(Default)]
struct Pipeline {
    outstanding: Option<Outstanding>,
    last_index: u64,
}

/// Result of checking a plan.
enum Verdict {
    /// Nothing is written; the worker gets this result.
    Answered(PlanResult),
    /// The command is written; `after` is the state after it.
    Accepted { result: PlanResult, command: Box<ApplyPlan>, cause: Option<Cause>, after: Box<State> },
}

async fn run(core: Weak<Core>, mut receiver: PlanReceiver) {
    let mut queue: Queue<Waiting> = Queue::default();
    let mut pipeline = Pipeline::default();
    loop {
        if queue.is_empty() {
            let Some(waiting) = receiver.0.recv().await else { return };
            queue.push(waiting.plan.priority, waiting);
        }
        while let Ok(waiting) = receiver.0.try_recv() {
            queue.push(waiting.plan.priority, waiting);
        }
        let Some(Waiting { term, plan, done }) = queue.pop() else { continue };
        let Some(core) = core.upgrade() else { return };
        let judged = panics::caught(judge(&core, &term, &plan, &mut pipeline)).await.unwrap_or_else(|panicked| {
            tracing::error!(eval = %plan.eval_id, error = %panicked, "the plan applier panicked; the plan is refused");
            Err(panicked.into())
        });
        match judged {
            Ok(Verdict::Accepted { result, command, cause, after }) => {
                let raft_term = term.raft_term();
                let writing = tokio::spawn(async move {
                    let writing = async {
                        #[cfg(test)]
                        core.hooks.on_writing_plan().await?;
                        core.propose_under(&term, Actor::Leader("plans".into()), cause, *command).await
                    };
                    let written = core.metrics.at.plan_apply.of(writing).await;
                    let index = written.as_ref().ok().copied();
                    let answer =
                        written.map_err(|error| error.to_string().into()).map(|index| applier::written(result, index));
                    let _ = done.send(answer);
                    index
                });
                pipeline.outstanding = Some(Outstanding { raft_term, writing, after: *after });
            }
            // A worker that no longer waits has given the evaluation back.
            Ok(Verdict::Answered(result)) => drop(done.send(Ok(result))),
            Err(failure) => drop(done.send(Err(failure))),
        }
    }
}

/// Checks a plan against the newest state, or against the expected state after the plan that is being written.
async fn judge(
    core: &Arc<Core>,
    term: &LeadershipTerm,
    plan: &Plan,
    pipeline: &mut Pipeline,
) -> Result<Verdict, Failure> {
    let disabled = || Failure::Told(DISABLED.to_owned());
    if term.is_over() {
        return Err(disabled());
    }
    #[cfg(test)]
    core.hooks.on_applying(plan);
    // An outstanding plan of an earlier term is in the view by now, or is never written.
    if pipeline
        .outstanding
        .as_ref()
        .is_some_and(|apply| apply.raft_term != term.raft_term() || apply.writing.is_finished())
    {
        pipeline.settle().await;
    }
    let fresh;
    let mut is_guess = false;
    let view: &State = match &pipeline.outstanding {
        Some(apply) if apply.after.applied_index() >= plan.snapshot_index => {
            is_guess = true;
            &apply.after
        }
        _ => {
            pipeline.settle().await;
            fresh = view_at(core, pipeline.last_index.max(plan.snapshot_index)).await?;
            &fresh
        }
    };
    let started = Instant::now();
    let (mut result, refused) = applier::evaluate(view, plan);
    core.metrics.at.plan_evaluate.since(started);
    for (node, reason) in &refused {
        tracing::debug!(%node, reason, eval = %plan.eval_id, "plan for node rejected");
    }
    applier::count_refusals(view, &refused, &mut core.leader.rejections.lock(), core.pace(), &mut result);
    for node in &result.ineligible_nodes {
        tracing::warn!(%node, reason = refused.get(node), "too many rejected plans: the node becomes ineligible");
    }
    core.metrics.count_plan(&result, refused.len());
    if applier::is_no_op(&result) {
        return Ok(Verdict::Answered(result));
    }
    let now = core.now();
    let signer = match result.node_allocation.is_empty() {
        true => None,
        false => tokio::select! {
            biased;
            signer = core.signer() => Some(signer.map_err(|error| format!("failed to sign workload identities: {error}"))?),
            () = term.over() => return Err(disabled()),
        },
    };
    let placed = applier::placed(plan, &result, now, |alloc| {
        if let Some(signer) = &signer {
            signer.sign(alloc);
        }
    });
    // Two plans are never written at once. The command is made on the view that has the one before, because its rows
    // start from the stored ones: only the check of the nodes ran ahead.
    if !pipeline.settle().await && is_guess {
        // The plan before was not written: the room that it was to free is still in use.
        return Box::pin(judge(core, term, plan, pipeline)).await;
    }
    let newest = view_at(core, pipeline.last_index).await?;
    result.ineligible_nodes.retain(|id| newest.node(*id).is_some());
    let command = applier::command(&newest, plan, &result, placed, now, || core.fresh_eval());
    let mut after = State::clone(&newest);
    // The log would refuse the same command, one sync later.
    songline_projections::apply_optimistically(&mut after, &command, now).map_err(|refusal| refusal.to_string())?;
    let cause = newest.eval(plan.eval_id).map(|eval| Cause::new(eval.modify_index, Kind::EvalUpdate));
    Ok(Verdict::Accepted { result, command: Box::new(command), cause, after: Box::new(after) })
}

async fn view_at(core: &Core, index: u64) -> Result<Arc<State>, Failure> {
    let view = core.metrics.at.plan_wait.of(core.wait_for_index(index, VIEW_WAIT)).await;
    view.ok_or_else(|| Failure::Told(format!("timed out after 10s waiting for index={index}")))
}

impl Pipeline {
    /// Waits for the plan that is being written. `false`: its write has failed.
    async fn settle(&mut self) -> bool {
        let Some(apply) = self.outstanding.take() else { return true };
        let Ok(Some(index)) = apply.writing.await else { return false };
        self.last_index = self.last_index.max(index);
        true
    }
}

#[cfg(test)]
mod tests;
