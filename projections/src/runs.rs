//! A persistent ordered map for many small entries whose keys mostly come in order: entries are stored in sorted runs,
//! and a tree finds the run. A tree of single entries keeps its leaves half empty when keys come in order, and
//! iterates more slowly.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use imbl::OrdMap;

/// Largest number of entries in a run. Runs are short because a write copies the run that a view shares.
const RUN_MAX: usize = 64;

/// An ordered map with cheap clones.
#[derive(Debug, Clone)]
pub(crate) struct Runs<K: Ord + Copy, V: Clone = ()> {
    /// Maps each run's smallest possible key to the run. Runs are disjoint and in key order.
    runs: OrdMap<K, Arc<Vec<(K, V)>>>,
    len: usize,
}

impl<K: Ord + Copy, V: Clone> Default for Runs<K, V> {
    fn default() -> Self {
        Self { runs: OrdMap::new(), len: 0 }
    }
}

impl<K: Ord + Copy, V: Clone> Runs<K, V> {
    /// Builds the map from sorted entries without duplicate keys.
    pub(crate) fn from_sorted(entries: &[(K, V)]) -> Self {
        let runs = entries.chunks(RUN_MAX).map(|run| (run[0].0, Arc::new(run.to_vec())));
        Self { runs: runs.collect(), len: entries.len() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds or replaces an entry. Returns the previous value.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let Some((_, run)) = self.runs.get_prev_mut(&key) else {
            self.insert_first(key, value);
            return None;
        };
        let at = match run.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(at) => return Some(std::mem::replace(&mut Arc::make_mut(run)[at].1, value)),
            Err(at) => at,
        };
        self.len += 1;
        if run.len() == RUN_MAX {
            self.insert_full(at, (key, value));
            return None;
        }
        match Arc::get_mut(run) {
            Some(run) => {
                run.insert(at, (key, value));
                if run.len() == RUN_MAX {
                    run.shrink_to_fit();
                }
            }
            // Allocates exactly the needed length: most runs of unordered keys get one entry per write, and spare
            // capacity would stay unused.
            None => {
                let mut grown = Vec::with_capacity(run.len() + 1);
                grown.extend_from_slice(&run[..at]);
                grown.push((key, value));
                grown.extend_from_slice(&run[at..]);
                *run = Arc::new(grown);
            }
        }
        None
    }

    /// Adds an entry to a full run; `at` is its position there.
    fn insert_full(&mut self, at: usize, entry: (K, V)) {
        let (floor, _) = self.runs.get_prev(&entry.0).expect("the full run was found by this key");
        let floor = *floor;
        let next =
            self.runs.range((Bound::Excluded(floor), Bound::Unbounded)).next().map(|(floor, run)| (*floor, run.len()));
        if at == RUN_MAX && next.is_none() {
            // A key beyond the last one starts a new run, so that keys in order leave full runs behind.
            self.runs.insert(entry.0, Arc::new(vec![entry]));
            return;
        }
        let mut run = Arc::unwrap_or_clone(self.runs.remove(&floor).expect("it was found"));
        run.insert(at, entry);
        // For keys almost in order, entries are first moved to a neighbour with room. A run is halved only between
        // full neighbours.
        if let Some((_, before)) = self.runs.get_prev_mut(&floor)
            && before.len() < RUN_MAX
        {
            let before = Arc::make_mut(before);
            let moved = (RUN_MAX - before.len()).min(run.len() - 1);
            before.extend(run.drain(..moved));
            before.shrink_to_fit();
        } else if let Some((next, len)) = next.filter(|(_, len)| *len < RUN_MAX) {
            let mut moved = run.split_off(run.len() - (RUN_MAX - len).div_ceil(2));
            moved.extend(self.runs.remove(&next).map(Arc::unwrap_or_clone).unwrap_or_default());
            moved.shrink_to_fit();
            self.runs.insert(moved[0].0, Arc::new(moved));
        } else {
            let second = run.split_off(run.len() / 2);
            self.runs.insert(second[0].0, Arc::new(second));
        }
        run.shrink_to_fit();
        self.runs.insert(run[0].0, Arc::new(run));
    }

    /// Adds a key smaller than all others.
    fn insert_first(&mut self, key: K, value: V) {
        self.len += 1;
        let first = self.runs.get_min().filter(|(_, run)| run.len() < RUN_MAX).map(|(floor, _)| *floor);
        let mut run = first.and_then(|floor| self.runs.remove(&floor)).unwrap_or_default();
        Arc::make_mut(&mut run).insert(0, (key, value));
        self.runs.insert(key, run);
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        let (_, run) = self.runs.get_prev(key)?;
        let at = run.binary_search_by_key(key, |(key, _)| *key).ok()?;
        Some(&run[at].1)
    }

