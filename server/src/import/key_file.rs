//! Nomad's root key files, `KEYID.nks.json`: a root key, encrypted by a key that is in the same file.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::Deserialize;
use songline_model::{ROOT_KEY_ALGORITHM, RootKeyId, RootKeyMeta};

/// End of the names of key files.
pub const KEY_FILE_SUFFIX: &str = ".nks.json";

/// Reasons why a key file cannot be used. None of the texts has key material.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// The file is not JSON with the fields of a key file.
    #[error("its key file is not one that Nomad wrote: {0}")]
    Malformed(String),
    /// The file is of another key.
    #[error("its key file holds key {0}")]
    OtherKey(RootKeyId),
    /// The algorithm is unknown.
    #[error("its key file has algorithm {0:?}; only {ROOT_KEY_ALGORITHM:?} is known")]
    Algorithm(String),
    /// The key does not decrypt.
    #[error("its key file is damaged: the key does not decrypt")]
    Damaged,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "Meta")]
    meta: RootKeyMeta,
    #[serde(rename = "DEK")]
    dek: String,
    #[serde(rename = "KEK")]
    kek: String,
}

/// An opened key file.
pub struct RootKeyFile {
    /// Id of the key.
    pub id: RootKeyId,
    key: [u8; 32],
}

impl RootKeyFile {
    /// Decrypts the key in the bytes of a file.
    pub fn open(bytes: &[u8]) -> Result<Self, KeyFileError> {
        // The error of serde_json may quote the text, so only its place is told.
        let file: File = serde_json::from_slice(bytes)
            .map_err(|error| KeyFileError::Malformed(format!("line {} column {}", error.line(), error.column())))?;
        if file.meta.algorithm != ROOT_KEY_ALGORITHM {
            return Err(KeyFileError::Algorithm(file.meta.algorithm.to_string()));
        }
        let key = decrypt(&file).ok_or(KeyFileError::Damaged)?;
        Ok(Self { id: file.meta.key_id, key })
    }

    /// The key, if it is the one with this id.
    pub fn key_of(&self, id: RootKeyId) -> Result<&[u8; 32], KeyFileError> {
        if self.id == id { Ok(&self.key) } else { Err(KeyFileError::OtherKey(self.id)) }
    }
}

fn decrypt(file: &File) -> Option<[u8; 32]> {
    let (dek, kek) = (STANDARD.decode(&file.dek).ok()?, STANDARD.decode(&file.kek).ok()?);
    let cipher = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &kek).ok()?);
    let (nonce, sealed) = dek.split_first_chunk::<NONCE_LEN>()?;
    let mut sealed = sealed.to_vec();
    let key = cipher.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::empty(), &mut sealed).ok()?;
    <[u8; 32]>::try_from(&*key).ok()
}
