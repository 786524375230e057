//! Launches of one job, and the verdict on the last of them.

use expect_test::{Expect, expect};

use super::{Launch, Launches};

/// Notation: `20@21` a launch for second 20 written at second 21, `40@41!` after another server began to lead, and
/// `40@41-30` one that left the time 30 out.
fn check(launches: &str, expected: &Expect) {
    let mut known = Launches::default();
    let mut verdict = Ok(());
    for (index, word) in (1..).zip(launches.split_whitespace()) {
        assert_eq!(verdict, Ok(()));
        let leader_changed = word.ends_with('!');
        let (at, rest) = word.trim_end_matches('!').split_once('@').unwrap();
        let (written, left_out) = rest.split_once('-').unwrap_or((rest, ""));
        verdict = known.note(&Launch {
            index,
            child: format!("p/periodic-{at}"),
            at: at.parse().unwrap(),
            written: written.parse().unwrap(),
            left_out: left_out.parse().into_iter().collect(),
            leader_changed,
        });
    }
    expected.assert_eq(&verdict.map_or_else(|error| error.to_string(), |()| format!("{} launches", known.len())));
}

#[test]
fn each_time_launched_once_is_sound() {
    check("10@10 20@20 30@35", &expect!["3 launches"]);
}

#[test]
fn time_left_out_when_the_leader_changed_is_sound() {
    check("10@10 40@41-20!", &expect!["2 launches"]);
}

#[test]
fn second_launch_of_a_time_is_found() {
    check("10@10 20@20 10@21!", &expect!["p/periodic-10 was launched at index 1 and again at index 3"]);
}

#[test]
fn launch_before_its_time_is_found() {
    check("10@10 20@18", &expect!["p/periodic-20 was launched 2 s before its time"]);
}

#[test]
fn time_left_out_under_one_leader_is_found() {
    check(
        "10@10 40@41-20",
        &expect!["p/periodic-40 was launched and the launch for 20 was left out, under one leader"],
    );
}
