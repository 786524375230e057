//! Wire form of a session's messages: one JSON object each.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use songline_lang::go_json;
use songline_rpc::{ExecInput, ExecOutput};

/// A message of the caller.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "ExecTaskStreamingRequestMsg")]
struct Said {
    stdin: Option<Stdin>,
    tty_size: Option<TtySize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "ExecTaskStreamingIOOperation")]
struct Stdin {
    data: String,
    close: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "ExecTaskStreamingRequest_TerminalSize")]
struct TtySize {
    height: i64,
    width: i64,
}

/// First message of a caller that cannot set headers.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "wsHandshakeMessage")]
struct Handshake {
    version: i64,
    auth_token: String,
}

const NAMES: go_json::Names<'static> = go_json::Names { package: "drivers", root: None, fields: &[] };

/// Inputs in a message, in the order in which they take effect. An empty message only shows that the caller is alive.
pub(super) fn read(message: &[u8]) -> Result<Vec<ExecInput>, String> {
    let said: Said = go_json::from_slice_named(message, NAMES).map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    if let Some(size) = said.tty_size {
        let clamped = |cells: i64| u16::try_from(cells.max(0)).unwrap_or(u16::MAX);
        all.push(ExecInput::TtySize { height: clamped(size.height), width: clamped(size.width) });
    }
    if let Some(stdin) = said.stdin {
        if !stdin.data.is_empty() {
            let bytes = STANDARD.decode(&stdin.data).map_err(|error| format!("illegal base64 data: {error}"))?;
            all.push(ExecInput::Stdin(bytes.into()));
        }
        if stdin.close {
            all.push(ExecInput::StdinClose);
        }
    }
    Ok(all)
}

/// The secret in a handshake message.
pub(super) fn read_handshake(message: &[u8]) -> Result<String, String> {
    let said: Handshake = go_json::from_slice(message).map_err(|error| error.to_string())?;
    if said.version == 1 { Ok(said.auth_token) } else { Err(format!("unexpected handshake value: {}", said.version)) }
}

/// The message for an output of the command.
pub(super) fn text(output: &ExecOutput) -> String {
    let message = match output {
        ExecOutput::Stdout(bytes) => json!({"stdout": {"data": STANDARD.encode(bytes)}}),
        ExecOutput::Stderr(bytes) => json!({"stderr": {"data": STANDARD.encode(bytes)}}),
        ExecOutput::StdoutClose => json!({"stdout": {"close": true}}),
        ExecOutput::StderrClose => json!({"stderr": {"close": true}}),
        // A signal shows in the code alone, which is then 128 and its number.
        ExecOutput::Exited { exit_code: 0, signal: _ } => json!({"exited": true, "result": {}}),
        ExecOutput::Exited { exit_code, signal: _ } => json!({"exited": true, "result": {"exit_code": exit_code}}),
    };
    message.to_string()
}
