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

#[test]
fn failed_allocs_above_the_count_are_stopped_before_live_ones_and_not_replaced() {
    // Their replacement waits for its time. Updated in both places, a deployment would wait for a second healthy
    // allocation that is never placed.
    check(
        "job count=1 parallel=2 version=1
         alloc 0-1 client=failed ended=-1 delay=60 followup=other change=old version=0",
        expect![[r#"
            replace: 0
            stop, alloc not needed due to job update: 1
            deployment running: web 1
            web: stop 1, destructive 1
        "#]],
    );
    // The healthy one stays.
    check(
        "job count=1 parallel=2
         alloc 0
         alloc 1 client=failed ended=-1 followup=other",
        expect![[r#"
            stop, alloc not needed due to job update: 1
            web: ignore 1, stop 1
        "#]],
    );
    // No follow-up is created for one that is not needed.
    check(
        "job count=1 parallel=2 delay=60
         alloc 0-1 client=failed ended=-1",
        expect![[r#"
            stop, alloc not needed due to job update: 1
            later until alloc-failure: 0
            look again in 59s: alloc-failure
            web: ignore 1, stop 1
        "#]],
    );
    // A replacement that is due now is not placed either.
    check(
        "job count=1
         alloc 0
         alloc 1 client=failed ended=-1",
        expect![[r#"
            stop, alloc not needed due to job update: 1
            web: ignore 1, stop 1
        "#]],
    );
}

#[test]
fn deployment_whose_canary_found_no_node_ends_when_nothing_is_left_to_replace() {
    // The allocation did not fit in place at first, so a canary was to come before its replacement. Then it did fit.
    check(
        "job count=1 parallel=1 canary=1 version=1
         alloc 0 deployed=healthy
         deployment total=1 healthy=1 canaries=1",
        expect![[r#"
            deployment becomes successful: Deployment completed successfully
            web: ignore 1
        "#]],
    );
    // A missing allocation need not wait for a promotion.
    check(
        "job count=2 parallel=1 canary=1 version=1
         alloc 0 deployed=healthy
         deployment total=2 healthy=1 canaries=1",
        expect![[r#"
            place: 1
            web: ignore 1, place 1
        "#]],
    );
    // One is left to replace: the canary comes first.
    check(
        "job count=2 parallel=1 canary=1 version=1
         alloc 0 deployed=healthy
         alloc 1 change=old version=0
         deployment total=2 healthy=1 canaries=1",
        expect![[r#"
            place canary: 1
            web: ignore 2, canary 1
        "#]],
    );
}

#[test]
fn promoted_canaries_replace_their_namesakes_also_when_the_group_has_none_too_many() {
    // The third allocation ended while the canary waited. The one that the canary was to replace was updated in place.
    check(
        "job count=3 parallel=1 canary=1 version=1
         alloc 0-1 deployed=healthy
         alloc 0 deployed=healthy canary
         deployment total=3 healthy=3 canaries=1 promoted",
        expect![[r#"
            place: 2
            stop, alloc not needed due to job update: 0
            web: ignore 2, place 1, stop 1
        "#]],
    );
    // The canary failed and has a replacement, which stays.
    check(
        "job count=2 parallel=1 canary=1 version=1
         alloc 0 desired=stop client=failed deployed=unhealthy canary next=new as=old
         alloc 1 deployed=healthy
         alloc 0 deployed=healthy as=new
         deployment total=2 healthy=2 canaries=1 promoted",
        expect![[r#"
            deployment becomes successful: Deployment completed successfully
            web: ignore 2
        "#]],
    );
}

#[test]
fn deployment_waits_for_no_more_allocs_than_the_group_has() {
    // Both nodes are disconnected, so that none of the allocations is stopped as one too many.
    check(
        "job count=1 parallel=1 version=1 disconnect=300
         alloc 0-1 client=unknown states=unknown node=disconnected change=old version=0",
        expect![[r#"
            place again: 0
            deployment running: web 1
            web: ignore 1, place 1
        "#]],
    );
}

#[test]
fn removed_group_stops_its_ended_allocs_once() {
    check(
        "job count=1
         alloc 0
         alloc 0-1 group=old client=complete ended=-9
         alloc 2 group=old client=failed ended=-9 desired=stop
         alloc 3 group=old",
        expect![[r#"
            stop, alloc not needed due to job update (old): 0-3
            old: stop 4
            web: ignore 1
        "#]],
    );
}

#[test]
fn canary_of_a_failed_deployment_counts_as_stopped_each_time() {
    check(
        "job count=2 parallel=1 canary=1 version=1 attempts=0
         alloc 0-1 change=old version=0
         alloc 0 canary deployed=unhealthy client=failed ended=-9 desired=stop version=1
         deployment status=failed total=2 desired_canaries=1 placed=1",
        expect![[r#"
            web: ignore 2, stop 1
        "#]],
    );
}
