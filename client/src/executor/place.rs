//! The directory of one run, through which agent and executor communicate, and its files. Both sides use this module;
//! it decides nothing.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};
use serde::{Deserialize, Serialize};

use super::capabilities::Capabilities;
use super::open_both_ways;
use crate::allocdir::SHOWN_LOGS;
use crate::beneath::Dir;
use crate::cgroup::{Cgroups, NewCgroups};
use crate::rotate::RotatingFile;

/// Description of the program to run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Spec {
    /// Path of the program's file.
    pub command: PathBuf,
    /// Arguments, without the program's name.
    pub args: Vec<String>,
    /// Complete environment.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub dir: PathBuf,
    /// User; empty is the agent's own user.
    pub user: String,
    /// Log files of the output; `None` drops the output.
    pub logs: Option<LogSpec>,
    /// Cgroups of the task.
    pub cgroups: Option<NewCgroups>,
    /// Isolation from the machine; `None` runs without isolation.
    pub isolation: Option<Isolation>,
    /// Path of the network namespace of the task; `None` is the machine's network.
    #[serde(default)]
    pub network: Option<PathBuf>,
}

/// Place and bounds of a task's logs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogSpec {
    /// Directory of the files, which only the agent can change.
    pub dir: PathBuf,
    /// The allocation's directory, in whose `alloc/logs` tasks find the files as well; `None` if the files have no
    /// second place.
    pub alloc_dir: Option<PathBuf>,
    /// Base name of the standard output's files, without their number.
    pub stdout: String,
    /// Base name of the standard error's files, without their number.
    pub stderr: String,
    /// Number of files that are kept of each stream.
    pub files_max: u64,
    /// Largest size of a file, in bytes.
    pub file_bytes_max: u64,
}

impl LogSpec {
    /// Opens one of the two logs.
    pub fn open(&self, base: &str) -> io::Result<RotatingFile> {
        // A task may have replaced its `alloc/logs`: then the task finds no logs there.
        let shown = self.alloc_dir.as_ref().and_then(|dir| Dir::open(dir).ok()?.dir(SHOWN_LOGS).ok());
        RotatingFile::open(&self.dir, shown, base, self.files_max, self.file_bytes_max)
    }
}

/// Isolation of a task from the machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Isolation {
    /// Directory that becomes the task's `/`.
    pub root: PathBuf,
    /// Directories of the machine that the task sees.
    pub binds: Vec<Bind>,
    /// Whether the task has its own PID namespace.
    pub own_pids: bool,
    /// Whether the task has its own IPC namespace.
    pub own_ipc: bool,
    /// Command that starts the first process inside: this program again.
    pub init: Vec<PathBuf>,
    /// Capabilities of the task.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Whether the task's system calls are filtered.
    #[serde(default)]
    pub seccomp: bool,
}

/// A directory of the machine mounted in a task's root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Bind {
    /// Source on the machine.
    pub from: PathBuf,
    /// Absolute destination in the task's root.
    pub to: PathBuf,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether mounts below the source are shared with the machine.
    #[serde(default)]
    pub propagation: Propagation,
}

/// Mounts that come and go below a directory of the machine while a task sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Propagation {
    /// The task sees those of its start.
    #[default]
    Private,
    /// The task sees those of the machine, not the other way around (`host-to-task`).
    HostToTask,
    /// Each sees those of the other (`bidirectional`).
    Bidirectional,
}

/// The executor's report of the start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Started {
    /// The executor's process id.
    pub executor: i32,
    /// Start time of the executor, in ticks after boot.
    pub executor_start: u64,
    /// The task's process id, which is also its process group.
    pub task: i32,
    /// Start time of the task's process, in ticks after boot.
    pub task_start: u64,
    /// The task's cgroups.
    pub cgroups: Option<Cgroups>,
    /// Whether the cgroups count resource usage; otherwise usage is summed over the processes.
    pub counted: bool,
    /// Reason why the task could not be started.
    pub error: Option<String>,
}

/// Result of the task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exit {
    /// Exit code; 128 plus the signal when a signal ended the task.
    pub code: i32,
    /// The signal, or 0.
    pub signal: i32,
    /// Whether the task was killed for lack of memory.
    pub oom_killed: bool,
    /// Reason why the result is unknown.
    pub error: Option<String>,
}

/// An order from an agent to an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Send the task a signal.
    Signal(i32),
    /// Send the task a signal, and kill all its processes after `timeout`.
    Stop {
        /// Number of the signal.
        signal: i32,
        /// Time until the kill.
        timeout: Duration,
    },
}

impl Order {
    /// Parses one line of the pipe. `None` for a line that is no order; the executor ignores it.
    pub fn parse(line: &str) -> Option<Order> {
        let mut words = line.split_ascii_whitespace();
        match (words.next()?, words.next()?.parse().ok()?) {
            ("signal", number) => Some(Order::Signal(number)),
            ("stop", signal) => {
                Some(Order::Stop { signal, timeout: Duration::from_millis(words.next()?.parse().ok()?) })
            }
            _ => None,
        }
    }

    fn line(&self) -> String {
        match self {
            Order::Signal(number) => format!("signal {number}\n"),
            Order::Stop { signal, timeout } => format!("stop {signal} {}\n", timeout.as_millis()),
        }
    }
}

/// The directory of one run of one task.
#[derive(Debug, Clone)]
pub struct Place(PathBuf);

