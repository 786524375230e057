//! Unpacking archives into an open directory: no member and no link of an archive leads out of it, and it is never more than may be.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tar::{Entry, EntryType};

use super::place::{place_link, within};
use super::{ArtifactError, BYTES_MAX, doing};
use crate::beneath::Dir;

/// How many files one archive may have.
const FILES_MAX: u64 = 4096;

/// Unpacks an archive. Members keep their permissions; links that lead out of `into` become empty files.
pub(super) fn unpack(packed: impl Read, into: &Dir) -> Result<(), ArtifactError> {
    // What an archive says of a size may be a lie: what is read is counted.
    let mut archive = tar::Archive::new(packed.take(BYTES_MAX));
    let (mut files, mut bytes) = (0, 0);
    let mut dirs = Vec::new();
    for entry in archive.entries().map_err(doing("unpacking"))? {
        let mut entry = entry.map_err(doing("unpacking"))?;
        if entry.header().entry_type().is_pax_global_extensions() {
            continue;
        }
        files += 1;
        bytes += entry.size();
        within("its number of files", files, FILES_MAX)?;
        let Some(path) = member(&entry.path().map_err(doing("unpacking"))?)? else { continue };
        let mode = entry.header().mode().map_err(doing("unpacking"))? & 0o777;
        match entry.header().entry_type() {
            EntryType::Directory => {
                into.make_dirs(&path, 0o755).map_err(doing("unpacking"))?;
                dirs.push((path, mode));
            }
            EntryType::Symlink => {
                let target = link_target(&entry)?;
                remove(into, &path)?;
                place_link(into, &path, &target).map_err(doing("unpacking"))?;
            }
            EntryType::Link => {
                let other = member(&link_target(&entry)?)?.unwrap_or_default();
                let other = into.read(&other).map_err(doing("unpacking"))?;
                bytes += other.metadata().map_err(doing("unpacking"))?.len();
                within("its unpacked size in bytes", bytes, BYTES_MAX)?;
                write(into, &path, mode, other)?;
            }
            EntryType::Regular => {
                within("its unpacked size in bytes", bytes, BYTES_MAX)?;
                let changed = entry.header().mtime().map_err(doing("unpacking"))?;
                let file = write(into, &path, mode, &mut entry)?;
                file.set_modified(UNIX_EPOCH + Duration::from_secs(changed)).map_err(doing("unpacking"))?;
            }
            _ => return Err(ArtifactError::Invalid("the archive has something that is no file, directory or link".to_owned())),
        }
    }
    // Last, as a directory may be one that nothing can be written into.
    for (path, mode) in dirs.into_iter().rev() {
        into.dir(&path).and_then(|dir| dir.set_mode(mode | 0o700)).map_err(doing("unpacking"))?;
    }
    Ok(())
}

/// Where a member goes below the archive's root; `None` for that itself.
fn member(path: &Path) -> Result<Option<PathBuf>, ArtifactError> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(ArtifactError::Invalid("the archive has a path that leads out of it".to_owned()));
            }
        }
    }
    Ok((!clean.as_os_str().is_empty()).then_some(clean))
}

fn link_target(entry: &Entry<'_, impl Read>) -> Result<PathBuf, ArtifactError> {
    let target = entry.link_name().map_err(doing("unpacking"))?;
    target.map(|target| target.into_owned()).ok_or_else(|| ArtifactError::Invalid("the archive has a link without a target".to_owned()))
}

/// Makes way for a member: a later one of the same name takes the place of an earlier one.
fn remove(into: &Dir, path: &Path) -> Result<(), ArtifactError> {
    let parent = into.make_dirs(path.parent().unwrap_or(Path::new("")), 0o755).map_err(doing("unpacking"))?;
    parent.remove(path.file_name().unwrap_or_default()).map_err(doing("unpacking"))
}

fn write(into: &Dir, path: &Path, mode: u32, mut content: impl Read) -> Result<File, ArtifactError> {
    remove(into, path)?;
    let mut file = into.create(path, mode).map_err(doing("unpacking"))?;
    io::copy(&mut content, &mut file).map_err(doing("unpacking"))?;
    Ok(file)
}
