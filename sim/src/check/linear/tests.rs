//! Histories with and without anomalies, and a slow oracle that must agree on small ones.

mod oracle;

use expect_test::{Expect, expect};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::register::Held;
use super::{Answer, Call, Operation, check as linearizable};

/// Parses a history, one operation on each line: `client called-returned key operation -> answer`, or `called-`
/// without an answer for an unknown outcome.
fn history(text: &str) -> Vec<Call> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(call).collect()
}

fn call(line: &str) -> Call {
    let (asked, answer_text) = line.split_once(" -> ").map_or((line, None), |(asked, answer)| (asked, Some(answer)));
    let words: Vec<&str> = asked.split_whitespace().collect();
    let (called, returned) = words[1].split_once('-').unwrap();
    let number = |word: &str| word.trim_start_matches('@').parse().unwrap();
    let operation = match words[3..] {
        ["get"] => Operation::Get,
        ["set", value] => Operation::Set { value: number(value) },
        ["cas", expected, value] => Operation::Cas { expected: number(expected), value: number(value) },
        ["delete"] => Operation::Delete,
        ["delete", expected] => Operation::DeleteCas { expected: number(expected) },
        _ => panic!("no operation: {line}"),
    };
    let held = |text: &str| {
        text.split_once('@').map(|(value, version)| Held { value: number(value), version: number(version) })
    };
    let answer = |text: &str| match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["wrote", version] => Answer::Wrote(number(version)),
        ["conflict", seen] if seen.starts_with('@') => Answer::ConflictAt(number(seen)),
        ["conflict", seen] => Answer::Conflict(held(seen)),
        ["deleted"] => Answer::Deleted,
        [seen] => Answer::Held(held(seen)),
        _ => panic!("no answer: {line}"),
    };
    Call {
        client: number(words[0]),
        called: number(called),
        returned: answer_text.map(|text| (number(returned), answer(text))),
        key: words[2].to_owned(),
        operation,
    }
}

fn check(text: &str, expected: &Expect) {
    let verdict = linearizable(&history(text)).map_or_else(|error| error.to_string(), |()| "linearizable\n".to_owned());
    expected.assert_eq(&verdict);
}

