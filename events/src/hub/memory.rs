//! An event history in memory, for the simulation: entries that were not synced are lost when the machine dies.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use songline_commands::Kind;
use songline_projections::Change;
use tokio::sync::watch;

use super::batch::{Batch, Dialect, Format};
use super::block::{self, Block};
use super::error::HistoryError;
use super::history::History;
use crate::entry::AppliedEntry;
use crate::event;
use crate::refill::{Filling, Reached, Refill, RefillError};

/// The history as it is now, and as it would be after a crash.
pub struct MemoryHistory {
    now: Mutex<Kept>,
    synced: Mutex<Kept>,
    lost: watch::Sender<bool>,
}

#[derive(Clone)]
struct Kept {
    /// Blocks by the index of their last entry.
    blocks: BTreeMap<u64, Bytes>,
    oldest: u64,
    last: u64,
    lost: bool,
    filling: Option<Filling>,
}

impl Default for Kept {
    fn default() -> Self {
        Self { blocks: BTreeMap::new(), oldest: 1, last: 0, lost: false, filling: None }
    }
}

impl Kept {
    fn insert(&mut self, batch: &Batch) {
        if !batch.is_empty() {
            self.blocks.insert(batch.index, Bytes::from(block::encode(std::iter::once(batch))));
        }
    }

    fn stored_filling(&self) -> Option<Filling> {
        self.filling.filter(|filling| filling.before == self.oldest)
    }

    fn fill_from(&mut self, filling: &mut Filling, from: u64) {
        self.blocks = self.blocks.split_off(&self.oldest);
        (filling.from, filling.through) = (from, from - 1);
        self.filling = Some(*filling);
    }
}

impl Default for MemoryHistory {
    fn default() -> Self {
        Self { now: Mutex::default(), synced: Mutex::default(), lost: watch::Sender::new(false) }
    }
}

impl MemoryHistory {
    /// Simulates a crash and restart: the history keeps what was synced, or nothing when its folder is `gone`.
    pub fn restart(&self, gone: bool) {
        if gone {
            *self.synced.lock() = Kept::default();
        }
        let kept = self.synced.lock().clone();
        self.lost.send_replace(kept.lost);
        *self.now.lock() = kept;
    }

    fn found(&self) {
        let mut now = self.now.lock();
        (now.lost, now.filling) = (false, None);
        self.lost.send_replace(false);
    }
}

impl History for MemoryHistory {
    fn append(&self, batches: &[Arc<Batch>], through: u64) -> Result<(), HistoryError> {
        let mut now = self.now.lock();
        let known = now.last;
        batches.iter().filter(|batch| batch.index > known).for_each(|batch| now.insert(batch));
        now.last = through.max(known);
        Ok(())
    }

    fn read(&self, after: u64, bytes_max: usize) -> Result<Vec<Block>, HistoryError> {
        let (mut out, mut bytes) = (Vec::new(), 0);
        for (index, block) in self.now.lock().blocks.range(after + 1..) {
            if !out.is_empty() && bytes + block.len() > bytes_max {
                break;
            }
            bytes += block.len();
            out.push(Block::parse(block.clone(), *index)?);
        }
        Ok(out)
    }

    fn oldest(&self) -> u64 {
        self.now.lock().oldest
    }

    fn last(&self) -> u64 {
        self.now.lock().last
    }

    fn sync(&self) -> Result<(), HistoryError> {
        *self.synced.lock() = self.now.lock().clone();
        Ok(())
    }

    fn reset(&self, first_index: u64) -> Result<(), HistoryError> {
        *self.now.lock() = Kept { oldest: first_index, last: first_index.saturating_sub(1), ..Kept::default() };
        self.lost.send_replace(false);
        Ok(())
    }

    fn lose(&self, first_index: u64) -> Result<(), HistoryError> {
        self.reset(first_index)?;
        self.now.lock().lost = true;
        self.lost.send_replace(true);
        Ok(())
    }

    fn forget_before(&self, index: u64) -> Result<(), HistoryError> {
        let mut now = self.now.lock();
        if index > now.oldest {
            now.oldest = index;
            now.blocks = now.blocks.split_off(&index);
        }
        Ok(())
    }

    fn is_in_memory(&self) -> bool {
        true
    }
}

impl Refill for MemoryHistory {
    fn name(&self) -> &'static str {
        "events"
    }

    fn losses(&self) -> watch::Receiver<bool> {
        self.lost.subscribe()
    }

    fn filling(&self) -> Result<Filling, RefillError> {
        let now = self.now.lock();
        Ok(now.stored_filling().unwrap_or_else(|| Filling::new(now.oldest)))
    }

    fn begin_at(&self, filling: &mut Filling, from: u64) -> Result<(), RefillError> {
        self.now.lock().fill_from(filling, from);
        Ok(())
    }

    fn begin_restored(&self, filling: &mut Filling, index: u64) -> Result<(), RefillError> {
        self.now.lock().fill_from(filling, index + 1);
        Ok(())
    }

    fn fill(&self, filling: &mut Filling, entries: &[AppliedEntry], next: Reached) -> Result<bool, RefillError> {
        let mut now = self.now.lock();
        if now.stored_filling() != Some(*filling) {
            return Ok(false);
        }
        entries.iter().for_each(|entry| now.insert(&Batch::encode(entry.index, entry.kind, &entry.changes)));
        (filling.through, filling.raft_through) = (next.index, next.raft_index);
        now.filling = Some(*filling);
        Ok(true)
    }

    fn end(&self, filling: &Filling) -> Result<bool, RefillError> {
        {
            let mut now = self.now.lock();
            if now.stored_filling() != Some(*filling) {
                return Ok(false);
            }
            now.oldest = filling.from;
        }
        self.found();
        Ok(true)
    }

    fn give_up(&self) -> Result<(), RefillError> {
        self.found();
        Ok(())
    }
}

/// The JSON frame of an entry in a stream of all events; `None` when the stream shows no event of the entry. The
/// frame is made from the changes alone, without the compact form of sweeps, so that streams can be checked against
/// it.
pub fn full_frame(index: u64, kind: Kind, changes: &[Change]) -> Option<Bytes> {
    let frames = Batch::of(index, kind.number(), event::events(kind, changes)).frames_of(Format::Json, Dialect::Full, |_| true);
    (!frames.is_empty()).then(|| Bytes::from(frames.concat()))
}
