//! The executor: a small process for each task, between agent and task. It outlives the agent.
//!
//! It starts the task in a process group of its own, pumps and rotates its logs, obeys orders that come through a
//! pipe in its directory, and writes the exit code to a file there. It holds a lock (its standard input) for its
//! whole life: the agent takes the lock before it starts the executor and passes it on, so that at no moment a task
//! could run unknown to a later agent. It knows nothing of allocations, restarts or servers.

pub mod capabilities;
mod confine;
pub(crate) mod devices;
mod isolate;
mod mounts;
pub mod place;
mod sealed;
mod seccomp;
pub(crate) mod session;
pub(crate) mod user;

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};

use crate::cgroup::Cgroups;
use crate::procfs;
use crate::rotate::RotatingFile;
use crate::signal;
use place::{Exit, Order, Place, Spec, Started};

/// Longest wait for the pipes of an ended task that a process outside of the task's group keeps open.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Runs the hidden subcommand `executor`: `run DIR` supervises one task, `artifact DIR` fetches an artifact into a
/// staging directory, `init DIR` is the first process inside a task's namespaces, and `session DIR ..` runs a command
/// beside the task. For isolated tasks the last two start themselves again as `sealed-init` and `sealed-session`.
pub fn executor_main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    keep_streams_only();
    reset_signals();
    let [verb, dir, rest @ ..] = args.as_slice() else {
        eprintln!("usage: executor run|init|session|artifact DIR");
        return ExitCode::from(2);
    };
    let place = Place::new(dir.into());
    match verb.to_str() {
        Some("run") => supervise(&place),
        Some("artifact") => crate::artifact::child::main(place.dir()),
        Some("init") => ExitCode::from(isolate::failed_to_start(io::stdin(), &start_again("sealed-init", args.len()))),
        Some("sealed-init") => ExitCode::from(isolate::become_task(&place)),
        Some("session") if session::is_isolated(&place) => {
            eprintln!("{}", start_again("sealed-session", args.len()));
            ExitCode::FAILURE
        }
        Some("session" | "sealed-session") => session::main(&place, rest.iter().cloned()),
        _ => ExitCode::from(2),
    }
}

/// Keeps inherited descriptors, except the standard streams, from the programs that this process starts. The program
/// that started the agent may have left some open without close-on-exec.
fn keep_streams_only() {
    #[allow(unsafe_code)]
    // SAFETY: no descriptor is closed or changes owner; each is only marked to end when another program starts.
    let marked = unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if marked != 0 {
        // Kernels before 5.11 do not support this; on them no task is isolated either.
        eprintln!("marking open files: {}", io::Error::last_os_error());
    }
}

/// Gives every signal its default disposition, which programs that this process starts inherit. A shell that starts the
/// agent in the background, or `nohup`, ignores some signals, and tasks would ignore them as well.
fn reset_signals() {
    // The runtime library ignores SIGPIPE in this process and resets it in those that it starts.
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| *signal != libc::SIGPIPE) {
        #[allow(unsafe_code)]
        // SAFETY: no handler is installed, and no other thread runs yet. The signals that cannot be set are refused.
        unsafe {
            libc::signal(signal, libc::SIG_DFL)
        };
    }
}

/// Starts this program again from a read-only mount of its file, with this verb. The verb replaces the first of the
/// last `count` arguments. Returns only after a failure.
fn start_again(verb: &str, count: usize) -> io::Error {
    let all: Vec<OsString> = std::env::args_os().collect();
    let at = all.len().saturating_sub(count);
    let args = all.into_iter().enumerate().skip(1).map(|(place, arg)| if place == at { verb.into() } else { arg });
    let Err(error) = sealed::again(args);
    io::Error::new(error.kind(), format!("starting from a read-only mount: {error}"))
}

