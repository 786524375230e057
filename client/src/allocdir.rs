//! The directories of an allocation: what its tasks share, and what each has for itself. Reading files for requests is in [`crate::fs`].

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, fchown};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use songline_model::AllocId;

/// What the tasks of an allocation share.
pub(crate) const SHARED: &str = "alloc";
/// What only its task may see.
pub(crate) const SECRETS: &str = "secrets";
/// What not even its task may see.
pub(crate) const PRIVATE: &str = "private";

/// The directory tree of one allocation.
#[derive(Debug, Clone)]
pub(crate) struct AllocDir {
    root: PathBuf,
}

impl AllocDir {
    pub fn new(parent: &Path, id: &AllocId) -> Self {
        Self { root: parent.join(id.to_string()) }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn shared(&self) -> PathBuf {
        self.root.join(SHARED)
    }

    pub fn logs(&self) -> PathBuf {
        self.shared().join("logs")
    }

    pub fn task(&self, task: &str) -> PathBuf {
        self.root.join(task)
    }

    /// Makes what the tasks share. Doing it again changes nothing.
    pub fn build(&self) -> io::Result<()> {
        make(&self.root, 0o755)?;
        make(&self.shared(), 0o777)?;
        for name in ["data", "logs", "tmp"] {
            make(&self.shared().join(name), 0o777)?;
        }
        Ok(())
    }

    /// Makes a task's own directories; `owner` gets what nobody else may read.
    pub fn build_task(&self, task: &str, owner: Option<(u32, u32)>) -> io::Result<()> {
        let dir = self.task(task);
        make(&dir, 0o777)?;
        make(&dir.join("local"), 0o777)?;
        make(&dir.join("tmp"), 0o1777)?;
        make(&dir.join(SECRETS), 0o700)?;
        make(&dir.join(PRIVATE), 0o700)?;
        if let Some((uid, gid)) = owner {
            chown(dir.join(SECRETS), Some(uid), Some(gid))?;
        }
        Ok(())
    }

    /// Writes a file into a task's secrets that only its owner reads. Whatever stands in its place goes, links too: the task may have made it.
    pub fn write_secret(&self, task: &str, name: &str, content: &[u8], owner: Option<(u32, u32)>) -> io::Result<()> {
        let path = self.task(task).join(SECRETS).join(name);
        let unfinished = path.with_extension("unfinished");
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        file.write_all(content)?;
        if let Some((uid, gid)) = owner {
            fchown(&file, Some(uid), Some(gid))?;
        }
        fs::rename(&unfinished, &path)
    }

    /// Writes a file below a task's `local` directory. Nothing that a task may have put there leads out of it.
    pub fn write_local(&self, task: &str, path: &Path, content: &[u8]) -> io::Result<()> {
        let open = OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir = rustix::fs::open(self.task(task).join("local"), open | OFlags::DIRECTORY, Mode::empty())?;
        let mut names = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => names.push(name),
                Component::CurDir | Component::RootDir => {}
                Component::ParentDir | Component::Prefix(_) => return Err(io::Error::other("the path leads out of the task's directory")),
            }
        }
        let name = names.pop().ok_or_else(|| io::Error::other("the file has no name"))?;
        for parent in names {
            match rustix::fs::mkdirat(&dir, parent, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            dir = rustix::fs::openat(&dir, parent, open | OFlags::DIRECTORY, Mode::empty())?;
        }
        let flags = open | OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let mode = Mode::from_raw_mode(0o777);
        let file = rustix::fs::openat(&dir, name, flags, mode)?;
        // Whatever the process's mask takes away.
        rustix::fs::fchmod(&file, mode)?;
        fs::File::from(file).write_all(content)
    }

    /// Takes over the data of the allocation before this one.
    pub fn adopt(&self, previous: &AllocDir, tasks: &[&str]) -> io::Result<()> {
        let shared = previous.shared().join("data");
        if shared.is_dir() {
            let data = self.shared().join("data");
            fs::remove_dir_all(&data)?;
            fs::rename(shared, data)?;
        }
        for task in tasks {
            let local = previous.task(task).join("local");
            if local.is_dir() {
                make(&self.task(task), 0o777)?;
                let own = self.task(task).join("local");
                if own.exists() {
                    fs::remove_dir_all(&own)?;
                }
                fs::rename(local, own)?;
            }
        }
        Ok(())
    }

    /// Removes all of it.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Makes a directory with exactly this mode, whatever the process's mask takes away.
fn make(dir: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(dir)?;
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_for_a_task_stays_in_its_directory() -> io::Result<()> {
        let parent = tempfile::tempdir()?;
        let dir = AllocDir::new(parent.path(), &AllocId::default());
        dir.build()?;
        dir.build_task("t", None)?;
        let local = dir.task("t").join("local");
        dir.write_local("t", Path::new("a/b/c.txt"), b"deep")?;
        assert_eq!(fs::read_to_string(local.join("a/b/c.txt"))?, "deep");
        std::os::unix::fs::symlink(parent.path(), local.join("out"))?;
        std::os::unix::fs::symlink(parent.path().join("file"), local.join("link"))?;
        for path in ["../x", "out/x", "link", "", "/"] {
            assert!(dir.write_local("t", Path::new(path), b"x").is_err(), "{path}");
        }
        assert!(!parent.path().join("x").exists() && !parent.path().join("file").exists());
        Ok(())
    }
}
