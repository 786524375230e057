//! The command about variables.

use serde::{Deserialize, Serialize};
use songline_model::{Variable, VariableOp};

/// Write or delete one variable, always or only when it is as the caller knows it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplyVariable {
    /// What to do.
    pub op: VariableOp,
    /// The whole row, encrypted, its times set; of its indexes only the modify index counts: what the caller knows. To delete, only namespace, path and that.
    pub var: Variable,
}
