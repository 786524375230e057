//! Which segments may go. The log is the history, so they go by age and size, not when a checkpoint was made.

use std::time::Duration;

use crate::store::SegmentInfo;

/// When entries are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Segments whose last entry is older than this may go.
    pub age: Duration,
    /// When all segments together are larger than this, in bytes, the oldest may go.
    pub bytes_max: u64,
    /// So many of the newest applied entries stay in any case. Consensus must never find that an entry it is
    /// still working on is gone.
    pub entries_min: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 3600), bytes_max: 8 << 30, entries_min: 100_000 }
    }
}

/// What retention dropped, or began to drop: files go as soon as no other server needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Entries below this index; 0 when none.
    pub below: u64,
    /// How many segments that are.
    pub segments: usize,
    /// How many bytes of records they hold.
    pub bytes: u64,
}

/// Decides. `replay_from` is the first entry that recovery may need, `applied` the first not yet applied.
pub(crate) fn plan(retention: &Retention, segments: &[SegmentInfo], replay_from: u64, applied: u64, now_ms: u64) -> Dropped {
    let age_ms = u64::try_from(retention.age.as_millis()).unwrap_or(u64::MAX);
    let safe = replay_from.min(applied.saturating_sub(retention.entries_min));
    let mut total: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let mut dropped = Dropped::default();
    // The newest segment is still being written. A segment ends when the next one begins.
    for pair in segments.windows(2) {
        let (segment, next) = (&pair[0], &pair[1]);
        let expired = now_ms.saturating_sub(next.created_ms) > age_ms;
        let oversized = total > retention.bytes_max;
        if segment.end.next > safe || !(expired || oversized) {
            break;
        }
        total -= segment.bytes;
        dropped.below = segment.end.next;
        dropped.segments += 1;
        dropped.bytes += segment.bytes;
    }
    dropped
}

#[cfg(test)]
mod tests;
