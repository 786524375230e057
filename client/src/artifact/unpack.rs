//! Unpacking of the downloaded file into the staging directory. Runs in the fetching process only; the agent checks the
//! result again.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rustix::fs::{Timespec, Timestamps};
use tar::{Entry, EntryType};

use super::child::{STAGED, Staged};
use super::place::link;
use super::source::{Archive, Source};
use super::{ArtifactError, BYTES_MAX, DEPTH_MAX, FILES_MAX, doing, within};
use crate::beneath::Dir;

/// The name of the downloaded file in the staging directory.
pub(super) const DOWNLOAD: &str = "download";

/// Turns the downloaded file into the staged file or directory that the agent is to place.
pub(super) fn stage(source: &Source, staging: &Dir) -> Result<Staged, ArtifactError> {
    let packed = || staging.read(DOWNLOAD).map_err(doing("opening a file"));
    match source.archive {
        Archive::None => {
            staging.rename(DOWNLOAD, staging, STAGED).map_err(doing("moving a file"))?;
            Ok(Staged::File { name: source.filename.clone() })
        }
        Archive::Gz => {
            let mut out = staging.create(STAGED, 0o644).map_err(doing("making a file"))?;
            let unpacked = MultiGzDecoder::new(packed()?).take(BYTES_MAX + 1);
            let length = copy(unpacked, &mut out)?;
            within("its unpacked size in bytes", length, BYTES_MAX)?;
            Ok(Staged::File { name: source.filename.trim_end_matches(".gz").to_owned() })
        }
        Archive::Tar => unpack(packed()?, source, staging),
        Archive::TarGz => unpack(MultiGzDecoder::new(packed()?), source, staging),
    }
}

fn unpack(packed: impl Read, source: &Source, staging: &Dir) -> Result<Staged, ArtifactError> {
    let tree = Tree { dir: staging.make_dir(STAGED, 0o755).map_err(doing("making a directory"))? };
    // A header may lie about the size of a member, so the bytes read are limited as well.
    let mut archive = tar::Archive::new(packed.take(BYTES_MAX));
    let (mut files, mut bytes) = (0, 0);
    for entry in archive.entries().map_err(doing("unpacking"))? {
        files += 1;
        within("its number of files", files, FILES_MAX)?;
        bytes += tree.add(entry.map_err(doing("unpacking"))?)?;
        within("its unpacked size in bytes", bytes, BYTES_MAX)?;
    }
    Ok(Staged::Tree { subdir: source.subdir.clone() })
}

/// The directory that an archive is unpacked into.
struct Tree {
    dir: Dir,
}

impl Tree {
    /// Unpacks one member. Returns its size in bytes. Names of users and groups, and the bits for setuid, setgid and
    /// sticky, are not kept.
    fn add<R: Read>(&self, mut entry: Entry<'_, R>) -> Result<u64, ArtifactError> {
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            return Ok(0);
        }
        let path = inside(&entry.path().map_err(doing("unpacking"))?)?;
        let mode = entry.header().mode().unwrap_or(0o644) & 0o777;
        if kind == EntryType::Directory {
            // The fetching process must be able to write into the directory.
            self.dir.make_dirs(&path, mode | 0o700).map_err(doing("unpacking a directory"))?;
            return Ok(0);
        }
        let (parent, name) = self.place_for(&path)?;
        match kind {
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let mut file = parent.create(name, mode).map_err(doing("unpacking a file"))?;
                let length = copy(&mut entry, &mut file)?;
                keep_time(&file, entry.header().mtime().unwrap_or(0))?;
                Ok(length)
            }
            EntryType::Symlink => {
                link(&self.dir, &path, &link_target(&entry)?).map_err(doing("unpacking a link"))?;
                Ok(0)
            }
            // A hard link becomes a copy, so that no placed file has a second name.
            EntryType::Link => {
                let target = link_target(&entry)?;
                let original = self.dir.read(inside(&target)?).map_err(doing("unpacking a link"))?;
                let mode = original.metadata().map_err(doing("unpacking a link"))?.mode() & 0o777;
                copy(original, &mut parent.create(name, mode).map_err(doing("unpacking a link"))?)
            }
            _ => Err(ArtifactError::Invalid("the archive has something that is no file, directory or link".to_owned())),
        }
    }

    /// Makes the parents of a member, and removes an earlier member of the same name. No link of the archive is
    /// followed.
    fn place_for<'a>(&self, path: &'a Path) -> Result<(Dir, &'a OsStr), ArtifactError> {
        let name = path.file_name().ok_or_else(leads_out)?;
        let parent = self
            .dir
            .make_dirs(path.parent().unwrap_or(Path::new("")), 0o755)
            .map_err(doing("unpacking a directory"))?;
        parent.remove(name).map_err(doing("unpacking a file"))?;
        Ok((parent, name))
    }
}

/// Path of an archive's member, relative to the destination. A path with `..` or deeper than [`DEPTH_MAX`] is refused.
fn inside(path: &Path) -> Result<PathBuf, ArtifactError> {
    let mut kept = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => kept.push(name),
            // An absolute path begins at the destination.
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(leads_out()),
        }
    }
    within("its depth of directories", kept.components().count() as u64, DEPTH_MAX)?;
    Ok(kept)
}

fn leads_out() -> ArtifactError {
    ArtifactError::Invalid("the archive has a path that leads out of it".to_owned())
}

fn link_target<R: Read>(entry: &Entry<'_, R>) -> Result<PathBuf, ArtifactError> {
    let target = entry.link_name().map_err(doing("unpacking a link"))?;
    Ok(target.ok_or_else(|| ArtifactError::Invalid("the archive has a link without a target".to_owned()))?.into_owned())
}

fn copy(mut from: impl Read, to: &mut File) -> Result<u64, ArtifactError> {
    let length = io::copy(&mut from, to).map_err(doing("unpacking"))?;
    to.flush().map_err(doing("unpacking"))?;
    Ok(length)
}

fn keep_time(file: &File, seconds: u64) -> Result<(), ArtifactError> {
    let time = Timespec { tv_sec: seconds.min(i64::MAX as u64).cast_signed(), tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::futimens(file, &times).map_err(|error| doing("unpacking a file")(error.into()))
}
