//! Stories of what a node grants beside CPU shares and memory: cores, networks of tasks, disks of previous allocations.

use expect_test::expect;

use super::{check, cluster};

#[test]
fn reserved_cores_are_given_to_one_task_each() {
    check(
        "node a cpu=5000 cores=2
         job j count=3 cores=1
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place j.web[0] on a t cores [0] cpu 2500
              place j.web[1] on a t cores [1] cpu 2500
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cores: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn node_with_more_cores_reserved_than_free_is_exhausted() {
    check(
        "node a cpu=8000 cores=4
         job j cores=3
         run j
         job k cores=2
         run k
         client j.web[0] complete
         run k blocked",
        expect![[r#"
            run j:
              place j.web[0] on a t cores [0, 1, 2] cpu 6000
              eval complete, queued web 0
            run k:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cores: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
            run k:
              place k.web[0] on a t cores [0, 1] cpu 4000
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn cores_of_a_stopped_alloc_are_free_for_its_replacement() {
    check(
        "node a cpu=5000 cores=2
         job j count=1 cores=2
         run j
         client j.web[0] running
         job j count=1 cores=2 env=2
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a t cores [0, 1] cpu 5000
              eval complete, queued web 0
            run j:
              place after j.web[0] on a t cores [0, 1] cpu 5000
              stop j.web[0]: alloc is being updated due to job update
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn update_in_place_keeps_the_reserved_cores() {
    let mut cluster = cluster::Cluster::new();
    for line in ["node a cpu=5000 cores=2", "job j count=2 cores=1", "run j", "job j count=2 cores=1 kill=9", "run j"] {
        cluster.line(line);
    }
    let resources = |name: &str| {
        let alloc = cluster.state.allocs().find(|alloc| alloc.name == *name).cloned().unwrap();
        alloc.allocated_resources.as_ref().unwrap().tasks.as_ref().unwrap()["t"].cpu.clone()
    };
    assert_eq!(cluster.state.allocs().filter(|alloc| !alloc.terminal()).count(), 2);
    assert_eq!(resources("j.web[0]").reserved_cores, Some(vec![0]));
    assert_eq!(resources("j.web[1]").reserved_cores, Some(vec![1]));
    assert_eq!(resources("j.web[1]").cpu_shares, 2500);
}

#[test]
fn network_of_a_task_gets_its_ports() {
    check(
        "settings
         node a
         job j count=2 task_port=8080
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              place j.web[0] on a t 10.0.0.1:http=8080 t 10.0.0.1:rpc=-1
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {network: reserved port collision http=8080: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn ports_of_group_and_task_do_not_collide() {
    check(
        "settings
         node a
         job j port=8080 task_port=8080
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {network: reserved port collision http=8080: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn port_held_by_two_allocs_rules_the_node_out_for_every_group() {
    check(
        "settings service_preempts
         node a
         job holder priority=20 port=8080
         run holder
         job high priority=80 port=8080
         run high
         job plain
         run plain
         job other port=9999
         run other
         job random dynamic
         run random
         client holder.web[0] complete
         run plain blocked",
        expect![[r#"
            run holder:
              place holder.web[0] on a http=8080
              eval complete, queued web 0
            run high:
              place high.web[0] on a http=8080
              preempt holder.web[0] on a for high.web[0]
              new eval preemption for holder pending
              eval complete, queued web 0
            run plain:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {network: port collision: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
            run other:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {network: port collision: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
            run random:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {network: port collision: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
            run plain:
              place plain.web[0] on a
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn port_of_a_stopping_alloc_rules_nothing_out_unless_another_holds_it_too() {
    check(
        "settings
         node a
         job stopping port=8080
         run stopping
         job other port=8081
         run other
         stop stopping
         run stopping
         job plain
         run plain",
        expect![[r#"
            run stopping:
              place stopping.web[0] on a http=8080
              eval complete, queued web 0
            run other:
              place other.web[0] on a http=8081
              eval complete, queued web 0
            run stopping:
              stop stopping.web[0]: alloc not needed due to job update
              eval complete, queued web 0
            run plain:
              place plain.web[0] on a
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn node_whose_reserved_ports_cannot_be_read_is_ruled_out_for_every_group() {
    check(
        "settings
         node a reserved_ports=22,abc
         job plain
         run plain
         job random dynamic
         run random",
        expect![[r#"
            run plain:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {network: invalid node: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
            run random:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {network: invalid node: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn hostname_of_a_network_is_handed_on_to_the_alloc() {
    let mut cluster = cluster::Cluster::new();
    for line in ["node a", "job j port=8080 hostname=db", "run j"] {
        cluster.line(line);
    }
    let alloc = cluster.state.allocs().next().cloned().unwrap();
    let networks = alloc.allocated_resources.as_ref().unwrap().shared.networks.clone().unwrap();
    assert_eq!(networks[0].hostname, "db");
}

#[test]
fn sticky_disk_gives_way_when_its_node_is_full() {
    check(
        "node a meta.ssd=true mem=1000
         node b
         job j sticky mem=600 affinity=${meta.ssd},is_set,,50
         run j
         client j.web[0] running
         job j sticky mem=2000 affinity=${meta.ssd},is_set,,50
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
fn disk_that_is_not_sticky_does_not_keep_an_update_on_its_node() {
    check(
        "node a meta.ssd=true
         node b
         job j affinity=${meta.ssd},is_set,,50
         run j
         client j.web[0] running
         job j affinity=${meta.ssd},is_not_set,,50 env=2
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
fn devices_are_given_to_one_alloc_each() {
    check(
        "node a devices=nvidia/gpu/1080ti:a1,a2,a3
         node b
         job j count=2 device=nvidia/gpu,2
         run j
         job k count=1 device=gpu,1
         run k
         client j.web[0] complete
         run j blocked",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 1 no
              place j.web[0] on a t nvidia/gpu/1080ti:a1,a2
              failed web: evaluated 2 filtered 1 exhausted 1 coalesced 0 in pool 2; available {dc1: 2}; constraints {computed class ineligible: 1}; dimensions {devices: no devices match request: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
            run k:
              place k.web[0] on a t nvidia/gpu/1080ti:a3
              eval complete, queued web 0
            run j:
              place j.web[0] on a t nvidia/gpu/1080ti:a1,a2
              blocked again
        "#]],
    );
}

#[test]
fn group_without_a_matching_device_waits_for_a_class_that_has_one() {
    check(
        "node a devices=nvidia/gpu/1080ti:a1
         node b
         job j count=1 device=amd/gpu,1
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 0 yes 2 no
              failed web: evaluated 2 filtered 2 exhausted 0 coalesced 0 in pool 2; available {dc1: 2}; constraints {missing devices: 2}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn more_devices_than_a_node_has_do_not_rule_out_its_class() {
    check(
        "node a devices=nvidia/gpu/1080ti:a1
         job j count=1 device=gpu,2
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked, classes 1 yes 0 no
              failed web: evaluated 1 filtered 1 exhausted 0 coalesced 0 in pool 1; available {dc1: 1}; constraints {missing devices: 1}
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn node_with_the_preferred_devices_scores_higher() {
    check(
        "node a devices=nvidia/gpu/1080ti:a1
         node b devices=nvidia/gpu/2080ti:b1
         job j count=1 device=gpu,1,${device.model},=,2080ti,50
         run j
         scores j.web[0]",
        expect![[r#"
            run j:
              place j.web[0] on b t nvidia/gpu/2080ti:b1
              eval complete, queued web 0
            scores j.web[0]: evaluated 2
              a 0.089: binpack 0.178 devices 0.000 job-anti-affinity 0.000 node-affinity 0.000 node-reschedule-penalty 0.000
              b 0.589: binpack 0.178 devices 1.000 job-anti-affinity 0.000 node-affinity 0.000 node-reschedule-penalty 0.000
        "#]],
    );
}

#[test]
fn update_in_place_keeps_the_devices() {
    let mut cluster = cluster::Cluster::new();
    for line in
        ["node a devices=nvidia/gpu/1080ti:a1", "job j device=gpu,1", "run j", "job j device=gpu,1 kill=9", "run j"]
    {
        cluster.line(line);
    }
    let allocs: Vec<_> = cluster.state.allocs().cloned().collect();
    let tasks = allocs[0].allocated_resources.as_ref().unwrap().tasks.clone().unwrap();
    assert_eq!((allocs.len(), tasks["t"].devices.as_ref().unwrap().len()), (1, 1));
}
