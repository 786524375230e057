//! Choice of nodes.

use expect_test::expect;

use super::check;

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
fn job_is_placed_only_in_its_node_pool() {
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
fn static_ports_keep_allocs_apart() {
    check(
        "settings
         node a
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
fn placed_alloc_gets_a_dynamic_port() {
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
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {network: port collision: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
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
              place j.web[0] on a
              place j.web[1] on b
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
              place j.web[0] on b
              place j.web[1] on c
              failed web: evaluated 3 filtered 3 exhausted 0 coalesced 1 in pool 3; available {dc1: 3}; constraints {distinct_property: ${meta.rack}=r1 used by 1 allocs: 2, distinct_property: ${meta.rack}=r2 used by 1 allocs: 1}
              eval complete, queued web 2
        "#]],
    );
}

#[test]
fn unhealthy_driver_excludes_only_its_own_node() {
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
              place j.web[0] on a
              eval complete, queued web 0
            run k:
              place k.web[0] on a
              eval complete, queued web 0
            run l:
              place l.web[0] on b
              eval complete, queued web 0
            run m:
              place m.web[0] on b
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn distinct_property_counts_one_of_the_replaced_allocs_and_kept_ones_once() {
    // Of three allocations that are replaced, one still counts once its value is used again.
    check(
        "node a meta.rack=r1
         node b meta.rack=r1
         job j count=3 constraint=${meta.rack},distinct_property,3
         run j
         job j count=3 constraint=${meta.rack},distinct_property,3 env=2
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on b
              place j.web[2] on a
              eval complete, queued web 0
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place after j.web[0] on a
              stop j.web[0]: alloc is being updated due to job update
              failed web: evaluated 2 filtered 2 exhausted 0 coalesced 1 in pool 2; available {dc1: 2}; constraints {distinct_property: ${meta.rack}=r1 used by 3 allocs: 2}
              eval complete, queued web 2
        "#]],
    );
    // Allocations that are updated in place count once.
    check(
        "node a meta.rack=r1
         job j count=2 constraint=${meta.rack},distinct_property,3
         run j
         job j count=3 constraint=${meta.rack},distinct_property,3
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on a
              eval complete, queued web 0
            run j:
              place j.web[2] on a
              update j.web[0] on a
              update j.web[1] on a
              eval complete, queued web 0
        "#]],
    );
}
