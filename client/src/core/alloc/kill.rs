//! Tasks that are killed because another one ended, and the order in which tasks are stopped.

use songline_model::{Dur, Str, TaskEvent, TaskRunState, Time};

use super::{AllocRunner, Effect, Phase};
use crate::core::coordinator::Stage;
use crate::core::event;
use crate::core::task::TaskRunner;

/// Progress of stopping all tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Killing {
    No,
    GroupDelay { until: Time },
    Leader,
    Others,
    Sidecars,
}

impl AllocRunner {
    /// Kills tasks because of a dead one. Returns whether it killed any now.
    pub(super) fn cascade(&mut self, now: Time, fx: &mut Vec<Effect>) -> bool {
        let mut reason: Option<TaskEvent> = None;
        let mut leader_dead = false;
        for (name, task) in self.tasks.iter().filter(|(_, task)| task.stage != Stage::Poststop && task.is_dead()) {
            if task.state.failed && reason.is_none() {
                reason = Some(event::sibling_failed(now, name));
            } else if task.leader && !task.state.failed && !leader_dead {
                leader_dead = true;
                reason = Some(event::new(event::LEADER_DEAD, now));
            }
        }
        let live: Vec<Str> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.stage != Stage::Poststop && !task.is_dead())
            .map(|(name, _)| name.clone())
            .collect();
        if live.is_empty() {
            let parked: Vec<Str> = self
                .tasks
                .iter()
                .filter(|(_, task)| task.stage != Stage::Poststop && !task.is_done())
                .map(|(name, _)| name.clone())
                .collect();
            for name in &parked {
                self.with_task(name, now, |task, around| task.kill(None, around, fx));
            }
            return !parked.is_empty();
        }
        if reason.is_none() && live.iter().all(|name| self.tasks[name].stage.is_sidecar()) {
            reason = Some(event::new(event::MAIN_DEAD, now));
        }
        match reason {
            Some(event) if !self.cascading => {
                self.cascading = true;
                for name in &live {
                    self.with_task(name, now, |task, _| task.emit(event.clone()));
                }
                self.kill_tasks(now, fx);
                true
            }
            Some(_) => false,
            None => {
                self.cascading = false;
                false
            }
        }
    }

    /// Stops all tasks: the leader first, then the others, then the sidecars. Poststop tasks are not stopped.
    pub(super) fn kill_tasks(&mut self, now: Time, fx: &mut Vec<Effect>) {
        if self.phase == Phase::SettingUp {
            fx.push(Effect::AbortSetUp);
            self.begin_killing(now, fx);
            return self.launch(now, fx);
        }
        if self.killing == Killing::No && self.phase != Phase::Done {
            self.begin_killing(now, fx);
        }
    }

    fn begin_killing(&mut self, now: Time, fx: &mut Vec<Effect>) {
        self.announced.group_serves = false;
        self.restarting = None;
        // Before the set-up has ended, only tasks that an earlier agent left have been announced to clients.
        let stoppable = |task: &TaskRunner| match self.phase {
            Phase::Running => task.stage != Stage::Poststop && !task.is_done(),
            _ => task.state.state == TaskRunState::Running,
        };
        let delayed = self.tasks.values().any(stoppable);
        if let Some(until) = self.group_delay_until(now).filter(|_| delayed) {
            self.killing = Killing::GroupDelay { until };
        } else {
            self.killing = Killing::Leader;
            self.kill_wave(now, fx);
        }
    }

    /// End of the shutdown delay that the group waits for from now on; `None` if it has none, or skips it.
    pub(super) fn group_delay_until(&self, now: Time) -> Option<Time> {
        let delay = self.alloc.group().and_then(|group| group.shutdown_delay).unwrap_or_default();
        (delay > Dur::ZERO && !self.skip_shutdown_delay()).then(|| now.plus(delay))
    }

    pub(super) fn advance_killing(&mut self, now: Time, fx: &mut Vec<Effect>) {
        loop {
            let next = match self.killing {
                Killing::No => return,
                Killing::GroupDelay { until } if now < until && !self.skip_shutdown_delay() => return,
                Killing::GroupDelay { .. } => Killing::Leader,
                Killing::Leader | Killing::Others | Killing::Sidecars
                    if !self.wave().iter().all(|name| self.tasks[name].is_done()) =>
                {
                    return;
                }
                Killing::Leader => Killing::Others,
                Killing::Others => Killing::Sidecars,
                Killing::Sidecars => Killing::No,
            };
            self.killing = next;
            self.kill_wave(now, fx);
        }
    }

    /// Tasks to be stopped together next.
    fn wave(&self) -> Vec<Str> {
        let belongs = |task: &TaskRunner| match self.killing {
            Killing::No | Killing::GroupDelay { .. } => false,
            Killing::Leader => task.leader,
            Killing::Others => !task.leader && !task.stage.is_sidecar() && task.stage != Stage::Poststop,
            Killing::Sidecars => !task.leader && task.stage.is_sidecar(),
        };
        self.tasks.iter().filter(|(_, task)| belongs(task)).map(|(name, _)| name.clone()).collect()
    }

    fn kill_wave(&mut self, now: Time, fx: &mut Vec<Effect>) {
        let most = self.config.kill_timeout_max;
        for name in self.wave() {
            self.with_task(&name, now, |task, around| {
                let event = event::killing(now, task.effective_kill_timeout(most));
                task.kill(Some(event), around, fx);
            });
        }
    }
}
