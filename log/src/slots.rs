//! A small file that holds one value in two slots, so that a crash while one is written leaves the other. The owner
//! interprets the value (mark, vote, floor, ..).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, Open};
use crate::position::{u32_at, u64_at};

/// Distance between the slots: a page, because no disk tears the second page by a write to the first.
const SLOT_BYTES: usize = 4096;
const MAGIC: [u8; 4] = *b"SLOT";
/// Length of a slot's header: `magic, len u32, seq u64`. The payload and a crc of both follow.
const HEADER_BYTES: usize = 16;
const PAYLOAD_BYTES_MAX: usize = SLOT_BYTES - HEADER_BYTES - 4;

/// An open double-slot file.
#[derive(Debug)]
pub(crate) struct SlotFile {
    file: Arc<dyn DiskFile>,
    seq: u64,
}

/// A value read from a double-slot file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotValue {
    pub payload: Vec<u8>,
    pub seq: u64,
    /// Number of slots that hold this value: 1 if the other slot is older or damaged.
    pub copies: u8,
}

impl SlotFile {
    /// Creates the file with a first value. The content is on disk when this returns; syncing the directory is the
    /// caller's part.
    pub fn create(disk: &dyn Disk, path: &Path, payload: &[u8]) -> io::Result<Self> {
        let file = disk.open(path, Open::Create)?;
        let mut slots = Self { file, seq: 0 };
        slots.save(payload)?;
        slots.file.sync_all()?;
        Ok(slots)
    }

    /// Opens the file to continue from `value`, which was read from it. Writes `value` to both slots unless they have
    /// it already: the older value must not come back after this one was acted on.
    pub fn open(disk: &dyn Disk, path: &Path, value: &SlotValue) -> io::Result<Self> {
        let file = disk.open(path, Open::Write)?;
        let mut slots = Self { file, seq: value.seq };
        if value.copies < 2 {
            slots.save(&value.payload)?;
        }
        Ok(slots)
    }

    /// Writes both slots, each synced before the next is touched. Afterwards the loss of either slot is harmless: the
    /// other has the same value, never an older one.
    pub fn save(&mut self, payload: &[u8]) -> io::Result<()> {
        let seq = self.seq + 1;
        let first = seq % 2;
        self.write_slot(first, seq, payload)?;
        self.file.sync_data()?;
        self.write_slot(1 - first, seq, payload)?;
        self.file.sync_data()?;
        self.seq = seq;
        Ok(())
    }

    /// Writes one slot without a sync. For values of which an older one does no harm.
    pub fn hint(&mut self, payload: &[u8]) -> io::Result<()> {
        let seq = self.seq + 1;
        self.write_slot(seq % 2, seq, payload)?;
        self.seq = seq;
        Ok(())
    }

    fn write_slot(&self, slot: u64, seq: u64, payload: &[u8]) -> io::Result<()> {
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "value does not fit a slot"));
        }
        let len = u32::try_from(payload.len()).expect("a slot is 4096 bytes");
        let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len() + 4);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&seq.to_le_bytes());
        bytes.extend_from_slice(payload);
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        self.file.write_all_at(&bytes, slot * SLOT_BYTES as u64)
    }
}

/// Reads the newest sound value of a double-slot file without opening it for writing.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<SlotValue>> {
    let bytes = disk.read(path)?;
    let places = [bytes.get(..SLOT_BYTES.min(bytes.len())), bytes.get(SLOT_BYTES..)];
    let sound: Vec<(u64, &[u8])> = places.into_iter().flatten().filter_map(decode).collect();
    let newest = sound.iter().max_by_key(|(seq, _)| *seq);
    Ok(newest.map(|(seq, payload)| SlotValue {
        payload: payload.to_vec(),
        seq: *seq,
        copies: if sound.iter().all(|(other, _)| other == seq) && sound.len() == 2 { 2 } else { 1 },
    }))
}

fn decode(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let len = u32_at(bytes, 4)? as usize;
    let end = HEADER_BYTES.checked_add(len)?;
    let sound = bytes.get(..4)? == MAGIC && u32_at(bytes, end)? == crc32c::crc32c(bytes.get(..end)?);
    if sound { Some((u64_at(bytes, 8)?, &bytes[HEADER_BYTES..end])) } else { None }
}

/// Paths of the small files of a log directory.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub dir: PathBuf,
}

impl Names {
    pub fn format(&self) -> PathBuf {
        self.dir.join("format")
    }
    pub fn mark(&self) -> PathBuf {
        self.dir.join("mark")
    }
    pub fn vote(&self) -> PathBuf {
        self.dir.join("vote")
    }
    pub fn committed(&self) -> PathBuf {
        self.dir.join("committed")
    }
    pub fn floor(&self) -> PathBuf {
        self.dir.join("floor")
    }
    pub fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }
}
