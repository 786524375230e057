//! Network namespaces with a name: files below `/var/run/netns`, on which the namespaces are mounted, so that they live
//! as long as the mounts.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::netlink;

/// Directory of named namespaces, which `ip netns` uses as well.
const DIR: &str = "/var/run/netns";
/// Type of the file system of namespaces (`NSFS_MAGIC`).
const NAMESPACES: u64 = 0x6e73_6673;

/// Path of the namespace of an allocation.
pub(crate) fn path(alloc: &songline_model::AllocId) -> PathBuf {
    Path::new(DIR).join(alloc.to_string())
}

/// Creates a namespace with a loopback interface that is up. Blocks. A namespace that is there is an error.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(DIR)))?;
    OpenOptions::new().create_new(true).write(true).mode(0o444).open(path)?;
    let at = path.to_owned();
    // A thread of its own, which ends in the new namespace: other threads of the agent stay in the host's.
    let made = std::thread::spawn(move || {
        #[allow(unsafe_code)]
        // SAFETY: the flag does not unshare the table of file descriptors, which is what the function warns of.
        unsafe {
            rustix::thread::unshare_unsafe(UnshareFlags::NEWNET)?
        };
        netlink::raise_loopback()?;
        Ok(mount_bind("/proc/thread-self/ns/net", &at)?)
    })
    .join()
    .unwrap_or_else(|_| Err(io::Error::other("the thread that makes the namespace ended early")));
    if made.is_err() {
        // The error of the creation says more.
        let _ = remove(path);
    }
    made
}

/// Removes a namespace's name. The namespace ends with its last process. A name that is gone is no error. Blocks.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether a namespace is mounted at the path. After a reboot only an empty file may be left.
pub(crate) fn exists(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|stat| u64::try_from(stat.f_type).is_ok_and(|kind| kind == NAMESPACES))
}

/// Moves this thread, and the processes that it starts, into the network namespace at the path.
pub(crate) fn enter(path: &Path) -> io::Result<()> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("entering the network namespace {}: {error}", path.display()))
    };
    let space = File::open(path).map_err(named)?;
    move_into_link_name_space(space.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|error| named(error.into()))
}
