//! The process between an agent and a command that a caller runs in a task. It creates the session, enters the task's
//! namespaces, starts the command, and ends when the command and all its remaining processes have ended. It also
//! kills the command when the agent is gone. No task depends on it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, kill_process, kill_process_group, pidfd_open};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::confine::confine;
use super::place::{Place, Spec, Started};
use super::{pid_of, sealed, user};
use crate::{network, procfs};

/// Argument that requests a terminal.
pub const SHARED_TERMINAL: &str = "terminal";
/// Argument that requests pipes.
pub const PIPES: &str = "pipes";
/// Argument that requests pipes, and that the command begins in the task's directory.
pub const IN_TASK_DIR: &str = "pipes-in-task-dir";
/// Number of passes that kill a session's remaining processes: each pass may find processes that were forked during
/// the previous one.
const KILL_ROUNDS: u32 = 50;
/// Search path for programs when the task's environment has no `PATH`.
const SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Runs `session RUN REPORT terminal|pipes|pipes-in-task-dir PROGRAM ARGS..`: a command beside the task whose run's
/// directory is `RUN`. The reason of a failed start is written to `REPORT`.
pub(super) fn main(place: &Place, mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(report), Some(kind)) = (args.next().map(PathBuf::from), args.next()) else { return ExitCode::from(2) };
    // Fails only when this process already leads a session of its own.
    let _ = rustix::process::setsid();
    let (agent, own) = (getppid(), getpid());
    if let Some(agent) = agent {
        std::thread::spawn(move || end_with(agent, own));
    }
    match start(place, &kind, &args.collect::<Vec<_>>()) {
        Ok(child) => finish(child, own),
        Err(error) => {
            // If the write fails, the agent sees an end without a reason.
            let _ = fs::write(&report, error);
            ExitCode::FAILURE
        }
    }
}

/// Whether the task of this run is isolated, so that a command beside it is as well.
pub(super) fn is_isolated(place: &Place) -> bool {
    place.read_spec().is_ok_and(|spec| spec.isolation.is_some())
}

fn start(place: &Place, kind: &OsStr, argv: &[OsString]) -> Result<Child, String> {
    let (tty, in_task_dir) = (kind == SHARED_TERMINAL, kind == IN_TASK_DIR);
    let lost = |error: io::Error| format!("failed to start command: {}", words(&error));
    let spec = place.read_spec().map_err(lost)?;
    let started = place.read_started().map_err(lost)?.ok_or("failed to start command: the task is gone")?;
    let (program, rest) = argv.split_first().ok_or("command is not present")?;
    if let Some(cgroups) = &started.cgroups {
        // In the task's cgroups the command is sure to end with the task. Where the kernel refuses that, the agent
        // kills the command.
        let _ = cgroups.join(std::process::id());
    }
    let user = if spec.user.is_empty() { None } else { Some(user::lookup(&spec.user).map_err(lost)?) };
    if tty {
        let _ = rustix::process::ioctl_tiocsctty(io::stdin());
        if let Some(user) = &user {
            let (uid, gid) = (rustix::fs::Uid::from_raw(user.uid), rustix::fs::Gid::from_raw(user.gid));
            let _ = rustix::fs::fchown(io::stdin(), Some(uid), Some(gid));
        }
    }
    let (program, rest) = (program.clone(), rest.to_vec());
    let launch = move || {
        if let Some(network) = &spec.network {
            network::enter(network).map_err(lost)?;
        }
        if spec.isolation.is_some() {
            sealed::hide().and_then(|()| enter(&started)).map_err(lost)?;
        }
        let program = find(&program, &spec)?;
        let mut command = Command::new(&program);
        let dir = if in_task_dir { spec.dir.as_path() } else { Path::new("/") };
        command.args(rest).env_clear().envs(&spec.env).current_dir(dir).process_group(0);
        match (&spec.isolation, &user) {
            (Some(isolation), Some(user)) => confine(isolation, user).map_err(lost)?,
            (None, Some(user)) => user.assume_first(&mut command),
            (Some(_), None) => return Err("failed to start command: an isolated task has a user".to_owned()),
            (None, None) => {}
        }
        command
            .spawn()
            .map_err(|error| format!("failed to start command: fork/exec {}: {}", program.display(), words(&error)))
    };
    // A thread of its own, because a process with several threads may enter a mount namespace with one of them only.
    let child = std::thread::spawn(launch)
        .join()
        .map_err(|_| "the thread that starts the command ended early".to_owned())??;
    if tty {
        // The command leads a process group of its own, so that signals from the terminal's keys reach the command
        // and not this process. If the command used the terminal before it owned it, the command was stopped; SIGCONT
        // resumes it.
        let group = pid_of(&child);
        let _ = rustix::termios::tcsetpgrp(io::stdin(), group);
        let _ = kill_process_group(group, Signal::CONT);
    }
    close_streams();
    Ok(child)
}

