//! The plan queue and the single plan applier: plans are checked in order against the newest view while the previous
//! one is being written. The real one is `server/src/plans.rs`; identities are not signed here.

use std::sync::Arc;
use std::time::Duration;

use songline_commands::{Actor, Cause, Kind};
use songline_model::{Plan, PlanResult};
use songline_projections::State;
use songline_scheduler::applier::{self, Queue};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::Shell;
use super::reign::Reign;

/// Refusal of plans that may not be written any more.
const DISABLED: &str = "plan queue is disabled";
/// Longest wait of the applier for the view that a plan was made on.
const VIEW_WAIT: Duration = Duration::from_secs(10);

/// A plan, and the channel to its waiting worker.
pub struct Waiting {
    reign: Arc<Reign>,
    plan: Plan,
    done: oneshot::Sender<Result<PlanResult, String>>,
}

impl Shell {
    /// Submits a plan and returns its accepted part, once that is durable and applied.
    pub(super) async fn submit(&self, reign: Arc<Reign>, plan: Plan) -> Result<PlanResult, String> {
        let (done, result) = oneshot::channel();
        self.plans.send(Waiting { reign, plan, done }).map_err(|_| DISABLED.to_owned())?;
        result.await.map_err(|_| DISABLED.to_owned())?
    }
}

/// The plan that is being written, and the state as it will be after it.
struct Outstanding {
    term: u64,
    writing: JoinHandle<Option<u64>>,
    after: State,
}

/// Applies the queued plans.
pub async fn run(shell: Arc<Shell>, mut receiver: mpsc::UnboundedReceiver<Waiting>) {
    let mut queue: Queue<Waiting> = Queue::default();
    let mut last_index = 0;
    let mut outstanding: Option<Outstanding> = None;
    loop {
        if queue.is_empty() {
            let Some(waiting) = receiver.recv().await else { return };
            queue.push(waiting.plan.priority, waiting);
        }
        while let Ok(waiting) = receiver.try_recv() {
            queue.push(waiting.plan.priority, waiting);
        }
        let Some(Waiting { reign, plan, done }) = queue.pop() else { continue };
        if reign.is_over() {
            let _ = done.send(Err(DISABLED.to_owned()));
            continue;
        }
        if outstanding.as_ref().is_some_and(|apply| apply.term != reign.term() || apply.writing.is_finished()) {
            settle(&mut outstanding, &mut last_index).await;
        }
        let fresh;
        let view: &State = match &outstanding {
            Some(apply) if apply.after.applied_index() >= plan.snapshot_index => &apply.after,
            _ => {
                settle(&mut outstanding, &mut last_index).await;
                let wanted = last_index.max(plan.snapshot_index);
                let Some(view) = shell.wait_for_index(wanted, VIEW_WAIT).await else {
                    let _ = done.send(Err(format!("timed out after 10s waiting for index={wanted}")));
                    continue;
                };
                fresh = view;
                &fresh
            }
        };
        let (result, _) = applier::evaluate(view, &plan);
        if applier::is_no_op(&result) {
            let _ = done.send(Ok(result));
            continue;
        }
        let now = shell.now();
        let placed = applier::placed(&plan, &result, now, |_| ());
        settle(&mut outstanding, &mut last_index).await;
        let Some(newest) = shell.wait_for_index(last_index, VIEW_WAIT).await else {
            let _ = done.send(Err(format!("timed out after 10s waiting for index={last_index}")));
            continue;
        };
        let command = applier::command(&newest, &plan, &result, placed, now, || shell.fresh());
        let mut after = State::clone(&newest);
        if let Err(refusal) = songline_projections::apply_optimistically(&mut after, &command, now) {
            let _ = done.send(Err(refusal.to_string()));
            continue;
        }
        let cause = newest.eval(plan.eval_id).map(|eval| Cause::new(eval.modify_index, Kind::EvalUpdate));
        let term = reign.term();
        let new = command.updated.iter().filter(|alloc| newest.alloc(alloc.id).is_none()).count() as u64;
        let writer = Arc::clone(&shell);
        let writing = tokio::spawn(async move {
            let written = writer.write(Some(&reign), Actor::Leader("plans".into()), cause, command).await;
            let index = written.as_ref().ok().map(|(index, _)| *index);
            if index.is_some() {
                writer.record.count(|counts| counts.placed += new);
            }
            let answer = written.map_err(|error| error.to_string()).map(|(index, _)| applier::written(result, index));
            let _ = done.send(answer);
            index
        });
        outstanding = Some(Outstanding { term, writing, after });
    }
}

/// Waits for the plan that is being written.
async fn settle(outstanding: &mut Option<Outstanding>, last_index: &mut u64) {
    if let Some(apply) = outstanding.take()
        && let Ok(Some(index)) = apply.writing.await
    {
        *last_index = (*last_index).max(index);
    }
}
