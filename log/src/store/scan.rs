//! Reads a whole log directory and decides whether it is sound, torn at its end, or damaged. Changes nothing:
//! `Store::open` repairs, `Reader` only reports. The rules are in `docs/log-format.md`.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, Open};
use crate::error::OpenError;
use crate::position::{Edge, u32_at, u64_at};
use crate::record::{Stop, Walk, find_nonzero_page, highest_group_mark};
use crate::segment::{self, HEADER_BYTES, Header, Segment};
use crate::slots::{self, Names, SlotValue};

/// Format version that this code reads and writes; newer ones are refused.
pub(crate) const FORMAT: u32 = 1;

/// The high-water mark: entries below `edge.next` were once on disk, and the last of them has this crc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    pub edge: Edge,
    pub chain: u32,
}

impl Mark {
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = self.edge.encode().to_vec();
        bytes.extend_from_slice(&self.chain.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self { edge: Edge::decode(bytes)?, chain: u32_at(bytes, Edge::BYTES)? })
    }
}

/// Encodes the value of the `format` file.
pub(crate) fn encode_format(nonce: u64) -> Vec<u8> {
    let mut bytes = FORMAT.to_le_bytes().to_vec();
    bytes.extend_from_slice(&nonce.to_le_bytes());
    bytes
}

/// Encodes the value of the `floor` file.
pub(crate) fn encode_floor(floor: Edge, begin: u64) -> Vec<u8> {
    let mut bytes = floor.encode().to_vec();
    bytes.extend_from_slice(&begin.to_le_bytes());
    bytes
}

fn decode_floor(bytes: &[u8]) -> Option<(Edge, u64)> {
    Some((Edge::decode(bytes)?, u64_at(bytes, Edge::BYTES)?))
}

/// Bytes after the last whole record of the last segment that were never acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The segment file.
    pub path: PathBuf,
    /// End of the last whole record, in bytes from the start of the file.
    pub offset: u64,
    /// Description of the bytes there.
    pub found: String,
}

/// A sound log directory.
#[derive(Debug)]
pub(crate) struct Scan {
    pub nonce: u64,
    pub floor: Edge,
    /// Index of the first entry the log ever had, if that is above the floor.
    pub begin: u64,
    pub mark: Mark,
    pub committed: Edge,
    pub vote: Vec<u8>,
    /// Sound segments, oldest first, without gaps.
    pub segments: Vec<Segment>,
    /// Files that a crash left behind: purged segments, or one that was just being created.
    pub leftovers: Vec<PathBuf>,
    pub torn: Option<TornTail>,
    /// The chain after the last entry, for the next mark.
    pub last_chain: u32,
    pub entries: u64,
    pub groups: u64,
    /// Small files of which one of the two copies is older or damaged.
    pub single_copies: Vec<&'static str>,
    pub slots: [SlotValue; 4],
}

impl Scan {
    /// Index of the first entry that the log can have.
    pub fn oldest(&self) -> u64 {
        self.floor.next.max(self.begin)
    }

    /// The end of the log; the floor if the log is empty.
    pub fn last(&self) -> Edge {
        match self.segments.last() {
            Some(segment) if segment.end.next > self.oldest() => segment.end,
            _ => self.floor,
        }
    }
}

