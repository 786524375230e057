//! Root keys of an imported archive: their key files come with the archive or are in the keystore's directory, where
//! Nomad has them. They are wrapped like the keys of this cluster.

use songline_api::keyring::KeyringError;
use songline_model::{RootKeyId, RootKeyMeta, WrappedKey};
use songline_projections::State;

use super::Keyring;
use crate::import::{KEY_FILE_SUFFIX, KeyFiles, RootKeyFile, RootKeys};

/// The key files of an archive, and the keyring that takes them over.
pub(crate) struct NomadKeys<'a> {
    keyring: &'a Keyring,
    view: &'a State,
    sent: KeyFiles,
}

impl Keyring {
    /// Root keys for an import: the key files that came with the archive go before those in the directory.
    pub(crate) fn nomad_keys<'a>(&'a self, view: &'a State, sent: KeyFiles) -> NomadKeys<'a> {
        NomadKeys { keyring: self, view, sent }
    }
}

impl NomadKeys<'_> {
    /// The content of a key's file; `None`: there is none.
    fn file(&self, id: RootKeyId) -> Result<Option<Vec<u8>>, String> {
        if let Some(sent) = self.sent.get(&id) {
            return Ok(Some(sent.clone()));
        }
        let path = self.keyring.file.dir.join(format!("{id}{KEY_FILE_SUFFIX}"));
        match self.keyring.file.disk.read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("reading {}: {error}", path.display())),
        }
    }

    fn wrap(&self, id: RootKeyId, key: &[u8; 32]) -> Result<WrappedKey, KeyringError> {
        let kek = self.keyring.kek_for_new_keys(self.view)?;
        let material = kek.wrap_key(&*self.keyring.world, id, key)?;
        Ok(WrappedKey { wrapped_by: kek.fingerprint().into(), material })
    }
}

impl RootKeys for NomadKeys<'_> {
    fn wrapped(&self, meta: &RootKeyMeta) -> Result<Option<WrappedKey>, String> {
        let Some(bytes) = self.file(meta.key_id)? else { return Ok(None) };
        let file = RootKeyFile::open(&bytes).map_err(|error| error.to_string())?;
        let key = file.key_of(meta.key_id).map_err(|error| error.to_string())?;
        self.wrap(meta.key_id, key).map(Some).map_err(|error| error.to_string())
    }
}
