//! Sends openraft's calls to other members as messages of a `Transport`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::impls::BasicNode;
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use openraft::{AnyError, OptionalSend};
use parking_lot::Mutex;

use super::adapt;
use super::message::{Part, Request, Response};
use super::types::{Snapshot, SnapshotData, Types, Vote};
use crate::checkpoint::Checkpoint;
use crate::disk::{Disk, DiskFile, Open};
use crate::members::NodeId;
use crate::transport::{Transport, TransportError};

/// Least timeout of a message with entries. openraft would give it three quarters of a heartbeat interval; a follower
/// with a slow disk may not even have written the entries by then.
const APPEND_WITHIN: Duration = Duration::from_secs(2);
/// Bytes of a checkpoint in one message.
const PART_BYTES: usize = 1 << 20;
/// Timeout for an answer to one piece of a checkpoint: stored, or still installing. An installation may take longer in
/// all; a member that dies of it falls silent.
const PART_WITHIN: Duration = Duration::from_secs(10);

/// Makes clients for other members.
#[derive(Clone)]
pub(crate) struct Network {
    pub(super) disk: Arc<dyn Disk>,
    transport: Arc<dyn Transport>,
    acked: Acked,
}

/// The edge that each member has acknowledged: (our term, next index). openraft keeps the same, and panics when a
/// member goes back behind it.
type Acked = Arc<Mutex<BTreeMap<NodeId, (u64, u64)>>>;

impl Network {
    pub fn new(disk: Arc<dyn Disk>, transport: Arc<dyn Transport>) -> Self {
        Self { disk, transport, acked: Arc::default() }
    }
}

/// Client of one other member.
pub(crate) struct Peer {
    disk: Arc<dyn Disk>,
    transport: Arc<dyn Transport>,
    acked: Acked,
    target: NodeId,
    address: String,
}

enum Unanswered {
    Unreachable(String),
    Lost(String),
}

impl Peer {
    async fn ask<R: Send + Sync + 'static>(
        &self,
        request: Request<R>,
        within: Duration,
    ) -> Result<Response<R>, Unanswered> {
        let sent = self.transport.send(self.target, &self.address, request.encode(self.target), within);
        // Bound the call here too: if the transport never returned, consensus would freeze.
        let answer = match tokio::time::timeout(within, sent).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(TransportError::Unreachable(why))) => return Err(Unanswered::Unreachable(why)),
            Ok(Err(TransportError::Lost(why))) => return Err(Unanswered::Lost(why)),
            Err(_) => {
                return Err(Unanswered::Lost(format!(
                    "server {} did not answer in {} ms",
                    self.target,
                    within.as_millis()
                )));
            }
        };
        match Response::decode(answer) {
            Ok(Response::Failed(why)) => Err(Unanswered::Unreachable(why)),
            Ok(response) => Ok(response),
            Err(error) => Err(Unanswered::Unreachable(error.to_string())),
        }
    }

    /// Index after the last entry that the member has acknowledged in this term; 0 without one.
    fn acked_in(&self, term: u64) -> u64 {
        let acked = self.acked.lock();
        acked.get(&self.target).filter(|(of, _)| *of == term).map_or(0, |(_, next)| *next)
    }

    fn ack(&self, term: u64, next: u64) {
        let mut acked = self.acked.lock();
        let known = acked.entry(self.target).or_insert((term, next));
        *known = if known.0 == term { (term, known.1.max(next)) } else { (term, next) };
    }

    fn unexpected<R: Send + Sync + 'static>(&self) -> RPCError<Types<R>> {
        Unanswered::Unreachable(format!("server {} answers something else than it was asked", self.target)).into()
    }

    /// Sends the pieces that the member lacks, then asks until it has installed the checkpoint.
    async fn send_parts<R: Send + Sync + 'static>(
        &self,
        vote: Vote,
        checkpoint: &Checkpoint,
    ) -> Result<Vote, StreamingError<Types<R>>> {
        let failed = |error: std::io::Error| StreamingError::Unreachable(Unreachable::new(&AnyError::new(&error)));
        let file = self.disk.open(&checkpoint.path, Open::Read).map_err(failed)?;
        let file_bytes = file.len().map_err(failed)?;
        let position = checkpoint.meta.position;
        let mut offset = 0;
        let mut data = Bytes::new();
        // The first message has no data: the answer tells how much the member has from an earlier attempt.
        loop {
            let part = Part { vote, position, file_bytes, offset, data: std::mem::take(&mut data) };
            let (theirs, have) = match self.ask::<R>(Request::Part(part), PART_WITHIN).await {
                Ok(Response::Part { vote, have }) => (vote, have),
                Ok(Response::Installing) => continue,
                Ok(_) => {
                    return Err(StreamingError::Network(NetworkError::new(&AnyError::error(
                        "not an answer to a piece of a checkpoint",
                    ))));
                }
                Err(Unanswered::Unreachable(why)) => return Err(Unreachable::new(&AnyError::error(why)).into()),
                Err(Unanswered::Lost(why)) => return Err(NetworkError::new(&AnyError::error(why)).into()),
            };
            if have >= file_bytes || theirs > vote {
                return Ok(theirs);
            }
            offset = have;
            let reading = Arc::clone(&file);
            let read = self.disk.blocking(move || read_part(reading.as_ref(), offset, file_bytes)).await;
            data = read.and_then(|read| read).map_err(failed)?;
        }
    }
}

