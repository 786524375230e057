//! The conversation of a session. One async task reads and writes the websocket, so that two writes never overlap. A
//! command that does not read its input blocks its caller, and a caller that does not read blocks the command;
//! neither side's data is buffered without bound.

use std::collections::VecDeque;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use axum::http::StatusCode;
use songline_rpc::{ExecOutput, ExecSession, RpcError};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::frame;
use crate::error::ApiError;

/// Longest time for the handshake message that a caller has announced.
const HANDSHAKE_MAX: Duration = Duration::from_secs(30);
/// Longest wait for the answer to a close frame.
const CLOSE_MAX: Duration = Duration::from_secs(1);
/// Silence of a caller after which it is pinged: either it answers, or its connection breaks.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Interval of the checks for silence and rights. While input waits for the command, the caller is not read, so not
/// even its end is noticed; then it is pinged at every check.
const LOOK: Duration = Duration::from_secs(5);
/// Bytes of text that fit into a close frame.
const REASON_BYTES_MAX: usize = 123;

/// Close code for a status. It only tells whether the server is at fault.
pub(super) fn code_of(status: StatusCode) -> u16 {
    if status == StatusCode::INTERNAL_SERVER_ERROR { close_code::ERROR } else { close_code::POLICY }
}

/// Reads the first message of a caller that sends its secret there. The error is the text of the refusal.
pub(super) async fn handshake(socket: &mut WebSocket) -> Result<String, String> {
    let first = async {
        loop {
            match socket.recv().await {
                Some(Ok(Message::Text(text))) => return frame::read_handshake(text.as_bytes()),
                Some(Ok(Message::Binary(bytes))) => return frame::read_handshake(&bytes),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Err("no handshake was sent".to_owned()),
                Some(Err(error)) => return Err(error.to_string()),
            }
        }
    };
    tokio::time::timeout(HANDSHAKE_MAX, first).await.unwrap_or_else(|_| Err("no handshake was sent".to_owned()))
}

/// Runs a session to its end. It ends early when the caller loses its rights.
pub(super) async fn talk(
    mut socket: WebSocket,
    session: ExecSession,
    shutdown: &CancellationToken,
    still_may: impl Fn() -> Result<(), ApiError>,
) {
    let ExecSession { input, mut output } = session;
    // Inputs that the command has no room for yet. While there are any, no further message is read.
    let mut waiting = VecDeque::new();
    let mut heard_at = Instant::now();
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (code, reason) = loop {
        tokio::select! {
            () = shutdown.cancelled() => break (close_code::AWAY, "the agent is shutting down".to_owned()),
            said = output.recv() => match said {
                Some(Ok(piece)) => {
                    if socket.send(Message::Text(frame::text(&piece).into())).await.is_err() {
                        return;
                    }
                    if matches!(piece, ExecOutput::Exited { .. }) {
                        break (close_code::NORMAL, String::new());
                    }
                }
                Some(Err(error)) => break close_of(error),
                None => break (close_code::ERROR, "the session was lost".to_owned()),
            },
            message = socket.recv(), if waiting.is_empty() => {
                heard_at = Instant::now();
                let read = match message {
                    Some(Ok(Message::Text(text))) => frame::read(text.as_bytes()),
                    Some(Ok(Message::Binary(bytes))) => frame::read(&bytes),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_))) => break (close_code::NORMAL, String::new()),
                    // The message is too large, or violates the protocol.
                    Some(Err(error)) => break (close_code::POLICY, error.to_string()),
                    None => return,
                };
                match read {
                    Ok(all) => waiting.extend(all),
                    Err(error) => break (close_code::ERROR, error),
                }
            },
            place = input.reserve(), if !waiting.is_empty() => match (place, waiting.pop_front()) {
                (Ok(place), Some(next)) => place.send(next),
                // The command no longer reads its input; its exit is about to be reported.
                (Ok(_) | Err(_), _) => waiting.clear(),
            },
            _ = look.tick() => {
                if let Err(error) = still_may() {
                    break (code_of(error.code), error.text.into_owned());
                }
                let asks = !waiting.is_empty() || heard_at.elapsed() >= SILENCE_MAX;
                if asks && socket.send(Message::Ping(bytes::Bytes::new())).await.is_err() {
                    return;
                }
            },
        }
    };
    // Dropping both channels ends the command first.
    drop((input, output));
    close(socket, code, &reason).await;
}

fn close_of(error: RpcError) -> (u16, String) {
    let error = ApiError::from(error);
    (code_of(error.code), error.text.into_owned())
}

/// Sends a close frame and waits briefly for the answer: cutting a connection at once may lose the last message.
pub(super) async fn close(mut socket: WebSocket, code: u16, reason: &str) {
    let last = Message::Close(Some(CloseFrame { code, reason: cut(reason).into() }));
    let closing = async {
        if socket.send(last).await.is_ok() {
            while let Some(Ok(_)) = socket.recv().await {}
        }
    };
    // The session is over whether or not the answer came.
    let _ = tokio::time::timeout(CLOSE_MAX, closing).await;
}

/// As much of a text as fits into a close frame.
fn cut(reason: &str) -> &str {
    let mut end = reason.len().min(REASON_BYTES_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    &reason[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_reason_is_truncated_at_a_character_boundary() {
        assert_eq!(cut("short"), "short");
        let long = "ü".repeat(100);
        assert_eq!(cut(&long), "ü".repeat(61));
    }

    #[test]
    fn only_internal_errors_close_an_exec_session_with_code_1011() {
        let codes = [
            StatusCode::INTERNAL_SERVER_ERROR,
            StatusCode::BAD_REQUEST,
            StatusCode::NOT_FOUND,
            StatusCode::NOT_IMPLEMENTED,
        ];
        assert_eq!(codes.map(code_of), [1011, 1008, 1008, 1008]);
    }
}
