//! Checks that every acknowledged write is in the log at its acknowledged index, and that no write is there twice.

use std::collections::BTreeMap;

/// Outcome of one write for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged, with this log index.
    Acknowledged(u64),
    /// Unknown; the write may be in the log, once.
    Unknown,
    /// Known not to have been written.
    Refused,
}

/// One write of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Id that identifies the write in the log.
    pub id: u64,
    /// Outcome for the client.
    pub outcome: Outcome,
}

/// A difference between the clients' outcomes and the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// An acknowledged write is not in the log.
    #[error("write {id} was acknowledged at index {index} and is not in the log")]
    Lost {
        /// Write id.
        id: u64,
        /// Acknowledged index.
        index: u64,
    },
    /// A write is at another index than acknowledged.
    #[error("write {id} was acknowledged at index {index} and is at {found}")]
    Moved {
        /// Write id.
        id: u64,
        /// Acknowledged index.
        index: u64,
        /// Actual index.
        found: u64,
    },
    /// A write is in the log more than once.
    #[error("write {id} is in the log at {first} and again at {second}")]
    Doubled {
        /// Write id.
        id: u64,
        /// First index.
        first: u64,
        /// Second index.
        second: u64,
    },
    /// A refused write is in the log.
    #[error("write {id} was refused and is in the log at {found}")]
    Kept {
        /// Write id.
        id: u64,
        /// Its index.
        found: u64,
    },
    /// The log has a write that no client made.
    #[error("the log has a write {id} at {found} that nobody made")]
    Invented {
        /// Write id.
        id: u64,
        /// Its index.
        found: u64,
    },
}

/// Compares the clients' outcomes with the log: its writes that took effect, as `(index, id)`, from the first entry
/// on.
pub fn writes_are_in_the_log(writes: &[Write], log: impl IntoIterator<Item = (u64, u64)>) -> Result<(), WriteError> {
    let mut places: BTreeMap<u64, u64> = BTreeMap::new();
    for (index, id) in log {
        if let Some(first) = places.insert(id, index) {
            return Err(WriteError::Doubled { id, first, second: index });
        }
    }
    for write in writes {
        let id = write.id;
        match (write.outcome, places.remove(&id)) {
            (Outcome::Acknowledged(index), Some(found)) if found != index => {
                return Err(WriteError::Moved { id, index, found });
            }
            (Outcome::Acknowledged(index), None) => return Err(WriteError::Lost { id, index }),
            (Outcome::Refused, Some(found)) => return Err(WriteError::Kept { id, found }),
            (Outcome::Acknowledged(_) | Outcome::Unknown, Some(_)) | (Outcome::Unknown | Outcome::Refused, None) => {}
        }
    }
    match places.into_iter().next() {
        Some((id, found)) => Err(WriteError::Invented { id, found }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
