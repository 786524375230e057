//! Comparison of the objects of the authoritative region with those of this one, by key and hash.

use std::collections::BTreeMap;

use songline_model::{Blob, Str};

/// Hashes of objects by key: a name, or an id as a text. An object that was never written by a user has no hash.
pub(super) type Listed = BTreeMap<Str, Option<Blob>>;

/// Differences of this region from the authoritative one, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Difference {
    /// Objects that only this region has.
    pub(super) surplus: Vec<Str>,
    /// Objects that this region lacks, or has with another hash.
    pub(super) wanted: Vec<Str>,
}

/// Compares the objects of the authoritative region with those of this one.
pub(super) fn difference(theirs: &Listed, own: &Listed) -> Difference {
    let differs = |(key, hash): &(&Str, &Option<Blob>)| own.get(*key) != Some(*hash);
    Difference {
        surplus: own.keys().filter(|key| !theirs.contains_key(*key)).cloned().collect(),
        wanted: theirs.iter().filter(differs).map(|(key, _)| key.clone()).collect(),
    }
}
