//! The record on disk: the objects that each entry created, updated or dropped. The rows are not in it, because the event
//! history has them. Keys are ordered so that all changes of one object, and all data of one entry, are ranges of keys.

mod fill;
mod form;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use songline_commands::Kind;
use songline_model::{EvalId, Str, Time};
use songline_projections::BUILT_IN_INDEX;
use tokio::sync::watch;

use super::error::ObjectHistoryError;
use super::object::{self, ChangeOf, Object, ObjectKind};
use crate::entry::{AppliedEntry, Ending};
use crate::keys::{self, Folder, Keys, Pair};
use crate::sweep::Sweep;
use form::{
    FORM, SWEEP, change_key, change_value, index_at, index_of_change, is_of_new, mark, mark_value, object_of_key,
    push_bytes, stored_entry, sweep_key, sweep_of_key, touch, with_row_before,
};

/// Facts that the record keeps of an entry beside its changes of objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryMark {
    /// Index of the entry.
    pub index: u64,
    /// Time of the entry; never earlier than that of the entry before it.
    pub at: Time,
    /// Command kind of the entry.
    pub kind: Kind,
    /// Outcome of the entry.
    pub ending: Ending,
}

/// One change of one object, without its rows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Touch {
    /// Index of the entry.
    pub(super) index: u64,
    /// Kind of the entry.
    pub(super) kind: Kind,
    /// Namespace of the object; empty when it has none.
    pub(super) namespace: Str,
    pub(super) how: How,
}

/// Effect of an entry on an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum How {
    Created,
    Updated(Before),
    Deleted,
}

/// The row before an update.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Before {
    /// JSON of the row.
    Row(Vec<u8>),
    /// The row is that of the entry at this index.
    At(u64),
    /// No covered entry wrote the row.
    Unknown,
}

/// Direction of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From old to new.
    OldestFirst,
    /// From new to old.
    NewestFirst,
}

/// Mark with the version of the stored form.
const FORM_MARK: &str = "form";
/// Mark of a record that lacks older entries which the log may have.
const LOST: &str = "lost";
/// Mark with the progress of the refill of these entries.
const FILLING: &str = "filling";

/// Number of keys per delete batch.
const DELETE_KEYS_AT_ONCE: usize = 4096;

pub(super) struct Store {
    marked: Arc<Marked>,
    db: keys::Store,
    /// kind, namespace (of jobs only), id, index -> change, kind of the entry, namespace.
    changes: Keys,
    /// index -> time, kind, ending; the entry's keys in `changes`, so that they are dropped with it when the log is
    /// truncated; its sweep.
    entries: Keys,
    /// Key: create indexes of the last and the first evaluation of a sweep, and between them the index of the entry
    /// whose mark holds the sweep.
    sweeps: Keys,
    /// `oldest`, `last`, `floor`, `lost`, `filling` and `form`.
    marks: Keys,
    /// Updates get the row before them when that was written below this index: entries below it are being dropped.
    kept_from: AtomicU64,
    turn: Mutex<()>,
    /// Held while older entries are filled in or dropped, so that a refill never writes into a record that was
    /// replaced meanwhile.
    older: Mutex<()>,
}

/// Range of entries that a store covers. It is known even while the store is closed.
#[derive(Debug, Default)]
pub(super) struct Marked {
    oldest: AtomicU64,
    last: AtomicU64,
    floor: AtomicU64,
    lost: watch::Sender<bool>,
}

impl Marked {
    pub(super) fn oldest(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    /// Reports whether the record lacks older entries that the log may have, and every change of that.
    pub(super) fn losses(&self) -> watch::Receiver<bool> {
        self.lost.subscribe()
    }
}

/// The exclusive right to append.
pub(super) struct Turn<'a> {
    store: &'a Store,
    _alone: MutexGuard<'a, ()>,
}

fn fail(doing: &'static str) -> impl FnOnce(fjall::Error) -> ObjectHistoryError {
    move |source| ObjectHistoryError::Store { doing, source }
}

impl Store {
    /// Opens the store in a folder.
    #[cfg(test)]
    pub(super) fn open(path: &std::path::Path) -> Result<Self, ObjectHistoryError> {
        Self::open_marked(&path.into(), &Arc::default())
    }

