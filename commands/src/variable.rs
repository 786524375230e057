//! Command for variables.

use serde::{Deserialize, Serialize};
use songline_model::{Variable, VariableOp};

/// Write or delete one variable, unconditionally or by compare-and-set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ApplyVariable {
    /// The operation.
    pub op: VariableOp,
    /// The whole row, encrypted, with its times. Of its indexes only the modify index is used: the one that the caller
    /// expects. A deletion uses only the namespace, the path and that index.
    pub var: Variable,
}
