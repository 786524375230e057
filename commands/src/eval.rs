//! Commands for evaluations.

use serde::{Deserialize, Serialize};
use songline_model::{AllocId, EvalId, Evaluation};

/// Create or update evaluations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateEvals {
    /// Whole rows.
    pub evals: Vec<Evaluation>,
}

/// Delete evaluations and allocations. Missing ones are skipped.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReapEvals {
    /// Ids of the evaluations.
    pub evals: Vec<EvalId>,
    /// Ids of the allocations.
    pub allocs: Vec<AllocId>,
    /// Whether a user asked for the deletion; such a deletion is refused while the eval broker runs.
    pub user_initiated: bool,
}