    /// Opens the store in a folder and sets `marked` to the range that it covers.
    pub(super) fn open_marked(folder: &Folder, marked: &Arc<Marked>) -> Result<Self, ObjectHistoryError> {
        let db = keys::Store::open(folder).map_err(fail("opening"))?;
        let open = |name| db.keys(name, None).map_err(fail("opening"));
        let (changes, entries, sweeps, marks) = (open("touches")?, open("entries")?, open("sweeps")?, open("marks")?);
        let read = |name: &str| -> Result<Option<u64>, ObjectHistoryError> {
            let bytes = marks.get(name).map_err(fail("opening"))?;
            Ok(bytes.map(|bytes| index_at(&bytes)))
        };
        let (oldest, last, floor) =
            (read("oldest")?.unwrap_or(1), read("last")?.unwrap_or(0), read("floor")?.unwrap_or(0));
        // Entries that were dropped, or that belong to another history by now, stay invisible.
        marked.oldest.fetch_max(oldest, Ordering::AcqRel);
        marked.floor.fetch_max(floor, Ordering::AcqRel);
        marked.last.store(last, Ordering::Release);
        marked.lost.send_replace(marks.contains_key(LOST).map_err(fail("opening"))?);
        let store = Self {
            marked: Arc::clone(marked),
            db,
            changes,
            entries,
            sweeps,
            marks,
            kept_from: AtomicU64::new(0),
            turn: Mutex::new(()),
            older: Mutex::new(()),
        };
        store.adopt_form()?;
        Ok(store)
    }

    /// Drops a record in another form; it is filled anew from the log.
    fn adopt_form(&self) -> Result<(), ObjectHistoryError> {
        let form = self.marks.get(FORM_MARK).map_err(fail("opening"))?;
        if form.as_deref() == Some(&[FORM]) {
            return Ok(());
        }
        if self.last() > 0 {
            tracing::info!("the record of what entries did has another form and is filled anew from the log");
            self.reset(self.last() + 1, true)?;
        }
        self.marks.insert(FORM_MARK, [FORM]).map_err(fail("opening"))
    }

    /// Index from which on the rows that entries wrote stay readable as events.
    fn covered_from(&self) -> u64 {
        self.covered_after_restores(self.oldest()).max(self.kept_from.load(Ordering::Acquire))
    }

    /// `index`, or the first index above those whose rows have no events: the rows that a cluster begins with, and those of
    /// a restored archive.
    fn covered_after_restores(&self, index: u64) -> u64 {
        index.max(BUILT_IN_INDEX + 1).max(self.marked.floor() + 1)
    }

    pub(super) fn oldest(&self) -> u64 {
        self.marked.oldest()
    }

    pub(super) fn last(&self) -> u64 {
        self.marked.last()
    }

    #[cfg(test)]
    pub(super) fn floor(&self) -> u64 {
        self.marked.floor()
    }

    #[cfg(test)]
    pub(super) fn kept_from(&self) -> u64 {
        self.kept_from.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(super) fn is_lost(&self) -> bool {
        *self.marked.losses().borrow()
    }

    pub(super) fn turn(&self) -> Turn<'_> {
        Turn { store: self, _alone: self.turn.lock() }
    }

    pub(super) fn sync(&self) -> Result<(), ObjectHistoryError> {
        self.db.sync().map_err(fail("syncing"))
    }

    /// Drops all entries. The record covers the entries from `first_index` on; with `lost`, it is marked that the log
    /// may have earlier ones.
    pub(super) fn reset(&self, first_index: u64, lost: bool) -> Result<(), ObjectHistoryError> {
        let _alone = self.older.lock();
        for keyspace in [&self.changes, &self.entries, &self.sweeps] {
            self.clear(keyspace)?;
        }
        let mut write = self.db.batch();
        write.insert(&self.marks, "oldest", first_index.to_be_bytes());
        write.insert(&self.marks, "last", first_index.saturating_sub(1).to_be_bytes());
        write.remove(&self.marks, FILLING);
        if lost {
            write.insert(&self.marks, LOST, [1]);
        } else {
            write.remove(&self.marks, LOST);
        }
        write.commit().map_err(fail("resetting"))?;
        self.marked.oldest.store(first_index, Ordering::Release);
        self.marked.last.store(first_index.saturating_sub(1), Ordering::Release);
        self.marked.lost.send_replace(lost);
        Ok(())
    }

