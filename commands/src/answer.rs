//! Answers that are kept for a caller's idempotency key.

use serde::{Deserialize, Serialize};
use songline_model::Str;

/// Keep the answer of a request under the idempotency key of this entry, so that a retry gets it again. For requests that write nothing
/// else, or whose writes have keys of their own. Without a key the entry does nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeepAnswer {
    /// Index in the header of the answer; `None` when it has none.
    pub index: Option<u64>,
    /// Body of the answer. It must hold no secret: every reader of a snapshot can read it.
    pub body: Str,
}
