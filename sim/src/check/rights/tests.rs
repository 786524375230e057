//! Answers to callers with and without the right.

use expect_test::{Expect, expect};

use super::{Access, access_is_right};

fn check(may: bool, status: u16, expected: &Expect) {
    let verdict = access_is_right(&Access { caller: "a reader".into(), operation: "stop a job".into(), may, status });
    expected.assert_eq(&verdict.map_or_else(|error| error.to_string(), |()| "right".to_owned()));
}

#[test]
fn callers_with_the_right_are_served_and_any_caller_may_be_refused() {
    check(true, 200, &expect!["right"]);
    check(true, 403, &expect!["right"]);
    check(false, 403, &expect!["right"]);
    check(false, 500, &expect!["right"]);
}

#[test]
fn operation_without_the_right_is_found() {
    check(false, 200, &expect!["a reader may not stop a job and got 200"]);
}