    /// Drops the entries before `index`. Updates of later entries whose row before is dropped with its event get that
    /// row first, which `row` reads: as JSON, of an object after the entry at an index.
    pub(super) fn forget_before(
        &self,
        index: u64,
        row: impl FnMut(&Object, u64) -> Result<Option<Vec<u8>>, ObjectHistoryError>,
    ) -> Result<(), ObjectHistoryError> {
        if index <= self.oldest() {
            return Ok(());
        }
        self.kept_from.fetch_max(index, Ordering::AcqRel);
        // Writers that have not seen the new bound are done once the turn is free. A writer that resets the record takes
        // `older` during its turn, so `older` is not held while this waits for the turn.
        drop(self.turn.lock());
        let _alone = self.older.lock();
        if index <= self.oldest() {
            return Ok(());
        }
        self.keep_rows_before(index, row)?;
        // The mark is written first: readers must not rely on entries that are being dropped.
        self.marked.oldest.store(index, Ordering::Release);
        self.marks.insert("oldest", index.to_be_bytes()).map_err(fail("dropping from"))?;
        self.drop_entries_before(index)
    }

    /// Drops entries before `index`, with their changes and sweeps.
    fn drop_entries_before(&self, index: u64) -> Result<(), ObjectHistoryError> {
        loop {
            let mut batch = self.db.batch();
            let mut keys = 0;
            for pair in self.entries.range(..index.to_be_bytes()) {
                if keys >= DELETE_KEYS_AT_ONCE {
                    break;
                }
                let (key, value) = pair.map_err(fail("dropping from"))?;
                let index = index_at(&key);
                let entry = stored_entry(index, &value)?;
                if let Some(sweep) = entry.sweep(index)? {
                    batch.remove(&self.sweeps, sweep_key(&sweep, index));
                }
                for key in entry.keys {
                    batch.remove(&self.changes, key);
                    keys += 1;
                }
                batch.remove(&self.entries, key);
                keys += 1;
            }
            if keys == 0 {
                return Ok(());
            }
            batch.commit().map_err(fail("dropping from"))?;
        }
    }

    /// Adds the row before to each update that is the first one of its object at `index` or later.
    fn keep_rows_before(
        &self,
        index: u64,
        mut row: impl FnMut(&Object, u64) -> Result<Option<Vec<u8>>, ObjectHistoryError>,
    ) -> Result<(), ObjectHistoryError> {
        for pair in self.entries.range(self.oldest().to_be_bytes()..index.to_be_bytes()) {
            let (key, value) = pair.map_err(fail("dropping from"))?;
            let at = index_at(&key);
            for change in stored_entry(at, &value)?.keys {
                let (object, _) = object_of_key(change).ok_or(ObjectHistoryError::Damaged(at))?;
                let later = self.changes.range(change_key(&object, at + 1)..=change_key(&object, u64::MAX)).next();
                let Some((key, value)) = later.transpose().map_err(fail("dropping from"))? else { continue };
                if index_of_change(&key) < index || with_row_before(&value, &[]).is_none() {
                    continue;
                }
                if let Some(value) = row(&object, at)?.and_then(|before| with_row_before(&value, &before)) {
                    self.changes.insert(key, value).map_err(fail("dropping from"))?;
                }
            }
        }
        Ok(())
    }

    fn clear(&self, from: &Keys) -> Result<(), ObjectHistoryError> {
        loop {
            let mut batch = self.db.batch();
            let mut keys = 0;
            for key in from.keys_of::<[u8; 0]>(..).take(DELETE_KEYS_AT_ONCE) {
                batch.remove(from, key.map_err(fail("dropping from"))?);
                keys += 1;
            }
            if keys == 0 {
                return Ok(());
            }
            batch.commit().map_err(fail("dropping from"))?;
        }
    }

