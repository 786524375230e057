//! One record of a segment: its encoding, and a walk over consecutive records. `segment` handles files; `store/scan`
//! judges what a broken record means for the whole log.

use bytes::Bytes;

use crate::position::{Edge, Position, u32_at, u64_at};

/// Length of a record's header: `len u32, crc u32, term u64, index u64, kind u8`, all little-endian.
pub(crate) const HEADER_BYTES: usize = 25;

/// Longest payload of one entry, in bytes. A longer length in a file is damage, not data.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

const GROUP_MAGIC: [u8; 8] = *b"SLGROUP1";
const GROUP_PAYLOAD_BYTES: usize = 28;

/// Kind of an entry. The number is its byte on disk; 0 stays free so that a header is never all zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No content: a new leader appends one to commit the entries before it.
    Blank = 1,
    /// Bytes that the caller proposed.
    Command = 2,
    /// The members of the cluster from this entry on.
    Membership = 3,
}

/// One entry as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Term and index of the entry.
    pub position: Position,
    /// Kind of the payload.
    pub kind: Kind,
    /// Opaque bytes.
    pub payload: Bytes,
}

impl Record {
    pub(crate) fn encoded_len(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

const GROUP_KIND: u8 = 4;

pub(crate) fn kind_of(byte: u8) -> Option<Kind> {
    match byte {
        1 => Some(Kind::Blank),
        2 => Some(Kind::Command),
        3 => Some(Kind::Membership),
        _ => None,
    }
}

/// Appends a record to `out` and returns the chain after it. The crc continues from the previous record, so a record is
/// only valid after the one it was written after.
fn put(out: &mut Vec<u8>, chain: u32, position: Position, kind: u8, payload: &[u8]) -> u32 {
    let len = u32::try_from(payload.len()).expect("payloads are checked against PAYLOAD_BYTES_MAX when appended");
    let start = out.len();
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&position.term.to_le_bytes());
    out.extend_from_slice(&position.index.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(payload);
    let crc = chained(chain, &out[start..]);
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    crc
}

/// The crc of one whole record without its own crc field, continued from `chain`.
fn chained(chain: u32, record: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(chain, &record[..4]), &record[8..])
}

/// Appends an entry to `out` and returns the chain after it.
pub(crate) fn put_entry(out: &mut Vec<u8>, chain: u32, record: &Record) -> u32 {
    put(out, chain, record.position, record.kind as u8, &record.payload)
}

/// Appends a group mark, which starts a group. The mark says that every entry below `durable.next` was on disk before
/// this group was written; that tells damage from a torn tail. The mark must be recognisable without the records before
/// it, so it has a crc of its own and the log's nonce, which no payload can guess.
pub(crate) fn put_group(out: &mut Vec<u8>, chain: u32, durable: Edge, nonce: u64) -> u32 {
    let mut payload = [0; GROUP_PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&GROUP_MAGIC);
    payload[8..16].copy_from_slice(&nonce.to_le_bytes());
    payload[16..24].copy_from_slice(&durable.next.to_le_bytes());
    let crc = crc32c::crc32c(&payload[..24]);
    payload[24..].copy_from_slice(&crc.to_le_bytes());
    put(out, chain, Position { term: durable.term, index: durable.next }, GROUP_KIND, &payload)
}

/// Number of bytes that `put_group` writes.
pub(crate) const GROUP_BYTES: usize = HEADER_BYTES + GROUP_PAYLOAD_BYTES;

fn group_mark(payload: &[u8], nonce: u64) -> Option<u64> {
    let payload = payload.get(..GROUP_PAYLOAD_BYTES)?;
    let sound = payload[..8] == GROUP_MAGIC
        && u64_at(payload, 8) == Some(nonce)
        && u32_at(payload, 24) == Some(crc32c::crc32c(&payload[..24]));
    if sound { u64_at(payload, 16) } else { None }
}

/// Highest `durable.next` of the group marks found anywhere in `bytes`, even between damaged records.
pub(crate) fn highest_group_mark(bytes: &[u8], nonce: u64) -> Option<u64> {
    let mut highest = None;
    let mut at = 0;
    while let Some(found) = find_nonzero_page(bytes, at) {
        // A mark can begin in the page before and end in this one, so start a little earlier.
        let from = found.saturating_sub(GROUP_PAYLOAD_BYTES).max(at.saturating_sub(GROUP_PAYLOAD_BYTES));
        let to = (found + PAGE + GROUP_PAYLOAD_BYTES).min(bytes.len());
        let window = &bytes[from..to];
        for (i, byte) in window.iter().enumerate() {
            if *byte == GROUP_MAGIC[0]
                && let Some(mark) = group_mark(&window[i..], nonce)
            {
                highest = highest.max(Some(mark));
            }
        }
        at = found + PAGE;
    }
    highest
}

const PAGE: usize = 4096;

/// Offset of the first page at or after `from` that is not all zeros. Preallocated space is mostly zeros, and comparing
/// whole pages skips it fast.
pub(crate) fn find_nonzero_page(bytes: &[u8], from: usize) -> Option<usize> {
    static ZEROS: [u8; PAGE] = [0; PAGE];
    let mut at = from;
    while at < bytes.len() {
        let page = &bytes[at..(at + PAGE).min(bytes.len())];
        if page != &ZEROS[..page.len()] {
            return Some(at);
        }
        at += PAGE;
    }
    None
}

/// Reason why a walk ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The bytes ended between two records.
    End,
    /// Zeros where a record would begin: preallocated space.
    Zeros,
    /// The bytes ended inside a record.
    Short,
    /// Not a valid record at this place; the text says why.
    Bad(&'static str),
}

/// An entry found by a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Met<'a> {
    pub position: Position,
    pub kind: Kind,
    pub payload: &'a [u8],
    /// Offset of the entry in the walked bytes.
    pub offset: usize,
    /// The chain before the entry.
    pub chain_before: u32,
    /// The chain after the entry, which is also the entry's crc.
    pub chain: u32,
}

