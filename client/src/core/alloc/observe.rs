//! Checks of the allocation's services: from set-up until its tasks are stopped, and their effects on its tasks and
//! its health.

use songline_model::{Allocation, Time};

use super::restart::Restart;
use super::{AllocRunner, Effect, Phase, Workload};
use crate::core::event;
use crate::core::task::TaskRunner;

/// Whether a service has a check.
pub(in crate::core) fn has_checks(alloc: &Allocation) -> bool {
    Workload::all(alloc).iter().any(|of| of.services(alloc).any(|service| service.checks.iter().flatten().count() > 0))
}

/// Whether a check asks for the address of a task in its driver's network, which is known once the task runs.
pub(super) fn checks_tasks_in_driver_networks(alloc: &Allocation) -> bool {
    Workload::all(alloc).iter().any(|of| {
        let mut checks = of.services(alloc).flat_map(|service| service.checks.iter().flatten());
        checks.any(|check| matches!(check.address_mode.as_str(), "driver" | "auto"))
    })
}

impl AllocRunner {
    /// Asks for the checks when they may have changed, and restarts tasks whose checks fail for too long.
    pub(super) fn observe(&mut self, now: Time, fx: &mut Vec<Effect>) {
        if self.is_observed()
            && std::mem::take(&mut self.plan_checks)
            && (!self.checks.is_empty() || has_checks(&self.alloc))
        {
            fx.push(Effect::PlanChecks);
        }
        let (tasks, group_serves) = (&self.tasks, self.announced.group_serves);
        let restarts = self.checks.restarts(now, |of| match of {
            Workload::Group => group_serves,
            Workload::Task(name) => tasks.get(name).is_some_and(TaskRunner::serves),
        });
        for (of, reason) in restarts {
            match of {
                Workload::Group => {
                    let restart = Restart { until: now, all: false, failure: true, reason: reason.into() };
                    self.begin_restart(restart, now, fx);
                }
                Workload::Task(name) => {
                    let event = event::restart_signaled(now, &reason);
                    // The only refusal is that the task does not run.
                    self.with_task(&name, now, |task, around| drop(task.restart(event, true, false, around, fx)));
                }
            }
        }
    }

    /// Begins the runs that are due, or ends all checks; shows changed results before anything is stopped.
    pub(super) fn run_checks(&mut self, now: Time, fx: &mut Vec<Effect>) {
        if self.is_observed() {
            let runs = self.checks.begin_runs(now);
            fx.extend(runs.into_iter().map(|(run, plan)| Effect::RunCheck { run, plan }));
        } else if matches!(self.phase, Phase::Running | Phase::Done) {
            self.checks.stop();
        }
        let persist = std::mem::take(&mut self.checks.dirty);
        if std::mem::take(&mut self.checks.changed) {
            fx.insert(0, Effect::ShowChecks { persist });
        }
    }

    /// Whether the checks run: from the end of the set-up until the tasks are stopped for good.
    pub(super) fn is_observed(&self) -> bool {
        self.phase == Phase::Running && (self.announced.group_serves || self.restarting.is_some())
    }
}
