//! Gates the stages of an allocation's tasks: prestart, main, poststart, poststop. A pure state machine; it starts
//! nothing.

use std::collections::BTreeMap;

use songline_model::{Str, Task, TaskRunState, TaskState};

/// Lifecycle stage of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Runs to its end before the main tasks start.
    PrestartEphemeral,
    /// Starts before the main tasks and stays.
    PrestartSidecar,
    /// Main task.
    Main,
    /// Starts when the main tasks run, and ends by itself.
    PoststartEphemeral,
    /// Starts when the main tasks run, and stays.
    PoststartSidecar,
    /// Runs when all others have ended.
    Poststop,
}

impl Stage {
    /// The stage of a task; without a lifecycle block it is a main task.
    pub fn of(task: &Task) -> Stage {
        match task.lifecycle.as_ref().map(|lifecycle| (lifecycle.hook.as_str(), lifecycle.sidecar)) {
            Some(("prestart", false)) => Stage::PrestartEphemeral,
            Some(("prestart", true)) => Stage::PrestartSidecar,
            Some(("poststart", false)) => Stage::PoststartEphemeral,
            Some(("poststart", true)) => Stage::PoststartSidecar,
            Some(("poststop", _)) => Stage::Poststop,
            Some(_) | None => Stage::Main,
        }
    }

    /// Whether the stage's tasks run for as long as the main tasks.
    pub fn is_sidecar(self) -> bool {
        matches!(self, Stage::PrestartSidecar | Stage::PoststartSidecar)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Init,
    Prestart,
    Main,
    Poststart,
    WaitAlloc,
    Poststop,
}

/// Gates of one allocation.
#[derive(Debug, Clone)]
pub struct Coordinator {
    stages: BTreeMap<Str, Stage>,
    state: State,
}

impl Coordinator {
    /// Creates the gates, all of them closed.
    pub fn new(stages: BTreeMap<Str, Stage>) -> Self {
        Self { stages, state: State::Init }
    }

    /// Whether tasks of `stage` may start now.
    pub fn is_open(&self, stage: Stage) -> bool {
        match self.state {
            State::Init => false,
            State::Prestart => matches!(stage, Stage::PrestartEphemeral | Stage::PrestartSidecar),
            State::Main => matches!(stage, Stage::PrestartSidecar | Stage::Main),
            State::Poststart => {
                matches!(
                    stage,
                    Stage::PrestartSidecar | Stage::Main | Stage::PoststartEphemeral | Stage::PoststartSidecar
                )
            }
            State::WaitAlloc => matches!(stage, Stage::PrestartSidecar | Stage::Main | Stage::PoststartSidecar),
            State::Poststop => stage == Stage::Poststop,
        }
    }

    /// Closes all gates: every task returns to pending and the stages begin anew.
    pub fn restart(&mut self) {
        self.state = State::Init;
    }

    /// Sets the gates for tasks restored from an earlier agent: they need not all be pending.
    pub fn restore(&mut self, tasks: &BTreeMap<Str, TaskState>) {
        self.state = State::Prestart;
        self.on_states(tasks);
    }

    /// Opens gates as far as the states of the tasks allow.
    pub fn on_states(&mut self, tasks: &BTreeMap<Str, TaskState>) {
        while let Some(next) = self.next(tasks) {
            self.state = next;
        }
    }

    fn next(&self, tasks: &BTreeMap<Str, TaskState>) -> Option<State> {
        let of = |stage: Stage| {
            self.stages.iter().filter(move |(_, other)| **other == stage).filter_map(|(name, _)| tasks.get(name))
        };
        let all_dead = self
            .stages
            .iter()
            .filter(|(_, stage)| **stage != Stage::Poststop)
            .all(|(name, _)| tasks.get(name).is_some_and(|task| task.state == TaskRunState::Dead));
        if all_dead && self.state != State::Poststop {
            return Some(State::Poststop);
        }
        let done = match self.state {
            State::Init => tasks.values().all(|task| task.state == TaskRunState::Pending),
            State::Prestart => {
                of(Stage::PrestartEphemeral).all(|task| task.state == TaskRunState::Dead && !task.failed)
                    && of(Stage::PrestartSidecar).all(|task| task.state == TaskRunState::Running)
            }
            State::Main => of(Stage::Main).all(|task| task.state != TaskRunState::Pending),
            State::Poststart => of(Stage::PoststartEphemeral).all(|task| task.state == TaskRunState::Dead),
            State::WaitAlloc | State::Poststop => false,
        };
        let following = match self.state {
            State::Init => State::Prestart,
            State::Prestart => State::Main,
            State::Main => State::Poststart,
            State::Poststart | State::WaitAlloc => State::WaitAlloc,
            State::Poststop => State::Poststop,
        };
        done.then_some(following)
    }
}
