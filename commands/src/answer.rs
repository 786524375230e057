//! Answers that are kept for a caller's idempotency key.

use serde::{Deserialize, Serialize};
use songline_model::Str;

/// Keep the answer of a request that wrote nothing else, or whose writes have keys of their own: under the key of this entry a retry gets it again.
/// Without a key the entry does nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeepAnswer {
    /// The index that the answer told, `None` when it told none.
    pub index: Option<u64>,
    /// The answer's body. It must hold no secret: rows of keys are read by whoever reads a snapshot.
    pub body: Str,
}
