//! A segment: one preallocated file with a run of entries, named by the index of its first.
//! Which segments there are, and when one is begun or dropped, is `store`'s business.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{Disk, DiskFile, Open};
use crate::position::{Edge, u32_at, u64_at};
use crate::record::{Record, Stop, Walk};

/// `magic, nonce u64, first index u64, term before u64, chain u32, created ms u64, zeros, crc u32`.
pub(crate) const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"SLSEGMT1";

/// One place in every so many entries is remembered, so that a day of entries costs little memory and a read
/// walks at most this many entries before the first it wants.
const ENTRIES_PER_POINT: u64 = 32;

/// What a segment says about itself in its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Shared by all segments of one log and by no other log.
    pub nonce: u64,
    /// What lies before the first entry of the segment.
    pub start: Edge,
    /// The crc that the first record continues.
    pub chain: u32,
    /// Wall time, milliseconds since 1970. Retention by age goes by it; nothing else does.
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

/// The path of the segment whose first entry has index `first`.
pub(crate) fn path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.seg"))
}

/// The index in a segment's file name; `None` for any other file.
pub(crate) fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    if digits.len() == 20 { digits.parse().ok() } else { None }
}

/// A remembered place: where one entry starts and the chain before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    offset: u64,
    chain: u32,
    edge: Edge,
}

/// A segment that is part of the log, and how far it is written.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub header: Header,
    pub path: PathBuf,
    pub file: Arc<dyn DiskFile>,
    /// What is written and on disk.
    pub end: Edge,
    /// Where the next record goes.
    pub end_offset: u64,
    /// The crc that the next record continues.
    pub chain: u32,
    points: Vec<Point>,
}

impl Segment {
    /// Makes the file with its space reserved. On disk, name included, when this returns.
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
        Self { header, path, file, end: header.start, end_offset: HEADER_BYTES as u64, chain: header.chain, points: Vec::new() }
    }

    /// Index of the first entry.
    pub fn first(&self) -> u64 {
        self.header.start.next
    }

    /// Remembers that an entry starts at `offset` if its turn has come. Call it for every entry, in order.
    pub fn note(&mut self, before: Edge, offset: u64, chain: u32) {
        if (before.next - self.first()).is_multiple_of(ENTRIES_PER_POINT) {
            self.points.push(Point { offset, chain, edge: before });
        }
    }

    /// Gives back the reserved space behind the last record.
    pub fn trim(&self) -> io::Result<()> {
        self.file.set_len(self.end_offset)
    }

    /// Forgets, durably, every entry from `next` on. The space is reserved again as zeros.
    pub fn cut(&mut self, next: u64, capacity_bytes: u64) -> io::Result<()> {
        let (end, offset, chain) = self.place_of(next)?;
        self.points.retain(|point| point.edge.next < next);
        self.end = end;
        self.end_offset = offset;
        self.chain = chain;
        self.clear_tail(capacity_bytes)
    }

    /// Makes everything behind the last record zeros again, durably.
    pub fn clear_tail(&self, capacity_bytes: u64) -> io::Result<()> {
        self.trim()?;
        // Were the length given back in the same sync, a crash could leave zeros before groups that are still there, which is what damage
        // looks like.
        self.file.sync_all()?;
        self.file.reserve(capacity_bytes)?;
        self.file.sync_all()
    }

    /// Writes everything from entry `next` on as it is, once more, and waits until it is on disk. After a sync that failed, memory may hold what
    /// never got there: it reads as if it had, and only what is written again is synced again.
    pub fn write_again(&self, next: u64) -> io::Result<()> {
        let from = if next <= self.first() { 0 } else { self.place_of(next)?.1 };
        let bytes = read_bytes(self.file.as_ref(), from..self.end_offset)?;
        self.file.write_all_at(&bytes, from)?;
        self.file.sync_all()
    }

    /// What a mark would hold if the segment were cut before entry `next`.
    pub fn place_before(&self, next: u64) -> io::Result<(Edge, u32)> {
        self.place_of(next).map(|(edge, _, chain)| (edge, chain))
    }

    /// The edge, offset and chain right behind entry `next - 1`, a group mark after it left out.
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

    /// What to read for entries of `range`, as many as are here: the first always, the others while they fit
    /// `bytes_max`. Cheap, so that it can be made under a lock and carried out without.
    pub fn plan(&self, range: Range<u64>, bytes_max: usize) -> Option<ReadPlan> {
        let range = range.start.max(self.first())..range.end.min(self.end.next);
        let from = self.point_before(range.start).filter(|_| !range.is_empty())?;
        let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        // Read up to a remembered place: the first one behind the range, or behind the budget.
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

/// A part of a segment to be read.
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
    let len =
        usize::try_from(range.end - range.start).map_err(|_| io::Error::new(io::ErrorKind::OutOfMemory, "segment does not fit memory"))?;
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}

fn broken(path: &Path, index: u64, stop: &Stop) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("entry {index} in {} cannot be read any more: {stop:?}", path.display()))
}
