//! Files: each delivery appends JSON lines to a file of the leading server and makes them durable. A delivery that is
//! repeated after a crash is recognised by the file's last line.
//!
//! Beside the file `NAME` lies `.NAME.run`: the run of deliveries that wrote last, and the length of the file when the
//! run began. Only lines of the same run say what was delivered: a user may have set the position back.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::Value;
use songline_server::event_sinks::{Delivering, DeliveryError, Frame, Parcel, Receiver};

/// Bytes that are read at once in search of the last line.
const PIECE: u64 = 64 * 1024;

/// A file of a sink.
#[derive(Debug, Clone)]
pub(super) struct File {
    dir: PathBuf,
    path: PathBuf,
    run_path: PathBuf,
    run: u64,
}

impl File {
    /// The file `name` in `dir`, for deliveries of the run `run`.
    pub(super) fn new(dir: &Path, name: &str, run: u64) -> Self {
        Self { dir: dir.to_owned(), path: dir.join(name), run_path: dir.join(format!(".{name}.run")), run }
    }

    /// Appends the frames that the file does not have yet. Blocks.
    fn append(&self, frames: &[Frame]) -> io::Result<()> {
        // No link: the file stays in the directory that the configuration allows.
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(0o600).custom_flags(flags).open(&self.path)?;
        // A delivery that was given up may still be writing, and so may another server in a shared directory.
        file.lock()?;
        let length = file.metadata()?.len();
        let whole = last_line_end(&mut file, length)?;
        if whole < length {
            // The beginning of a line that a crash cut off.
            file.set_len(whole)?;
        }
        let begun = self.begin_run(whole)?;
        let reached = if whole > begun { last_position(&mut file, whole)? } else { 0 };
        let bytes: Vec<u8> =
            frames.iter().filter(|frame| frame.position > reached).flat_map(|frame| frame.line.to_vec()).collect();
        let written = file.write_all(&bytes).and_then(|()| file.sync_data());
        if written.is_err() {
            // Lines that are perhaps not on the disk must not count as delivered. The first error is the one to tell.
            let _ = file.set_len(whole);
        }
        written
    }

    /// Length of the file when this run began.
    fn begin_run(&self, length: u64) -> io::Result<u64> {
        let known = fs::read_to_string(&self.run_path).unwrap_or_default();
        let mut words = known.split_whitespace().map(str::parse::<u64>);
        if let (Some(Ok(run)), Some(Ok(begun))) = (words.next(), words.next())
            && run == self.run
            // A shorter file is another one: the older was moved away.
            && begun <= length
        {
            return Ok(begun);
        }
        let fresh = self.run_path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        writeln!(file, "{} {length}", self.run)?;
        file.sync_data()?;
        fs::rename(&fresh, &self.run_path)?;
        // Makes both names durable.
        fs::File::open(&self.dir)?.sync_all()?;
        Ok(length)
    }
}

/// Position after the last line feed of the first `length` bytes.
fn last_line_end(file: &mut fs::File, length: u64) -> io::Result<u64> {
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        let piece = read(file, start, end)?;
        if let Some(at) = piece.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Position that the last line of the first `length` bytes delivered. 0: it is no frame of the event stream.
fn last_position(file: &mut fs::File, length: u64) -> io::Result<u64> {
    let start = last_line_end(file, length.saturating_sub(1))?;
    let line: Value = serde_json::from_slice(&read(file, start, length)?).unwrap_or_default();
    let gap = line["Gap"]["Oldest"].as_u64().map(|oldest| oldest.saturating_sub(1));
    Ok(gap.or_else(|| line["Index"].as_u64()).unwrap_or(0))
}

fn read(file: &mut fs::File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut piece = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
    file.seek(SeekFrom::Start(start))?;
    file.read_exact(&mut piece)?;
    Ok(piece)
}

impl Receiver for File {
    fn deliver<'a>(&'a mut self, parcel: &'a Parcel) -> Delivering<'a> {
        let (file, frames) = (self.clone(), parcel.frames.clone());
        Box::pin(async move {
            let path = file.path.clone();
            let appended = tokio::task::spawn_blocking(move || file.append(&frames)).await;
            match appended {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(DeliveryError(format!("writing {}: {error}", path.display()))),
                Err(error) => Err(DeliveryError(format!("writing {}: {error}", path.display()))),
            }
        })
    }
}

#[cfg(test)]
mod tests;
