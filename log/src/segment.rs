//! A segment: one preallocated file with consecutive entries, named by the index of the first. `store` decides when
//! segments are begun and dropped.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, Open};
use crate::position::{Edge, u32_at, u64_at};
use crate::record::{Record, Stop, Walk};

/// Length of the header, in bytes:
/// `magic, nonce u64, first index u64, term before u64, chain u32, created ms u64, zeros, crc u32`.
pub(crate) const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"SLSEGMT1";

/// Entries per remembered offset: a day of entries then costs little memory, and a read walks over at most this many
/// entries before the first that it wants.
const ENTRIES_PER_POINT: u64 = 32;

/// Header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Shared by all segments of one log and by no other log.
    pub nonce: u64,
    /// Edge before the first entry of the segment.
    pub start: Edge,
    /// The crc that the first record continues.
    pub chain: u32,
    /// Creation time, in milliseconds of wall time since 1970. Only retention by age uses it.
    pub created_ms: u64,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.nonce.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.start.encode());
        bytes[32..36].copy_from_slice(&self.chain.to_le_bytes());
        bytes[36..44].copy_from_slice(&self.created_ms.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        if bytes[..8] != MAGIC || u32_at(bytes, 60)? != crc32c::crc32c(&bytes[..60]) {
            return None;
        }
        Some(Self {
            nonce: u64_at(bytes, 8)?,
            start: Edge::decode(&bytes[16..32])?,
            chain: u32_at(bytes, 32)?,
            created_ms: u64_at(bytes, 36)?,
        })
    }
}

/// Path of the segment whose first entry has index `first`.
pub(crate) fn path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.seg"))
}

/// The index in a segment's file name; `None` for any other file.
pub(crate) fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    if digits.len() == 20 { digits.parse().ok() } else { None }
}

/// A remembered offset: start of an entry, with the edge and chain before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    offset: u64,
    chain: u32,
    edge: Edge,
}

/// A segment of the log, with the end of its written part.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub header: Header,
    pub path: PathBuf,
    pub file: Arc<dyn DiskFile>,
    /// Edge after the last entry that is written and on disk.
    pub end: Edge,
    /// Offset of the next record.
    pub end_offset: u64,
    /// The crc that the next record continues.
    pub chain: u32,
    points: Vec<Point>,
}

impl Segment {
    /// Creates the file with its space reserved. File and name are on disk when this returns.
    pub fn create(disk: &dyn Disk, dir: &Path, header: Header, capacity_bytes: u64) -> io::Result<Self> {
        let path = path(dir, header.start.next);
        let file = disk.open(&path, Open::Create)?;
        file.reserve(capacity_bytes)?;
        file.write_all_at(&header.encode(), 0)?;
        file.sync_all()?;
        disk.sync_dir(dir)?;
        Ok(Self::new(header, path, file))
    }

    pub fn new(header: Header, path: PathBuf, file: Arc<dyn DiskFile>) -> Self {
        Self {
            header,
            path,
            file,
            end: header.start,
            end_offset: HEADER_BYTES as u64,
            chain: header.chain,
            points: Vec::new(),
        }
    }

    /// Index of the first entry.
    pub fn first(&self) -> u64 {
        self.header.start.next
    }

    /// Remembers the offset of every 32nd entry. To be called for every entry, in order.
    pub fn note(&mut self, before: Edge, offset: u64, chain: u32) {
        if (before.next - self.first()).is_multiple_of(ENTRIES_PER_POINT) {
            self.points.push(Point { offset, chain, edge: before });
        }
    }

    /// Gives back the reserved space after the last record.
    pub fn trim(&self) -> io::Result<()> {
        self.file.set_len(self.end_offset)
    }

    /// Durably removes every entry from `next` on. The space is reserved again as zeros.
    pub fn cut(&mut self, next: u64, capacity_bytes: u64) -> io::Result<()> {
        let (end, offset, chain) = self.place_of(next)?;
        self.points.retain(|point| point.edge.next < next);
        self.end = end;
        self.end_offset = offset;
        self.chain = chain;
        self.clear_tail(capacity_bytes)
    }

    /// Durably overwrites everything after the last record with zeros.
    pub fn clear_tail(&self, capacity_bytes: u64) -> io::Result<()> {
        self.trim()?;
        // Sync before extending: with both in one sync, a crash could leave zeros before groups that are still there,
        // and that looks like damage.
        self.file.sync_all()?;
        self.file.reserve(capacity_bytes)?;
        self.file.sync_all()
    }

