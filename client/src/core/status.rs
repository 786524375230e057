//! An allocation's client status, computed from the states of its tasks.

use songline_model::{AllocClientStatus, TaskRunState, TaskState};

/// The status and its description. A failed task outweighs a running one; poststop tasks count like the others.
pub fn client_status<'a>(tasks: impl Iterator<Item = &'a TaskState>) -> (AllocClientStatus, &'static str) {
    let (mut failed, mut running, mut pending, mut dead) = (false, false, false, false);
    for task in tasks {
        match task.state {
            TaskRunState::Running => running = true,
            TaskRunState::Pending | TaskRunState::None => pending = true,
            TaskRunState::Dead if task.failed => failed = true,
            TaskRunState::Dead => dead = true,
        }
    }
    if failed {
        (AllocClientStatus::Failed, "Failed tasks")
    } else if running {
        (AllocClientStatus::Running, "Tasks are running")
    } else if pending {
        (AllocClientStatus::Pending, "No tasks have started")
    } else if dead {
        (AllocClientStatus::Complete, "All tasks have completed")
    } else {
        (AllocClientStatus::Pending, "")
    }
}
