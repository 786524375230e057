//! Directories of an allocation: one that its tasks share, one for each task, and one for the agent's logs of them.
//! Everything below [`AllocDir::open`] is reached through [`beneath`](crate::beneath). Reading files for requests is in
//! [`crate::serve`].
//!
//! ```text
//! <alloc_dir>/<id>/            0755, the agent's
//!             alloc/           0777, nobody's, shared by the tasks: data, logs, tmp
//!             <task>/          0777, the agent's
//!                    local, tmp   0777 and 1777, nobody's
//!                    secrets      0700, the task's user's
//!                    private      0700, the agent's
//! <alloc_dir>/<id>.logs/       0755, the agent's: the logs that it writes, rotates and serves
//! ```
//!
//! Tasks find their logs in `alloc/logs`, whose files are hard links to the agent's. A task that removes or replaces
//! them does not change the logs that the agent serves. Tasks with a root of their own see the agent's directory there,
//! read-only.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use rustix::fs::FileType;
use songline_model::AllocId;

use crate::beneath::{Dir, Owner};
use crate::executor::user::numbers;

/// Name of the directory that the tasks of an allocation share.
pub(crate) const SHARED: &str = "alloc";
/// Name of a task's directory that only the task may see.
pub(crate) const SECRETS: &str = "secrets";
/// Name of a task's directory that not even the task may see.
pub(crate) const PRIVATE: &str = "private";
/// Private file with the owner of the task's secrets, as `UID:GID`, while that is the user of the task's image.
const SECRETS_OWNER: &str = "secrets_owner";
/// Path, below the allocation's directory, where tasks find their logs.
pub(crate) const SHOWN_LOGS: &str = "alloc/logs";

/// User and group `nobody`, who own the directories that every user may write to, as with the reference (recorded).
const NOBODY: Owner = (65534, 65534);

/// The directory tree of one allocation.
#[derive(Debug, Clone)]
pub(crate) struct AllocDir {
    root: PathBuf,
}

impl AllocDir {
    pub fn new(parent: &Path, id: &AllocId) -> Self {
        Self { root: parent.join(id.to_string()) }
    }

    /// Path of the allocation's directory, for texts that tasks and people read. Files below it are reached through
    /// [`AllocDir::open`].
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Opens the allocation's directory. Only the agent can change the directories above it.
    pub fn open(&self) -> io::Result<Dir> {
        Dir::open(&self.root)
    }

    /// Path of the directory that the tasks share.
    pub fn shared(&self) -> PathBuf {
        self.root.join(SHARED)
    }

    /// Path of the agent's own directory of logs. No task can change anything in it.
    pub fn logs(&self) -> PathBuf {
        self.root.with_extension("logs")
    }

    /// Path of a task's directory.
    pub fn task(&self, task: &str) -> PathBuf {
        self.root.join(task)
    }

    /// Opens a task's directory.
    pub fn open_task(&self, task: &str) -> io::Result<Dir> {
        self.open()?.dir(task)
    }

    /// Makes the directories that the tasks share. A repeated call only replaces entries that tasks have put in their
    /// place.
    pub fn build(&self) -> io::Result<()> {
        let root = Dir::make(&self.root, 0o755)?;
        Dir::make(&self.logs(), 0o755)?;
        let shared = open_to_all(root.make_dir(SHARED, 0o777)?)?;
        for name in ["data", "logs", "tmp"] {
            open_to_all(shared.make_dir(name, 0o777)?)?;
        }
        Ok(())
    }

    /// Makes a task's own directories; `owner` gets the directory of secrets, which no other user may read. Without
    /// `owner`, the user of [`give_secrets`] gets it, if there is one.
    pub fn build_task(&self, task: &str, owner: Option<Owner>) -> io::Result<()> {
        let dir = self.open()?.make_dir(task, 0o777)?;
        open_to_all(dir.make_dir("local", 0o777)?)?;
        open_to_all(dir.make_dir("tmp", 0o1777)?)?;
        dir.make_private(PRIVATE, 0o700, None)?;
        dir.make_private(SECRETS, 0o700, owner.or_else(|| given_owner(&dir)))?;
        Ok(())
    }

    /// Whether a task's directory has been made.
    pub fn has_task(&self, task: &str) -> bool {
        self.open_task(task).is_ok()
    }

    /// Writes a file into a task's secrets that only its owner can read. Any entry in its place is replaced, links too.
    pub fn write_secret(&self, task: &str, name: &str, content: &[u8], owner: Option<Owner>) -> io::Result<()> {
        let dir = self.open_task(task)?;
        dir.dir(SECRETS)?.write(name, content, 0o600, owner.or_else(|| given_owner(&dir)))
    }

    /// Writes the file with a task's identity into its secrets. With an owner only that one can read it. Otherwise, or
    /// where the file cannot be given away, it can be read by all who may enter the directory, as with the reference:
    /// the directory keeps other users away.
    pub fn write_identity(&self, task: &str, name: &str, content: &[u8], owner: Option<Owner>) -> io::Result<()> {
        let dir = self.open_task(task)?;
        let (secrets, owner) = (dir.dir(SECRETS)?, owner.or_else(|| given_owner(&dir)));
        if owner.is_some() && secrets.write(name, content, 0o600, owner).is_ok() {
            return Ok(());
        }
        // The reference's 0666, less the usual mask.
        secrets.write(name, content, 0o644, None)
    }

