//! Streaming one file: from an offset, to its end or for ever, telling when it is cut short or removed.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use songline_model::Str;
use songline_rpc::{Origin, ReadFile, RpcError, StreamFrame};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Largest piece in one frame, in bytes.
pub(super) const FRAME_BYTES_MAX: usize = 64 * 1024;
/// How often a file is looked at that may grow.
pub(super) const POLL: Duration = Duration::from_millis(100);
/// Polls without news after which a heartbeat is due: 1 s.
pub(super) const HEARTBEAT_POLLS: u32 = 10;
/// The words for a file that became shorter: reading starts over.
pub(super) const TRUNCATED: &str = "file truncated";
/// The words for a file that is gone: the stream ends.
const DELETED: &str = "file deleted";

pub(super) type To = mpsc::Sender<Result<StreamFrame, RpcError>>;

/// Streams a file until its end, its limit, or the reader's leaving.
pub(super) async fn file(cancel: CancellationToken, path: PathBuf, shown: Str, read: ReadFile, to: To) {
    let streaming = stream(&path, &shown, &read, &to);
    let outcome = tokio::select! {
        () = cancel.cancelled() => return,
        // Nobody reads any more, perhaps while nothing comes: the stream must not stay.
        () = to.closed() => return,
        outcome = streaming => outcome,
    };
    if let Err(error) = outcome {
        let _ = to.send(Err(RpcError::Remote(error.to_string()))).await;
    }
}

async fn stream(path: &Path, shown: &Str, read: &ReadFile, to: &To) -> io::Result<()> {
    let mut at = start(fs::metadata(path)?.len(), read.offset, read.origin);
    let mut left = if read.limit == 0 { u64::MAX } else { read.limit };
    let mut idle = 0;
    while left > 0 {
        let piece = piece(path.to_owned(), at, left).await?;
        if !piece.is_empty() {
            idle = 0;
            let frame = StreamFrame { offset: signed(at), data: piece.clone(), file: shown.clone(), file_event: Str::default() };
            at += piece.len() as u64;
            left -= piece.len() as u64;
            if to.send(Ok(frame)).await.is_err() {
                return Ok(());
            }
            continue;
        }
        if !read.follow {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
        let event = match fs::metadata(path) {
            Ok(meta) if meta.len() < at => TRUNCATED,
            Ok(_) => "",
            Err(_) => DELETED,
        };
        idle += 1;
        if !event.is_empty() {
            let frame = StreamFrame { file: shown.clone(), file_event: event.into(), ..StreamFrame::default() };
            if to.send(Ok(frame)).await.is_err() || event == DELETED {
                return Ok(());
            }
            at = 0;
        } else if idle % HEARTBEAT_POLLS == 0 && to.send(Ok(StreamFrame::default())).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Where reading begins in something of this many bytes.
pub(super) fn start(len: u64, offset: i64, origin: Origin) -> u64 {
    let offset = u64::try_from(offset).unwrap_or(0);
    match origin {
        Origin::Start => offset,
        Origin::End => len.saturating_sub(offset),
    }
}

/// What is there at an offset, at most a frame.
pub(super) async fn piece(path: PathBuf, at: u64, most: u64) -> io::Result<Bytes> {
    let read = move || {
        let mut file = match File::open(&path) {
            Ok(file) => file,
            // Removed between two looks: the caller finds out.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Bytes::new()),
            Err(error) => return Err(error),
        };
        file.seek(SeekFrom::Start(at))?;
        let mut data = Vec::new();
        file.take(most.min(FRAME_BYTES_MAX as u64)).read_to_end(&mut data)?;
        Ok(Bytes::from(data))
    };
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}

/// Offsets on the wire are signed.
pub(super) fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}
