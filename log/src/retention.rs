//! Choice of the segments to drop. The log is the history, so age and size count, not the times of checkpoints.

use std::time::Duration;

use crate::store::SegmentInfo;

/// Bounds after which entries are dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Age of a segment's last entry after which the segment may be dropped.
    pub age: Duration,
    /// Bytes of all segments together above which the oldest may be dropped.
    pub bytes_max: u64,
    /// Number of newest applied entries that are always kept, so that consensus still finds the entries it works on.
    pub entries_min: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { age: Duration::from_secs(7 * 24 * 3600), bytes_max: 8 << 30, entries_min: 100_000 }
    }
}

/// Segments that retention dropped. Their files are removed once no other server needs them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Entries below this index are dropped; 0 when none are.
    pub below: u64,
    /// Number of segments.
    pub segments: usize,
    /// Bytes of records in these segments.
    pub bytes: u64,
}

/// Chooses the segments to drop. `replay_from` is the index of the first entry that recovery may need, `applied` of the
/// first not yet applied.
pub(crate) fn plan(
    retention: &Retention,
    segments: &[SegmentInfo],
    replay_from: u64,
    applied: u64,
    now_ms: u64,
) -> Dropped {
    let age_ms = u64::try_from(retention.age.as_millis()).unwrap_or(u64::MAX);
    let safe = replay_from.min(applied.saturating_sub(retention.entries_min));
    let mut total: u64 = segments.iter().map(|segment| segment.bytes).sum();
    let mut dropped = Dropped::default();
    // The newest segment is still being written, so it stays. A segment ends when the next one begins, so the age
    // counts from there.
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
