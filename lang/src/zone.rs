//! Files of time zones (TZif): by how many seconds the clocks of a place are ahead of UTC. Where such files lie is not known here.

#[cfg(test)]
mod tests;

use chrono::{DateTime, FixedOffset, SecondsFormat};

/// A time, in seconds since 1970, as clocks that are so many seconds ahead of UTC show it: RFC 3339.
pub fn shown(at: i64, ahead: i64) -> Option<String> {
    let place = FixedOffset::east_opt(i32::try_from(ahead).ok()?)?;
    Some(DateTime::from_timestamp(at, 0)?.with_timezone(&place).to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

/// What a file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Zone {
    /// Ahead of UTC before the first change, in seconds.
    first: i64,
    /// When the clocks were or will be set, in seconds since 1970, and how far ahead they are from then on. In order.
    changes: Vec<(i64, i64)>,
}

/// The head of a block: its length in bytes.
const HEAD: usize = 44;

/// How many of what a block has.
struct Counts {
    isut: usize,
    isstd: usize,
    leaps: usize,
    times: usize,
    types: usize,
    chars: usize,
}

impl Counts {
    fn of(head: &[u8]) -> Option<Self> {
        let count = |at: usize| Some(u32::from_be_bytes(head.get(20 + at * 4..24 + at * 4)?.try_into().ok()?) as usize);
        head.starts_with(b"TZif").then_some(())?;
        Some(Self { isut: count(0)?, isstd: count(1)?, leaps: count(2)?, times: count(3)?, types: count(4)?, chars: count(5)? })
    }

    /// How long the block is after its head, with times of so many bytes.
    fn len(&self, time: usize) -> usize {
        self.times * (time + 1) + self.types * 6 + self.chars + self.leaps * (time + 4) + self.isstd + self.isut
    }
}

impl Zone {
    /// Reads a file of version 2 or later; `None`: it is none.
    pub fn parse(file: &[u8]) -> Option<Self> {
        // The first block has times of four bytes, for old readers.
        let old = Counts::of(file)?;
        let block = file.get(HEAD + old.len(4)..)?;
        let counts = Counts::of(block)?;
        let body = block.get(HEAD..HEAD + counts.len(8))?;
        let (times, rest) = body.split_at_checked(counts.times * 8)?;
        let (indexes, types) = rest.split_at_checked(counts.times)?;
        let ahead = |index: usize| Some(i64::from(i32::from_be_bytes(types.get(index * 6..index * 6 + 4)?.try_into().ok()?)));
        let mut changes = Vec::with_capacity(counts.times);
        for (time, index) in times.chunks_exact(8).zip(indexes) {
            changes.push((i64::from_be_bytes(time.try_into().ok()?), ahead(usize::from(*index))?));
        }
        Some(Self { first: ahead(0)?, changes })
    }

    /// How many seconds the clocks are ahead of UTC at a time, in seconds since 1970. After the last change that the file lists they stay.
    pub fn ahead(&self, at: i64) -> i64 {
        let before = self.changes.partition_point(|(time, _)| *time <= at);
        before.checked_sub(1).and_then(|last| self.changes.get(last)).map_or(self.first, |(_, ahead)| *ahead)
    }
}
