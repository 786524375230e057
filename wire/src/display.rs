//! Readable texts for task events that have none.

use songline_model::{FlatMap, Str, TaskEvent, TaskState};

/// The states with texts in all their events; `None` when no text is missing.
pub fn filled(states: Option<&FlatMap<Str, TaskState>>) -> Option<FlatMap<Str, TaskState>> {
    let lacks = |state: &TaskState| state.events.iter().flatten().any(|event| event.display_message.is_empty());
    let states = states.filter(|states| states.values().any(lacks))?;
    let mut out = states.clone();
    for event in out.values_mut().flat_map(|state| state.events.iter_mut().flatten()) {
        if event.display_message.is_empty() {
            event.display_message = message(event);
        }
    }
    Some(out)
}

/// Readable text of an event.
fn message(event: &TaskEvent) -> Str {
    let or =
        |text: &Str, fallback: &'static str| if text.is_empty() { Str::new_static(fallback) } else { text.clone() };
    match event.kind.as_str() {
        "Started" => Str::new_static("Task started by client"),
        "Received" => Str::new_static("Task received by client"),
        "Failed Validation" => or(&event.validation_error, "Validation of task failed"),
        "Setup Failure" => or(&event.setup_error, "Task setup failed"),
        "Driver Failure" => or(&event.driver_error, "Failed to start task"),
        "Downloading Artifacts" => Str::new_static("Client is downloading artifacts"),
        "Failed Artifact Download" => or(&event.download_error, "Failed to download artifacts"),
        "Killing" => killing(event),
        "Killed" => or(&event.kill_error, "Task successfully killed"),
        "Terminated" => terminated(event),
        "Restarting" => restarting(event),
        "Not Restarting" => or(&event.restart_reason, "Task exceeded restart policy"),
        "Sibling Task Failed" => match event.failed_sibling.as_str() {
            "" => Str::new_static("Task's sibling failed"),
            sibling => format!("Task's sibling \"{sibling}\" failed").into(),
        },
        "Signaling" => match (event.task_signal.as_str(), event.task_signal_reason.as_str()) {
            ("", "") => Str::new_static("Task being sent a signal"),
            ("", reason) => reason.into(),
            (signal, "") => format!("Task being sent signal {signal}").into(),
            (signal, reason) => format!("Task being sent signal {signal}: {reason}").into(),
        },
        "Restart Signaled" => or(&event.restart_reason, "Task signaled to restart"),
        "Driver" => event.driver_message.clone(),
        "Leader Task Dead" => Str::new_static("Leader Task in Group dead"),
        "Main Tasks Dead" => Str::new_static("Main tasks in the group died"),
        "Reconnected" => Str::new_static("Client reconnected"),
        _ => event.message.clone(),
    }
}

fn killing(event: &TaskEvent) -> Str {
    if !event.kill_reason.is_empty() {
        return event.kill_reason.clone();
    }
    if event.kill_timeout.nanos() != 0 {
        return format!("Sent interrupt. Waiting {} before force killing", event.kill_timeout).into();
    }
    Str::new_static("Sent interrupt")
}

fn terminated(event: &TaskEvent) -> Str {
    let mut out = format!("Exit Code: {}", event.exit_code);
    if event.signal != 0 {
        out.push_str(&format!(", Signal: {}", event.signal));
    }
    if !event.message.is_empty() {
        out.push_str(&format!(", Exit Message: {:?}", event.message.as_str()));
    }
    out.into()
}

fn restarting(event: &TaskEvent) -> Str {
    let when = format!("Task restarting in {}", event.start_delay);
    match event.restart_reason.as_str() {
        "" | "Restart within policy" => when.into(),
        reason => format!("{reason} - {when}").into(),
    }
}
