//! Blocks of the history: the frames of several entries one after another, ready to be sent, followed by the labels
//! of their events. A subscriber to all events in msgpack gets slices of a block without decoding.
//!
//! Blocks are compressed as a whole, because events repeat most of their bytes: the store writes them to its journal, its
//! memory and its files, and files again when it joins them.

use std::ops::Range;

use bytes::Bytes;
use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use serde::{Deserialize, Serialize};
use songline_commands::Kind;
use songline_model::Str;

use super::batch::{Batch, Label};
use super::error::HistoryError;
use crate::event::Audience;
use crate::sweep::Sweep;

/// Format version, the first byte of a block.
const FORM: u8 = 1;
/// First byte of a block that is stored as LZ4: the length of the plain block follows, then its compressed bytes.
const PACKED: u8 = 2;
/// Bytes of the head of a compressed block.
const PACKED_HEAD_BYTES: usize = 5;
/// Largest buffer that is kept for the next block.
const BUFFER_BYTES_MAX: usize = 4 << 20;
/// Largest plain block that is read: an entry has fewer bytes.
const PLAIN_BYTES_MAX: usize = 1 << 30;
/// Bytes of the head: format version and number of entries.
const HEAD_BYTES: usize = 5;
/// Bytes of an entry's head: index, kind, flags, length of the frame, length of the labels.
const ENTRY_BYTES: usize = 8 + 2 + 1 + 4 + 4;
/// Flag of an entry that some streams show only in part.
const MIXED: u8 = 1;
/// Flag of an entry with a sweep: the length of its labels precedes them, and the stored sweep follows them.
const SWEPT: u8 = 2;

/// A label in stored form, with the position of its event in the frame.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    topic: &'a str,
    word: &'a str,
    key: &'a str,
    namespace: &'a str,
    #[serde(borrow)]
    filter_keys: Vec<&'a str>,
    step: u8,
    audience: Audience,
    start: usize,
    end: usize,
}

/// Encodes blocks in buffers of its own, which are used for all of them.
#[derive(Default)]
pub(super) struct Encoder {
    plain: Vec<u8>,
    packed: Vec<u8>,
}

impl Encoder {
    /// Encodes batches as one block.
    pub(super) fn encode<'a>(&mut self, batches: impl ExactSizeIterator<Item = &'a Batch> + Clone) -> &[u8] {
        if self.packed.capacity() > BUFFER_BYTES_MAX {
            *self = Self::default();
        }
        let plain = &mut self.plain;
        plain.clear();
        plain.push(FORM);
        plain.extend_from_slice(&length(batches.len()));
        let labels: Vec<Vec<u8>> = batches.clone().map(labels_of).collect();
        for (batch, labels) in batches.clone().zip(&labels) {
            plain.extend_from_slice(&batch.index.to_be_bytes());
            plain.extend_from_slice(&batch.kind.to_be_bytes());
            plain.push(if batch.is_mixed() { MIXED } else { 0 } | if batch.swept().is_some() { SWEPT } else { 0 });
            plain.extend_from_slice(&length(batch.frame().len()));
            plain.extend_from_slice(&length(labels.len()));
        }
        batches.for_each(|batch| plain.extend_from_slice(batch.frame()));
        labels.iter().for_each(|labels| plain.extend_from_slice(labels));
        self.pack()
    }

    /// Compresses the plain block.
    fn pack(&mut self) -> &[u8] {
        let (plain, packed) = (&self.plain, &mut self.packed);
        packed.resize(PACKED_HEAD_BYTES + get_maximum_output_size(plain.len()), 0);
        packed[0] = PACKED;
        packed[1..PACKED_HEAD_BYTES].copy_from_slice(&length(plain.len()));
        let size = compress_into(plain, &mut packed[PACKED_HEAD_BYTES..]).expect("the buffer has room for any output");
        &packed[..PACKED_HEAD_BYTES + size]
    }
}

/// The plain form of a stored block; `None` when it is damaged.
fn unpacked(stored: Bytes) -> Option<Bytes> {
    if stored.first() != Some(&PACKED) {
        return Some(stored);
    }
    let (head, packed) = stored.split_first_chunk::<PACKED_HEAD_BYTES>()?;
    let [_, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok().filter(|length| *length <= PLAIN_BYTES_MAX)?;
    let mut plain = vec![0; length];
    let size = decompress_into(packed, &mut plain).ok()?;
    (size == length).then(|| plain.into())
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).expect("a block is far below 4 GiB, as an entry of the log is").to_be_bytes()
}

fn labels_of(batch: &Batch) -> Vec<u8> {
    let stored: Vec<Stored<'_>> = batch
        .ranges()
        .map(|(label, at)| Stored {
            topic: &label.topic,
            word: &label.word,
            key: &label.key,
            namespace: &label.namespace,
            filter_keys: label.filter_keys.iter().map(Str::as_str).collect(),
            step: label.step,
            audience: label.audience,
            start: at.start,
            end: at.end,
        })
        .collect();
    let labels = rmp_serde::to_vec(&stored).expect("texts and numbers fit into msgpack");
    match batch.swept() {
        None => labels,
        Some(swept) => [&length(labels.len())[..], &labels, swept].concat(),
    }
}

/// A decoded block.
#[derive(Debug)]
pub struct Block {
    bytes: Bytes,
    /// Ordered by index.
    entries: Vec<Entry>,
}

/// One entry's part of a block.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) index: u64,
    pub(super) is_mixed: bool,
    /// Frames of consecutive entries are consecutive.
    pub(super) frame: Range<usize>,
    kind: u16,
    labels: Range<usize>,
    swept: bool,
}

