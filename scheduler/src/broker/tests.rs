//! Stories of the eval broker: each line is a call; the expected text is its result.

mod story;

use expect_test::{Expect, expect};

use super::*;

fn check(story: &str, expected: Expect) {
    expected.assert_eq(&story::tell(story));
}

#[test]
fn evaluations_are_dequeued_by_priority_then_age() {
    check(
        "add a one 50
         add b two 90
         add c three 50
         take
         take
         take
         take",
        expect![[r#"
            add a one 50:
            add b two 90:
            add c three 50:
            take: b
            take: a
            take: c
            take: nothing
        "#]],
    );
}

#[test]
fn job_has_one_evaluation_in_progress_and_keeps_only_the_newest_waiting() {
    check(
        "add a web 50
         add b web 50
         add c web 50
         take
         take
         ack a
         take
         useless",
        expect![[r#"
            add a web 50:
            add b web 50:
            add c web 50:
            take: a
            take: nothing
            ack a: ok
            take: c
            useless: b
        "#]],
    );
}

#[test]
fn unacknowledged_evaluation_is_redelivered_and_its_late_ack_refused() {
    check(
        "add a web 50
         take
         at 61
         take
         at 63
         ack a
         take
         ack a",
        expect![[r#"
            add a web 50:
            take: a
            at 61:
            take: nothing
            at 63:
            ack a: Evaluation ID not found
            take: a
            ack a: ok
        "#]],
    );
}

#[test]
fn evaluation_nacked_three_times_goes_to_the_failed_queue() {
    check(
        "add a web 50
         take
         nack a
         at 2
         take
         nack a
         at 30
         take
         nack a
         take
         failed",
        expect![[r#"
            add a web 50:
            take: a
            nack a: ok
            at 2:
            take: a
            nack a: ok
            at 30:
            take: a
            nack a: ok
            take: nothing
            failed: a: evaluation reached delivery limit (3)
        "#]],
    );
}

#[test]
fn failed_evaluation_waits_for_its_ack_without_a_time_limit() {
    check(
        "add a web 50
         add b web 50
         take
         nack a
         at 2
         take
         nack a
         at 30
         take
         nack a
         failed
         at 3600
         failed
         take
         ack a
         take",
        expect![[r#"
            add a web 50:
            add b web 50:
            take: a
            nack a: ok
            at 2:
            take: a
            nack a: ok
            at 30:
            take: a
            nack a: ok
            failed: a: evaluation reached delivery limit (3)
            at 3600:
            failed: nothing
            take: nothing
            ack a: ok
            take: b
        "#]],
    );
}

#[test]
fn evaluation_that_panics_three_times_fails_with_the_last_panic_message() {
    check(
        "add a web 50
         add b other 50
         take
         panics a
         take
         at 2
         take
         panics a
         at 30
         take
         panics a
         failed
         ack a",
        expect![[r#"
            add a web 50:
            add b other 50:
            take: a
            panics a: ok
            take: b
            at 2:
            take: a
            panics a: ok
            at 30:
            take: a
            panics a: ok
            failed: a: evaluation reached delivery limit (3): the scheduler panicked 3 times on it, the last time with "index out of bounds"; this is a defect of Songline, please report it
            ack a: ok
        "#]],
    );
    let once = Panicked { times: 1, message: "x".into() };
    assert!(limit_reached(Some(&once)).contains("panicked once on it"));
}

#[test]
fn a_delayed_evaluation_waits_for_its_time() {
    check(
        "wait a web 5
         take
         at 5
         take",
        expect![[r#"
            wait a web 5:
            take: nothing
            at 5:
            take: a
        "#]],
    );
}

#[test]
fn failed_evaluation_is_retried_after_one_to_six_minutes() {
    assert_eq!(give_up_wait(0), Dur::from_mins(1));
    assert!(give_up_wait(u8::MAX) > Dur::from_secs(358) && give_up_wait(u8::MAX) < Dur::from_mins(6));
}
