//! What the log asks of whoever keeps the state. The state itself is not here.

use std::io::{self, Read, Write};

use bytes::Bytes;

use crate::members::Members;
use crate::position::Position;

/// What an entry holds, once read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// Bytes that somebody proposed.
    Command(Bytes),
    /// Nothing. A new leader appends one; the index advances all the same.
    Blank,
    /// The members of the cluster from here on.
    Membership(Members),
}

/// An entry that will never change or vanish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Where it is in the log.
    pub position: Position,
    /// What it holds.
    pub payload: Payload,
}

/// The state that the log drives. It lives in memory: at every start it is built anew, from the newest sound
/// checkpoint (or nothing) and the entries after it.
pub trait StateMachine: Send + 'static {
    /// What the proposer of a command gets back. It stays in this process and is never encoded.
    type Reply: Send + Sync + 'static;

    /// Applies entries, in log order, each exactly once, never two calls at a time. Answers one reply per
    /// entry, in order. Replies to entries that nobody here proposed are dropped.
    fn apply(&mut self, batch: Vec<Committed>) -> Vec<Self::Reply>;

    /// The state as it is now, in a form that does not change when more is applied. Called between two
    /// batches, so it must be quick; what takes long belongs in `CheckpointSource::write_to`.
    fn checkpoint(&mut self) -> Box<dyn CheckpointSource>;

    /// Replaces the state by one that `checkpoint` wrote when the entry at `position` was the last applied.
    fn install(&mut self, position: Position, content: &mut dyn Read) -> io::Result<()>;
}

/// A state to be written out, on another thread than the one that applies.
pub trait CheckpointSource: Send {
    /// Writes the whole state. The log adds the checks that it can be read back unchanged.
    fn write_to(self: Box<Self>, out: &mut dyn Write) -> io::Result<()>;
}
