//! Checkpoint files: a state at one position, written whole or not at all; damage is detected. The content is opaque
//! here; the state machine reads and writes it.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Cursor, Disk, Open};
use crate::machine::CheckpointSource;
use crate::members::Members;
use crate::past::{self, PastBounds, PastCheckpoint};
use crate::position::{Edge, Position, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"SLCHECK1";
/// Length of the head, in bytes: `magic, position 16, membership edge 16, membership length u32`.
const HEAD_BYTES: usize = 44;
/// Length of the tail, in bytes: `content length u64, blake3 32`.
const TAIL_BYTES: u64 = 40;
/// Bound on the membership's length, in bytes: more than any cluster needs. A longer length in a file is damage.
const MEMBERS_BYTES_MAX: usize = 1 << 20;

/// Metadata of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Position of the last entry whose effects are in the content.
    pub position: Position,
    /// Edge after the entry that set `members`.
    pub members_set: Edge,
    pub members: Members,
}

/// A complete checkpoint on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub path: PathBuf,
    pub meta: Meta,
    content_start: u64,
    /// Length of the state machine's content, in bytes.
    pub content_bytes: u64,
}

/// Description of one checkpoint file, for users of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Path of the file.
    pub path: PathBuf,
    /// Position of the last entry whose effects are in the content, or the reason why the checkpoint cannot be used.
    pub position: Result<Position, String>,
}

impl Checkpoint {
    /// Writes a checkpoint under a temporary name, syncs it, and only then gives it its name.
    pub fn write(disk: &dyn Disk, dir: &Path, meta: Meta, source: Box<dyn CheckpointSource>) -> io::Result<Self> {
        disk.create_dir_all(dir)?;
        let path = path(dir, meta.position.index);
        let unfinished = path.with_extension("tmp");
        let file = disk.open(&unfinished, Open::Create)?;
        let cursor = Cursor { file: Arc::clone(&file), at: 0 };
        let mut out =
            Hashing { inner: BufWriter::with_capacity(1 << 20, cursor), hasher: blake3::Hasher::new(), bytes: 0 };
        let members = meta.members.encode();
        out.write_all(&MAGIC)?;
        out.write_all(&Edge::after(meta.position).encode())?;
        out.write_all(&meta.members_set.encode())?;
        out.write_all(&u32::try_from(members.len()).map_err(io::Error::other)?.to_le_bytes())?;
        out.write_all(&members)?;
        let content_start = out.bytes;
        source.write_to(&mut out)?;
        let content_bytes = out.bytes - content_start;
        out.write_all(&content_bytes.to_le_bytes())?;
        let hash = out.hasher.finalize();
        out.inner.write_all(hash.as_bytes())?;
        out.inner.flush()?;
        file.sync_all()?;
        disk.rename(&unfinished, &path)?;
        disk.sync_dir(dir)?;
        Ok(Self { path, meta, content_start, content_bytes })
    }

    /// Reads a whole file and checks it; an error when it is not what was written.
    pub fn verify(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let damaged = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let file = disk.open(path, Open::Read)?;
        let len = file.len()?;
        let mut file = BufReader::with_capacity(1 << 20, Cursor { file, at: 0 });
        let mut head = [0; HEAD_BYTES];
        file.read_exact(&mut head).map_err(|_| damaged("too short"))?;
        if head[..8] != MAGIC {
            return Err(damaged("not a checkpoint"));
        }
        let position = Edge::decode(&head[8..24]).and_then(Edge::last).ok_or_else(|| damaged("no position"))?;
        let members_set = Edge::decode(&head[24..40]).ok_or_else(|| damaged("no membership"))?;
        let members_len = u32_at(&head, 40).map_or(0, |len| len as usize);
        let content_start = (HEAD_BYTES + members_len) as u64;
        let content_bytes = len.checked_sub(content_start + TAIL_BYTES).ok_or_else(|| damaged("too short"))?;
        if members_len > MEMBERS_BYTES_MAX {
            return Err(damaged("impossible length"));
        }
        let mut members = vec![0; members_len];
        file.read_exact(&mut members)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&head).update(&members);
        let mut content = file.by_ref().take(content_bytes);
        io::copy(&mut content, &mut hasher)?;
        let mut tail = [0; TAIL_BYTES as usize];
        file.read_exact(&mut tail)?;
        hasher.update(&tail[..8]);
        if u64_at(&tail, 0) != Some(content_bytes) || hasher.finalize().as_bytes() != &tail[8..] {
            return Err(damaged("checksum does not match"));
        }
        let members = Members::decode(&members).ok_or_else(|| damaged("unknown shape of membership"))?;
        let meta = Meta { position, members_set, members };
        Ok(Self { path: path.to_owned(), meta, content_start, content_bytes })
    }

    /// The state machine's content.
    pub fn content(&self, disk: &dyn Disk) -> io::Result<impl Read + use<>> {
        let file = disk.open(&self.path, Open::Read)?;
        Ok(BufReader::with_capacity(1 << 20, Cursor { file, at: self.content_start }).take(self.content_bytes))
    }
}

