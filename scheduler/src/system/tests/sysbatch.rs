//! Sysbatch jobs: once on every node.

use expect_test::expect;

use super::check;

#[test]
fn finished_allocs_stay_done_and_a_new_node_gets_its_own() {
    check(
        "node a
         node b
         job j sysbatch
         run j
         client j.web[0]@a complete
         client j.web[0]@b failed
         node c
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              place j.web[0] on c
              would: web ignore 2 place 1 stop 0
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn new_version_runs_again_where_tasks_changed() {
    check(
        "node a
         job j sysbatch env=1
         run j
         client j.web[0] complete
         job j sysbatch env=2
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              place after j.web[0] on a
              stop j.web[0] on a: alloc is being updated due to job update
              would: web ignore 0 place 0 stop 0 destructive 1
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn new_version_with_the_same_tasks_does_not_run_again() {
    check(
        "node a
         job j sysbatch
         run j
         client j.web[0] complete
         job j sysbatch kill=9
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              would: web ignore 0 place 0 stop 0 in place 1
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn finished_alloc_with_the_same_tasks_needs_no_room_for_a_new_version() {
    check(
        "node a
         job j sysbatch
         run j
         client j.web[0] complete
         job fill cpu=3900
         run fill
         job j sysbatch kill=9
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run fill:
              place fill.web[0] on a
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn new_version_waits_for_finished_nodes_that_are_not_ready() {
    check(
        "node a
         node b
         job j sysbatch env=1
         run j
         client j.web[0] complete
         down a
         job j sysbatch env=2
         run j
         connect a
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              place after j.web[0] on b
              stop j.web[0] on b: alloc is being updated due to job update
              eval complete, queued web 0
            run j:
              place after j.web[0] on a
              stop j.web[0] on a: alloc is being updated due to job update
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn full_node_runs_its_alloc_when_there_is_room() {
    check(
        "node a
         job fill cpu=3900
         run fill
         job j sysbatch
         run j
         stop fill
         run fill
         client fill.web[0] complete
         run j blocked",
        expect![[r#"
            run fill:
              place fill.web[0] on a
              eval complete, queued web 0
            run j:
              new eval queued-allocs blocked for a, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cpu: 1}; task t cpu 500 memory 0
              eval complete, queued web 1
            run fill:
              stop fill.web[0]: alloc not needed due to job update
              eval complete, queued web 0
            run j:
              place j.web[0] on a
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn lost_alloc_is_not_run_again() {
    check(
        "node a
         job j sysbatch
         run j
         client j.web[0] running
         down a
         run j
         connect a
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              stop j.web[0] on a as lost: alloc is lost since its node is down
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn ended_allocation_counts_as_updated_in_place_and_is_not_written() {
    check(
        "node a
         job j sysbatch
         run j
         client j.web[0] complete
         job j sysbatch priority=60
         run j
         allocs j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            allocs: 
        "#]],
    );
}