impl Block {
    /// Decodes a block that an [`Encoder`] wrote. `last` is the key of the block: the index of its last entry.
    pub(super) fn parse(bytes: Bytes, last: u64) -> Result<Self, HistoryError> {
        unpacked(bytes).and_then(Self::parsed).ok_or(HistoryError::Damaged(last))
    }

    /// Bytes of the block in memory.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn parsed(bytes: Bytes) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (form, count) = head.split_first()?;
        let count = usize::try_from(u32::from_be_bytes(count.try_into().ok()?)).ok()?;
        if *form != FORM || rest.len() / ENTRY_BYTES < count {
            return None;
        }
        let mut entries = Vec::with_capacity(count);
        let mut frame_start = HEAD_BYTES + count * ENTRY_BYTES;
        let lengths = |entry: &[u8; ENTRY_BYTES]| {
            let number =
                |at: usize| entry[at..].first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes) as usize);
            (number(11), number(15))
        };
        let table = rest.as_chunks::<ENTRY_BYTES>().0.get(..count)?;
        let mut labels_start = frame_start + table.iter().map(|entry| lengths(entry).0).sum::<usize>();
        for entry in table {
            let (frame, labels) = lengths(entry);
            entries.push(Entry {
                index: u64::from_be_bytes(*entry.first_chunk()?),
                kind: u16::from_be_bytes([entry[8], entry[9]]),
                is_mixed: entry[10] & MIXED != 0,
                swept: entry[10] & SWEPT != 0,
                frame: frame_start..frame_start + frame,
                labels: labels_start..labels_start + labels,
            });
            frame_start += frame;
            labels_start += labels;
        }
        (labels_start == bytes.len() && entries.is_sorted_by_key(|entry| entry.index))
            .then_some(Self { bytes, entries })
    }

    /// Entries after `index`.
    pub(super) fn after(&self, index: u64) -> &[Entry] {
        &self.entries[self.entries.partition_point(|entry| entry.index <= index)..]
    }

    /// Frames of consecutive entries, in this range of bytes.
    pub(super) fn frames(&self, at: Range<usize>) -> Bytes {
        self.bytes.slice(at)
    }

    /// Decodes the events of an entry.
    pub(super) fn batch(&self, entry: &Entry) -> Result<Batch, HistoryError> {
        let damaged = || HistoryError::Damaged(entry.index);
        let (labels, swept) = self.labels(entry).ok_or_else(damaged)?;
        let labels: Vec<Stored<'_>> = rmp_serde::from_slice(labels).map_err(|_| damaged())?;
        let frame = self.bytes.slice(entry.frame.clone());
        if labels.iter().any(|label| label.start > label.end || label.end > frame.len()) {
            return Err(damaged());
        }
        let labels = labels.into_iter().map(|stored| {
            let label = Label {
                topic: stored.topic.into(),
                word: stored.word.into(),
                key: stored.key.into(),
                namespace: stored.namespace.into(),
                filter_keys: stored.filter_keys.into_iter().map(Str::from).collect(),
                step: stored.step,
                audience: stored.audience,
            };
            (label, stored.start..stored.end)
        });
        let batch = Batch::new(entry.index, entry.kind, frame, labels.collect());
        Ok(match swept {
            None => batch,
            Some(at) if Kind::from_number(entry.kind).is_some() && Sweep::decode(&self.bytes[at.clone()]).is_some() => {
                batch.with_swept(self.bytes.slice(at))
            }
            Some(_) => return Err(damaged()),
        })
    }

    /// The stored labels of an entry, and the range of its stored sweep.
    fn labels(&self, entry: &Entry) -> Option<(&[u8], Option<Range<usize>>)> {
        let bytes = self.bytes.get(entry.labels.clone())?;
        if !entry.swept {
            return Some((bytes, None));
        }
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (labels, swept) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        Some((labels, Some(entry.labels.end - swept.len()..entry.labels.end)))
    }

    /// Indexes of the block's entries.
    pub fn indexes(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|entry| entry.index)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use songline_model::NodePool;
    use songline_projections::Change;

    use super::*;

    fn batch(index: u64) -> Batch {
        let pool = NodePool { name: "a".into(), description: "b".repeat(500).into(), ..NodePool::default() };
        Batch::encode(index, Kind::NodePoolUpsert, &[Change::NodePool { before: None, after: Some(Arc::new(pool)) }])
    }

    #[test]
    fn blocks_are_read_in_both_forms_and_damage_is_noticed() {
        let batches = [batch(4), batch(7)];
        let mut encoder = Encoder::default();
        let packed = encoder.encode(batches.iter()).to_vec();
        let plain = encoder.plain.clone();
        assert!(packed.len() < plain.len() / 2, "{} of {} bytes", packed.len(), plain.len());
        for stored in [&packed, &plain] {
            let block = Block::parse(Bytes::copy_from_slice(stored), 7).expect("is whole");
            assert_eq!(block.indexes().collect::<Vec<u64>>(), [4, 7]);
            let entry = &block.after(4)[0];
            assert_eq!(block.batch(entry).expect("is whole").frame(), batches[1].frame());
        }
        for cut in 0..packed.len() {
            Block::parse(Bytes::copy_from_slice(&packed[..cut]), 7).expect_err("lacks its end");
        }
        let mut longer = packed;
        longer[4] += 1;
        Block::parse(longer.into(), 7).expect_err("has not the length that it says");
    }
}