/// Path of the checkpoint after the entry at `index`.
pub(crate) fn path(dir: &Path, index: u64) -> PathBuf {
    dir.join(format!("checkpoint-{index:020}"))
}

/// Paths of the checkpoint files in `dir`, newest first. The files are not read.
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in listed(disk, dir)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("checkpoint-") && path.extension().is_none() {
            found.push(path);
        }
    }
    found.sort_unstable();
    found.reverse();
    Ok(found)
}

/// Index of a checkpoint's last entry, from its file name.
pub(crate) fn index_of(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_prefix("checkpoint-")?.parse().ok()
}

/// Index of the last entry of the `keep`th newest checkpoint in `dir`: recovery starts there if all newer ones are
/// damaged. `None` while there are fewer, because recovery may then have to start from nothing.
pub(crate) fn oldest_index(disk: &dyn Disk, dir: &Path, keep: usize) -> io::Result<Option<u64>> {
    let found = list(disk, dir)?;
    let oldest = keep.checked_sub(1).and_then(|nth| found.get(nth));
    Ok(oldest.and_then(|path| index_of(path)))
}

/// Removes checkpoints beyond the newest `keep`, except those kept for reading past states: see `past::useless`.
pub(crate) fn tidy(disk: &dyn Disk, dir: &Path, keep: usize, bounds: &PastBounds, oldest_entry: u64) -> io::Result<()> {
    let mut older = Vec::new();
    for path in list(disk, dir)?.into_iter().skip(keep) {
        let bytes = disk.open(&path, Open::Read)?.len()?;
        older.push(PastCheckpoint { index: index_of(&path).unwrap_or(0), bytes, path });
    }
    for path in past::useless(older, bounds, oldest_entry) {
        disk.remove(&path)?;
    }
    disk.sync_dir(dir)
}

/// Extension of a checkpoint that another server sent. This server's log may end before such a checkpoint, and that is
/// no damage.
const RECEIVED: &str = "received";

/// Renames a verified checkpoint that another server sent to its `RECEIVED` name.
pub(crate) fn name_received(disk: &dyn Disk, unnamed: Checkpoint, dir: &Path) -> io::Result<Checkpoint> {
    let named = path(dir, unnamed.meta.position.index).with_extension(RECEIVED);
    disk.rename(&unnamed.path, &named)?;
    disk.sync_dir(dir)?;
    Ok(Checkpoint { path: named, ..unnamed })
}

/// Paths of the checkpoints that another server sent, oldest first.
pub(crate) fn received(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = disk.list(dir)?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == RECEIVED));
    found.sort_unstable();
    Ok(found)
}

/// Index of the last entry of a received checkpoint, from its file name.
pub(crate) fn index_of_received(path: &Path) -> Option<u64> {
    index_of(&path.with_extension(""))
}

/// Renames a received checkpoint to an ordinary one, once the log begins after it.
pub(crate) fn adopt(disk: &dyn Disk, received: &Path, dir: &Path) -> io::Result<PathBuf> {
    let named = received.with_extension("");
    disk.rename(received, &named)?;
    disk.sync_dir(dir)?;
    Ok(named)
}

/// Removes unfinished files that a crash left.
pub(crate) fn remove_unfinished(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for path in listed(disk, dir)? {
        if path.extension().is_some_and(|extension| extension == "tmp") {
            disk.remove(&path)?;
        }
    }
    Ok(())
}

fn listed(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<PathBuf>> {
    match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed,
    }
}

struct Hashing<W> {
    inner: W,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buf)?;
        self.hasher.update(&buf[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
