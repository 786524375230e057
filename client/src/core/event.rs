//! Task events, with exactly the wire's types, messages and details. Other modules decide when they occur.

use std::collections::BTreeMap;

use songline_model::{Dur, Errors, FlatMap, Str, TaskEvent, TaskRunState, TaskState, Time};

use super::tracker::ExitResult;

/// Number of the newest events of a task that are kept.
pub const EVENTS_MAX: usize = 10;

/// `Received`
pub const RECEIVED: &str = "Received";
/// `Task Setup`
pub const TASK_SETUP: &str = "Task Setup";
/// `Setup Failure`
pub const SETUP_FAILURE: &str = "Setup Failure";
/// `Failed Validation`
pub const FAILED_VALIDATION: &str = "Failed Validation";
/// `Driver Failure`
pub const DRIVER_FAILURE: &str = "Driver Failure";
/// `Driver`
pub const DRIVER: &str = "Driver";
/// `Started`
pub const STARTED: &str = "Started";
/// `Terminated`
pub const TERMINATED: &str = "Terminated";
/// `Restarting`
pub const RESTARTING: &str = "Restarting";
/// `Not Restarting`
pub const NOT_RESTARTING: &str = "Not Restarting";
/// `Restart Signaled`
pub const RESTART_SIGNALED: &str = "Restart Signaled";
/// `Signaling`
pub const SIGNALING: &str = "Signaling";
/// `Killing`
pub const KILLING: &str = "Killing";
/// `Killed`
pub const KILLED: &str = "Killed";
/// `Sibling Task Failed`
pub const SIBLING_FAILED: &str = "Sibling Task Failed";
/// `Leader Task Dead`
pub const LEADER_DEAD: &str = "Leader Task Dead";
/// `Main Tasks Dead`
pub const MAIN_DEAD: &str = "Main Tasks Dead";
/// `Reconnected`
pub const RECONNECTED: &str = "Reconnected";
/// `Waiting for shutdown delay`
pub const WAITING_SHUTDOWN_DELAY: &str = "Waiting for shutdown delay";
/// `Skipping shutdown delay`
pub const SKIPPING_SHUTDOWN_DELAY: &str = "Skipping shutdown delay";
/// `Failed Restoring Task`
pub const FAILED_RESTORING: &str = "Failed Restoring Task";
/// `Task hook failed`
pub const HOOK_FAILED: &str = "Task hook failed";
pub const PLUGIN_HEALTHY: &str = "Plugin became healthy";
pub const PLUGIN_UNHEALTHY: &str = "Plugin became unhealthy";
/// `Task hook message`
pub const HOOK_MESSAGE: &str = "Task hook message";
/// `Template`
pub const TEMPLATE: &str = "Template";
/// `Downloading Artifacts`
pub const DOWNLOADING_ARTIFACTS: &str = "Downloading Artifacts";
/// `Failed Artifact Download`
pub const FAILED_ARTIFACT_DOWNLOAD: &str = "Failed Artifact Download";
/// `Alloc Unhealthy`
pub const ALLOC_UNHEALTHY: &str = "Alloc Unhealthy";

/// Reason of a restart or a signal.
pub const NEW_VAULT_TOKEN: &str = "Vault: new Vault token acquired";

/// An event of a type without details.
pub fn new(kind: &'static str, now: Time) -> TaskEvent {
    TaskEvent { kind: kind.into(), time: now, details: Some(FlatMap::new()), ..TaskEvent::default() }
}

/// An event with a message.
pub fn message(kind: &'static str, now: Time, text: &str) -> TaskEvent {
    let mut event = new(kind, now);
    event.message = text.into();
    detail(&mut event, "message", text);
    event
}

/// An event with nothing but a display message.
pub fn shown(kind: &'static str, now: Time, text: &str) -> TaskEvent {
    let mut event = new(kind, now);
    event.display_message = text.into();
    event
}

/// The task is stopped for good because of this failure; fails the task.
pub fn killing_because(now: Time, reason: &str) -> TaskEvent {
    let mut event = shown(KILLING, now, reason);
    fails_task(&mut event);
    event
}

/// The task does not learn that its templates have changed, because these signals could not all be sent: it is stopped
/// for good, and failed.
pub fn templates_not_signalled(now: Time, signals: &[Str], errors: &Errors) -> TaskEvent {
    let shown: Vec<&str> = signals.iter().map(|signal| crate::signal::description(signal)).collect();
    killing_because(now, &format!("Template failed to send signals [{}]: {errors}", shown.join(" ")))
}

/// A template or a token of the task has changed, and the task is sent this signal.
pub fn signaling_because(now: Time, signal: &str, reason: &str) -> TaskEvent {
    let mut event = shown(SIGNALING, now, reason);
    event.task_signal = signal.into();
    detail(&mut event, "task_signal", signal);
    event
}

/// The allocation cannot be set up; fails the task.
pub fn setup_failure(now: Time, reason: &str) -> TaskEvent {
    let mut event = new(SETUP_FAILURE, now);
    event.display_message = reason.into();
    event.kill_reason = FAILED_RESTORING.into();
    detail(&mut event, "kill_reason", FAILED_RESTORING);
    fails_task(&mut event);
    event
}

/// The task's own configuration is invalid.
pub fn failed_validation(now: Time, error: &str) -> TaskEvent {
    let mut event = new(FAILED_VALIDATION, now);
    event.validation_error = error.into();
    detail(&mut event, "validation_error", error);
    event
}

