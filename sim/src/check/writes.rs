//! Whether every acknowledged write is in the log, at the place that was answered, and none is there twice.

use std::collections::BTreeMap;

/// What a client knows of one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged, with this log index.
    Acknowledged(u64),
    /// Nobody knows; it may be in the log, once.
    Unknown,
    /// Known not to have been written.
    Refused,
}

/// One write of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What makes it recognisable in the log.
    pub id: u64,
    /// What the client was told.
    pub outcome: Outcome,
}

/// How clients and log disagree.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Acknowledged and gone.
    #[error("write {id} was acknowledged at index {index} and is not in the log")]
    Lost {
        /// The write.
        id: u64,
        /// Where it should be.
        index: u64,
    },
    /// Acknowledged with one index and found at another.
    #[error("write {id} was acknowledged at index {index} and is at {found}")]
    Moved {
        /// The write.
        id: u64,
        /// Where it should be.
        index: u64,
        /// Where it is.
        found: u64,
    },
    /// In the log more than once.
    #[error("write {id} is in the log at {first} and again at {second}")]
    Doubled {
        /// The write.
        id: u64,
        /// Where it is.
        first: u64,
        /// Where it is too.
        second: u64,
    },
    /// In the log although its client was told that it is not.
    #[error("write {id} was refused and is in the log at {found}")]
    Kept {
        /// The write.
        id: u64,
        /// Where it is.
        found: u64,
    },
    /// In the log and never written.
    #[error("the log has a write {id} at {found} that nobody made")]
    Invented {
        /// The write.
        id: u64,
        /// Where it is.
        found: u64,
    },
}

/// Compares what clients were told with the log: its writes that took effect, as `(index, id)`, from the first entry on.
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
            (Outcome::Acknowledged(index), Some(found)) if found != index => return Err(WriteError::Moved { id, index, found }),
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
