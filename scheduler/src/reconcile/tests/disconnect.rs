//! Nodes that disconnect for a while, and their allocations' return.

use expect_test::expect;

use super::check;

#[test]
fn fixed_terminal_allocs_on_disconnected_nodes_are_not_lost() {
    check(
        "job batch count=1
         alloc 0 node=disconnected client=complete ended=-5",
        expect![[r#"
            web: ignore 1
        "#]],
    );
}

#[test]
fn fixed_failed_allocs_with_max_client_disconnect_follow_their_policy() {
    check(
        "job count=2 disconnect=300 delay=15
         alloc 0 client=failed ended=0
         alloc 1",
        expect![[r#"
            later until alloc-failure: 0
            look again in 15s: alloc-failure
            web: ignore 2
        "#]],
    );
}

#[test]
fn fixed_a_follow_up_that_runs_again_places_nothing_twice() {
    check(
        "job count=2 disconnect=300
         alloc 0-1 node=disconnected client=unknown states=unknown@-5 followup=this next=r
         alloc 0-1 as=r client=pending",
        expect![[r#"
            web: ignore 4
        "#]],
    );
}

#[test]
fn fixed_replacement_that_a_follow_up_could_not_place_is_placed_by_a_later_eval() {
    check(
        "job count=2 disconnect=300 delay=5
         alloc 0 node=disconnected client=unknown states=unknown@-60 followup=other
         alloc 1 node=disconnected client=unknown states=unknown@-2 followup=other",
        expect![[r#"
            place again: 0
            web: ignore 1, place 1
        "#]],
    );
}

#[test]
fn fixed_lost_replacement_is_replaced_although_the_original_may_reconnect() {
    check(
        "job count=1 disconnect=300
         alloc 0 node=disconnected client=unknown states=unknown@-5 next=r
         alloc 0 as=r node=down client=pending",
        expect![[r#"
            place after lost: 0
            stop as lost, alloc is lost since its node is down: 0
            web: ignore 1, place 1, stop 1
        "#]],
    );
}

#[test]
fn fixed_job_update_replaces_only_one_of_alloc_and_replacement() {
    check(
        "job count=1 disconnect=300 version=1
         alloc 0 node=disconnected version=0 client=unknown states=unknown@-5 next=r change=old
         alloc 0 as=r version=0 change=old",
        expect![[r#"
            replace: 0
            web: ignore 1, destructive 1
        "#]],
    );
}

#[test]
fn fixed_alloc_that_disconnects_during_an_in_place_update_is_written_once() {
    check(
        "job count=1 disconnect=300 delay=5 version=1
         alloc 0 node=disconnected version=0 change=inplace",
        expect![[r#"
            change in place: 0
            look again in 300s: max-disconnect-timeout
            look again in 5s: alloc-failure
            web: in place 1
        "#]],
    );
}

#[test]
fn fixed_reconnected_alloc_that_was_stopped_is_not_stopped_again() {
    check(
        "job count=1 disconnect=300
         alloc 0 desired=stop states=unknown next=r
         alloc 0 as=r",
        expect![[r#"
            web: ignore 2
        "#]],
    );
}

#[test]
fn fixed_stopped_alloc_on_a_disconnected_node_does_not_become_unknown() {
    check(
        "job count=1 disconnect=300
         alloc 0 node=disconnected desired=stop states=unknown next=r
         alloc 0 as=r",
        expect![[r#"
            web: ignore 2
        "#]],
    );
}

#[test]
fn second_disconnect_is_handled_as_the_first() {
    check(
        "job count=2 disconnect=300 delay=5
         alloc 0 node=disconnected states=unknown@-90,running@-60
         alloc 1 states=unknown@-90,running@-60,unknown@-30",
        expect![[r#"
            unknown until alloc-failure: 0
            back as running: 1
            look again in 300s: max-disconnect-timeout
            look again in 5s: alloc-failure
            web: ignore 2
        "#]],
    );
}

#[test]
fn alloc_with_a_history_ending_in_running_is_left_alone() {
    check(
        "job count=2 disconnect=300
         alloc 0 states=unknown@-90,running@-60
         alloc 1",
        expect![[r#"
            web: ignore 2
        "#]],
    );
}

#[test]
fn alloc_history_is_ignored_without_max_client_disconnect() {
    check(
        "job count=2
         alloc 0 states=unknown@-90
         alloc 1 node=disconnected states=unknown@-90",
        expect![[r#"
            place after lost: 1
            stop as lost, alloc is lost since its node is down: 1
            web: ignore 1, place 1, stop 1
        "#]],
    );
}

#[test]
fn unknown_allocs_on_a_down_node_keep_their_limit_and_running_ones_are_lost() {
    check(
        "job count=3 disconnect=300
         alloc 0 node=down client=unknown states=unknown@-90 followup=other
         alloc 1 node=down client=unknown states=unknown@-300
         alloc 2 node=down states=unknown@-90",
        expect![[r#"
            place again: 0
            place after lost: 1-2
            stop as lost, alloc is lost since its node is down: 1-2
            web: place 3, stop 2
        "#]],
    );
}

#[test]
fn alloc_that_reconnects_to_a_draining_node_is_reconciled_first() {
    check(
        "job count=2 disconnect=300
         alloc 0 node=drain states=unknown@-90
         alloc 1 node=drain migrate states=unknown@-90",
        expect![[r#"
            place: 1
            stop, alloc not needed due to job update: 1
            back as running: 0
            web: ignore 1, place 1, stop 1
        "#]],
    );
}

#[test]
fn reconnected_allocs_of_an_old_version_stop() {
    check(
        "job count=2 disconnect=300 version=2
         alloc 0 version=1 states=unknown@-90 next=r
         alloc 0 as=r version=2
         alloc 1 version=1 states=unknown@-90",
        expect![[r#"
            place: 1
            stop, alloc not needed due to job update: 0-1
            web: ignore 1, place 1, stop 2
        "#]],
    );
}
