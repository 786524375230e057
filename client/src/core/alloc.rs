//! One allocation on this node: its tasks from set-up to the end of the last one, its status for the servers, and the
//! order of stopping. The shell has directories, drivers and the database: it carries out [`Effect`]s and answers
//! with [`Input`]s.

mod announce;
mod effect;
mod kill;
mod observe;
mod restart;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocNetworkStatus, Allocation, Dur, Errors, JobType, Str, TaskRunState,
    Time,
};
use songline_rpc::message::CheckResult;

use super::checks::Checks;
use super::coordinator::{Coordinator, Stage};
use super::event;
use super::health::{HealthWatcher, Verdict};
use super::jitter::Jitter;
use super::task::{Surroundings, TaskRecord, TaskRunner, states};
use announce::Announced;
use kill::Killing;
use restart::Restart;

pub use announce::{NOMAD_PROVIDER, Workload};
pub use effect::{Effect, Input, Reaction, SignalCause};
pub(super) use observe::has_checks;

/// Tasks that did not get a signal, each with the error.
pub type Unsignalled = Vec<(Str, String)>;

/// Outcome of signals to the task `asked`, or to all tasks if it is empty. For one task the error alone is told, for
/// all of them each error with its task, in the order of the tasks.
pub fn signalled(asked: &str, mut failed: Unsignalled) -> Result<(), String> {
    failed.sort();
    let mut errors = Errors::new();
    for (task, error) in failed {
        if !asked.is_empty() {
            return Err(error);
        }
        errors.push(format!("Failed to signal task: {task}, err: {error}"));
    }
    errors.into_result().map_err(|errors| errors.to_string())
}

/// Settings of the agent for every allocation.
#[derive(Debug, Clone)]
pub struct AllocRunnerConfig {
    /// Upper bound of tasks' kill timeouts.
    pub kill_timeout_max: Dur,
    /// Seed of the jitter of restart delays.
    pub seed: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    New,
    Restoring(BTreeSet<Str>),
    SettingUp,
    Running,
    Done,
}

/// State machine of one allocation.
pub struct AllocRunner {
    alloc: Arc<Allocation>,
    config: AllocRunnerConfig,
    tasks: BTreeMap<Str, TaskRunner>,
    gates: Coordinator,
    phase: Phase,
    killing: Killing,
    /// Restart of several tasks that waits for the group's shutdown delay. A kill of all tasks drops it.
    restarting: Option<Restart>,
    /// Whether the cascade of kills that a dead task started was announced.
    cascading: bool,
    health: Option<HealthWatcher>,
    health_started: bool,
    deployment_status: Option<AllocDeploymentStatus>,
    /// Interface and address of its own.
    network: Option<AllocNetworkStatus>,
    announced: Announced,
    checks: Checks,
    /// Whether the checks may have changed.
    plan_checks: bool,
    destroy: bool,
    destroyed: bool,
    report: bool,
    /// Whether the servers have listed the allocations of this node since the agent's start.
    contacted: bool,
}

impl AllocRunner {
    /// Creates a runner that does nothing before [`Self::start`] or [`Self::restore`].
    pub fn new(alloc: Arc<Allocation>, config: AllocRunnerConfig, now: Time) -> Result<Self, String> {
        let no_group = || format!("failed to lookup task group {:?}", alloc.task_group.as_str());
        let job = alloc.job.clone().ok_or_else(no_group)?;
        let group = job.group(&alloc.task_group).ok_or_else(no_group)?;
        let mut jitter = Jitter::new(config.seed);
        let known = alloc.task_states.clone().unwrap_or_default();
        let resources = alloc.allocated_resources.as_ref().and_then(|resources| resources.tasks.as_ref());
        let mut tasks = BTreeMap::new();
        for task in group.tasks.iter().flatten() {
            if !resources.is_some_and(|tasks| tasks.contains_key(&task.name)) {
                return Err(format!(
                    "failed creating runner for task {:?}: no task resources found on allocation",
                    task.name.as_str()
                ));
            }
            let seeded = Jitter::new(jitter.next_u64());
            tasks.insert(task.name.clone(), TaskRunner::new(task, group, &job, known.get(&task.name), now, seeded));
        }
        let gates = Coordinator::new(stages(&tasks));
        let deployment_status = alloc.deployment_status.as_deref().cloned();
        Ok(Self {
            alloc,
            config,
            tasks,
            gates,
            phase: Phase::New,
            killing: Killing::No,
            restarting: None,
            cascading: false,
            health: None,
            health_started: false,
            deployment_status,
            network: None,
            announced: Announced::default(),
            checks: Checks::default(),
            plan_checks: false,
            destroy: false,
            destroyed: false,
            report: false,
            contacted: false,
        })
    }

