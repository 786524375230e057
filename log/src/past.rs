//! Which old checkpoints are worth their space: they make reading a past state short, and nothing else needs them.
//! Recovery uses the newest ones only; how a state is rebuilt from one is the caller's business.

use std::path::PathBuf;

/// How many checkpoints are kept beyond those that recovery needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PastBounds {
    /// At most so many.
    pub checkpoints_max: usize,
    /// At most so many bytes of files.
    pub bytes_max: u64,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PastCheckpoint {
    /// Its last entry.
    pub index: u64,
    /// Length of the file.
    pub bytes: u64,
    pub path: PathBuf,
}

/// The files that may go. Nothing can be replayed from a checkpoint whose next entry is gone; of the others those
/// go first whose neighbours are nearest, so that what stays is spread over the whole log.
pub(crate) fn useless(older: Vec<PastCheckpoint>, bounds: &PastBounds, oldest_entry: u64) -> Vec<PathBuf> {
    let (mut kept, gone): (Vec<_>, Vec<_>) = older.into_iter().partition(|checkpoint| checkpoint.index + 1 >= oldest_entry);
    let mut gone: Vec<PathBuf> = gone.into_iter().map(|checkpoint| checkpoint.path).collect();
    kept.sort_by_key(|checkpoint| checkpoint.index);
    while kept.len() > bounds.checkpoints_max || kept.iter().map(|checkpoint| checkpoint.bytes).sum::<u64>() > bounds.bytes_max {
        // The oldest is how far back one can go at all, so it goes last.
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
