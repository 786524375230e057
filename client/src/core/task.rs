//! One task's way: gate, set-up, start, wait, kill, restart, end. It decides when; drivers and directories are the shell's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use songline_model::{Blob, Dur, Job, RestartPolicy, Str, Task, TaskEvent, TaskGroup, TaskRunState, TaskState, Time};

use super::alloc::Effect;
use super::coordinator::{Coordinator, Stage};
use super::event;
use super::jitter::Jitter;
use super::tracker::{Decision, ExitResult, RestartTracker, StartFailure};

/// What the agent keeps of a task for itself, beside what it tells the servers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalState {
    /// Number of the newest run, counted up before each start; 0 when it was never started. Names the run's place on disk.
    pub run: u64,
    /// What the driver needs to find the running task again. Absent between runs, and while a start is not yet answered.
    pub handle: Option<Blob>,
    /// The task has ended for good and never runs again.
    pub run_complete: bool,
}

/// All that is durable about a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskRecord {
    /// What the servers are told.
    pub state: TaskState,
    /// What only this agent knows.
    pub local: LocalState,
}

/// Where the machine is in the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Not let go yet: the allocation is being set up or restored.
    New,
    /// Its process could not be found again; what becomes of it is for the servers to say.
    AwaitServers,
    /// Waits for its stage.
    Gate,
    /// Directories, environment and the like are being made.
    SettingUp,
    /// The driver is starting it.
    Starting,
    /// Waits for its end.
    Running,
    /// Is to be stopped at this time; services were told to look elsewhere.
    StopDelay { until: Time },
    /// Was asked to end.
    Stopping,
    /// Starts again at this time.
    RestartDelay { until: Time },
    /// Has ended, and could be restarted for as long as its allocation lives.
    Parked,
    /// Ended for good.
    Done,
}

/// What a task needs to know of its surroundings to take a step.
pub(super) struct Surroundings<'a> {
    pub now: Time,
    pub gates: &'a Coordinator,
    /// The servers' copy of the allocation says that it is over on this node.
    pub client_terminal: bool,
    /// The servers want the allocation gone.
    pub server_terminal: bool,
    pub skip_shutdown_delay: bool,
    /// What the agent allows tasks at most.
    pub kill_timeout_max: Dur,
}

pub(super) struct TaskRunner {
    name: Str,
    pub stage: Stage,
    pub leader: bool,
    kill_timeout: Dur,
    kill_signal: Str,
    shutdown_delay: Dur,
    phase: Phase,
    pub state: TaskState,
    pub local: LocalState,
    tracker: RestartTracker,
    killed: bool,
    /// A process that was found again but is not wanted any more is being ended; nothing is decided when it has.
    closing: bool,
    /// Whether a process of the newest run exists.
    has_process: bool,
    /// The end of a restored process, seen before the machine waits for it.
    early_exit: Option<ExitResult>,
    /// Something the allocation has to look at.
    pub changed: bool,
    /// Something to write down.
    pub dirty: bool,
}

impl TaskRunner {
    pub fn new(task: &Task, group: &TaskGroup, job: &Job, known: Option<&TaskState>, now: Time, jitter: Jitter) -> Self {
        let stage = Stage::of(task);
        let mut state = known.cloned().unwrap_or_default();
        event::append(&mut state, event::new(event::RECEIVED, now));
        Self {
            name: task.name.clone(),
            stage,
            leader: task.leader,
            kill_timeout: task.kill_timeout,
            kill_signal: task.kill_signal.clone(),
            shutdown_delay: task.shutdown_delay,
            phase: Phase::New,
            state,
            local: LocalState::default(),
            tracker: RestartTracker::new(policy(task, group), &job.kind, stage, now, jitter),
            killed: false,
            closing: false,
            has_process: false,
            early_exit: None,
            changed: false,
            dirty: true,
        }
    }

    /// Takes over what an earlier agent knew.
    pub fn restore(&mut self, record: TaskRecord) {
        self.state = record.state;
        self.local = record.local;
        self.dirty = false;
    }

