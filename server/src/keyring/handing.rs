//! Exchange of the key-encryption key with other servers. `cluster/kek.rs` defines the messages.

use std::sync::Arc;

use songline_api::keyring::KeyringError;
use songline_model::RootKeyId;
use songline_projections::State;

use super::Keyring;
use super::kek::Kek;
use super::material::KEY_BYTES;

impl Keyring {
    /// Whether this server has the key with this fingerprint.
    pub(crate) fn has_kek(&self, fingerprint: &str) -> bool {
        self.kek_of(fingerprint).is_ok()
    }

    /// The key with this fingerprint, for another server.
    pub(crate) fn hand_out(&self, fingerprint: &str) -> Result<[u8; KEY_BYTES], KeyringError> {
        self.kek_of(fingerprint).map(|kek| *kek.key())
    }

    /// Installs a key received from another server, if it is the wanted one.
    pub(crate) fn take(&self, key: &[u8; KEY_BYTES], wanted: &str, view: &State) -> Result<(), KeyringError> {
        let kek = Kek::new(*key);
        if kek.fingerprint() != wanted {
            let key = view.active_root_key().map(|row| row.meta.key_id).unwrap_or_default();
            return Err(KeyringError::WrongKek { key, wanted: wanted.to_owned(), found: kek.fingerprint().to_owned() });
        }
        self.put(kek)
    }

    /// The key that will wrap the first root key; generated here if missing.
    pub(crate) fn first_kek(&self, view: &State) -> Result<[u8; KEY_BYTES], KeyringError> {
        self.kek_for_new_keys(view).map(|kek| *kek.key())
    }

    /// Stores the key by which the leader is about to wrap the first root key. Refused once there are root keys:
    /// servers then ask for the key by its fingerprint.
    pub(crate) fn keep_for_first_key(&self, key: &[u8; KEY_BYTES], view: &State) -> Result<(), KeyringError> {
        let kek = Kek::new(*key);
        if self.has_kek(kek.fingerprint()) {
            return Ok(());
        }
        if let Some(row) = view.root_keys().next() {
            let (wanted, found) = (row.wrapped.wrapped_by.to_string(), kek.fingerprint().to_owned());
            return Err(KeyringError::WrongKek { key: row.meta.key_id, wanted, found });
        }
        self.put(kek)
    }

    fn kek_of(&self, fingerprint: &str) -> Result<Arc<Kek>, KeyringError> {
        let kek = match self.kek() {
            // The file may have been replaced since it was read.
            Ok(kek) if kek.fingerprint() != fingerprint => {
                *self.kek.lock() = None;
                self.kek()?
            }
            other => other?,
        };
        if kek.fingerprint() == fingerprint {
            return Ok(kek);
        }
        let (wanted, found) = (fingerprint.to_owned(), kek.fingerprint().to_owned());
        Err(KeyringError::WrongKek { key: RootKeyId::default(), wanted, found })
    }

    /// Installs a key. A different key that was here before is kept in a file named by its fingerprint: a key that
    /// may unwrap something is never deleted.
    fn put(&self, kek: Kek) -> Result<(), KeyringError> {
        let mut known = self.kek.lock();
        self.file.put(&kek)?;
        *known = Some(Arc::new(kek));
        Ok(())
    }
}
