//! One applied entry of the log, as the stores derived from the log get it.

use std::sync::Arc;

use songline_commands::Kind;
use songline_model::Time;
use songline_projections::Change;

/// One applied entry.
#[derive(Debug, Clone)]
pub struct AppliedEntry {
    /// Index of the entry, as users see it.
    pub index: u64,
    /// Time of the entry.
    pub at: Time,
    /// Command kind of the entry.
    pub kind: Kind,
    /// Outcome of the entry.
    pub ending: Ending,
    /// Changed rows.
    pub changes: Arc<Vec<Change>>,
}

/// Outcome of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The command was applied.
    Done,
    /// The command was refused with this text and changed nothing.
    Refused(String),
    /// The entry repeats the write at this index, and got its answer.
    Repeated(u64),
}

/// Whether an entry replaced the state. Other entries of this kind were refused, or repeat an earlier write.
pub(crate) fn restores(kind: Kind, changes: &[Change]) -> bool {
    kind == Kind::Restore && changes.iter().any(|change| matches!(change, Change::Restored))
}
