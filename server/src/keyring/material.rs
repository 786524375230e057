//! Cryptography with one key: AES-256-GCM for data, Ed25519 for identities, both from the same 32 bytes. Independent
//! of the key's role.

use std::sync::Arc;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::signature::{Ed25519KeyPair, KeyPair};
use songline_api::keyring::KeyringError;
use songline_identity::workload::{TokenError, UnverifiedToken};
use songline_model::{IdentityClaims, RootKeyId, Sealed, Signature, Time};
use songline_rpc::world::World;

/// Length of every key in bytes.
pub(super) const KEY_BYTES: usize = 32;

/// A usable root key.
pub(super) struct Material {
    cipher: LessSafeKey,
    signer: Ed25519KeyPair,
}

impl Material {
    /// Creates a key from its bytes. `None` if the library rejects them.
    pub(super) fn new(key: &[u8; KEY_BYTES]) -> Option<Self> {
        Some(Self { cipher: cipher(key)?, signer: Ed25519KeyPair::from_seed_unchecked(key).ok()? })
    }

    /// Encrypts: returns nonce, ciphertext and tag. The key's id is authenticated with them.
    pub(super) fn encrypt(&self, world: &dyn World, id: RootKeyId, plain: &[u8]) -> Result<Sealed, KeyringError> {
        seal_with(&self.cipher, random(world)?, id, plain)
    }

    /// Decrypts data that [`Self::encrypt`] returned.
    pub(super) fn decrypt(&self, id: RootKeyId, sealed: &Sealed) -> Result<Vec<u8>, KeyringError> {
        open_with(&self.cipher, id, sealed).ok_or(KeyringError::Undecryptable(id))
    }

    /// Signs a message.
    pub(super) fn sign(&self, message: &[u8]) -> Signature {
        let signature = self.signer.sign(message);
        Signature(signature.as_ref().try_into().expect("an Ed25519 signature has 64 bytes"))
    }

    /// The public key of the signatures.
    pub(super) fn public_key(&self) -> [u8; 32] {
        self.signer.public_key().as_ref().try_into().expect("an Ed25519 public key has 32 bytes")
    }
}

fn cipher(key: &[u8; KEY_BYTES]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, key).ok().map(LessSafeKey::new)
}

/// Random bytes for a key or a nonce.
pub(super) fn random<const BYTES: usize>(world: &dyn World) -> Result<[u8; BYTES], KeyringError> {
    let mut bytes = [0; BYTES];
    world.fill(&mut bytes).map_err(|_| KeyringError::NoRandomness)?;
    Ok(bytes)
}

/// Encrypts with bare key bytes.
pub(super) fn seal(
    world: &dyn World,
    key: &[u8; KEY_BYTES],
    id: RootKeyId,
    plain: &[u8],
) -> Result<Sealed, KeyringError> {
    seal_with(&cipher(key).ok_or(KeyringError::Damaged(id))?, random(world)?, id, plain)
}

/// Decrypts with bare key bytes.
pub(super) fn open(key: &[u8; KEY_BYTES], id: RootKeyId, sealed: &Sealed) -> Option<Vec<u8>> {
    open_with(&cipher(key)?, id, sealed)
}

fn seal_with(
    cipher: &LessSafeKey,
    nonce: [u8; NONCE_LEN],
    id: RootKeyId,
    plain: &[u8],
) -> Result<Sealed, KeyringError> {
    let mut out = Vec::with_capacity(NONCE_LEN + plain.len() + AES_256_GCM.tag_len());
    out.extend_from_slice(&nonce);
    out.extend_from_slice(plain);
    let (_, text) = out.split_at_mut(NONCE_LEN);
    let tag = cipher
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(id.to_string()), text)
        .map_err(|_| KeyringError::Undecryptable(id))?;
    out.extend_from_slice(tag.as_ref());
    Ok(Sealed(out))
}

fn open_with(cipher: &LessSafeKey, id: RootKeyId, sealed: &Sealed) -> Option<Vec<u8>> {
    let (nonce, text) = sealed.0.split_first_chunk::<NONCE_LEN>()?;
    let mut text = text.to_vec();
    let length =
        cipher.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(id.to_string()), &mut text).ok()?.len();
    text.truncate(length);
    Some(text)
}

/// Claims of a token that one of the cluster's keys signed. Does not check whether its allocation still exists.
pub(super) fn verify(
    token: &str,
    now: Time,
    key: impl FnOnce(RootKeyId) -> Result<Arc<Material>, KeyringError>,
) -> Result<IdentityClaims, KeyringError> {
    let invalid = |error: TokenError| KeyringError::InvalidIdentity(error.to_string());
    let token = UnverifiedToken::parse(token).map_err(invalid)?;
    let key = key(token.key_id()).map_err(|error| match error {
        // The reference's keyring reports a foreign key as a failure of the verification.
        KeyringError::NoSuchKey(_) => KeyringError::InvalidIdentity(error.to_string()),
        error => error,
    })?;
    token.verify(&key.public_key(), now).map_err(invalid)
}
