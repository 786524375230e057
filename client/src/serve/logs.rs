//! Streams a task's log over its rotated files as one file.

use std::fs::File;
use std::io;

use bytes::Bytes;
use rustix::fs::FileType;
use songline_model::Str;
use songline_rpc::{Origin, ReadLogs, RpcError, StreamFrame};
use tokio_util::sync::CancellationToken;

use super::follow::{HEARTBEAT_POLLS, POLL, TRUNCATED, To, piece, signed};
use crate::allocdir::SHOWN_LOGS;
use crate::beneath::Dir;
use crate::rotate;
use crate::runner::Runner;

/// A log that is about to be read.
pub(super) struct Reading {
    /// The agent's own directory of the allocation's logs.
    dir: Dir,
    /// Base name, such as `web.stdout`.
    base: String,
    /// Number of the file to begin with.
    index: u64,
    at: u64,
    /// File `index`, once it was opened.
    file: Option<File>,
    /// Without `follow`: the last file, at which reading ends.
    end: Option<u64>,
}

/// Result of one read attempt.
struct Look {
    data: Bytes,
    /// Number of the next file; determined only when there is no data.
    next: Option<u64>,
    /// Length of the file in bytes, read after `next` was determined; `None` when the file is gone.
    len: Option<u64>,
}

/// Lists the files and finds the position to begin at.
pub(super) async fn open(runner: &Runner, logs: ReadLogs) -> Result<Reading, RpcError> {
    let coded = |code, text: String| Err(RpcError::Coded { code, text });
    if logs.task.is_empty() {
        return coded(400, "must provide task name".to_owned());
    }
    if !matches!(logs.kind.as_str(), "stdout" | "stderr") {
        return coded(400, "must provide log type (stdout/stderr)".to_owned());
    }
    let view = runner.view();
    if view.update.task(&logs.task).is_none() {
        return coded(400, format!("unknown task name {:?}", logs.task.as_str()));
    }
    if !view.was_started(&logs.task) {
        return coded(404, format!("task {:?} not started yet. No logs available", logs.task.as_str()));
    }
    let (path, base) = (runner.dir.logs(), format!("{}.{}", logs.task, logs.kind));
    let looked = base.clone();
    let look = move || {
        let dir = Dir::open(&path)?;
        let sizes = sizes(&dir, &looked)?;
        Ok::<_, io::Error>((dir, sizes))
    };
    let (dir, sizes) = super::blocking(move || look().map_err(|error| RpcError::Remote(error.to_string()))).await?;
    let Some(&(last, _)) = sizes.last() else {
        let (task, kind) = (logs.task.as_str(), logs.kind.as_str());
        return coded(404, format!("log entry for task {task:?} and log type {kind:?} not found"));
    };
    let (index, at) = closest(&sizes, logs.offset, logs.origin);
    Ok(Reading { dir, base, index, at, file: None, end: (!logs.follow).then_some(last) })
}

impl Reading {
    /// Streams until the end, or for ever, or until the reader disconnects.
    pub(super) async fn run(self, cancel: CancellationToken, to: To) {
        let outcome = tokio::select! {
            () = cancel.cancelled() => return,
            () = to.closed() => return,
            outcome = self.stream(&to) => outcome,
        };
        if let Err(error) = outcome {
            let _ = to.send(Err(RpcError::Remote(error.to_string()))).await;
        }
    }

