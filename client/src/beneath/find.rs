//! Lookup of a path that a caller names. Links on the way are followed as long as they stay below the directory.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::{Dir, Entry, held, is, open};

/// Largest number of links that are followed in the last part of a path: as many as the kernel follows elsewhere.
const LINKS_MAX: u32 = 40;

/// An entry that is not a link, with its path after all links are resolved.
#[derive(Debug)]
pub struct Found {
    entry: Entry,
    path: PathBuf,
}

/// Failure to find an entry.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// The path, or a link on it, leads out of the directory.
    #[error("path leads out of its directory")]
    Escapes,
    /// The entry does not exist, or cannot be examined.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Dir {
    /// Finds the entry that a path leads to. Links that stay below this directory are followed, absolute links never.
    /// Never blocks on a pipe or a device.
    pub fn find(&self, path: impl AsRef<Path>) -> Result<Found, NotFound> {
        let mut path = path.as_ref().to_owned();
        for _ in 0..LINKS_MAX {
            // The kernel does not follow the last part, so that it is examined first.
            let fd = open(&self.fd, &path, OFlags::PATH | OFlags::NOFOLLOW, 0, ResolveFlags::empty())
                .map_err(|error| if is(&error, Errno::XDEV) { NotFound::Escapes } else { NotFound::Io(error) })?;
            let stat = rustix::fs::fstat(&fd).map_err(io::Error::from)?;
            let entry = Entry { fd, stat };
            if entry.kind() != FileType::Symlink {
                let (root, path) = (real(&held(&self.fd))?, real(&held(&entry.fd))?);
                let path = path.strip_prefix(root).map_err(|_| NotFound::Escapes)?.to_owned();
                return Ok(Found { entry, path });
            }
            let target = entry.target()?;
            if target.is_absolute() {
                return Err(NotFound::Escapes);
            }
            // The path is not shortened: `..` after a link begins where the link leads, as for the kernel.
            path = path.parent().unwrap_or(Path::new("")).join(target);
        }
        Err(NotFound::Io(Errno::LOOP.into()))
    }
}

/// Path that the kernel reports for an open descriptor.
fn real(held: &Path) -> io::Result<PathBuf> {
    let path = rustix::fs::readlink(held, Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

impl Found {
    /// Path below the directory after all links are resolved; empty for the directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Kind of the entry.
    pub fn kind(&self) -> FileType {
        self.entry.kind()
    }

    /// Status of the entry, as of the lookup.
    pub fn stat(&self) -> &Stat {
        self.entry.stat()
    }

    /// Opens the entry for reading, if it is a regular file.
    pub fn read(&self) -> io::Result<File> {
        self.entry.open_file(OFlags::RDONLY)
    }

    /// Opens the entry, if it is a directory.
    pub fn into_dir(self) -> io::Result<Dir> {
        self.entry.into_dir()
    }

    /// Gives the entry exactly this mode.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.entry.set_mode(mode)
    }
}
