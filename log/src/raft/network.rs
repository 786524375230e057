//! How servers reach each other. There is no transport yet: a log has one member, and whoever asks for another
//! is told that it cannot be reached, which consensus knows how to live with.

use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::impls::BasicNode;
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse};
use openraft::{AnyError, OptionalSend};

use super::types::{Snapshot, SnapshotData, Types, Vote};
use crate::members::NodeId;

/// Makes connections to other members.
#[derive(Debug, Clone, Default)]
pub(crate) struct NoNetwork;

/// The way to one other member. A transport must bound every call by `RPCOption::soft_ttl`: a call that never
/// returns freezes consensus.
#[derive(Debug)]
pub(crate) struct NoPeer {
    target: NodeId,
}

impl NoPeer {
    fn unreachable<R: Send + Sync + 'static>(&self) -> Unreachable<Types<R>> {
        Unreachable::new(&AnyError::error(format!("no such peer: {}", self.target)))
    }
}

impl<R: Send + Sync + 'static> RaftNetworkFactory<Types<R>> for NoNetwork {
    type Network = NoPeer;

    async fn new_client(&mut self, target: NodeId, _node: &BasicNode) -> NoPeer {
        NoPeer { target }
    }
}

impl<R: Send + Sync + 'static> RaftNetworkV2<Types<R>> for NoPeer {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        _rpc: AppendEntriesRequest<Types<R>>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<R>>, RPCError<Types<R>>> {
        Err(self.unreachable().into())
    }

    async fn vote(&mut self, _rpc: VoteRequest<Types<R>>, _option: RPCOption) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        Err(self.unreachable().into())
    }

    async fn pre_vote(&mut self, _rpc: VoteRequest<Types<R>>, _option: RPCOption) -> Result<VoteResponse<Types<R>>, RPCError<Types<R>>> {
        Err(self.unreachable().into())
    }

    async fn full_snapshot(
        &mut self,
        _vote: Vote,
        _snapshot: Snapshot,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types<R>>, StreamingError<Types<R>>> {
        Err(self.unreachable().into())
    }
}
