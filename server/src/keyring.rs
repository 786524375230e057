//! The keyring: root keys in usable form, unwrapped from the state by the key-encryption key, which is not in the
//! state.
//!
//! The tables say which keys exist and which one is active. Only the key-encryption key's file outlives the process.

mod handing;
mod kek;
mod known_key;
mod leader;
mod material;
mod nomad;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use songline_api::keyring::{Keyring as ApiKeyring, KeyringError};
use songline_commands::UpsertRootKey;
use songline_log::Disk;
use songline_model::{
    Allocation, IdentityClaims, ROOT_KEY_ALGORITHM, RootKey, RootKeyId, RootKeyMeta, RootKeyState, Sealed, Str,
    TaskIdentity, Time, VariableData, WrappedKey,
};
use songline_projections::{Change, State};
use songline_rpc::world::World;

use super::Core;
use kek::{Kek, KekFile};
use material::Material;

pub use known_key::KnownKey;
pub(crate) use leader::start;

/// Time for which signing waits for the first root key of a new cluster.
const FIRST_KEY_WAIT: Duration = Duration::from_secs(5);

/// Cache of unwrapped root keys.
pub(crate) struct Keyring {
    file: KekFile,
    world: Arc<dyn World>,
    /// Read on first use, so that a file that is added later is found without a restart.
    kek: Mutex<Option<Arc<Kek>>>,
    unwrapped: RwLock<BTreeMap<RootKeyId, Arc<Material>>>,
}

impl Keyring {
    /// Creates a keyring whose key-encryption key is, or will be, in `dir` on `disk`.
    pub(crate) fn new(dir: PathBuf, disk: Arc<dyn Disk>, world: Arc<dyn World>) -> Self {
        Self { file: KekFile { dir, disk }, world, kek: Mutex::default(), unwrapped: RwLock::default() }
    }

    fn kek(&self) -> Result<Arc<Kek>, KeyringError> {
        self.kek_or(Err)
    }

    /// The key-encryption key. `otherwise` has the error of reading its file, and may make one. The lock is held
    /// meanwhile: of two threads that make the first key, one would wrap root keys with a key that is overwritten.
    fn kek_or(
        &self,
        otherwise: impl FnOnce(KeyringError) -> Result<Kek, KeyringError>,
    ) -> Result<Arc<Kek>, KeyringError> {
        let mut known = self.kek.lock();
        if let Some(kek) = &*known {
            return Ok(Arc::clone(kek));
        }
        let kek = Arc::new(self.file.read().or_else(otherwise)?);
        *known = Some(Arc::clone(&kek));
        Ok(kek)
    }

    /// The key-encryption key for new root keys. A cluster without any root key generates it here; a lost one is not
    /// replaced.
    fn kek_for_new_keys(&self, view: &State) -> Result<Arc<Kek>, KeyringError> {
        self.kek_or(|error| match error {
            KeyringError::KekMissing(_) if view.root_keys().next().is_none() => {
                self.file.make(&*self.world)?;
                self.file.read()
            }
            other => Err(other),
        })
    }

    fn material(&self, row: &RootKey) -> Result<Arc<Material>, KeyringError> {
        let id = row.meta.key_id;
        if let Some(known) = self.unwrapped.read().get(&id) {
            return Ok(Arc::clone(known));
        }
        // A key of an import whose key file was missing.
        if row.wrapped.material.is_empty() {
            return Err(KeyringError::NoSuchKey(id));
        }
        let kek = self.kek();
        // The file may have been replaced since it was read: read it again.
        let kek = match kek {
            Ok(kek) if kek.fingerprint() != row.wrapped.wrapped_by => {
                *self.kek.lock() = None;
                self.kek()?
            }
            other => other?,
        };
        let material = Arc::new(kek.unwrap_key(id, &row.wrapped)?);
        self.unwrapped.write().insert(id, Arc::clone(&material));
        Ok(material)
    }

    /// Generates a root key that is to become active.
    fn fresh_key(&self, view: &State, create_time: Time, rekey: bool) -> Result<UpsertRootKey, KeyringError> {
        let kek = self.kek_for_new_keys(view)?;
        let key_id = RootKeyId::from(self.world.uuid());
        let material = material::random(&*self.world)?;
        let meta = RootKeyMeta {
            key_id,
            algorithm: ROOT_KEY_ALGORITHM.into(),
            create_time,
            state: RootKeyState::Active,
            ..RootKeyMeta::default()
        };
        let wrapped = WrappedKey {
            wrapped_by: kek.fingerprint().into(),
            material: kek.wrap_key(&*self.world, key_id, &material)?,
        };
        Ok(UpsertRootKey { meta, wrapped, rekey })
    }