    pub(super) fn of_object(
        &self,
        object: &Object,
        from: u64,
        order: Order,
        changes_max: usize,
    ) -> Result<Vec<Touch>, ObjectHistoryError> {
        let within = match order {
            Order::OldestFirst => from.max(self.oldest())..=u64::MAX,
            Order::NewestFirst => self.oldest()..=from,
        };
        if within.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = self.touches(object, &within, order, changes_max)?;
        found.extend(self.sweeps_of(object, within)?);
        match order {
            Order::OldestFirst => found.sort_by_key(|touch| touch.index),
            Order::NewestFirst => found.sort_by_key(|touch| std::cmp::Reverse(touch.index)),
        }
        found.truncate(changes_max);
        Ok(found)
    }

    /// Changes of an object at indexes `within`, oldest first: the first `changes_max` of them in this order.
    fn touches(
        &self,
        object: &Object,
        within: &RangeInclusive<u64>,
        order: Order,
        changes_max: usize,
    ) -> Result<Vec<Touch>, ObjectHistoryError> {
        let read = |pair: fjall::Result<Pair>| -> Result<Touch, ObjectHistoryError> {
            let (key, value) = pair.map_err(fail("reading"))?;
            touch(&key, &value)
        };
        let range = self.changes.range(change_key(object, *within.start())..=change_key(object, *within.end()));
        let mut found: Vec<Touch> = match order {
            Order::OldestFirst => range.take(changes_max).map(read).collect::<Result<_, _>>()?,
            Order::NewestFirst => range.rev().take(changes_max).map(read).collect::<Result<_, _>>()?,
        };
        if order == Order::NewestFirst {
            found.reverse();
        }
        let Some(first) = found.first().map(|touch| touch.index) else { return Ok(found) };
        let older = self.changes.range(change_key(object, self.oldest())..change_key(object, first)).next_back();
        let mut previous = older.map(read).transpose()?.map(|touch| touch.index);
        for touch in &mut found {
            if let (How::Updated(before @ Before::Unknown), Some(previous)) = (&mut touch.how, previous) {
                *before = Before::At(previous);
            }
            previous = Some(touch.index);
        }
        Ok(found)
    }

    /// Sweeps that dropped an evaluation, among the entries `within`.
    fn sweeps_of(&self, object: &Object, within: RangeInclusive<u64>) -> Result<Vec<Touch>, ObjectHistoryError> {
        let mut found = Vec::new();
        let (ObjectKind::Evaluation, Ok(id)) = (object.kind, object.id.parse::<EvalId>()) else { return Ok(found) };
        // A sweep covers a range of create indexes, so few sweeps can have dropped an evaluation that was created at
        // a given index.
        let births = self.births(object)?;
        let first = births.as_ref().map_or(0, |births| births.iter().copied().min().unwrap_or(u64::MAX));
        for key in self.sweeps.keys_of(first.to_be_bytes()..) {
            let key = key.map_err(fail("reading"))?;
            let (last, index, first) = sweep_of_key(&key).ok_or(ObjectHistoryError::Damaged(index_at(&key)))?;
            let may_have =
                births.as_ref().is_none_or(|births| births.iter().any(|birth| (first..=last).contains(birth)));
            if !may_have || !within.contains(&index) {
                continue;
            }
            let Some(value) = self.entries.get(index.to_be_bytes()).map_err(fail("reading"))? else { continue };
            let sweep = stored_entry(index, &value)?.sweep(index)?;
            if let Some(namespace) = sweep.and_then(|sweep| sweep.namespace_of(id)) {
                found.push(Touch { index, kind: mark(index, &value)?.kind, namespace, how: How::Deleted });
            }
        }
        Ok(found)
    }

    /// Indexes of the entries that created an object. `None`: the first of them may not be covered any more.
    fn births(&self, object: &Object) -> Result<Option<Vec<u64>>, ObjectHistoryError> {
        let mut births = Vec::new();
        // Entries below the oldest one may be only partly filled in.
        for pair in self.changes.range(change_key(object, self.oldest())..=change_key(object, u64::MAX)) {
            let (key, value) = pair.map_err(fail("reading"))?;
            let is_birth = is_of_new(&value);
            if !is_birth && births.is_empty() {
                return Ok(None);
            }
            if is_birth {
                births.push(index_of_change(&key));
            }
        }
        Ok(Some(births).filter(|births| !births.is_empty()))
    }

