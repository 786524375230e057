//! Messages between members, as bytes: little-endian numbers, no field names, and a checksum over the whole.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest, VoteRequest, VoteResponse,
};

use super::adapt;
use super::types::{LogId, Types, Vote};
use crate::members::NodeId;
use crate::position::{Edge, Position};
use crate::record::{PAYLOAD_BYTES_MAX, Record, kind_of};

/// Version of the message format. A member refuses messages of another version.
const VERSION: u8 = 1;

/// A request to another member.
#[derive(Debug)]
pub(super) enum Request<R: Send + Sync + 'static> {
    /// Entries, or a heartbeat without entries.
    Append(AppendEntriesRequest<Types<R>>),
    /// Request for a vote.
    Vote(VoteRequest<Types<R>>),
    /// Question whether the member would vote (pre-vote).
    PreVote(VoteRequest<Types<R>>),
    /// Request to stand for election at once (leadership transfer).
    Transfer(TransferLeaderRequest<Types<R>>),
    /// A piece of a checkpoint.
    Part(Part),
}

/// A piece of a checkpoint's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Vote of the sending leader.
    pub vote: Vote,
    /// Position of the checkpoint.
    pub position: Position,
    /// Length of the file, in bytes.
    pub file_bytes: u64,
    /// Offset of the piece in the file, in bytes.
    pub offset: u64,
    /// Content of the piece. An empty piece only asks for the answer.
    pub data: Bytes,
}

/// The answer of a member.
#[derive(Debug)]
pub(super) enum Response<R: Send + Sync + 'static> {
    /// Answer to `Append`.
    Append(AppendEntriesResponse<Types<R>>),
    /// Answer to `Vote` and `PreVote`.
    Vote(VoteResponse<Types<R>>),
    /// Answer to `Transfer`.
    Transfer(Result<(), TransferLeaderError<Types<R>>>),
    /// Answer to `Part`: the member's vote, and the number of bytes of the file that it has. All bytes: the checkpoint
    /// is installed.
    Part { vote: Vote, have: u64 },
    /// Answer to `Part`: the file is complete and being installed. The sender has to ask again.
    Installing,
    /// The member could not handle the request.
    Failed(String),
}

impl<R: Send + Sync + 'static> Request<R> {
    /// Encodes the request for the member `to`.
    pub fn encode(self, to: NodeId) -> Bytes {
        let mut out = BytesMut::with_capacity(256);
        out.put_u8(VERSION);
        out.put_u64_le(to);
        match self {
            Self::Append(append) => {
                out.put_u8(1);
                put_vote(&mut out, &append.vote);
                put_log_id(&mut out, append.prev_log_id.as_ref());
                put_log_id(&mut out, append.leader_commit.as_ref());
                out.put_u32_le(u32::try_from(append.entries.len()).expect("a message has fewer than 2^32 entries"));
                for entry in append.entries {
                    let record = adapt::record(entry);
                    out.put_u8(record.kind as u8);
                    put_position(&mut out, record.position);
                    put_bytes(&mut out, &record.payload);
                }
            }
            Self::Vote(vote) => put_vote_request(&mut out, 2, &vote),
            Self::PreVote(vote) => put_vote_request(&mut out, 3, &vote),
            Self::Transfer(transfer) => {
                out.put_u8(4);
                put_vote(&mut out, transfer.from_leader());
                out.put_u64_le(*transfer.to_node_id());
                put_log_id(&mut out, transfer.last_log_id());
            }
            Self::Part(part) => {
                out.put_u8(5);
                put_vote(&mut out, &part.vote);
                put_position(&mut out, part.position);
                out.put_u64_le(part.file_bytes);
                out.put_u64_le(part.offset);
                put_bytes(&mut out, &part.data);
            }
        }
        sealed(out)
    }

    /// Decodes a request for the member `own`. A request for another member is an error: a server that was wiped and
    /// started with a new number has the address of the old member, and must not answer for it.
    pub fn decode(own: NodeId, message: Bytes) -> io::Result<Self> {
        let mut bytes = unsealed(message)?;
        let to = u64_of(&mut bytes)?;
        if to != own {
            return Err(invalid(format!("this is server {own}; server {to} is not here")));
        }
        let request = match u8_of(&mut bytes)? {
            1 => {
                let (vote, prev_log_id, leader_commit) =
                    (vote_of(&mut bytes)?, log_id_of(&mut bytes)?, log_id_of(&mut bytes)?);
                let count = u32_of(&mut bytes)?;
                let mut entries = Vec::new();
                for _ in 0..count {
                    let kind = kind_of(u8_of(&mut bytes)?).ok_or_else(|| invalid("an unknown kind of entry"))?;
                    let position = position_of(&mut bytes)?;
                    entries.push(adapt::entry(Record { position, kind, payload: bytes_of(&mut bytes)? })?);
                }
                Self::Append(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
            }
            2 => Self::Vote(vote_request_of(&mut bytes)?),
            3 => Self::PreVote(vote_request_of(&mut bytes)?),
            4 => {
                let (from, to) = (vote_of(&mut bytes)?, u64_of(&mut bytes)?);
                Self::Transfer(TransferLeaderRequest::new(from, to, log_id_of(&mut bytes)?))
            }
            5 => Self::Part(Part {
                vote: vote_of(&mut bytes)?,
                position: position_of(&mut bytes)?,
                file_bytes: u64_of(&mut bytes)?,
                offset: u64_of(&mut bytes)?,
                data: bytes_of(&mut bytes)?,
            }),
            _ => return Err(invalid("an unknown kind of message")),
        };
        at_end(&bytes)?;
        Ok(request)
    }
}

