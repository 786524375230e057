//! Placement of staged files below the allocation's directory, by the agent and with its rights. Tasks of the
//! allocation run meanwhile, and the staged files come from a process that is not trusted. So no link is followed, and
//! every link is checked before it is made.

use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;

use super::child::{STAGED, Staged};
use super::{ArtifactError, DEPTH_MAX, Dirs, doing, within};
use crate::beneath::{Dir, Entry, Owner};

/// Destination of an artifact, relative to the allocation's directory. `..` is resolved; links are not examined.
pub(crate) fn destination(dirs: &Dirs, wanted: &str) -> Result<PathBuf, ArtifactError> {
    let escapes = || ArtifactError::Invalid("artifact destination path escapes alloc directory".to_owned());
    // Interpolated task variables are absolute paths of the node. Any other path is relative to the task's directory,
    // even with a leading slash.
    let path = Path::new(wanted);
    let whole =
        if path.starts_with(&dirs.alloc) { path.to_owned() } else { dirs.task().join(wanted.trim_start_matches('/')) };
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

/// Moves the staged file or directory to `to`, a path below the allocation's directory. In mode `file` a file becomes
/// `to` itself; in every other case the content goes into the directory `to`.
pub(super) fn put(alloc: &Dir, staging: &Dir, staged: &Staged, mode: &str, to: &Path) -> Result<(), ArtifactError> {
    let destination = |to: &Path| make_dirs(alloc, to, 0o755);
    match staged {
        Staged::Tree { subdir } => {
            let none = |_| ArtifactError::Invalid(format!("the archive has no directory {subdir:?}"));
            let from = staging.dir(Path::new(STAGED).join(subdir)).map_err(none)?;
            let root = destination(to)?;
            Merge { root: &root, below: PathBuf::new() }.all(&from, &root)
        }
        Staged::File { name } => {
            let (dir, name) = match to.file_name().filter(|_| mode == "file") {
                Some(name) => (destination(to.parent().unwrap_or(Path::new("")))?, name),
                None => (destination(to)?, name.as_ref()),
            };
            let entry = staging.entry(STAGED).map_err(doing("reading what was fetched"))?;
            if entry.kind() != FileType::RegularFile {
                return Err(unexpected());
            }
            own(&entry)?;
            staging.rename(STAGED, &dir, name).map_err(doing("moving a file to its place"))
        }
    }
}

fn make_dirs(dir: &Dir, path: &Path, mode: u32) -> Result<Dir, ArtifactError> {
    dir.make_dirs(path, mode).map_err(|error| match Errno::from_io_error(&error) {
        // A link is in the way like a file, because it is not followed.
        Some(Errno::NOTDIR | Errno::LOOP) => {
            ArtifactError::Invalid("artifact destination has something in its way that is no directory".to_owned())
        }
        _ => doing("making the destination")(error),
    })
}

fn unexpected() -> ArtifactError {
    ArtifactError::Invalid("the fetching process left something that is no file, directory or link".to_owned())
}

/// Makes the agent's user the owner of a staged file. A file with a second name is refused: it could be a file that
/// existed before.
fn own(entry: &Entry) -> Result<(), ArtifactError> {
    if entry.stat().st_nlink != 1 {
        return Err(ArtifactError::Invalid("the fetching process left a file with two names".to_owned()));
    }
    if rustix::process::geteuid().is_root() {
        entry.set_owner(AGENT).map_err(doing("taking over a file"))?;
    }
    entry.set_mode(entry.stat().st_mode & 0o777).map_err(doing("taking over a file"))
}

/// Owner of artifacts when the agent runs as root, for tasks of any user.
const AGENT: Owner = (0, 0);

/// Moves a staged directory into one that may already have content, file over file.
struct Merge<'a> {
    /// The destination. Links may only lead to paths beneath it.
    root: &'a Dir,
    /// The directory that is being filled, relative to `root`.
    below: PathBuf,
}

impl Merge<'_> {
    fn all(&mut self, from: &Dir, to: &Dir) -> Result<(), ArtifactError> {
        // Depth is limited because each level holds two descriptors of the agent.
        within("its depth of directories", self.below.components().count() as u64, DEPTH_MAX)?;
        for name in from.names().map_err(doing("reading what was fetched"))? {
            let entry = from.entry(&name).map_err(doing("reading what was fetched"))?;
            self.below.push(&name);
            match entry.kind() {
                FileType::Directory => {
                    let mode = entry.stat().st_mode & 0o777;
                    let to = make_dirs(to, Path::new(&name), mode)?;
                    self.all(&entry.into_dir().map_err(doing("reading what was fetched"))?, &to)?;
                }
                FileType::RegularFile => {
                    own(&entry)?;
                    from.rename(&name, to, &name).map_err(doing("moving a file to its place"))?;
                }
                FileType::Symlink => {
                    let target = entry.target().map_err(doing("reading a link"))?;
                    to.remove(&name).map_err(doing("replacing what is at the destination"))?;
                    link(self.root, &self.below, &target).map_err(doing("making a link"))?;
                }
                _ => return Err(unexpected()),
            }
            self.below.pop();
        }
        Ok(())
    }
}

/// Makes a link at a path below `root`. In place of a link whose target leads out of `root`, an empty file is made.
pub(super) fn link(root: &Dir, at: &Path, target: &Path) -> io::Result<()> {
    match root.symlink(at, target) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => root.create(at, 0o644).map(drop),
        made => made,
    }
}
