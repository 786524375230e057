//! Step "program": the process that goes into a task's namespaces runs from a read-only mount of its own file.
//!
//! Attack that it stops: a task of root reaches the file of the program that started it, through `/proc/<pid>/exe` or
//! as the interpreter `#!/proc/self/exe` of a script, and overwrites it; the host then runs the task's code as root.
//! Through a read-only mount the file cannot be opened for writing, and a process that is not dumpable hides its files
//! from processes with fewer privileges.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::MountAttrFlags;
use rustix::process::DumpableBehavior;

use super::mounts;

/// Starts this program again from a read-only mount of its file, with these arguments and the same environment and
/// streams. Returns only with an error.
pub(super) fn again(args: impl Iterator<Item = OsString>) -> io::Result<Infallible> {
    hide()?;
    let (_mount, path) = read_only(Path::new("/proc/self/exe"))?;
    Err(Command::new(path).args(args).exec())
}

/// Keeps the files and the memory of this process from other processes of its user, until it starts another program.
pub(super) fn hide() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// A read-only mount of a file, and the path that leads through it for as long as the descriptor is open.
fn read_only(file: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let mount = mounts::copy(file, MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
    Ok((mount, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_program_of_the_agent_cannot_be_written_through_the_mount_it_runs_from() {
        if !crate::executor::tests::is_root("only root may mount") {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let program = dir.path().join("program");
        std::fs::write(&program, "original").expect("writes");
        let (mount, path) = read_only(&program).expect("mounts");
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), "original");
        let refused = std::fs::OpenOptions::new().write(true).open(&path).expect_err("must not open for writing");
        assert_eq!(refused.kind(), io::ErrorKind::ReadOnlyFilesystem);
        drop(mount);
        std::fs::OpenOptions::new().write(true).open(&program).expect("the file itself is as before");
    }
}
