//! The cgroups of a task: created with limits, joined, read, emptied and removed. [`hierarchy`] knows their mounts
//! and which of the kernel's two layouts is in use; this module is the same for both. Nothing here knows of
//! allocations or drivers.

mod devices;
pub mod hierarchy;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

pub use usage::CgroupUsage;

/// Longest wait until all processes in a task's cgroups are gone after they were killed.
const EMPTY_MAX: Duration = Duration::from_secs(5);
/// Longest wait until processes are frozen, before they are killed without that.
const FREEZE_MAX: Duration = Duration::from_millis(200);
/// Interval at which the kernel's progress is polled.
const POLL: Duration = Duration::from_millis(2);

/// Cgroups of one task's processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cgroups {
    /// One directory, in the unified layout (version 2).
    Unified(PathBuf),
    /// A directory for each controller, by the controller's name (version 1).
    PerController(BTreeMap<String, PathBuf>),
}

/// A value that is written to a file of a cgroup before its first process enters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Name of the file.
    pub file: PathBuf,
    /// Written value.
    pub value: String,
    /// Whether a failure to write it prevents the task's start.
    pub needed: bool,
}

/// The cgroups of a task that is to be started, with its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewCgroups {
    /// The cgroups.
    pub at: Cgroups,
    /// Limits, in the order in which they are written.
    pub settings: Vec<Setting>,
    /// Devices that the task may use, for the unified layout, which has no settings for devices; empty means all
    /// devices.
    #[serde(default)]
    pub devices: Vec<String>,
}

impl NewCgroups {
    /// Creates the cgroups, and removes leftovers of an earlier run of the task first.
    pub(crate) fn make(&self) -> io::Result<()> {
        if self.at.dirs().iter().any(|dir| dir.exists()) {
            // An earlier run's counters must not be taken for this run's.
            self.at.end();
        }
        for dir in self.at.dirs() {
            fs::create_dir_all(dir)?;
        }
        for Setting { file, value, needed } in &self.settings {
            let written = fs::write(file, value);
            if let (Err(error), true) = (written, needed) {
                return Err(io::Error::new(error.kind(), format!("writing {value} to {}: {error}", file.display())));
            }
        }
        if let (Cgroups::Unified(dir), false) = (&self.at, self.devices.is_empty()) {
            devices::allow_only(dir, &self.devices)?;
        }
        Ok(())
    }
}

impl Cgroups {
    /// All directories of the cgroups, each once.
    pub fn dirs(&self) -> BTreeSet<&Path> {
        match self {
            Cgroups::Unified(dir) => BTreeSet::from([dir.as_path()]),
            // Several controllers may share a mount and so a directory.
            Cgroups::PerController(dirs) => dirs.values().map(PathBuf::as_path).collect(),
        }
    }

    fn of(&self, controller: &str) -> Option<&Path> {
        match self {
            Cgroups::Unified(dir) => Some(dir),
            Cgroups::PerController(dirs) => dirs.get(controller).map(PathBuf::as_path),
        }
    }

    /// Moves a process into the cgroups.
    pub(crate) fn join(&self, pid: u32) -> io::Result<()> {
        self.dirs().into_iter().try_for_each(|dir| fs::write(dir.join("cgroup.procs"), pid.to_string()))
    }

    /// Makes a command's process enter the cgroups before its `exec`, so that nothing it starts is outside. With
    /// `needed` the command fails where the kernel refuses that.
    pub(crate) fn enter_first(&self, command: &mut Command, needed: bool) -> io::Result<()> {
        let lists: io::Result<Vec<File>> =
            self.dirs().into_iter().map(|dir| OpenOptions::new().write(true).open(dir.join("cgroup.procs"))).collect();
        let lists = match lists {
            Err(_) if !needed => return Ok(()),
            lists => lists?,
        };
        let enter = move || {
            for list in &lists {
                // 0 is the writing process.
                match rustix::io::write(list, b"0") {
                    Err(error) if needed => return Err(error.into()),
                    Ok(_) | Err(_) => {}
                }
            }
            Ok(())
        };
        #[allow(unsafe_code)]
        // SAFETY: between fork and exec this only writes to descriptors that are open already: it neither allocates nor
        // takes a lock.
        unsafe {
            command.pre_exec(enter)
        };
        Ok(())
    }

