//! Streams of nodes as they come over the wire: frames of files and logs, sessions, pieces of data.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use songline_model::{Blob, Str};
use songline_rpc::message::{Empty, ExecMessage, ExecStdin, ExecTtySize, StreamErrWrapper};
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_rpc::net::{Channel, ChannelReader};
use songline_rpc::{ExecInput, ExecOutput, ExecSession, RpcError, SESSION_PIECES_MAX, StreamFrame};
use tokio::sync::mpsc;

/// How many frames wait for whoever reads them before the node has to.
const FRAMES_MAX: usize = 16;

/// A frame as JSON has it.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Shown {
    data: String,
    file: Str,
    file_event: Str,
    offset: i64,
}

/// The next payload; `None` at the end.
async fn payload(reader: &mut ChannelReader) -> Option<Result<Bytes, RpcError>> {
    let message = match reader.next().await {
        Ok(message) => message?,
        Err(error) => return Some(Err(RpcError::Lost(error.to_string()))),
    };
    let message: StreamErrWrapper = match from_slice(&message) {
        Ok(message) => message,
        Err(error) => return Some(Err(RpcError::remote(error.on_wire(0)))),
    };
    match message.error {
        Some(error) => Some(Err(error.into())),
        None => Some(Ok(message.payload.unwrap_or_default().0.into())),
    }
}

/// Frames until they or their reader end.
pub(super) async fn of(channel: Channel) -> mpsc::Receiver<Result<StreamFrame, RpcError>> {
    let (told, frames) = mpsc::channel(FRAMES_MAX);
    tokio::spawn(async move {
        // The other half says to the node that somebody is there.
        let (mut reader, _writer) = channel.split();
        loop {
            let next = tokio::select! {
                next = payload(&mut reader) => next,
                () = told.closed() => return,
            };
            let Some(next) = next else { return };
            let frame = next.and_then(|payload| frame(&payload));
            let last = frame.is_err();
            if told.send(frame).await.is_err() || last {
                return;
            }
        }
    });
    frames
}

/// The same when the first of them is there; an error instead of it is the answer.
pub(super) async fn begun(
    mut frames: mpsc::Receiver<Result<StreamFrame, RpcError>>,
) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
    let first = match tokio::time::timeout(FIRST_WITHIN, frames.recv()).await {
        // A log that nobody writes to says nothing; that is no error.
        Err(_) => return Ok(frames),
        Ok(first) => first,
    };
    let (told, again) = mpsc::channel(FRAMES_MAX);
    match first {
        Some(Err(error)) => return Err(error),
        Some(Ok(frame)) => {
            tokio::spawn(async move {
                let mut next = Some(Ok(frame));
                while let Some(frame) = next {
                    if told.send(frame).await.is_err() {
                        return;
                    }
                    next = tokio::select! {
                        next = frames.recv() => next,
                        () = told.closed() => return,
                    };
                }
            });
        }
        None => {}
    }
    Ok(again)
}

/// How long a stream may take to say that it cannot be.
const FIRST_WITHIN: std::time::Duration = std::time::Duration::from_millis(500);

fn frame(payload: &[u8]) -> Result<StreamFrame, RpcError> {
    let bad = |why: String| RpcError::remote(format!("a frame that cannot be read: {why}"));
    let shown: Shown = serde_json::from_slice(payload).map_err(|error| bad(error.to_string()))?;
    let data = STANDARD.decode(shown.data).map_err(|error| bad(error.to_string()))?;
    Ok(StreamFrame { offset: shown.offset, data: data.into(), file: shown.file, file_event: shown.file_event })
}

/// Pieces of an allocation's data. An empty one is their end; without it they were broken off.
pub(super) fn pieces(channel: Channel) -> mpsc::Receiver<io::Result<Bytes>> {
    let (told, pieces) = mpsc::channel(FRAMES_MAX);
    tokio::spawn(async move {
        let (mut reader, _writer) = channel.split();
        loop {
            let piece = match payload(&mut reader).await {
                Some(Ok(piece)) if piece.is_empty() => return,
                Some(Ok(piece)) => Ok(piece),
                Some(Err(error)) => Err(io::Error::other(error)),
                None => Err(io::ErrorKind::UnexpectedEof.into()),
            };
            let last = piece.is_err();
            if told.send(piece).await.is_err() || last {
                return;
            }
        }
    });
    pieces
}

