//! The steps by which the first process of an isolated task becomes the task. Each step has a file, which says what
//! attack the step stops:
//!
//! | Step | File | Where |
//! |---|---|---|
//! | network, namespaces | here | a thread of the executor, before the process |
//! | program | [`super::sealed`] | the first process, on the machine |
//! | mounts | [`super::mounts`] | the first process, in its own mount namespace |
//! | devices | [`super::devices`] | the same |
//! | user | [`super::user`] | the same, after its root was changed |
//! | capabilities | [`super::capabilities`] | the same |
//! | seccomp | [`super::seccomp`] | the same, last before it becomes the task |
//!
//! A step that fails ends the process. Its reason goes to the executor through the pipe that is its standard input
//! until the program starts.

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
use super::mounts::{self, Root};
use super::place::{Isolation, Place, Spec};
use super::user::{self, User};
use super::{devices, sealed};
use crate::network;

/// Exit code of a first process that could not become the task.
const INIT_FAILED: u8 = 125;
/// The first process writes this to the executor's pipe before it becomes the task. A pipe that ends without it means
/// that the process was killed earlier. A failure follows it as text.
const STARTING: &str = "+";
/// Directories that are searched for a program whose name has no slash: the first two, then the task's mounts, then
/// the others.
const SEARCH: &[&str] = &["/local", "/", "/usr/local/bin", "/usr/bin", "/bin"];

/// Command of the first process inside the namespaces: this program again. Its standard input is `report`.
pub(super) fn init_command(place: &Place, isolation: &Isolation, report: io::PipeWriter) -> io::Result<Command> {
    let (program, first) =
        isolation.init.split_first().ok_or_else(|| io::Error::other("no program for the first process"))?;
    let mut command = Command::new(program);
    command.args(first).arg("init").arg(place.dir()).env_clear().stdin(report);
    Ok(command)
}

/// Starts a command whose process is the first one in new namespaces, and waits until it has become the task.
pub(super) fn spawn(
    mut command: Command,
    isolation: &Isolation,
    network: Option<PathBuf>,
    mut report: PipeReader,
) -> io::Result<Child> {
    let mut flags = UnshareFlags::NEWNS;
    flags.set(UnshareFlags::NEWPID, isolation.own_pids);
    flags.set(UnshareFlags::NEWIPC, isolation.own_ipc);
    // The thread drops the command, and with it this process's writing end of the pipe.
    let thread = std::thread::spawn(move || {
        if let Some(network) = network {
            network::enter(&network)?;
        }
        #[allow(unsafe_code)]
        // SAFETY: none of these flags unshares the table of file descriptors, which is what the function warns of, and
        // the thread does nothing after this but start the command.
        unsafe {
            rustix::thread::unshare_unsafe(flags)?
        };
        command.spawn()
    });
    let mut child = thread.join().map_err(|_| io::Error::other("the thread that starts the task ended early"))??;
    let mut said = String::new();
    let told = report.read_to_string(&mut said);
    if said == STARTING && told.is_ok() {
        return Ok(child);
    }
    let _ = child.kill();
    child.wait()?;
    told?;
    let failure = said.strip_prefix(STARTING).unwrap_or(&said);
    Err(io::Error::other(if failure.is_empty() {
        "the first process of the task ended before its program was started"
    } else {
        failure
    }))
}

/// Starts a command that is not isolated in a network namespace.
pub(super) fn spawn_in(mut command: Command, network: &Path) -> io::Result<Child> {
    // A thread of its own: the others stay in the machine's network.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            network::enter(network)?;
            command.spawn()
        });
        thread.join().map_err(|_| io::Error::other("the thread that starts the task ended early"))?
    })
}

/// Makes the task's view of the machine, gives up the privileges that the task must not have, and becomes the task.
/// Returns only after a failure, with the exit code.
pub(super) fn become_task(place: &Place) -> u8 {
    // The task's standard input is empty. The task must not hold the pipe: the end of the pipe tells the executor that
    // the program has started.
    let report = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3).map_err(io::Error::from);
    let outcome = report.and_then(|report| {
        nothing_to_read()?;
        let Err(error) = start(place, &report);
        Ok(failed_to_start(&report, &error))
    });
    outcome.unwrap_or_else(|error| failed_to_start(io::stdin(), &error))
}

/// Tells the executor through its pipe why the task's program was not started. Returns the exit code.
pub(super) fn failed_to_start(report: impl AsFd, error: &io::Error) -> u8 {
    let _ = rustix::io::write(report, format!("rpc error: code = Unknown desc = {error}").as_bytes());
    eprintln!("{error}");
    INIT_FAILED
}

fn nothing_to_read() -> io::Result<()> {
    Ok(rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?)
}

fn start(place: &Place, report: impl AsFd) -> io::Result<Infallible> {
    sealed::hide()?;
    let spec = place.read_spec()?;
    let isolation = spec.isolation.as_ref().ok_or_else(|| io::Error::other("nothing to isolate"))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    // If memory runs out, the kernel is to choose among tasks: a task must not inherit the protection of the agent.
    let _ = fs::write("/proc/self/oom_score_adj", "0");
    // The user is looked up before the root changes, because the machine's list of users is outside of the new root.
    let user = user_of(&spec)?;
    let trees = isolation.binds.iter().map(mounts::tree_of).collect::<io::Result<Vec<_>>>()?;
    let root = Root::begin(isolation)?;
    for (bind, tree) in isolation.binds.iter().zip(&trees) {
        root.bind(bind, tree)?;
    }
    drop(trees);
    root.kernel()?;
    devices::make(&root)?;
    root.enter()?;
    let program = find_inside(&spec, isolation)?;
    confine(isolation, &user)?;
    // Changing the user may have changed whether the process is dumpable.
    sealed::hide()?;
    rustix::io::write(report, STARTING.as_bytes())?;
    Err(Command::new(program).args(&spec.args).env_clear().envs(&spec.env).current_dir(&spec.dir).exec())
}

fn user_of(spec: &Spec) -> io::Result<User> {
    user::lookup(&spec.user).map_err(|error| match error.kind() {
        // The text is the one that clients know of this driver.
        io::ErrorKind::NotFound => io::Error::other(format!(
            "unable to start container process: unable to setup user: unable to find user {}: no matching entries in passwd file",
            spec.user
        )),
        _ => error,
    })
}

/// The program's file in the task's root. A name with a slash is a path; others are searched.
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

/// Makes a program executable. A file that was put into the task's directories, by an artifact for example, may lack
/// the permission. Only a file with this one name is changed: a link may lead to a file of another owner.
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
