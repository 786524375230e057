//! Scheduler workers: each takes one evaluation at a time, runs the scheduler on a view, and writes its plans and
//! rows to the log. The real ones are in `server/src/workers.rs`.

use std::sync::Arc;
use std::time::Duration;

use songline_commands::{Actor, Cause, Kind, UpdateEvals};
use songline_model::{Evaluation, JobType, PlanResult};
use songline_projections::State;
use songline_scheduler::broker::{Delivery, Token};
use songline_scheduler::{Scheduler, Step};

use super::super::machine::locked;
use super::Shell;
use super::reign::Reign;

const TYPES: [JobType; 4] = [JobType::Service, JobType::Batch, JobType::System, JobType::SysBatch];
/// Longest wait of a worker for the view that its evaluation needs.
const VIEW_WAIT: Duration = Duration::from_secs(5);
/// Longest sleep of an idle worker without a notification.
const IDLE_WAIT: Duration = Duration::from_millis(500);
/// Longest simulated running time of the scheduler, in milliseconds.
const THOUGHT_MS_MAX: u64 = 20;

/// One worker.
pub async fn run(shell: Arc<Shell>) {
    loop {
        let woken = shell.work.notified();
        let reign = shell.reign();
        let delivery = reign.as_ref().and_then(|_| locked(&shell.queues).broker.dequeue(&TYPES, shell.pace()));
        let Some((reign, Delivery { eval, token, .. })) = reign.zip(delivery) else {
            let _ = tokio::time::timeout(IDLE_WAIT, woken).await;
            continue;
        };
        let outcome = work(&shell, &reign, &eval, token).await;
        let now = shell.pace();
        {
            let mut queues = locked(&shell.queues);
            // Refused only when the evaluation was taken back meanwhile.
            let _ = match &outcome {
                Ok(()) => queues.broker.ack(eval.id, token, now),
                Err(_) => queues.broker.nack(eval.id, token, now),
            };
        }
        if let Err(error) = outcome {
            shell.record.note(&format!("server {}: evaluation {} of {} failed: {error}", shell.id, eval.id, eval.job_id));
        }
        shell.work.notify_one();
        shell.deadlines.notify_one();
    }
}

async fn work(shell: &Arc<Shell>, reign: &Arc<Reign>, eval: &Arc<Evaluation>, token: Token) -> Result<(), String> {
    let needed = shell.view().evals_of_job(&eval.namespace, &eval.job_id).map(|eval| eval.modify_index).max();
    let mut view = wait(shell, needed.unwrap_or(0).max(eval.modify_index)).await?;
    let current = view.eval(eval.id).unwrap_or_else(|| Arc::clone(eval));
    if current.status.is_terminal() {
        return Ok(());
    }
    let mut scheduler = Scheduler::new((*current).clone(), shell.draw());
    let mut result: Option<PlanResult> = None;
    loop {
        let step = scheduler.step(&view, shell.now(), result.as_ref());
        // Scheduling takes time, in which other entries may be applied.
        tokio::time::sleep(Duration::from_millis(shell.draw() % THOUGHT_MS_MAX)).await;
        match step {
            Step::Submit { create, plan } => {
                write(shell, reign, eval, create).await?;
                locked(&shell.queues).broker.pause_nack(eval.id, token).map_err(|error| error.to_string())?;
                let answer = shell.submit(Arc::clone(reign), *plan).await;
                locked(&shell.queues).broker.reset_nack(eval.id, token, shell.pace()).map_err(|error| error.to_string())?;
                let answer = answer?;
                let newer = answer.refresh_index.max(answer.alloc_index);
                if newer > 0 {
                    view = wait(shell, newer).await?;
                }
                result = Some(answer);
            }
            Step::Done { create, done } => {
                let (rows, waits) = done.rows(&view, create);
                write(shell, reign, eval, rows).await?;
                if let Some(waits) = waits {
                    locked(&shell.queues).reblock(waits, token, shell.pace());
                }
                return Ok(());
            }
        }
    }
}

async fn write(shell: &Arc<Shell>, reign: &Reign, parent: &Evaluation, evals: Vec<Evaluation>) -> Result<(), String> {
    if evals.is_empty() {
        return Ok(());
    }
    let cause = Some(Cause::new(parent.modify_index, Kind::EvalUpdate));
    let written = shell.write(Some(reign), Actor::Leader("scheduler".into()), cause, UpdateEvals { evals }).await;
    written.map(drop).map_err(|error| error.to_string())
}

async fn wait(shell: &Arc<Shell>, index: u64) -> Result<Arc<State>, String> {
    shell.wait_for_index(index, VIEW_WAIT).await.ok_or_else(|| format!("timed out after 5s waiting for index={index}"))
}
