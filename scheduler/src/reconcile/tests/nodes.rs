//! Nodes that go down, drain or stay disconnected.

use expect_test::expect;

use super::check;

#[test]
fn allocs_on_down_nodes_are_lost_and_replaced() {
    check(
        "job count=10
         alloc 0-1 node=down
         alloc 2-9",
        expect![[r#"
            place after lost: 0-1
            stop as lost, alloc is lost since its node is down: 0-1
            web: ignore 8, place 2, stop 2
        "#]],
    );
}

#[test]
fn lost_allocs_are_replaced_and_a_higher_count_placed() {
    check(
        "job count=15
         alloc 0-1 node=down
         alloc 2-9",
        expect![[r#"
            place after lost: 0-1
            place: 10-14
            stop as lost, alloc is lost since its node is down: 0-1
            web: ignore 8, place 7, stop 2
        "#]],
    );
}

#[test]
fn lost_allocs_are_not_replaced_when_the_count_is_lowered() {
    check(
        "job count=5
         alloc 0-1 node=down
         alloc 2-9",
        expect![[r#"
            stop as lost, alloc is lost since its node is down: 0-1
            stop, alloc not needed due to job update: 7-9
            web: ignore 5, stop 5
        "#]],
    );
}

#[test]
fn allocs_of_a_draining_node_are_migrated() {
    check(
        "job count=10
         alloc 0-1 node=drain migrate
         alloc 2-9",
        expect![[r#"
            place after migrating: 0-1
            stop, alloc is being migrated: 0-1
            web: ignore 8, migrate 2
        "#]],
    );
}

#[test]
fn drained_allocs_are_migrated_and_a_higher_count_placed() {
    check(
        "job count=15
         alloc 0-1 node=drain migrate
         alloc 2-9",
        expect![[r#"
            place: 10-14
            place after migrating: 0-1
            stop, alloc is being migrated: 0-1
            web: ignore 8, place 5, migrate 2
        "#]],
    );
}

#[test]
fn lower_count_stops_the_highest_migrating_allocs_first() {
    check(
        "job count=8
         alloc 0-2 node=drain migrate
         alloc 3-9",
        expect![[r#"
            place after migrating: 0
            stop, alloc not needed due to job update: 1-2
            stop, alloc is being migrated: 0
            web: ignore 7, migrate 1, stop 2
        "#]],
    );
}

#[test]
fn migrating_alloc_on_a_down_node_is_migrated_and_not_lost() {
    check(
        "job count=1
         alloc 0 node=down migrate",
        expect![[r#"
            place after migrating: 0
            stop, alloc is being migrated: 0
            web: migrate 1
        "#]],
    );
}

#[test]
fn complete_batch_alloc_on_a_down_node_is_left_alone() {
    check(
        "job batch count=1
         alloc 0 node=down client=complete",
        expect![[r#"
            web: ignore 1
        "#]],
    );
}

#[test]
fn batch_work_that_ended_on_a_lost_node_counts_once_with_its_replacement() {
    check(
        "job batch count=3
         alloc 0 desired=stop client=complete ended=-10
         alloc 0 as=r client=complete ended=0
         alloc 1",
        expect![[r#"
            place: 2
            web: ignore 2, place 1
        "#]],
    );
}

#[test]
fn a_failed_alloc_on_a_down_node_stops_only_with_its_replacement() {
    check(
        "job count=1
         alloc 0 node=down client=failed ended=-10",
        expect![[r#"
            place again: 0
            then stop, alloc was rescheduled because it failed: 0
            web: place 1, stop 1
        "#]],
    );
}

#[test]
fn alloc_with_stop_after_client_disconnect_is_replaced_after_the_wait() {
    check(
        "job count=1 stop_after=1
         alloc 0 node=down",
        expect![[r#"
            stop as lost, alloc is lost since its node is down: 0
            look again in 6s: alloc-failure
            web: stop 1
        "#]],
    );
}

#[test]
fn alloc_is_replaced_when_stop_after_client_disconnect_is_over() {
    check(
        "job count=1 stop_after=1
         alloc 0 node=down states=lost@-10",
        expect![[r#"
            place after lost: 0
            stop as lost, alloc is lost since its node is down: 0
            web: place 1, stop 1
        "#]],
    );
}

#[test]
fn stop_after_client_disconnect_is_not_cut_short_by_another_eval() {
    check(
        "job count=1 stop_after=60
         alloc 0 node=down client=lost desired=stop states=lost@-10 followup=other",
        expect![[r#"
            web: nothing
        "#]],
    );
}

#[test]
fn stop_after_client_disconnect_ends_with_its_own_eval() {
    check(
        "job count=1 stop_after=60
         alloc 0 node=down client=lost desired=stop states=lost@-10 followup=this",
        expect![[r#"
            place: 0
            web: place 1
        "#]],
    );
}

#[test]
fn disconnected_alloc_without_max_client_disconnect_is_lost() {
    check(
        "job count=1
         alloc 0 node=disconnected",
        expect![[r#"
            place after lost: 0
            stop as lost, alloc is lost since its node is down: 0
            web: place 1, stop 1
        "#]],
    );
}