impl<R: Send + Sync + 'static> Response<R> {
    pub fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        out.put_u8(VERSION);
        match self {
            Self::Append(AppendEntriesResponse::Success) => out.put_u8(1),
            Self::Append(AppendEntriesResponse::PartialSuccess(last)) => {
                out.put_u8(2);
                put_log_id(&mut out, last.as_ref());
            }
            Self::Append(AppendEntriesResponse::Conflict) => out.put_u8(3),
            Self::Append(AppendEntriesResponse::HigherVote(vote)) => {
                out.put_u8(4);
                put_vote(&mut out, &vote);
            }
            Self::Vote(response) => {
                out.put_u8(5);
                put_vote(&mut out, &response.vote);
                out.put_u8(u8::from(response.vote_granted));
                put_log_id(&mut out, response.last_log_id.as_ref());
            }
            Self::Transfer(Ok(())) => out.put_u8(6),
            Self::Transfer(Err(TransferLeaderError::VoteChanged { expected, actual })) => {
                out.put_u8(7);
                put_vote(&mut out, &expected);
                put_vote(&mut out, &actual);
            }
            Self::Transfer(Err(TransferLeaderError::LogNotFlushed { expected, actual })) => {
                out.put_u8(8);
                put_log_id(&mut out, expected.as_ref());
                put_log_id(&mut out, actual.as_ref());
            }
            Self::Part { vote, have } => {
                out.put_u8(9);
                put_vote(&mut out, &vote);
                out.put_u64_le(have);
            }
            Self::Failed(why) => {
                out.put_u8(10);
                put_bytes(&mut out, why.as_bytes());
            }
            Self::Installing => out.put_u8(11),
        }
        sealed(out)
    }

    pub fn decode(message: Bytes) -> io::Result<Self> {
        let mut bytes = unsealed(message)?;
        let response = match u8_of(&mut bytes)? {
            1 => Self::Append(AppendEntriesResponse::Success),
            2 => Self::Append(AppendEntriesResponse::PartialSuccess(log_id_of(&mut bytes)?)),
            3 => Self::Append(AppendEntriesResponse::Conflict),
            4 => Self::Append(AppendEntriesResponse::HigherVote(vote_of(&mut bytes)?)),
            5 => {
                let (vote, granted) = (vote_of(&mut bytes)?, u8_of(&mut bytes)? == 1);
                Self::Vote(VoteResponse::new(vote, log_id_of(&mut bytes)?, granted))
            }
            6 => Self::Transfer(Ok(())),
            7 => Self::Transfer(Err(TransferLeaderError::VoteChanged {
                expected: vote_of(&mut bytes)?,
                actual: vote_of(&mut bytes)?,
            })),
            8 => Self::Transfer(Err(TransferLeaderError::LogNotFlushed {
                expected: log_id_of(&mut bytes)?,
                actual: log_id_of(&mut bytes)?,
            })),
            9 => Self::Part { vote: vote_of(&mut bytes)?, have: u64_of(&mut bytes)? },
            10 => Self::Failed(String::from_utf8_lossy(&bytes_of(&mut bytes)?).into_owned()),
            11 => Self::Installing,
            _ => return Err(invalid("an unknown kind of answer")),
        };
        at_end(&bytes)?;
        Ok(response)
    }
}

