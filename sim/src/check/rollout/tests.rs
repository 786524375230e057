//! Replacements of a group that may replace two allocations at once.

use expect_test::{Expect, expect};

use super::{Replacement, rollout_is_sound};

fn check(stopped: usize, awaited: usize, expected: &Expect) {
    let replacement = Replacement { index: 9, group: "j.g".to_owned(), stopped, awaited, max_parallel: 2 };
    let verdict = rollout_is_sound(&replacement);
    expected.assert_eq(&verdict.map_or_else(|error| error.to_string(), |()| "sound".to_owned()));
}

#[test]
fn as_many_as_the_group_allows_are_sound() {
    check(2, 0, &expect!["sound"]);
    check(1, 1, &expect!["sound"]);
    check(0, 3, &expect!["sound"]);
}

#[test]
fn too_many_at_once_are_found() {
    check(
        3,
        0,
        &expect![
            "at index 9 j.g replaced 3 allocations while 0 of its deployment were awaited, and may replace 2 at once"
        ],
    );
    check(
        1,
        2,
        &expect![
            "at index 9 j.g replaced 1 allocations while 2 of its deployment were awaited, and may replace 2 at once"
        ],
    );
}