    pub fn update(&mut self, task: &Task, group: &TaskGroup) {
        self.kill_timeout = task.kill_timeout;
        self.kill_signal = task.kill_signal.clone();
        self.shutdown_delay = task.shutdown_delay;
        self.tracker.set_policy(policy(task, group));
    }

    pub fn is_dead(&self) -> bool {
        self.state.state == TaskRunState::Dead
    }

    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether it runs and nobody wants it to end: its services can be used.
    pub fn serves(&self) -> bool {
        self.has_process && !self.killed && !matches!(self.phase, Phase::StopDelay { .. } | Phase::Stopping | Phase::Done)
    }

    /// Whether an earlier agent may have left a process behind.
    pub fn needs_recovery(&self) -> bool {
        self.local.run > 0 && !self.local.run_complete
    }

    /// Earliest time at which something is due.
    pub fn next_deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::StopDelay { until } | Phase::RestartDelay { until } => Some(until),
            _ => None,
        }
    }

    /// Lets it go.
    pub fn launch(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.phase != Phase::New {
            return;
        }
        self.changed = true;
        if self.is_dead() {
            // Nothing of a task that had ended may still run, and nothing is said about it: that was done when it ended.
            if self.has_process {
                self.drop_process(fx);
            }
            if self.local.run_complete {
                self.phase = Phase::Done;
                fx.push(Effect::TaskDone { task: self.name.clone() });
                return;
            }
            return self.end(around, fx);
        }
        self.head(around, fx);
    }

    /// The process of the newest run was found again, or could not be.
    pub fn on_recovered(&mut self, found: Result<Option<Blob>, Str>, around: &Surroundings<'_>, is_system: bool, fx: &mut Vec<Effect>) {
        match found {
            Ok(Some(handle)) => {
                self.has_process = true;
                self.local.handle = Some(handle);
            }
            Ok(None) => {
                self.local.handle = None;
                if self.state.state == TaskRunState::Running {
                    self.on_recovered(Err("task not found".into()), around, is_system, fx);
                }
            }
            Err(_) => {
                self.local.handle = None;
                fx.push(Effect::DestroyTask { task: self.name.clone(), run: self.local.run });
                if self.state.state == TaskRunState::Running && !around.client_terminal && !around.server_terminal {
                    let waits = !is_system;
                    if waits {
                        self.phase = Phase::AwaitServers;
                    }
                    self.set(TaskRunState::Pending, waits.then(|| event::failed_restoring(around.now)), around.now);
                }
            }
        }
    }

    /// The servers have said what this node should run.
    pub fn on_servers_contacted(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.phase == Phase::AwaitServers {
            self.head(around, fx);
        }
    }

    /// Its stage may have come, or a wait may be over.
    pub fn step(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        match self.phase {
            Phase::Gate => self.head(around, fx),
            Phase::RestartDelay { until } if around.now >= until => self.head(around, fx),
            Phase::StopDelay { until } if around.now >= until || around.skip_shutdown_delay => self.stop_process(around, fx),
            _ => {}
        }
    }

    /// Set-up is finished.
    pub fn on_set_up(&mut self, outcome: Result<(), StartFailure>, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.phase != Phase::SettingUp {
            return;
        }
        if let Err(failure) = outcome {
            self.tracker.set_start_failure(failure);
            return self.decide(around, fx);
        }
        if self.killed || self.should_stop(around) {
            return self.end(around, fx);
        }
        if self.has_process {
            return self.running(around, fx);
        }
        self.local.run += 1;
        self.local.handle = None;
        self.dirty = true;
        self.phase = Phase::Starting;
        fx.push(Effect::StartTask { task: self.name.clone(), run: self.local.run });
    }

    /// The driver has started it, or could not.
    pub fn on_started(&mut self, run: u64, outcome: Result<Blob, StartFailure>, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.phase != Phase::Starting || run != self.local.run {
            return;
        }
        match outcome {
            Ok(handle) => {
                self.local.handle = Some(handle);
                self.has_process = true;
                self.running(around, fx);
            }
            Err(failure) => {
                self.emit(event::driver_failure(around.now, &failure.error));
                self.tracker.set_start_failure(failure);
                self.decide(around, fx);
            }
        }
    }

    /// Its process has ended.
    pub fn on_exit(&mut self, run: u64, exit: ExitResult, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if run != self.local.run || !self.has_process {
            return;
        }
        match self.phase {
            Phase::Running | Phase::Stopping | Phase::StopDelay { .. } => {
                if self.killed {
                    self.tracker.set_killed();
                }
                self.emit(event::terminated(around.now, &exit));
                self.drop_process(fx);
                if std::mem::take(&mut self.closing) {
                    return self.end(around, fx);
                }
                self.tracker.set_exit(exit);
                self.decide(around, fx);
            }
            _ => self.early_exit = Some(exit),
        }
    }

    /// Stops it for good. `event` says why, after the order is given.
    pub fn kill(&mut self, event: Option<TaskEvent>, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.is_done() {
            return;
        }
        self.killed = true;
        if let Some(event) = event {
            self.emit(event);
        }
        match self.phase {
            Phase::New | Phase::SettingUp | Phase::Starting | Phase::StopDelay { .. } | Phase::Stopping | Phase::Done => {}
            Phase::AwaitServers | Phase::Gate | Phase::RestartDelay { .. } => self.end(around, fx),
            Phase::Parked => self.complete(fx),
            Phase::Running => self.stop_gently(around, fx),
        }
    }

    /// The order to stop the process could not be carried out: it counts as gone.
    pub fn on_kill_failed(&mut self, run: u64, error: &str, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        self.on_exit(run, ExitResult::lost(error), around, fx);
    }

    /// The whole allocation cannot be set up.
    pub fn fail_setup(&mut self, reason: &str, now: Time) {
        self.emit(event::setup_failure(now, reason));
        self.killed = true;
    }

    /// Restarts it. `force` also restarts one that has ended but may run again.
    pub fn restart(
        &mut self,
        event: TaskEvent,
        failure: bool,
        force: bool,
        around: &Surroundings<'_>,
        fx: &mut Vec<Effect>,
    ) -> Result<(), Str> {
        let allowed = match self.state.state {
            TaskRunState::Pending => false,
            TaskRunState::Running => true,
            TaskRunState::Dead => force && !self.local.run_complete,
        };
        if !allowed {
            return Err("Task not running".into());
        }
        self.emit(event);
        self.tracker.set_restart_triggered(failure);
        match self.phase {
            Phase::Parked => {
                self.state.finished_at = None;
                self.decide(around, fx);
            }
            Phase::Running => self.stop_process(around, fx),
            _ => {}
        }
        Ok(())
    }

    /// Asks for a signal.
    pub fn signal(&mut self, signal: &str, now: Time, fx: &mut Vec<Effect>) -> Result<(), Str> {
        if !self.has_process {
            return Err("Task not running".into());
        }
        self.emit(event::signaling(now, signal));
        fx.push(Effect::SignalTask { task: self.name.clone(), run: self.local.run, signal: signal.into() });
        Ok(())
    }

    /// Adds an event that the servers are told of.
    pub fn emit(&mut self, event: TaskEvent) {
        self.append(event);
        self.changed = true;
    }

    /// Adds an event that goes along with the next news.
    pub fn append(&mut self, event: TaskEvent) {
        event::append(&mut self.state, event);
        self.dirty = true;
    }

    fn should_stop(&self, around: &Surroundings<'_>) -> bool {
        around.client_terminal || (self.stage != Stage::Poststop && around.server_terminal)
    }

    /// The head of the main loop.
    fn head(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.killed || self.should_stop(around) {
            return self.end(around, fx);
        }
        if !around.gates.is_open(self.stage) {
            self.phase = Phase::Gate;
            return;
        }
        self.phase = Phase::SettingUp;
        fx.push(Effect::SetUpTask { task: self.name.clone() });
    }

    fn running(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        self.phase = Phase::Running;
        // A task found again goes on as if nothing had happened, unless the agent died before it could say that it had started.
        let started = (self.state.state != TaskRunState::Running).then(|| event::new(event::STARTED, around.now));
        self.set(TaskRunState::Running, started, around.now);
        if let Some(exit) = self.early_exit.take() {
            return self.on_exit(self.local.run, exit, around, fx);
        }
        if self.killed {
            self.stop_gently(around, fx);
        }
    }

    fn stop_gently(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.shutdown_delay <= Dur::ZERO {
            return self.stop_process(around, fx);
        }
        let skipped = around.skip_shutdown_delay;
        self.set(TaskRunState::Pending, Some(event::shutdown_delay(around.now, self.shutdown_delay, skipped)), around.now);
        if skipped {
            return self.stop_process(around, fx);
        }
        self.phase = Phase::StopDelay { until: around.now.plus(self.shutdown_delay) };
    }

    fn stop_process(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.killed {
            self.tracker.set_killed();
        }
        self.phase = Phase::Stopping;
        fx.push(Effect::KillTask {
            task: self.name.clone(),
            run: self.local.run,
            signal: self.kill_signal.clone(),
            timeout: self.effective_kill_timeout(around.kill_timeout_max),
        });
    }

    /// How long it has to end by itself.
    pub fn effective_kill_timeout(&self, most: Dur) -> Dur {
        self.kill_timeout.min(most)
    }

    fn drop_process(&mut self, fx: &mut Vec<Effect>) {
        self.has_process = false;
        self.local.handle = None;
        self.dirty = true;
        fx.push(Effect::DestroyTask { task: self.name.clone(), run: self.local.run });
    }

    fn decide(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        let now = around.now;
        match self.tracker.decide(now) {
            Decision::Killed => {
                self.emit(event::killed(now, None));
                self.end(around, fx);
            }
            Decision::Terminated => self.end(around, fx),
            Decision::NotRestarting(reason) => {
                self.set(TaskRunState::Dead, Some(event::not_restarting(now, &reason)), now);
                self.end(around, fx);
            }
            Decision::Restart { delay, reason } => {
                self.set(TaskRunState::Pending, Some(event::restarting(now, delay, &reason)), now);
                if self.killed {
                    return self.end(around, fx);
                }
                // Even without a delay the restart waits for the next step, so that the states of this moment are seen by all.
                self.phase = Phase::RestartDelay { until: now.plus(delay) };
            }
        }
    }

    /// What follows the main loop.
    fn end(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.has_process {
            self.closing = true;
            if let Some(exit) = self.early_exit.take() {
                self.phase = Phase::Running;
                return self.on_exit(self.local.run, exit, around, fx);
            }
            return self.stop_gently(around, fx);
        }
        self.set(TaskRunState::Dead, None, around.now);
        if self.stage == Stage::Poststop || self.killed {
            return self.complete(fx);
        }
        self.phase = Phase::Parked;
    }

    fn complete(&mut self, fx: &mut Vec<Effect>) {
        self.phase = Phase::Done;
        self.local.run_complete = true;
        self.dirty = true;
        self.changed = true;
        fx.push(Effect::TaskDone { task: self.name.clone() });
    }

    fn set(&mut self, to: TaskRunState, event: Option<TaskEvent>, now: Time) {
        event::enter(&mut self.state, to, now);
        if let Some(event) = event {
            event::append(&mut self.state, event);
        }
        self.dirty = true;
        self.changed = true;
    }
}

/// The task's own policy, else its group's.
fn policy(task: &Task, group: &TaskGroup) -> RestartPolicy {
    task.restart_policy.clone().or_else(|| group.restart_policy.clone()).unwrap_or_default()
}

/// States by name, as coordinator and status want them.
pub(super) fn states(tasks: &BTreeMap<Str, TaskRunner>) -> BTreeMap<Str, TaskState> {
    tasks.iter().map(|(name, task)| (name.clone(), task.state.clone())).collect()
}
