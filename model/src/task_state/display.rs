//! Messages for people on task events that were reported without one.

use crate::{Dur, RareText, Str, TaskEvent};

/// Restart reason that is left out of the message: the policy allows the restart.
const WITHIN_POLICY: &str = "Restart within policy";

impl TaskEvent {
    /// Fills in the display message, unless there is one.
    pub fn fill_display_message(&mut self) {
        if self.display_message.is_empty() {
            self.display_message = self.default_display_message();
        }
    }

    fn default_display_message(&self) -> Str {
        match self.kind.as_str() {
            "Task Setup" => self.message.clone(),
            "Started" => "Task started by client".into(),
            "Received" => "Task received by client".into(),
            "Failed Validation" => or(&self.validation_error, "Validation of task failed"),
            "Setup Failure" => or(&self.setup_error, "Task setup failed"),
            "Driver Failure" => or(&self.driver_error, "Failed to start task"),
            "Downloading Artifacts" => "Client is downloading artifacts".into(),
            "Failed Artifact Download" => or(&self.download_error, "Failed to download artifacts"),
            "Killing" => self.killing(),
            "Killed" => or(&self.kill_error, "Task successfully killed"),
            "Terminated" => self.terminated(),
            "Restarting" => self.restarting(),
            "Not Restarting" => or(&self.restart_reason, "Task exceeded restart policy"),
            "Sibling Task Failed" if self.failed_sibling.is_empty() => "Task's sibling failed".into(),
            "Sibling Task Failed" => format!("Task's sibling {:?} failed", &*self.failed_sibling).into(),
            "Signaling" => self.signaling(),
            "Restart Signaled" => or(&self.restart_reason, "Task signaled to restart"),
            "Driver" => self.driver_message.to_str(),
            "Leader Task Dead" => "Leader Task in Group dead".into(),
            "Main Tasks Dead" => "Main tasks in the group died".into(),
            "Reconnected" => "Client reconnected".into(),
            _ => self.message.clone(),
        }
    }

    fn killing(&self) -> Str {
        if !self.kill_reason.is_empty() {
            self.kill_reason.to_str()
        } else if self.kill_timeout != Dur::ZERO {
            format!("Sent interrupt. Waiting {} before force killing", self.kill_timeout).into()
        } else {
            "Sent interrupt".into()
        }
    }

    fn terminated(&self) -> Str {
        let mut text = format!("Exit Code: {}", self.exit_code);
        if self.signal != 0 {
            text.push_str(&format!(", Signal: {}", self.signal));
        }
        if !self.message.is_empty() {
            text.push_str(&format!(", Exit Message: {:?}", self.message));
        }
        text.into()
    }

    fn restarting(&self) -> Str {
        let wait = format!("Task restarting in {}", self.start_delay);
        if self.restart_reason.is_empty() || *self.restart_reason == *WITHIN_POLICY {
            wait.into()
        } else {
            format!("{} - {wait}", self.restart_reason).into()
        }
    }

    fn signaling(&self) -> Str {
        match (&*self.task_signal, &*self.task_signal_reason) {
            ("", "") => "Task being sent a signal".into(),
            ("", reason) => reason.into(),
            (signal, "") => format!("Task being sent signal {signal}").into(),
            (signal, reason) => format!("Task being sent signal {signal}: {reason}").into(),
        }
    }
}

fn or(text: &RareText, default: &str) -> Str {
    if text.is_empty() { default.into() } else { text.to_str() }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(events: Vec<TaskEvent>, expected: Expect) {
        let lines: Vec<String> = events
            .into_iter()
            .map(|mut event| {
                event.fill_display_message();
                format!("{}: {}\n", event.kind, event.display_message)
            })
            .collect();
        expected.assert_eq(&lines.concat());
    }

    fn event(kind: &str, fill: impl FnOnce(&mut TaskEvent)) -> TaskEvent {
        let mut event = TaskEvent { kind: kind.into(), ..Default::default() };
        fill(&mut event);
        event
    }

    #[test]
    fn every_task_event_type_has_a_display_message() {
        check(
            vec![
                event("Started", |_| {}),
                event("Driver Failure", |event| event.driver_error = "no such file".into()),
                event("Driver Failure", |_| {}),
                event("Killing", |event| event.kill_timeout = Dur::from_secs(5)),
                event("Terminated", |event| event.exit_code = 1),
                event("Terminated", |event| {
                    (event.exit_code, event.signal, event.message) = (137, 9, "oom".into());
                }),
                event("Restarting", |event| {
                    (event.start_delay, event.restart_reason) = (Dur::from_secs(15), WITHIN_POLICY.into());
                }),
                event("Restarting", |event| {
                    (event.start_delay, event.restart_reason) = (Dur::from_millis(1500), "asked".into())
                }),
                event("Sibling Task Failed", |event| event.failed_sibling = "db".into()),
                event("Signaling", |event| {
                    (event.task_signal, event.task_signal_reason) = ("hangup".into(), "template".into())
                }),
                event("Alloc Unhealthy", |event| event.message = "deadline".into()),
            ],
            expect![[r#"
                Started: Task started by client
                Driver Failure: no such file
                Driver Failure: Failed to start task
                Killing: Sent interrupt. Waiting 5s before force killing
                Terminated: Exit Code: 1
                Terminated: Exit Code: 137, Signal: 9, Exit Message: "oom"
                Restarting: Task restarting in 15s
                Restarting: asked - Task restarting in 1.5s
                Sibling Task Failed: Task's sibling "db" failed
                Signaling: Task being sent signal hangup: template
                Alloc Unhealthy: deadline
            "#]],
        );
    }

    #[test]
    fn existing_display_message_of_a_task_event_is_kept() {
        let mut event = event("Started", |event| event.display_message = "mine".into());
        event.fill_display_message();
        assert_eq!(event.display_message, "mine");
    }
}
