//! Messages between an allocation's state machine and its shell.

use std::sync::Arc;

use songline_model::{AllocNetworkStatus, Allocation, Blob, Dur, Str, TaskEvent};

use super::announce::Workload;
use crate::core::checks::{CheckOutcome, CheckPlan};
use crate::core::tracker::{ExitResult, StartFailure};

/// An action for the shell. Persisting records comes before all other effects of the same batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write the durable records of these tasks; with `sync`, before any later effect is carried out. When the records
    /// cannot be written, no task is started and no run is removed.
    Persist {
        /// Names of the tasks.
        tasks: Vec<Str>,
        /// Whether the records must be on disk before later effects.
        sync: bool,
    },
    /// Persist the allocation's health.
    PersistHealth,
    /// Wait for earlier allocations, create the directories and the network. Answer: [`Input::SetUp`], and
    /// [`Input::Networked`] before it if the allocation gets an interface.
    SetUp,
    /// Abort that set-up; its answer is ignored.
    AbortSetUp,
    /// Look for the process of the newest run. Answer: [`Input::Recovered`], and [`Input::Exited`] when it ends or has
    /// ended.
    RecoverTask { task: Str, run: u64, handle: Option<Blob> },
    /// Create the task's directories, environment and so on. Answer: [`Input::TaskSetUp`].
    SetUpTask { task: Str },
    /// Stop waiting for what the set-up of this task needs; [`Input::TaskSetUp`] still comes.
    AbortTaskSetUp { task: Str },
    /// Start the task. Answer: [`Input::Started`], later [`Input::Exited`].
    StartTask { task: Str, run: u64 },
    /// Signal the task to end, and kill it after `timeout`. An empty signal is the driver's default. Answer:
    /// [`Input::Exited`] or [`Input::KillFailed`].
    KillTask { task: Str, run: u64, signal: Str, timeout: Dur },
    /// Send the task a signal. When signals for changed templates cannot be sent to a process that is there, the answer
    /// is [`Input::TaskFailed`] with [`templates_not_signalled`](crate::core::event::templates_not_signalled).
    SignalTask { task: Str, run: u64, signal: Str, cause: SignalCause },
    /// Remove all remains of a run.
    DestroyTask { task: Str, run: u64 },
    /// The task never runs again: drop its state that is kept between runs.
    TaskDone { task: Str },
    /// Announce the services of a workload as in the servers' copy, and withdraw those that the copy no longer has.
    /// `begins`: they were not announced before.
    Announce { of: Workload, begins: bool },
    /// Withdraw the services of a workload. Tasks that are killed after this wait some time for the withdrawal.
    Withdraw { of: Workload },
    /// Resolve the checks of all services of the servers' copy. Answer: [`Input::ChecksPlanned`].
    PlanChecks,
    /// Make the request of a check. Answer: [`Input::Checked`].
    RunCheck { run: u64, plan: Arc<CheckPlan> },
    /// Show `AllocRunner::check_results`, which have changed; with `persist`, also persist them.
    ShowChecks { persist: bool },
    /// Report to the servers: `AllocRunner::update` has changed.
    Report,
    /// All tasks have ended for good. Clean up after them; the directory stays.
    TearDown,
    /// Remove the directory and all records: the allocation is no longer needed.
    Destroy,
}

/// Reason of a signal to a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalCause {
    /// A user asked for it.
    Request,
    /// Templates of the task were rendered again.
    Templates,
    /// The task has another token of Vault.
    VaultToken,
}

/// The way in which a task learns of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// It restarts.
    Restart,
    /// It gets this signal.
    Signal(Str),
}

/// An event for the state machine.
#[derive(Debug, Clone)]
pub enum Input {
    /// Answer to [`Effect::SetUp`].
    SetUp(Result<(), Str>),
    /// The allocation has an interface of its own, made by [`Effect::SetUp`].
    Networked(AllocNetworkStatus),
    /// Answer to [`Effect::RecoverTask`]: the handle of a process, `None` (it was never started), or the reason why
    /// it is lost.
    Recovered { task: Str, found: Result<Option<Blob>, Str> },
    /// An event of the task during its set-up.
    TaskEvent { task: Str, event: Box<TaskEvent> },
    /// The task cannot go on: it is stopped for good, with this event.
    TaskFailed { task: Str, event: Box<TaskEvent> },
    /// Templates of the task were rendered again: restart it, or send it these signals.
    TemplatesChanged { task: Str, restart: bool, signals: Vec<Str> },
    /// The task has another token of Vault, which it has to be told of.
    VaultTokenChanged { task: Str, reaction: Reaction },
    /// Answer to [`Effect::SetUpTask`].
    TaskSetUp { task: Str, outcome: Result<(), StartFailure> },
    /// Answer to [`Effect::StartTask`].
    Started { task: Str, run: u64, outcome: Result<Blob, StartFailure> },
    /// A run has ended.
    Exited { task: Str, run: u64, exit: ExitResult },
    /// Answer to [`Effect::KillTask`].
    KillFailed { task: Str, run: u64, error: Str },
    /// Answer to [`Effect::PlanChecks`].
    ChecksPlanned(Vec<CheckPlan>),
    /// Answer to [`Effect::RunCheck`].
    Checked { check: Str, run: u64, outcome: CheckOutcome },
    /// The servers have listed the allocations of this node.
    ServersContacted,
    /// A newer copy from the servers.
    Update(Arc<Allocation>),
    /// Garbage-collect the allocation: stop its tasks, then remove everything.
    Destroy,
    /// Time has passed.
    Tick,
}