    /// Takes a newer copy of the servers before [`Self::start`], which then begins as if there had been no other.
    /// Fails as [`Self::new`] does; the machine then keeps its copy.
    pub fn replace_copy(&mut self, alloc: Arc<Allocation>, now: Time) -> Result<(), String> {
        if alloc.alloc_modify_index > self.alloc.alloc_modify_index {
            *self = Self::new(alloc, self.config.clone(), now)?;
        }
        Ok(())
    }

    /// Begins an allocation that is new to this node.
    pub fn start(&mut self, now: Time) -> Vec<Effect> {
        let mut fx = Vec::new();
        if !self.alloc.terminal() {
            self.begin_anew();
        }
        self.run(now, &mut fx);
        self.finish(now, fx)
    }

    /// Takes back what the servers know of the tasks' runs: nothing of them is left on this node. Tasks that have ended
    /// do not run again, unless others that are to run may need what they had prepared.
    fn begin_anew(&mut self) {
        let prepares = |task: &TaskRunner| task.stage == Stage::PrestartEphemeral && !task.state.failed;
        let runs = |task: &TaskRunner| !task.is_dead() && !prepares(task) && task.stage != Stage::Poststop;
        let any_runs = self.tasks.values().any(runs);
        for task in self.tasks.values_mut().filter(|task| !task.is_dead() || (prepares(task) && any_runs)) {
            task.state.state = TaskRunState::Pending;
            task.state.finished_at = None;
        }
        self.gates.restore(&states(&self.tasks));
    }

    /// Begins with an allocation that an earlier agent left: first looks for its processes.
    pub fn restore(
        &mut self,
        records: BTreeMap<Str, TaskRecord>,
        health: Option<AllocDeploymentStatus>,
        checks: BTreeMap<Str, CheckResult>,
        now: Time,
    ) -> Vec<Effect> {
        let mut fx = Vec::new();
        for (name, record) in records {
            if let Some(task) = self.tasks.get_mut(&name) {
                task.restore(record);
            }
        }
        if health.is_some() {
            self.deployment_status = health;
        }
        self.checks.restore(checks);
        self.restore_announced();
        let mut waiting = BTreeSet::new();
        for (name, task) in &self.tasks {
            if task.needs_recovery() {
                waiting.insert(name.clone());
                fx.push(Effect::RecoverTask {
                    task: name.clone(),
                    run: task.local.run,
                    handle: task.local.handle.clone(),
                });
            }
        }
        self.gates.restore(&states(&self.tasks));
        self.phase = Phase::Restoring(waiting);
        self.restored(now, &mut fx);
        self.finish(now, fx)
    }

    /// Sets the interface and address that an earlier agent gave the allocation. Comes before [`Self::restore`].
    pub fn restore_network(&mut self, network: Option<AllocNetworkStatus>) {
        self.network = network;
    }