    /// Applies an entry's changes of keys: new keys are unwrapped at once, so that an error is logged before the key
    /// is needed; deleted keys are dropped from the cache.
    pub(crate) fn follow(&self, changes: &[Change]) {
        let unwrapped = || self.unwrapped.write();
        for change in changes {
            if let Change::RootKey { before, after } = change {
                match (before, after) {
                    (_, Some(row)) => {
                        if let Err(error) = self.material(row) {
                            tracing::warn!(key = %row.meta.key_id, %error, "a root key cannot be used on this server");
                        }
                    }
                    (Some(gone), None) => {
                        unwrapped().remove(&gone.meta.key_id);
                    }
                    (None, None) => {}
                }
            } else if matches!(change, Change::Restored) {
                unwrapped().clear();
            }
        }
    }

    /// Signer of new identities, with the active root key.
    fn signer(&self, view: &State) -> Result<Signer, KeyringError> {
        let row = view.active_root_key().ok_or(KeyringError::NotInitialized)?;
        Ok(Signer { key: row.meta.key_id, material: self.material(row)? })
    }
}

/// Signs identities with one key.
pub(crate) struct Signer {
    key: RootKeyId,
    material: Arc<Material>,
}

impl Signer {
    /// Gives every task of the allocation an identity, unless all have one.
    pub(crate) fn sign(&self, alloc: &mut Allocation) {
        if alloc.terminal() || alloc.unsigned_tasks().next().is_none() {
            return;
        }
        let sign = |name: &Str| {
            let signature = self.material.sign(alloc.identity_claims(name).signing_input(self.key).as_bytes());
            TaskIdentity { task: name.clone(), signature }
        };
        let tasks = alloc.group().into_iter().flat_map(|group| group.tasks.iter().flatten());
        let identities = tasks.map(|task| sign(&task.name)).collect();
        alloc.signed_identities = Some(identities);
        alloc.signing_key_id = Some(self.key);
    }
}

impl Core {
    /// Signer of the identities of a plan. Waits for a new cluster's first key; any other missing key is an error at
    /// once.
    pub(crate) async fn signer(&self) -> Result<Signer, KeyringError> {
        let mut applied = self.published.applied.subscribe();
        let first_key = applied.wait_for(|_| self.view().active_root_key().is_some());
        // After the wait, whether in time or not, the view decides.
        let _ = tokio::time::timeout(FIRST_KEY_WAIT, first_key).await;
        self.keyring.signer(&self.view())
    }
}

impl ApiKeyring for Core {
    fn encrypt(&self, plain: &[u8]) -> Result<VariableData, KeyringError> {
        let view = self.view();
        let row = view.active_root_key().ok_or(KeyringError::NotInitialized)?;
        let key_id = row.meta.key_id;
        Ok(VariableData { data: self.keyring.material(row)?.encrypt(&*self.keyring.world, key_id, plain)?, key_id })
    }

    fn decrypt(&self, key: RootKeyId, sealed: &Sealed) -> Result<Vec<u8>, KeyringError> {
        let view = self.view();
        let row = view.root_key(key).ok_or(KeyringError::NoSuchKey(key))?;
        self.keyring.material(row)?.decrypt(key, sealed)
    }

    fn fresh_key(&self, rekey: bool) -> Result<UpsertRootKey, KeyringError> {
        self.keyring.fresh_key(&self.view(), self.now(), rekey)
    }

    fn public_key(&self, key: RootKeyId) -> Result<[u8; 32], KeyringError> {
        let view = self.view();
        let row = view.root_key(key).ok_or(KeyringError::NoSuchKey(key))?;
        Ok(self.keyring.material(row)?.public_key())
    }

    fn verify_identity(&self, token: &str) -> Result<IdentityClaims, KeyringError> {
        let view = self.view();
        material::verify(token, self.now(), |key| {
            let row = view.root_key(key).ok_or(KeyringError::NoSuchKey(key))?;
            self.keyring.material(row)
        })
    }
}