/// What a command says, as JSON.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    stdout: Option<Piece>,
    stderr: Option<Piece>,
    exited: bool,
    result: Ended,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Piece {
    data: String,
    close: bool,
}

/// How it ended; what is not said is zero.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Ended {
    exit_code: i32,
    signal: i32,
}

/// A session in a task, over a channel.
pub(super) fn session(channel: Channel) -> ExecSession {
    let (input, mut said) = mpsc::channel(SESSION_PIECES_MAX);
    let (told, output) = mpsc::channel(SESSION_PIECES_MAX);
    let (mut reader, mut writer) = channel.split();
    // Whichever ends first, the other has nothing to do any more: dropping both is the end of the call.
    tokio::spawn(async move {
        let write = async {
            let setup = ExecMessage { setup: Some(Empty::default()), ..ExecMessage::default() };
            let mut next = Some(setup);
            while let Some(message) = next {
                let Ok(bytes) = to_vec(&message) else { return };
                if writer.send(&bytes).await.is_err() {
                    return;
                }
                next = said.recv().await.map(message_of);
            }
            let close = ExecStdin { data: None, close: true };
            if let Ok(bytes) = to_vec(&ExecMessage { stdin: Some(close), ..ExecMessage::default() }) {
                // The command may have ended: then there is nothing to close.
                let _ = writer.send(&bytes).await;
            }
            std::future::pending::<()>().await;
        };
        let read = async {
            while let Some(next) = payload(&mut reader).await {
                match next.and_then(|payload| said_by(&payload)) {
                    Ok(pieces) => {
                        for piece in pieces {
                            let last = matches!(piece, ExecOutput::Exited { .. });
                            if told.send(Ok(piece)).await.is_err() || last {
                                return;
                            }
                        }
                    }
                    Err(error) => {
                        // Whoever does not listen any more need not know.
                        let _ = told.send(Err(error)).await;
                        return;
                    }
                }
            }
            let _ = told.send(Err(RpcError::Lost("the session was broken off".into()))).await;
        };
        tokio::select! {
            () = write => {}
            () = read => {}
            () = told.closed() => {}
        }
    });
    ExecSession { input, output }
}

fn message_of(input: ExecInput) -> ExecMessage {
    match input {
        ExecInput::Stdin(bytes) => {
            ExecMessage { stdin: Some(ExecStdin { data: Some(Blob(bytes.to_vec())), close: false }), ..ExecMessage::default() }
        }
        ExecInput::StdinClose => ExecMessage { stdin: Some(ExecStdin { data: None, close: true }), ..ExecMessage::default() },
        ExecInput::TtySize { height, width } => {
            let size = ExecTtySize { height: i32::from(height), width: i32::from(width) };
            ExecMessage { tty_size: Some(size), ..ExecMessage::default() }
        }
    }
}

fn said_by(payload: &[u8]) -> Result<Vec<ExecOutput>, RpcError> {
    let bad = |why: String| RpcError::remote(format!("output that cannot be read: {why}"));
    let said: Said = serde_json::from_slice(payload).map_err(|error| bad(error.to_string()))?;
    let mut pieces = Vec::new();
    let decode = |text: String| STANDARD.decode(text).map(Bytes::from).map_err(|error| bad(error.to_string()));
    if let Some(Piece { data, close }) = said.stdout {
        if !data.is_empty() {
            pieces.push(ExecOutput::Stdout(decode(data)?));
        }
        if close {
            pieces.push(ExecOutput::StdoutClose);
        }
    }
    if let Some(Piece { data, close }) = said.stderr {
        if !data.is_empty() {
            pieces.push(ExecOutput::Stderr(decode(data)?));
        }
        if close {
            pieces.push(ExecOutput::StderrClose);
        }
    }
    if said.exited {
        pieces.push(ExecOutput::Exited { exit_code: said.result.exit_code, signal: said.result.signal });
    }
    Ok(pieces)
}
