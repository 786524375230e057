//! Files and directories below a directory that is held open. Everything that the agent does below an allocation's
//! directory goes through [`Dir`], because tasks may put links, pipes and devices there, and may swap them in at any
//! moment.
//!
//! - The agent's own steps ([`Dir::dir`], [`Dir::make_dir`], [`Dir::write`], ..) follow no link at all, in no part of a
//!   path.
//! - Paths that callers of the API name ([`Dir::find`]) may pass links that stay below the directory; a link that leads
//!   out is an error.
//! - A file is examined before it is opened: only regular files and directories are opened, never a pipe or a device,
//!   so no call blocks.
//! - Results hold descriptors, not paths, so that the file that was checked is the file that is used.
//!
//! This needs `openat2` (Linux 5.6) and `/proc`. Which caller may read which file is decided elsewhere.

mod find;
mod remove;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, StatxAttributes, StatxFlags, Uid};
use rustix::io::Errno;

pub use find::{Found, NotFound};

/// Owner of a file: the numbers of its user and group.
pub type Owner = (u32, u32);

/// Largest number of attempts at an operation that another process disturbs by renaming or replacing entries.
const TRIES_MAX: u32 = 64;

/// A directory that is held open.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
}

/// An entry of a directory: examined and held by a descriptor, but not opened for reading or writing.
#[derive(Debug)]
pub struct Entry {
    fd: OwnedFd,
    stat: Stat,
}

impl Dir {
    /// Opens a directory by a path whose parents only the agent can change. The directory itself must not be a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Makes and opens a directory with exactly this mode, by a path whose parents only the agent can change.
    pub fn make(path: &Path, mode: u32) -> io::Result<Self> {
        match rustix::fs::mkdir(path, bits(mode)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let dir = Self::open(path)?;
        dir.set_mode(mode)?;
        Ok(dir)
    }

    /// Opens another descriptor of the same directory.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()? })
    }

    /// Path of an entry, usable while this directory is held open. Most calls follow a link at that path, so it is only
    /// for calls that make a new entry.
    pub fn path_of(&self, name: &str) -> PathBuf {
        held(&self.fd).join(name)
    }

