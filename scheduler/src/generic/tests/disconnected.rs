//! Nodes that disconnect for a while, through scheduler, applier and tables.

use expect_test::expect;

use super::check;

#[test]
fn disconnected_alloc_is_replaced_and_kept_on_reconnect() {
    check(
        "node a
         job j count=1 disconnect=300 delay=5
         run j
         client j.web[0] running
         node b
         disconnect a
         run j
         run j later
         evals j
         connect a
         client j.web[0] running
         evals j
         run j
         connect a
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval max-disconnect-timeout pending in 300s
              new eval alloc-failure pending in 5s
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              place again j.web[0] on b
              eval complete, queued web 0
            evals j:
              alloc-failure complete in 0s: 
              max-disconnect-timeout pending in 295s: created for delayed disconnect timeout
            evals j:
              alloc-failure complete in 0s: 
              max-disconnect-timeout canceled in 295s: allocs reconnected
            run j:
              stop j.web[0]: alloc not needed due to disconnected client reconnect
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn allocs_of_a_node_disconnected_past_the_limit_are_lost() {
    check(
        "node a
         job j count=1 disconnect=300 delay=5
         run j
         client j.web[0] running
         node b
         disconnect a
         run j
         run j later
         run j later
         run j
         evals j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval max-disconnect-timeout pending in 300s
              new eval alloc-failure pending in 5s
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              place again j.web[0] on b
              eval complete, queued web 0
            run j:
              stop j.web[0] as lost: alloc is lost since its node is down
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            evals j:
              alloc-failure complete in -295s: 
              max-disconnect-timeout complete in 0s: 
        "#]],
    );
}

#[test]
fn disconnect_timeout_stays_while_another_alloc_waits_on_it() {
    check(
        "node a
         job j count=2 disconnect=300 delay=600
         run j
         client j.web[0] running
         client j.web[1] running
         disconnect a
         run j
         connect a
         client j.web[0] running
         evals j
         client j.web[1] running
         evals j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              eval complete, queued web 0
            run j:
              new eval max-disconnect-timeout pending in 300s
              new eval alloc-failure pending in 600s
              update j.web[0] on a
              update j.web[1] on a
              eval complete, queued web 0
            evals j:
              alloc-failure pending in 600s: created for delayed rescheduling
              max-disconnect-timeout pending in 300s: created for delayed disconnect timeout
            evals j:
              alloc-failure pending in 600s: created for delayed rescheduling
              max-disconnect-timeout canceled in 300s: allocs reconnected
        "#]],
    );
}

#[test]
fn each_of_two_disconnected_nodes_has_its_own_timeout() {
    check(
        "node a cpu=500
         node b cpu=500
         job j count=2 disconnect=300 delay=600
         run j
         client j.web[0] running
         client j.web[1] running
         disconnect a
         run j
         wait 20
         disconnect b
         run j
         connect b
         client j.web[1] running
         evals j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on b
              eval complete, queued web 0
            run j:
              new eval max-disconnect-timeout pending in 300s
              new eval alloc-failure pending in 600s
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval max-disconnect-timeout pending in 300s
              new eval alloc-failure pending in 600s
              update j.web[1] on b
              eval complete, queued web 0
            evals j:
              alloc-failure pending in 580s: created for delayed rescheduling
              alloc-failure pending in 600s: created for delayed rescheduling
              max-disconnect-timeout canceled in 300s: allocs reconnected
              max-disconnect-timeout pending in 280s: created for delayed disconnect timeout
        "#]],
    );
}

#[test]
fn fixed_reconnected_alloc_that_fails_later_is_rescheduled() {
    check(
        "node a
         job j count=1 disconnect=300 delay=60
         run j
         client j.web[0] running
         disconnect a
         run j
         connect a
         client j.web[0] running
         run j
         connect a
         client j.web[0] failed
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval max-disconnect-timeout pending in 300s
              new eval alloc-failure pending in 60s
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval alloc-failure pending in 60s
              update j.web[0] on a
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn fixed_reconnect_is_recorded_while_the_node_is_initializing() {
    check(
        "node a
         job j count=2 disconnect=300
         run j
         client j.web[0] running
         client j.web[1] running
         disconnect a
         run j
         connect a
         client j.web[0] running
         client j.web[1] running
         run j
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              eval complete, queued web 0
            run j:
              new eval max-disconnect-timeout pending in 300s
              new eval queued-allocs blocked, classes 0 yes 0 no
              update j.web[0] on a
              update j.web[1] on a
              failed web: evaluated 0 filtered 0 exhausted 0 coalesced 1 in pool 0
              eval complete, queued web 2
            run j:
              update j.web[0] on a
              update j.web[1] on a
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn fixed_failed_alloc_on_a_down_node_is_rescheduled_after_its_delay() {
    check(
        "node a
         job j count=1 delay=60
         run j
         client j.web[0] failed
         node b
         down a
         run j
         run j later",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval alloc-failure pending in 60s
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              place again j.web[0] on b
              stop j.web[0]: alloc was rescheduled because it failed
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn fixed_failed_alloc_on_a_draining_node_is_rescheduled_after_its_delay() {
    check(
        "node a
         job j count=1 delay=60
         run j
         client j.web[0] failed
         node b
         drain a
         run j
         run j later",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval alloc-failure pending in 60s
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              place again j.web[0] on b
              stop j.web[0]: alloc was rescheduled because it failed
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn fixed_failed_alloc_on_a_disconnected_node_is_rescheduled_after_its_delay() {
    check(
        "node a
         job j count=2 delay=60 disconnect=300
         run j
         client j.web[0] failed
         client j.web[1] running
         node b
         disconnect a
         run j
         run j later",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              eval complete, queued web 0
            run j:
              new eval max-disconnect-timeout pending in 300s
              new eval alloc-failure pending in 60s
              update j.web[0] on a
              update j.web[1] on a
              eval complete, queued web 0
            run j:
              place again j.web[0] on b
              place again j.web[1] on b
              stop j.web[0]: alloc was rescheduled because it failed
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn fixed_alloc_that_disconnects_during_a_job_update_is_stopped_for_good() {
    check(
        "node a
         job j count=1 disconnect=300 delay=60 env=1
         run j
         client j.web[0] running
         node b
         disconnect a
         job j count=1 disconnect=300 delay=60 env=2
         run j
         client j.web[0] running
         connect a
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval max-disconnect-timeout pending in 300s
              new eval alloc-failure pending in 60s
              place after j.web[0] on b
              stop j.web[0]: alloc is being updated due to job update
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn allocs_of_a_disconnected_node_are_lost_without_max_client_disconnect() {
    check(
        "node a
         job j count=1
         run j
         client j.web[0] running
         node b
         disconnect a
         run j
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              place after j.web[0] on b
              stop j.web[0] as lost: alloc is lost since its node is down
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}