    /// The processes in the cgroups and in all cgroups below them.
    pub fn members(&self) -> BTreeSet<i32> {
        let lists =
            self.dirs().into_iter().flat_map(tree).filter_map(|dir| fs::read_to_string(dir.join("cgroup.procs")).ok());
        // A process outside of this process's PID namespace is listed as 0.
        lists
            .flat_map(|list| list.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
            .filter(|pid| *pid > 0)
            .collect()
    }

    /// Number of processes that the kernel has killed for lack of memory.
    pub fn oom_kills(&self) -> u64 {
        let file = match self {
            Cgroups::Unified(dir) => Some(dir.join("memory.events")),
            Cgroups::PerController(dirs) => dirs.get("memory").map(|dir| dir.join("memory.oom_control")),
        };
        let told = file.map(|file| usage::keyed(&file)).and_then(|told| told.get("oom_kill").copied());
        told.unwrap_or(0)
    }

    /// Current and accumulated resource usage.
    pub fn usage(&self) -> Option<CgroupUsage> {
        usage::read(self)
    }

    /// Kills every process in the cgroups. Blocks for a short time, and gives up on processes that the kernel cannot
    /// end.
    pub(crate) fn kill(&self) {
        let until = Instant::now() + EMPTY_MAX;
        while !self.members().is_empty() && Instant::now() < until {
            if !self.kill_at_once() {
                // Frozen processes cannot fork faster than they are found.
                self.freeze();
                for pid in self.members().into_iter().filter_map(Pid::from_raw) {
                    let _ = kill_process(pid, Signal::KILL);
                }
                self.thaw();
            }
            let look_again = Instant::now() + FREEZE_MAX;
            while !self.members().is_empty() && Instant::now() < look_again {
                thread::sleep(POLL);
            }
        }
    }

    /// Kills all processes in the cgroups, and removes the cgroups.
    pub(crate) fn end(&self) {
        self.kill();
        self.remove();
    }

    /// Removes the cgroups, and those that the task has created below them. A cgroup that is not empty stays.
    pub(crate) fn remove(&self) {
        let until = Instant::now() + EMPTY_MAX;
        for root in self.dirs() {
            for dir in tree(root).into_iter().rev() {
                // Processes that have just ended keep a cgroup busy for a moment.
                while fs::remove_dir(&dir).is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
                    && Instant::now() < until
                {
                    thread::sleep(POLL);
                }
            }
        }
    }

    fn kill_at_once(&self) -> bool {
        match self {
            Cgroups::Unified(dir) => fs::write(dir.join("cgroup.kill"), "1").is_ok(),
            Cgroups::PerController(_) => false,
        }
    }

    fn freeze(&self) {
        let Some(dir) = self.of("freezer") else { return };
        let (order, file, word) = match self {
            Cgroups::Unified(_) => (fs::write(dir.join("cgroup.freeze"), "1"), "cgroup.events", "frozen 1"),
            Cgroups::PerController(_) => (fs::write(dir.join("freezer.state"), "FROZEN"), "freezer.state", "FROZEN"),
        };
        let until = Instant::now() + FREEZE_MAX;
        let stands_still =
            || fs::read_to_string(dir.join(file)).is_ok_and(|told| told.lines().any(|line| line == word));
        while order.is_ok() && !stands_still() && Instant::now() < until {
            thread::sleep(POLL);
        }
    }

    fn thaw(&self) {
        let Some(dir) = self.of("freezer") else { return };
        let _ = match self {
            Cgroups::Unified(_) => fs::write(dir.join("cgroup.freeze"), "0"),
            Cgroups::PerController(_) => fs::write(dir.join("freezer.state"), "THAWED"),
        };
    }
}

/// A cgroup and all cgroups below it, parents first.
fn tree(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while let Some(dir) = found.get(next).cloned() {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        found.extend(
            entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()),
        );
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests;
