//! Conversions between openraft's types and ours.

use std::io;

use openraft::EntryPayload;
use openraft::entry::RaftEntry;
use openraft::impls::BasicNode;

use super::types::{Command, CommittedLeaderId, Entry, LogId, Membership, SnapshotMeta, StoredMembership, Vote};
use crate::checkpoint::Meta;
use crate::machine::{Committed, Payload};
use crate::members::Members;
use crate::position::{Edge, Position, u64_at};
use crate::record::{Kind, Record};

pub(super) fn log_id(position: Position) -> LogId {
    LogId::new(CommittedLeaderId::new(position.term), position.index)
}

pub(super) fn position(log_id: &LogId) -> Position {
    Position { term: log_id.leader_id.term, index: log_id.index }
}

pub(super) fn edge(log_id: Option<&LogId>) -> Edge {
    log_id.map(position).into()
}

pub(super) fn members(membership: &Membership) -> Members {
    Members {
        voters: membership.get_joint_config().clone(),
        addresses: membership.nodes().map(|(id, node)| (*id, node.addr.clone())).collect(),
    }
}

pub(super) fn membership(members: &Members) -> io::Result<Membership> {
    if members.voters.is_empty() && members.addresses.is_empty() {
        return Ok(Membership::default());
    }
    let nodes = members.addresses.iter().map(|(id, address)| (*id, BasicNode::new(address)));
    let nodes: std::collections::BTreeMap<_, _> = nodes.collect();
    Membership::new(members.voters.clone(), nodes).map_err(|error| invalid(error.to_string()))
}

pub(super) fn record(entry: Entry) -> Record {
    let position = position(&entry.log_id());
    let (kind, payload) = match entry.payload {
        EntryPayload::Blank => (Kind::Blank, Vec::new().into()),
        EntryPayload::Normal(command) => (Kind::Command, command.0),
        EntryPayload::Membership(membership) => (Kind::Membership, members(&membership).encode().into()),
    };
    Record { position, kind, payload }
}

pub(super) fn entry(record: Record) -> io::Result<Entry> {
    let payload = match record.kind {
        Kind::Blank => EntryPayload::Blank,
        Kind::Command => EntryPayload::Normal(Command(record.payload)),
        Kind::Membership => EntryPayload::Membership(membership(&decode_members(&record)?)?),
    };
    Ok(Entry::new(log_id(record.position), payload))
}

pub(super) fn committed_entry(entry: Entry) -> Committed {
    let position = position(&entry.log_id());
    let payload = match entry.payload {
        EntryPayload::Blank => Payload::Blank,
        EntryPayload::Normal(command) => Payload::Command(command.0),
        EntryPayload::Membership(membership) => Payload::Membership(members(&membership)),
    };
    Committed { position, payload }
}

fn decode_members(record: &Record) -> io::Result<Members> {
    Members::decode(&record.payload).ok_or_else(|| invalid(format!("entry {} holds no membership", record.position)))
}

/// Number of bytes that `encode_vote` writes.
pub(super) const VOTE_BYTES: usize = 17;

pub(super) fn encode_vote(vote: &Vote) -> Vec<u8> {
    let leader = vote.leader_id();
    let mut bytes = leader.term.to_le_bytes().to_vec();
    bytes.extend_from_slice(&leader.voted_for.to_le_bytes());
    bytes.push(u8::from(vote.is_committed()));
    bytes
}

pub(super) fn decode_vote(bytes: &[u8]) -> io::Result<Option<Vote>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (Some(term), Some(node), Some(committed)) = (u64_at(bytes, 0), u64_at(bytes, 8), bytes.get(16)) else {
        return Err(invalid("the vote has an unknown shape"));
    };
    Ok(Some(if *committed == 1 { Vote::new_committed(term, node) } else { Vote::new(term, node) }))
}

pub(super) fn stored_membership(set: Edge, members: &Members) -> io::Result<StoredMembership> {
    Ok(StoredMembership::new(set.last().map(log_id), membership(members)?))
}

pub(super) fn snapshot_meta(meta: &Meta) -> io::Result<SnapshotMeta> {
    Ok(SnapshotMeta {
        last_log_id: Some(log_id(meta.position)),
        last_membership: stored_membership(meta.members_set, &meta.members)?,
    })
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}
