//! A root key whose bytes are known, and what it makes of identities. For tools that try tokens without a cluster; servers have their keys
//! from the log.

use std::sync::Arc;

use songline_api::keyring::KeyringError;
use songline_model::{IdentityClaims, RootKeyId, Signature};

use super::material::{self, KEY_BYTES, Material};

/// A key to sign and to verify identities with.
pub struct KnownKey {
    id: RootKeyId,
    material: Arc<Material>,
}

impl KnownKey {
    /// The key with this id and these bytes. `None`: they are no key.
    #[must_use]
    pub fn new(id: RootKeyId, bytes: &[u8; KEY_BYTES]) -> Option<Self> {
        Some(Self { id, material: Arc::new(Material::new(bytes)?) })
    }

    /// The signature of a message.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        self.material.sign(message)
    }

    /// What a token says, if this key signed it, as a server that has no other key would take it.
    pub fn verify(&self, token: &str, now_secs: i64) -> Result<IdentityClaims, KeyringError> {
        material::verify(
            token,
            now_secs,
            |id| if id == self.id { Ok(Arc::clone(&self.material)) } else { Err(KeyringError::NoSuchKey(id)) },
        )
    }
}
