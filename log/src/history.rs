//! Reads entries one after another, in pieces of 1 MiB.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::error::ReadError;
use crate::machine::{Committed, Payload};
use crate::members::Members;
use crate::record::{Kind, Record};
use crate::store::Store;

/// Bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// Source of entries: an open store, or the files of a log that is not open.
pub(crate) trait Source: Send + Sync {
    fn oldest(&self) -> u64;
    /// Like `Store::read`.
    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>>;
}

impl Source for Store {
    fn oldest(&self) -> u64 {
        Store::oldest(self)
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> io::Result<Vec<Record>> {
        Store::read(self, range, bytes_max)
    }
}

/// Entries of a range, in order, without gaps. Ends early only at the end of the log. Returns an error when retention
/// drops entries that are still to be read.
pub struct Entries {
    source: Arc<dyn Source>,
    range: Range<u64>,
    read: VecDeque<Record>,
}

impl Entries {
    pub(crate) fn new(source: Arc<dyn Source>, range: Range<u64>) -> Result<Self, ReadError> {
        let oldest = source.oldest();
        if range.start < oldest {
            return Err(ReadError::BelowOldest { wanted: range.start, oldest });
        }
        Ok(Self { source, range, read: VecDeque::new() })
    }

    fn fill(&mut self) -> Result<(), ReadError> {
        let records = self.source.read(self.range.clone(), READ_BYTES)?;
        let oldest = self.source.oldest();
        if self.range.start < oldest {
            return Err(ReadError::BelowOldest { wanted: self.range.start, oldest });
        }
        self.read = records.into();
        Ok(())
    }
}

impl std::fmt::Debug for Entries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entries").field("range", &self.range).finish_non_exhaustive()
    }
}

impl Iterator for Entries {
    type Item = Result<Committed, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.range.is_empty() {
            return None;
        }
        if self.read.is_empty()
            && let Err(error) = self.fill()
        {
            self.range.end = self.range.start;
            return Some(Err(error));
        }
        let record = self.read.pop_front()?;
        self.range.start = record.position.index + 1;
        Some(committed(record).map_err(ReadError::Io))
    }
}

/// Converts a record to the entry that the state machine gets.
pub(crate) fn committed(record: Record) -> io::Result<Committed> {
    let payload = match record.kind {
        Kind::Blank => Payload::Blank,
        Kind::Command => Payload::Command(record.payload),
        Kind::Membership => {
            let members = Members::decode(&record.payload);
            Payload::Membership(members.ok_or_else(|| {
                io::Error::new(io::ErrorKind::InvalidData, format!("entry {} holds no membership", record.position))
            })?)
        }
    };
    Ok(Committed { position: record.position, payload })
}
