//! What an allocation's machine and its shell say to each other.

use std::sync::Arc;

use songline_model::{Allocation, Blob, Dur, Str, TaskEvent};

use super::announce::Workload;
use crate::core::tracker::{ExitResult, StartFailure};

/// What the shell has to do. Records to persist come before all else of the same batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write the durable records of these tasks; with `sync`, before any later effect is carried out. When the records cannot be written,
    /// no task is started and no run is removed.
    Persist {
        /// Which.
        tasks: Vec<Str>,
        /// Whether it has to reach the disk first.
        sync: bool,
    },
    /// Write down the health.
    PersistHealth,
    /// Wait for earlier allocations, make the directories. Answer: [`Input::SetUp`].
    SetUp,
    /// Stop waiting for that; its answer does not matter any more.
    AbortSetUp,
    /// Look for the process of the newest run. Answer: [`Input::Recovered`], and [`Input::Exited`] when it ends or has ended.
    RecoverTask { task: Str, run: u64, handle: Option<Blob> },
    /// Make the task's directories, environment and so on. Answer: [`Input::TaskSetUp`].
    SetUpTask { task: Str },
    /// Start it. Answer: [`Input::Started`], later [`Input::Exited`].
    StartTask { task: Str, run: u64 },
    /// Ask it to end, and make it after `timeout`. An empty signal is the driver's own. Answer: [`Input::Exited`] or [`Input::KillFailed`].
    KillTask { task: Str, run: u64, signal: Str, timeout: Dur },
    /// Send it a signal.
    SignalTask { task: Str, run: u64, signal: Str },
    /// Remove whatever is left of a run.
    DestroyTask { task: Str, run: u64 },
    /// The task never runs again: drop what is kept for it between runs.
    TaskDone { task: Str },
    /// Let the services of a workload be found as the servers' copy has them now, and those that it has no more be found no more.
    Announce { of: Workload },
    /// Let the services of a workload be found no more; tasks that are killed after this wait for it a while.
    Withdraw { of: Workload },
    /// Tell the servers: [`AllocRunner::update`] has changed.
    Report,
    /// All tasks have ended for good. Clean up after them; the directory stays.
    TearDown,
    /// Remove the directory and all records: nobody needs the allocation any more.
    Destroy,
}

/// What has happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// Answer to [`Effect::SetUp`].
    SetUp(Result<(), Str>),
    /// Answer to [`Effect::RecoverTask`]: the handle of a process, nothing (it never started), or why it is lost.
    Recovered { task: Str, found: Result<Option<Blob>, Str> },
    /// The task has something to tell while it is set up.
    TaskEvent { task: Str, event: Box<TaskEvent> },
    /// Answer to [`Effect::SetUpTask`].
    TaskSetUp { task: Str, outcome: Result<(), StartFailure> },
    /// Answer to [`Effect::StartTask`].
    Started { task: Str, run: u64, outcome: Result<Blob, StartFailure> },
    /// A run has ended.
    Exited { task: Str, run: u64, exit: ExitResult },
    /// Answer to [`Effect::KillTask`].
    KillFailed { task: Str, run: u64, error: Str },
    /// The servers have said which allocations this node should have.
    ServersContacted,
    /// The servers' newer copy.
    Update(Arc<Allocation>),
    /// Collect it: stop what runs, then remove everything.
    Destroy,
    /// Time has passed.
    Tick,
}