#[test]
fn sequential_operations_are_linearizable() {
    check(
        "1 0-1 x get -> nothing
         1 2-3 x set 5 -> wrote @10
         2 4-5 x get -> 5@10
         2 6-7 x cas @10 6 -> wrote @12
         1 8-9 x cas @10 7 -> conflict 6@12
         1 10-11 x delete @12 -> deleted
         1 12-13 x cas @0 8 -> wrote @20
         1 14-15 x delete -> deleted",
        &expect![[r"
            linearizable
        "]],
    );
}

#[test]
fn concurrent_operations_may_take_effect_in_any_order() {
    check(
        "1 0-9 x set 1 -> wrote @11
         2 0-9 x set 2 -> wrote @10
         3 1-2 x get -> nothing
         3 3-4 x get -> 2@10
         3 5-6 x get -> 1@11",
        &expect![[r"
            linearizable
        "]],
    );
}

#[test]
fn keys_are_checked_independently_of_each_other() {
    check(
        "1 0-1 x set 1 -> wrote @10
         1 2-3 y get -> nothing
         1 4-5 x get -> 1@10",
        &expect![[r"
            linearizable
        "]],
    );
}

#[test]
fn write_of_unknown_outcome_may_take_effect_late_or_never() {
    check(
        "1 0- x set 1
         2 1- x set 2
         3 2-3 x get -> nothing
         3 4-5 x get -> 1@10
         3 6-7 x cas @10 3 -> wrote @11
         3 8-9 x get -> 3@11
         3 10-11 x get -> 2@12
         3 12- x delete
         3 13-14 x get -> nothing",
        &expect![[r"
            linearizable
        "]],
    );
}

#[test]
fn conflict_known_only_by_version_must_have_met_that_version() {
    check(
        "1 0-1 x set 1 -> wrote @10
         2 2-9 x cas @0 2 -> conflict @10
         1 3-4 x delete -> deleted
         1 5-6 x get -> nothing",
        &expect![[r"
            linearizable
        "]],
    );
    check(
        "1 0- x set 1
         2 2-3 x cas @0 2 -> conflict @10",
        &expect![[r"
            linearizable
        "]],
    );
    for wrong in ["cas @0 2 -> conflict @11", "cas @10 2 -> conflict @10"] {
        let text = format!("1 0-1 x set 1 -> wrote @10\n2 2-3 x {wrong}");
        assert!(linearizable(&history(&text)).is_err(), "{text}");
    }
    let gone = "1 0-1 x set 1 -> wrote @10\n1 2-3 x delete -> deleted\n2 4-5 x cas @0 2 -> conflict @10";
    assert!(linearizable(&history(gone)).is_err());
}

#[test]
fn cas_may_succeed_on_the_version_of_an_unseen_write() {
    check(
        "1 0- x set 1
         2 1-2 x cas @10 2 -> wrote @11",
        &expect![[r"
            linearizable
        "]],
    );
}

#[test]
fn a_stale_read_is_refused() {
    check(
        "1 0-1 x set 1 -> wrote @10
         1 2-3 x set 2 -> wrote @11
         2 4-5 x get -> 1@10",
        &expect![[r"
            the history of `x` is not linearizable: 2 operations can be ordered, then none of these fits
              client 2 at 4: get -> 1@10 at 5
        "]],
    );
}

#[test]
fn read_older_than_an_earlier_read_is_refused() {
    check(
        "1 0-9 x set 1 -> wrote @10
         2 1-2 x get -> 1@10
         2 3-4 x get -> nothing",
        &expect![[r"
            the history of `x` is not linearizable: 2 operations can be ordered, then none of these fits
              client 2 at 3: get -> nothing at 4
        "]],
    );
}

#[test]
fn a_lost_update_is_refused() {
    check(
        "1 0-1 x set 1 -> wrote @10
         2 2-5 x cas @10 2 -> wrote @11
         3 3-6 x cas @10 3 -> wrote @12",
        &expect![[r"
            the history of `x` is not linearizable: 2 operations can be ordered, then none of these fits
              client 3 at 3: cas 3 over @10 -> wrote @12 at 6
        "]],
    );
}

#[test]
fn acknowledged_write_without_effect_is_refused() {
    check(
        "1 0-1 x set 1 -> wrote @10
         2 2-3 x get -> nothing",
        &expect![[r"
            the history of `x` is not linearizable: 1 operations can be ordered, then none of these fits
              client 2 at 2: get -> nothing at 3
        "]],
    );
}

#[test]
fn two_writes_with_the_same_version_are_refused() {
    check(
        "1 0-1 x set 1 -> wrote @10
         1 2-3 x set 2 -> wrote @11
         2 2-3 x set 3 -> wrote @11",
        &expect![[r"
            the history of `x` is not linearizable: 2 operations can be ordered, then none of these fits
              client 2 at 2: set 3 -> wrote @11 at 3
        "]],
    );
}

#[test]
fn a_write_applied_twice_is_refused() {
    check(
        "1 0-1 x set 1 -> wrote @10
         2 2-3 x set 2 -> wrote @11
         3 4-5 x get -> 1@12",
        &expect![[r"
            the history of `x` is not linearizable: 2 operations can be ordered, then none of these fits
              client 3 at 4: get -> 1@12 at 5
        "]],
    );
    // The write of unknown outcome may take effect late, but once.
    check(
        "1 0- x set 1
         2 2-3 x get -> 1@10
         2 4-5 x set 2 -> wrote @11
         2 6-7 x get -> 1@12",
        &expect![[r"
            the history of `x` is not linearizable: 3 operations can be ordered, then none of these fits
              client 2 at 6: get -> 1@12 at 7
        "]],
    );
}

#[test]
fn conflict_although_the_expected_version_matches_is_refused() {
    check(
        "1 0-1 x set 1 -> wrote @10
         1 2-3 x cas @10 2 -> conflict 1@10",
        &expect![[r#"
            the history of `x` is not linearizable: 1 operations can be ordered, then none of these fits
              client 1 at 2: cas 2 over @10 -> conflict with 1@10 at 3
        "#]],
    );
}

#[test]
fn a_long_history_with_many_unknown_outcomes_is_judged_quickly() {
    let mut rng = SmallRng::seed_from_u64(7);
    let calls = random_history(&mut rng, 5_000, 8, 10);
    linearizable(&calls).unwrap();
}

#[test]
fn small_random_histories_are_judged_as_trying_every_order_does() {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..3000 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut calls = random_history(&mut rng, 6, 3, 6);
        if rng.random_range(0..3) > 0 {
            oracle::spoil(&mut rng, &mut calls);
        }
        let wanted = oracle::some_order_explains(&calls);
        assert_eq!(linearizable(&calls).is_ok(), wanted, "seed {seed}: {calls:#?}");
        if wanted { good += 1 } else { bad += 1 }
    }
    assert!(good > 500 && bad > 500, "{good} good and {bad} bad histories are too few of one kind");
}

/// A random history of `clients` clients with one correct register: each operation takes effect at some moment
/// between call and return. One in `unknown_one_in` outcomes is unknown.
fn random_history(rng: &mut SmallRng, operations: u64, clients: u64, unknown_one_in: u32) -> Vec<Call> {
    let mut held: Option<Held> = None;
    let mut version = 0;
    let mut calls: Vec<Call> = Vec::new();
    let mut free_at = vec![0_u64; usize::try_from(clients).unwrap()];
    for moment in 1..=operations {
        let at = moment * 10;
        let client = rng.random_range(0..free_at.len());
        let called = rng.random_range(free_at[client].max(at.saturating_sub(40)).min(at)..=at);
        let returned = at + rng.random_range(0..40);
        let known = rng.random_range(0..unknown_one_in) > 0;
        // A client with an unknown outcome continues under another name.
        free_at[client] = if known { at + 40 } else { 0 };
        let expected = if rng.random_range(0..4) == 0 { version } else { held.map_or(0, |held| held.version) };
        let operation = match rng.random_range(0..10) {
            0..4 => Operation::Get,
            4..6 => Operation::Set { value: moment },
            6..8 => Operation::Cas { expected, value: moment },
            8 => Operation::Delete,
            _ => Operation::DeleteCas { expected },
        };
        let happens = known || rng.random_range(0..2) == 0;
        let mut answer = Answer::Held(held);
        if happens {
            answer = oracle::act(&mut held, &mut version, &operation);
        }
        let client = u64::try_from(client).unwrap();
        calls.push(Call {
            key: "x".to_owned(),
            operation,
            called,
            returned: known.then_some((returned, answer)),
            client,
        });
    }
    calls
}