/// Closes this process's copies of the command's streams, so that they end when the command closes them.
fn close_streams() {
    let Ok(nowhere) = fs::OpenOptions::new().read(true).write(true).open("/dev/null") else { return };
    let _ = rustix::stdio::dup2_stdin(&nowhere);
    let _ = rustix::stdio::dup2_stdout(&nowhere);
    let _ = rustix::stdio::dup2_stderr(&nowhere);
}

/// Moves this thread, and the processes it starts, into an isolated task's namespaces.
fn enter(started: &Started) -> io::Result<()> {
    let space = |name: &str| fs::File::open(format!("/proc/{}/ns/{name}", started.task));
    let (mounts, ipc, pids) = (space("mnt")?, space("ipc")?, space("pid")?);
    if !procfs::is_alive(started.task, started.task_start) {
        return Err(io::Error::other("the task has ended"));
    }
    #[allow(unsafe_code)]
    // SAFETY: the function warns of unsharing the table of file descriptors; that table stays shared.
    unsafe {
        rustix::thread::unshare_unsafe(UnshareFlags::FS)?
    };
    move_into_link_name_space(pids.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    move_into_link_name_space(ipc.as_fd(), Some(LinkNameSpaceType::InterProcessCommunication))?;
    move_into_link_name_space(mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
    Ok(())
}

/// The program's file. A name with a slash is a path; others are searched in the `PATH` of the task's environment.
fn find(program: &OsString, spec: &Spec) -> Result<PathBuf, String> {
    let name = program.to_string_lossy();
    if name.contains('/') {
        return Ok(PathBuf::from(program));
    }
    let search = spec.env.get("PATH").map_or(SEARCH_PATH, String::as_str);
    let runs =
        |path: &PathBuf| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let found = search.split(':').filter(|dir| dir.starts_with('/')).map(|dir| Path::new(dir).join(program)).find(runs);
    found.ok_or_else(|| format!("failed to start command: exec: {name:?}: executable file not found in $PATH"))
}

/// Waits for the command, and kills its remaining processes.
fn finish(mut child: Child, own: Pid) -> ExitCode {
    let status = child.wait();
    kill_session(own, Some(own));
    match status {
        Ok(status) => {
            let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
            ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// Waits for the end of the agent, then kills everything. An agent that stops in order has done so before.
fn end_with(agent: Pid, own: Pid) {
    let Ok(agent_fd) = pidfd_open(agent, PidfdFlags::empty()) else { return };
    // Checked after opening: if the agent is still the parent, the descriptor refers to it.
    while getppid() == Some(agent) {
        match poll(&mut [PollFd::new(&agent_fd, PollFlags::IN)], None) {
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
    kill_session(own, Some(own));
    std::process::exit(1);
}

/// Kills every process of a session except `spared`. A process that left the session is not found; with cgroups it
/// ends with the task.
pub fn kill_session(leader: Pid, spared: Option<Pid>) {
    for _ in 0..KILL_ROUNDS {
        let mut found = false;
        for pid in procfs::in_session(leader.as_raw_nonzero().get()).into_keys().filter_map(Pid::from_raw) {
            if Some(pid) != spared && pid != leader {
                found |= kill_process(pid, Signal::KILL).is_ok();
            }
        }
        if !found {
            return;
        }
        std::thread::yield_now();
    }
}

/// The system's error in the form that clients know: in lower case, and without its number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}
