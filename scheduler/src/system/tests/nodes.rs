//! Nodes that fail, drain, disconnect, and come back.

use expect_test::expect;

use super::check;

#[test]
fn alloc_of_a_lost_node_is_not_placed_elsewhere() {
    check(
        "node a
         node b
         job j system
         run j
         client j.web[0] running
         down a
         run j
         connect a
         run j
         remove b
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              stop j.web[0] on a as lost: alloc is lost since its node is down
              eval complete, queued web 0
            run j:
              place after j.web[0] on a
              eval complete, queued web 0
            run j:
              stop j.web[0] on b as lost: alloc is lost since its node is down
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn drained_alloc_ends_and_comes_back_with_the_node() {
    check(
        "node a
         node b
         job j system
         run j
         client j.web[0] running
         drain a
         run j annotate
         run j
         client j.web[0]@a complete
         undrain a
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              stop j.web[0] on a: alloc not needed as node is tainted
              would: web ignore 1 place 0 stop 0 migrate 1
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            run j:
              place after j.web[0] on a
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn failed_alloc_is_placed_again_by_the_next_evaluation() {
    check(
        "node a
         job j system
         run j
         client j.web[0] failed
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              place after j.web[0] on a
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn reconnected_alloc_goes_on_and_its_return_is_recorded_once() {
    check(
        "node a
         job j system disconnect=300
         run j
         client j.web[0] running
         disconnect a
         run j
         connect a
         client j.web[0] running
         run j
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              make unknown j.web[0] on a
              eval complete, queued web 0
            run j:
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn reconnected_alloc_of_an_older_version_is_replaced_only_on_a_ready_node() {
    check(
        "node a
         job j system disconnect=300 env=1
         run j
         client j.web[0] running
         disconnect a
         run j
         job j system disconnect=300 env=2
         run j
         connect a
         client j.web[0] running
         run j
         connect a
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              make unknown j.web[0] on a
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
            run j:
              update j.web[0] on a
              eval complete, queued web 0
            run j:
              place after j.web[0] on a
              stop j.web[0] on a: alloc is being updated due to job update
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn stopped_alloc_of_a_node_that_goes_down_is_lost() {
    check(
        "node a
         job j system
         run j
         client j.web[0] running
         stop j
         run j
         down a
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              stop j.web[0] on a: alloc not needed due to job update
              eval complete, queued web 0
            run j:
              stop j.web[0] on a as lost: alloc is lost since its node is down
              eval complete, queued web 0
        "#]],
    );
}
