//! Choice of the old checkpoints to keep.

use std::path::PathBuf;

use super::{PastBounds, PastCheckpoint, useless};

/// Compares the checkpoints that stay, of those at `indexes` with ten bytes each.
fn check(indexes: &[u64], bounds: (usize, u64), oldest_entry: u64, stay: &[u64]) {
    let older =
        indexes.iter().map(|&index| PastCheckpoint { index, bytes: 10, path: PathBuf::from(index.to_string()) });
    let bounds = PastBounds { checkpoints_max: bounds.0, bytes_max: bounds.1 };
    let gone = useless(older.collect(), &bounds, oldest_entry);
    let stayed: Vec<u64> =
        indexes.iter().copied().filter(|index| !gone.contains(&PathBuf::from(index.to_string()))).collect();
    assert_eq!(stayed, stay, "of {indexes:?} within {bounds:?}");
}

#[test]
fn past_checkpoints_are_dropped_when_no_room_is_configured() {
    check(&[300, 200, 100], (0, u64::MAX), 0, &[]);
    check(&[300, 200, 100], (9, 0), 0, &[]);
}

#[test]
fn checkpoint_whose_next_entry_is_purged_is_dropped() {
    check(&[300, 200, 100], (9, 100), 202, &[300]);
    check(&[300, 200, 100], (9, 100), 201, &[300, 200]);
}

#[test]
fn kept_checkpoints_are_spread_and_include_the_oldest() {
    check(&[400, 390, 380, 200, 100], (3, 100), 0, &[400, 200, 100]);
    check(&[400, 300, 200, 100], (9, 25), 0, &[400, 100]);
}