    /// Processes an input and returns the effects to carry out.
    pub fn on(&mut self, input: Input, now: Time) -> Vec<Effect> {
        let mut fx = Vec::new();
        match input {
            Input::SetUp(outcome) => {
                if self.phase == Phase::SettingUp {
                    match outcome {
                        Ok(()) => {
                            self.announced.group_serves = self.killing == Killing::No;
                            self.plan_checks = true;
                        }
                        Err(error) => {
                            self.tasks
                                .values_mut()
                                .for_each(|task| task.fail_setup(&format!("failed to setup alloc: {error}"), now));
                        }
                    }
                    self.launch(now, &mut fx);
                }
            }
            Input::Networked(network) => {
                self.report |= self.network.as_ref() != Some(&network);
                self.network = Some(network);
            }
            Input::Recovered { task, found } => {
                let is_system = self.job_kind() == JobType::System;
                self.with_task(&task, now, |task, around| task.on_recovered(found, around, is_system, &mut fx));
                if let Phase::Restoring(waiting) = &mut self.phase {
                    waiting.remove(&task);
                }
                self.restored(now, &mut fx);
            }
            Input::TaskEvent { task, event } => self.with_task(&task, now, |task, _| task.emit(*event)),
            Input::TaskFailed { task, event } => {
                self.with_task(&task, now, |task, around| task.kill(Some(*event), around, &mut fx));
            }
            Input::TemplatesChanged { task, restart, signals } => {
                self.with_task(&task, now, |task, around| {
                    task.on_templates_changed(restart, &signals, around, &mut fx)
                });
            }
            Input::VaultTokenChanged { task, reaction } => {
                self.with_task(&task, now, |task, around| task.on_vault_token_changed(reaction, around, &mut fx));
            }
            Input::TaskSetUp { task, outcome } => {
                self.with_task(&task, now, |task, around| task.on_set_up(outcome, around, &mut fx))
            }
            Input::Started { task, run, outcome } => {
                self.plan_checks |= observe::checks_tasks_in_driver_networks(&self.alloc);
                self.with_task(&task, now, |task, around| task.on_started(run, outcome, around, &mut fx));
            }
            Input::Exited { task, run, exit } => {
                self.with_task(&task, now, |task, around| task.on_exit(run, exit, around, &mut fx))
            }
            Input::KillFailed { task, run, error } => {
                self.with_task(&task, now, |task, around| task.on_kill_failed(run, &error, around, &mut fx));
            }
            Input::ChecksPlanned(plans) => {
                if self.is_observed() {
                    self.checks.plan(plans, now);
                }
            }
            Input::Checked { check, run, outcome } => self.checks.end_run(&check, run, outcome, now),
            Input::ServersContacted => {
                self.contacted = true;
                self.release(now, &mut fx);
            }
            Input::Update(alloc) => self.on_update(alloc, now, &mut fx),
            Input::Destroy => {
                if !self.destroy {
                    self.destroy = true;
                    self.kill_tasks(now, &mut fx);
                }
            }
            Input::Tick => {}
        }
        self.finish(now, fx)
    }

    /// Restarts one task.
    pub fn restart_task(&mut self, name: &str, reason: &str, now: Time) -> Result<Vec<Effect>, String> {
        let mut fx = Vec::new();
        if !self.tasks.contains_key(name) {
            return Err(format!("Could not find task runner for task: {name}"));
        }
        let event = event::restart_signaled(now, reason);
        let mut outcome = Ok(());
        self.with_task(name, now, |task, around| outcome = task.restart(event, false, false, around, &mut fx));
        outcome.map_err(|error| error.to_string())?;
        Ok(self.finish(now, fx))
    }

    /// Restarts every running task, or with `all` every task that may run again, in the order of their stages. The
    /// group's services are withdrawn before, and its shutdown delay passes.
    pub fn restart_tasks(&mut self, all: bool, reason: &str, now: Time) -> Result<Vec<Effect>, String> {
        let (status, _) = self.status();
        if self.alloc.terminal() || status.is_terminal() {
            return Err("restart of an alloc that should not run".to_owned());
        }
        let mut fx = Vec::new();
        self.begin_restart(Restart { until: now, all, failure: false, reason: reason.into() }, now, &mut fx);
        Ok(self.finish(now, fx))
    }

    /// Sends a signal to one task, or to all with an empty `name`. Of all tasks, those that do not run are returned
    /// with their errors for [`signalled`]; the others are signalled all the same.
    pub fn signal(&mut self, name: &str, signal: &str, now: Time) -> Result<(Vec<Effect>, Unsignalled), String> {
        let mut fx = Vec::new();
        if !name.is_empty() {
            let task = self.tasks.get_mut(name).ok_or("Task not found")?;
            task.signal(signal, now, &mut fx).map_err(|error| error.to_string())?;
            return Ok((self.finish(now, fx), Vec::new()));
        }
        let mut failed = Vec::new();
        for (name, task) in &mut self.tasks {
            if let Err(error) = task.signal(signal, now, &mut fx) {
                failed.push((name.clone(), error.to_string()));
            }
        }
        Ok((self.finish(now, fx), failed))
    }

