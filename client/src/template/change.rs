//! Consequences of templates that were rendered again: a restart, signals, scripts.

use std::sync::Arc;
use std::time::Duration;

use songline_model::{ChangeScript, Str, Template};
use tokio::sync::mpsc;

use crate::driver::{Command, Ends, Process};

/// Consequences of a change of some templates.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Change {
    /// Whether the task restarts, which makes the rest needless.
    pub restart: bool,
    /// Signals, each once.
    pub signals: Vec<Str>,
    /// Scripts.
    pub scripts: Vec<ChangeScript>,
}

impl Change {
    /// Consequences of a change of these templates.
    pub fn of<'t>(templates: impl IntoIterator<Item = &'t Template>) -> Self {
        let mut change = Self::default();
        for template in templates {
            match template.change_mode.as_str() {
                "noop" => {}
                "signal" => {
                    if !change.signals.contains(&template.change_signal) {
                        change.signals.push(template.change_signal.clone());
                    }
                }
                "script" => change.scripts.extend(template.change_script.clone()),
                _ => change.restart = true,
            }
        }
        if change.restart { Self { restart: true, ..Self::default() } } else { change }
    }
}

/// Outcome of a script: the text of the task's event, and whether it succeeded.
pub(super) async fn run(script: &ChangeScript, argv: Vec<String>, process: Arc<dyn Process>) -> (String, bool) {
    let (named, args) = (&script.command, argv.get(1..).unwrap_or_default().join(" "));
    let (_input, from_caller) = mpsc::channel(1);
    let (to_caller, mut output) = mpsc::channel(16);
    let ends = Ends { input: from_caller, output: to_caller };
    let drained = async { while output.recv().await.is_some() {} };
    let timeout = if script.timeout.nanos() > 0 { script.timeout.to_std() } else { Duration::from_secs(5) };
    let command = Command { argv: argv.clone(), tty: false, in_task_dir: true };
    let ended = tokio::time::timeout(timeout, process.exec(command, ends));
    // Output that nobody reads would block the script.
    let (ended, ()) = futures_util::future::join(ended, drained).await;
    let code = match ended {
        Ok(Ok(end)) => end.exit_code,
        Ok(Err(error)) => {
            // The event already says that the script could not be run.
            let error = error.replacen("failed to start command: ", "", 1);
            let text = format!(
                "Template failed to run script {named} with arguments [{args}] on change: {error} Exit code: 0"
            );
            return (text, false);
        }
        Err(_) => -1,
    };
    if code != 0 {
        let text = format!(
            "Template ran script {named} with arguments [{args}] on change but it exited with code code: {code}"
        );
        return (text, false);
    }
    (format!("Template successfully ran script {named} with arguments: [{args}]. Exit code: 0"), true)
}
