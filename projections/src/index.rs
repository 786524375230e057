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

/// Moves one value below its key; keys without values go.
pub(crate) fn move_nested<K: Ord + Clone, V: Ord + Clone>(map: &mut OrdMap<K, OrdSet<V>>, before: Option<(K, V)>, after: Option<(K, V)>) {
    if before == after {
        return;
    }
    if let Some((key, value)) = before
        && let Some(values) = map.get_mut(&key)
    {
        values.remove(&value);
        if values.is_empty() {
            map.remove(&key);
        }
    }
    if let Some((key, value)) = after {
        match map.get_mut(&key) {
            Some(values) => {
                values.insert(value);
            }
            None => {
                map.insert(key, OrdSet::unit(value));
            }
        }
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
    let mut counts = map.get(key).copied().unwrap_or_default();
    change(&mut counts);
    if counts == Counts::default() {
        map.remove(key);
    } else {
        map.insert(key.clone(), counts);
    }
}
