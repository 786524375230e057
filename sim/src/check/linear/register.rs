//! The register that a history is held against: what each operation may answer, and what it leaves behind.

use std::fmt;

/// A value with the version its write gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Held {
    /// What was written.
    pub value: u64,
    /// The version: a log index where the register is a variable.
    pub version: u64,
}

/// What a client may ask of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reads.
    Get,
    /// Writes, whatever is there.
    Set {
        /// The new value.
        value: u64,
    },
    /// Writes if the version is still this one; 0 means that there is nothing.
    Cas {
        /// The version to be replaced.
        expected: u64,
        /// The new value.
        value: u64,
    },
    /// Removes, whatever is there, or nothing.
    Delete,
    /// Removes if the version is still this one.
    DeleteCas {
        /// The version to be removed.
        expected: u64,
    },
}

/// What an operation answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// To `Get`: what was there.
    Held(Option<Held>),
    /// To `Set` and `Cas`: written with this version.
    Wrote(u64),
    /// To `Cas` and `DeleteCas`: not written, since this was there.
    Conflict(Option<Held>),
    /// The same, when only the version of what was there is known.
    ConflictAt(u64),
    /// To `Delete` and `DeleteCas`: there is nothing any more.
    Deleted,
}

/// What is in the register at some point of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct State {
    held: Option<(u64, Version)>,
    /// The highest version known to be given out. The next write's is above.
    floor: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Version {
    Known(u64),
    /// The write's outcome is unknown. Whoever sees the value next tells its version.
    Unknown,
}

impl State {
    /// The state after an operation that had this answer, if it could have that answer here. `None` as answer: whatever
    /// the operation would do here.
    pub fn after(self, operation: &Operation, answer: Option<&Answer>) -> Option<Self> {
        match (operation, answer) {
            (Operation::Get, None) => Some(self),
            (Operation::Get, Some(Answer::Held(seen))) => self.seen(*seen),
            (Operation::Set { value }, None) => Some(self.written(*value)),
            (Operation::Set { value }, Some(Answer::Wrote(version))) => self.written_as(*value, *version),
            // Of unknown outcome and in vain, it changed nothing: the same as never.
            (Operation::Cas { expected, value }, None) => Some(self.expecting(*expected).map_or(self, |state| state.written(*value))),
            (Operation::Cas { expected, value }, Some(Answer::Wrote(version))) => self.expecting(*expected)?.written_as(*value, *version),
            (Operation::Cas { expected, .. } | Operation::DeleteCas { expected }, Some(Answer::Conflict(seen))) => {
                let state = self.seen(*seen)?;
                (seen.map_or(0, |held| held.version) != *expected).then_some(state)
            }
            (Operation::Cas { expected, .. } | Operation::DeleteCas { expected }, Some(Answer::ConflictAt(met))) => {
                let (value, version) = self.held?;
                self.versioned(value, version, *met).filter(|_| met != expected)
            }
            (Operation::Delete, None | Some(Answer::Deleted)) => Some(Self { held: None, ..self }),
            (Operation::DeleteCas { expected }, None) => Some(self.expecting(*expected).map_or(self, |state| Self { held: None, ..state })),
            (Operation::DeleteCas { expected }, Some(Answer::Deleted)) => Some(Self { held: None, ..self.expecting(*expected)? }),
            (
                Operation::Get | Operation::Set { .. } | Operation::Cas { .. } | Operation::Delete | Operation::DeleteCas { .. },
                Some(Answer::Held(_) | Answer::Wrote(_) | Answer::Conflict(_) | Answer::ConflictAt(_) | Answer::Deleted),
            ) => None,
        }
    }

    /// With a value that somebody saw, if it can be that.
    fn seen(self, seen: Option<Held>) -> Option<Self> {
        match (self.held, seen) {
            (None, None) => Some(self),
            (Some((value, version)), Some(seen)) if value == seen.value => self.versioned(value, version, seen.version),
            (Some(_) | None, Some(_) | None) => None,
        }
    }

    /// With the version that somebody expected, if it can be that.
    fn expecting(self, expected: u64) -> Option<Self> {
        match self.held {
            None => (expected == 0).then_some(self),
            Some((value, version)) => self.versioned(value, version, expected),
        }
    }

    fn versioned(self, value: u64, version: Version, seen: u64) -> Option<Self> {
        match version {
            Version::Known(known) => (known == seen).then_some(self),
            Version::Unknown => (seen > self.floor).then_some(Self { held: Some((value, Version::Known(seen))), floor: seen }),
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
