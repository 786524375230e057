//! Commands for root keys.

use serde::{Deserialize, Serialize};
use songline_model::{RootKeyId, RootKeyMeta, WrappedKey};

/// Add a root key, or change its state. A key that becomes active replaces the active one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertRootKey {
    /// The key's metadata; indexes are ignored, and a known key keeps its creation time.
    pub meta: RootKeyMeta,
    /// The wrapped key material. A known key keeps its stored material.
    pub wrapped: WrappedKey,
    /// Whether everything encrypted with other keys is to be re-encrypted with this one.
    pub rekey: bool,
}

/// Delete a root key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteRootKey {
    /// Id of the key.
    pub key_id: RootKeyId,
    /// Whether to delete only an unused key: the key may have been used since the proposer checked.
    pub unused_only: bool,
}