/// Walks over consecutive records and checks each against the chain.
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    nonce: u64,
    /// Offset of the next record.
    pub offset: usize,
    /// The crc that the next record continues.
    pub chain: u32,
    /// Edge after the last entry passed.
    pub edge: Edge,
    /// Number of group marks passed.
    pub groups: u64,
}

impl<'a> Walk<'a> {
    pub fn new(bytes: &'a [u8], offset: usize, chain: u32, edge: Edge, nonce: u64) -> Self {
        Self { bytes, nonce, offset, chain, edge, groups: 0 }
    }

    /// The next entry, or the reason why there is none. Group marks are checked and skipped.
    pub fn step(&mut self) -> Result<Met<'a>, Stop> {
        loop {
            let rest = &self.bytes[self.offset..];
            if rest.is_empty() {
                return Err(Stop::End);
            }
            if rest.len() < HEADER_BYTES {
                return Err(if rest.iter().all(|byte| *byte == 0) { Stop::Zeros } else { Stop::Short });
            }
            if rest[..HEADER_BYTES].iter().all(|byte| *byte == 0) {
                return Err(Stop::Zeros);
            }
            let short = Stop::Short;
            let len = u32_at(rest, 0).ok_or(short.clone())? as usize;
            if len > PAYLOAD_BYTES_MAX {
                return Err(Stop::Bad("impossible length"));
            }
            let record = rest.get(..HEADER_BYTES + len).ok_or(short.clone())?;
            let crc = u32_at(record, 4).ok_or(short.clone())?;
            if crc != chained(self.chain, record) {
                return Err(Stop::Bad("checksum does not match"));
            }
            let term = u64_at(record, 8).ok_or(short.clone())?;
            let index = u64_at(record, 16).ok_or(short)?;
            let payload = &record[HEADER_BYTES..];
            if index != self.edge.next || term < self.edge.term {
                return Err(Stop::Bad("index or term out of order"));
            }
            let chain_before = self.chain;
            let offset = self.offset;
            if record[24] == GROUP_KIND {
                if group_mark(payload, self.nonce) != Some(self.edge.next) {
                    return Err(Stop::Bad("group mark out of order"));
                }
                self.groups += 1;
                self.offset += record.len();
                self.chain = crc;
                continue;
            }
            let Some(kind) = kind_of(record[24]) else {
                return Err(Stop::Bad("unknown kind of record"));
            };
            self.offset += record.len();
            self.chain = crc;
            let position = Position { term, index };
            self.edge = Edge::after(position);
            return Ok(Met { position, kind, payload, offset, chain_before, chain: crc });
        }
    }
}

#[cfg(test)]
mod tests;
