//! Type parameters for openraft.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use openraft::impls::{BasicNode, BoxedErrorSource, InlineBatch, leader_id_std};
use openraft::raft::responder::Responder;
use openraft::{EntryPayload, RaftTypeConfig};
use tokio::sync::oneshot;

use super::runtime::Runtime;
use crate::members::NodeId;

/// One term has one leader (`leader_id_std`), so term and index alone identify an entry.
pub(super) type LeaderId = leader_id_std::LeaderId<u64, NodeId>;
pub(super) type CommittedLeaderId = <LeaderId as openraft::vote::RaftLeaderId>::Committed;
pub(super) type LogId = openraft::LogId<CommittedLeaderId>;
pub(super) type Vote = openraft::Vote<LeaderId>;
pub(super) type Membership = openraft::Membership<NodeId, BasicNode>;
pub(super) type StoredMembership = openraft::StoredMembership<CommittedLeaderId, NodeId, BasicNode>;
pub(super) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId, NodeId, BasicNode>;
/// A checkpoint on this server's disk; `None` is the state before the first entry.
pub(super) type SnapshotData = Option<crate::checkpoint::Checkpoint>;
pub(super) type Snapshot = openraft::Snapshot<CommittedLeaderId, NodeId, BasicNode, SnapshotData>;
pub(super) type EntryData = EntryPayload<Command, NodeId, BasicNode>;
pub(super) type Entry = openraft::Entry<CommittedLeaderId, EntryData>;

/// Proposed bytes.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Command(pub Bytes);

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// Our choice for each of openraft's types, for a state machine that replies `R`.
pub(crate) struct Types<R>(PhantomData<fn() -> R>);

impl<R: Send + Sync + 'static> RaftTypeConfig for Types<R> {
    type D = Command;
    type R = R;
    type NodeId = NodeId;
    type Node = BasicNode;
    type Term = u64;
    type LeaderId = LeaderId;
    type Vote = Vote;
    type Payload = EntryData;
    type Entry = Entry;
    type AsyncRuntime = Runtime;
    type Responder<T>
        = ReplyTo<T>
    where
        T: Send + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: Send + 'static;
    type ErrorSource = BoxedErrorSource;
}

/// Channel for the answer to one proposal.
pub(crate) struct ReplyTo<T>(pub oneshot::Sender<T>);

impl<R: Send + Sync + 'static, T: Send + 'static> Responder<Types<R>, T> for ReplyTo<T> {
    fn on_complete(self, result: T) {
        // The receiver is gone when the proposer has stopped waiting.
        let _ = self.0.send(result);
    }
}

// Written by hand, because derives would require the same traits of `R`.
impl<R> Clone for Types<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Types<R> {}
impl<R> Default for Types<R> {
    fn default() -> Self {
        Self(PhantomData)
    }
}
impl<R> fmt::Debug for Types<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Types")
    }
}
impl<R> PartialEq for Types<R> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl<R> Eq for Types<R> {}
impl<R> PartialOrd for Types<R> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<R> Ord for Types<R> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}
