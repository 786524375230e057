//! Updates of simulated allocations: states and events of all tasks of the group.

use std::sync::Arc;

use songline_client::core::{ExitResult, event};
use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, Allocation, Dur, FlatMap, Str, TaskRunState, TaskState, Time,
};
use songline_rpc::AllocReport;

use super::behaviour::End;

/// States of an allocation's tasks.
pub(super) type States = FlatMap<Str, TaskState>;

/// Something that happens to all tasks of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The allocation has arrived.
    Received,
    /// The tasks run.
    Started,
    /// The node was disconnected and is back; the tasks ran on.
    Reconnected,
    /// The tasks have ended by themselves.
    Ended(End),
    /// The servers have stopped the allocation, and its tasks have ended.
    Stopped,
}

impl Step {
    fn status(self) -> AllocClientStatus {
        match self {
            Self::Received => AllocClientStatus::Pending,
            Self::Started | Self::Reconnected => AllocClientStatus::Running,
            Self::Ended(End::Failed) => AllocClientStatus::Failed,
            Self::Ended(End::Complete) | Self::Stopped => AllocClientStatus::Complete,
        }
    }
}

/// The states after a step. Tasks that are not in `before` begin as pending.
pub(super) fn after(step: Step, alloc: &Allocation, before: Option<&States>, now: Time, tells: bool) -> States {
    let tasks = alloc.group().into_iter().flat_map(|group| group.tasks.iter().flatten());
    tasks
        .map(|task| {
            let mut state = before.and_then(|states| states.get(&task.name)).cloned().unwrap_or_default();
            take(step, &mut state, task.kill_timeout, now, tells);
            (task.name.clone(), state)
        })
        .collect()
}

fn take(step: Step, state: &mut TaskState, kill_timeout: Dur, now: Time, tells: bool) {
    let exit = |exit_code| event::terminated(now, &ExitResult { exit_code, ..ExitResult::default() });
    let (to, events) = match step {
        Step::Received => {
            let setup = event::message(event::TASK_SETUP, now, "Building Task Directory");
            (TaskRunState::Pending, vec![event::new(event::RECEIVED, now), setup])
        }
        Step::Started => (TaskRunState::Running, vec![event::new(event::STARTED, now)]),
        Step::Reconnected => (TaskRunState::Running, vec![event::new(event::RECONNECTED, now)]),
        Step::Ended(End::Complete) => (TaskRunState::Dead, vec![exit(0)]),
        Step::Ended(End::Failed) => {
            let not_again = event::not_restarting(now, "Policy allows no restarts");
            (TaskRunState::Dead, vec![exit(1), not_again])
        }
        Step::Stopped if state.state == TaskRunState::Dead => (TaskRunState::Dead, Vec::new()),
        Step::Stopped => {
            let events = vec![event::killing(now, kill_timeout), exit(0), event::killed(now, None)];
            (TaskRunState::Dead, events)
        }
    };
    event::enter(state, to, now);
    state.failed |= step == Step::Ended(End::Failed);
    if tells {
        events.into_iter().for_each(|happened| event::append(state, happened));
    }
}

/// The update for the servers after a step.
pub(super) fn report(
    step: Step,
    alloc: &Allocation,
    states: Arc<States>,
    health: Option<AllocDeploymentStatus>,
) -> AllocReport {
    let status = step.status();
    AllocReport {
        id: alloc.id,
        client_description: description(&status).into(),
        client_status: status,
        task_states: Some(states),
        deployment_status: health,
        ..AllocReport::default()
    }
}

/// The status repeated as the servers hold it, after they had marked the node as down.
pub(super) fn again(alloc: &Allocation) -> AllocReport {
    AllocReport {
        id: alloc.id,
        client_status: AllocClientStatus::Running,
        client_description: description(&AllocClientStatus::Running).into(),
        task_states: alloc.task_states.clone(),
        deployment_status: alloc.deployment_status.as_deref().cloned(),
        ..AllocReport::default()
    }
}

fn description(status: &AllocClientStatus) -> &'static str {
    match status {
        AllocClientStatus::Pending => "No tasks have started",
        AllocClientStatus::Running => "Tasks are running",
        AllocClientStatus::Complete => "All tasks have completed",
        AllocClientStatus::Failed => "Failed tasks",
        AllocClientStatus::Lost | AllocClientStatus::Unknown => "",
    }
}
