//! A root key with given bytes that signs and verifies identities. For tools that try tokens without a cluster;
//! servers take their keys from the log.

use std::sync::Arc;

use songline_api::keyring::KeyringError;
use songline_model::{IdentityClaims, RootKeyId, Signature, Time};

use super::material::{self, KEY_BYTES, Material};

/// A key that signs and verifies identities.
pub struct KnownKey {
    id: RootKeyId,
    material: Arc<Material>,
}

impl KnownKey {
    /// Creates the key with this id and these bytes. `None` if the bytes are not a valid key.
    #[must_use]
    pub fn new(id: RootKeyId, bytes: &[u8; KEY_BYTES]) -> Option<Self> {
        Some(Self { id, material: Arc::new(Material::new(bytes)?) })
    }

    /// Signs a message.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        self.material.sign(message)
    }

    /// Claims of a token that this key signed, verified as by a server with this key only.
    pub fn verify(&self, token: &str, now: Time) -> Result<IdentityClaims, KeyringError> {
        material::verify(token, now, |id| {
            if id == self.id { Ok(Arc::clone(&self.material)) } else { Err(KeyringError::NoSuchKey(id)) }
        })
    }
}
