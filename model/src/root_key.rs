//! Root keys: what variables are encrypted and workload identities are signed with. Their material is wrapped by a key that is not here.

use serde::{Deserialize, Serialize};

use crate::{RootKeyId, RootKeyState, Sealed, Str};

/// The one algorithm of root keys.
pub const ROOT_KEY_ALGORITHM: &str = "aes256-gcm";

/// `RootKeyMeta` of the wire. Times are Unix nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RootKeyMeta {
    #[serde(rename = "KeyID")]
    pub key_id: RootKeyId,
    pub algorithm: Str,
    pub create_time: i64,
    pub create_index: u64,
    pub modify_index: u64,
    pub state: RootKeyState,
}

/// The material of a root key, encrypted by a key-encryption key that never enters the log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WrappedKey {
    /// Which key-encryption key: the first 16 hexadecimal digits of its fingerprint.
    pub wrapped_by: Str,
    /// Nonce, ciphertext, tag.
    pub material: Sealed,
}

/// A root key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RootKey {
    /// What everybody may know of it.
    pub meta: RootKeyMeta,
    /// What only servers with the key-encryption key can read.
    pub wrapped: WrappedKey,
}

impl RootKeyMeta {
    /// Whether new data is encrypted with it.
    pub fn is_active(&self) -> bool {
        self.state == RootKeyState::Active
    }
}
