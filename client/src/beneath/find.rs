//! Finding what a caller names: links on the way are followed as long as they stay below the directory.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::{Dir, Entry, held, is, open};

/// How many links in the last part of a path are followed, as many as the kernel follows elsewhere.
const LINKS_MAX: u32 = 40;

/// Something that is not a link, and where it really is.
#[derive(Debug)]
pub struct Found {
    entry: Entry,
    path: PathBuf,
}

/// Why something is not found.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// The path, or a link on it, leads out of the directory.
    #[error("path leads out of its directory")]
    Escapes,
    /// Nothing is there, or it cannot be looked at.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Dir {
    /// Finds what a path leads to. Links that stay below this directory are followed, absolute ones never. Blocks for no pipe and no device.
    pub fn find(&self, path: impl AsRef<Path>) -> Result<Found, NotFound> {
        let mut path = path.as_ref().to_owned();
        for _ in 0..LINKS_MAX {
            // The last part is not followed by the kernel: it is looked at first.
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
            // Not shortened: `..` after a link begins where that leads, as the kernel sees it.
            path = path.parent().unwrap_or(Path::new("")).join(target);
        }
        Err(NotFound::Io(Errno::LOOP.into()))
    }
}

/// Where the kernel says that something open is.
fn real(held: &Path) -> io::Result<PathBuf> {
    let path = rustix::fs::readlink(held, Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

impl Found {
    /// Where it really is, below the directory; empty for that itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is.
    pub fn kind(&self) -> FileType {
        self.entry.kind()
    }

    /// Everything that is known of it.
    pub fn stat(&self) -> &Stat {
        self.entry.stat()
    }

    /// Opens it for reading, if it is a regular file.
    pub fn read(&self) -> io::Result<File> {
        self.entry.open_file(OFlags::RDONLY)
    }

    /// Opens it, if it is a directory.
    pub fn into_dir(self) -> io::Result<Dir> {
        self.entry.into_dir()
    }

    /// Gives exactly this mode to it.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.entry.set_mode(mode)
    }
}
