//! Batches the nodes' alloc updates, so that many nodes share one log entry.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use songline_commands::{Actor, ClientAlloc};
use songline_model::{NodeId, Time};
use songline_rpc::{AllocReport, RpcError};
use songline_scheduler::leader::reports;
use tokio::sync::{mpsc, oneshot};

use super::Core;
use super::endpoint::ALLOC_UPDATE_BATCH_WAIT;

/// Updates of one call, and the channel to its waiting caller.
struct Waiting {
    node: NodeId,
    allocs: Vec<AllocReport>,
    done: oneshot::Sender<Result<u64, RpcError>>,
}

/// Sender of updates. The queue has no bound of its own: a node reports again only after the answer to its last report.
#[derive(Debug)]
pub(crate) struct Updates {
    queue: mpsc::UnboundedSender<Waiting>,
}

/// Receiver of updates; [`run`] drains it.
pub(crate) struct UpdateQueue(mpsc::UnboundedReceiver<Waiting>);

impl Updates {
    pub(crate) fn new() -> (Self, UpdateQueue) {
        let (queue, receiver) = mpsc::unbounded_channel();
        (Self { queue }, UpdateQueue(receiver))
    }

    /// Submits updates. Returns the entry's index once it is applied and durable.
    pub(crate) async fn submit(&self, node: NodeId, allocs: Vec<AllocReport>) -> Result<u64, RpcError> {
        let (done, result) = oneshot::channel();
        let closed = || RpcError::Lost("server is shutting down".into());
        self.queue.send(Waiting { node, allocs, done }).map_err(|_| closed())?;
        result.await.map_err(|_| closed())?
    }
}

/// Proposes one entry for all updates that arrive within the batch's delay, until the server is gone.
pub(crate) async fn run(core: Weak<Core>, mut queue: UpdateQueue) {
    while let Some(first) = queue.0.recv().await {
        tokio::time::sleep(ALLOC_UPDATE_BATCH_WAIT).await;
        let mut batch = vec![first];
        while let Ok(more) = queue.0.try_recv() {
            batch.push(more);
        }
        let Some(core) = core.upgrade() else { return };
        // The next batch is gathered while this one is being written. A node waits for its answer before it reports
        // again, so two batches do not have reports of one allocation that could overtake each other.
        tokio::spawn(async move {
            let (entry, dropped) = reports::entry(&core.view(), reports(&mut batch), core.now(), || core.fresh_eval());
            if dropped > 0 {
                tracing::debug!(dropped, "updates of allocations that their senders do not have");
                core.metrics.count_dropped_updates(dropped);
            }
            let told: BTreeSet<NodeId> = entry.allocs.iter().map(|alloc| alloc.node_id).collect();
            let actor =
                if batch.len() == 1 { Actor::Node(batch[0].node) } else { Actor::Leader("alloc-updates".into()) };
            let result = match entry.allocs.is_empty() {
                true => Ok(core.view().applied_index()),
                false => core.propose_as(actor, None, entry).await,
            };
            let view = core.view();
            for waiting in batch {
                let answer = result.clone().and_then(|index| {
                    let refused =
                        told.contains(&waiting.node).then(|| reports::refused_at(&view, waiting.node, index)).flatten();
                    refused.map_or(Ok(index), |why| Err(RpcError::remote(why)))
                });
                // The update is applied even if its caller no longer waits.
                let _ = waiting.done.send(answer);
            }
        });
    }
}

/// Takes the reports out of a batch, in the form of the command.
fn reports(batch: &mut [Waiting]) -> impl Iterator<Item = ClientAlloc> {
    batch.iter_mut().flat_map(|waiting| {
        let node_id = waiting.node;
        std::mem::take(&mut waiting.allocs).into_iter().map(move |report| ClientAlloc {
            id: report.id,
            node_id,
            client_status: report.client_status,
            client_description: report.client_description,
            task_states: report.task_states.or_else(|| Some(Arc::default())),
            deployment_status: report.deployment_status,
            network_status: report.network_status,
            modify_time: Time::default(),
        })
    })
}
