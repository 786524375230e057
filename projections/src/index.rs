//! Updates that secondary indexes have in common.

use imbl::{OrdMap, OrdSet};
use songline_model::JobKey;

use crate::alloc::Counts;
use crate::key_set::KeySet;
use crate::runs::Runs;

/// Moves one key within a set.
pub(crate) fn move_key<K: Ord + Clone>(set: &mut OrdSet<K>, before: Option<K>, after: Option<K>) {
    if before == after {
        return;
    }
    if let Some(key) = before {
        set.remove(&key);
    }
    if let Some(key) = after {
        set.insert(key);
    }
}

/// Moves one key within a set that is stored in runs.
pub(crate) fn move_in_runs<K: Ord + Copy>(set: &mut Runs<K>, before: Option<K>, after: Option<K>) {
    if before == after {
        return;
    }
    if let Some(key) = before {
        set.remove(&key);
    }
    if let Some(key) = after {
        set.insert(key, ());
    }
}

/// The sets of all keys: what [`move_in_sets`] makes of them one by one.
pub(crate) fn sets<K: Ord + Clone, T: Ord + Copy>(keys: impl Iterator<Item = (K, T)>) -> OrdMap<K, KeySet<T>> {
    let mut keys: Vec<_> = keys.collect();
    keys.sort_unstable();
    let of_one = |keys: &[(K, T)]| (keys[0].0.clone(), KeySet::from_sorted(keys.iter().map(|(_, key)| *key).collect()));
    keys.chunk_by(|(one, _), (other, _)| one == other).map(of_one).collect()
}

/// Moves one key between the sets of a map; empty sets are removed.
pub(crate) fn move_in_sets<K: Ord + Clone, T: Ord + Copy>(
    map: &mut OrdMap<K, KeySet<T>>,
    before: Option<(K, T)>,
    after: Option<(K, T)>,
) {
    if before == after {
        return;
    }
    if let Some((of, key)) = before
        && let Some(keys) = map.get_mut(&of)
    {
        keys.remove(&key);
        if keys.is_empty() {
            map.remove(&of);
        }
    }
    if let Some((of, key)) = after {
        match map.get_mut(&of) {
            Some(keys) => keys.insert(key),
            None => {
                map.insert(of, KeySet::unit(key));
            }
        }
    }
}

/// Decrements the count of one key and increments that of another; zero counts are removed.
pub(crate) fn move_count<K: Ord + Clone>(map: &mut OrdMap<K, u64>, before: Option<K>, after: Option<K>) {
    if before == after {
        return;
    }
    if let Some(key) = before {
        match map.get_mut(&key) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                map.remove(&key);
            }
        }
    }
    if let Some(key) = after {
        *map.entry(key).or_insert(0) += 1;
    }
}

/// Changes the counts of a job; a job whose counts are all zero is removed.
pub(crate) fn count(map: &mut OrdMap<JobKey, Counts>, key: &JobKey, change: impl FnOnce(&mut Counts)) {
    if let Some(counts) = map.get_mut(key) {
        change(counts);
        if *counts == Counts::default() {
            map.remove(key);
        }
        return;
    }
    let mut counts = Counts::default();
    change(&mut counts);
    if counts != Counts::default() {
        map.insert(key.clone(), counts);
    }
}