    /// Examines the entry at a path. A link as the last part is the entry itself.
    pub fn entry(&self, path: impl AsRef<Path>) -> io::Result<Entry> {
        let fd = open(&self.fd, path.as_ref(), OFlags::PATH | OFlags::NOFOLLOW, 0, ResolveFlags::NO_SYMLINKS)?;
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Entry { fd, stat })
    }

    /// Kind of the entry at a path, links as such; `None` when there is no entry.
    pub fn kind(&self, path: impl AsRef<Path>) -> io::Result<Option<FileType>> {
        match self.entry(path) {
            Ok(entry) => Ok(Some(entry.kind())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a directory below this one.
    pub fn dir(&self, path: impl AsRef<Path>) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        Ok(Self { fd: open(&self.fd, path.as_ref(), flags, 0, ResolveFlags::NO_SYMLINKS)? })
    }

    /// Makes a directory with exactly this mode, or gives that mode to the one that is there. Any other entry in its
    /// place, a link too, is removed.
    pub fn make_dir(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<Self> {
        self.make_own(name.as_ref(), mode, |_| true)
    }

    /// As [`Dir::make_dir`], for a directory that others must not read. A directory that belongs neither to the agent
    /// nor to `owner` was put there by another user, and is removed with its content. The new directory belongs to
    /// `owner`, or to the agent without one.
    pub fn make_private(&self, name: impl AsRef<OsStr>, mode: u32, owner: Option<Owner>) -> io::Result<Self> {
        let trusted = [Some(rustix::process::geteuid().as_raw()), owner.map(|(user, _)| user)];
        let dir = self.make_own(name.as_ref(), mode, |stat| trusted.contains(&Some(stat.st_uid)))?;
        if let Some(owner) = owner {
            dir.set_owner(owner)?;
        }
        Ok(dir)
    }

    fn make_own(&self, name: &OsStr, mode: u32, acceptable: impl Fn(&Stat) -> bool) -> io::Result<Self> {
        let name = one(name)?;
        for _ in 0..TRIES_MAX {
            match rustix::fs::mkdirat(&self.fd, name, bits(mode)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let entry = match self.entry(name) {
                Ok(entry) => entry,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if entry.kind() == FileType::Directory && acceptable(&entry.stat) {
                let dir = entry.into_dir()?;
                dir.set_mode(mode)?;
                return Ok(dir);
            }
            self.remove_all(name)?;
        }
        Err(io::Error::other(format!("{name:?} is replaced again and again while it is made")))
    }

    /// Opens a directory that [`Dir::make_private`] made for the agent. One that belongs to another user is an error.
    pub fn own_dir(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let entry = self.entry(one(name.as_ref())?)?;
        if entry.kind() != FileType::Directory || entry.stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user has made the directory"));
        }
        entry.into_dir()
    }

    /// Makes a directory below this one with all its parents. Directories that are made get exactly this mode. An entry
    /// in the way that is not a directory is an error, and stays.
    pub fn make_dirs(&self, path: impl AsRef<Path>, mode: u32) -> io::Result<Self> {
        let mut dir = self.try_clone()?;
        for part in path.as_ref().components() {
            let name = match part {
                Component::Normal(name) => name,
                Component::CurDir => continue,
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(leads_out(path.as_ref()));
                }
            };
            let made = match rustix::fs::mkdirat(&dir.fd, name, bits(mode)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(error) => return Err(error.into()),
            };
            dir = dir.dir(name)?;
            if made {
                dir.set_mode(mode)?;
            }
        }
        Ok(dir)
    }

    /// Makes a new file with exactly this mode, and opens it for writing. An entry of this name is an error.
    pub fn create(&self, name: impl AsRef<Path>, mode: u32) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = File::from(open(&self.fd, name.as_ref(), flags, mode, ResolveFlags::NO_SYMLINKS)?);
        rustix::fs::fchmod(&file, bits(mode))?;
        Ok(file)
    }

    /// Writes a whole file, all or nothing, in place of any entry of this name.
    pub fn write(&self, name: impl AsRef<OsStr>, content: &[u8], mode: u32, owner: Option<Owner>) -> io::Result<()> {
        let name = one(name.as_ref())?;
        let unfinished = format!(".{}.unfinished", name.display());
        self.remove_all(&unfinished)?;
        let mut file = self.create(&unfinished, mode)?;
        file.write_all(content)?;
        if let Some((user, group)) = owner {
            rustix::fs::fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        }
        self.replace(&unfinished, self, name)
    }

    /// Opens a regular file for appending, and makes it with exactly this mode if it is not there.
    pub fn append(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let name = one(name.as_ref())?;
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        match open(&self.fd, Path::new(name), flags, mode, ResolveFlags::NO_SYMLINKS) {
            Ok(file) => {
                rustix::fs::fchmod(&file, bits(mode))?;
                Ok(File::from(file))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.entry(name)?.open_file(OFlags::WRONLY | OFlags::APPEND)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a regular file for reading. Any other entry in its place is an error.
    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<File> {
        self.entry(path)?.open_file(OFlags::RDONLY)
    }

    /// Moves an entry into a directory of the same file system, as `rename` does: a file takes the place of a file, a
    /// directory that of an empty one. A link is moved as such.
    pub fn rename(&self, name: impl AsRef<OsStr>, to: &Dir, to_name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, one(name.as_ref())?, &to.fd, one(to_name.as_ref())?)?)
    }

    /// As [`Dir::rename`], in place of any entry of that name there; a directory is removed with its content.
    pub fn replace(&self, name: impl AsRef<OsStr>, to: &Dir, to_name: impl AsRef<OsStr>) -> io::Result<()> {
        let (name, to_name) = (name.as_ref(), to_name.as_ref());
        match self.rename(name, to, to_name) {
            Err(error)
                if [Errno::ISDIR, Errno::NOTDIR, Errno::NOTEMPTY, Errno::EXIST]
                    .iter()
                    .any(|errno| is(&error, *errno)) =>
            {
                to.remove_all(to_name)?;
                self.rename(name, to, to_name)
            }
            renamed => renamed,
        }
    }

    /// Makes a hard link to a file in another directory, under the same name and in place of a file that has it there.
    pub fn link(&self, name: impl AsRef<OsStr>, to: &Dir) -> io::Result<()> {
        let name = one(name.as_ref())?;
        match rustix::fs::linkat(&self.fd, name, &to.fd, name, AtFlags::empty()) {
            Err(Errno::EXIST) => {
                to.remove(name)?;
                Ok(rustix::fs::linkat(&self.fd, name, &to.fd, name, AtFlags::empty())?)
            }
            linked => Ok(linked?),
        }
    }

    /// Makes a symbolic link at a path below this directory. The parents of the path must exist. The target must be
    /// relative and stay below this directory: first as many `..` as lead to a directory below it, then names. The
    /// entry that the target leads to is not examined.
    pub fn symlink(&self, path: impl AsRef<Path>, target: &Path) -> io::Result<()> {
        let path = path.as_ref();
        let mut depth = 0_usize;
        let mut parent = PathBuf::new();
        let mut parts = path.components().peekable();
        let mut name = None;
        while let Some(part) = parts.next() {
            match part {
                Component::Normal(part) if parts.peek().is_none() => name = Some(part),
                Component::Normal(part) => {
                    parent.push(part);
                    depth += 1;
                }
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(leads_out(path)),
            }
        }
        let name = name.ok_or_else(|| leads_out(path))?;
        let mut down = false;
        for part in target.components() {
            match part {
                Component::Normal(_) => down = true,
                Component::CurDir => {}
                // A name before `..` could be that of a link, and `..` would then begin where the link leads.
                Component::ParentDir if !down && depth > 0 => depth -= 1,
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(leads_out(target)),
            }
        }
        Ok(rustix::fs::symlinkat(target, &self.dir(parent)?.fd, name)?)
    }

    /// Removes a file, a link, a pipe, a device or a socket. A missing entry is no error.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, one(name.as_ref())?, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a directory if it is empty, and fails with `DirectoryNotEmpty` if not. A missing entry is no error; a
    /// mount point is one.
    pub fn remove_empty_dir(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, one(name.as_ref())?, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a file system is mounted at a path; `false` when there is no entry. Kernels before 5.8 do not tell, and
    /// nothing counts as mounted on them.
    pub fn is_mount_point(&self, path: impl AsRef<Path>) -> io::Result<bool> {
        let entry = match self.entry(path) {
            Ok(entry) => entry,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let about = rustix::fs::statx(&entry.fd, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        Ok(about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    }

    /// Names of the entries in this directory, in order.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Gives this directory exactly this mode.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.fd, bits(mode))?)
    }

    /// Gives this directory to a user and group.
    pub fn set_owner(&self, (user, group): Owner) -> io::Result<()> {
        Ok(rustix::fs::fchown(&self.fd, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?)
    }
}

impl Entry {
    /// Kind of the entry.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Status of the entry, as of its examination.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Reads the entry's metadata anew, as the standard library's type.
    pub fn metadata(&self) -> io::Result<std::fs::Metadata> {
        File::from(self.fd.try_clone()?).metadata()
    }

    /// Target of the entry, if it is a link.
    pub fn target(&self) -> io::Result<PathBuf> {
        Ok(OsString::from_vec(rustix::fs::readlinkat(&self.fd, "", Vec::new())?.into_bytes()).into())
    }

    /// Path of the entry itself while it is held. A call with it acts on this entry, whatever has taken its name.
    pub fn held(&self) -> PathBuf {
        held(&self.fd)
    }

    /// Opens the entry, if it is a regular file.
    pub fn open_file(&self, flags: OFlags) -> io::Result<File> {
        if self.kind() != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::open(held(&self.fd), flags, Mode::empty())?))
    }

    /// Opens the entry, if it is a directory.
    pub fn into_dir(self) -> io::Result<Dir> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        Ok(Dir { fd: open(&self.fd, Path::new("."), flags, 0, ResolveFlags::NO_SYMLINKS)? })
    }

    /// Gives the entry exactly this mode. A link has no mode, which is an error.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        if self.kind() == FileType::Symlink {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a link has no mode"));
        }
        Ok(rustix::fs::chmod(held(&self.fd), bits(mode))?)
    }

    /// Gives the entry to a user and group.
    pub fn set_owner(&self, (user, group): Owner) -> io::Result<()> {
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        Ok(rustix::fs::chownat(&self.fd, "", user, group, AtFlags::EMPTY_PATH)?)
    }
}

/// Path under which the kernel shows an open descriptor. Opening that path opens the same file again.
fn held(fd: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Opens a path below a directory with `openat2`: no part of the path, no link and no concurrent rename leads out of
/// the directory.
fn open(at: &impl AsFd, path: &Path, flags: OFlags, mode: u32, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = resolve | ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES_MAX {
        return match rustix::fs::openat2(at, path, flags | OFlags::CLOEXEC, bits(mode), resolve) {
            // An entry was renamed while the kernel walked up, so that the kernel cannot tell whether the path led out.
            Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(Errno::NOSYS) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this kernel has no openat2: Linux 5.6 or later is needed",
            )),
            opened => Ok(opened?),
        };
    }
    Err(Errno::AGAIN.into())
}

/// Whether an error of the system has this number.
fn is(error: &io::Error, errno: Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

fn bits(mode: u32) -> Mode {
    Mode::from_raw_mode(mode)
}

/// Checks that a name is that of one entry: not a path, and neither the directory itself nor the one above it.
fn one(name: &OsStr) -> io::Result<&OsStr> {
    let mut parts = Path::new(name).components();
    match (parts.next(), parts.next()) {
        (Some(Component::Normal(part)), None) if part == name => Ok(name),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not the name of a file"))),
    }
}

fn leads_out(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{} leads out of its directory", path.display()))
}

#[cfg(test)]
mod tests;
