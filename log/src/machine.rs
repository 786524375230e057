//! The state machine trait, which the log's user implements.

use std::io::{self, Read, Write};

use bytes::Bytes;

use crate::members::Members;
use crate::position::Position;

/// Content of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Bytes that were proposed.
    Command(Bytes),
    /// No content. A new leader appends a blank entry; the index advances all the same.
    Blank,
    /// The members of the cluster from this entry on.
    Membership(Members),
}

/// A committed entry: it never changes or vanishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Position of the entry.
    pub position: Position,
    /// Content of the entry.
    pub payload: Payload,
}

/// The state built from the log. The state lives in memory: every start rebuilds it from the newest sound checkpoint
/// (or from nothing) and the entries after it.
pub trait StateMachine: Send + 'static {
    /// Reply to the proposer of a command. It stays in this process and is never encoded.
    type Reply: Send + Sync + 'static;

    /// Applies entries in log order, each exactly once, never in two calls at a time. Returns one reply per entry, in
    /// order. Replies to entries that were not proposed on this server are dropped.
    fn apply(&mut self, batch: Vec<Committed>) -> Vec<Self::Reply>;

    /// Captures the present state; applying further entries must not change the capture. Called between two batches, so
    /// it must be quick: slow work belongs in `CheckpointSource::write_to`.
    fn checkpoint(&mut self) -> Box<dyn CheckpointSource>;

    /// Replaces the state by one that `checkpoint` captured when the entry at `position` was the last applied.
    fn install(&mut self, position: Position, content: &mut dyn Read) -> io::Result<()>;
}

/// A captured state to be written, on another thread than the one that applies entries.
pub trait CheckpointSource: Send {
    /// Writes the whole state. The log adds checksums.
    fn write_to(self: Box<Self>, out: &mut dyn Write) -> io::Result<()>;
}
