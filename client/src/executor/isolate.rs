//! Namespaces and a root of its own for a task: what the kernel does for the `exec` driver.
//!
//! The executor makes the namespaces in a thread that then starts the first process inside ([`become_task`]), which
//! makes the mounts, changes its root and turns into the task.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;

use super::place::{Isolation, Place, Spec};
use super::user;

/// Exit code of a first process that could not become the task; its reason is in the task's standard error.
pub const INIT_FAILED: u8 = 125;

/// The first process inside: this program again.
pub(super) fn init_command(place: &Place, isolation: &Isolation) -> io::Result<Command> {
    let (program, first) = isolation.init.split_first().ok_or_else(|| io::Error::other("no program for the first process"))?;
    let mut command = Command::new(program);
    command.args(first).arg("init").arg(place.dir()).env_clear();
    Ok(command)
}

/// Starts a command whose process is the first one in new namespaces.
pub(super) fn spawn(mut command: Command, isolation: &Isolation) -> io::Result<Child> {
    let mut flags = UnshareFlags::NEWNS;
    flags.set(UnshareFlags::NEWPID, isolation.own_pids);
    flags.set(UnshareFlags::NEWIPC, isolation.own_ipc);
    let thread = std::thread::spawn(move || {
        #[allow(unsafe_code)]
        // SAFETY: none of these flags unshares the table of file descriptors, which is what the function warns of, and the thread
        // does nothing after this but start the command.
        unsafe {
            rustix::thread::unshare_unsafe(flags)?
        };
        command.spawn()
    });
    thread.join().map_err(|_| io::Error::other("the thread that starts the task ended early"))?
}

/// Makes the mounts, enters the root and becomes the task. Comes back only with an error.
pub(super) fn become_task(place: &Place) -> io::Error {
    let spec = match place.read_spec() {
        Ok(spec) => spec,
        Err(error) => return error,
    };
    let Some(isolation) = &spec.isolation else { return io::Error::other("nothing to isolate") };
    // Before the root is gone: the machine's list of users is outside.
    let user = match user::lookup(&spec.user) {
        Ok(user) => user,
        Err(error) => return error,
    };
    if let Err(error) = enter(isolation) {
        return error;
    }
    let program = find_inside(&spec);
    let mut command = Command::new(program);
    command.args(&spec.args).env_clear().envs(&spec.env).current_dir(&spec.dir).uid(user.uid).gid(user.gid);
    command.exec()
}

fn enter(isolation: &Isolation) -> io::Result<()> {
    let root = &isolation.root;
    let failed = |what: &'static str| move |error: rustix::io::Errno| step(what, error.into());
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(failed("making mounts private"))?;
    rustix::mount::mount_bind(root, root).map_err(failed("binding the root"))?;
    for bind in &isolation.binds {
        let to = inside(root, &bind.to);
        if bind.from.is_dir() {
            fs::create_dir_all(&to)?;
        } else {
            fs::create_dir_all(to.parent().unwrap_or(root))?;
            fs::OpenOptions::new().create(true).truncate(false).write(true).open(&to)?;
        }
        rustix::mount::mount_bind_recursive(&bind.from, &to).map_err(failed("binding a directory"))?;
        if bind.read_only {
            let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
            rustix::mount::mount_remount(&to, flags, c"").map_err(failed("making a directory read-only"))?;
        }
    }
    let proc = inside(root, Path::new("/proc"));
    fs::create_dir_all(&proc)?;
    let guarded = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", &proc, "proc", guarded, None).map_err(failed("mounting /proc"))?;
    let shm = inside(root, Path::new("/dev/shm"));
    fs::create_dir_all(&shm)?;
    rustix::mount::mount("tmpfs", &shm, "tmpfs", guarded, c"size=64m,mode=1777").map_err(failed("mounting /dev/shm"))?;
    std::env::set_current_dir(root)?;
    rustix::process::pivot_root(".", ".").map_err(failed("changing the root"))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(failed("leaving the old root"))?;
    std::env::set_current_dir("/")
}

fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn step(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// A name with a slash is a path; others are looked for where a machine keeps its programs.
fn find_inside(spec: &Spec) -> PathBuf {
    if spec.command.components().count() > 1 {
        return spec.command.clone();
    }
    let places = ["/local", "/", "/usr/local/bin", "/usr/bin", "/bin"];
    places.iter().map(|place| Path::new(place).join(&spec.command)).find(|path| path.is_file()).unwrap_or_else(|| spec.command.clone())
}
