//! Interface of the map that holds a table's rows. The list of tables chooses the map of each table.

use std::ops::RangeBounds;

use imbl::OrdMap;

use crate::runs::Runs;

/// A persistent ordered map: cloning is cheap, and a clone never changes.
pub(crate) trait RowMap<K, V>: Clone + Default {
    /// The value of a key.
    fn get(&self, key: &K) -> Option<&V>;

    /// The value of a key, for changing it.
    fn get_mut(&mut self, key: &K) -> Option<&mut V>;

    /// Adds or replaces an entry. Returns the previous value.
    fn insert(&mut self, key: K, value: V) -> Option<V>;

    /// Removes an entry. Returns its value.
    fn remove(&mut self, key: &K) -> Option<V>;

    /// Removes the entries of those keys that are present, and passes each to `gone`. The keys must be in order.
    fn remove_sorted(&mut self, keys: &[K], gone: impl FnMut(&K, V));

    /// All entries in order.
    fn iter<'a>(&'a self) -> impl DoubleEndedIterator<Item = (&'a K, &'a V)> + Clone
    where
        K: 'a,
        V: 'a;

    /// The entries of a range, in order.
    fn range<'a>(&'a self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&'a K, &'a V)>
    where
        K: 'a,
        V: 'a;
}

impl<K: Ord + Clone, V: Clone> RowMap<K, V> for OrdMap<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        OrdMap::get(self, key)
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        OrdMap::get_mut(self, key)
    }

    fn insert(&mut self, key: K, value: V) -> Option<V> {
        OrdMap::insert(self, key, value)
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        OrdMap::remove(self, key)
    }

    fn remove_sorted(&mut self, keys: &[K], mut gone: impl FnMut(&K, V)) {
        for key in keys {
            if let Some(value) = OrdMap::remove(self, key) {
                gone(key, value);
            }
        }
    }

    fn iter<'a>(&'a self) -> impl DoubleEndedIterator<Item = (&'a K, &'a V)> + Clone
    where
        K: 'a,
        V: 'a,
    {
        OrdMap::iter(self)
    }

    fn range<'a>(&'a self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&'a K, &'a V)>
    where
        K: 'a,
        V: 'a,
    {
        OrdMap::range(self, range)
    }
}

impl<K: Ord + Copy, V: Clone> RowMap<K, V> for Runs<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        Runs::get(self, key)
    }

    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        Runs::get_mut(self, key)
    }

    fn insert(&mut self, key: K, value: V) -> Option<V> {
        Runs::insert(self, key, value)
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        Runs::remove(self, key)
    }

    fn remove_sorted(&mut self, keys: &[K], mut gone: impl FnMut(&K, V)) {
        Runs::remove_sorted(self, keys, |(key, value)| gone(key, value.clone()));
    }

    fn iter<'a>(&'a self) -> impl DoubleEndedIterator<Item = (&'a K, &'a V)> + Clone
    where
        K: 'a,
        V: 'a,
    {
        Runs::iter(self).map(pair)
    }

    fn range<'a>(&'a self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&'a K, &'a V)>
    where
        K: 'a,
        V: 'a,
    {
        Runs::range(self, range).map(pair)
    }
}

fn pair<K, V>((key, value): &(K, V)) -> (&K, &V) {
    (key, value)
}
