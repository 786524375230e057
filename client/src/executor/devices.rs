//! Step "devices": `/dev` of an isolated task: the few devices that every program expects, and nothing of the machine's
//! hardware.
//!
//! Attack that it stops: a task that opens a disk or the memory of the host as a file, or makes the node for it. `/dev`
//! is a small file system of the task's own on which device nodes do not work. Each device is the machine's own,
//! attached over an empty file through a mount of its own that is read-only: it can be read and written, but its mode
//! and owner, which are the machine's, cannot be changed. The device cgroup, where the machine has it, lets no other
//! device be opened or made ([`ALLOWED`]); so do the seccomp filter and the mounts' `nodev` on their own.

use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountAttrFlags;

use super::mounts::{self, DATA, Root};

/// Names of the devices below `/dev`.
const SHOWN: &[&str] = &["full", "null", "random", "tty", "urandom", "zero"];
/// Symbolic links below `/dev`, with their targets.
const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("ptmx", "pts/ptmx"),
    ("stderr", "/proc/self/fd/2"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
];

/// Devices that the device cgroup allows, in the kernel's notation: the devices shown, and terminals. Making nodes
/// (`m`) is allowed for none.
pub const ALLOWED: &[&str] =
    &["c 1:3 rw", "c 1:5 rw", "c 1:7 rw", "c 1:8 rw", "c 1:9 rw", "c 5:0 rw", "c 5:2 rw", "c 136:* rw"];

/// Makes `/dev`.
pub(super) fn make(root: &Root) -> io::Result<()> {
    let dev = root.fresh("/dev", "tmpfs", &[("mode", "755"), ("size", "64k")], DATA)?;
    for name in SHOWN {
        let from = Path::new("/dev").join(name);
        if !from.exists() {
            continue;
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let spot = rustix::fs::openat(&dev, *name, flags, Mode::from_raw_mode(0o666))?;
        let device = mounts::copy(&from, MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID)?;
        mounts::attach(&device, &spot)?;
    }
    for (name, to) in LINKS {
        rustix::fs::symlinkat(*to, &dev, *name)?;
    }
    let terminals = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    root.fresh("/dev/pts", "devpts", &[("ptmxmode", "0666"), ("mode", "0620"), ("gid", "5")], terminals)?;
    root.fresh("/dev/shm", "tmpfs", &[("mode", "1777"), ("size", "64m")], DATA)?;
    // A kernel may be built without message queues.
    if std::fs::read_to_string("/proc/filesystems")?.lines().any(|line| line.ends_with("\tmqueue")) {
        root.fresh("/dev/mqueue", "mqueue", &[], DATA)?;
    }
    Ok(())
}
