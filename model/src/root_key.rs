//! Root keys: encrypt variables and sign workload identities. Their key material is wrapped by a key that is stored
//! elsewhere.

use serde::{Deserialize, Serialize};

use crate::{RootKeyId, RootKeyState, Sealed, Str, Time};

/// The only algorithm of root keys.
pub const ROOT_KEY_ALGORITHM: &str = "aes256-gcm";

/// Metadata of a root key: id, algorithm and state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RootKeyMeta {
    #[serde(rename = "KeyID")]
    pub key_id: RootKeyId,
    pub algorithm: Str,
    #[serde(with = "crate::unix_nanos")]
    pub create_time: Time,
    pub create_index: u64,
    pub modify_index: u64,
    pub state: RootKeyState,
}

/// The material of a root key, encrypted by a key-encryption key that never enters the log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WrappedKey {
    /// Identifies the key-encryption key: the first 16 hexadecimal digits of its fingerprint.
    pub wrapped_by: Str,
    /// Nonce, ciphertext and tag.
    pub material: Sealed,
}

/// A root key in its stored form.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct RootKey {
    /// Public data of the key.
    pub meta: RootKeyMeta,
    /// Key material; readable only by servers with the key-encryption key.
    pub wrapped: WrappedKey,
}

impl RootKeyMeta {
    /// Whether new data is encrypted with the key.
    pub fn is_active(&self) -> bool {
        self.state == RootKeyState::Active
    }
}