    /// Writes a file that only the agent can read. Any entry in its place is replaced.
    pub fn write_private(&self, task: &str, name: &str, content: &[u8]) -> io::Result<()> {
        self.open_task(task)?.dir(PRIVATE)?.write(name, content, 0o600, None)
    }

    /// Opens a file that only the agent can read.
    pub fn read_private(&self, task: &str, name: &str) -> io::Result<File> {
        self.open_task(task)?.dir(PRIVATE)?.read(name)
    }

    /// Writes a file below a task's `local` directory. Any entry in its place is replaced; a link among its parent
    /// directories is an error.
    pub fn write_local(&self, task: &str, path: &Path, content: &[u8]) -> io::Result<()> {
        let path: PathBuf =
            path.components().filter(|part| !matches!(part, Component::CurDir | Component::RootDir)).collect();
        let name =
            path.file_name().and_then(|name| name.to_str()).ok_or_else(|| io::Error::other("the file has no name"))?;
        let dir = self.open_task(task)?.dir("local")?.make_dirs(path.parent().unwrap_or(Path::new("")), 0o777)?;
        dir.write(name, content, 0o777, None)
    }

    /// Takes over the data of the previous allocation: the shared `data` and each task's `local`. Entries that are not
    /// directories are left.
    pub fn adopt(&self, previous: &AllocDir, tasks: &[&str]) -> io::Result<()> {
        let (from, to) = (previous.open()?, self.open()?);
        take(&from.dir(SHARED)?, &to.dir(SHARED)?, "data")?;
        for task in tasks {
            if from.kind(task)? == Some(FileType::Directory) {
                take(&from.dir(task)?, &to.make_dir(task, 0o777)?, "local")?;
            }
        }
        Ok(())
    }

    /// Removes the allocation's directory and its logs.
    pub fn remove(&self) -> io::Result<()> {
        let (Some(parent), Some(name)) = (self.root.parent(), self.root.file_name().and_then(|name| name.to_str()))
        else {
            return Err(io::Error::other("an allocation's directory has a name"));
        };
        let parent = Dir::open(parent)?;
        parent.remove_all(name)?;
        parent.remove_all(format!("{name}.logs"))
    }
}

/// Gives the secrets of the task with this directory to a user that its image told, or back to the agent. The user is
/// written down: otherwise the next set-up would take the directory of secrets for one that another user made, and
/// remove it. Only files that no other user may read change their owner.
pub(crate) fn give_secrets(task: &Dir, owner: Option<Owner>) -> io::Result<()> {
    let private = task.make_private(PRIVATE, 0o700, None)?;
    let before = given_owner(task);
    // Repeated for the same owner: an earlier pass may have been interrupted, or have missed a file.
    if owner.is_none() && before.is_none() {
        return Ok(());
    }
    let agent = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let secrets = task.make_private(SECRETS, 0o700, before)?;
    if let Some((user, group)) = owner {
        private.write(SECRETS_OWNER, format!("{user}:{group}").as_bytes(), 0o600, None)?;
    }
    let to = owner.unwrap_or(agent);
    for name in secrets.names()? {
        // Workers of the task replace files meanwhile.
        let entry = match secrets.entry(&name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entry => entry?,
        };
        let stat = entry.stat();
        let is_private = stat.st_mode & 0o077 == 0 && [Some(agent), before].contains(&Some((stat.st_uid, stat.st_gid)));
        // A second name could be that of a file outside.
        if is_private && stat.st_nlink == 1 && matches!(entry.kind(), FileType::RegularFile | FileType::Socket) {
            entry.set_owner(to)?;
        }
    }
    secrets.set_owner(to)?;
    if owner.is_none() { private.remove(SECRETS_OWNER) } else { Ok(()) }
}

/// Owner by [`give_secrets`], if there is one.
pub(crate) fn given_owner(task: &Dir) -> Option<Owner> {
    // A directory that a task put in the place of the private one belongs to another user, and is not believed.
    let private = task.own_dir(PRIVATE).ok()?;
    let mut text = String::new();
    private.read(SECRETS_OWNER).ok()?.read_to_string(&mut text).ok()?;
    numbers(&text)
}

/// Gives a directory that every user may write to to `nobody`. An agent without root leaves it as its own.
fn open_to_all(dir: Dir) -> io::Result<Dir> {
    if rustix::process::geteuid().is_root() {
        dir.set_owner(NOBODY)?;
    }
    Ok(dir)
}

