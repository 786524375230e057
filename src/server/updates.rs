//! Gathers what nodes say of their allocations, so that many nodes share one log entry.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use songline_commands::{Actor, ClientAlloc, UpdateAllocsFromClient};
use songline_model::{AllocClientStatus, Allocation, EvalId, EvalStatus, EvalTrigger, Evaluation, JobKey, JobType, NodeId, Time};
use songline_projections::State;
use songline_rpc::{AllocUpdate, RpcError};
use tokio::sync::{mpsc, oneshot};

use super::Core;
use super::endpoint::ALLOC_UPDATE_BATCH_WAIT;

/// Updates of one call, and who waits for them.
struct Waiting {
    node: NodeId,
    allocs: Vec<AllocUpdate>,
    done: oneshot::Sender<Result<u64, RpcError>>,
}

/// Where updates are handed in.
#[derive(Debug)]
pub(crate) struct Updates {
    queue: mpsc::UnboundedSender<Waiting>,
}

/// The other end; [`run`] works on it.
pub(crate) struct UpdateQueue(mpsc::UnboundedReceiver<Waiting>);

impl Updates {
    pub(crate) fn new() -> (Self, UpdateQueue) {
        let (queue, receiver) = mpsc::unbounded_channel();
        (Self { queue }, UpdateQueue(receiver))
    }

    /// Returns once the update is applied and durable.
    pub(crate) async fn submit(&self, node: NodeId, allocs: Vec<AllocUpdate>) -> Result<u64, RpcError> {
        let (done, result) = oneshot::channel();
        let closed = || RpcError::Lost("server is shutting down".into());
        self.queue.send(Waiting { node, allocs, done }).map_err(|_| closed())?;
        result.await.map_err(|_| closed())?
    }
}

/// Proposes one entry for all updates that come within the batch's time, until the server goes.
pub(crate) async fn run(core: Weak<Core>, mut queue: UpdateQueue) {
    while let Some(first) = queue.0.recv().await {
        tokio::time::sleep(ALLOC_UPDATE_BATCH_WAIT).await;
        let mut batch = vec![first];
        while let Ok(more) = queue.0.try_recv() {
            batch.push(more);
        }
        let Some(core) = core.upgrade() else { return };
        // The next batch gathers while this one is being written.
        tokio::spawn(async move {
            let command = command(&core.view(), &batch, core.now());
            let actor = if batch.len() == 1 { Actor::Node(batch[0].node) } else { Actor::Leader("alloc-updates".into()) };
            let result = core.propose_as(actor, None, command).await;
            for waiting in batch {
                // Whoever no longer waits has lost interest, not the update.
                let _ = waiting.done.send(result.clone());
            }
        });
    }
}

fn command(view: &State, batch: &[Waiting], now: Time) -> UpdateAllocsFromClient {
    let mut command = UpdateAllocsFromClient::default();
    let mut seen = BTreeSet::new();
    for waiting in batch {
        for update in &waiting.allocs {
            // A node speaks for its own allocations only.
            let Some(stored) = view.alloc(update.id).filter(|alloc| alloc.node_id == Some(waiting.node)) else { continue };
            if let Some((trigger, kind, priority)) = trigger(view, stored, update, now)
                && seen.insert(stored.job_key())
            {
                command.evals.push(evaluation(stored.job_key(), trigger, kind, priority, now));
            }
            command.allocs.push(ClientAlloc {
                id: update.id,
                node_id: waiting.node,
                client_status: update.client_status,
                client_description: update.client_description.clone(),
                task_states: Some(Arc::new(update.task_states.clone())),
                deployment_status: update.deployment_status.clone(),
                network_status: update.network_status.clone(),
                modify_time: now.nanos(),
            });
        }
    }
    command
}

/// Why a scheduler has to look because of an update, if it has to.
fn trigger(view: &State, stored: &Allocation, update: &AllocUpdate, now: Time) -> Option<(EvalTrigger, JobType, i64)> {
    let returning = stored.client_status == AllocClientStatus::Unknown;
    if !update.client_status.is_terminal() && !returning {
        return None;
    }
    let Some(job) = view.job(&stored.namespace, &stored.job_id) else {
        let own = stored.job.as_ref();
        let (kind, priority) = own.map_or((JobType::Service, 50), |job| (job.kind.clone(), job.priority));
        return Some((EvalTrigger::JobDeregister, kind, priority));
    };
    let about = |trigger| Some((trigger, job.kind.clone(), job.priority));
    if returning {
        return about(EvalTrigger::Reconnect);
    }
    let failed = update.client_status == AllocClientStatus::Failed && stored.followup_eval_id.is_none();
    if failed && songline_scheduler::reschedule::may_reschedule(stored, now) {
        return about(EvalTrigger::RetryFailedAlloc);
    }
    None
}

fn evaluation(job: JobKey, trigger: EvalTrigger, kind: JobType, priority: i64, now: Time) -> Evaluation {
    Evaluation {
        id: EvalId::from(uuid::Uuid::new_v4()),
        namespace: job.namespace,
        priority,
        kind,
        triggered_by: trigger,
        job_id: job.id,
        status: EvalStatus::Pending,
        create_time: now.nanos(),
        modify_time: now.nanos(),
        ..Evaluation::default()
    }
}
