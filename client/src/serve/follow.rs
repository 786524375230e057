//! Streams one file from an offset, to its end or for ever, and reports when the file is truncated or removed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::Stat;
use songline_model::Str;
use songline_rpc::{Origin, ReadFile, RpcError, StreamFrame};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::beneath::Dir;

/// Largest piece in one frame, in bytes.
pub(super) const FRAME_BYTES_MAX: usize = 64 * 1024;
/// Poll interval of a followed file.
pub(super) const POLL: Duration = Duration::from_millis(100);
/// Polls without new data after which a heartbeat is due: 1 s.
pub(super) const HEARTBEAT_POLLS: u32 = 10;
/// Text for a file that became shorter: reading starts over.
pub(super) const TRUNCATED: &str = "file truncated";
/// Text for a file that is gone: the stream ends.
const DELETED: &str = "file deleted";

pub(super) type To = mpsc::Sender<Result<StreamFrame, RpcError>>;

/// A file that was checked and opened, and the path where it was found. Only this file is read, even when another
/// file takes its place.
#[derive(Debug)]
pub(super) struct Followed {
    file: File,
    identity: (u64, u64),
    root: Dir,
    path: PathBuf,
}

impl Followed {
    pub(super) fn new(file: File, stat: &Stat, root: Dir, path: PathBuf) -> Self {
        Self { file, identity: (stat.st_dev, stat.st_ino), root, path }
    }

    /// Whether the path still leads to this file.
    fn is_there(&self) -> bool {
        self.root.find(&self.path).is_ok_and(|found| (found.stat().st_dev, found.stat().st_ino) == self.identity)
    }
}

/// Streams a file until its end, its limit, or until the reader disconnects.
pub(super) async fn file(cancel: CancellationToken, file: Followed, shown: Str, read: ReadFile, to: To) {
    let streaming = stream(Arc::new(file), &shown, &read, &to);
    let outcome = tokio::select! {
        () = cancel.cancelled() => return,
        // The reader is gone. Without this branch the stream would stay while no new data arrives.
        () = to.closed() => return,
        outcome = streaming => outcome,
    };
    if let Err(error) = outcome {
        let _ = to.send(Err(RpcError::Remote(error.to_string()))).await;
    }
}

async fn stream(followed: Arc<Followed>, shown: &Str, read: &ReadFile, to: &To) -> io::Result<()> {
    let mut at = start(followed.file.metadata()?.len(), read.offset, read.origin);
    let mut left = if read.limit == 0 { u64::MAX } else { read.limit };
    let mut idle = 0;
    while left > 0 {
        let piece = off_worker(&followed, move |followed| piece(&followed.file, at, left)).await??;
        if !piece.is_empty() {
            idle = 0;
            let frame = StreamFrame {
                offset: signed(at),
                data: piece.clone(),
                file: shown.clone(),
                file_event: Str::default(),
            };
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
        let (there, len) = off_worker(&followed, |followed| (followed.is_there(), followed.file.metadata())).await?;
        let event = match len?.len() {
            _ if !there => DELETED,
            len if len < at => TRUNCATED,
            _ => "",
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

/// Runs `work` on a thread that may block, because disks may be slow: no worker of the runtime waits for them.
async fn off_worker<T: Send + 'static>(
    followed: &Arc<Followed>,
    work: impl FnOnce(&Followed) -> T + Send + 'static,
) -> io::Result<T> {
    let followed = Arc::clone(followed);
    tokio::task::spawn_blocking(move || work(&followed)).await.map_err(io::Error::other)
}

/// Offset at which reading begins in `len` bytes.
pub(super) fn start(len: u64, offset: i64, origin: Origin) -> u64 {
    let offset = u64::try_from(offset).unwrap_or(0);
    match origin {
        Origin::Start => offset,
        Origin::End => len.saturating_sub(offset),
    }
}

/// Reads the data at an offset, at most one frame. Blocks on the disk.
pub(super) fn piece(file: &File, at: u64, most: u64) -> io::Result<Bytes> {
    let most = usize::try_from(most).unwrap_or(usize::MAX).min(FRAME_BYTES_MAX);
    let mut data = vec![0; most];
    let mut filled = 0;
    while filled < most {
        match file.read_at(&mut data[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    data.truncate(filled);
    Ok(Bytes::from(data))
}

/// Converts an offset: offsets on the wire are signed.
pub(super) fn signed(offset: u64) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}
