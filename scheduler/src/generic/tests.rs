//! The scheduler as a whole on a real state, as stories: see [`cluster::tell`].

pub(crate) mod cluster;

use expect_test::{Expect, expect};

#[track_caller]
fn check(story: &str, expected: Expect) {
    expected.assert_eq(&cluster::tell(story));
}

#[test]
fn without_nodes_the_whole_job_blocks() {
    check(
        "job j count=10
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 0 yes 0 no
              failed web: evaluated 0 filtered 0 exhausted 0 coalesced 9 in pool 0
              eval complete, queued web 10
        "#]],
    );
}

#[test]
fn a_job_is_placed_and_nothing_is_left_to_do() {
    check(
        "node a
         node b
         job j count=3
         run j
         run j",
        expect![[r#"
            run j:
              place j.web[0] on b
              place j.web[1] on a
              place j.web[2] on b
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn a_full_node_and_a_wrong_kernel_block_by_class() {
    check(
        "node full cpu=100 class=x
         node other attr.kernel.name=windows class=y
         job j count=2 constraint=${attr.kernel.name},=,linux
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 1 no
              failed web: evaluated 2 filtered 1 exhausted 1 coalesced 1 in pool 2; available {dc1: 2}; constraints {${attr.kernel.name} = linux: 1}; dimensions {cpu: 1}; classes {y: 1}; task t cpu 1000 memory 0
              eval complete, queued web 2
        "#]],
    );
}

#[test]
fn one_group_is_placed_though_the_other_is_not() {
    check(
        "node a class=class_0
         job j count=2 second_constraint=${node.class},=,class_1
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place j.web[0] on a
              place j.web[1] on a
              failed second: evaluated 1 filtered 1 exhausted 0 coalesced 1 in pool 1; available {dc1: 1}; constraints {${node.class} = class_1: 1}; classes {class_0: 1}
              eval complete, queued second 2 web 0
        "#]],
    );
}

#[test]
fn a_constraint_on_something_unique_escapes_classes() {
    check(
        "node a
         job j count=1 constraint=${node.unique.name},=,b
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, escaped
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {${node.unique.name} = b: 1}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn memory_runs_out_and_the_metric_says_how_much_was_asked() {
    check(
        "node a mem=300
         job j count=3 mem=256
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place j.web[0] on a
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 1 in pool 1; available {dc1: 1}; dimensions {memory: 1}; task t cpu 0 memory 512
              eval complete, queued web 2
        "#]],
    );
}

#[test]
fn a_planner_that_accepts_nothing_is_asked_five_times() {
    check(
        "node a
         job j count=1
         run j refused",
        expect![[r#"
            run j:
              plan refused
              plan refused
              plan refused
              plan refused
              plan refused
              new eval max-plan-attempts blocked, classes 1 yes 0 no
              eval failed (maximum attempts reached (5)), queued web 1
        "#]],
    );
}

#[test]
fn a_batch_job_is_tried_twice() {
    check(
        "node a
         job j count=1 batch
         run j refused",
        expect![[r#"
            run j:
              plan refused
              plan refused
              new eval max-plan-attempts blocked, classes 1 yes 0 no
              eval failed (maximum attempts reached (2)), queued web 1
        "#]],
    );
}

#[test]
fn a_blocked_evaluation_stays_blocked_until_there_is_room() {
    check(
        "node a cpu=500
         job j count=2 cpu=500
         run j
         run j blocked
         node b cpu=500
         run j blocked",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place j.web[0] on a
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cpu: 1}; task t cpu 500 memory 0
              eval complete, queued web 1
            run j:
              blocked again
            run j:
              place j.web[1] on b
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn annotations_tell_what_would_happen() {
    check(
        "node a
         job j count=10 cpu=100
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              place j.web[2] on a
              place j.web[3] on a
              place j.web[4] on a
              place j.web[5] on a
              place j.web[6] on a
              place j.web[7] on a
              place j.web[8] on a
              place j.web[9] on a
              would: web ignore 0 place 10 stop 0
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn complete_batch_work_is_done() {
    check(
        "node a
         job j count=1 batch
         run j
         client j.web[0] complete
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn batch_work_that_ran_on_a_drained_node_is_done() {
    check(
        "node a
         node b
         job j count=1 batch
         run j
         client j.web[0] complete
         drain a
         drain b
         run j",
        expect![[r#"
            run j:
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn a_new_version_replaces_in_the_place_that_it_frees() {
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
fn a_replacement_without_room_leaves_the_old_one_running() {
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
fn a_change_that_matters_to_the_next_placement_only_is_in_place() {
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
fn a_change_of_datacenters_moves_what_is_outside() {
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
fn datacenters_are_patterns() {
    check(
        "node a dc=eu-1
         node b dc=us-1
         job j count=2 dcs=eu-*
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn a_node_pool_holds_its_jobs() {
    check(
        "node a pool=gpu
         node b
         job j count=2 pool=gpu
         run j
         job k count=1 pool=all
         run k",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              eval complete, queued web 0
            run k:
              place k.web[0] on a
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn a_stopped_job_stops() {
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
fn fixed_a_failed_alloc_keeps_its_tracker_until_there_is_room() {
    check(
        "node a cpu=500
         job j count=1 cpu=500 attempts=1
         run j
         client j.web[0] running
         client j.web[0] failed
         drain a
         wait 5
         run j
         node b cpu=500
         run j blocked
         client j.web[0] failed
         wait 5
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval queued-allocs blocked, classes 0 yes 0 no
              failed web: evaluated 0 filtered 0 exhausted 0 coalesced 0 in pool 0
              eval complete, queued web 1
            run j:
              place again j.web[0] on b
              stop j.web[0]: alloc was rescheduled because it failed
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn three_attempts_and_no_more() {
    check(
        "node a
         node b
         job j count=1 attempts=3
         run j
         client j.web[0] failed
         run j
         client j.web[0] failed
         run j
         client j.web[0] failed
         run j
         client j.web[0] failed
         run j",
        expect![[r#"
            run j:
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              place again j.web[0] on a
              stop j.web[0]: alloc was rescheduled because it failed
              eval complete, queued web 0
            run j:
              place again j.web[0] on a
              stop j.web[0]: alloc was rescheduled because it failed
              eval complete, queued web 0
            run j:
              place again j.web[0] on a
              stop j.web[0]: alloc was rescheduled because it failed
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn a_stopped_alloc_of_a_dead_node_is_lost() {
    check(
        "node a
         job j count=1
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
              stop j.web[0]: alloc not needed due to job update
              eval complete, queued web 0
            run j:
              stop j.web[0] as lost: alloc is lost since its node is down
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn static_ports_keep_allocs_apart() {
    check(
        "node a
         node b
         job j count=3 port=8080
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place j.web[0] on b http=8080
              place j.web[1] on a http=8080
              failed web: evaluated 2 filtered 0 exhausted 2 coalesced 0 in pool 2; available {dc1: 2}; dimensions {network: reserved port collision http=8080: 2}; task t cpu 0 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn dynamic_ports_are_given() {
    check(
        "node a
         job j count=2 dynamic
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a rpc=-1
              place j.web[1] on a rpc=-1
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn a_static_port_passes_to_the_next_version() {
    check(
        "node a
         job j count=1 port=8080 env=1
         run j
         client j.web[0] running
         job j count=1 port=8080 env=2
         run j
         job k count=1 dynamic
         run k",
        expect![[r#"
            run j:
              place j.web[0] on a http=8080
              eval complete, queued web 0
            run j:
              place after j.web[0] on a http=8080
              stop j.web[0]: alloc is being updated due to job update
              eval complete, queued web 0
            run k:
              place k.web[0] on a rpc=-1
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn distinct_hosts_keeps_allocs_apart() {
    check(
        "node a
         node b
         job j count=3 constraint=,distinct_hosts,
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place j.web[0] on b
              place j.web[1] on a
              failed web: evaluated 2 filtered 2 exhausted 0 coalesced 0 in pool 2; available {dc1: 2}; constraints {distinct_hosts: 2}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn distinct_property_limits_allocs_per_value() {
    check(
        "node a meta.rack=r1
         node b meta.rack=r1
         node c meta.rack=r2
         job j count=4 constraint=${meta.rack},distinct_property,1
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 2 yes 0 no
              place j.web[0] on a
              place j.web[1] on c
              failed web: evaluated 3 filtered 3 exhausted 0 coalesced 1 in pool 3; available {dc1: 3}; constraints {distinct_property: ${meta.rack}=r1 used by 1 allocs: 2, distinct_property: ${meta.rack}=r2 used by 1 allocs: 1}
              eval complete, queued web 2
        "#]],
    );
}

#[test]
fn what_is_not_built_is_named_and_not_run() {
    check(
        "node a
         job j count=2 template
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 0 yes 1 no
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 1 in pool 1; available {dc1: 1}; constraints {template is not built yet: 1}
              eval complete, queued web 2
        "#]],
    );
}

#[test]
fn what_is_not_built_leaves_the_old_version_running() {
    check(
        "node a
         job j count=1
         run j
         client j.web[0] running
         job j count=1 template
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              new eval queued-allocs blocked, classes 0 yes 1 no
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {template is not built yet: 1}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn canaries_are_not_built() {
    check(
        "node a
         job j count=1 parallel=1 canary=1
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 0 yes 1 no
              deployment running
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {update canary is not built yet: 1}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn system_jobs_are_not_built() {
    check(
        "node a
         job j system
         run j",
        expect![[r#"
            run j:
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {type system is not built yet: 1}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn an_unhealthy_driver_speaks_for_its_node_only() {
    check(
        "node a sick
         node b
         job j count=1
         run j
         node c sick
         job k count=9 cpu=500
         run k",
        expect![[r#"
            run j:
              place j.web[0] on b
              eval complete, queued web 0
            run k:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place k.web[0] on b
              place k.web[1] on b
              place k.web[2] on b
              place k.web[3] on b
              place k.web[4] on b
              place k.web[5] on b
              place k.web[6] on b
              failed web: evaluated 3 filtered 2 exhausted 1 coalesced 1 in pool 3; available {dc1: 3}; constraints {missing drivers: 2}; dimensions {cpu: 1}; task t cpu 1000 memory 0
              eval complete, queued web 2
        "#]],
    );
}

#[test]
fn binpack_fills_a_node_and_spread_does_not() {
    check(
        "node a
         node b
         job j count=1 batch
         run j
         job k count=1 batch
         run k
         settings algorithm=spread
         job l count=1 batch
         run l
         job m count=1 batch
         run m",
        expect![[r#"
            run j:
              place j.web[0] on b
              eval complete, queued web 0
            run k:
              place k.web[0] on b
              eval complete, queued web 0
            run l:
              place l.web[0] on a
              eval complete, queued web 0
            run m:
              place m.web[0] on a
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
