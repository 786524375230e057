//! Cache of the newest entries: those not yet on disk, and as many others as fit its budget.

use std::collections::VecDeque;
use std::ops::Range;

use crate::record::Record;

/// Assumed cost of an entry besides its payload, in bytes; a rough figure that bounds the number of tiny entries.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// A run of entries that always reaches the end of the log.
#[derive(Debug)]
pub(crate) struct Cache {
    /// Index of the first cached entry, or of the next entry to come when the cache is empty.
    first: u64,
    entries: VecDeque<Record>,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    pub fn new(next: u64, bytes_max: usize) -> Self {
        Self { first: next, entries: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Index of the first cached entry. Every entry from there to the end of the log is cached.
    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn push(&mut self, record: Record) {
        self.bytes += record.payload.len() + ENTRY_OVERHEAD_BYTES;
        self.entries.push_back(record);
    }

    /// Evicts old entries beyond the budget, but only entries that are on disk (below `durable_next`).
    pub fn evict(&mut self, durable_next: u64) {
        while self.bytes > self.bytes_max && self.first < durable_next {
            self.drop_front();
        }
    }

    /// Removes entries from `next` on.
    pub fn truncate(&mut self, next: u64) {
        while self.first + (self.entries.len() as u64) > next {
            let Some(record) = self.entries.pop_back() else { break };
            self.bytes -= record.payload.len() + ENTRY_OVERHEAD_BYTES;
        }
        self.first = self.first.min(next);
    }

    /// Removes entries below `floor`.
    pub fn purge(&mut self, floor: u64) {
        while self.first < floor && !self.entries.is_empty() {
            self.drop_front();
        }
        self.first = self.first.max(floor);
    }

    fn drop_front(&mut self) {
        if let Some(record) = self.entries.pop_front() {
            self.bytes -= record.payload.len() + ENTRY_OVERHEAD_BYTES;
            self.first += 1;
        }
    }

    /// Copies entries of `range`: the first always, further ones while they fit `bytes_max`.
    pub fn read(&self, range: Range<u64>, bytes_max: usize, out: &mut Vec<Record>) {
        let Some(skip) = range.start.checked_sub(self.first) else { return };
        let count = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let mut bytes = 0usize;
        for record in self.entries.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)).take(count) {
            bytes = bytes.saturating_add(record.payload.len());
            if bytes > bytes_max && !out.is_empty() {
                return;
            }
            out.push(record.clone());
        }
    }
}
