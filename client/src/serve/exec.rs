//! Commands that callers run in tasks: looks the task up, bounds the number of sessions, and ends them. The driver
//! runs the command.

use std::sync::Arc;

use songline_model::{Str, TaskRunState};
use songline_rpc::{ExecCommand, ExecOutput, ExecSession, RpcError, SESSION_PIECES_MAX};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::driver::{Command, Ends, Process};
use crate::runner::{Runner, Shared};

/// Largest number of concurrent sessions of one node. Each has two processes and at most about 150 KiB of output and
/// input in flight.
pub(crate) const SESSIONS_MAX: usize = 256;

/// Begins a session. It lasts until the command, the task, the caller or the agent has ended.
pub(super) fn begin(shared: &Arc<Shared>, runner: &Runner, ask: ExecCommand) -> Result<ExecSession, RpcError> {
    if shared.config.disable_remote_exec {
        return Err(RpcError::remote("Permission denied"));
    }
    let process = running(runner, &ask.task)?;
    let Ok(place) = Arc::clone(&shared.sessions).try_acquire_owned() else {
        return Err(RpcError::remote(format!(
            "too many sessions on this node: at most {SESSIONS_MAX} at the same time"
        )));
    };
    let (input, from_caller) = mpsc::channel(SESSION_PIECES_MAX);
    let (to_caller, output) = mpsc::channel(SESSION_PIECES_MAX);
    let ends = Ends { input: from_caller, output: to_caller.clone() };
    let cancel = shared.cancel.clone();
    shared.tracker.spawn(async move {
        let command = Command { argv: ask.command, tty: ask.tty, in_task_dir: false };
        let end = until_over(&*process, command, ends, &to_caller, &ask.task, cancel).await;
        // The caller may be gone.
        if let Some(end) = end {
            let _ = to_caller.send(end).await;
        }
        drop(place);
    });
    Ok(ExecSession { input, output })
}

/// Process of a running task.
fn running(runner: &Runner, task: &Str) -> Result<Arc<dyn Process>, RpcError> {
    let view = runner.view();
    let missing = |text: String| RpcError::Coded { code: 404, text };
    let known = view.alloc.group().is_some_and(|group| group.task(task).is_some());
    if !known {
        return Err(RpcError::remote("task not found"));
    }
    if !view.was_started(task) {
        return Err(missing(format!("task \"{task}\" not started yet.")));
    }
    if view.update.task(task).is_none_or(|state| state.state != TaskRunState::Running) {
        return Err(missing(format!("task \"{task}\" is not running.")));
    }
    // A restarted agent knows that the task runs before it has found the process.
    runner.process(task).ok_or_else(|| missing(format!("task \"{task}\" not started yet.")))
}

/// The session's last message; `None` when the caller is gone. Returning drops the command's future, which kills the
/// command.
async fn until_over(
    process: &dyn Process,
    command: Command,
    ends: Ends,
    caller: &mpsc::Sender<Result<ExecOutput, RpcError>>,
    task: &Str,
    cancel: CancellationToken,
) -> Option<Result<ExecOutput, RpcError>> {
    let task_ended = async {
        process.wait().await;
        // With cgroups the command ends with the task. Its own result then arrives within this delay, and says more.
        tokio::time::sleep(AFTER_TASK).await;
    };
    tokio::select! {
        biased;
        end = process.exec(command, ends) => Some(match end {
            Ok(end) => Ok(ExecOutput::Exited { exit_code: end.exit_code, signal: end.signal }),
            Err(error) => Err(RpcError::Remote(error)),
        }),
        () = caller.closed() => None,
        () = task_ended => Some(Err(RpcError::remote(format!("task \"{task}\" has ended")))),
        () = cancel.cancelled() => Some(Err(RpcError::Lost("the node is shutting down".to_owned()))),
    }
}

/// Time for which a command may outlive its task.
const AFTER_TASK: std::time::Duration = std::time::Duration::from_millis(500);
