//! The key-encryption key: 32 bytes in a file beside the log, and never in it. A reader of both can decrypt
//! everything.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use songline_api::keyring::KeyringError;
use songline_model::{RootKeyId, Sealed, WrappedKey};

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

    /// Replaces the key in `dir` by this one. The old key is kept beside it under its fingerprint.
    pub(super) fn put(&self, dir: &Path) -> Result<(), KeyringError> {
        match Self::read(dir) {
            Ok(there) if there.key == self.key => return Ok(()),
            Ok(there) => {
                let (path, aside) = (dir.join(FILE), dir.join(format!("{FILE}.{}", there.fingerprint)));
                fs::rename(&path, aside)
                    .map_err(|error| KeyringError::KekUnusable { path: path.display().to_string(), reason: error.to_string() })?;
            }
            Err(KeyringError::KekMissing(_)) => {}
            Err(other) => return Err(other),
        }
        Self::write(dir, &self.key)
    }

    /// Reads the key file of this directory.
    pub(super) fn read(dir: &Path) -> Result<Self, KeyringError> {
        let path = dir.join(FILE);
        let unusable = |reason: String| KeyringError::KekUnusable { path: path.display().to_string(), reason };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(KeyringError::KekMissing(path.display().to_string())),
            Err(error) => return Err(unusable(error.to_string())),
        };
        unhex(text.trim()).map(Self::new).ok_or_else(|| unusable("it is not 64 hexadecimal digits".to_owned()))
    }

    /// Generates a key and its file, durable before anything is wrapped with it. Fails if the file exists.
    pub(super) fn make(dir: &Path) -> Result<(), KeyringError> {
        Self::write(dir, &material::random()?)
    }

    fn write(dir: &Path, key: &[u8; KEY_BYTES]) -> Result<(), KeyringError> {
        let path = dir.join(FILE);
        let write = || -> std::io::Result<()> {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let unfinished = path.with_extension("tmp");
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
            writeln!(file, "{}", hex(key))?;
            file.sync_all()?;
            // Unlike a rename, a hard link never replaces an existing key.
            let linked = fs::hard_link(&unfinished, &path);
            fs::remove_file(&unfinished)?;
            linked?;
            fs::File::open(dir)?.sync_all()
        };
        write().map_err(|error| KeyringError::KekUnusable { path: path.display().to_string(), reason: error.to_string() })
    }

    /// Wraps a root key's material for the log.
    pub(super) fn wrap_key(&self, id: RootKeyId, key: &[u8; KEY_BYTES]) -> Result<Sealed, KeyringError> {
        material::seal(&self.key, id, key)
    }

    /// Unwraps a root key that was wrapped by this key.
    pub(super) fn unwrap_key(&self, id: RootKeyId, wrapped: &WrappedKey) -> Result<Material, KeyringError> {
        if wrapped.wrapped_by != self.fingerprint {
            return Err(KeyringError::WrongKek { key: id, wanted: wrapped.wrapped_by.to_string(), found: self.fingerprint.clone() });
        }
        let key = material::open(&self.key, id, &wrapped.material).ok_or(KeyringError::Damaged(id))?;
        key.try_into().ok().and_then(|key| Material::new(&key)).ok_or(KeyringError::Damaged(id))
    }
}

fn unhex(text: &str) -> Option<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    if text.len() != 2 * KEY_BYTES || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(key)
}
