//! The way of an isolated task's first process, step by step. Each step is a file of its own, which says what attack it stops:
//!
//! | Step | File | Where |
//! |---|---|---|
//! | namespaces | here | a thread of the executor, before the process |
//! | program | [`super::sealed`] | the first process, on the machine |
//! | mounts | [`super::mounts`] | the first process, in its own mount namespace |
//! | devices | [`super::devices`] | the same |
//! | user | [`super::user`] | the same, after its root was changed |
//! | capabilities | [`super::capabilities`] | the same |
//! | seccomp | [`super::seccomp`] | the same, last before it becomes the task |
//!
//! A step that fails ends the process. Its reason goes to the executor through the pipe that is its standard input until the program starts.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::fs::{Mode, OFlags};
use rustix::thread::UnshareFlags;

use super::confine::confine;
use super::mounts::Root;
use super::place::{Isolation, Place, Spec};
use super::user::{self, User};
use super::{devices, sealed};

/// Exit code of a first process that could not become the task.
const INIT_FAILED: u8 = 125;
/// Where programs are looked for whose name has no slash, behind the task's own directories.
const SEARCH: &[&str] = &["/local", "/", "/usr/local/bin", "/usr/bin", "/bin"];

/// The first process inside: this program again. Its standard input is `report`.
pub(super) fn init_command(place: &Place, isolation: &Isolation, report: io::PipeWriter) -> io::Result<Command> {
    let (program, first) = isolation.init.split_first().ok_or_else(|| io::Error::other("no program for the first process"))?;
    let mut command = Command::new(program);
    command.args(first).arg("init").arg(place.dir()).env_clear().stdin(report);
    Ok(command)
}

/// Starts a command whose process is the first one in new namespaces, and waits until it has become the task.
pub(super) fn spawn(mut command: Command, isolation: &Isolation, mut report: PipeReader) -> io::Result<Child> {
    let mut flags = UnshareFlags::NEWNS;
    flags.set(UnshareFlags::NEWPID, isolation.own_pids);
    flags.set(UnshareFlags::NEWIPC, isolation.own_ipc);
    // The command goes with the thread, and with it this process's end of the pipe.
    let thread = std::thread::spawn(move || {
        #[allow(unsafe_code)]
        // SAFETY: none of these flags unshares the table of file descriptors, which is what the function warns of, and the thread
        // does nothing after this but start the command.
        unsafe {
            rustix::thread::unshare_unsafe(flags)?
        };
        command.spawn()
    });
    let mut child = thread.join().map_err(|_| io::Error::other("the thread that starts the task ended early"))??;
    let mut failure = String::new();
    let told = report.read_to_string(&mut failure);
    if failure.is_empty() && told.is_ok() {
        return Ok(child);
    }
    let _ = child.kill();
    child.wait()?;
    told?;
    Err(io::Error::other(failure))
}

/// Makes the task's view of the machine, gives up what the task must not have, and becomes the task. Comes back only when that failed.
pub(super) fn become_task(place: &Place) -> u8 {
    // The task reads nothing, and must not hold the pipe: its end tells the executor that the program has started.
    let report = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3).map_err(io::Error::from);
    let error = match report.and_then(|report| Ok((nothing_to_read()?, report))) {
        Ok(((), report)) => {
            let Err(error) = start(place);
            let text = format!("rpc error: code = Unknown desc = {error}");
            let _ = rustix::io::write(&report, text.as_bytes());
            error
        }
        Err(error) => error,
    };
    eprintln!("{error}");
    INIT_FAILED
}

fn nothing_to_read() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?)
}

fn start(place: &Place) -> io::Result<Infallible> {
    sealed::hide()?;
    let spec = place.read_spec()?;
    let isolation = spec.isolation.as_ref().ok_or_else(|| io::Error::other("nothing to isolate"))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // The kernel's choice of what to end first is between tasks; a protected agent must not pass its protection on.
    let _ = fs::write("/proc/self/oom_score_adj", "0");
    // Before the root is gone: the machine's list of users is outside.
    let user = user_of(&spec)?;
    let root = Root::begin(isolation)?;
    for bind in &isolation.binds {
        root.bind(bind)?;
    }
    root.kernel()?;
    devices::make(&root)?;
    root.enter()?;
    let program = find_inside(&spec, isolation)?;
    confine(isolation, &user)?;
    // Another user: the kernel has made the process dumpable or not as it likes.
    sealed::hide()?;
    Err(Command::new(program).args(&spec.args).env_clear().envs(&spec.env).current_dir(&spec.dir).exec())
}

fn user_of(spec: &Spec) -> io::Result<User> {
    user::lookup(&spec.user).map_err(|error| match error.kind() {
        // In the words that people know of this driver.
        io::ErrorKind::NotFound => io::Error::other(format!(
            "unable to start container process: unable to setup user: unable to find user {}: no matching entries in passwd file",
            spec.user
        )),
        _ => error,
    })
}

/// The program's file in the task's root. A name with a slash is a path; others are looked for.
fn find_inside(spec: &Spec, isolation: &Isolation) -> io::Result<PathBuf> {
    let name = &spec.command;
    let is_path = name.as_os_str().as_encoded_bytes().contains(&b'/');
    let found = if is_path {
        Some(Path::new("/").join(name)).filter(|path| path.is_file())
    } else {
        let mounts = isolation.binds.iter().map(|bind| bind.to.as_path());
        let places = SEARCH[..2].iter().map(Path::new).chain(mounts).chain(SEARCH[2..].iter().map(Path::new));
        places.map(|place| place.join(name)).find(|path| !name.as_os_str().is_empty() && path.is_file())
    };
    let Some(found) = found else {
        let below = if is_path { format!(" {}", isolation.root.display()) } else { String::new() };
        return Err(io::Error::other(format!("file {} not found under path{below}", name.display())));
    };
    let _ = make_executable(&found);
    Ok(found)
}

/// What was put into the task's directories, by an artifact say, may lack the permission. Only a file that is there under this one name is
/// changed: a link may lead to what is somebody else's.
fn make_executable(path: &Path) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    if fs::canonicalize(dir)? != dir {
        return Ok(());
    }
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let stat = rustix::fs::fstat(file.as_fd())?;
    let mode = stat.st_mode & 0o7777;
    if stat.st_nlink == 1 && file.metadata()?.is_file() && mode & 0o111 == 0 {
        file.set_permissions(fs::Permissions::from_mode(mode | 0o555))?;
    }
    Ok(())
}
