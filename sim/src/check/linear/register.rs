//! Model of a register: valid answers of each operation, and the state after it.

use std::fmt;

/// A value with the version its write gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// Value.
    pub value: u64,
    /// Version: a log index where the register is a variable.
    pub version: u64,
}

/// Operations on a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reads.
    Get,
    /// Writes unconditionally.
    Set {
        /// The new value.
        value: u64,
    },
    /// Writes if the register has this version; 0 means that it is empty.
    Cas {
        /// The version to be replaced.
        expected: u64,
        /// The new value.
        value: u64,
    },
    /// Removes the value unconditionally.
    Delete,
    /// Removes the value if the register has this version.
    DeleteCas {
        /// The version to be removed.
        expected: u64,
    },
}

/// Answer of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// To `Get`: the current value.
    Held(Option<Held>),
    /// To `Set` and `Cas`: written, with this version.
    Wrote(u64),
    /// To `Cas` and `DeleteCas`: not written; the current value.
    Conflict(Option<Held>),
    /// Like `Conflict`, when only the current version is known.
    ConflictAt(u64),
    /// To `Delete` and `DeleteCas`: the register is empty now.
    Deleted,
}

/// State of the register at some point of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct State {
    held: Option<(u64, Version)>,
    /// The highest version known to be assigned. The next write's version is above it.
    floor: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Version {
    Known(u64),
    /// The write's outcome is unknown. The next operation that sees the value determines its version.
    Unknown,
}

impl State {
    /// The state after an operation with this answer, or `None` if the answer is impossible here. Without an answer,
    /// any effect of the operation is allowed.
    pub fn after(self, operation: &Operation, answer: Option<&Answer>) -> Option<Self> {
        match (operation, answer) {
            (Operation::Get, None) => Some(self),
            (Operation::Get, Some(Answer::Held(seen))) => self.seen(*seen),
            (Operation::Set { value }, None) => Some(self.written(*value)),
            (Operation::Set { value }, Some(Answer::Wrote(version))) => self.written_as(*value, *version),
            // A conditional write of unknown outcome whose condition fails had no effect.
            (Operation::Cas { expected, value }, None) => {
                Some(self.expecting(*expected).map_or(self, |state| state.written(*value)))
            }
            (Operation::Cas { expected, value }, Some(Answer::Wrote(version))) => {
                self.expecting(*expected)?.written_as(*value, *version)
            }
            (Operation::Cas { expected, .. } | Operation::DeleteCas { expected }, Some(Answer::Conflict(seen))) => {
                let state = self.seen(*seen)?;
                (seen.map_or(0, |held| held.version) != *expected).then_some(state)
            }
            (Operation::Cas { expected, .. } | Operation::DeleteCas { expected }, Some(Answer::ConflictAt(met))) => {
                let (value, version) = self.held?;
                self.versioned(value, version, *met).filter(|_| met != expected)
            }
            (Operation::Delete, None | Some(Answer::Deleted)) => Some(Self { held: None, ..self }),
            (Operation::DeleteCas { expected }, None) => {
                Some(self.expecting(*expected).map_or(self, |state| Self { held: None, ..state }))
            }
            (Operation::DeleteCas { expected }, Some(Answer::Deleted)) => {
                Some(Self { held: None, ..self.expecting(*expected)? })
            }
            (
                Operation::Get
                | Operation::Set { .. }
                | Operation::Cas { .. }
                | Operation::Delete
                | Operation::DeleteCas { .. },
                Some(
                    Answer::Held(_) | Answer::Wrote(_) | Answer::Conflict(_) | Answer::ConflictAt(_) | Answer::Deleted,
                ),
            ) => None,
        }
    }

    /// The state restricted to an observed value; `None` if that is impossible.
    fn seen(self, seen: Option<Held>) -> Option<Self> {
        match (self.held, seen) {
            (None, None) => Some(self),
            (Some((value, version)), Some(seen)) if value == seen.value => self.versioned(value, version, seen.version),
            (Some(_) | None, Some(_) | None) => None,
        }
    }

    /// The state restricted to an expected version; `None` if that is impossible.
    fn expecting(self, expected: u64) -> Option<Self> {
        match self.held {
            None => (expected == 0).then_some(self),
            Some((value, version)) => self.versioned(value, version, expected),
        }
    }

    fn versioned(self, value: u64, version: Version, seen: u64) -> Option<Self> {
        match version {
            Version::Known(known) => (known == seen).then_some(self),
            Version::Unknown => {
                (seen > self.floor).then_some(Self { held: Some((value, Version::Known(seen))), floor: seen })
            }
        }
    }

    fn written(self, value: u64) -> Self {
        Self { held: Some((value, Version::Unknown)), ..self }
    }

    fn written_as(self, value: u64, version: u64) -> Option<Self> {
        (version > self.floor).then_some(Self { held: Some((value, Version::Known(version))), floor: version })
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.value, self.version)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => f.write_str("get"),
            Self::Set { value } => write!(f, "set {value}"),
            Self::Cas { expected, value } => write!(f, "cas {value} over @{expected}"),
            Self::Delete => f.write_str("delete"),
            Self::DeleteCas { expected } => write!(f, "delete @{expected}"),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = |held: &Option<Held>| held.map_or_else(|| "nothing".to_owned(), |held| held.to_string());
        match self {
            Self::Held(seen) => f.write_str(&held(seen)),
            Self::Wrote(version) => write!(f, "wrote @{version}"),
            Self::Conflict(seen) => write!(f, "conflict with {}", held(seen)),
            Self::ConflictAt(version) => write!(f, "conflict with @{version}"),
            Self::Deleted => f.write_str("deleted"),
        }
    }
}
