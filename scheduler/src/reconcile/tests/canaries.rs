//! Canaries: placed, promoted, stopped, and on nodes that disconnect.

use expect_test::expect;

use super::check;

#[test]
fn canaries_of_a_disconnecting_node_are_replaced_with_the_rest() {
    check(
        "job count=6 disconnect=300 delay=0 parallel=2 canary=1 version=1
         deployment total=6 canaries=1
         alloc 0-1 node=disconnected version=0 change=old
         alloc 2-5 version=0 change=old
         alloc 0 node=disconnected deployed=healthy canary reschedule
         alloc 1-2 deployed=healthy canary",
        expect![[r#"
            place again: 0-1 (3 of them)
            unknown: 0-1 (3 of them)
            look again in 300s: max-disconnect-timeout
            web: ignore 6, place 3
        "#]],
    );
}

#[test]
fn a_canary_that_is_unknown_already_is_left_alone() {
    check(
        "job count=6 disconnect=300 delay=0 parallel=2 canary=1 version=1
         deployment total=6 canaries=1
         alloc 0-1 node=disconnected version=0 change=old
         alloc 2-5 version=0 change=old
         alloc 0 node=disconnected client=unknown states=unknown@-5 deployed=healthy canary
         alloc 1-2 deployed=healthy canary",
        expect![[r#"
            place again: 0-1
            unknown: 0-1
            look again in 300s: max-disconnect-timeout
            web: ignore 7, place 2
        "#]],
    );
}

#[test]
fn pending_canaries_of_a_disconnected_node_are_lost() {
    check(
        "job count=6 disconnect=300 delay=0 parallel=2 canary=1 version=1
         deployment total=6 canaries=1
         alloc 0-1 node=disconnected version=0 change=old
         alloc 2-5 version=0 change=old
         alloc 0-1 node=disconnected client=pending deployed canary
         alloc 2-3 deployed=healthy canary",
        expect![[r#"
            place again: 0-1
            stop as lost, alloc is lost since its node is down: 0-1
            unknown: 0-1
            look again in 300s: max-disconnect-timeout
            web: ignore 6, place 2
        "#]],
    );
}

#[test]
fn a_change_asks_for_canaries_first() {
    check(
        "job count=10 parallel=2 canary=2 version=1
         alloc 0-9 version=0 change=old",
        expect![[r#"
            place canary: 0-1
            deployment running: web 10
            web: ignore 10, canary 2
        "#]],
    );
}

#[test]
fn canary_count_may_exceed_the_group_count() {
    check(
        "job count=3 parallel=2 canary=7 version=1
         alloc 0-2 version=0 change=old",
        expect![[r#"
            place canary: 0-6
            deployment running: web 3
            web: ignore 3, canary 7
        "#]],
    );
}

#[test]
fn a_lower_count_stops_at_once_and_a_higher_one_waits_for_promotion() {
    check(
        "job count=5 parallel=2 canary=2 version=1
         alloc 0-9 version=0 change=old",
        expect![[r#"
            place canary: 0-1
            stop, alloc not needed due to job update: 5-9
            deployment running: web 5
            web: ignore 5, canary 2, stop 5
        "#]],
    );
    check(
        "job count=15 parallel=2 canary=2 version=1
         alloc 0-9 version=0 change=old",
        expect![[r#"
            place canary: 0-1
            deployment running: web 15
            web: ignore 10, canary 2
        "#]],
    );
}

#[test]
fn missing_canaries_take_the_names_that_are_free() {
    check(
        "job count=10 parallel=2 canary=4 version=1
         deployment total=10 canaries=4
         alloc 0-9 version=0 change=old
         alloc 0 deployed canary
         alloc 3 deployed canary",
        expect![[r#"
            place canary: 1-2
            web: ignore 12, canary 2
        "#]],
    );
}

#[test]
fn promoted_canaries_replace_old_allocs_of_the_same_name() {
    check(
        "job count=10 parallel=2 canary=2 version=1
         deployment total=10 canaries=2 promoted healthy=2
         alloc 0-9 version=0 change=old
         alloc 0-1 deployed=healthy canary",
        expect![[r#"
            replace: 2-3
            stop, alloc not needed due to job update: 0-1
            web: ignore 8, stop 2, destructive 2
        "#]],
    );
}

#[test]
fn promoted_canaries_may_make_up_the_whole_group() {
    check(
        "job count=2 parallel=2 canary=2 version=1
         deployment total=2 canaries=2 promoted healthy=2
         alloc 0-1 version=0 change=old
         alloc 0-1 deployed=healthy canary",
        expect![[r#"
            stop, alloc not needed due to job update: 0-1
            deployment becomes successful: Deployment completed successfully
            web: ignore 2, stop 2
        "#]],
    );
}

#[test]
fn a_paused_deployment_asks_for_no_canaries_and_a_failed_one_stops_its_own() {
    check(
        "job count=10 parallel=2 canary=2 version=1
         deployment status=paused total=10 canaries=2
         alloc 0-9 version=0 change=old
         alloc 0 deployed canary",
        expect![[r#"
            web: ignore 11
        "#]],
    );
    check(
        "job count=10 parallel=2 canary=2 version=1
         deployment status=failed total=10 canaries=2
         alloc 0-9 version=0 change=old
         alloc 0 deployed canary",
        expect![[r#"
            stop, alloc not needed due to job update: 0
            web: ignore 10, stop 1
        "#]],
    );
}

#[test]
fn canaries_of_a_cancelled_deployment_stop() {
    check(
        "job count=10 parallel=2 canary=2 version=2
         deployment version=1 total=10 canaries=2
         alloc 0-9 version=0 change=old
         alloc 0-1 version=1 deployed canary change=old",
        expect![[r#"
            place canary: 0-1
            stop, alloc not needed due to job update: 0-1
            deployment running: web 10
            deployment becomes cancelled: Cancelled due to newer version of job
            web: ignore 10, canary 2, stop 2
        "#]],
    );
}

#[test]
fn migrating_canary_is_placed_again() {
    check(
        "job count=10 parallel=2 canary=2 version=1
         deployment total=10 canaries=2
         alloc 0-9 version=0 change=old
         alloc 0 deployed=healthy canary
         alloc 1 deployed=healthy canary node=drain migrate",
        expect![[r#"
            place canary: 1
            stop, alloc is being migrated: 1
            web: ignore 11, canary 1
        "#]],
    );
}

#[test]
fn lost_canary_is_placed_again() {
    check(
        "job count=10 parallel=2 canary=2 version=1
         deployment total=10 canaries=2
         alloc 0-9 version=0 change=old
         alloc 0 deployed=healthy canary
         alloc 1 deployed=healthy canary node=down",
        expect![[r#"
            place canary: 1
            stop as lost, alloc is lost since its node is down: 1
            web: ignore 11, canary 1
        "#]],
    );
}