    async fn stream(self, to: &To) -> io::Result<()> {
        let mut idle = 0;
        let mut reading = self;
        loop {
            let looking = move || {
                let looked = reading.look();
                (reading, looked)
            };
            let look;
            (reading, look) = tokio::task::spawn_blocking(looking).await.map_err(io::Error::other)?;
            let Look { data, next, len } = look?;
            let shown: Str = format!("{SHOWN_LOGS}/{}", rotate::name(&reading.base, reading.index)).into();
            if !data.is_empty() {
                idle = 0;
                let frame = StreamFrame {
                    offset: signed(reading.at),
                    data: data.clone(),
                    file: shown,
                    file_event: Str::default(),
                };
                reading.at += data.len() as u64;
                if to.send(Ok(frame)).await.is_err() {
                    return Ok(());
                }
                continue;
            }
            // A file with a successor is complete; the oldest files may have been removed meanwhile.
            match (reading.end, next) {
                (Some(end), _) if reading.index >= end => return Ok(()),
                (_, Some(next)) => {
                    // Data that was written between the last read and the rotation remains to be read.
                    if len.is_some_and(|len| len > reading.at) {
                        continue;
                    }
                    (reading.index, reading.at, reading.file) = (next, 0, None);
                }
                (Some(_), None) => return Ok(()),
                (None, None) => {
                    tokio::time::sleep(POLL).await;
                    idle += 1;
                    if len.is_some_and(|len| len < reading.at) {
                        reading.at = 0;
                        let frame = StreamFrame { file: shown, file_event: TRUNCATED.into(), ..StreamFrame::default() };
                        if to.send(Ok(frame)).await.is_err() {
                            return Ok(());
                        }
                    } else if idle % HEARTBEAT_POLLS == 0 && to.send(Ok(StreamFrame::default())).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Reads the next piece, or determines the next file. Blocks on the disk.
    fn look(&mut self) -> io::Result<Look> {
        if self.file.is_none() {
            self.file = match self.dir.read(rotate::name(&self.base, self.index)) {
                Ok(file) => Some(file),
                // The file was removed after the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
        }
        let data = self.file.as_ref().map_or(Ok(Bytes::new()), |file| piece(file, self.at, u64::MAX))?;
        let next = if data.is_empty() {
            rotate::indexes(&self.dir, &self.base)?.into_iter().find(|index| *index > self.index)
        } else {
            None
        };
        let len = self.file.as_ref().map(File::metadata).transpose()?.map(|meta| meta.len());
        Ok(Look { data, next, len })
    }
}

/// The file in which an offset lies, and the bytes before it in that file. `sizes` is not empty.
///
/// From the start, a negative offset counts back from the end of the first file. From the end, offset 0 means the
/// beginning of the last file.
fn closest(sizes: &[(u64, u64)], offset: i64, origin: Origin) -> (u64, u64) {
    let (mut nth, mut offset) = match origin {
        Origin::Start => (0, offset),
        Origin::End => (sizes.len() - 1, offset.saturating_neg()),
    };
    loop {
        let (index, size) = (sizes[nth].0, signed(sizes[nth].1));
        let at = match offset {
            0 => 0,
            back if back < 0 && size + back >= 0 => size + back,
            back if back < 0 && nth == 0 => 0,
            back if back < 0 => {
                offset = size + back;
                nth -= 1;
                continue;
            }
            forward if forward <= size => forward,
            _ if nth == sizes.len() - 1 => size,
            forward => {
                offset = forward - size;
                nth += 1;
                continue;
            }
        };
        return (index, u64::try_from(at).expect("no branch goes below zero"));
    }
}

fn sizes(dir: &Dir, base: &str) -> io::Result<Vec<(u64, u64)>> {
    let mut sizes = Vec::new();
    for index in rotate::indexes(dir, base)? {
        let name = rotate::name(base, index);
        match dir.entry(&name) {
            Ok(entry) if entry.kind() == FileType::RegularFile => {
                sizes.push((index, u64::try_from(entry.stat().st_size).unwrap_or(0)))
            }
            Ok(_) => return Err(io::Error::other(format!("file \"{SHOWN_LOGS}/{name}\" is not a regular file"))),
            // The file was removed after the directory was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use songline_rpc::Origin::{End, Start};

    use super::closest;

    #[test]
    fn log_offset_maps_to_one_of_the_rotated_files() {
        let sizes = [(3, 10), (4, 10), (5, 4)];
        for (origin, offset, expected) in [
            (Start, 0, (3, 0)),
            (Start, 4, (3, 4)),
            (Start, 10, (3, 10)),
            (Start, 11, (4, 1)),
            (Start, 100, (5, 4)),
            (Start, -1, (3, 9)),
            (Start, -100, (3, 0)),
            (End, 0, (5, 0)),
            (End, 3, (5, 1)),
            (End, 5, (4, 9)),
            (End, 100, (3, 0)),
            (End, i64::MIN, (5, 4)),
        ] {
            assert_eq!(closest(&sizes, offset, origin), expected, "{origin:?} {offset}");
        }
    }
}