    /// Records a reconnect: the servers had lost contact to this node. Adds an event and reports fresh states,
    /// without adopting the servers' copy.
    pub fn reconnect(&mut self, update: &Allocation, now: Time) -> Vec<Effect> {
        for task in self.tasks.values_mut() {
            task.append(event::new(event::RECONNECTED, now));
        }
        let mut alloc = Allocation::clone(&self.alloc);
        alloc.alloc_modify_index = update.alloc_modify_index;
        alloc.modify_index = update.modify_index;
        alloc.modify_time = update.modify_time;
        self.alloc = Arc::new(alloc);
        self.report = true;
        self.finish(now, Vec::new())
    }

    fn on_update(&mut self, alloc: Arc<Allocation>, now: Time, fx: &mut Vec<Effect>) {
        if alloc.alloc_modify_index < self.alloc.alloc_modify_index {
            return;
        }
        let stopping = !self.alloc.terminal() && alloc.terminal();
        let other_deployment = alloc.deployment_id != self.alloc.deployment_id;
        self.alloc = alloc;
        if other_deployment {
            self.deployment_status = None;
            fx.push(Effect::PersistHealth);
        }
        // The servers decide canary and index.
        if let Some(theirs) = self.alloc.deployment_status.clone() {
            let ours = self.deployment_status.get_or_insert_default();
            ours.canary = theirs.canary;
            ours.modify_index = theirs.modify_index;
        }
        if let Some(group) = self.alloc.group().cloned() {
            for task in group.tasks.iter().flatten() {
                if let Some(runner) = self.tasks.get_mut(&task.name) {
                    runner.update(task, &group);
                }
            }
        }
        if self.alloc.terminal() {
            self.health = None;
        } else if self.health_started && (other_deployment || self.health.is_none()) {
            self.watch_health(now);
        }
        self.announced.look_again = !self.alloc.terminal();
        self.plan_checks = self.phase == Phase::Running;
        if stopping {
            self.kill_tasks(now, fx);
        }
    }

    fn restored(&mut self, now: Time, fx: &mut Vec<Effect>) {
        if matches!(&self.phase, Phase::Restoring(waiting) if waiting.is_empty()) {
            self.run(now, fx);
        }
    }

    fn run(&mut self, now: Time, fx: &mut Vec<Effect>) {
        let (status, _) = self.status();
        self.report = true;
        if self.alloc.terminal() || status.is_terminal() || self.destroy {
            return self.launch(now, fx);
        }
        self.phase = Phase::SettingUp;
        fx.push(Effect::SetUp);
    }

    fn launch(&mut self, now: Time, fx: &mut Vec<Effect>) {
        self.phase = Phase::Running;
        if !self.alloc.terminal() {
            self.health_started = true;
            self.watch_health(now);
        }
        for name in self.names() {
            self.with_task(&name, now, |task, around| task.launch(around, fx));
        }
        self.release(now, fx);
    }

    /// Starts tasks that waited for the servers. They may have been contacted before the task was known to be lost.
    fn release(&mut self, now: Time, fx: &mut Vec<Effect>) {
        if self.contacted && self.phase == Phase::Running {
            for name in self.names() {
                self.with_task(&name, now, |task, around| task.on_servers_contacted(around, fx));
            }
        }
    }

    fn watch_health(&mut self, now: Time) {
        let known = self.deployment_status.as_ref().is_some_and(|status| status.healthy.is_some());
        self.health = if known { None } else { HealthWatcher::new(&self.alloc, stages(&self.tasks), now) };
    }

    /// Applies the consequences of the tasks' states, until there are no more.
    fn finish(&mut self, now: Time, mut fx: Vec<Effect>) -> Vec<Effect> {
        self.observe(now, &mut fx);
        loop {
            for name in self.names() {
                self.with_task(&name, now, |task, around| task.step(around, &mut fx));
            }
            self.advance_killing(now, &mut fx);
            self.advance_restart(now, &mut fx);
            let mut changed = false;
            for task in self.tasks.values_mut() {
                changed |= std::mem::take(&mut task.changed);
            }
            if changed {
                self.report = true;
            }
            let cascaded = self.phase == Phase::Running && self.cascade(now, &mut fx);
            let before = self.gates.clone();
            self.gates.on_states(&states(&self.tasks));
            let gates_moved = self.stages_open(&before) != self.stages_open(&self.gates);
            if !changed && !cascaded && !gates_moved {
                break;
            }
        }
        self.look_at_health(now, &mut fx);
        self.conclude(now, &mut fx);
        self.run_checks(now, &mut fx);
        let fx = self.announce(fx);
        self.order(fx)
    }