fn take(from: &Dir, to: &Dir, name: &str) -> io::Result<()> {
    if from.kind(name)? == Some(FileType::Directory) {
        to.remove_all(name)?;
        from.rename(name, to, name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn built() -> (tempfile::TempDir, AllocDir) {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = AllocDir::new(parent.path(), &AllocId::default());
        dir.build().and_then(|()| dir.build_task("t", None)).expect("builds");
        (parent, dir)
    }

    #[test]
    fn file_written_for_a_task_stays_in_its_local_directory() -> io::Result<()> {
        let (parent, dir) = built();
        let local = dir.task("t").join("local");
        dir.write_local("t", Path::new("a/b/c.txt"), b"deep")?;
        assert_eq!(std::fs::read_to_string(local.join("a/b/c.txt"))?, "deep");
        symlink(parent.path(), local.join("out"))?;
        symlink(parent.path().join("file"), local.join("link"))?;
        for path in ["../x", "out/x", "", "/", "a/../../x"] {
            assert!(dir.write_local("t", Path::new(path), b"x").is_err(), "{path}");
        }
        dir.write_local("t", Path::new("/link"), b"x")?;
        assert!(std::fs::symlink_metadata(local.join("link"))?.is_file());
        assert!(!parent.path().join("x").exists() && !parent.path().join("file").exists());
        Ok(())
    }

    #[test]
    fn secrets_given_to_an_images_user_are_kept_when_the_directories_are_made_again() -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;

        let (_parent, dir) = built();
        let secrets = dir.task("t").join(SECRETS);
        let owner = |path: &Path| std::fs::symlink_metadata(path).map(|meta| (meta.uid(), meta.gid()));
        let agent = owner(&secrets)?;
        // Without root the only user that files can be given to is the agent's own.
        let user = if rustix::process::geteuid().is_root() { (1234, 5678) } else { agent };
        dir.write_secret("t", "before", b"hush", None)?;
        std::fs::write(secrets.join("template"), "x")?;
        std::fs::set_permissions(secrets.join("template"), std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        give_secrets(&dir.open_task("t")?, Some(user))?;
        dir.build_task("t", None)?;
        dir.write_secret("t", "after", b"hush", None)?;
        let owners = ["", "before", "after", "template"].map(|name| owner(&secrets.join(name)).ok());
        assert_eq!(owners, [Some(user), Some(user), Some(user), Some(agent)]);
        assert_eq!(std::fs::metadata(&secrets)?.mode() & 0o777, 0o700);
        give_secrets(&dir.open_task("t")?, None)?;
        dir.build_task("t", None)?;
        let owners = ["", "before", "after"].map(|name| owner(&secrets.join(name)).ok());
        assert_eq!(owners, [Some(agent); 3]);
        Ok(())
    }

    #[test]
    fn identity_is_private_to_the_tasks_user_and_else_guarded_by_its_directory() -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;

        let (_parent, dir) = built();
        let file = dir.task("t").join(SECRETS).join("nomad_token");
        let shape = || std::fs::symlink_metadata(&file).map(|meta| (meta.uid(), meta.mode() & 0o777));
        let agent = rustix::process::geteuid();
        dir.write_identity("t", "nomad_token", b"a.b.c", None)?;
        assert_eq!(shape()?, (agent.as_raw(), 0o644));
        dir.write_identity("t", "nomad_token", b"a.b.c", Some((1234, 5678)))?;
        // Without root the file cannot be given away.
        assert_eq!(shape()?, if agent.is_root() { (1234, 0o600) } else { (agent.as_raw(), 0o644) });
        assert_eq!(std::fs::read(&file)?, b"a.b.c");
        Ok(())
    }

    #[test]
    fn attack_owner_in_a_private_directory_that_a_task_made_is_not_believed() -> io::Result<()> {
        let (_parent, dir) = built();
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let private = dir.task("t").join(PRIVATE);
        std::fs::write(private.join(SECRETS_OWNER), "1234:1234")?;
        std::os::unix::fs::chown(&private, Some(1234), Some(1234))?;
        assert_eq!(given_owner(&dir.open_task("t")?), None);
        Ok(())
    }

    #[test]
    fn task_whose_name_is_a_path_gets_no_directory() {
        let (_parent, dir) = built();
        for name in ["..", ".", "", "a/b", "../x"] {
            assert!(dir.build_task(name, None).is_err(), "{name:?}");
        }
    }

    #[test]
    fn previous_allocs_data_that_is_a_link_is_not_adopted() -> io::Result<()> {
        let (parent, previous) = built();
        let dir = AllocDir::new(parent.path(), &AllocId::from_bytes([1; 16]));
        dir.build()?;
        std::fs::create_dir(parent.path().join("out"))?;
        std::fs::remove_dir(previous.shared().join("data"))?;
        symlink(parent.path().join("out"), previous.shared().join("data"))?;
        std::fs::write(previous.task("t").join("local/kept"), "kept")?;
        dir.adopt(&previous, &["t", "gone"])?;
        assert!(std::fs::symlink_metadata(dir.shared().join("data"))?.is_dir());
        assert_eq!(std::fs::read_to_string(dir.task("t").join("local/kept"))?, "kept");
        dir.remove()?;
        assert!(!dir.root().exists() && !dir.logs().exists() && parent.path().join("out").exists());
        Ok(())
    }
}
