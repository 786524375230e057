//! Refill of entries that are older than the record's oldest one.

use std::sync::atomic::Ordering;

use super::{FILLING, LOST, Store, fail};
use crate::entry::AppliedEntry;
use crate::object_history::error::ObjectHistoryError;
use crate::refill::{Filling, Reached};

impl Store {
    /// Progress of an interrupted refill, or of a new one.
    pub(in crate::object_history) fn filling(&self) -> Result<Filling, ObjectHistoryError> {
        Ok(self.stored_filling()?.unwrap_or_else(|| Filling::new(self.oldest())))
    }

    fn stored_filling(&self) -> Result<Option<Filling>, ObjectHistoryError> {
        let bytes = self.marks.get(FILLING).map_err(fail("filling"))?;
        Ok(bytes.and_then(|bytes| Filling::from_bytes(&bytes)).filter(|filling| filling.before == self.oldest()))
    }

    /// Drops the entries that were filled in, and starts the refill with the entry at `from`. With `floor`, that
    /// entry replaced the state.
    pub(in crate::object_history) fn fill_from(
        &self,
        filling: &mut Filling,
        from: u64,
        floor: Option<u64>,
    ) -> Result<(), ObjectHistoryError> {
        let _alone = self.older.lock();
        self.marks.remove(FILLING).map_err(fail("filling"))?;
        self.drop_entries_before(self.oldest())?;
        (filling.from, filling.through) = (from, from - 1);
        let mut write = self.db.batch();
        write.insert(&self.marks, FILLING, filling.to_bytes());
        if let Some(floor) = floor {
            let floor = self.marked.floor.fetch_max(floor, Ordering::AcqRel).max(floor);
            write.insert(&self.marks, "floor", floor.to_be_bytes());
        }
        write.commit().map_err(fail("filling"))
    }

    /// Fills in entries and stores `next` as the progress. False: the store no longer matches `filling`.
    pub(in crate::object_history) fn fill(
        &self,
        filling: &mut Filling,
        entries: &[AppliedEntry],
        next: Reached,
    ) -> Result<bool, ObjectHistoryError> {
        let _alone = self.older.lock();
        if self.stored_filling()? != Some(*filling) {
            return Ok(false);
        }
        let covered_from = self.covered_after_restores(filling.from);
        let mut write = self.db.batch();
        for entry in entries {
            self.write_entry(&mut write, entry, covered_from)?;
        }
        (filling.through, filling.raft_through) = (next.index, next.raft_index);
        write.insert(&self.marks, FILLING, filling.to_bytes());
        write.commit().map_err(fail("filling"))?;
        Ok(true)
    }

    /// Ends the refill: the record reaches back to its first filled entry now. False: the store no longer matches
    /// `filling`.
    pub(in crate::object_history) fn end_filling(&self, filling: &Filling) -> Result<bool, ObjectHistoryError> {
        let _alone = self.older.lock();
        if self.stored_filling()? != Some(*filling) {
            return Ok(false);
        }
        let mut write = self.db.batch();
        write.insert(&self.marks, "oldest", filling.from.to_be_bytes());
        write.remove(&self.marks, LOST);
        write.remove(&self.marks, FILLING);
        write.commit().map_err(fail("filling"))?;
        self.marked.oldest.store(filling.from, Ordering::Release);
        self.marked.lost.send_replace(false);
        Ok(true)
    }

    /// Removes the marks of a lost record: the record has all entries that the log has.
    pub(in crate::object_history) fn found(&self) -> Result<(), ObjectHistoryError> {
        let _alone = self.older.lock();
        let mut write = self.db.batch();
        write.remove(&self.marks, LOST);
        write.remove(&self.marks, FILLING);
        write.commit().map_err(fail("filling"))?;
        self.marked.lost.send_replace(false);
        Ok(())
    }
}
