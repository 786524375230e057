//! Commands for long work: one opens a piece of work, `ContinueWork` entries do the next slices. The effect of a slice
//! is in `projections`.

use serde::{Deserialize, Serialize};
use songline_model::{EvalId, KeyBytes, Str};

/// Id of a piece of long work: the index of the entry that opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkId(pub u64);

impl KeyBytes for WorkId {
    fn write_to(&self, out: &mut Vec<u8>) {
        self.0.write_to(out);
    }
}

/// Bounds on the work of one entry. The leader chooses them, so that applying the entry stays short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Slice {
    /// Largest number of rows to write or delete.
    pub rows_max: u32,
    /// Largest number of rows to examine.
    pub looks_max: u32,
}

impl Slice {
    /// A slice that deletes at most `rows_max` rows. Examining a row costs about an eighth of deleting it.
    pub const fn of_rows(rows_max: u32) -> Self {
        Self { rows_max, looks_max: rows_max.saturating_mul(8) }
    }
}

/// Selection of evaluations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvalChoice {
    /// The evaluations with these ids. Missing ones are skipped.
    Ids(Vec<EvalId>),
    /// The evaluations for which an expression is true.
    Filter(Str),
}

impl Default for EvalChoice {
    fn default() -> Self {
        EvalChoice::Ids(Vec::new())
    }
}

/// Delete evaluations on a user's request. Opens a piece of work and does its first slice.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteEvals {
    /// The evaluations to delete.
    pub choice: EvalChoice,
    /// Bounds of this entry's slice.
    pub slice: Slice,
}

/// Do the next slice of a piece of work. No effect when the work has ended.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ContinueWork {
    /// The piece of work.
    pub work: WorkId,
    /// Bounds of this entry's slice.
    pub slice: Slice,
}

/// Stop a piece of work early. Finished slices are not undone.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StopWork {
    /// The piece of work.
    pub work: WorkId,
}
