//! State machine of one task: gate, set-up, start, wait, kill, restart, end. The shell has the drivers and
//! directories.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use songline_model::{Blob, Dur, Job, RestartPolicy, Str, Task, TaskEvent, TaskGroup, TaskRunState, TaskState, Time};

use super::alloc::{Effect, Reaction, SignalCause};
use super::coordinator::{Coordinator, Stage};
use super::event;
use super::jitter::Jitter;
use super::tracker::{Decision, ExitResult, RestartTracker, StartFailure};

/// Durable state of a task that only the agent needs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LocalState {
    /// Number of the newest run, incremented before each start; 0 when the task was never started. Names the run's
    /// directory on disk.
    pub run: u64,
    /// Driver handle by which the running task is found again. Absent between runs, and while a start is not yet
    /// answered.
    pub handle: Option<Blob>,
    /// The task has ended for good and never runs again.
    pub run_complete: bool,
}

/// All durable state of a task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskRecord {
    /// State as reported to the servers.
    pub state: TaskState,
    /// State that only this agent needs.
    pub local: LocalState,
}

/// Phase of the task's loop.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Not launched yet: the allocation is being set up or restored.
    New,
    /// The process was not found again; the servers decide what happens.
    AwaitServers,
    /// Waits until its stage may start.
    Gate,
    /// Directories, environment and so on are being created.
    SettingUp,
    /// The driver is starting the task.
    Starting,
    /// The task runs.
    Running,
    /// Will be stopped at this time; its services were withdrawn so that clients use others.
    StopDelay { until: Time },
    /// Was signalled to end.
    Stopping,
    /// Starts again at this time.
    RestartDelay { until: Time },
    /// Has ended, and can be restarted for as long as its allocation lives.
    Parked,
    /// Ended for good.
    Done,
}

/// The task's surroundings in one step.
pub(super) struct Surroundings<'a> {
    pub now: Time,
    pub gates: &'a Coordinator,
    /// The servers' copy of the allocation has a terminal client status.
    pub client_terminal: bool,
    /// The servers' desired status is terminal, or the allocation is being destroyed.
    pub server_terminal: bool,
    pub skip_shutdown_delay: bool,
    /// Upper bound of kill timeouts.
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
    /// A recovered process that is no longer wanted is being stopped; its end has no further consequences.
    closing: bool,
    /// Whether a process of the newest run exists.
    has_process: bool,
    /// End of a restored process, seen before the machine waits for it.
    early_exit: Option<ExitResult>,
    /// Reaction to another token of Vault of a restored process, once that process is waited for.
    restored_with_old_token: Option<Reaction>,
    /// Whether the allocation has to check the task's state.
    pub changed: bool,
    /// Whether the record has to be persisted.
    pub dirty: bool,
}