impl Place {
    /// Names the directory; creates nothing.
    pub fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    /// Path of the directory.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// Creates the directory with all files that an executor needs, and takes its lock, which is to become the
    /// executor's standard input. The directory appears atomically and locked: another process sees either no run, or
    /// a run that is held. Fails when the run exists already, or was given up.
    pub fn prepare(&self, spec: &Spec) -> io::Result<File> {
        let new = self.beside()?;
        let filled = new.fill(spec);
        let placed = filled.and_then(|lock| fs::rename(&new.0, &self.0).map(|()| lock));
        if placed.is_err() {
            // A leftover is never read, and is removed with the allocation.
            let _ = fs::remove_dir_all(&new.0);
        }
        placed.map_err(|error| match is_taken(&error) {
            true => io::Error::other("this run has been started before, or was given up"),
            false => error,
        })
    }

    /// Creates a new directory beside this one, which is to be renamed to this one.
    fn beside(&self) -> io::Result<Self> {
        let mut name = self.0.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}", uuid::Uuid::new_v4()));
        let new = self.0.with_file_name(name);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&new)?;
        Ok(Self(new))
    }

    fn fill(&self, spec: &Spec) -> io::Result<File> {
        mkfifoat(CWD, self.0.join("orders"), Mode::RUSR | Mode::WUSR)?;
        self.write("spec.json", spec)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.0.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(lock)
    }

    /// Prevents every agent, even one that is about to, from starting this run. `false` when an agent has started it
    /// meanwhile, so that the run has to be examined again.
    pub fn give_up(&self) -> io::Result<bool> {
        if self.0.exists() {
            // The agent that made the directory held its lock before the directory appeared, and starts nothing
            // without the lock.
            return Ok(!self.is_held());
        }
        let new = self.beside()?;
        let marked = File::create(new.0.join("given-up")).and_then(|_| fs::rename(&new.0, &self.0));
        let Err(error) = marked else { return Ok(true) };
        let _ = fs::remove_dir_all(&new.0);
        if is_taken(&error) { Ok(false) } else { Err(error) }
    }

    /// Whether an executor holds the lock.
    pub fn is_held(&self) -> bool {
        let Ok(lock) = File::open(self.0.join("lock")) else { return false };
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => false,
            Err(error) => error == rustix::io::Errno::WOULDBLOCK,
        }
    }

    /// Sends an order to the executor; fails when no executor runs.
    pub fn order(&self, order: &Order) -> io::Result<()> {
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("open flags fit 31 bits");
        let mut pipe = OpenOptions::new().write(true).custom_flags(nonblocking).open(self.0.join("orders"))?;
        pipe.write_all(order.line().as_bytes())
    }

    /// Opens the executor's end of the pipe.
    pub(super) fn open_orders(&self) -> io::Result<File> {
        open_both_ways(&self.0.join("orders"))
    }

    /// Reads the description of the program.
    pub(crate) fn read_spec(&self) -> io::Result<Spec> {
        self.read("spec.json")?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no spec.json"))
    }

    /// Reads the report of the start; `None` before the executor has written it.
    pub fn read_started(&self) -> io::Result<Option<Started>> {
        self.read("started.json")
    }

    pub(super) fn write_started(&self, started: &Started) -> io::Result<()> {
        self.write("started.json", started)
    }

    /// Reads the task's result; `None` while the task runs, and for ever when its executor was killed.
    pub fn read_exit(&self) -> io::Result<Option<Exit>> {
        self.read("exit.json")
    }

    pub(super) fn write_exit(&self, exit: &Exit) -> io::Result<()> {
        self.write("exit.json", exit)
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, name: &str) -> io::Result<Option<T>> {
        match fs::read(self.0.join(name)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        write_json(&self.0.join(name), value)
    }
}

/// Writes a file atomically: readers never see a part of it.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let temporary = path.with_added_extension("tmp");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    fs::rename(&temporary, path)
}

/// Whether a directory could not be renamed because the destination exists and is not empty.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let dir = tempfile::tempdir().expect("a directory");
        let place = Place::new(dir.path().join("alloc/task/1"));
        (dir, place)
    }

    #[test]
    fn run_is_prepared_once_and_is_held_from_the_start() {
        let (_dir, place) = place();
        let lock = place.prepare(&Spec::default()).expect("it is new");
        assert!(place.is_held());
        let again = place.prepare(&Spec::default()).expect_err("it is there");
        assert_eq!(again.to_string(), "this run has been started before, or was given up");
        assert!(place.is_held() && place.read_spec().is_ok(), "what is there is left alone");
        drop(lock);
        assert!(!place.is_held());
        assert!(place.prepare(&Spec::default()).is_err());
    }

    #[test]
    fn given_up_run_can_no_longer_be_prepared() {
        let (_dir, place) = place();
        assert!(place.give_up().expect("nobody is there"));
        assert!(place.prepare(&Spec::default()).is_err());
        assert!(place.give_up().expect("it stays so"));
        assert!(place.read_started().expect("nothing is damaged").is_none());
    }

    #[test]
    fn held_run_cannot_be_given_up() {
        let (_dir, place) = place();
        let lock = place.prepare(&Spec::default()).expect("it is new");
        assert!(!place.give_up().expect("it is there"));
        drop(lock);
        assert!(place.give_up().expect("nobody will start it"));
    }
}