fn supervise(place: &Place) -> ExitCode {
    // The agent may be started from a terminal, whose signals must not reach tasks. Fails only when this process
    // already leads a session.
    let _ = rustix::process::setsid();
    let started = start(place);
    let answer = match &started {
        Ok(running) => running.started.clone(),
        Err(error) => Started { error: Some(error.to_string()), ..Started::default() },
    };
    if place.write_started(&answer).is_err() {
        // A task that no later agent could find must not run.
        if let Ok(running) = &started {
            running.kill_all();
        }
        return ExitCode::FAILURE;
    }
    // The agent may be gone already; then a later one reads the file.
    let _ = writeln!(io::stdout(), "{}", serde_json::to_string(&answer).unwrap_or_default());
    match started {
        Ok(running) => running.finish(place),
        Err(_) => ExitCode::FAILURE,
    }
}

/// A running task.
struct Running {
    child: Child,
    started: Started,
    shared: Arc<Shared>,
    cgroups: Option<Cgroups>,
}

/// State shared by the threads.
#[derive(Default)]
struct Shared {
    state: Mutex<Ended>,
    news: Condvar,
}

#[derive(Default)]
struct Ended {
    task: bool,
    pumps: usize,
}

fn start(place: &Place) -> io::Result<Running> {
    let spec = place.read_spec()?;
    let Some(cgroups) = &spec.cgroups else { return start_in(place, &spec) };
    let made = cgroups
        .make()
        .map_err(|error| io::Error::new(error.kind(), format!("failed to create cgroup for task: {error}")));
    let started = match (made, spec.isolation.is_some()) {
        // Without isolation the cgroups only serve to find strays at the end; if the kernel refuses them the task
        // still runs.
        (Ok(()), _) | (Err(_), false) => start_in(place, &spec),
        (Err(error), true) => Err(error),
    };
    if started.is_err() {
        cgroups.at.end();
    }
    started
}

fn start_in(place: &Place, spec: &Spec) -> io::Result<Running> {
    let orders = place.open_orders()?;
    let (reader, writer) = io::pipe()?;
    let mut command = match &spec.isolation {
        Some(isolation) => isolate::init_command(place, isolation, writer)?,
        None => plain_command(spec),
    };
    command.process_group(0);
    if spec.logs.is_some() {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    } else {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let logs = match &spec.logs {
        Some(logs) => Some((logs.open(&logs.stdout)?, logs.open(&logs.stderr)?)),
        None => None,
    };
    let cgroups = spec.cgroups.as_ref().map(|cgroups| cgroups.at.clone());
    if let Some(cgroups) = &cgroups {
        cgroups.enter_first(&mut command, spec.isolation.is_some())?;
    }
    if spec.isolation.is_none() && !spec.user.is_empty() {
        // The user changes after the cgroups are joined: another user may not be allowed to join them.
        user::lookup(&spec.user)?.assume_first(&mut command);
    }
    let network = spec.network.clone();
    let mut child = match (&spec.isolation, network) {
        (Some(isolation), network) => isolate::spawn(command, isolation, network, reader)?,
        (None, Some(network)) => isolate::spawn_in(command, &network)?,
        (None, None) => command.spawn()?,
    };
    let pid = pid_of(&child);
    let shared = Arc::new(Shared::default());
    if let Some((stdout, stderr)) = logs {
        pump(child.stdout.take(), stdout, &shared);
        pump(child.stderr.take(), stderr, &shared);
    }
    obey(orders, pid, &shared, cgroups.clone());
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let ticks = |pid| procfs::process(pid).map_or(0, |stat| stat.start_ticks);
    let started = Started {
        executor: own,
        executor_start: ticks(own),
        task: pid.as_raw_nonzero().get(),
        task_start: ticks(pid.as_raw_nonzero().get()),
        cgroups: cgroups.clone(),
        counted: spec.isolation.is_some(),
        error: None,
    };
    Ok(Running { child, started, shared, cgroups })
}

fn plain_command(spec: &Spec) -> Command {
    let mut command = Command::new(&spec.command);
    command.args(&spec.args).env_clear().envs(&spec.env).current_dir(&spec.dir).stdin(Stdio::null());
    command
}

fn pid_of(child: &Child) -> Pid {
    let raw = i32::try_from(child.id()).expect("the kernel's process ids fit 31 bits");
    Pid::from_raw(raw).expect("a child's process id is not zero")
}

/// Copies the task's output into its log, until no process holds the pipe open for writing.
fn pump(from: Option<impl Read + Send + 'static>, mut to: RotatingFile, shared: &Arc<Shared>) {
    let Some(mut from) = from else { return };
    shared.state.lock().pumps += 1;
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                // A full disk must not stop the task: output that cannot be written is lost.
                Ok(n) => drop(to.write(&buffer[..n])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        shared.state.lock().pumps -= 1;
        shared.news.notify_all();
    });
}

