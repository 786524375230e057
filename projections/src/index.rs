//! Small moves that every secondary index makes.

use imbl::{OrdMap, OrdSet};
use songline_model::JobKey;

use crate::alloc::Counts;

/// Moves one key of a set.
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

/// Moves one of what is counted below a key; keys with nothing below them go.
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

/// Changes what is counted of a job; a job of which nothing is left goes.
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
