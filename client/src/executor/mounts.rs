//! Step "mounts": the files of the machine that an isolated task sees, and those that it may change.
//!
//! Attacks that it stops: a mount destination that leads out of the task's root, by `..` or by a link that an earlier
//! run left there (every destination is walked name by name beneath an open directory, and links are refused); a write
//! through a mount below one that is read-only (attributes are set on whole trees before they are attached); device
//! nodes and setuid programs on a volume (no mount but `/dev`'s own files has devices, and none honours setuid);
//! settings of the kernel under `/proc` and `/sys`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
};

use super::place::{Bind, Isolation, Propagation};

/// Paths of `/proc` and `/sys` that are hidden: kernel memory, keys, timers and hardware that say something about the
/// host.
const MASKED: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];
/// Paths of `/proc` that even root may only read: settings of the whole machine.
const READ_ONLY: &[&str] = &["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Attributes of a mount without setuid programs and without device nodes.
pub(super) const PLAIN: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);
/// As [`PLAIN`], and without programs.
pub(super) const DATA: MountAttrFlags = PLAIN.union(MountAttrFlags::MOUNT_ATTR_NOEXEC);
/// Attribute of a read-only mount.
const FIXED: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY;

/// The root of a task while it is put together: an open directory, attached as a mount of its own.
pub(super) struct Root(OwnedFd);

impl Root {
    /// Cuts this process's mounts off from the machine's, and attaches the task's directory over itself.
    pub fn begin(isolation: &Isolation) -> io::Result<Self> {
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change("/", private).map_err(failed("making mounts private"))?;
        let root = copy(&isolation.root, PLAIN)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let at =
            rustix::fs::open(&isolation.root, flags, Mode::empty()).map_err(failed("opening the task's directory"))?;
        attach(&root, &at).map_err(failed("attaching the root"))?;
        Ok(Self(root))
    }

    /// Shows the task a file or directory of the machine, of which `tree` is the copy.
    pub fn bind(&self, bind: &Bind, tree: &OwnedFd) -> io::Result<()> {
        let told = not_mounted(bind);
        let spot = if bind.from.is_dir() { self.directory(&bind.to) } else { self.file(&bind.to) };
        attach(tree, &spot.map_err(&told)?).map_err(|error| told(error.into()))
    }

    /// Mounts `/proc` and `/sys`, hides parts of them and makes other parts read-only.
    pub fn kernel(&self) -> io::Result<()> {
        self.fresh("/proc", "proc", &[], DATA)?;
        self.fresh("/sys", "sysfs", &[], DATA | FIXED)?;
        for path in READ_ONLY {
            if let Some(spot) = self.existing(path)? {
                attach(&copy_at(&spot, Path::new(""), DATA | FIXED)?, &spot).map_err(failed(path))?;
            }
        }
        for path in MASKED {
            let Some(spot) = self.existing(path)? else { continue };
            let is_dir = FileType::from_raw_mode(rustix::fs::fstat(&spot)?.st_mode) == FileType::Directory;
            let mask = if is_dir {
                new("tmpfs", &[("size", "4k")], DATA | FIXED)?
            } else {
                copy(Path::new("/dev/null"), FIXED)?
            };
            attach(&mask, &spot).map_err(failed(path))?;
        }
        Ok(())
    }

    /// Mounts a new file system at a directory, and opens its root.
    pub fn fresh(
        &self,
        at: &str,
        kind: &'static str,
        options: &[(&str, &str)],
        attributes: MountAttrFlags,
    ) -> io::Result<OwnedFd> {
        let mount = new(kind, options, attributes)?;
        attach(&mount, &self.directory(Path::new(at))?).map_err(failed(kind))?;
        Ok(mount)
    }

    /// Makes this the root of the process, and lets go of the machine's.
    pub fn enter(self) -> io::Result<()> {
        rustix::process::fchdir(&self.0).map_err(failed("entering the root"))?;
        rustix::process::pivot_root(".", ".").map_err(failed("changing the root"))?;
        rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(failed("leaving the old root"))?;
        std::env::set_current_dir("/")
    }

