//! Unpacking of an earlier allocation's data, which another node has packed.
//!
//! Attacks of that node which it stops: entries beside the data and the tasks' `local` directories, paths with `..`,
//! writing through a link, setuid programs, devices. A link whose target leads out of the directory is left out.

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use songline_model::AllocId;
use tar::{Entry, EntryType};

use crate::allocdir::SHARED;
use crate::beneath::Dir;

/// Longest text of the other node's error, in bytes.
const ERROR_BYTES_MAX: u64 = 4 << 10;

/// Unpacks a tar into a directory. An entry with the other node's error ends it.
pub(super) fn unpack(from: impl Read, to: &Dir, previous: AllocId, tasks: &[&str]) -> io::Result<()> {
    let told = format!("NOMAD-{previous}-ERROR.log");
    let mut archive = tar::Archive::new(from);
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if path == Path::new(&told) {
            let mut text = String::new();
            entry.take(ERROR_BYTES_MAX).read_to_string(&mut text)?;
            return Err(io::Error::other(format!("the other node could not read all of it: {text}")));
        }
        let path = inside(&path, tasks)?;
        add(&mut entry, to, &path)?;
    }
    // A tar that was cut at the end of an entry has no end mark; reading on finds the cut.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map(drop)
}

fn add<R: Read>(entry: &mut Entry<'_, R>, to: &Dir, path: &Path) -> io::Result<()> {
    let header = entry.header();
    let (kind, mode) = (header.entry_type(), header.mode()? & 0o1777);
    // Only root may give files away; other agents keep them.
    let owner = id(header.uid()?).zip(id(header.gid()?)).filter(|_| rustix::process::geteuid().is_root());
    if kind == EntryType::Directory {
        let dir = to.make_dirs(path, mode)?;
        dir.set_mode(mode)?;
        return owner.map_or(Ok(()), |owner| dir.set_owner(owner));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(leads_out(path)) };
    let parent = to.make_dirs(parent, 0o777)?;
    match kind {
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            parent.remove(name)?;
            let mut file = parent.create(name, mode)?;
            io::copy(entry, &mut file)?;
            owner.map_or(Ok(()), |owner| parent.entry(name)?.set_owner(owner))
        }
        EntryType::Symlink => {
            let target = entry.link_name()?.map(|target| target.into_owned()).unwrap_or_default();
            if let Err(error) = to.symlink(path, &target) {
                tracing::warn!(link = %path.display(), target = %target.display(), %error, "a link is left out");
            }
            Ok(())
        }
        other => Err(io::Error::other(format!("{} is a {other:?}, which is not taken over", path.display()))),
    }
}

fn id(number: u64) -> Option<u32> {
    u32::try_from(number).ok()
}

/// Path of an entry: `alloc/data`, or `local` of one of the tasks, or below.
fn inside(path: &Path, tasks: &[&str]) -> io::Result<PathBuf> {
    let mut kept = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => kept.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => return Err(leads_out(path)),
        }
    }
    let own = |task: &&str| kept.starts_with(Path::new(task).join("local"));
    if kept.starts_with(Path::new(SHARED).join("data")) || tasks.iter().any(own) {
        return Ok(kept);
    }
    Err(leads_out(path))
}

fn leads_out(path: &Path) -> io::Error {
    io::Error::other(format!("{} is neither shared data nor of a task", path.display()))
}

#[cfg(test)]
mod tests;
