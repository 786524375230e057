//! Failures and their replacements.

use expect_test::expect;

use super::check;

#[test]
fn failed_alloc_is_rescheduled_only_with_attempts_left() {
    check(
        "job count=5 attempts=1 delay=15
         alloc 0 client=failed ended=-5 events=1
         alloc 1 client=failed ended=0
         alloc 2-3
         alloc 4 desired=stop",
        expect![[r#"
            place: 4
            later: 1
            look again in 15s: alloc-failure
            web: ignore 4, place 1
        "#]],
    );
}

#[test]
fn a_due_failure_is_replaced_now() {
    check(
        "job count=5 attempts=1 delay=5 parallel=4
         alloc 0 client=failed ended=-5 events=1
         alloc 1 client=failed ended=-10
         alloc 2-3
         alloc 4 desired=stop",
        expect![[r#"
            place again: 1
            then stop, alloc was rescheduled because it failed: 1
            place: 4
            web: ignore 3, place 2, stop 1
        "#]],
    );
}

#[test]
fn a_failure_due_within_a_second_is_replaced_now() {
    check(
        "job count=1 delay=5
         alloc 0 client=failed ended=-4",
        expect![[r#"
            place again: 0
            then stop, alloc was rescheduled because it failed: 0
            web: place 1, stop 1
        "#]],
    );
}

#[test]
fn follow_up_evaluation_replaces_its_failed_alloc_at_any_clock_time() {
    check(
        "job count=1 delay=5
         alloc 0 client=failed ended=30 followup=this",
        expect![[r#"
            place again: 0
            then stop, alloc was rescheduled because it failed: 0
            web: place 1, stop 1
        "#]],
    );
}

#[test]
fn failures_close_together_share_a_follow_up() {
    check(
        "job batch count=10 delay=15 attempts=1
         alloc 0-4 client=failed ended=0
         alloc 5-6 client=failed ended=10
         alloc 7-9",
        expect![[r#"
            later: 0-6
            look again in 15s: alloc-failure
            look again in 25s: alloc-failure
            web: ignore 10
        "#]],
    );
}

#[test]
fn failed_alloc_without_attempts_is_replaced_only_when_stopped() {
    check(
        "job count=5 attempts=0
         alloc 0 client=failed ended=-10
         alloc 1 client=failed ended=-10 desired=stop
         alloc 2-4",
        expect![[r#"
            place: 1
            web: ignore 4, place 1
        "#]],
    );
}

#[test]
fn a_forced_replacement_needs_no_attempts() {
    check(
        "job count=1 attempts=1
         alloc 0 client=failed ended=-10 events=1 force",
        expect![[r#"
            place again: 0
            then stop, alloc was rescheduled because it failed: 0
            web: place 1, stop 1
        "#]],
    );
}

#[test]
fn a_failure_that_was_replaced_is_not_replaced_again() {
    check(
        "job count=1
         alloc 0 as=a next=b client=failed ended=-10
         alloc 0 as=b",
        expect![[r#"
            web: ignore 1
        "#]],
    );
}

#[test]
fn a_failed_deployment_replaces_none_of_its_failures() {
    check(
        "job count=2 parallel=4
         alloc 0-1 client=failed ended=-10 deployed=unhealthy
         deployment status=failed total=2",
        expect![[r#"
            web: nothing
        "#]],
    );
}

#[test]
fn running_deployment_replaces_only_allocs_marked_for_rescheduling() {
    check(
        "job count=10 parallel=10
         alloc 0-4 client=failed ended=-10 deployed=unhealthy reschedule
         alloc 5-9 client=failed ended=-10 deployed=unhealthy
         deployment total=10",
        expect![[r#"
            place again: 0-4
            then stop, alloc was rescheduled because it failed: 0-4
            web: ignore 5, place 5, stop 5
        "#]],
    );
}

#[test]
fn running_deployment_does_not_delay_rescheduling_of_once_healthy_allocs() {
    check(
        "job count=3 parallel=3
         alloc 0 client=failed ended=-10 deployed=healthy
         alloc 1 deployed=healthy
         alloc 2
         deployment total=3 healthy=2",
        expect![[r#"
            place again: 0
            then stop, alloc was rescheduled because it failed: 0
            web: ignore 2, place 1, stop 1
        "#]],
    );
    // The last allocation became healthy: the plan that ends the deployment still replaces the failed one.
    check(
        "job count=3 parallel=3
         alloc 0 client=failed ended=-10 deployed=healthy
         alloc 1-2 deployed=healthy
         deployment total=3 healthy=3",
        expect![[r#"
            place again: 0
            then stop, alloc was rescheduled because it failed: 0
            web: ignore 2, place 1, stop 1
        "#]],
    );
}

#[test]
fn a_successful_deployment_does_not_hold_up_replacements() {
    check(
        "job count=10 parallel=10
         alloc 0-9 client=failed ended=-10 deployed=healthy
         deployment status=successful total=10 healthy=10",
        expect![[r#"
            place again: 0-9
            then stop, alloc was rescheduled because it failed: 0-9
            web: place 10, stop 10
        "#]],
    );
}
