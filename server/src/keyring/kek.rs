//! The key-encryption key: 32 bytes in a file beside the log, and never in it. A reader of both can decrypt
//! everything.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

use songline_api::keyring::KeyringError;
use songline_log::Disk;
use songline_model::{RootKeyId, Sealed, WrappedKey};
use songline_rpc::world::World;

use super::material::{self, KEY_BYTES, Material};
use crate::hex::hex;

/// Name of the file, which holds 64 hexadecimal digits and a newline.
const FILE: &str = "kek";

/// The key-encryption key of a cluster.
pub(super) struct Kek {
    key: [u8; KEY_BYTES],
    fingerprint: String,
}

impl Kek {
    /// Creates the key from its bytes.
    pub(super) fn new(key: [u8; KEY_BYTES]) -> Self {
        let digest = blake3::derive_key("songline key-encryption key fingerprint v1", &key);
        let fingerprint = hex(&digest[..8]);
        Self { key, fingerprint }
    }

    /// Identifies the key, as wrapped root keys name it. It reveals nothing of the key.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The key's bytes. They may be sent to other servers only.
    pub(super) fn key(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }

    /// Wraps a root key's material for the log.
    pub(super) fn wrap_key(
        &self,
        world: &dyn World,
        id: RootKeyId,
        key: &[u8; KEY_BYTES],
    ) -> Result<Sealed, KeyringError> {
        material::seal(world, &self.key, id, key)
    }

    /// Unwraps a root key that was wrapped by this key.
    pub(super) fn unwrap_key(&self, id: RootKeyId, wrapped: &WrappedKey) -> Result<Material, KeyringError> {
        if wrapped.wrapped_by != self.fingerprint {
            return Err(KeyringError::WrongKek {
                key: id,
                wanted: wrapped.wrapped_by.to_string(),
                found: self.fingerprint.clone(),
            });
        }
        let key = material::open(&self.key, id, &wrapped.material).ok_or(KeyringError::Damaged(id))?;
        key.try_into().ok().and_then(|key| Material::new(&key)).ok_or(KeyringError::Damaged(id))
    }
}

/// The file of a key-encryption key.
pub(super) struct KekFile {
    /// Directory of the file.
    pub dir: PathBuf,
    /// File system of the directory.
    pub disk: Arc<dyn Disk>,
}

impl KekFile {
    fn unusable(&self, reason: String) -> KeyringError {
        KeyringError::KekUnusable { path: self.dir.join(FILE).display().to_string(), reason }
    }

    /// Replaces the key by this one. The old key is kept beside it under its fingerprint; a file whose content is no
    /// key is kept as `kek.damaged`.
    pub(super) fn put(&self, kek: &Kek) -> Result<(), KeyringError> {
        let aside = match self.text()?.as_deref().map(parse) {
            Some(Some(there)) if there.key == kek.key => return Ok(()),
            Some(Some(there)) => Some(there.fingerprint),
            Some(None) => Some("damaged".to_owned()),
            None => None,
        };
        if let Some(suffix) = aside {
            let (path, aside) = (self.dir.join(FILE), self.dir.join(format!("{FILE}.{suffix}")));
            self.disk.rename(&path, &aside).map_err(|error| self.unusable(error.to_string()))?;
        }
        self.write(&kek.key)
    }

    /// Reads the key.
    pub(super) fn read(&self) -> Result<Kek, KeyringError> {
        let text = self.text()?.ok_or_else(|| KeyringError::KekMissing(self.dir.join(FILE).display().to_string()))?;
        parse(&text).ok_or_else(|| self.unusable("it is not 64 hexadecimal digits".to_owned()))
    }

    /// The file's content; `None`: there is no file.
    fn text(&self) -> Result<Option<String>, KeyringError> {
        match self.disk.read(&self.dir.join(FILE)) {
            Ok(text) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unusable(error.to_string())),
        }
    }

    /// Generates a key and its file, durable before anything is wrapped with it. Fails if the file exists.
    pub(super) fn make(&self, world: &dyn World) -> Result<(), KeyringError> {
        self.write(&material::random(world)?)
    }

    fn write(&self, key: &[u8; KEY_BYTES]) -> Result<(), KeyringError> {
        let path = self.dir.join(FILE);
        // Only this process writes here: it holds the lock of the log beside the directory.
        let written = match self.disk.exists(&path) {
            true => Err(io::Error::from(ErrorKind::AlreadyExists)),
            false => self.disk.put(&path, format!("{}\n", hex(key)).as_bytes(), true),
        };
        written.map_err(|error| self.unusable(error.to_string()))
    }
}

fn parse(text: &str) -> Option<Kek> {
    let text = text.trim();
    let mut key = [0; KEY_BYTES];
    if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(Kek::new(key))
}