fn sealed(mut out: BytesMut) -> Bytes {
    let crc = crc32c::crc32c(&out);
    out.put_u32_le(crc);
    out.freeze()
}

fn unsealed(message: Bytes) -> io::Result<Bytes> {
    let end = message.len().checked_sub(4).ok_or_else(|| invalid("a message that is too short"))?;
    let mut content = message.slice(..end);
    if message.slice(end..).get_u32_le() != crc32c::crc32c(&content) {
        return Err(invalid("a message that was changed on the way"));
    }
    match u8_of(&mut content)? {
        VERSION => Ok(content),
        other => Err(invalid(format!("a message of version {other}; this program speaks {VERSION}"))),
    }
}

fn put_vote(out: &mut BytesMut, vote: &Vote) {
    out.put_slice(&adapt::encode_vote(vote));
}

fn put_log_id(out: &mut BytesMut, log_id: Option<&LogId>) {
    out.put_slice(&adapt::edge(log_id).encode());
}

fn put_position(out: &mut BytesMut, position: Position) {
    out.put_u64_le(position.term);
    out.put_u64_le(position.index);
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32_le(
        u32::try_from(bytes.len()).expect("entries are checked against PAYLOAD_BYTES_MAX, and pieces are small"),
    );
    out.put_slice(bytes);
}

fn put_vote_request<R: Send + Sync + 'static>(out: &mut BytesMut, tag: u8, request: &VoteRequest<Types<R>>) {
    out.put_u8(tag);
    put_vote(out, &request.vote);
    put_log_id(out, request.last_log_id.as_ref());
    out.put_u8(u8::from(request.leadership_transfer));
}

fn vote_request_of<R: Send + Sync + 'static>(bytes: &mut Bytes) -> io::Result<VoteRequest<Types<R>>> {
    let (vote, last) = (vote_of(bytes)?, log_id_of(bytes)?);
    let mut request = VoteRequest::new(vote, last);
    request.leadership_transfer = u8_of(bytes)? == 1;
    Ok(request)
}

fn vote_of(bytes: &mut Bytes) -> io::Result<Vote> {
    adapt::decode_vote(&take(bytes, adapt::VOTE_BYTES)?)?.ok_or_else(|| invalid("no vote"))
}

fn log_id_of(bytes: &mut Bytes) -> io::Result<Option<LogId>> {
    let edge = Edge::decode(&take(bytes, Edge::BYTES)?).ok_or_else(|| invalid("no position"))?;
    Ok(edge.last().map(adapt::log_id))
}

fn position_of(bytes: &mut Bytes) -> io::Result<Position> {
    Ok(Position { term: u64_of(bytes)?, index: u64_of(bytes)? })
}

fn bytes_of(bytes: &mut Bytes) -> io::Result<Bytes> {
    let len = u32_of(bytes)? as usize;
    if len > PAYLOAD_BYTES_MAX {
        return Err(invalid("an impossible length"));
    }
    take(bytes, len)
}

fn u8_of(bytes: &mut Bytes) -> io::Result<u8> {
    bytes.try_get_u8().map_err(|_| short())
}

fn u32_of(bytes: &mut Bytes) -> io::Result<u32> {
    bytes.try_get_u32_le().map_err(|_| short())
}

fn u64_of(bytes: &mut Bytes) -> io::Result<u64> {
    bytes.try_get_u64_le().map_err(|_| short())
}

fn take(bytes: &mut Bytes, len: usize) -> io::Result<Bytes> {
    if bytes.len() < len { Err(short()) } else { Ok(bytes.split_to(len)) }
}

fn at_end(bytes: &Bytes) -> io::Result<()> {
    if bytes.is_empty() { Ok(()) } else { Err(invalid("a message with something behind it")) }
}

fn short() -> io::Error {
    invalid("a message that ends early")
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}