    /// Opens a directory beneath the root, and makes it and those above it where they are missing. No name of the path
    /// may be a link.
    pub fn directory(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut dir = self.0.try_clone()?;
        for name in names(path)? {
            match rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o755)) {
                // A directory that cannot be made may exist.
                Ok(()) | Err(Errno::EXIST | Errno::ROFS) => {}
                Err(error) => return Err(error.into()),
            }
            dir = walk(&dir, name)?;
        }
        Ok(dir)
    }

    /// Opens a file beneath the root in the same way. A missing file is made, and is empty.
    fn file(&self, path: &Path) -> io::Result<OwnedFd> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(not_beneath(path)) };
        let dir = self.directory(parent)?;
        let made = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&dir, name, made, Mode::from_raw_mode(0o644)) {
            Ok(_) | Err(Errno::EXIST | Errno::ROFS) => {}
            Err(error) => return Err(error.into()),
        }
        let there = rustix::fs::openat(&dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        match FileType::from_raw_mode(rustix::fs::fstat(&there)?.st_mode) {
            FileType::Symlink => Err(Errno::LOOP.into()),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Ok(there),
        }
    }

    /// Opens an entry beneath the root; `None` when it does not exist.
    fn existing(&self, path: &str) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.0, path.trim_start_matches('/'), flags, Mode::empty()) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Copies a file or directory of the machine with all mounts below it. To be called before [`Root::begin`]: a copy can
/// only share mounts with the machine while this process's mounts do.
pub(super) fn tree_of(bind: &Bind) -> io::Result<OwnedFd> {
    let propagation = match bind.propagation {
        Propagation::Private => libc::MS_PRIVATE,
        Propagation::HostToTask => libc::MS_SLAVE,
        Propagation::Bidirectional => libc::MS_SHARED,
    };
    let attributes = if bind.read_only { PLAIN | FIXED } else { PLAIN };
    let made = clone(CWD, &bind.from).and_then(|tree| set_attributes(&tree, attributes, propagation).map(|()| tree));
    made.map_err(not_mounted(bind))
}

fn not_mounted(bind: &Bind) -> impl Fn(io::Error) -> io::Error {
    let what = format!("mounting {} at {}", bind.from.display(), bind.to.display());
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Copies a tree of mounts, and sets these attributes on each mount of the copy. The copy is not attached anywhere.
pub(super) fn copy(from: &Path, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    copy_at(CWD, from, attributes)
}

/// As [`copy`], for a path below an open directory; an empty path means the open file itself.
fn copy_at(below: impl AsFd, from: &Path, attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let tree = clone(below, from)?;
    set_attributes(&tree, attributes, 0)?;
    Ok(tree)
}

fn clone(below: impl AsFd, from: &Path) -> io::Result<OwnedFd> {
    let copied = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let all = OpenTreeFlags::AT_RECURSIVE | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(rustix::mount::open_tree(below, from, copied | all)?)
}

/// Attaches a mount over a file or directory that is open.
pub(super) fn attach(mount: impl AsFd, over: impl AsFd) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, "", over, "", flags)
}

/// Makes a new file system, which is not attached anywhere.
fn new(kind: &'static str, options: &[(&str, &str)], attributes: MountAttrFlags) -> io::Result<OwnedFd> {
    let told = failed(kind);
    let made = (|| {
        let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
        for (key, value) in options {
            rustix::mount::fsconfig_set_string(&context, *key, *value)?;
        }
        rustix::mount::fsconfig_create(&context)?;
        rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    })();
    made.map_err(told)
}

/// Sets attributes on a mount and on all below it, and their propagation unless it is 0.
fn set_attributes(tree: &OwnedFd, attributes: MountAttrFlags, propagation: u64) -> io::Result<()> {
    let attr_set = attributes.bits().into();
    let wanted = libc::mount_attr { attr_set, attr_clr: 0, propagation, userns_fd: 0 };
    #[allow(unsafe_code)]
    // SAFETY: the kernel reads an empty C string and as many bytes of the structure as it is told, both alive during
    // the call.
    let set = unsafe {
        let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const wanted,
            size_of_val(&wanted),
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn walk(dir: &OwnedFd, name: &std::ffi::OsStr) -> io::Result<OwnedFd> {
    // A link is not a directory.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// Names of a path below a root. `..` is an error.
fn names(path: &Path) -> io::Result<Vec<&std::ffi::OsStr>> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(not_beneath(path)),
        }
    }
    Ok(names)
}

fn not_beneath(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("mount destination {:?} escapes the task's root", path.display().to_string()),
    )
}

/// Names the step of an error of the system.
pub(super) fn failed(what: &str) -> impl Fn(Errno) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {}", io::Error::from(error)))
}
