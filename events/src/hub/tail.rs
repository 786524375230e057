//! The newest events in memory: bounded by entries and bytes, dropped oldest first.

use std::collections::VecDeque;
use std::sync::Arc;

use super::HubConfig;
use super::batch::Batch;

/// Bytes of msgpack of the newest entries, for which everything that was made for one subscriber is kept for others: JSON
/// takes a quarter more than msgpack, once for each event and once for each frame.
const NEW_BYTES: usize = 8 << 20;

pub(super) struct Tail {
    batches: VecDeque<Arc<Batch>>,
    bytes: usize,
    /// Number of the newest of `batches` that are new, and their bytes.
    new: usize,
    new_bytes: usize,
    /// All entries after this index are in memory.
    complete_after: u64,
    last_index: u64,
}

/// Result of a read of the tail.
pub(super) enum Read {
    /// Batches, oldest first, at least one.
    Batches(Vec<Arc<Batch>>),
    /// There is no later entry yet.
    Nothing,
    /// The tail has dropped some of the wanted entries.
    Behind,
}

impl Tail {
    pub(super) fn new(applied: u64) -> Self {
        Self { batches: VecDeque::new(), bytes: 0, new: 0, new_bytes: 0, complete_after: applied, last_index: applied }
    }

    pub(super) fn push(&mut self, batch: Arc<Batch>, config: &HubConfig) {
        self.last_index = batch.index;
        self.bytes += batch.bytes();
        self.new_bytes += batch.bytes();
        self.new += 1;
        self.batches.push_back(batch);
        while self.new_bytes > NEW_BYTES && self.new > 1 {
            let Some(older) = self.batches.get(self.batches.len() - self.new) else { break };
            older.forget_shared();
            self.new_bytes -= older.bytes();
            self.new -= 1;
        }
        while self.batches.len() > config.tail_batches_max || self.bytes > config.tail_bytes_max {
            // A single entry larger than the bound stays: subscribers have to be able to read it.
            if self.batches.len() == 1 {
                break;
            }
            if let Some(dropped) = self.batches.pop_front() {
                self.bytes -= dropped.bytes();
                if self.new > self.batches.len() {
                    self.new -= 1;
                    self.new_bytes -= dropped.bytes();
                }
                self.complete_after = dropped.index;
            }
        }
    }

    /// Drops everything up to an index.
    pub(super) fn clear(&mut self, index: u64) {
        *self = Self::new(index);
    }

    pub(super) fn last_index(&self) -> u64 {
        self.last_index
    }

    pub(super) fn complete_after(&self) -> u64 {
        self.complete_after
    }

    /// Entries after `cursor`, at most `batches_max`.
    pub(super) fn after(&self, cursor: u64, batches_max: usize) -> Read {
        if cursor < self.complete_after {
            return Read::Behind;
        }
        let start = self.batches.partition_point(|batch| batch.index <= cursor);
        let found: Vec<_> = self.batches.iter().skip(start).take(batches_max).cloned().collect();
        if found.is_empty() { Read::Nothing } else { Read::Batches(found) }
    }

    /// The cursor of a plain stream with the parameter `index`. It lies before the entry at `index` or, if there is
    /// none, before the next one; before the newest entry when all are older; before the oldest of the last `frames`
    /// frames when `index` is older than that.
    pub(super) fn plain_start(&self, index: u64, frames: usize) -> u64 {
        let (mut seen, mut start) = (0, None);
        // Entries without a frame in a plain stream do not count.
        for batch in self.batches.iter().rev() {
            let steps = batch.steps();
            if steps == 0 {
                continue;
            }
            if seen >= frames || start.is_some() && batch.index < index {
                break;
            }
            seen += steps;
            start = Some(batch.index);
        }
        match start {
            Some(index) => index - 1,
            None => self.last_index,
        }
    }
}