/// An artifact could not be fetched.
pub fn failed_artifact_download(now: Time, error: &str) -> TaskEvent {
    let mut event = new(FAILED_ARTIFACT_DOWNLOAD, now);
    event.download_error = error.into();
    detail(&mut event, "download_error", error);
    event
}

/// The driver could not start the task.
pub fn driver_failure(now: Time, error: &str) -> TaskEvent {
    let mut event = new(DRIVER_FAILURE, now);
    event.driver_error = error.into();
    detail(&mut event, "driver_error", error);
    event
}

/// A message of the driver, with its details.
pub fn driver_message(now: Time, text: &str, details: BTreeMap<Str, Str>) -> TaskEvent {
    let mut event = new(DRIVER, now);
    event.driver_message = text.into();
    event.details = Some(details.into_iter().collect());
    event
}

/// The task's process has ended.
pub fn terminated(now: Time, exit: &ExitResult) -> TaskEvent {
    let mut event = new(TERMINATED, now);
    event.exit_code = exit.exit_code;
    event.signal = exit.signal;
    detail(&mut event, "exit_code", exit.exit_code.to_string());
    detail(&mut event, "signal", exit.signal.to_string());
    detail(&mut event, "oom_killed", exit.oom_killed.to_string());
    if let Some(error) = &exit.error {
        event.message = error.clone();
        detail(&mut event, "exit_message", error.clone());
    }
    event
}

/// The task will start again after `delay`.
pub fn restarting(now: Time, delay: Dur, reason: &str) -> TaskEvent {
    let mut event = new(RESTARTING, now);
    event.start_delay = delay;
    detail(&mut event, "start_delay", delay.nanos().to_string());
    event.restart_reason = reason.into();
    detail(&mut event, "restart_reason", reason);
    event
}

/// The task has ended for good; fails the task.
pub fn not_restarting(now: Time, reason: &str) -> TaskEvent {
    let mut event = new(NOT_RESTARTING, now);
    event.restart_reason = reason.into();
    detail(&mut event, "restart_reason", reason);
    fails_task(&mut event);
    event
}

/// A restart was requested.
pub fn restart_signaled(now: Time, reason: &str) -> TaskEvent {
    let mut event = new(RESTART_SIGNALED, now);
    event.restart_reason = reason.into();
    detail(&mut event, "restart_reason", reason);
    event
}

/// A signal was requested. Only the detail is set, so the display message does not name it: the reference's wording.
pub fn signaling(now: Time, signal: &str) -> TaskEvent {
    let mut event = new(SIGNALING, now);
    detail(&mut event, "signal", signal);
    event
}

/// The task is being stopped and has `timeout` to end by itself.
pub fn killing(now: Time, timeout: Dur) -> TaskEvent {
    let mut event = new(KILLING, now);
    event.kill_timeout = timeout;
    detail(&mut event, "kill_timeout", timeout.to_string());
    event
}

/// The task has been stopped, or the stop failed.
pub fn killed(now: Time, error: Option<&str>) -> TaskEvent {
    let mut event = new(KILLED, now);
    if let Some(error) = error {
        event.kill_error = error.into();
        detail(&mut event, "kill_error", error);
    }
    event
}

/// Another task of the group has failed.
pub fn sibling_failed(now: Time, sibling: &str) -> TaskEvent {
    let mut event = new(SIBLING_FAILED, now);
    event.failed_sibling = sibling.into();
    detail(&mut event, "failed_sibling", sibling);
    event
}

/// A task waits for its shutdown delay before it is stopped, or skips it.
pub fn shutdown_delay(now: Time, delay: Dur, skipped: bool) -> TaskEvent {
    let (kind, verb) =
        if skipped { (SKIPPING_SHUTDOWN_DELAY, "Skipping") } else { (WAITING_SHUTDOWN_DELAY, "Waiting for") };
    let mut event = new(kind, now);
    event.display_message = format!("{verb} shutdown_delay of {delay} before killing the task.").into();
    event
}

/// The task could not be recovered from the previous agent.
pub fn failed_restoring(now: Time) -> TaskEvent {
    let mut event = new(FAILED_RESTORING, now);
    event.display_message = "failed to restore task; will not run until server is contacted".into();
    event
}

/// Appends an event to a task's state: keeps the newest ten, and updates the counts of failures and restarts.
pub fn append(state: &mut TaskState, mut event: TaskEvent) {
    event.fill_display_message();
    if event.fails_task {
        state.failed = true;
    }
    if event.kind == RESTARTING {
        state.restarts += 1;
        state.last_restart = Some(event.time);
    }
    let events = state.events.get_or_insert_default();
    events.push(event);
    let surplus = events.len().saturating_sub(EVENTS_MAX);
    events.drain(..surplus);
}

/// Enters a state. The first transition to running and the first end set their times.
pub fn enter(state: &mut TaskState, to: TaskRunState, now: Time) {
    if to == TaskRunState::Running && state.state != TaskRunState::Running {
        state.started_at = Some(now);
    }
    if to == TaskRunState::Dead && state.finished_at.is_none() {
        state.finished_at = Some(now);
    }
    state.state = to;
}

fn detail(event: &mut TaskEvent, key: &'static str, value: impl Into<Str>) {
    event.details.get_or_insert_default().insert(key.into(), value.into());
}

fn fails_task(event: &mut TaskEvent) {
    event.fails_task = true;
    detail(event, "fails_task", "true");
}
