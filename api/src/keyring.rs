//! What HTTP asks of the keyring behind it. Keys, ciphers and files are the shell's; nothing here encrypts.

use std::sync::Arc;

use songline_commands::UpsertRootKey;
use songline_model::{Allocation, IdentityClaims, RootKeyId, Sealed, VariableData};
use songline_projections::State;

/// Encrypts and decrypts with the root keys of the cluster.
pub trait Keyring: Send + Sync {
    /// Encrypts with the active key.
    fn encrypt(&self, plain: &[u8]) -> Result<VariableData, KeyringError>;

    /// Decrypts what was encrypted with this key.
    fn decrypt(&self, key: RootKeyId, sealed: &Sealed) -> Result<Vec<u8>, KeyringError>;

    /// What a workload identity says, if a key of the cluster signed it. Whether its allocation still counts is the caller's to ask.
    fn verify_identity(&self, token: &str) -> Result<IdentityClaims, KeyringError>;

    /// What checks the identities that this key has signed: the 32 bytes of an Ed25519 public key.
    fn public_key(&self, key: RootKeyId) -> Result<[u8; 32], KeyringError>;

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
    /// A good token of something that is over or gone.
    #[error("{0}")]
    NoWorkload(&'static str),
    /// The operating system gives no randomness.
    #[error("no randomness: nothing can be encrypted")]
    NoRandomness,
}

/// Who a token of a task is: what it says, and its allocation, which has to be there and not over. That the servers want it stopped does
/// not count: what runs after its main task still needs its rights.
pub fn workload(view: &State, keyring: &impl Keyring, token: &str) -> Result<(IdentityClaims, Arc<Allocation>), KeyringError> {
    let claims = keyring.verify_identity(token)?;
    let gone = || KeyringError::NoWorkload("allocation does not exist");
    let alloc = view.alloc(claims.alloc_id).filter(|alloc| alloc.job.is_some()).ok_or_else(gone)?;
    if alloc.client_terminal() {
        return Err(KeyringError::NoWorkload("allocation is terminal"));
    }
    // A key of ours signed it for this allocation, so anything else would be a mistake of ours.
    let own = alloc.identity_claims(&claims.task);
    if (&own.namespace, &own.job_id) != (&claims.namespace, &claims.job_id)
        || alloc.group().is_none_or(|group| group.task(&own.task).is_none())
    {
        return Err(gone());
    }
    Ok((claims, Arc::clone(alloc)))
}
