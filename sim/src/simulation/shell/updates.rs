//! Batches the nodes' alloc updates, so that many nodes share one log entry. The real one is `server/src/updates.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use songline_commands::{Actor, ClientAlloc};
use songline_model::NodeId;
use songline_rpc::{AllocUpdate, RpcError};
use songline_scheduler::leader::reports;
use tokio::sync::{mpsc, oneshot};

use super::Shell;

/// Delay of an update, in which others join its batch.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// Updates of one call, and the channel to its waiting caller.
pub struct Waiting {
    node: NodeId,
    allocs: Vec<AllocUpdate>,
    done: oneshot::Sender<Result<u64, RpcError>>,
}

impl Shell {
    /// Submits updates. Returns the entry's index once it is applied and durable.
    pub(super) async fn report(&self, node: NodeId, allocs: Vec<AllocUpdate>) -> Result<u64, RpcError> {
        let (done, result) = oneshot::channel();
        let closed = || RpcError::Lost("server is shutting down".into());
        self.updates.send(Waiting { node, allocs, done }).map_err(|_| closed())?;
        result.await.map_err(|_| closed())?
    }
}

/// Proposes one entry for all updates that arrive within the batch's delay.
pub async fn run(shell: Arc<Shell>, mut queue: mpsc::UnboundedReceiver<Waiting>) {
    while let Some(first) = queue.recv().await {
        tokio::time::sleep(BATCH_WAIT).await;
        let mut batch = vec![first];
        while let Ok(more) = queue.try_recv() {
            batch.push(more);
        }
        let writer = Arc::clone(&shell);
        tokio::spawn(async move { write(&writer, batch).await });
    }
}

async fn write(shell: &Shell, batch: Vec<Waiting>) {
    let (entry, _) = reports::entry(&shell.view(), reports_of(&batch), shell.now(), || shell.fresh());
    let told: BTreeSet<NodeId> = entry.allocs.iter().map(|alloc| alloc.node_id).collect();
    let actor = if batch.len() == 1 { Actor::Node(batch[0].node) } else { Actor::Leader("alloc-updates".into()) };
    let result: Result<u64, RpcError> = match entry.allocs.is_empty() {
        true => Ok(shell.view().applied_index()),
        false => shell.write(None, actor, None, entry).await.map(|(index, _)| index).map_err(RpcError::from),
    };
    let view = shell.view();
    for waiting in batch {
        let answer = result.clone().and_then(|index| {
            let refused = told.contains(&waiting.node).then(|| reports::refused_at(&view, waiting.node, index)).flatten();
            refused.map_or(Ok(index), |why| Err(RpcError::remote(why)))
        });
        // The update is applied even if its caller no longer waits.
        let _ = waiting.done.send(answer);
    }
}

/// The updates of a batch in the form of the command.
fn reports_of(batch: &[Waiting]) -> impl Iterator<Item = ClientAlloc> {
    batch.iter().flat_map(|waiting| {
        waiting.allocs.iter().map(|update| ClientAlloc {
            id: update.id,
            node_id: waiting.node,
            client_status: update.client_status,
            client_description: update.client_description.clone(),
            task_states: Some(Arc::new(update.task_states.clone())),
            deployment_status: update.deployment_status.clone(),
            network_status: None,
            modify_time: 0,
        })
    })
}
