//! Allocations whose job, node or own status changes.

use expect_test::expect;

use super::check;

#[test]
fn placed_job_needs_nothing_at_the_next_evaluation() {
    check(
        "node a
         node b
         job j count=3
         run j
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on b
              place j.web[2] on a
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn new_version_uses_the_resources_that_the_old_alloc_frees() {
    check(
        "node a cpu=500
         job j count=1 cpu=500 env=1
         run j
         client j.web[0] running
         job j count=1 cpu=500 env=2
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              place after j.web[0] on a
              stop j.web[0]: alloc is being updated due to job update
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn replacement_without_room_leaves_the_old_alloc_running() {
    check(
        "node a cpu=500
         job j count=1 cpu=400
         run j
         client j.web[0] running
         job j count=1 cpu=600
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cpu: 1}; task t cpu 600 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn change_that_needs_no_restart_updates_the_alloc_in_place() {
    check(
        "node a
         job j count=1
         run j
         client j.web[0] running
         job j count=1 kill=9
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              update j.web[0] on a
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn change_of_datacenters_moves_allocs_outside_them() {
    check(
        "node a dc=dc1
         node b dc=dc2
         job j count=1 dcs=dc1
         run j
         job j count=1 dcs=dc2
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              place after j.web[0] on b
              stop j.web[0]: alloc is being updated due to job update
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn evaluation_of_a_stopped_job_stops_all_its_allocs() {
    check(
        "node a
         job j count=2
         run j
         stop j
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              eval complete, queued web 0
            run j:
              stop j.web[0]: alloc not needed due to job update
              stop j.web[1]: alloc not needed due to job update
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn a_lost_alloc_is_replaced_elsewhere() {
    check(
        "node a
         job j count=1
         run j
         client j.web[0] running
         node b
         down a
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              place after j.web[0] on b
              stop j.web[0] as lost: alloc is lost since its node is down
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn a_deployment_rolls_by_max_parallel() {
    check(
        "node a
         job j count=3 parallel=1 env=1 cpu=100
         run j
         job j count=3 parallel=1 env=2 cpu=100
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              place j.web[2] on a
              deployment running
              eval complete, queued web 0
            run j:
              place after j.web[0] on a
              stop j.web[0]: alloc is being updated due to job update
              deployment running
              eval complete, queued web 0
        "#]],
    );
}
