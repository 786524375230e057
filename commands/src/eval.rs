//! Commands about evaluations.

use serde::{Deserialize, Serialize};
use songline_model::{AllocId, EvalId, Evaluation};

/// Make or change evaluations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateEvals {
    /// Whole rows.
    pub evals: Vec<Evaluation>,
}

/// Drop evaluations and allocations. Missing ones are skipped.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReapEvals {
    /// Evaluations.
    pub evals: Vec<EvalId>,
    /// Allocations.
    pub allocs: Vec<AllocId>,
    /// Refused while the eval broker runs.
    pub user_initiated: bool,
}
