//! Commands about root keys.

use serde::{Deserialize, Serialize};
use songline_model::{RootKeyId, RootKeyMeta, WrappedKey};

/// Add a root key, or change its state. A key that becomes active replaces the one that was.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertRootKey {
    /// Indexes ignored; of a known key the creation stays.
    pub meta: RootKeyMeta,
    /// Its material, never in the clear. That of a known key stays.
    pub wrapped: WrappedKey,
    /// All that was encrypted with other keys is to be encrypted with this one.
    pub rekey: bool,
}

/// Delete a root key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteRootKey {
    /// Which.
    pub key_id: RootKeyId,
    /// Only when nothing needs it any more: it may have been used since somebody looked.
    pub unused_only: bool,
}
