//! Positions in the log: of one entry (`Position`) or of the gap after it (`Edge`). Indexes here are raft indexes;
//! users see them with the state's `base` added.

use std::fmt;

/// Position of one entry: the term of the leader that appended it, and its raft index. The first index is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Term of the leader that appended the entry.
    pub term: u64,
    /// Index of the entry in the log.
    pub index: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.index, self.term)
    }
}

/// A cut between two entries: everything below `next` is on its left. An edge can lie before the first entry, which a
/// `Position` cannot, so "nothing yet" needs no special case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Edge {
    /// Term of the entry at `next - 1`; 0 when there is none.
    pub term: u64,
    /// Index of the first entry on the right of the cut.
    pub next: u64,
}

impl Edge {
    /// Number of bytes that `encode` writes.
    pub(crate) const BYTES: usize = 16;

    /// The cut right after `position`.
    pub fn after(position: Position) -> Self {
        Self { term: position.term, next: position.index + 1 }
    }

    /// Position of the last entry on the left of the cut; `None` before the first entry.
    pub fn last(self) -> Option<Position> {
        self.next.checked_sub(1).map(|index| Position { term: self.term, index })
    }

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.term.to_le_bytes());
        bytes[8..].copy_from_slice(&self.next.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { term: u64_at(bytes, 0)?, next: u64_at(bytes, 8)? })
    }
}

impl From<Option<Position>> for Edge {
    fn from(last: Option<Position>) -> Self {
        last.map_or_else(Self::default, Self::after)
    }
}

/// Reads a little-endian `u64` at `at`; `None` if the bytes end before.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Reads a little-endian `u32` at `at`; `None` if the bytes end before.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