impl TaskRunner {
    pub fn new(
        task: &Task,
        group: &TaskGroup,
        job: &Job,
        known: Option<&TaskState>,
        now: Time,
        jitter: Jitter,
    ) -> Self {
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
            restored_with_old_token: None,
            changed: false,
            dirty: true,
        }
    }

    /// Restores an earlier agent's record.
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

    /// Whether the task runs and is not being stopped: its services can be used.
    pub fn serves(&self) -> bool {
        self.has_process
            && !self.killed
            && !matches!(self.phase, Phase::StopDelay { .. } | Phase::Stopping | Phase::Done)
    }

    /// Whether an earlier agent may have left a process.
    pub fn needs_recovery(&self) -> bool {
        self.local.run > 0 && !self.local.run_complete
    }

    /// Earliest deadline.
    pub fn next_deadline(&self) -> Option<Time> {
        match self.phase {
            Phase::StopDelay { until } | Phase::RestartDelay { until } => Some(until),
            _ => None,
        }
    }

    /// Launches the task.
    pub fn launch(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.phase != Phase::New {
            return;
        }
        self.changed = true;
        if self.is_dead() {
            // A process of a task that had ended is stopped without events: they were emitted when the task ended.
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

    /// The process of the newest run was recovered, or was not found.
    pub fn on_recovered(
        &mut self,
        found: Result<Option<Blob>, Str>,
        around: &Surroundings<'_>,
        is_system: bool,
        fx: &mut Vec<Effect>,
    ) {
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

    /// The servers have listed the allocations of this node.
    pub fn on_servers_contacted(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.phase == Phase::AwaitServers {
            self.head(around, fx);
        }
    }

    /// Advances the task if its stage may start or a delay is over.
    pub fn step(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        match self.phase {
            Phase::Gate => self.head(around, fx),
            Phase::RestartDelay { until } if around.now >= until => self.head(around, fx),
            Phase::StopDelay { until } if around.now >= until || around.skip_shutdown_delay => {
                self.stop_process(around, fx)
            }
            _ => {}
        }
    }

    /// Set-up has finished.
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

    /// The driver has started the task, or failed.
    pub fn on_started(
        &mut self,
        run: u64,
        outcome: Result<Blob, StartFailure>,
        around: &Surroundings<'_>,
        fx: &mut Vec<Effect>,
    ) {
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

    /// The process has ended.
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

    /// Stops the task for good. `event` gives the reason and follows the order.
    pub fn kill(&mut self, event: Option<TaskEvent>, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.is_done() {
            return;
        }
        self.killed = true;
        if let Some(event) = event {
            self.emit(event);
        }
        match self.phase {
            Phase::SettingUp => fx.push(Effect::AbortTaskSetUp { task: self.name.clone() }),
            Phase::New | Phase::Starting | Phase::StopDelay { .. } | Phase::Stopping | Phase::Done => {}
            Phase::AwaitServers | Phase::Gate | Phase::RestartDelay { .. } => self.end(around, fx),
            Phase::Parked => self.complete(fx),
            Phase::Running => self.stop_gently(around, fx),
        }
    }

    /// The process could not be stopped: it counts as gone.
    pub fn on_kill_failed(&mut self, run: u64, error: &str, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        self.on_exit(run, ExitResult::lost(error), around, fx);
    }

    /// Fails the task because the allocation cannot be set up.
    pub fn fail_setup(&mut self, reason: &str, now: Time) {
        self.emit(event::setup_failure(now, reason));
        self.killed = true;
    }

    /// Restarts the task. `force` also restarts a task that has ended but may run again.
    pub fn restart(
        &mut self,
        event: TaskEvent,
        failure: bool,
        force: bool,
        around: &Surroundings<'_>,
        fx: &mut Vec<Effect>,
    ) -> Result<(), Str> {
        let allowed = match self.state.state {
            TaskRunState::Pending | TaskRunState::None => false,
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

    /// Sends the task a signal.
    pub fn signal(&mut self, signal: &str, now: Time, fx: &mut Vec<Effect>) -> Result<(), Str> {
        if !self.has_process {
            return Err("Task not running".into());
        }
        self.emit(event::signaling(now, signal));
        fx.push(self.signal_effect(signal, SignalCause::Request));
        Ok(())
    }

    fn signal_effect(&self, signal: &str, cause: SignalCause) -> Effect {
        Effect::SignalTask { task: self.name.clone(), run: self.local.run, signal: signal.into(), cause }
    }

    /// Templates were rendered again. A restart makes signals needless; a task that does not run reads the new files
    /// when it starts.
    pub fn on_templates_changed(
        &mut self,
        restart: bool,
        signals: &[Str],
        around: &Surroundings<'_>,
        fx: &mut Vec<Effect>,
    ) {
        if self.phase != Phase::Running {
            return;
        }
        if restart {
            let text = "Template with change_mode restart re-rendered";
            let event = event::shown(event::RESTART_SIGNALED, around.now, text);
            // The only refusal is that the task does not run.
            return drop(self.restart(event, false, false, around, fx));
        }
        for signal in signals {
            let shown = crate::signal::description(signal);
            self.emit(event::signaling_because(around.now, shown, "Template re-rendered"));
            fx.push(self.signal_effect(signal, SignalCause::Templates));
        }
    }

    /// The task has another token of Vault. A run that starts later has the new one from the start.
    pub fn on_vault_token_changed(&mut self, reaction: Reaction, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        match (&self.phase, reaction) {
            (Phase::Running, Reaction::Restart) => {
                let event = event::shown(event::RESTART_SIGNALED, around.now, event::NEW_VAULT_TOKEN);
                // The only refusal is that the task does not run.
                drop(self.restart(event, false, false, around, fx));
            }
            (Phase::Running, Reaction::Signal(signal)) => {
                let shown = crate::signal::description(&signal);
                self.emit(event::signaling_because(around.now, shown, event::NEW_VAULT_TOKEN));
                fx.push(self.signal_effect(&signal, SignalCause::VaultToken));
            }
            // A process that an earlier agent left has the old token, and is not waited for yet.
            (Phase::SettingUp, reaction) if self.has_process => self.restored_with_old_token = Some(reaction),
            _ => {}
        }
    }

    /// Appends an event and reports it to the servers.
    pub fn emit(&mut self, event: TaskEvent) {
        self.append(event);
        self.changed = true;
    }

    /// Appends an event that is sent with the next report.
    pub fn append(&mut self, event: TaskEvent) {
        event::append(&mut self.state, event);
        self.dirty = true;
    }

    fn should_stop(&self, around: &Surroundings<'_>) -> bool {
        around.client_terminal || (self.stage != Stage::Poststop && around.server_terminal)
    }

    /// First steps of the main loop: end, wait for the gate, or set up.
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
        // A recovered task emits no event, unless the agent died before it recorded the start.
        let started = (self.state.state != TaskRunState::Running).then(|| event::new(event::STARTED, around.now));
        self.set(TaskRunState::Running, started, around.now);
        if let Some(exit) = self.early_exit.take() {
            return self.on_exit(self.local.run, exit, around, fx);
        }
        if self.killed {
            return self.stop_gently(around, fx);
        }
        if let Some(reaction) = self.restored_with_old_token.take() {
            self.on_vault_token_changed(reaction, around, fx);
        }
    }

    fn stop_gently(&mut self, around: &Surroundings<'_>, fx: &mut Vec<Effect>) {
        if self.shutdown_delay <= Dur::ZERO {
            return self.stop_process(around, fx);
        }
        let skipped = around.skip_shutdown_delay;
        self.set(
            TaskRunState::Pending,
            Some(event::shutdown_delay(around.now, self.shutdown_delay, skipped)),
            around.now,
        );
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

    /// Kill timeout, bounded by the agent's limit.
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
                // Even without a delay the restart waits for the next step, so that all tasks see the states of this
                // moment.
                self.phase = Phase::RestartDelay { until: now.plus(delay) };
            }
        }
    }

    /// Steps after the main loop.
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

/// The task's own restart policy, otherwise its group's.
fn policy(task: &Task, group: &TaskGroup) -> RestartPolicy {
    task.restart_policy.clone().or_else(|| group.restart_policy.clone()).unwrap_or_default()
}

/// States by task name.
pub(super) fn states(tasks: &BTreeMap<Str, TaskRunner>) -> BTreeMap<Str, TaskState> {
    tasks.iter().map(|(name, task)| (name.clone(), task.state.clone())).collect()
}
