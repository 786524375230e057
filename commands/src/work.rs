//! Commands about long work: one opens it, `Continue`s carry it on in slices. What each slice does is in `projections`.

use serde::{Deserialize, Serialize};
use songline_model::{EvalId, Str};

/// Names a piece of long work: the index of the entry that opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkId(pub u64);

/// How much one entry of long work may do. The leader chooses it, so that applying it stays short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Slice {
    /// Most rows that it writes or drops.
    pub rows_max: u32,
    /// Most rows that it looks at.
    pub looks_max: u32,
}

impl Slice {
    /// A slice of so many rows. Looking at a row costs about an eighth of dropping it.
    pub const fn of_rows(rows_max: u32) -> Self {
        Self { rows_max, looks_max: rows_max.saturating_mul(8) }
    }
}

/// Which evaluations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvalChoice {
    /// These. Missing ones are skipped.
    Ids(Vec<EvalId>),
    /// Those that an expression is true for.
    Filter(Str),
}

impl Default for EvalChoice {
    fn default() -> Self {
        EvalChoice::Ids(Vec::new())
    }
}

/// Delete evaluations by hand. Opens a piece of work and does its first slice.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteEvals {
    /// Which.
    pub choice: EvalChoice,
    /// How much this entry does of it.
    pub slice: Slice,
}

/// Do the next slice of a piece of work. Of ended work it does nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ContinueWork {
    /// Which.
    pub work: WorkId,
    /// How much this entry does of it.
    pub slice: Slice,
}

/// End a piece of work before its time. What it has done stays done.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct StopWork {
    /// Which.
    pub work: WorkId,
}
