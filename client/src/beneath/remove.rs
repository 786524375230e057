//! Removal of whole trees of any depth. No link is followed.

use std::ffi::{OsStr, OsString};
use std::io;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::{Dir, TRIES_MAX, is, one};

/// Largest number of directories that are open at a time. Deeper directories are moved up first, because a task may
/// make a tree that is deeper than the agent has descriptors.
const DEPTH_MAX: usize = 64;

impl Dir {
    /// Removes the entry of this name, a directory with its content. A missing entry is no error.
    pub fn remove_all(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = one(name.as_ref())?;
        for _ in 0..TRIES_MAX {
            match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                // `PERM` is the error that POSIX specifies for directories.
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
            let dir = match self.dir(name) {
                Ok(dir) => dir,
                // Replaced or removed since.
                Err(error) if gone_or_replaced(&error) => continue,
                Err(error) => return Err(error),
            };
            empty(&dir)?;
            match rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other(format!("{name:?} is filled again and again while it is removed")))
    }
}

fn gone_or_replaced(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].iter().any(|errno| is(error, *errno))
}

/// Removes the content of a directory. Entries that are added meanwhile may stay.
fn empty(top: &Dir) -> io::Result<()> {
    let mut moved = 0_u64;
    loop {
        let names = top.names()?;
        let before = moved;
        let mut open: Vec<(Dir, Vec<OsString>, OsString)> = vec![(top.try_clone()?, names, OsString::new())];
        while let Some(depth) = open.len().checked_sub(1) {
            let (dir, names, _) = &mut open[depth];
            let Some(name) = names.pop() else {
                let (_, _, own) = open.pop().expect("there is a last one");
                if let Some((parent, ..)) = open.last() {
                    match rustix::fs::unlinkat(&parent.fd, &own, AtFlags::REMOVEDIR) {
                        // The directory was filled meanwhile, or by moved directories. The caller sees that when it
                        // removes the top.
                        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                continue;
            };
            match rustix::fs::unlinkat(&dir.fd, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => continue,
                Err(Errno::ISDIR | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
            if depth + 1 >= DEPTH_MAX {
                moved += 1;
                let aside = format!(".removed-{}-{moved}", std::process::id());
                match rustix::fs::renameat(&dir.fd, &name, &top.fd, aside) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    // The name is taken: the next attempt has another number.
                    Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => names.push(name),
                    Err(error) => return Err(error.into()),
                }
                continue;
            }
            let below = match dir.dir(&name) {
                Ok(below) => below,
                Err(error) if gone_or_replaced(&error) => continue,
                Err(error) => return Err(error),
            };
            let names = below.names()?;
            open.push((below, names, name));
        }
        if moved == before {
            return Ok(());
        }
    }
}
