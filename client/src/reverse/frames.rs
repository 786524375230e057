//! Frames of files and logs as servers read them: JSON in wrapped payloads, or bare bytes.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use songline_rpc::message::{FileSystemLogs, FileSystemStream, StreamErrWrapper};
use songline_rpc::net::Channel;
use songline_rpc::{Origin, ReadFile, ReadLogs, RpcError, StreamFrame};
use tokio::sync::mpsc;

use super::encoded;

/// Frames of a node's stream.
pub(super) type Frames = mpsc::Receiver<Result<StreamFrame, RpcError>>;

/// JSON form of a frame; empty members are left out, so that a heartbeat is `{}`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Shown<'a> {
    #[serde(skip_serializing_if = "String::is_empty")]
    data: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    file: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    file_event: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    offset: i64,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

pub(super) fn logs(ask: FileSystemLogs) -> Result<ReadLogs, RpcError> {
    let origin = origin(&ask.origin)?;
    Ok(ReadLogs {
        alloc: ask.alloc_id,
        task: ask.task,
        kind: ask.log_type,
        offset: ask.offset,
        origin,
        follow: ask.follow,
    })
}

pub(super) fn file(ask: FileSystemStream) -> Result<ReadFile, RpcError> {
    let origin = origin(&ask.origin)?;
    let limit = u64::try_from(ask.limit).unwrap_or(0);
    Ok(ReadFile { alloc: ask.alloc_id, path: ask.path, offset: ask.offset, origin, limit, follow: ask.follow })
}

fn origin(word: &str) -> Result<Origin, RpcError> {
    match word {
        "" | "start" => Ok(Origin::Start),
        "end" => Ok(Origin::End),
        _ => Err(RpcError::Coded { code: 400, text: "origin must be start or end".to_owned() }),
    }
}

/// Sends frames until their source or the reader ends.
pub(super) async fn send(channel: Channel, mut frames: Frames, plain: bool) -> io::Result<()> {
    let (mut reader, mut writer) = channel.split();
    loop {
        let frame = tokio::select! {
            frame = frames.recv() => frame,
            // Readers send nothing on a stream of frames, so any message ends it.
            _ = reader.next() => return Ok(()),
        };
        let wrapped = match frame {
            None => return writer.finish().await,
            Some(Err(error)) => {
                writer.send(&wrapped(&StreamErrWrapper::failed(&error))?).await?;
                return writer.finish().await;
            }
            Some(Ok(frame)) if plain && frame.data.is_empty() => continue,
            Some(Ok(frame)) if plain => StreamErrWrapper::payload(frame.data.to_vec()),
            Some(Ok(frame)) => StreamErrWrapper::payload(json(&frame)?),
        };
        writer.send(&self::wrapped(&wrapped)?).await?;
    }
}

/// Sends pieces of a file as bare payloads.
pub(super) async fn send_pieces(mut channel: Channel, mut pieces: mpsc::Receiver<io::Result<Bytes>>) -> io::Result<()> {
    while let Some(piece) = pieces.recv().await {
        match piece {
            Ok(bytes) => channel.send(&wrapped(&StreamErrWrapper::payload(bytes.to_vec()))?).await?,
            Err(error) => return fail(&mut channel, &RpcError::Remote(error.to_string())).await,
        }
    }
    // An empty payload marks the end, which a broken connection could not be told from otherwise.
    channel.send(&wrapped(&StreamErrWrapper::payload(Vec::new()))?).await?;
    channel.split().1.finish().await
}

/// Ends a stream with an error.
pub(super) async fn fail(channel: &mut Channel, error: &RpcError) -> io::Result<()> {
    channel.send(&wrapped(&StreamErrWrapper::failed(error))?).await
}

pub(super) fn wrapped(message: &StreamErrWrapper) -> io::Result<Bytes> {
    encoded(message).map_err(io::Error::other)
}

fn json(frame: &StreamFrame) -> io::Result<Vec<u8>> {
    let shown = Shown {
        data: STANDARD.encode(&frame.data),
        file: &frame.file,
        file_event: &frame.file_event,
        offset: frame.offset,
    };
    serde_json::to_vec(&shown).map_err(io::Error::other)
}
