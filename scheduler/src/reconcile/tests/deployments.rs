//! Deployments: when one begins, and failures while it runs.

use expect_test::expect;

use super::check;

#[test]
fn a_new_job_starts_a_deployment() {
    check(
        "job count=3 parallel=1",
        expect![[r#"
            place: 0-2
            deployment running: web 3
            web: place 3
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
