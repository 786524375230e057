//! Events of a task that the agent's metrics count, found by comparing two states of the task.

use songline_model::{TaskRunState, TaskState};

use super::event;

/// An event that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// The task has ended without a failure.
    Complete,
    /// The task has ended as failed.
    Failed,
    /// The task begins again after its process had ended.
    Restart,
    /// The task's process ended because it ran out of memory.
    OomKilled,
}

/// Events between two states of a task; `before` is `None` for a task that is new.
pub fn counted(before: Option<&TaskState>, after: &TaskState) -> Vec<Counted> {
    let mut counted = Vec::new();
    let none = TaskState::default();
    let before = before.unwrap_or(&none);
    let restarts = after.restarts.saturating_sub(before.restarts);
    counted.extend((0..restarts).map(|_| Counted::Restart));
    let newest = before.events.iter().flatten().map(|event| event.time).max();
    let is_oom = |event: &&songline_model::TaskEvent| {
        let details = event.details.as_ref();
        event.kind == event::TERMINATED
            && details.and_then(|details| details.get("oom_killed")).is_some_and(|killed| killed == "true")
    };
    let new = after.events.iter().flatten().filter(|event| newest.is_none_or(|newest| event.time > newest));
    counted.extend(new.filter(is_oom).map(|_| Counted::OomKilled));
    if after.state == TaskRunState::Dead && before.state != TaskRunState::Dead {
        counted.push(if after.failed { Counted::Failed } else { Counted::Complete });
    }
    counted
}

#[cfg(test)]
mod tests {
    use songline_model::Time;

    use super::*;
    use crate::core::ExitResult;

    #[test]
    fn restarts_memory_kills_and_the_end_are_counted_once() {
        let mut state = TaskState::default();
        event::enter(&mut state, TaskRunState::Running, Time::from_secs(1));
        let before = state.clone();
        let exit = ExitResult { exit_code: 137, oom_killed: true, ..ExitResult::default() };
        event::append(&mut state, event::terminated(Time::from_secs(2), &exit));
        event::append(&mut state, event::restarting(Time::from_secs(2), songline_model::Dur::ZERO, "policy"));
        assert_eq!(counted(Some(&before), &state), [Counted::Restart, Counted::OomKilled]);
        assert_eq!(counted(Some(&state.clone()), &state), []);
        let before = state.clone();
        event::append(&mut state, event::not_restarting(Time::from_secs(3), "policy"));
        event::enter(&mut state, TaskRunState::Dead, Time::from_secs(3));
        assert_eq!(counted(Some(&before), &state), [Counted::Failed]);
        let before = TaskState { failed: false, state: TaskRunState::Running, ..state.clone() };
        assert_eq!(counted(Some(&before), &TaskState { failed: false, ..state }), [Counted::Complete]);
    }
}
