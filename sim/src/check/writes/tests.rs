//! Writes in short notation: the clients' outcomes, the log, and the verdict.

use expect_test::{Expect, expect};

use super::{Outcome, Write, writes_are_in_the_log};

/// Writes as `1@10` acknowledged, `2?` unknown, `3!` refused; the log as `1@10`.
fn check(writes: &str, log: &str, expected: &Expect) {
    let place = |word: &str| word.split_once('@').map(|(id, index)| (index.parse().unwrap(), id.parse().unwrap()));
    let write = |word: &str| match place(word) {
        Some((index, id)) => Write { id, outcome: Outcome::Acknowledged(index) },
        None => {
            let (id, sign) = word.split_at(word.len() - 1);
            Write { id: id.parse().unwrap(), outcome: if sign == "?" { Outcome::Unknown } else { Outcome::Refused } }
        }
    };
    let writes: Vec<Write> = writes.split_whitespace().map(write).collect();
    let verdict = writes_are_in_the_log(&writes, log.split_whitespace().filter_map(place));
    expected.assert_eq(&verdict.map_or_else(|error| error.to_string(), |()| "sound".to_owned()));
}

#[test]
fn write_of_unknown_outcome_may_be_in_the_log_or_not() {
    check("1@10 2? 3? 4!", "1@10 2@11", &expect!["sound"]);
}

#[test]
fn acknowledged_write_must_be_in_the_log_at_its_index() {
    check("1@10 2@11", "1@10", &expect!["write 2 was acknowledged at index 11 and is not in the log"]);
    check("1@10", "1@12", &expect!["write 1 was acknowledged at index 10 and is at 12"]);
}

#[test]
fn write_that_is_in_the_log_twice_is_found() {
    check("1@10", "1@10 1@12", &expect!["write 1 is in the log at 10 and again at 12"]);
    check("1?", "1@10 1@12", &expect!["write 1 is in the log at 10 and again at 12"]);
}

#[test]
fn refused_or_unmade_write_in_the_log_is_found() {
    check("1!", "1@10", &expect!["write 1 was refused and is in the log at 10"]);
    check("", "1@10", &expect!["the log has a write 1 at 10 that nobody made"]);
}