    pub(super) fn entry(&self, index: u64) -> Result<Option<EntryMark>, ObjectHistoryError> {
        if index < self.oldest() {
            return Ok(None);
        }
        let value = self.entries.get(index.to_be_bytes()).map_err(fail("reading"))?;
        value.map(|value| mark(index, &value)).transpose()
    }

    /// Binary search: times never decrease with the index.
    pub(super) fn first_after(&self, at: Time) -> Result<Option<u64>, ObjectHistoryError> {
        let (mut low, mut high) = (self.oldest(), self.last().saturating_add(1));
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.next_entry(middle..high)? {
                Some(entry) if entry.at <= at => low = entry.index + 1,
                Some(entry) => {
                    found = Some(entry.index);
                    high = middle;
                }
                None => high = middle,
            }
        }
        Ok(found)
    }

    fn next_entry(&self, range: std::ops::Range<u64>) -> Result<Option<EntryMark>, ObjectHistoryError> {
        let Some(pair) = self.entries.range(range.start.to_be_bytes()..range.end.to_be_bytes()).next() else {
            return Ok(None);
        };
        let (key, value) = pair.map_err(fail("reading"))?;
        mark(index_at(&key), &value).map(Some)
    }
}

impl Turn<'_> {
    /// Writes entries, in order. Entries that are already stored stay as they are.
    pub(super) fn write(&mut self, entries: &[AppliedEntry]) -> Result<(), ObjectHistoryError> {
        let store = self.store;
        let after_restore =
            entries.iter().rposition(|entry| entry.kind == Kind::Restore && entry.ending == Ending::Done);
        let entries = match after_restore {
            Some(at) if entries[at].index > store.last() => {
                let index = entries[at].index;
                store.reset(index, false)?;
                store.marks.insert("floor", index.to_be_bytes()).map_err(fail("writing"))?;
                store.marked.floor.store(index, Ordering::Release);
                &entries[at..]
            }
            Some(_) | None => entries,
        };
        let known = store.last();
        let mut write = store.db.batch();
        let mut through = known;
        for entry in entries.iter().filter(|entry| entry.index > known) {
            store.write_entry(&mut write, entry, store.covered_from())?;
            through = entry.index;
        }
        if through > known {
            write.insert(&store.marks, "last", through.to_be_bytes());
            write.commit().map_err(fail("writing"))?;
            store.marked.last.store(through, Ordering::Release);
        }
        Ok(())
    }

    /// Extends the covered range to `index`.
    pub(super) fn pass_to(&mut self, index: u64) -> Result<(), ObjectHistoryError> {
        if index > self.store.last() {
            self.store.marks.insert("last", index.to_be_bytes()).map_err(fail("writing"))?;
            self.store.marked.last.store(index, Ordering::Release);
        }
        Ok(())
    }
}

impl Store {
    /// Adds an entry to a batch. Entries from `covered_from` on are covered.
    fn write_entry(
        &self,
        write: &mut keys::Batch,
        entry: &AppliedEntry,
        covered_from: u64,
    ) -> Result<(), ObjectHistoryError> {
        let content = |source| ObjectHistoryError::Content { index: entry.index, source };
        let mut mark = mark_value(entry);
        let split = Sweep::split(entry.kind, &entry.changes);
        let others = split.as_ref().map_or(&entry.changes[..], |(_, others)| others);
        if let Some((sweep, _)) = &split {
            write.insert(&self.sweeps, sweep_key(sweep, entry.index), []);
            push_bytes(&mut mark, &[&[SWEEP], &sweep.encode()[..]].concat());
        }
        for change in others {
            let Some(ChangeOf { object, namespace, step }) = object::of(change, covered_from) else { continue };
            let value = change_value(entry.kind, &namespace, step).map_err(content)?;
            let key = change_key(&object, entry.index);
            push_bytes(&mut mark, &key);
            write.insert(&self.changes, key, value);
        }
        write.insert(&self.entries, entry.index.to_be_bytes(), mark);
        Ok(())
    }
}
