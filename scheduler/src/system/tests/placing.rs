//! Placing on every node: feasible ones, full ones, and the evaluations that wait for them.

use expect_test::expect;

use super::check;
use super::cluster::Cluster;

#[test]
fn system_job_is_placed_on_every_ready_node_of_its_pool_and_datacenters() {
    check(
        "node a dc=eu-1
         node b dc=eu-2
         node c dc=us-1
         node d dc=eu-1 pool=gpu
         node e dc=eu-1
         ineligible e
         job j system dcs=eu-*
         run j
         job k system pool=all
         run k",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run k:
              place k.web[0] on a
              place k.web[0] on b
              place k.web[0] on c
              place k.web[0] on d
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn only_the_new_node_gets_an_alloc() {
    check(
        "node a
         node b
         job j system
         run j
         node c
         run j
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
            run j:
              place j.web[0] on c
              eval complete, queued web 0
            run j:
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn nodes_that_may_not_run_a_group_are_not_counted_as_queued() {
    check(
        "node a meta.rack=r1
         node b meta.rack=r2
         job j system constraint=${meta.rack},=,r1
         run j annotate",
        expect![[r#"
            run j:
              place j.web[0] on a
              would: web ignore 0 place 1 stop 0
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn each_group_has_its_own_nodes() {
    check(
        "node a meta.rack=r1
         node b meta.rack=r2
         job j system group_constraint=${meta.rack},=,r1 second_constraint=${meta.rack},=,r2
         run j",
        expect![[r#"
            run j:
              place j.second[0] on b
              place j.web[0] on a
              eval complete, queued second 0 web 0
        "#]],
    );
}

#[test]
fn full_node_gets_a_blocked_evaluation_and_its_alloc_when_there_is_room() {
    check(
        "node a
         node b
         node c
         job fill count=2 cpu=3900
         run fill
         job j system cpu=500
         run j
         run j blocked
         stop fill
         run fill
         client fill.web[0] complete
         client fill.web[1] complete
         run j blocked",
        expect![[r#"
            run fill:
              place fill.web[0] on b
              place fill.web[1] on a
              eval complete, queued web 0
            run j:
              new eval queued-allocs blocked for a, classes 1 yes 0 no
              place j.web[0] on c
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 1 in pool 3; available {dc1: 3}; dimensions {cpu: 1}; task t cpu 1000 memory 0
              eval complete, queued web 2
            run j:
              new eval queued-allocs blocked for a, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 1 in pool 3; available {dc1: 3}; dimensions {cpu: 1}; task t cpu 1000 memory 0
              eval complete, queued web 2
            run fill:
              stop fill.web[0]: alloc not needed due to job update
              stop fill.web[1]: alloc not needed due to job update
              eval complete, queued web 0
            run j:
              place j.web[0] on a
              place j.web[0] on b
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn both_groups_wait_in_one_blocked_evaluation_of_a_full_node() {
    check(
        "node a cpu=400
         job j system cpu=500 second_constraint=${node.unique.name},!=,z
         run j",
        expect![[r#"
            run j:
              new eval queued-allocs blocked for a, escaped
              failed second: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cpu: 1}; task t cpu 500 memory 0
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cpu: 1}; task t cpu 500 memory 0
              eval complete, queued second 1 web 1
        "#]],
    );
}

#[test]
fn static_port_is_held_once_per_node() {
    check(
        "node a
         node b
         job j system port=8080
         run j
         job k system port=8080
         run k",
        expect![[r#"
            run j:
              place j.web[0] on a http=8080
              place j.web[0] on b http=8080
              eval complete, queued web 0
            run k:
              new eval queued-allocs blocked for a, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 0 coalesced 1 in pool 2; available {dc1: 2}
              eval complete, queued web 2
        "#]],
    );
}

#[test]
fn node_on_which_two_allocs_hold_the_same_port_is_full() {
    check(
        "settings service_preempts system_preempts
         node a
         job holder priority=20 port=8080
         run holder
         job high priority=80 port=8080
         run high
         job j system
         run j",
        expect![[r#"
            run holder:
              place holder.web[0] on a http=8080
              eval complete, queued web 0
            run high:
              place high.web[0] on a http=8080
              preempt holder.web[0] on a for high.web[0]
              new eval preemption for holder pending
              eval complete, queued web 0
            run j:
              new eval queued-allocs blocked for a, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {network: port collision: 1}; task t cpu 0 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn refused_plans_end_the_evaluation_after_five_attempts_without_a_blocked_one() {
    check(
        "node a
         job j system
         run j refused
         job k sysbatch
         run k refused",
        expect![[r#"
            run j:
              plan refused
              plan refused
              plan refused
              plan refused
              plan refused
              eval failed (maximum attempts reached (5)), queued web 1
            run k:
              plan refused
              plan refused
              eval failed (maximum attempts reached (2)), queued web 1
        "#]],
    );
}

#[test]
fn nodes_whose_agent_lacks_an_ability_are_filtered_and_counted() {
    check(
        "node a attr.songline.version=1
         node b attr.songline.version=1
         job j system vault
         run j
         node c
         run j",
        expect![[r#"
            run j:
              failed web: evaluated 2 filtered 2 exhausted 0 coalesced 0 in pool 0; constraints {computed class ineligible: 1, missing ability "vault" of the node's agent: 1}
              eval complete, queued web 0
            run j:
              place j.web[0] on c
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn metric_of_an_alloc_has_only_its_node_and_the_fit() {
    let mut cluster = Cluster::new();
    let mut told = String::new();
    for line in ["node a", "node b pool=gpu", "node c", "job j system", "run j", "job j system kill=9", "run j"] {
        cluster.line(line);
        let Some(metric) = cluster.state.allocs().next().and_then(|alloc| alloc.metrics.clone()) else { continue };
        let scores: Vec<String> = metric
            .score_meta_data
            .iter()
            .flatten()
            .flat_map(|node| node.scores.iter().flat_map(|scores| scores.iter()))
            .map(|(name, score)| format!("{name} {score:.3}"))
            .collect();
        let counts = (metric.nodes_evaluated, metric.nodes_in_pool, metric.nodes_available.as_ref());
        told.push_str(&format!("{line}: {counts:?} {scores:?}\n"));
    }
    expect![[r#"
        run j: (1, 2, Some({"dc1": 2})) ["binpack 0.178"]
        job j system kill=9: (1, 2, Some({"dc1": 2})) ["binpack 0.178"]
        run j: (1, 0, None) []
    "#]]
    .assert_eq(&told);
}
