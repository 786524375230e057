//! The processes of this machine as the kernel lists them: their descendants, and signals to one of them. Not here:
//! starting any.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// One process. Its start time distinguishes it from a later one with the same id.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: i32,
    /// Start time in clock ticks since the boot of the machine.
    pub started: u64,
}

impl Process {
    /// The process with this id, if it exists and is not a zombie.
    pub fn find(pid: i32) -> Option<Process> {
        let (_, started, zombie) = stat(pid)?;
        (!zombie).then_some(Process { pid, started })
    }

    /// Id of the parent; `None` when the process has ended.
    pub fn parent(&self) -> Option<i32> {
        stat(self.pid).map(|(parent, ..)| parent)
    }

    pub fn is_running(&self) -> bool {
        Process::find(self.pid).as_ref() == Some(self)
    }

    /// Waits for the end of the process; false when it still runs at `deadline`.
    pub fn ends_before(&self, deadline: Instant) -> bool {
        !self.is_running() || wait_for_end(self.pid, deadline) || !self.is_running()
    }

    /// Kills the process, unless its id belongs to another one now.
    pub fn kill(&self) {
        if self.is_running()
            && let Some(pid) = Pid::from_raw(self.pid)
        {
            // The process may end by itself in between, which is as good.
            let _gone = kill_process(pid, Signal::KILL);
        }
    }
}

/// All processes that run `program` and have `argument` on their command line.
pub fn running(program: &str, argument: &str) -> Vec<Process> {
    let mut found: Vec<Process> = all()
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            let first = words.next().unwrap_or_default();
            first.ends_with(program.as_bytes()) && words.any(|word| word == argument.as_bytes())
        })
        .filter_map(Process::find)
        .collect();
    found.sort();
    found
}

/// All processes with one of these texts in their command line.
pub fn mentioning(texts: &[String]) -> Vec<Process> {
    let mentions = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        texts.iter().any(|text| line.contains(text.as_str()))
    };
    all().filter(mentions).filter_map(Process::find).collect()
}

/// All descendants of `pid`.
pub fn descendants(pid: i32) -> Vec<Process> {
    let mut family = BTreeSet::from([pid]);
    let stats: Vec<(i32, i32)> = all().filter_map(|p| stat(p).map(|(parent, ..)| (p, parent))).collect();
    loop {
        let before = family.len();
        for (child, parent) in &stats {
            if family.contains(parent) {
                family.insert(*child);
            }
        }
        if family.len() == before {
            break;
        }
    }
    family.remove(&pid);
    family.into_iter().filter_map(Process::find).collect()
}

/// Sends the signal of Ctrl-C (SIGINT).
pub fn interrupt(pid: i32) -> Result<()> {
    signal(pid, Signal::INT)
}

/// Sends a signal.
pub fn signal(pid: i32, signal: Signal) -> Result<()> {
    let id = Pid::from_raw(pid).context("a process id is above 0")?;
    kill_process(id, signal).with_context(|| format!("signalling process {pid}"))
}

/// Waits until the process ends; false when it still runs at `deadline`.
pub fn wait_for_end(pid: i32, deadline: Instant) -> bool {
    let Some(id) = Pid::from_raw(pid) else {
        return true;
    };
    let Ok(watched) = pidfd_open(id, PidfdFlags::empty()) else {
        return true;
    };
    let left = deadline.saturating_duration_since(Instant::now());
    let left =
        Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: i64::from(left.subsec_nanos()) };
    let ready = poll(&mut [PollFd::new(&watched, PollFlags::IN)], Some(&left));
    matches!(ready, Ok(1..))
}

/// Ids of all processes.
pub fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Parent, start time, and whether it is a zombie.
fn stat(pid: i32) -> Option<(i32, u64, bool)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses and may hold any characters.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let zombie = matches!(*fields.first()?, "Z" | "X");
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?, zombie))
}
