//! Unpacking what was fetched, and putting it where the job wants it: never outside the allocation's directory, never through a link that a
//! task has made, never more than may be.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::source::{Archive, Source};
use super::{ArtifactError, BYTES_MAX, Dirs, doing};

/// How many files one archive may have.
const FILES_MAX: u64 = 4096;

/// Where an artifact goes, below the allocation's directory. Links are looked at when it is put there.
pub(super) fn destination(dirs: &Dirs, wanted: &str) -> Result<PathBuf, ArtifactError> {
    let escapes = || ArtifactError::Invalid("artifact destination path escapes alloc directory".to_owned());
    // Variables of tasks stand for whole paths of the node; other paths begin in the task's directory, whatever they begin with.
    let path = Path::new(wanted);
    let whole = if path.starts_with(&dirs.alloc) { path.to_owned() } else { dirs.task.join(wanted.trim_start_matches('/')) };
    let below = whole.strip_prefix(&dirs.alloc).map_err(|_| escapes())?;
    let mut kept = PathBuf::new();
    for part in below.components() {
        match part {
            Component::Normal(name) => kept.push(name),
            Component::CurDir => {}
            Component::ParentDir if kept.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(escapes()),
        }
    }
    if kept.as_os_str().is_empty() { Err(escapes()) } else { Ok(kept) }
}

/// Puts a fetched file, or what is in it, to its place. `to` is below the allocation's directory.
pub(super) fn put(dirs: &Dirs, source: &Source, mode: &str, file: &Path, staging: &Path, to: &Path) -> Result<(), ArtifactError> {
    let made = match source.archive {
        Archive::None if mode == "dir" => return Err(ArtifactError::Invalid("source is a file, and a directory is wanted".to_owned())),
        Archive::None => file.to_owned(),
        Archive::Gz => {
            let whole = staging.join("unpacked");
            let mut out = File::create(&whole).map_err(doing("making a file"))?;
            let packed = MultiGzDecoder::new(File::open(file).map_err(doing("opening a file"))?);
            let length = io::copy(&mut packed.take(BYTES_MAX + 1), &mut out).map_err(doing("unpacking"))?;
            within("its unpacked size in bytes", length, BYTES_MAX)?;
            whole
        }
        Archive::Tar => unpack(File::open(file).map_err(doing("opening a file"))?, staging)?,
        Archive::TarGz => unpack(MultiGzDecoder::new(File::open(file).map_err(doing("opening a file"))?), staging)?,
    };
    match (source.archive, mode) {
        (Archive::Tar | Archive::TarGz, "file") => Err(ArtifactError::Invalid("source is a directory, and a file is wanted".to_owned())),
        (Archive::Tar | Archive::TarGz, _) => {
            let wanted = below(&made, &source.subdir)?;
            merge(&wanted, &solid_dir(&dirs.alloc, to)?)
        }
        (Archive::None | Archive::Gz, "file") => {
            let name = to.file_name().ok_or_else(|| ArtifactError::Invalid("the destination has no name".to_owned()))?;
            let dir = solid_dir(&dirs.alloc, to.parent().unwrap_or(Path::new("")))?;
            fs::rename(&made, dir.join(name)).map_err(doing("moving a file to its place"))
        }
        (Archive::None | Archive::Gz, _) => {
            let name = if source.archive == Archive::Gz { source.filename.trim_end_matches(".gz") } else { &source.filename };
            if name.is_empty() {
                return Err(ArtifactError::Invalid("the source has no file name".to_owned()));
            }
            fs::rename(&made, solid_dir(&dirs.alloc, to)?.join(name)).map_err(doing("moving a file to its place"))
        }
    }
}

fn within(what: &'static str, count: u64, most: u64) -> Result<(), ArtifactError> {
    if count > most { Err(ArtifactError::TooMuch { what, most }) } else { Ok(()) }
}

fn unpack(packed: impl Read, staging: &Path) -> Result<PathBuf, ArtifactError> {
    let into = staging.join("unpacked");
    fs::create_dir_all(&into).map_err(doing("making a directory"))?;
    // What an archive says of a size may be a lie: what is read is counted.
    let mut archive = tar::Archive::new(packed.take(BYTES_MAX));
    let (mut files, mut bytes) = (0, 0);
    for entry in archive.entries().map_err(doing("unpacking"))? {
        let mut entry = entry.map_err(doing("unpacking"))?;
        files += 1;
        bytes += entry.size();
        within("its number of files", files, FILES_MAX)?;
        within("its unpacked size in bytes", bytes, BYTES_MAX)?;
        let kind = entry.header().entry_type();
        if kind.is_pax_global_extensions() {
            continue;
        }
        if !(kind.is_file() || kind.is_dir() || kind.is_symlink() || kind.is_hard_link()) {
            return Err(ArtifactError::Invalid("the archive has something that is no file, directory or link".to_owned()));
        }
        if !entry.unpack_in(&into).map_err(doing("unpacking"))? {
            return Err(ArtifactError::Invalid("the archive has a path that leads out of it".to_owned()));
        }
    }
    Ok(into)
}

/// A directory of what was unpacked, reached without links.
fn below(root: &Path, subdir: &str) -> Result<PathBuf, ArtifactError> {
    let mut dir = root.to_owned();
    for part in Path::new(subdir).components() {
        dir.push(part);
        let is_dir = fs::symlink_metadata(&dir).is_ok_and(|meta| meta.is_dir());
        if !is_dir || !matches!(part, Component::Normal(_)) {
            return Err(ArtifactError::Invalid(format!("the archive has no directory {subdir:?}")));
        }
    }
    Ok(dir)
}

/// Makes a directory below another. None of its parts may be a link: a task may have made it.
fn solid_dir(root: &Path, below: &Path) -> Result<PathBuf, ArtifactError> {
    let mut dir = root.to_owned();
    for part in below.components() {
        dir.push(part);
        ensure_dir(&dir)?;
    }
    Ok(dir)
}

fn ensure_dir(dir: &Path) -> Result<(), ArtifactError> {
    match fs::symlink_metadata(dir) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(ArtifactError::Invalid("artifact destination has something in its way that is no directory".to_owned())),
        Err(_) => fs::create_dir(dir).map_err(doing("making a directory")),
    }
}

/// Moves everything of one directory into another, over what is there.
fn merge(from: &Path, to: &Path) -> Result<(), ArtifactError> {
    for entry in fs::read_dir(from).map_err(doing("reading a directory"))? {
        let entry = entry.map_err(doing("reading a directory"))?;
        let target = to.join(entry.file_name());
        if entry.file_type().map_err(doing("reading a directory"))?.is_dir() && target.symlink_metadata().is_ok() {
            ensure_dir(&target)?;
            merge(&entry.path(), &target)?;
        } else {
            fs::rename(entry.path(), target).map_err(doing("moving a file to its place"))?;
        }
    }
    Ok(())
}
