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
