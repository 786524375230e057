//! What HTTP asks of the keyring behind it. Keys, ciphers and files are the shell's; nothing here encrypts.

use songline_commands::UpsertRootKey;
use songline_model::{IdentityClaims, RootKeyId, Sealed, VariableData};

/// Encrypts and decrypts with the root keys of the cluster.
pub trait Keyring: Send + Sync {
    /// Encrypts with the active key.
    fn encrypt(&self, plain: &[u8]) -> Result<VariableData, KeyringError>;

    /// Decrypts what was encrypted with this key.
    fn decrypt(&self, key: RootKeyId, sealed: &Sealed) -> Result<Vec<u8>, KeyringError>;

    /// What a workload identity says, if a key of the cluster signed it. Whether its allocation still counts is the caller's to ask.
    fn verify_identity(&self, token: &str) -> Result<IdentityClaims, KeyringError>;

    /// A new key that is to become active, its material wrapped. `rekey`: it takes over all that others have encrypted.
    fn fresh_key(&self, rekey: bool) -> Result<UpsertRootKey, KeyringError>;
}

/// Why nothing was encrypted, decrypted or signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// The leader of a new cluster has not made the first key yet.
    #[error("keyring has not been initialized yet")]
    NotInitialized,
    /// The key is gone.
    #[error("no such key {:?} in keyring", .0.to_string())]
    NoSuchKey(RootKeyId),
    /// This server can read no key at all.
    #[error("the key-encryption key is missing: {0} is not there; copy it from another server or a backup")]
    KekMissing(String),
    /// The file is there, and is no key.
    #[error("the key-encryption key in {path} cannot be used: {reason}")]
    KekUnusable {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The key was wrapped by another key-encryption key.
    #[error("root key {key} is wrapped by key-encryption key {wanted}, this server has {found}: put the file of {wanted} in its place")]
    WrongKek {
        /// Which root key.
        key: RootKeyId,
        /// Beginning of the fingerprint of what it needs.
        wanted: String,
        /// Beginning of the fingerprint of what there is.
        found: String,
    },
    /// The wrapped material is damaged.
    #[error("root key {0} cannot be unwrapped: it is damaged")]
    Damaged(RootKeyId),
    /// Ciphertext that does not belong to the key, or is damaged.
    #[error("decrypting with root key {0} failed: the data is damaged or not of this key")]
    Undecryptable(RootKeyId),
    /// A token that nobody here signed, or that does not count yet.
    #[error("failed to verify token: {0}")]
    InvalidIdentity(String),
    /// The operating system gives no randomness.
    #[error("no randomness: nothing can be encrypted")]
    NoRandomness,
}
