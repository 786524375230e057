//! The plan queue and the one applier: checks plans in order against the newest view while the one before is still being written.
//! A plan belongs to the reign that it was made in, and is refused once that is over.

use std::sync::{Arc, Weak};
use std::time::Duration;

use songline_commands::{Actor, Cause, Kind};
use songline_model::{EvalId, Plan, PlanResult};
use songline_projections::State;
use songline_scheduler::applier::{self, Queue};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::Core;
use super::leadership::Reign;

/// What is said of plans that nobody may write any more.
const DISABLED: &str = "plan queue is disabled";

/// How long the applier waits for the view that a plan was made on.
const VIEW_WAIT: Duration = Duration::from_secs(10);

struct Waiting {
    reign: Arc<Reign>,
    plan: Plan,
    done: oneshot::Sender<Result<PlanResult, String>>,
}

/// Where schedulers hand in plans.
#[derive(Debug)]
pub(crate) struct PlanQueue {
    queue: mpsc::UnboundedSender<Waiting>,
}

/// The other end.
pub(crate) struct PlanReceiver(mpsc::UnboundedReceiver<Waiting>);

impl PlanQueue {
    pub(crate) fn new() -> (Self, PlanReceiver) {
        let (queue, receiver) = mpsc::unbounded_channel();
        (Self { queue }, PlanReceiver(receiver))
    }

    /// Returns what of the plan was accepted, once that is durable and applied.
    pub(crate) async fn submit(&self, reign: Arc<Reign>, plan: Plan) -> Result<PlanResult, String> {
        let (done, result) = oneshot::channel();
        let closed = || DISABLED.to_owned();
        self.queue.send(Waiting { reign, plan, done }).map_err(|_| closed())?;
        result.await.map_err(|_| closed())?
    }
}

/// Starts the applier on a thread of its own: checking a plan is work for a processor.
pub(crate) fn start(core: &Arc<Core>, receiver: PlanReceiver) {
    let core = Arc::downgrade(core);
    let runtime = tokio::runtime::Handle::current();
    let body = move || runtime.block_on(run(core, receiver));
    if let Err(error) = std::thread::Builder::new().name("plan-applier".into()).spawn(body) {
        tracing::error!(%error, "the plan applier has no thread: nothing will be placed");
    }
}

/// The apply that is under way, and the state as it will be after it.
struct Outstanding {
    term: u64,
    writing: JoinHandle<Option<u64>>,
    after: State,
}

async fn run(core: Weak<Core>, mut receiver: PlanReceiver) {
    let mut queue: Queue<Waiting> = Queue::default();
    let mut last_index = 0;
    let mut outstanding: Option<Outstanding> = None;
    loop {
        if queue.is_empty() {
            let Some(waiting) = receiver.0.recv().await else { return };
            queue.push(waiting.plan.priority, waiting);
        }
        while let Ok(waiting) = receiver.0.try_recv() {
            queue.push(waiting.plan.priority, waiting);
        }
        let Some(Waiting { reign, plan, done }) = queue.pop() else { continue };
        let Some(core) = core.upgrade() else { return };
        if reign.is_over() {
            let _ = done.send(Err(DISABLED.to_owned()));
            continue;
        }
        // What an earlier reign had under way is in the view, or never will be.
        if outstanding.as_ref().is_some_and(|apply| apply.term != reign.term() || apply.writing.is_finished()) {
            settle(&mut outstanding, &mut last_index).await;
        }
        let fresh;
        let view: &State = match &outstanding {
            Some(apply) if apply.after.applied_index() >= plan.snapshot_index => &apply.after,
            _ => {
                settle(&mut outstanding, &mut last_index).await;
                let Some(view) = core.wait_for_index(last_index.max(plan.snapshot_index), VIEW_WAIT).await else {
                    let wanted = last_index.max(plan.snapshot_index);
                    // Whoever no longer waits has given the evaluation back.
                    let _ = done.send(Err(format!("timed out after 10s waiting for index={wanted}")));
                    continue;
                };
                fresh = view;
                &fresh
            }
        };
        let (result, refused) = applier::evaluate(view, &plan);
        for (node, reason) in &refused {
            tracing::debug!(%node, reason, eval = %plan.eval_id, "plan for node rejected");
        }
        core.metrics.count_plan(&result, refused.len());
        if applier::is_no_op(&result) {
            let _ = done.send(Ok(result));
            continue;
        }
        let now = core.now();
        let signer = match result.node_allocation.is_empty() {
            true => Ok(None),
            false => tokio::select! {
                signer = core.signer() => signer.map(Some),
                () = reign.over() => {
                    let _ = done.send(Err(DISABLED.to_owned()));
                    continue;
                }
            },
        };
        let placed = match signer {
            Ok(signer) => applier::placed(&plan, &result, now, |alloc| {
                if let Some(signer) = &signer {
                    signer.sign(alloc);
                }
            }),
            Err(error) => {
                let _ = done.send(Err(format!("failed to sign workload identities: {error}")));
                continue;
            }
        };
        settle(&mut outstanding, &mut last_index).await;
        let Some(newest) = core.wait_for_index(last_index, VIEW_WAIT).await else {
            let _ = done.send(Err(format!("timed out after 10s waiting for index={last_index}")));
            continue;
        };
        let command = applier::command(&newest, &plan, &result, placed, now, || EvalId::from(uuid::Uuid::new_v4()));
        let mut after = State::clone(&newest);
        if let Err(refusal) = songline_projections::apply_optimistically(&mut after, &command, now) {
            // The log would refuse it just the same.
            let _ = done.send(Err(refusal.to_string()));
            continue;
        }
        let cause = newest.eval(plan.eval_id).map(|eval| Cause::new(eval.modify_index, Kind::EvalUpdate));
        let term = reign.term();
        let writing = tokio::spawn(async move {
            let written = core.propose_under(Some(&reign), Actor::Leader("plans".into()), cause, command).await;
            let index = written.as_ref().ok().copied();
            let answer = written.map_err(|error| error.to_string()).map(|index| applier::written(result, index));
            let _ = done.send(answer);
            index
        });
        outstanding = Some(Outstanding { term, writing, after });
    }
}

/// Waits for the apply that is under way.
async fn settle(outstanding: &mut Option<Outstanding>, last_index: &mut u64) {
    if let Some(apply) = outstanding.take()
        && let Ok(Some(index)) = apply.writing.await
    {
        *last_index = (*last_index).max(index);
    }
}
