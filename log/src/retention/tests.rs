//! Dropped and kept segments, for a log of five segments that were begun at 0, 10, 20, 30 and 40 ms.

use expect_test::{Expect, expect};

use super::*;
use crate::position::Edge;

fn check(age_ms: u64, bytes_max: u64, replay_from: u64, now_ms: u64, expected: Expect) {
    let segments: Vec<SegmentInfo> = (0..5)
        .map(|i| SegmentInfo {
            path: format!("{i}").into(),
            first: i * 100,
            end: Edge { term: 1, next: (i + 1) * 100 },
            bytes: 1000,
            created_ms: i * 10,
        })
        .collect();
    let retention = Retention { age: Duration::from_millis(age_ms), bytes_max, entries_min: 50 };
    let dropped = plan(&retention, &segments, replay_from, 500, now_ms);
    expected.assert_eq(&format!("{} segments below {}", dropped.segments, dropped.below));
}

#[test]
fn segment_age_counts_from_the_creation_of_the_next_segment() {
    check(100, u64::MAX, 500, 110, expect!["0 segments below 0"]);
    check(100, u64::MAX, 500, 111, expect!["1 segments below 100"]);
    check(100, u64::MAX, 500, 135, expect!["3 segments below 300"]);
}

#[test]
fn oldest_segments_are_dropped_above_the_byte_limit() {
    check(u64::MAX, 5000, 500, 0, expect!["0 segments below 0"]);
    check(u64::MAX, 3500, 500, 0, expect!["2 segments below 200"]);
}

#[test]
fn segments_needed_by_a_checkpoint_and_the_newest_one_are_kept() {
    check(0, 0, 250, 1000, expect!["2 segments below 200"]);
    check(0, 0, 200, 1000, expect!["2 segments below 200"]);
    check(0, 0, 500, 1000, expect!["4 segments below 400"]);
}
