//! An exec session as servers speak it: input messages in the wire's form, pieces of output as JSON in wrapped
//! payloads.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use songline_rpc::message::{AllocationsExec, ExecMessage, StreamErrWrapper};
use songline_rpc::net::{Channel, ChannelReader};
use songline_rpc::{ExecCommand, ExecInput, ExecOutput, ExecSession, RpcError, msgpack};
use tokio::sync::mpsc;

use super::frames::wrapped;

pub(super) fn command(ask: AllocationsExec) -> Result<ExecCommand, RpcError> {
    let command: Vec<String> = ask.cmd.unwrap_or_default().iter().map(ToString::to_string).collect();
    if ask.task.is_empty() {
        return Err(RpcError::Coded { code: 400, text: "missing task name".to_owned() });
    }
    if command.is_empty() {
        return Err(RpcError::Coded { code: 400, text: "command is not present".to_owned() });
    }
    Ok(ExecCommand { alloc: ask.alloc_id, task: ask.task, command, tty: ask.tty })
}

/// Copies both directions until the command has ended or the server has disconnected.
pub(super) async fn run(channel: Channel, session: ExecSession) -> io::Result<()> {
    let ExecSession { input, mut output } = session;
    let (reader, mut writer) = channel.split();
    let gone = listen(reader, input);
    tokio::pin!(gone);
    loop {
        let said = tokio::select! {
            said = output.recv() => said,
            // Dropping the output ends the command.
            () = &mut gone => return Ok(()),
        };
        let Some(said) = said else { return writer.finish().await };
        let last = matches!(said, Err(_) | Ok(ExecOutput::Exited { .. }));
        let message = match said {
            Ok(output) => StreamErrWrapper::payload(document(&output).to_string().into_bytes()),
            Err(error) => StreamErrWrapper::failed(&error),
        };
        writer.send(&wrapped(&message)?).await?;
        if last {
            return writer.finish().await;
        }
    }
}

/// Forwards the caller's input. Returns when the caller has disconnected, or sent a malformed message.
async fn listen(mut reader: ChannelReader, input: mpsc::Sender<ExecInput>) {
    while let Ok(Some(value)) = reader.next().await {
        let Ok(message) = msgpack::from_slice::<ExecMessage>(&value) else { return };
        let mut said = Vec::new();
        if let Some(stdin) = message.stdin {
            if let Some(data) = stdin.data.filter(|data| !data.0.is_empty()) {
                said.push(ExecInput::Stdin(data.0.into()));
            }
            if stdin.close {
                said.push(ExecInput::StdinClose);
            }
        }
        if let Some(size) = message.tty_size {
            let cells = |count: i32| u16::try_from(count).unwrap_or(0);
            said.push(ExecInput::TtySize { height: cells(size.height), width: cells(size.width) });
        }
        for piece in said {
            // Input of a command that has stopped reading is dropped; the loop still detects that the caller
            // disconnects.
            let _ = input.send(piece).await;
        }
    }
}

/// JSON document of a piece of output.
fn document(output: &ExecOutput) -> Value {
    match output {
        ExecOutput::Stdout(bytes) => json!({ "stdout": { "data": STANDARD.encode(bytes) } }),
        ExecOutput::Stderr(bytes) => json!({ "stderr": { "data": STANDARD.encode(bytes) } }),
        ExecOutput::StdoutClose => json!({ "stdout": { "close": true } }),
        ExecOutput::StderrClose => json!({ "stderr": { "close": true } }),
        ExecOutput::Exited { exit_code: 0, signal: 0 } => json!({ "exited": true, "result": {} }),
        ExecOutput::Exited { exit_code, signal: 0 } => json!({ "exited": true, "result": { "exit_code": exit_code } }),
        ExecOutput::Exited { exit_code, signal } => {
            json!({ "exited": true, "result": { "exit_code": exit_code, "signal": signal } })
        }
    }
}
