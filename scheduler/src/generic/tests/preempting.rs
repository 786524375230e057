//! Preemption: allocations of lower priority give way when no node has free room.

mod random;

use expect_test::expect;

use super::check;

#[test]
fn service_takes_the_room_of_one_of_lower_priority() {
    check(
        "node n1 cpu=2500 mem=2048
         settings service_preempts
         job low priority=20 count=3 cpu=700 mem=300
         run low
         job high priority=70 cpu=900 mem=300
         run high annotate
         scores high.web[0]
         allocs low",
        expect![[r#"
            run low:
              place low.web[0] on n1
              place low.web[1] on n1
              place low.web[2] on n1
              eval complete, queued web 0
            run high:
              place high.web[0] on n1
              preempt low.web[1] on n1 for high.web[0]
              would: web ignore 0 place 1 stop 0 preemptions 1
              new eval preemption for low pending
              eval complete, queued web 0
            scores high.web[0]: evaluated 1
              n1 0.966: binpack 0.932 job-anti-affinity 0.000 node-affinity 0.000 node-reschedule-penalty 0.000 preemption 1.000
            allocs: low.web[0] v0, low.web[2] v0
        "#]],
    );
}

#[test]
fn nothing_gives_way_where_preemption_is_off() {
    check(
        "node n1 cpu=2500
         settings system_preempts batch_preempts sysbatch_preempts
         job low priority=20 count=3 cpu=700
         run low
         job high priority=70 cpu=900
         run high",
        expect![[r#"
            run low:
              place low.web[0] on n1
              place low.web[1] on n1
              place low.web[2] on n1
              eval complete, queued web 0
            run high:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cpu: 1}; task t cpu 900 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn alloc_that_stops_already_does_not_give_way() {
    check(
        "node n1 cpu=2500
         settings service_preempts
         job low priority=20 count=3 cpu=700
         run low
         stop low
         run low
         job high priority=70 cpu=900
         run high",
        expect![[r#"
            run low:
              place low.web[0] on n1
              place low.web[1] on n1
              place low.web[2] on n1
              eval complete, queued web 0
            run low:
              stop low.web[0]: alloc not needed due to job update
              stop low.web[1]: alloc not needed due to job update
              stop low.web[2]: alloc not needed due to job update
              eval complete, queued web 0
            run high:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cpu: 1}; task t cpu 900 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn closest_size_gives_way() {
    check(
        "node n1 cpu=2500 mem=2048
         settings service_preempts
         job big priority=20 cpu=1500 mem=200
         run big
         job close priority=20 cpu=600 mem=200
         run close
         job small priority=20 cpu=300 mem=200
         run small
         job high priority=90 cpu=600 mem=150
         run high",
        expect![[r#"
            run big:
              place big.web[0] on n1
              eval complete, queued web 0
            run close:
              place close.web[0] on n1
              eval complete, queued web 0
            run small:
              place small.web[0] on n1
              eval complete, queued web 0
            run high:
              place high.web[0] on n1
              preempt close.web[0] on n1 for high.web[0]
              new eval preemption for close pending
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn lowest_priorities_give_way_first() {
    check(
        "node n1 cpu=2500
         settings service_preempts
         job lowest priority=10 count=2 cpu=500
         run lowest
         job low priority=30 count=2 cpu=500
         run low
         job high priority=90 cpu=1900
         run high",
        expect![[r#"
            run lowest:
              place lowest.web[0] on n1
              place lowest.web[1] on n1
              eval complete, queued web 0
            run low:
              place low.web[0] on n1
              place low.web[1] on n1
              eval complete, queued web 0
            run high:
              place high.web[0] on n1
              preempt low.web[0] on n1 for high.web[0]
              preempt lowest.web[0] on n1 for high.web[0]
              preempt lowest.web[1] on n1 for high.web[0]
              new eval preemption for low pending
              new eval preemption for lowest pending
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn holder_of_a_static_port_gives_way() {
    check(
        "node n1
         settings service_preempts
         job holder priority=20 port=8080
         run holder
         job other priority=20
         run other
         job high priority=80 port=8080
         run high
         job again priority=85 port=8080
         run again",
        expect![[r#"
            run holder:
              place holder.web[0] on n1 http=8080
              eval complete, queued web 0
            run other:
              place other.web[0] on n1
              eval complete, queued web 0
            run high:
              place high.web[0] on n1 http=8080
              preempt holder.web[0] on n1 for high.web[0]
              new eval preemption for holder pending
              eval complete, queued web 0
            run again:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {network: port collision: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn devices_are_taken_from_the_lowest_priority() {
    check(
        "node n1 devices=nvidia/gpu/a:a1,a2,a3
         settings service_preempts
         job lowest priority=10 device=gpu,1
         run lowest
         job low priority=30 device=gpu,2
         run low
         job high priority=80 device=gpu,2
         run high",
        expect![[r#"
            run lowest:
              place lowest.web[0] on n1 t nvidia/gpu/a:a1
              eval complete, queued web 0
            run low:
              place low.web[0] on n1 t nvidia/gpu/a:a2,a3
              eval complete, queued web 0
            run high:
              place high.web[0] on n1 t nvidia/gpu/a:a2,a3
              preempt low.web[0] on n1 for high.web[0]
              new eval preemption for low pending
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn devices_are_taken_from_the_group_with_the_lowest_sum_of_priorities() {
    check(
        "node n1 devices=nvidia/gpu/a:a1,a2;nvidia/gpu/b:b1,b2
         settings service_preempts
         job lowest priority=10 device=nvidia/gpu/a,1
         run lowest
         job low priority=35 device=nvidia/gpu/a,1
         run low
         job middle priority=40 device=nvidia/gpu/b,2
         run middle
         job high priority=80 device=gpu,2
         run high",
        expect![[r#"
            run lowest:
              place lowest.web[0] on n1 t nvidia/gpu/a:a1
              eval complete, queued web 0
            run low:
              place low.web[0] on n1 t nvidia/gpu/a:a2
              eval complete, queued web 0
            run middle:
              place middle.web[0] on n1 t nvidia/gpu/b:b1,b2
              eval complete, queued web 0
            run high:
              place high.web[0] on n1 t nvidia/gpu/b:b1,b2
              preempt middle.web[0] on n1 for high.web[0]
              new eval preemption for middle pending
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn equal_priorities_of_the_holders_of_devices_count_once() {
    check(
        "node n1 devices=nvidia/gpu/a:a1,a2;nvidia/gpu/b:b1,b2
         settings service_preempts
         job low priority=30 count=2 device=nvidia/gpu/a,1
         run low
         job middle priority=40 device=nvidia/gpu/b,2
         run middle
         job high priority=80 device=gpu,2
         run high",
        expect![[r#"
            run low:
              place low.web[0] on n1 t nvidia/gpu/a:a1
              place low.web[1] on n1 t nvidia/gpu/a:a2
              eval complete, queued web 0
            run middle:
              place middle.web[0] on n1 t nvidia/gpu/b:b1,b2
              eval complete, queued web 0
            run high:
              place high.web[0] on n1 t nvidia/gpu/a:a1,a2
              preempt low.web[0] on n1 for high.web[0]
              preempt low.web[1] on n1 for high.web[0]
              new eval preemption for low pending
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn cores_are_not_preempted() {
    check(
        "node n1 cpu=4000 cores=2
         settings service_preempts
         job low priority=10 count=2 cores=1
         run low
         job high priority=90 cores=1
         run high",
        expect![[r#"
            run low:
              place low.web[0] on n1 t cores [0] cpu 2000
              place low.web[1] on n1 t cores [1] cpu 2000
              eval complete, queued web 0
            run high:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cores: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
        "#]],
    );
}
