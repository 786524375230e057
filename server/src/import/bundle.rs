//! An archive of Nomad together with its root key files: a plain tar of `nomad.snap` and `keystore/KEYID.nks.json`.
//! The archive alone is accepted as well, and so is an archive of ours.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};

use songline_model::RootKeyId;

use super::KEY_FILE_SUFFIX;

/// Name of the archive in a bundle.
const ARCHIVE: &str = "nomad.snap";
/// Folder of the key files in a bundle.
const KEYSTORE: &str = "keystore/";
/// Largest key file, in bytes. Nomad's have about 300.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;
/// Most key files of a bundle.
const KEY_FILES_MAX: usize = 4096;
/// Length of a tar's header, in bytes; place and text of its mark.
const HEADER_BYTES: usize = 512;
const MARK: (usize, &[u8]) = (257, b"ustar");

/// Contents of key files by the id of their key.
pub type KeyFiles = BTreeMap<RootKeyId, Vec<u8>>;

/// Kind of the content of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentKind {
    /// A checkpoint of ours.
    Ours,
    /// Records of Nomad.
    Nomad,
}

impl ContentKind {
    /// The kind of a content with these first bytes. Content of unknown kind counts as ours, and fails to be read.
    pub fn of(first: &[u8]) -> Self {
        // Nomad's header is an empty map, and its records begin with the time table.
        if matches!(first, [0x80, kind, ..] if *kind < 0x80) || first == [0x80] {
            ContentKind::Nomad
        } else {
            ContentKind::Ours
        }
    }
}

/// A received file: the archive, and the key files that came with it.
pub struct Bundle {
    /// The archive, positioned at its start.
    pub archive: File,
    /// The key files.
    pub keys: KeyFiles,
}

impl Bundle {
    /// Takes a file apart. A file that is no bundle is the archive itself. `spool` makes a file for the archive.
    pub fn open(mut file: File, spool: impl FnOnce() -> io::Result<File>) -> io::Result<Self> {
        file.rewind()?;
        let mut first = Vec::new();
        (&file).take(HEADER_BYTES as u64).read_to_end(&mut first)?;
        file.rewind()?;
        if first.get(MARK.0..MARK.0 + MARK.1.len()) != Some(MARK.1) {
            return Ok(Self { archive: file, keys: KeyFiles::new() });
        }
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let (mut archive, mut keys) = (None, KeyFiles::new());
        let mut spool = Some(spool);
        for entry in tar::Archive::new(file).entries()?.raw(true) {
            let mut entry = entry?;
            let name = entry.path()?.to_string_lossy().into_owned();
            if name == ARCHIVE
                && let Some(spool) = spool.take()
            {
                let mut to = spool()?;
                io::copy(&mut entry, &mut to)?;
                to.rewind()?;
                archive = Some(to);
                continue;
            }
            let id = key_of(&name).ok_or_else(|| invalid(format!("unexpected file {name:?} beside the archive")))?;
            if entry.size() > KEY_FILE_BYTES_MAX || keys.len() == KEY_FILES_MAX {
                return Err(invalid(format!("the key file {name:?} is too large, or there are too many")));
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            keys.insert(id, bytes);
        }
        let archive = archive.ok_or_else(|| invalid(format!("{ARCHIVE:?} is missing beside the key files")))?;
        Ok(Self { archive, keys })
    }
}

fn key_of(name: &str) -> Option<RootKeyId> {
    name.strip_prefix(KEYSTORE)?.strip_suffix(KEY_FILE_SUFFIX)?.parse().ok().filter(|id: &RootKeyId| !id.is_nil())
}

/// Writes a bundle of an archive and its key files.
pub fn write(archive: &mut File, keys: &KeyFiles, out: impl Write) -> io::Result<()> {
    let header = |bytes: u64| {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_entry_type(tar::EntryType::Regular);
        header
    };
    let mut tar = tar::Builder::new(out);
    archive.rewind()?;
    tar.append_data(&mut header(archive.metadata()?.len()), ARCHIVE, archive)?;
    for (id, bytes) in keys {
        tar.append_data(&mut header(bytes.len() as u64), format!("{KEYSTORE}{id}{KEY_FILE_SUFFIX}"), bytes.as_slice())?;
    }
    tar.into_inner()?.flush()
}
