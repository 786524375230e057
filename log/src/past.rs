//! Old checkpoints worth their space: they shorten the reading of a past state and have no other use. Recovery uses
//! only the newest checkpoints. The caller rebuilds states from checkpoints.

use std::path::PathBuf;

/// Bounds on checkpoints kept beyond those for recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PastBounds {
    /// Most checkpoints.
    pub checkpoints_max: usize,
    /// Most bytes of all their files.
    pub bytes_max: u64,
}

/// A checkpoint kept for past states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PastCheckpoint {
    /// Index of its last entry.
    pub index: u64,
    /// Length of the file, in bytes.
    pub bytes: u64,
    pub path: PathBuf,
}

/// Paths of the files to remove. A checkpoint goes if its next entry is gone, because no entry can be replayed on it.
/// To meet the bounds, those with the nearest neighbours go first, so that the rest is spread over the whole log.
pub(crate) fn useless(older: Vec<PastCheckpoint>, bounds: &PastBounds, oldest_entry: u64) -> Vec<PathBuf> {
    let (mut kept, gone): (Vec<_>, Vec<_>) =
        older.into_iter().partition(|checkpoint| checkpoint.index + 1 >= oldest_entry);
    let mut gone: Vec<PathBuf> = gone.into_iter().map(|checkpoint| checkpoint.path).collect();
    kept.sort_by_key(|checkpoint| checkpoint.index);
    while kept.len() > bounds.checkpoints_max
        || kept.iter().map(|checkpoint| checkpoint.bytes).sum::<u64>() > bounds.bytes_max
    {
        // The oldest checkpoint limits how far back reads can go, so it goes last.
        let gap = |at: &usize| {
            let next = kept.get(at + 1).map_or(u64::MAX, |next| next.index);
            next - kept[at - 1].index
        };
        let at = (1..kept.len()).min_by_key(gap).unwrap_or(0);
        gone.push(kept.remove(at).path);
    }
    gone
}

#[cfg(test)]
mod tests;
