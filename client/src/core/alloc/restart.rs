//! Restarts of several tasks of the group: its services are withdrawn first, the group's shutdown delay passes, then
//! the services are announced again and the tasks restart. Restarts of one task have none of this.

use songline_model::{Str, Time};

use super::kill::Killing;
use super::{AllocRunner, Effect, Phase, Workload};
use crate::core::event;

/// A restart of several tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Restart {
    /// Time at which the tasks are restarted.
    pub until: Time,
    /// Whether tasks that have ended run again too, from the first stage on.
    pub all: bool,
    /// Whether the restart counts as a failure of the tasks.
    pub failure: bool,
    /// Text of the tasks' events.
    pub reason: Str,
}

impl AllocRunner {
    /// Begins a restart: at once, or after the shutdown delay of a group that is announced. A restart that is asked for
    /// meanwhile joins the one that waits.
    pub(super) fn begin_restart(&mut self, asked: Restart, now: Time, fx: &mut Vec<Effect>) {
        if let Some(waiting) = &mut self.restarting {
            waiting.all |= asked.all;
            // A restart that a user asks for is no failure of the tasks, whatever waited before.
            if waiting.failure && !asked.failure {
                (waiting.failure, waiting.reason) = (false, asked.reason);
            }
            return;
        }
        let serves = self.phase == Phase::Running && self.killing == Killing::No && self.announced.group_serves;
        match self.group_delay_until(now).filter(|_| serves) {
            Some(until) => {
                self.announced.group_serves = false;
                self.restarting = Some(Restart { until, ..asked });
            }
            None => {
                self.announced.group_anew = serves;
                self.restart_now(&asked, now, fx);
            }
        }
    }

    /// Restarts the tasks once the delay has passed or is skipped. An allocation whose tasks have all ended meanwhile
    /// is not restarted.
    pub(super) fn advance_restart(&mut self, now: Time, fx: &mut Vec<Effect>) {
        let skipped = self.skip_shutdown_delay();
        let Some(due) = self.restarting.take_if(|restart| now >= restart.until || skipped) else { return };
        if self.phase == Phase::Running {
            self.announced.group_serves = true;
            self.restart_now(&due, now, fx);
        }
    }

    fn restart_now(&mut self, restart: &Restart, now: Time, fx: &mut Vec<Effect>) {
        if restart.all {
            self.gates.restart();
        }
        self.checks.watch_anew(&Workload::Group);
        for name in self.names() {
            let event = event::restart_signaled(now, &restart.reason);
            // The only refusal is that a task does not run; such tasks are skipped.
            self.with_task(&name, now, |task, around| {
                drop(task.restart(event, restart.failure, restart.all, around, fx));
            });
        }
    }
}
