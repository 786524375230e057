//! A persistent ordered set that is a single allocation of exact size while it is small. The first leaf of a tree has
//! room for sixteen keys, too much for a million sets of one key; and where keys come in order, the leaves of a tree
//! stay half empty.

use std::ops::RangeBounds;
use std::sync::Arc;

use crate::runs::Runs;

/// Largest number of keys in one allocation. Every write copies all of them, which costs less than a walk down a tree.
const FEW_MAX: usize = 256;

/// An ordered set with cheap clones.
#[derive(Debug, Clone)]
pub(crate) enum KeySet<T: Ord + Copy> {
    /// The keys in order.
    Few(Arc<[T]>),
    Many(Runs<T>),
}

impl<T: Ord + Copy> KeySet<T> {
    /// A set of one key.
    pub(crate) fn unit(key: T) -> Self {
        KeySet::Few(Arc::new([key]))
    }

    /// A set of keys in order without duplicates.
    pub(crate) fn from_sorted(keys: Arc<[T]>) -> Self {
        if keys.len() <= FEW_MAX {
            return KeySet::Few(keys);
        }
        KeySet::Many(Runs::from_sorted(&keys.iter().map(|key| (*key, ())).collect::<Vec<_>>()))
    }

    /// Adds a key, unless it is present.
    pub(crate) fn insert(&mut self, key: T) {
        match self {
            KeySet::Few(keys) => match keys.binary_search(&key) {
                Ok(_) => {}
                Err(_) if keys.len() == FEW_MAX => {
                    let mut many = Runs::from_sorted(&keys.iter().map(|key| (*key, ())).collect::<Vec<_>>());
                    many.insert(key, ());
                    *self = KeySet::Many(many);
                }
                Err(at) => *keys = keys[..at].iter().copied().chain([key]).chain(keys[at..].iter().copied()).collect(),
            },
            KeySet::Many(keys) => {
                keys.insert(key, ());
            }
        }
    }

    /// Removes a key, if it is present.
    pub(crate) fn remove(&mut self, key: &T) {
        match self {
            KeySet::Few(keys) => {
                if let Ok(at) = keys.binary_search(key) {
                    // Copies two slices, which is faster than a chain of iterators that goes key by key.
                    *keys = [&keys[..at], &keys[at + 1..]].concat().into();
                }
            }
            KeySet::Many(keys) => {
                keys.remove(key);
                self.settle();
            }
        }
    }

    /// Removes the keys that are present; `gone` must be in order.
    pub(crate) fn remove_sorted(&mut self, gone: &[T]) {
        match (self, gone) {
            (set, [key]) => set.remove(key),
            (KeySet::Few(keys), _) => {
                *keys = keys.iter().copied().filter(|key| gone.binary_search(key).is_err()).collect()
            }
            (set @ KeySet::Many(_), _) => {
                if let KeySet::Many(keys) = set {
                    keys.remove_sorted(gone, |_| ());
                }
                set.settle();
            }
        }
    }

    /// Converts a tree that has shrunk well below the bound into a single allocation.
    fn settle(&mut self) {
        if let KeySet::Many(keys) = self
            && keys.len() <= FEW_MAX / 2
        {
            *self = KeySet::Few(keys.iter().map(|(key, ())| *key).collect());
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            KeySet::Few(keys) => keys.len(),
            KeySet::Many(keys) => keys.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys in order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.range(..)
    }

    /// The keys of a range, in order.
    pub(crate) fn range(&self, range: impl RangeBounds<T> + Clone) -> impl DoubleEndedIterator<Item = &T> {
        let (few, many) = match self {
            KeySet::Few(keys) => (Some(keys), None),
            KeySet::Many(keys) => (None, Some(keys)),
        };
        let within = range.clone();
        let few = few.into_iter().flat_map(|keys| keys.iter()).filter(move |key| within.contains(key));
        few.chain(many.into_iter().flat_map(move |keys| keys.range(range.clone())).map(|(key, ())| key))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn key_set_holds_the_same_keys_as_an_ordered_set() {
        let (mut set, mut model) = (KeySet::unit(5), BTreeSet::from([5]));
        let mut number = 7_u64;
        for round in 0..4000 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (number >> 40) % 512;
            // The set grows for a while, then shrinks, and again.
            if round / 500 % 2 == 0 {
                set.insert(key);
                model.insert(key);
            } else {
                let key = *model.range(key..).chain(&model).next().unwrap_or(&key);
                if round % 3 == 0 {
                    let gone: Vec<u64> = model.range(key..key + 5).copied().chain([key + 5]).collect();
                    set.remove_sorted(&gone);
                    model.retain(|key| !gone.contains(key));
                } else {
                    set.remove(&key);
                    model.remove(&key);
                }
                if set.is_empty() {
                    set.insert(key);
                    model.insert(key);
                }
            }
            assert!(set.iter().eq(model.iter()) && set.iter().rev().eq(model.iter().rev()));
            assert_eq!(set.is_empty(), model.is_empty());
        }
    }
}
