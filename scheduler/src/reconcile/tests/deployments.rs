//! Rolling updates.

use expect_test::expect;

use super::check;

#[test]
fn a_destructive_change_starts_a_deployment_with_max_parallel() {
    check(
        "job count=10 parallel=4 version=1
         alloc 0-9 version=0 change=old",
        expect![[r#"
            replace: 0-3
            deployment running: web 10
            web: ignore 6, destructive 4
        "#]],
    );
}

#[test]
fn a_change_in_place_starts_a_deployment() {
    check(
        "job count=10 parallel=4 version=1
         alloc 0-9 version=0 change=inplace",
        expect![[r#"
            change in place: 0-9
            deployment running: web 10
            web: in place 10
        "#]],
    );
}

#[test]
fn a_job_registered_anew_starts_a_deployment() {
    check(
        "job count=10 parallel=4 created=20
         alloc 0-4 created=10",
        expect![[r#"
            place: 5-9
            deployment running: web 5
            web: ignore 5, place 5
        "#]],
    );
}

#[test]
fn unchanged_job_starts_no_deployment() {
    check(
        "job count=10 parallel=4
         alloc 0-9",
        expect![[r#"
            web: ignore 10
        "#]],
    );
}

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
fn rolling_update_replaces_as_many_allocs_as_became_healthy_0() {
    check(
        "job count=10 parallel=4
         alloc 0-3 deployed=open
         alloc 4-9 change=old
         deployment total=10",
        expect![[r#"
            web: ignore 10
        "#]],
    );
}

#[test]
fn rolling_update_replaces_as_many_allocs_as_became_healthy_3() {
    check(
        "job count=10 parallel=4
         alloc 0-2 deployed=healthy
         alloc 3 deployed=open
         alloc 4-9 change=old
         deployment total=10 healthy=3",
        expect![[r#"
            replace: 4-6
            web: ignore 7, destructive 3
        "#]],
    );
}

#[test]
fn unhealthy_alloc_stops_the_rolling_update() {
    check(
        "job count=10 parallel=4
         alloc 0-2 deployed=healthy
         alloc 3 deployed=unhealthy
         alloc 4-9 change=old
         deployment total=10 healthy=3",
        expect![[r#"
            web: ignore 10
        "#]],
    );
}

#[test]
fn max_parallel_is_shared_with_placements() {
    check(
        "job count=10 parallel=4 version=1
         alloc 0-6 version=0 change=old",
        expect![[r#"
            place: 7-9
            replace: 0
            deployment running: web 10
            web: ignore 6, place 3, destructive 1
        "#]],
    );
}

#[test]
fn a_paused_deployment_places_nothing() {
    check(
        "job count=15 parallel=4
         alloc 0-9 deployed=healthy
         deployment status=paused total=10",
        expect![[r#"
            web: ignore 10
        "#]],
    );
}

#[test]
fn a_failed_deployment_places_nothing() {
    check(
        "job count=15 parallel=4
         alloc 0-9 deployed=healthy
         deployment status=failed total=10",
        expect![[r#"
            web: ignore 10
        "#]],
    );
}

#[test]
fn a_paused_deployment_replaces_nothing() {
    check(
        "job count=10 parallel=4
         alloc 0 deployed=healthy
         alloc 1-9 change=old
         deployment status=paused total=10",
        expect![[r#"
            web: ignore 10
        "#]],
    );
}

#[test]
fn failed_deployment_still_replaces_lost_and_drained_allocs() {
    check(
        "job count=10 parallel=4
         alloc 0 deployed=healthy node=down
         alloc 1 deployed=healthy node=drain migrate
         alloc 2-9
         deployment status=failed total=10",
        expect![[r#"
            place after lost: 0
            place after migrating: 1
            stop as lost, alloc is lost since its node is down: 0
            stop, alloc is being migrated: 1
            web: ignore 8, place 1, migrate 1, stop 1
        "#]],
    );
}

#[test]
fn running_deployment_replaces_lost_and_drained_allocs_beside_the_update() {
    check(
        "job count=10 parallel=4
         alloc 0 deployed=healthy node=down
         alloc 1-2 deployed=healthy node=drain migrate
         alloc 3-7 deployed=healthy
         alloc 8-9 change=old
         deployment total=10 healthy=8",
        expect![[r#"
            place after lost: 0
            place after migrating: 1-2
            replace: 8-9
            stop as lost, alloc is lost since its node is down: 0
            stop, alloc is being migrated: 1-2
            web: ignore 5, place 1, migrate 2, stop 1, destructive 2
        "#]],
    );
}

#[test]
fn a_deployment_of_an_older_version_is_cancelled() {
    check(
        "job count=10 parallel=4 version=1
         alloc 0-9 version=0 change=old deployed=healthy
         deployment version=0 total=10",
        expect![[r#"
            replace: 0-3
            deployment running: web 10
            deployment becomes cancelled: Cancelled due to newer version of job
            web: ignore 6, destructive 4
        "#]],
    );
}

#[test]
fn a_stopped_job_cancels_its_deployment() {
    check(
        "job count=10 parallel=4 stopped
         alloc 0-9
         deployment total=10",
        expect![[r#"
            stop, alloc not needed due to job update: 0-9
            deployment becomes cancelled: Cancelled because job is stopped
            web: stop 10
        "#]],
    );
}

#[test]
fn a_failed_deployment_of_an_older_version_is_not_cancelled() {
    check(
        "job count=10 parallel=4 version=1
         alloc 0-9 version=0 change=old deployed=healthy
         deployment version=0 status=failed total=10",
        expect![[r#"
            replace: 0-3
            deployment running: web 10
            web: ignore 6, destructive 4
        "#]],
    );
}

#[test]
fn deployment_succeeds_when_all_allocs_are_healthy() {
    check(
        "job count=10 parallel=4
         alloc 0-9 deployed=healthy
         deployment total=10 healthy=10",
        expect![[r#"
            deployment becomes successful: Deployment completed successfully
            web: ignore 10
        "#]],
    );
}

#[test]
fn initializing_multiregion_deployment_becomes_pending_and_waits() {
    check(
        "job count=10 parallel=4 multiregion
         deployment status=initializing bare",
        expect![[r#"
            deployment initializing: web 10
            deployment becomes pending: Deployment is pending, waiting for peer region
            web: nothing
        "#]],
    );
}

#[test]
fn a_multiregion_batch_job_does_not_wait() {
    check(
        "job batch count=3 multiregion",
        expect![[r#"
            place: 0-2
            web: place 3
        "#]],
    );
}

#[test]
fn a_multiregion_deployment_that_runs_places() {
    check(
        "job count=10 parallel=4 multiregion
         alloc 0-4 deployed=open
         deployment total=10",
        expect![[r#"
            place: 5-9
            web: ignore 5, place 5
        "#]],
    );
}