/// Carries out the agent's orders for as long as this process lives.
fn obey(orders: File, task: Pid, shared: &Arc<Shared>, cgroups: Option<Cgroups>) {
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        for line in BufReader::new(orders).lines() {
            let Ok(line) = line else { return };
            match Order::parse(&line) {
                Some(Order::Signal(number)) => send(task, number, &shared),
                Some(Order::Stop { signal, timeout }) => {
                    send(task, signal, &shared);
                    let (shared, cgroups) = (Arc::clone(&shared), cgroups.clone());
                    std::thread::spawn(move || {
                        wait_for(&shared, timeout, |ended| ended.task);
                        let ended = shared.state.lock();
                        if !ended.task {
                            kill_everything(task, cgroups.as_ref());
                        }
                    });
                }
                None => {}
            }
        }
    });
}

fn send(task: Pid, number: i32, shared: &Shared) {
    // Under the lock the task is either unreaped, so its id is its own, or known to have ended.
    let ended = shared.state.lock();
    if let (false, Some(signal)) = (ended.task, signal::by_number(number)) {
        let _ = kill_process(task, signal);
    }
}

fn kill_everything(task: Pid, cgroups: Option<&Cgroups>) {
    let _ = kill_process_group(task, Signal::KILL);
    if let Some(cgroups) = cgroups {
        cgroups.kill();
    }
}

impl Running {
    fn kill_all(&self) {
        kill_everything(pid_of(&self.child), self.cgroups.as_ref());
    }

    /// Waits for the task's end, kills strays, and writes the result once the logs are complete.
    fn finish(mut self, place: &Place) -> ExitCode {
        let task = pid_of(&self.child);
        // The task is not reaped yet: the group's id stays taken until everything in the group is gone.
        while let Err(rustix::io::Errno::INTR) =
            waitid(WaitId::Pid(task), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        self.kill_all();
        let status = {
            let mut ended = self.shared.state.lock();
            ended.task = true;
            self.child.wait()
        };
        self.shared.news.notify_all();
        wait_for(&self.shared, DRAIN_MAX, |ended| ended.pumps == 0);
        let oom_kills = self.cgroups.as_ref().map_or(0, Cgroups::oom_kills);
        if let Some(cgroups) = &self.cgroups {
            cgroups.remove();
        }
        let exit = match status {
            Ok(status) => {
                let signal = status.signal().unwrap_or(0);
                // The OOM killer may have killed only a part of the task. A task that ended well was not ended by
                // that.
                let oom_killed = oom_kills > 0 && !status.success();
                Exit { code: status.code().unwrap_or(128 + signal), signal, oom_killed, error: None }
            }
            Err(error) => {
                Exit { error: Some(format!("executor: error waiting on process: {error}")), ..Exit::default() }
            }
        };
        match place.write_exit(&exit) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        }
    }
}

/// Waits until `done`, for at most `most`.
fn wait_for(shared: &Shared, most: Duration, done: impl Fn(&Ended) -> bool) {
    shared.news.wait_while_for(&mut shared.state.lock(), |ended| !done(ended), most);
}

/// Opens for reading and writing, so that the pipe stays usable when an agent closes its end.
fn open_both_ways(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

#[cfg(test)]
pub(crate) mod tests {
    /// Whether the test runs as root. Otherwise prints why it is skipped, or panics where `CI` is set.
    pub fn is_root(why: &str) -> bool {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            skip(why);
        }
        is_root
    }

    /// Prints why a test is skipped; panics where `CI` is set.
    pub fn skip(why: &str) {
        eprintln!("skipped: {why}");
        let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        assert!(!in_ci, "in CI no test may be skipped: {why}");
    }
}