    /// The value of a key, for changing it.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (_, run) = self.runs.get_prev_mut(key)?;
        let at = run.binary_search_by_key(key, |(key, _)| *key).ok()?;
        Some(&mut Arc::make_mut(run)[at].1)
    }

    /// Removes an entry, if it is present. Returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (floor, run) = self.runs.get_prev_mut(key)?;
        let at = run.binary_search_by_key(key, |(key, _)| *key).ok()?;
        self.len -= 1;
        if run.len() == 1 {
            let floor = *floor;
            let run = self.runs.remove(&floor)?;
            return Some(run[0].1.clone());
        }
        let Some(own) = Arc::get_mut(run) else {
            let gone = run[at].1.clone();
            *run = Arc::new([&run[..at], &run[at + 1..]].concat());
            return Some(gone);
        };
        let (_, gone) = own.remove(at);
        if own.capacity() >= 2 * own.len() {
            own.shrink_to_fit();
        }
        Some(gone)
    }

    /// Removes the entries of those keys that are present, and passes each to `gone`. The keys must be in order, so
    /// that each run is found once, and only its remaining entries are copied.
    pub(crate) fn remove_sorted(&mut self, keys: &[K], mut gone: impl FnMut(&(K, V))) {
        let mut left = keys;
        while let Some(first) = left.first() {
            // A key before the first run, or between two runs, is not in the map.
            let Some((floor, run)) = self.runs.get_prev_mut(first) else {
                left = &left[1..];
                continue;
            };
            let in_run = run.last().map_or(0, |(last, _)| left.partition_point(|key| key <= last));
            let (here, rest) = left.split_at(in_run);
            left = if here.is_empty() { &left[1..] } else { rest };
            let mut stays = Vec::with_capacity(run.len().saturating_sub(here.len()));
            let mut here = here.iter().peekable();
            for entry in run.iter() {
                while here.next_if(|key| **key < entry.0).is_some() {}
                if here.peek() == Some(&&entry.0) {
                    gone(entry);
                } else {
                    stays.push(entry.clone());
                }
            }
            self.len -= run.len() - stays.len();
            if !stays.is_empty() {
                *run = Arc::new(stays);
                continue;
            }
            let floor = *floor;
            self.runs.remove(&floor);
        }
    }

    /// The entries in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &(K, V)> + Clone {
        self.runs.iter().flat_map(|(_, run)| run.iter())
    }

    /// The entries of a range, in order.
    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = &(K, V)> {
        let (start, end) = (range.start_bound().cloned(), range.end_bound().cloned());
        let below = move |key: &K| match start {
            Bound::Included(start) => *key < start,
            Bound::Excluded(start) => *key <= start,
            Bound::Unbounded => false,
        };
        let within = move |key: &K| match end {
            Bound::Included(end) => *key <= end,
            Bound::Excluded(end) => *key < end,
            Bound::Unbounded => true,
        };
        // The first run of the range has a floor at or below the start of the range.
        let floor = match &start {
            Bound::Included(start) | Bound::Excluded(start) => self.runs.get_prev(start).map(|(floor, _)| *floor),
            Bound::Unbounded => None,
        };
        let from = floor.map_or(Bound::Unbounded, Bound::Included);
        let is_empty = floor.is_some_and(|floor| !within(&floor));
        let runs = (!is_empty).then(|| self.runs.range((from, end)));
        runs.into_iter().flatten().flat_map(move |(_, run)| {
            let low = run.partition_point(|(key, _)| below(key));
            let high = run.partition_point(|(key, _)| within(key));
            run[low..high.max(low)].iter()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn check(runs: &Runs<u64, u64>, model: &BTreeMap<u64, u64>, from: u64, to: u64) {
        let pair = |(key, value): &(u64, u64)| (*key, *value);
        let same = |(key, value): (&u64, &u64)| (*key, *value);
        assert_eq!(runs.len(), model.len());
        assert!(runs.iter().map(pair).eq(model.iter().map(same)));
        assert!(runs.iter().rev().map(pair).eq(model.iter().rev().map(same)));
        let (low, high) = (from.min(to), from.max(to));
        assert_eq!(runs.get(&from), model.get(&from));
        assert!(runs.range(low..high).map(pair).eq(model.range(low..high).map(same)));
        assert!(runs.range(low..=high).rev().map(pair).eq(model.range(low..=high).rev().map(same)));
        let after = (Bound::Excluded(low), Bound::Unbounded);
        assert!(runs.range(after).map(pair).eq(model.range(after).map(same)));
        assert!(low == high || runs.range(high..low).next().is_none());
    }

    #[test]
    fn nearly_sorted_inserts_leave_runs_at_least_85_percent_full() {
        let mut runs = Runs::default();
        for n in 0_u64..20_000 {
            // Out of order within each hundred, as the ids of one entry are.
            runs.insert((n / 100, n.wrapping_mul(0x9e37_79b9_7f4a_7c15)), ());
        }
        let fill = runs.len() * 100 / (runs.runs.len() * RUN_MAX);
        assert!(fill >= 85, "runs are full to {fill} %");
    }

    #[test]
    fn runs_hold_the_same_entries_as_an_ordered_map() {
        let (mut runs, mut model) = (Runs::default(), BTreeMap::new());
        let mut number = 7_u64;
        let mut next = || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (number >> 40) % 1024
        };
        let mut view = runs.clone();
        for round in 0..6000 {
            let key = next();
            // The map grows for a while, then shrinks, and again; sometimes in key order.
            match round / 500 % 3 {
                0 => {
                    runs.insert(key, round);
                    model.insert(key, round);
                }
                1 => {
                    let key = 2000 + round;
                    runs.insert(key, round);
                    model.insert(key, round);
                }
                _ => {
                    for _ in 0..3 {
                        let key = *model.range(key..).map(|(key, _)| key).next().unwrap_or(&key);
                        runs.remove(&key);
                        model.remove(&key);
                    }
                }
            }
            if round % 131 == 0 {
                // Every third key of a range, including keys that are absent.
                let from = next();
                let keys: Vec<u64> = (from..from + 300).step_by(3).collect();
                let expected: Vec<_> = keys.iter().filter_map(|key| model.remove_entry(key)).collect();
                let mut gone = Vec::new();
                runs.remove_sorted(&keys, |entry| gone.push(*entry));
                assert_eq!(gone, expected);
            }
            if round % 97 == 0 {
                check(&runs, &model, next(), next());
                view = runs.clone();
            }
        }
        check(&runs, &model, 0, 5000);
        drop(view);
        let sorted: Vec<_> = model.iter().map(|(key, value)| (*key, *value)).collect();
        check(&Runs::from_sorted(&sorted), &model, 10, 900);
    }
}
