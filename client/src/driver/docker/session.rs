//! A command that a caller runs in a container.

use std::sync::Arc;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, ResizeExecOptions, StartExecOptions, StartExecResults};
use futures_util::{Stream, StreamExt};
use rustix::process::{Pid, Signal, kill_process};
use songline_rpc::{ExecInput, ExecOutput};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::engine::{Engine, Failure};
use crate::driver::{Command, CommandEnd, Ends};
use crate::executor::session::kill_session;

/// Character that a terminal interprets as the end of input.
const END_OF_TRANSMISSION: &[u8] = &[4];
/// Number of times that the engine is asked for the exit code of a command whose output has ended, and the pause
/// between them.
const END_TRIES: u32 = 50;
const END_PAUSE: Duration = Duration::from_millis(100);

/// Runs a command. Dropping the future kills the command if the engine is on this machine.
pub(super) async fn run(
    engine: Arc<Engine>,
    container: &str,
    command: Command,
    ends: Ends,
) -> Result<CommandEnd, String> {
    let tty = command.tty;
    let options = CreateExecOptions {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(tty),
        cmd: Some(command.argv),
        ..CreateExecOptions::default()
    };
    let failed = |failure: Failure| format!("failed to start command: {failure}");
    let client = engine.client().await.map_err(failed)?;
    let made = client.create_exec(container, options).await.map_err(|error| failed(error.into()))?;
    let mut guard = Guard { engine: Arc::clone(&engine), exec: made.id.clone(), runs: true };
    let options = StartExecOptions { detach: false, tty, output_capacity: None };
    let started = client.start_exec(&made.id, Some(options)).await.map_err(|error| failed(error.into()))?;
    if let StartExecResults::Attached { output, input } = started {
        let Ends { input: mut said, output: heard } = ends;
        let to = Ends { input: mpsc::channel(1).1, output: heard };
        let copying = tell(output, &to);
        let writing = async {
            write(&engine, &made.id, &mut said, input, tty).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            copied = copying => copied.map_err(|failure| failure.to_string())?,
            () = writing => unreachable!("it is pending for ever"),
        }
        to.say(ExecOutput::StdoutClose).await;
        if !tty {
            to.say(ExecOutput::StderrClose).await;
        }
    }
    let exit_code = exit_code(&engine, &made.id).await.map_err(|failure| failure.to_string())?;
    guard.runs = false;
    let signal = if exit_code > 128 && exit_code <= 128 + 64 { exit_code - 128 } else { 0 };
    Ok(CommandEnd { exit_code, signal })
}

/// Sends the output to the caller.
async fn tell(
    mut output: impl Stream<Item = Result<LogOutput, bollard::errors::Error>> + Unpin,
    to: &Ends,
) -> Result<(), Failure> {
    while let Some(piece) = output.next().await {
        match piece? {
            LogOutput::StdErr { message } => to.say(ExecOutput::Stderr(message)).await,
            LogOutput::StdOut { message } | LogOutput::Console { message } | LogOutput::StdIn { message } => {
                to.say(ExecOutput::Stdout(message)).await;
            }
        }
    }
    Ok(())
}

/// Passes the caller's input on.
async fn write(
    engine: &Engine,
    exec: &str,
    said: &mut mpsc::Receiver<ExecInput>,
    input: impl AsyncWrite + Unpin,
    tty: bool,
) {
    let mut input = Some(input);
    while let Some(what) = said.recv().await {
        let Some(to) = &mut input else { continue };
        match what {
            ExecInput::Stdin(bytes) => {
                // The command may have closed its input: later input is dropped.
                if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
                    input = None;
                }
            }
            ExecInput::StdinClose if tty => {
                let _ = to.write_all(END_OF_TRANSMISSION).await;
                let _ = to.flush().await;
            }
            ExecInput::StdinClose => {
                let _ = to.shutdown().await;
                input = None;
            }
            ExecInput::TtySize { height, width } => {
                let Ok(client) = engine.client().await else { continue };
                if let Err(error) = client.resize_exec(exec, ResizeExecOptions { height, width }).await {
                    tracing::debug!(%error, "setting the size of a terminal");
                }
            }
        }
    }
}

/// Exit code of a command whose output has ended: the engine may notice its end a moment later.
async fn exit_code(engine: &Engine, exec: &str) -> Result<i32, Failure> {
    let client = engine.client().await?;
    for _ in 0..END_TRIES {
        let found = client.inspect_exec(exec).await?;
        if let (Some(false), Some(code)) = (found.running, found.exit_code) {
            return Ok(i32::try_from(code).unwrap_or(-1));
        }
        tokio::time::sleep(END_PAUSE).await;
    }
    Err(Failure::new("the command closed its output and still runs"))
}

/// Kills the command when its caller is gone.
struct Guard {
    engine: Arc<Engine>,
    exec: String,
    runs: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.runs || !self.engine.is_local() {
            return;
        }
        let (engine, exec) = (Arc::clone(&self.engine), std::mem::take(&mut self.exec));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let Ok(client) = engine.client().await else { return };
            let Ok(found) = client.inspect_exec(&exec).await else { return };
            let pid = found.pid.filter(|_| found.running == Some(true)).and_then(|pid| i32::try_from(pid).ok());
            let Some(leader) = pid.and_then(Pid::from_raw) else { return };
            let end = move || {
                kill_session(leader, None);
                let _ = kill_process(leader, Signal::KILL);
            };
            let _ = tokio::task::spawn_blocking(end).await;
        });
    }
}
