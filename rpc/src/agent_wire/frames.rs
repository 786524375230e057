//! Frames of files and logs, and pieces of a tar, as a node streams them.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use songline_model::Str;
use tokio::sync::mpsc;

use crate::message::StreamErrWrapper;
use crate::net::{Channel, ChannelReader};
use crate::{RpcError, StreamFrame, msgpack};

/// Frames or pieces buffered for the reader; then the node has to wait.
const PIECES_MAX: usize = 16;

/// A frame as JSON; empty fields are left out.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Shown {
    data: String,
    file: Str,
    file_event: Str,
    offset: i64,
}

/// The next payload from the node; `None` at the end.
pub(super) async fn next_payload(reader: &mut ChannelReader) -> Option<Result<Bytes, RpcError>> {
    let value = match reader.next().await {
        Ok(value) => value?,
        Err(error) => return Some(Err(RpcError::Lost(error.to_string()))),
    };
    let message: StreamErrWrapper = match msgpack::from_slice(&value) {
        Ok(message) => message,
        Err(error) => return Some(Err(RpcError::remote(error.on_wire(0)))),
    };
    Some(match message.error {
        Some(error) => Err(error.into()),
        None => Ok(message.payload.unwrap_or_default().0.into()),
    })
}

/// Receives frames until the node ends the stream or the receiver is dropped. A refusal is returned at once, because it
/// is the first message.
pub(super) async fn receive(channel: Channel) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
    receive_each(channel, |next| next.map(|payload| payload.and_then(|payload| frame(&payload)))).await
}

/// Receives pieces of a tar until an empty one. An end without an empty piece is an error, because a broken connection
/// looks like an end too.
pub(super) async fn receive_pieces(channel: Channel) -> Result<mpsc::Receiver<io::Result<Bytes>>, RpcError> {
    let piece = |next| match next {
        Some(Ok(payload)) if Bytes::is_empty(&payload) => None,
        Some(payload) => Some(payload.map_err(io::Error::other)),
        None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
    };
    receive_each(channel, piece).await
}

/// Maps each payload, and the end of the stream, with `said`, and passes the results on. Ends when `said` returns
/// `None` or an error, or the receiver is dropped.
async fn receive_each<T, E>(
    channel: Channel,
    said: impl Fn(Option<Result<Bytes, RpcError>>) -> Option<Result<T, E>> + Send + 'static,
) -> Result<mpsc::Receiver<Result<T, E>>, RpcError>
where
    T: Send + 'static,
    E: Send + 'static,
{
    let (mut reader, writer) = channel.split();
    let mut next = next_payload(&mut reader).await.transpose()?.map(Ok);
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    tokio::spawn(async move {
        while let Some(said) = said(next) {
            let last = said.is_err();
            if sender.send(said).await.is_err() || last {
                break;
            }
            next = tokio::select! {
                next = next_payload(&mut reader) => next,
                () = sender.closed() => break,
            };
        }
        // Keep the writing half until here: the node ends the call when it is closed.
        drop(writer);
    });
    Ok(receiver)
}

fn frame(payload: &[u8]) -> Result<StreamFrame, RpcError> {
    let unread = |error: &dyn std::fmt::Display| RpcError::remote(format!("reading a frame of a file: {error}"));
    let Shown { data, file, file_event, offset } = serde_json::from_slice(payload).map_err(|error| unread(&error))?;
    let data = STANDARD.decode(data).map_err(|error| unread(&error))?.into();
    Ok(StreamFrame { offset, data, file, file_event })
}
