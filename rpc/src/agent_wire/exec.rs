//! Exec sessions over the wire: input as messages, output as JSON documents.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use songline_model::Blob;
use tokio::sync::mpsc;

use super::frames::next_payload;
use crate::message::{ExecMessage, ExecStdin, ExecTtySize};
use crate::net::{Channel, ChannelReader, ChannelWriter};
use crate::{ExecInput, ExecOutput, ExecSession, RpcError, SESSION_PIECES_MAX, msgpack};

/// Output of a command, as JSON on the wire.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    stdout: Option<Piece>,
    stderr: Option<Piece>,
    exited: bool,
    result: Option<Exit>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Piece {
    data: String,
    close: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Exit {
    exit_code: i32,
    signal: i32,
}

/// Runs a session over a streaming call whose request was sent. A refusal of the node comes through the session,
/// because a command that runs well may print nothing for long.
pub(super) fn begin(channel: Channel) -> ExecSession {
    let (input, said) = mpsc::channel(SESSION_PIECES_MAX);
    let (sender, output) = mpsc::channel(SESSION_PIECES_MAX);
    tokio::spawn(carry(channel, said, sender));
    ExecSession { input, output }
}

type Output = mpsc::Sender<Result<ExecOutput, RpcError>>;

async fn carry(channel: Channel, input: mpsc::Receiver<ExecInput>, output: Output) {
    let (reader, mut writer) = channel.split();
    let speak = async {
        // When the input has ended or failed, the output still has to be read. A lost connection ends the reading too.
        let _ = speak(&mut writer, input).await;
        std::future::pending().await
    };
    tokio::select! {
        () = listen(reader, &output) => {}
        () = speak => {}
        // Dropping both halves ends the call, and with it the command.
        () = output.closed() => {}
    }
}

/// Sends the caller's input. The end of the input closes the command's standard input.
async fn speak(writer: &mut ChannelWriter, mut input: mpsc::Receiver<ExecInput>) -> std::io::Result<()> {
    let mut closed = false;
    while let Some(piece) = input.recv().await {
        let message = match piece {
            ExecInput::Stdin(bytes) => stdin(Some(Blob(bytes.to_vec())), false),
            ExecInput::StdinClose => {
                closed = true;
                stdin(None, true)
            }
            ExecInput::TtySize { height, width } => {
                let tty_size = Some(ExecTtySize { height: height.into(), width: width.into() });
                ExecMessage { tty_size, ..ExecMessage::default() }
            }
        };
        say(writer, &message).await?;
    }
    if !closed {
        say(writer, &stdin(None, true)).await?;
    }
    Ok(())
}

fn stdin(data: Option<Blob>, close: bool) -> ExecMessage {
    ExecMessage { stdin: Some(ExecStdin { data, close }), ..ExecMessage::default() }
}

async fn say(writer: &mut ChannelWriter, message: &ExecMessage) -> std::io::Result<()> {
    writer.send(&msgpack::to_vec(message).map_err(std::io::Error::other)?).await
}

/// Receives the command's output until the command has exited or the session's receiver is dropped.
async fn listen(mut reader: ChannelReader, output: &Output) {
    loop {
        let pieces = match next_payload(&mut reader).await {
            // A session that ends without an exit code has failed.
            None => Err(RpcError::Lost("the session with the node has ended".to_owned())),
            Some(payload) => payload.and_then(|payload| read(&payload)),
        };
        let pieces = match pieces {
            Ok(pieces) => pieces,
            Err(error) => {
                let _ = output.send(Err(error)).await;
                return;
            }
        };
        for piece in pieces {
            let last = matches!(piece, ExecOutput::Exited { .. });
            if output.send(Ok(piece)).await.is_err() || last {
                return;
            }
        }
    }
}

fn read(payload: &[u8]) -> Result<Vec<ExecOutput>, RpcError> {
    let unread = |error: &dyn std::fmt::Display| RpcError::remote(format!("reading what a command says: {error}"));
    let said: Said = serde_json::from_slice(payload).map_err(|error| unread(&error))?;
    let bytes = |data: &str| STANDARD.decode(data).map(Bytes::from).map_err(|error| unread(&error));
    let mut pieces = Vec::new();
    for (piece, say, close) in [
        (said.stdout, ExecOutput::Stdout as fn(Bytes) -> ExecOutput, ExecOutput::StdoutClose),
        (said.stderr, ExecOutput::Stderr, ExecOutput::StderrClose),
    ] {
        let Some(piece) = piece else { continue };
        if !piece.data.is_empty() {
            pieces.push(say(bytes(&piece.data)?));
        }
        if piece.close {
            pieces.push(close);
        }
    }
    if said.exited {
        let Exit { exit_code, signal } = said.result.unwrap_or_default();
        pieces.push(ExecOutput::Exited { exit_code, signal });
    }
    Ok(pieces)
}