    /// Puts the persisted records first, as one effect.
    fn order(&mut self, fx: Vec<Effect>) -> Vec<Effect> {
        let dirty: Vec<Str> = self
            .tasks
            .iter_mut()
            .filter_map(|(name, task)| std::mem::take(&mut task.dirty).then(|| name.clone()))
            .collect();
        let mut ordered = Vec::with_capacity(fx.len() + 2);
        if !dirty.is_empty() && !self.destroyed {
            // A start is recorded before it happens, so that the next agent looks for the process if this one dies in
            // between. The end of a run is recorded before its directory is removed; otherwise, if the agent died in
            // between, there would be no trace that the task has run.
            let sync = fx.iter().any(|effect| matches!(effect, Effect::StartTask { .. } | Effect::DestroyTask { .. }));
            ordered.push(Effect::Persist { tasks: dirty, sync });
        }
        if std::mem::take(&mut self.report) {
            ordered.push(Effect::Report);
        }
        ordered.extend(fx);
        ordered
    }

    fn conclude(&mut self, now: Time, fx: &mut Vec<Effect>) {
        let (status, _) = self.status();
        if status.is_terminal() && self.phase == Phase::Running {
            for task in self.tasks.values_mut().filter(|task| task.state.finished_at.is_none()) {
                task.state.finished_at = Some(now);
            }
            let unknown = self.deployment_status.as_ref().is_none_or(|status| status.healthy.is_none());
            if status == AllocClientStatus::Failed && self.alloc.deployment_id.is_some() && unknown {
                self.set_health(false, now, fx);
            }
        }
        if self.phase == Phase::Running && self.tasks.values().all(TaskRunner::is_done) {
            self.phase = Phase::Done;
            self.health = None;
            self.report = true;
            fx.push(Effect::TearDown);
        }
        if self.phase == Phase::Done && self.destroy && !self.destroyed {
            self.destroyed = true;
            fx.push(Effect::Destroy);
        }
    }

    fn look_at_health(&mut self, now: Time, fx: &mut Vec<Effect>) {
        let (status, _) = self.status();
        let (tasks, checks) = (&self.tasks, &self.checks);
        let verdict = self.health.as_mut().and_then(|health| health.look(now, status, &states(tasks), checks));
        match verdict {
            None => {}
            Some(Verdict::Healthy) => {
                self.health = None;
                self.set_health(true, now, fx);
            }
            Some(Verdict::Unhealthy(events)) => {
                self.health = None;
                self.set_health(false, now, fx);
                if self.alloc.deployment_id.is_some() && !self.alloc.server_terminal() {
                    for (name, event) in events {
                        self.with_task(&name, now, |task, _| task.append(event));
                    }
                }
            }
        }
    }

    fn set_health(&mut self, healthy: bool, now: Time, fx: &mut Vec<Effect>) {
        let status = self.deployment_status.get_or_insert_default();
        status.healthy = Some(healthy);
        status.timestamp = Some(now);
        self.report = true;
        fx.push(Effect::PersistHealth);
    }

    fn skip_shutdown_delay(&self) -> bool {
        self.alloc.desired_transition.no_shutdown_delay == Some(true)
    }

    fn stages_open(&self, gates: &Coordinator) -> Vec<bool> {
        self.tasks.values().map(|task| gates.is_open(task.stage)).collect()
    }

    fn names(&self) -> Vec<Str> {
        self.tasks.keys().cloned().collect()
    }

    fn job_kind(&self) -> JobType {
        self.alloc.job.as_ref().map(|job| job.kind.clone()).unwrap_or_default()
    }

    fn with_task(&mut self, name: &str, now: Time, act: impl FnOnce(&mut TaskRunner, &Surroundings<'_>)) {
        let around = Surroundings {
            now,
            gates: &self.gates,
            client_terminal: self.alloc.client_terminal(),
            server_terminal: self.alloc.server_terminal() || self.destroy,
            skip_shutdown_delay: self.alloc.desired_transition.no_shutdown_delay == Some(true),
            kill_timeout_max: self.config.kill_timeout_max,
        };
        if let Some(task) = self.tasks.get_mut(name) {
            act(task, &around);
        }
    }
}

fn stages(tasks: &BTreeMap<Str, TaskRunner>) -> BTreeMap<Str, Stage> {
    tasks.iter().map(|(name, task)| (name.clone(), task.stage)).collect()
}
