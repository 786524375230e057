//! Responses that are kept for a client's idempotency key.

use serde::{Deserialize, Serialize};
use songline_model::Str;

/// Keep the response to a request under the idempotency key of this entry, so that a retry receives it again. For
/// requests that write nothing else, or whose writes have their own keys. Without a key the entry has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeepAnswer {
    /// Index in the header of the response; `None` when it has none.
    pub index: Option<u64>,
    /// Body of the response. The body must hold no secret: every reader of a snapshot can read it.
    pub body: Str,
}
