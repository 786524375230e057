//! Interface of the keyring behind HTTP. The shell has keys, ciphers and files; nothing here encrypts.

use std::sync::Arc;

use songline_commands::UpsertRootKey;
use songline_model::{Allocation, IdentityClaims, RootKeyId, Sealed, VariableData};
use songline_projections::State;

/// Encrypts and decrypts with the root keys of the cluster.
pub trait Keyring: Send + Sync {
    /// Encrypts with the active key.
    fn encrypt(&self, plain: &[u8]) -> Result<VariableData, KeyringError>;

    /// Decrypts ciphertext that was made with this key.
    fn decrypt(&self, key: RootKeyId, sealed: &Sealed) -> Result<Vec<u8>, KeyringError>;

    /// Claims of a workload identity that a key of the cluster has signed. The caller has to check the allocation.
    fn verify_identity(&self, token: &str) -> Result<IdentityClaims, KeyringError>;

    /// Public key for the identities that this key has signed: the 32 bytes of an Ed25519 key.
    fn public_key(&self, key: RootKeyId) -> Result<[u8; 32], KeyringError>;

    /// A new root key that is to become active, its material wrapped. With `rekey`, everything that older keys
    /// encrypted is encrypted anew with it.
    fn fresh_key(&self, rekey: bool) -> Result<UpsertRootKey, KeyringError>;
}

/// Failure to encrypt, decrypt or verify.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// The leader of a new cluster has not created the first root key yet.
    #[error("keyring has not been initialized yet")]
    NotInitialized,
    /// There is no such root key.
    #[error("no such key {:?} in keyring", .0.to_string())]
    NoSuchKey(RootKeyId),
    /// The key-encryption key is missing, so this server can unwrap no root key.
    #[error("the key-encryption key is missing: {0} is not there; copy it from another server or a backup")]
    KekMissing(String),
    /// The file exists but holds no key-encryption key.
    #[error("the key-encryption key in {path} cannot be used: {reason}")]
    KekUnusable {
        /// Path of the file.
        path: String,
        /// Defect of the file.
        reason: String,
    },
    /// The root key was wrapped by another key-encryption key.
    #[error(
        "root key {key} is wrapped by key-encryption key {wanted}, this server has {found}: put the file of {wanted} in its place"
    )]
    WrongKek {
        /// The root key.
        key: RootKeyId,
        /// Beginning of the fingerprint of the needed key-encryption key.
        wanted: String,
        /// Beginning of the fingerprint of this server's key-encryption key.
        found: String,
    },
    /// The wrapped material is damaged.
    #[error("root key {0} cannot be unwrapped: it is damaged")]
    Damaged(RootKeyId),
    /// The ciphertext is damaged or was made with another key.
    #[error("decrypting with root key {0} failed: the data is damaged or not of this key")]
    Undecryptable(RootKeyId),
    /// No key of this cluster signed the token, or the token is not valid yet.
    #[error("failed to verify token: {0}")]
    InvalidIdentity(String),
    /// The token is valid, but its allocation or task has ended or does not exist.
    #[error("{0}")]
    NoWorkload(&'static str),
    /// The operating system gives no randomness.
    #[error("no randomness: nothing can be encrypted")]
    NoRandomness,
}

/// Authenticates the token of a task: returns its claims and its allocation, which must exist and must not be
/// terminal on the client. A desired status of stop does not matter: tasks that run after the main task still need
/// their rights.
pub fn workload(
    view: &State,
    keyring: &impl Keyring,
    token: &str,
) -> Result<(IdentityClaims, Arc<Allocation>), KeyringError> {
    let claims = keyring.verify_identity(token)?;
    let gone = || KeyringError::NoWorkload("allocation does not exist");
    let alloc = view.alloc(claims.alloc_id).filter(|alloc| alloc.job.is_some()).ok_or_else(gone)?;
    if alloc.client_terminal() {
        return Err(KeyringError::NoWorkload("allocation is terminal"));
    }
    // A key of ours signed the token for this allocation, so any difference here is a defect of ours.
    let own = alloc.identity_claims(&claims.task);
    if (&own.namespace, &own.job_id) != (&claims.namespace, &claims.job_id)
        || alloc.group().is_none_or(|group| group.task(&own.task).is_none())
    {
        return Err(gone());
    }
    Ok((claims, Arc::clone(alloc)))
}