    /// Writes everything from entry `next` on once more, unchanged, and blocks until it is on disk. After a failed sync
    /// the page cache may hold data that never reached the disk: it reads back fine, and only data written again is
    /// synced again.
    pub fn write_again(&self, next: u64) -> io::Result<()> {
        let from = if next <= self.first() { 0 } else { self.place_of(next)?.1 };
        let bytes = read_bytes(self.file.as_ref(), from..self.end_offset)?;
        self.file.write_all_at(&bytes, from)?;
        self.file.sync_all()
    }

    /// Edge and chain that a mark would hold if the segment were cut before entry `next`.
    pub fn place_before(&self, next: u64) -> io::Result<(Edge, u32)> {
        self.place_of(next).map(|(edge, _, chain)| (edge, chain))
    }

    /// The edge, offset and chain right after entry `next - 1`, before any group mark that follows.
    fn place_of(&self, next: u64) -> io::Result<(Edge, u64, u32)> {
        let Some(last) = next.checked_sub(1).filter(|last| *last >= self.first()) else {
            return Ok((self.header.start, HEADER_BYTES as u64, self.header.chain));
        };
        let Some(point) = self.point_before(last) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "cut behind the end of a segment"));
        };
        let bytes = read_bytes(self.file.as_ref(), point.offset..self.end_offset)?;
        let mut walk = Walk::new(&bytes, 0, point.chain, point.edge, self.header.nonce);
        while walk.edge.next < next {
            walk.step().map_err(|stop| broken(&self.path, walk.edge.next, &stop))?;
        }
        Ok((walk.edge, point.offset + walk.offset as u64, walk.chain))
    }

    /// Plans a read of the entries of `range` that are in this segment: the first always, further ones while they fit
    /// `bytes_max`. Cheap, so it can be made under a lock; the read itself needs none.
    pub fn plan(&self, range: Range<u64>, bytes_max: usize) -> Option<ReadPlan> {
        let range = range.start.max(self.first())..range.end.min(self.end.next);
        let from = self.point_before(range.start).filter(|_| !range.is_empty())?;
        let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        // Read up to a remembered offset: the first one after the range, or after the budget.
        let to = self
            .points
            .iter()
            .skip(self.point_number(range.start) + 1)
            .find(|point| point.edge.next >= range.end || point.offset - from.offset > bytes_max)
            .map_or(self.end_offset, |point| point.offset);
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        Some(ReadPlan { file, path, nonce: self.header.nonce, from, to, range })
    }

    fn point_number(&self, index: u64) -> usize {
        usize::try_from((index - self.first()) / ENTRIES_PER_POINT).unwrap_or(usize::MAX)
    }

    fn point_before(&self, index: u64) -> Option<Point> {
        self.points.get(self.point_number(index)).copied()
    }
}

/// A planned read of a part of a segment.
#[derive(Debug)]
pub(crate) struct ReadPlan {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    nonce: u64,
    from: Point,
    to: u64,
    range: Range<u64>,
}

impl ReadPlan {
    /// Reads and checks the entries.
    pub fn read(self, out: &mut Vec<Record>) -> io::Result<()> {
        // One buffer, shared by all payloads cut from it.
        let bytes = Bytes::from(read_bytes(self.file.as_ref(), self.from.offset..self.to)?);
        let mut walk = Walk::new(&bytes, 0, self.from.chain, self.from.edge, self.nonce);
        while walk.edge.next < self.range.end {
            let met = match walk.step() {
                Ok(met) => met,
                Err(Stop::End) => break,
                Err(stop) => return Err(broken(&self.path, walk.edge.next, &stop)),
            };
            if met.position.index >= self.range.start {
                let payload = bytes.slice_ref(met.payload);
                out.push(Record { position: met.position, kind: met.kind, payload });
            }
        }
        Ok(())
    }
}

fn read_bytes(file: &dyn DiskFile, range: Range<u64>) -> io::Result<Vec<u8>> {
    let len = usize::try_from(range.end - range.start)
        .map_err(|_| io::Error::new(io::ErrorKind::OutOfMemory, "segment does not fit memory"))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

fn broken(path: &Path, index: u64, stop: &Stop) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("entry {index} in {} cannot be read any more: {stop:?}", path.display()),
    )
}
