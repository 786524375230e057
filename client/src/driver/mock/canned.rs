//! Simulated commands in a mock task: output and exit code come from its `exec_command` block, or the command echoes
//! its input. Scripts that the agent runs succeed and print what was run.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use songline_model::Dur;
use songline_rpc::{ExecInput, ExecOutput};

use super::{Options, Output, options};
use crate::driver::session::{Command, CommandEnd, Ends};

/// Command that prints its input.
const SHOW_INPUT: &str = "showinput";

/// Canned result of every command.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Canned {
    run_for: Dur,
    exit_code: i64,
    exit_signal: i64,
    exit_err_msg: String,
    stdout: Output,
    stderr: Output,
}

impl Canned {
    /// Reads the block: the options of a task for its running time, output and exit code.
    pub fn read(block: &Map<String, Value>) -> Result<Self, String> {
        let Options { run_for, exit_code, exit_signal, exit_err_msg, stdout, stderr, .. } = options(block)?;
        Ok(Self { run_for, exit_code, exit_signal, exit_err_msg, stdout, stderr })
    }
}

/// Simulates a command.
pub(super) async fn run(canned: Option<&Canned>, command: Command, mut ends: Ends) -> Result<CommandEnd, String> {
    let Some(canned) = canned else { return Err("no exec command is configured".to_owned()) };
    if command.argv.first().is_some_and(|program| program == SHOW_INPUT) {
        return Ok(show_input(command.tty, &mut ends).await);
    }
    let print = |output: &Output, piece: fn(Bytes) -> ExecOutput, close: ExecOutput| {
        let (output, ends) = (output.clone(), &ends);
        async move {
            let bytes = Bytes::from(output.string);
            for nth in 0..=output.repeat {
                if nth > 0 {
                    tokio::time::sleep(output.repeat_duration.to_std()).await;
                }
                if !bytes.is_empty() {
                    ends.say(piece(bytes.clone())).await;
                }
            }
            close
        }
    };
    let ((), stdout, stderr) = tokio::join!(
        tokio::time::sleep(canned.run_for.to_std()),
        print(&canned.stdout, ExecOutput::Stdout, ExecOutput::StdoutClose),
        print(&canned.stderr, ExecOutput::Stderr, ExecOutput::StderrClose),
    );
    ends.say(stdout).await;
    ends.say(stderr).await;
    if !canned.exit_err_msg.is_empty() {
        return Err(canned.exit_err_msg.clone());
    }
    let number = |from: i64| i32::try_from(from).unwrap_or(i32::MAX);
    Ok(CommandEnd { exit_code: number(canned.exit_code), signal: number(canned.exit_signal) })
}

/// Simulates a script that the agent runs for the task.
pub(super) async fn echo(task: &str, command: Command, ends: Ends) -> Result<CommandEnd, String> {
    let argv: Vec<String> = command.argv.iter().map(|word| format!("{word:?}")).collect();
    ends.say(ExecOutput::Stdout(format!("Exec({task:?}, [{}])", argv.join(" ")).into())).await;
    ends.say(ExecOutput::StdoutClose).await;
    ends.say(ExecOutput::StderrClose).await;
    Ok(CommandEnd::default())
}

/// Prints the input once the input has ended.
async fn show_input(tty: bool, ends: &mut Ends) -> CommandEnd {
    let mut shown = format!("TTY: {tty}\nStdin:\n").into_bytes();
    while let Some(said) = ends.input.recv().await {
        match said {
            ExecInput::Stdin(bytes) if shown.len() + bytes.len() <= INPUT_BYTES_MAX => shown.extend_from_slice(&bytes),
            ExecInput::Stdin(_) | ExecInput::TtySize { .. } => {}
            ExecInput::StdinClose => break,
        }
    }
    shown.push(b'\n');
    ends.say(ExecOutput::Stdout(shown.into())).await;
    ends.say(ExecOutput::StdoutClose).await;
    ends.say(ExecOutput::StderrClose).await;
    CommandEnd::default()
}

/// Largest part of the input that is printed, in bytes; the rest is dropped.
const INPUT_BYTES_MAX: usize = 64 << 10;
