//! Quotas of the default namespace: what they refuse, and what an attempt may still do.

use expect_test::expect;

use super::check;

#[test]
fn group_is_placed_up_to_its_quota_and_again_when_the_limit_is_raised() {
    check(
        "node n1
         quota cpu=1200 mem=2000
         job web count=3 cpu=500
         run web
         quota cpu=2000 mem=2000
         run web blocked
         job big count=1 cpu=500 mem=4000
         run big",
        expect![[r#"
            run web:
              new eval queued-allocs blocked, classes 1 yes 0 no, over quota gold
              place web.web[0] on n1
              place web.web[1] on n1
              failed web: evaluated 1 filtered 0 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; quota: cpu exhausted (1500 needed > 1200 limit)
              eval complete, queued web 1
            run web:
              place web.web[2] on n1
              eval complete, queued web 0
            run big:
              new eval queued-allocs blocked, classes 1 yes 0 no, over quota gold
              failed web: evaluated 1 filtered 0 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; quota: memory exhausted (4768 needed > 2000 limit)
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn quota_with_room_again_after_an_alloc_ends_lets_the_next_one_in() {
    check(
        "node n1
         quota allocs=1
         job web count=1
         job api count=1
         run web
         run api
         client web.web[0] running
         run api blocked
         stop web
         run web
         run api blocked",
        expect![[r#"
            run web:
              place web.web[0] on n1
              eval complete, queued web 0
            run api:
              new eval queued-allocs blocked, classes 1 yes 0 no, over quota gold
              failed web: evaluated 1 filtered 0 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; quota: allocations exhausted (2 needed > 1 limit)
              eval complete, queued web 1
            run api:
              blocked again
            run web:
              stop web.web[0]: alloc not needed due to job update
              eval complete, queued web 0
            run api:
              place api.web[0] on n1
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn replacement_of_the_same_size_needs_no_room_in_the_quota() {
    check(
        "node n1
         quota cpu=1000
         job web count=2 cpu=500
         run web
         quota cpu=600
         job web count=2 cpu=500 env=new
         run web
         job web count=3 cpu=500 env=new
         run web",
        expect![[r#"
            run web:
              place web.web[0] on n1
              place web.web[1] on n1
              eval complete, queued web 0
            run web:
              place after web.web[0] on n1
              place after web.web[1] on n1
              stop web.web[0]: alloc is being updated due to job update
              stop web.web[1]: alloc is being updated due to job update
              eval complete, queued web 0
            run web:
              new eval queued-allocs blocked, classes 1 yes 0 no, over quota gold
              update web.web[0] on n1
              update web.web[1] on n1
              failed web: evaluated 1 filtered 0 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; quota: cpu exhausted (1500 needed > 600 limit)
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn device_quota_keeps_only_the_nodes_out_whose_devices_it_limits() {
    check(
        "node n1 devices=nvidia/gpu/t4:a,b
         node n2 devices=amd/gpu/mi:a,b
         quota device=nvidia/gpu:0
         job web count=3 device=gpu,1
         run web",
        expect![[r#"
            run web:
              new eval queued-allocs blocked, classes 2 yes 0 no, over quota gold
              place web.web[0] on n2 t amd/gpu/mi:a
              place web.web[1] on n2 t amd/gpu/mi:b
              failed web: evaluated 2 filtered 0 exhausted 2 coalesced 0 in pool 2; available {dc1: 2}; dimensions {devices: no devices match request: 1, quota: 1}; task t cpu 0 memory 0; quota: device nvidia/gpu exhausted (1 needed > 0 limit)
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn core_quota_counts_reserved_cores() {
    check(
        "node n1 cores=8 cpu=8000
         quota cores=3
         job web count=2 cores=2
         run web",
        expect![[r#"
            run web:
              new eval queued-allocs blocked, classes 1 yes 0 no, over quota gold
              place web.web[0] on n1 t cores [0, 1] cpu 2000
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {quota: 1}; task t cpu 0 memory 0; quota: cores exhausted (4 needed > 3 limit)
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn system_job_waits_for_the_quota_on_the_first_node_without_room_in_it() {
    check(
        "node n1
         node n2
         node n3
         quota cpu=1000
         job web system cpu=500
         run web",
        expect![[r#"
            run web:
              new eval queued-allocs blocked for n3, classes 1 yes 0 no, over quota gold
              place web.web[0] on n1
              place web.web[0] on n2
              failed web: evaluated 1 filtered 0 exhausted 0 coalesced 0 in pool 3; available {dc1: 3}; quota: cpu exhausted (1500 needed > 1000 limit)
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn group_that_no_node_may_run_is_not_a_matter_of_the_quota() {
    check(
        "node n1
         quota cpu=100
         job web count=1 cpu=500 driver=none
         run web",
        expect![[r#"
            run web:
              new eval queued-allocs blocked, classes 0 yes 1 no
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {missing drivers: 1}
              eval complete, queued web 1
        "#]],
    );
}
