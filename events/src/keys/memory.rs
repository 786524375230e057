//! A folder in memory, for the simulation: what was not synced is lost when its machine dies.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use fjall::{UserKey, UserValue};
use imbl::OrdMap;
use parking_lot::Mutex;

/// The maps of a store, by name.
type Spaces = BTreeMap<&'static str, OrdMap<UserKey, UserValue>>;

/// A folder in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct MemoryFolder(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    now: Spaces,
    synced: Spaces,
    /// Number of the machine's life: a store that an earlier life opened can write no more.
    life: u64,
    /// Whether writes fail.
    broken: bool,
}

impl MemoryFolder {
    /// The machine dies: what was not synced is lost, and stores that are open can write no more.
    pub fn crash(&self) {
        let mut content = self.0.lock();
        content.now = content.synced.clone();
        content.life += 1;
    }

    /// Deletes the content of the folder, as a crash that also loses what was synced.
    pub fn clear(&self) {
        self.0.lock().synced.clear();
        self.crash();
    }

    /// Sets whether writes fail.
    pub fn set_broken(&self, broken: bool) {
        self.0.lock().broken = broken;
    }

    pub(super) fn open(&self) -> MemoryKeys {
        MemoryKeys { life: self.0.lock().life, folder: self.clone() }
    }
}

/// An open store in memory.
pub(crate) struct MemoryKeys {
    life: u64,
    folder: MemoryFolder,
}

/// One map of a store in memory.
pub(crate) struct Space {
    life: u64,
    name: &'static str,
    folder: MemoryFolder,
}

/// Writes to several maps.
pub(crate) struct MemoryBatch {
    life: u64,
    folder: MemoryFolder,
    writes: Vec<(&'static str, UserKey, Option<UserValue>)>,
}

impl Content {
    fn check(&self, life: u64) -> fjall::Result<()> {
        match self.life == life && !self.broken {
            true => Ok(()),
            false => Err(std::io::Error::other("the disk of this store does not work").into()),
        }
    }

    fn write(&mut self, name: &'static str, key: UserKey, value: Option<UserValue>) {
        let space = self.now.entry(name).or_default();
        match value {
            Some(value) => space.insert(key, value),
            None => space.remove(&key),
        };
    }
}

impl MemoryKeys {
    pub(super) fn space(&self, name: &'static str) -> Space {
        Space { life: self.life, name, folder: self.folder.clone() }
    }

    pub(super) fn batch(&self) -> MemoryBatch {
        MemoryBatch { life: self.life, folder: self.folder.clone(), writes: Vec::new() }
    }

    pub(super) fn sync(&self) -> fjall::Result<()> {
        let mut content = self.folder.0.lock();
        content.check(self.life)?;
        content.synced = content.now.clone();
        Ok(())
    }
}

impl Space {
    fn map(&self) -> OrdMap<UserKey, UserValue> {
        self.folder.0.lock().now.get(self.name).cloned().unwrap_or_default()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<UserValue> {
        self.folder.0.lock().now.get(self.name)?.get(key).cloned()
    }

    pub(super) fn write(&self, key: UserKey, value: Option<UserValue>) -> fjall::Result<()> {
        let mut content = self.folder.0.lock();
        content.check(self.life)?;
        content.write(self.name, key, value);
        Ok(())
    }

    pub(super) fn range(&self, low: Bound<UserKey>, high: Bound<UserKey>) -> Range {
        Range { map: self.map(), low, high }
    }
}

impl MemoryBatch {
    pub(super) fn write(&mut self, space: &Space, key: UserKey, value: Option<UserValue>) {
        self.writes.push((space.name, key, value));
    }

    pub(super) fn commit(self) -> fjall::Result<()> {
        let mut content = self.folder.0.lock();
        content.check(self.life)?;
        self.writes.into_iter().for_each(|(name, key, value)| content.write(name, key, value));
        Ok(())
    }
}

/// The rest of a range of a map as it was when the range was asked for.
pub(super) struct Range {
    map: OrdMap<UserKey, UserValue>,
    low: Bound<UserKey>,
    high: Bound<UserKey>,
}

impl Range {
    /// Whether the range has come to its end: a map refuses bounds that have passed each other.
    fn is_over(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => low >= high,
        }
    }
}

impl Iterator for Range {
    type Item = (UserKey, UserValue);

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over() {
            return None;
        }
        let (key, value) = self.map.range((self.low.clone(), self.high.clone())).next()?;
        let found = (key.clone(), value.clone());
        self.low = Bound::Excluded(found.0.clone());
        Some(found)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.is_over() {
            return None;
        }
        let (key, value) = self.map.range((self.low.clone(), self.high.clone())).next_back()?;
        let found = (key.clone(), value.clone());
        self.high = Bound::Excluded(found.0.clone());
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Folder, Store};
    use super::*;

    fn numbers(store: &Store) -> Vec<u8> {
        let keys = store.keys("numbers", None).expect("opens");
        keys.range::<[u8; 1]>(..).map(|pair| pair.expect("reads").0[0]).collect()
    }

    #[test]
    fn crashed_memory_folder_loses_unsynced_keys_and_stops_open_stores() {
        let folder = MemoryFolder::default();
        let open = || Store::open(&Folder::Memory(folder.clone())).expect("opens");
        let first = open();
        let keys = first.keys("numbers", None).expect("opens");
        keys.insert([3], [0]).expect("writes");
        first.sync().expect("syncs");
        keys.insert([5], [0]).expect("writes");
        assert_eq!(numbers(&first), [3, 5]);
        folder.crash();
        assert_eq!(numbers(&open()), [3]);
        assert!(keys.insert([7], [0]).is_err() && first.sync().is_err());
    }

    #[test]
    fn key_range_is_read_from_both_ends() {
        let store = Store::open(&Folder::Memory(MemoryFolder::default())).expect("opens");
        let keys = store.keys("numbers", None).expect("opens");
        let mut batch = store.batch();
        (1..=5).for_each(|number: u8| batch.insert(&keys, [number], [0]));
        batch.remove(&keys, [4]);
        batch.commit().expect("writes");
        let read = |pair: fjall::Result<super::super::Pair>| pair.expect("reads").0[0];
        let mut range = keys.range([2]..=[5]);
        assert_eq!((range.next().map(read), range.next_back().map(read)), (Some(2), Some(5)));
        assert_eq!(
            (range.next_back().map(read), range.next().map(read), range.next_back().map(read)),
            (Some(3), None, None)
        );
    }
}