/// Whether `dir` has a log. An interrupted creation counts as no log.
pub(crate) fn exists(disk: &dyn Disk, dir: &Path) -> Result<bool, OpenError> {
    let names = Names { dir: dir.to_owned() };
    if disk.exists(&names.format()) {
        return Ok(true);
    }
    match segment_names(disk, dir) {
        Ok(found) if found.is_empty() => Ok(false),
        Ok(_) => Err(OpenError::damaged(&names.format(), 0, "there are segments but no format file")),
        Err(OpenError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(other) => Err(other),
    }
}

/// Reads and judges the whole directory. `writable` says how segment files are opened for later use.
pub(crate) fn scan(disk: &dyn Disk, dir: &Path, writable: bool) -> Result<Scan, OpenError> {
    let names = Names { dir: dir.to_owned() };
    let mut single_copies = Vec::new();
    let mut slot = |name, path: PathBuf| -> Result<SlotValue, OpenError> {
        let value = match slots::read(disk, &path) {
            Ok(value) => value,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => None,
            Err(source) => return Err(OpenError::io("reading", &path)(source)),
        };
        let value =
            value.ok_or_else(|| OpenError::damaged(&path, 0, format!("the file `{name}` is missing or damaged")))?;
        if value.copies < 2 {
            single_copies.push(name);
        }
        Ok(value)
    };
    let format = slot("format", names.format())?;
    let mark_slot = slot("mark", names.mark())?;
    let vote = slot("vote", names.vote())?;
    let committed_slot = slot("committed", names.committed())?;
    let floor_slot = slot("floor", names.floor())?;

    let unknown = |path: &Path| OpenError::damaged(path, 0, "its content has an unknown shape");
    let found = u32_at(&format.payload, 0).ok_or_else(|| unknown(&names.format()))?;
    if found != FORMAT {
        return Err(OpenError::Format { dir: dir.to_owned(), found, known: FORMAT });
    }
    let nonce = u64_at(&format.payload, 4).ok_or_else(|| unknown(&names.format()))?;
    let mark = Mark::decode(&mark_slot.payload).ok_or_else(|| unknown(&names.mark()))?;
    let committed = Edge::decode(&committed_slot.payload).ok_or_else(|| unknown(&names.committed()))?;
    let (floor, begin) = decode_floor(&floor_slot.payload).ok_or_else(|| unknown(&names.floor()))?;

    let vote_payload = vote.payload.clone();
    let mut scan = Scan {
        nonce,
        floor,
        begin,
        mark,
        committed,
        vote: vote_payload,
        segments: Vec::new(),
        leftovers: Vec::new(),
        torn: None,
        last_chain: 0,
        entries: 0,
        groups: 0,
        single_copies,
        slots: [mark_slot, vote, committed_slot, floor_slot],
    };
    read_segments(disk, dir, writable, &mut scan)?;

    let last = scan.last();
    if mark.edge.next > last.next.max(begin) {
        let what = format!("entries up to {} were on disk, but the log ends before {}", mark.edge.next - 1, last.next);
        return Err(OpenError::damaged(dir, last.next, what));
    }
    if committed.next > last.next {
        let what = format!("entry {} was committed, but the log ends before {}", committed.next - 1, last.next);
        return Err(OpenError::damaged(dir, last.next, what));
    }
    Ok(scan)
}

fn segment_names(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>, OpenError> {
    let list = disk.list(dir).map_err(OpenError::io("listing", dir))?;
    let name = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).and_then(segment::first_of);
    let mut firsts: Vec<u64> = list.iter().filter_map(name).collect();
    firsts.sort_unstable();
    Ok(firsts)
}

fn read_segments(disk: &dyn Disk, dir: &Path, writable: bool, scan: &mut Scan) -> Result<(), OpenError> {
    let mut firsts = segment_names(disk, dir)?;
    // Purging moves the floor before it removes files, so a crash can leave files below the floor.
    while let [first, next, ..] = firsts[..]
        && next <= scan.floor.next
    {
        scan.leftovers.push(segment::path(dir, first));
        firsts.remove(0);
    }
    if let Some(first) = firsts.first()
        && *first > scan.oldest()
    {
        let what = format!("the segment with entry {} is missing; the oldest one starts at {first}", scan.oldest());
        return Err(OpenError::damaged(dir, scan.oldest(), what));
    }
    for (i, first) in firsts.iter().enumerate() {
        let path = segment::path(dir, *first);
        let is_last = i + 1 == firsts.len();
        read_segment(disk, &path, *first, is_last, writable, scan)?;
    }
    // The same for a purge beyond the end of the log, as after installing another server's checkpoint.
    if let Some(only) = scan.segments.first()
        && scan.segments.len() == 1
        && only.end.next < scan.floor.next
    {
        scan.leftovers.push(only.path.clone());
        scan.segments.clear();
        scan.torn = None;
    }
    Ok(())
}

fn read_segment(
    disk: &dyn Disk,
    path: &Path,
    first: u64,
    is_last: bool,
    writable: bool,
    scan: &mut Scan,
) -> Result<(), OpenError> {
    let bytes = disk.read(path).map_err(OpenError::io("reading", path))?;
    let Some(header) = Header::decode(&bytes).filter(|header| header.start.next == first && header.nonce == scan.nonce)
    else {
        // A segment that was just being created holds no entries yet.
        let begun = highest_group_mark(&bytes, scan.nonce).is_none() && scan.mark.edge.next <= first;
        if is_last && begun && scan.committed.next <= first {
            scan.leftovers.push(path.to_owned());
            return Ok(());
        }
        return Err(OpenError::damaged(path, first, "the head of the segment is not what was written"));
    };
    if let Some(before) = scan.segments.last()
        && (before.end != header.start || before.chain != header.chain)
    {
        let what = format!(
            "the segment before this one ends before entry {}, but this one starts at {first}{}",
            before.end.next,
            if before.end.next == first { " with another checksum" } else { "" },
        );
        return Err(OpenError::damaged(path, before.end.next.min(first), what));
    }
    let how = if writable { Open::Write } else { Open::Read };
    let file = disk.open(path, how).map_err(OpenError::io("opening", path))?;
    let mut segment = Segment::new(header, path.to_owned(), file);
    let mut walk = Walk::new(&bytes, HEADER_BYTES, header.chain, header.start, scan.nonce);
    let stop = loop {
        let before = walk.edge;
        let met = match walk.step() {
            Ok(met) => met,
            Err(stop) => break stop,
        };
        segment.note(before, met.offset as u64, met.chain_before);
        scan.entries += 1;
        scan.last_chain = met.chain;
        if walk.edge.next == scan.mark.edge.next && (walk.edge != scan.mark.edge || met.chain != scan.mark.chain) {
            let what = "the marked entry is another one than when it was marked";
            return Err(OpenError::damaged(path, met.position.index, what));
        }
    };
    segment.end = walk.edge;
    segment.end_offset = walk.offset as u64;
    segment.chain = walk.chain;
    scan.groups += walk.groups;
    if is_last {
        scan.torn = judge_tail(path, &bytes, &walk, &stop, scan)?;
    }
    // The tail of a segment that is not the last needs no judgement: the next segment's header tells where it ended.
    scan.segments.push(segment);
    Ok(())
}

/// Judges the tail of the last segment. Missing entries are damage if they were on disk before a group that is still
/// recognisable, or are below the mark. Any other tail was never acknowledged and may be cut off.
fn judge_tail(
    path: &Path,
    bytes: &[u8],
    walk: &Walk<'_>,
    stop: &Stop,
    scan: &Scan,
) -> Result<Option<TornTail>, OpenError> {
    let rest = &bytes[walk.offset..];
    let found = match stop {
        Stop::End => "the end of the file".to_owned(),
        Stop::Zeros => "zeros".to_owned(),
        Stop::Short => "half a record".to_owned(),
        Stop::Bad(why) => (*why).to_owned(),
    };
    let next = walk.edge.next;
    let lost = scan.mark.edge.next.max(scan.committed.next).max(highest_group_mark(rest, scan.nonce).unwrap_or(0));
    if lost > next {
        let what = format!(
            "instead of entry {next} there is this at byte {}: {found}; entries up to {} had been on disk",
            walk.offset,
            lost - 1
        );
        return Err(OpenError::damaged(path, next, what));
    }
    let clean = find_nonzero_page(rest, 0).is_none();
    Ok((!clean).then(|| TornTail { path: path.to_owned(), offset: walk.offset as u64, found }))
}
