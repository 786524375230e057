//! Health of an allocation for its deployment or migration, from the states of its tasks and the results of its
//! services' checks over time.

use std::collections::BTreeMap;

use songline_model::{AllocClientStatus, Allocation, Dur, JobType, Str, TaskEvent, TaskRunState, TaskState, Time};

use super::alloc::has_checks;
use super::checks::Checks;
use super::coordinator::Stage;
use super::event;

/// Value of `health_check` by which the checks of services count.
const CHECKS: &str = "checks";

/// Result of the watcher, returned once.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// All tasks ran for `min_healthy_time`, and all checks passed for as long.
    Healthy,
    /// A task failed or the deadline passed; the events are for the tasks that caused it.
    Unhealthy(BTreeMap<Str, TaskEvent>),
}

/// Watches one allocation for one deployment, or for its migration.
#[derive(Debug, Clone)]
pub struct HealthWatcher {
    stages: BTreeMap<Str, Stage>,
    deadline: Time,
    healthy_deadline: Dur,
    min_healthy_time: Dur,
    /// Start of the last task, once all have started.
    latest_start: Option<Time>,
    due: Option<Time>,
    /// Whether checks have to pass.
    checked: bool,
    /// Time at which all checks have passed for `min_healthy_time`, while they pass.
    checks_due: Option<Time>,
}

impl HealthWatcher {
    /// A watcher for an allocation whose health is unknown; `None` when neither a deployment nor a migration needs
    /// it.
    pub fn new(alloc: &Allocation, stages: BTreeMap<Str, Stage>, now: Time) -> Option<Self> {
        let job = alloc.job.as_ref()?;
        let group = alloc.group()?;
        if job.kind != JobType::Service || alloc.health().is_some() || alloc.server_terminal() {
            return None;
        }
        let (min_healthy_time, healthy_deadline, health_check) = if alloc.deployment_id.is_some() {
            let update =
                group.update.as_ref().filter(|update| update.max_parallel > 0 && update.health_check != "manual")?;
            (update.min_healthy_time, update.healthy_deadline, update.health_check.as_str())
        } else {
            match &group.migrate {
                Some(migrate) => (migrate.min_healthy_time, migrate.healthy_deadline, migrate.health_check.as_str()),
                None => (Dur::from_secs(10), Dur::from_mins(5), CHECKS),
            }
        };
        let deadline = now.plus(healthy_deadline);
        Some(Self {
            stages,
            deadline,
            healthy_deadline,
            min_healthy_time,
            latest_start: None,
            due: None,
            checked: health_check == CHECKS && has_checks(alloc),
            checks_due: None,
        })
    }

    /// Time of the next check if no state changes before.
    pub fn next_deadline(&self) -> Time {
        self.healthy_at().map_or(self.deadline, |due| due.min(self.deadline))
    }

    /// Time from which the allocation is healthy if nothing changes.
    fn healthy_at(&self) -> Option<Time> {
        let checks = if self.checked { self.checks_due } else { self.due };
        Some(self.due?.max(checks?))
    }

    /// Judges the tasks' states and whether all checks pass.
    pub(super) fn look(
        &mut self,
        now: Time,
        status: AllocClientStatus,
        tasks: &BTreeMap<Str, TaskState>,
        checks: &Checks,
    ) -> Option<Verdict> {
        let mut blamed = BTreeMap::new();
        let (mut latest, mut waiting) = (None::<Time>, false);
        for (name, task) in tasks {
            let stage = self.stages.get(name).copied().unwrap_or(Stage::Main);
            let succeeded = task.state == TaskRunState::Dead && !task.failed;
            if stage == Stage::Poststop || (stage == Stage::PoststartEphemeral && succeeded) {
                continue;
            }
            if task.failed {
                blamed.insert(name.clone(), unhealthy(now, "Unhealthy because of failed task"));
            } else if task.state == TaskRunState::Dead && stage != Stage::PrestartEphemeral {
                blamed.insert(name.clone(), unhealthy(now, "Unhealthy because of dead task"));
            }
            waiting |= task.state == TaskRunState::Pending;
            latest = latest.max(task.started_at);
        }
        if !blamed.is_empty() || status == AllocClientStatus::Failed {
            return Some(Verdict::Unhealthy(blamed));
        }
        let started = if waiting { None } else { latest };
        if started != self.latest_start {
            self.latest_start = started;
            self.due = started.map(|_| now.plus(self.min_healthy_time));
            self.checks_due = None;
        }
        self.checks_due = checks.pass().then(|| self.checks_due.unwrap_or(now.plus(self.min_healthy_time)));
        if self.healthy_at().is_some_and(|due| now >= due) {
            return Some(Verdict::Healthy);
        }
        (now >= self.deadline).then(|| Verdict::Unhealthy(self.late(now, tasks, checks)))
    }

    fn late(&self, now: Time, tasks: &BTreeMap<Str, TaskState>, checks: &Checks) -> BTreeMap<Str, TaskEvent> {
        let (min, deadline) = (self.min_healthy_time, self.healthy_deadline);
        let unchecked = self.checked && self.checks_due.is_none_or(|due| now < due);
        let short = || format!("Task not running for min_healthy_time of {min} by healthy_deadline of {deadline}");
        let text = |name: &str, task: &TaskState| match task.state {
            TaskRunState::Pending => Some(format!("Task not running by healthy_deadline of {deadline}")),
            TaskRunState::Running if task.started_at.is_some_and(|at| at.plus(min) > self.deadline) => Some(short()),
            // Nomad's own checks have no other text (recorded).
            TaskRunState::Running if unchecked => Some(checks.complaint(name).unwrap_or_else(short)),
            TaskRunState::Running | TaskRunState::Dead | TaskRunState::None => None,
        };
        let watched = tasks.iter().filter(|(name, _)| self.stages.get(*name) != Some(&Stage::Poststop));
        watched.filter_map(|(name, task)| Some((name.clone(), unhealthy(now, &text(name, task)?)))).collect()
    }
}

fn unhealthy(now: Time, text: &str) -> TaskEvent {
    event::message(event::ALLOC_UNHEALTHY, now, text)
}
