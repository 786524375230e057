//! Putting what was fetched where the job wants it: never outside the allocation's directory, never through a link that a task has made. Every
//! step is taken from an open directory, so nothing that a task swaps in meanwhile changes where files go.

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::source::{Archive, Source};
use super::unpack::unpack;
use super::{ArtifactError, BYTES_MAX, DOWNLOAD, Dirs, doing};
use crate::beneath::Dir;

/// What was unpacked is called so, beside the download.
const UNPACKED: &str = "unpacked";

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
pub(super) fn put(dirs: &Dirs, source: &Source, mode: &str, staging: &Dir, to: &Path) -> Result<(), ArtifactError> {
    let file = staging.read(DOWNLOAD).map_err(doing("opening a file"))?;
    let made = match source.archive {
        Archive::None if mode == "dir" => return Err(ArtifactError::Invalid("source is a file, and a directory is wanted".to_owned())),
        Archive::None => DOWNLOAD,
        Archive::Gz => {
            let mut out = staging.create(UNPACKED, 0o644).map_err(doing("making a file"))?;
            let length = io::copy(&mut MultiGzDecoder::new(file).take(BYTES_MAX + 1), &mut out).map_err(doing("unpacking"))?;
            within("its unpacked size in bytes", length, BYTES_MAX)?;
            UNPACKED
        }
        Archive::Tar | Archive::TarGz => UNPACKED,
    };
    let root = dirs.open().map_err(doing("opening a directory"))?;
    match (source.archive, mode) {
        (Archive::Tar | Archive::TarGz, "file") => Err(ArtifactError::Invalid("source is a directory, and a file is wanted".to_owned())),
        (Archive::Tar | Archive::TarGz, _) => {
            let into = staging.make_dir(UNPACKED, 0o755).map_err(doing("making a directory"))?;
            let file = staging.read(DOWNLOAD).map_err(doing("opening a file"))?;
            if source.archive == Archive::Tar {
                unpack(file, &into)?
            } else {
                unpack(MultiGzDecoder::new(file), &into)?
            }
            let wanted = into.dir(&source.subdir);
            let wanted = wanted.map_err(|_| ArtifactError::Invalid(format!("the archive has no directory {:?}", source.subdir)))?;
            let to = solid_dir(&root, to)?;
            merge(&wanted, &to, &to, Path::new(""))
        }
        (Archive::None | Archive::Gz, "file") => {
            let name = to.file_name().ok_or_else(|| ArtifactError::Invalid("the destination has no name".to_owned()))?;
            let dir = solid_dir(&root, to.parent().unwrap_or(Path::new("")))?;
            staging.rename(made, &dir, name).map_err(doing("moving a file to its place"))
        }
        (Archive::None | Archive::Gz, _) => {
            let name = if source.archive == Archive::Gz { source.filename.trim_end_matches(".gz") } else { &source.filename };
            if name.is_empty() {
                return Err(ArtifactError::Invalid("the source has no file name".to_owned()));
            }
            staging.rename(made, &solid_dir(&root, to)?, name).map_err(doing("moving a file to its place"))
        }
    }
}

pub(super) fn within(what: &'static str, count: u64, most: u64) -> Result<(), ArtifactError> {
    if count > most { Err(ArtifactError::TooMuch { what, most }) } else { Ok(()) }
}

/// Makes a directory below another. None of its parts may be a link: a task may have made it.
fn solid_dir(root: &Dir, below: &Path) -> Result<Dir, ArtifactError> {
    root.make_dirs(below, 0o755).map_err(in_the_way)
}

fn in_the_way(error: io::Error) -> ArtifactError {
    let other = [Errno::NOTDIR, Errno::LOOP].map(|errno| Some(errno.raw_os_error()));
    if other.contains(&error.raw_os_error()) {
        return ArtifactError::Invalid("artifact destination has something in its way that is no directory".to_owned());
    }
    doing("making a directory")(error)
}

/// Moves everything of one directory into another, over what is there. `at` is where `to` is below the destination `root`: a link is made
/// anew there, so that it is known to stay below.
fn merge(from: &Dir, to: &Dir, root: &Dir, at: &Path) -> Result<(), ArtifactError> {
    let moving = doing("moving a file to its place");
    for name in from.names().map_err(doing("reading a directory"))? {
        let entry = from.entry(&name).map_err(doing("reading a directory"))?;
        match entry.kind() {
            FileType::Directory => {
                let mode = entry.stat().st_mode & 0o777;
                let made = match to.kind(&name).map_err(doing("reading a directory"))? {
                    None => to.make_dirs(&name, mode),
                    Some(_) => to.dir(&name),
                };
                merge(&entry.into_dir().map_err(doing("reading a directory"))?, &made.map_err(in_the_way)?, root, &at.join(&name))?;
            }
            FileType::Symlink => {
                let target = entry.target().map_err(doing("reading a directory"))?;
                to.remove(&name).map_err(&moving)?;
                place_link(root, &at.join(&name), &target).map_err(&moving)?;
            }
            _ => from.rename(&name, to, &name).map_err(&moving)?,
        }
    }
    Ok(())
}

/// Makes a link that stays below `root`. In place of one that would not there is an empty file.
pub(super) fn place_link(root: &Dir, at: &Path, target: &Path) -> io::Result<()> {
    match root.symlink(at, target) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => root.create(at, 0o644).map(drop),
        made => made,
    }
}