fn read_part(file: &dyn DiskFile, offset: u64, file_bytes: u64) -> std::io::Result<Bytes> {
    let left = usize::try_from(file_bytes - offset).unwrap_or(usize::MAX);
    let mut data = vec![0; left.min(PART_BYTES)];
    file.read_exact_at(&mut data, offset)?;
    Ok(data.into())
}

impl<R: Send + Sync + 'static> From<Unanswered> for RPCError<Types<R>> {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::Unreachable(why) => Unreachable::new(&AnyError::error(why)).into(),
            Unanswered::Lost(why) => NetworkError::new(&AnyError::error(why)).into(),
        }
    }
}

impl<R: Send + Sync + 'static> RaftNetworkFactory<Types<R>> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: NodeId, node: &BasicNode) -> Peer {
        let Self { disk, transport, acked } = self.clone();
        Peer { disk, transport, acked, target, address: node.addr.clone() }
    }
}

impl<R: Send + Sync + 'static> RaftNetworkV2<Types<R>> for Peer {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<R>>, RPCError<Types<R>>> {
        let within = if rpc.entries.is_empty() { option.soft_ttl() } else { option.soft_ttl().max(APPEND_WITHIN) };
        let term = rpc.vote.leader_id().term;
        let before = adapt::edge(rpc.prev_log_id.as_ref()).next;
        let after = before + rpc.entries.len() as u64;
        match self.ask(Request::Append(rpc), within).await? {
            Response::Append(AppendEntriesResponse::Conflict) if self.acked_in(term) >= before && before > 0 => {
                tracing::error!(
                    server = self.target,
                    entry = before - 1,
                    "a server has lost entries that it had acknowledged: it gets nothing more. Stop it, remove it, and start it with an empty directory"
                );
                Err(Unanswered::Unreachable(format!(
                    "server {} has lost entries that it had acknowledged",
                    self.target
                ))
                .into())
            }
            Response::Append(response) => {
                if response == AppendEntriesResponse::Success {
                    self.ack(term, after);
                }
                Ok(response)
            }
            _ => Err(self.unexpected()),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        match self.ask(Request::Vote(rpc), option.soft_ttl()).await? {
            Response::Vote(response) => Ok(response),
            _ => Err(self.unexpected()),
        }
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        match self.ask(Request::PreVote(rpc), option.soft_ttl()).await? {
            Response::Vote(response) => Ok(response),
            _ => Err(self.unexpected()),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types<R>>, StreamingError<Types<R>>> {
        let Some(checkpoint) = &snapshot.snapshot else {
            return Err(Unreachable::new(&AnyError::error("there is no checkpoint to send")).into());
        };
        tracing::info!(to = self.target, position = %checkpoint.meta.position, "sending a checkpoint to a server that is behind");
        tokio::select! {
            biased;
            sent = self.send_parts::<R>(vote, checkpoint) => sent.map(SnapshotResponse::new),
            closed = cancel => Err(closed.into()),
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types<R>>, RPCError<Types<R>>> {
        match self.ask(Request::Transfer(req), option.soft_ttl()).await? {
            Response::Transfer(response) => Ok(response),
            _ => Err(self.unexpected()),
        }
    }
}

#[cfg(test)]
mod tests;
