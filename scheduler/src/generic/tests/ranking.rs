//! Stories of the ranking of nodes: affinities and spreads.

use expect_test::expect;

use super::check;

#[test]
fn affinities_of_job_and_group_are_added_up() {
    check(
        "node a dc=dc1 meta.rack=r1
         node b dc=dc1 meta.rack=r2
         node c dc=dc2 meta.rack=r1
         node d dc=dc2 meta.rack=r2
         job j count=1 job_affinity=${node.datacenter},=,dc2,50 affinity=${meta.rack},=,r2,30;${meta.rack},=,r1,-20
         run j
         scores j.web[0]",
        expect![[r#"
            run j:
              place j.web[0] on d
              eval complete, queued web 0
            scores j.web[0]: evaluated 4
              a -0.011: binpack 0.178 job-anti-affinity 0.000 node-affinity -0.200 node-reschedule-penalty 0.000
              b 0.239: binpack 0.178 job-anti-affinity 0.000 node-affinity 0.300 node-reschedule-penalty 0.000
              c 0.239: binpack 0.178 job-anti-affinity 0.000 node-affinity 0.300 node-reschedule-penalty 0.000
              d 0.489: binpack 0.178 job-anti-affinity 0.000 node-affinity 0.800 node-reschedule-penalty 0.000
        "#]],
    );
}

#[test]
fn node_whose_affinities_cancel_out_gets_no_affinity_score() {
    check(
        "node a class=x dc=dc1
         node b class=y dc=dc1
         job j affinity=${node.class},=,x,50;${node.datacenter},=,dc1,-50
         run j
         scores j.web[0]",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            scores j.web[0]: evaluated 2
              a 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
              b -0.161: binpack 0.178 job-anti-affinity 0.000 node-affinity -0.500 node-reschedule-penalty 0.000
        "#]],
    );
}

#[test]
fn group_with_an_affinity_compares_all_nodes() {
    check(
        "node a
         node b
         node c
         node d
         node e
         node f meta.ssd=true
         job j count=1 affinity=${meta.ssd},is_set,,50
         run j
         scores j.web[0]
         job k batch count=1 affinity=${meta.ssd},is_set,,50
         run k
         job l batch count=1
         run l
         scores k.web[0]",
        expect![[r#"
            run j:
              place j.web[0] on f
              eval complete, queued web 0
            scores j.web[0]: evaluated 6
              b 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
              c 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
              d 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
              e 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
              f 0.589: binpack 0.178 job-anti-affinity 0.000 node-affinity 1.000 node-reschedule-penalty 0.000
            run k:
              place k.web[0] on f
              eval complete, queued web 0
            run l:
              place l.web[0] on e
              eval complete, queued web 0
            scores k.web[0]: evaluated 6
              b 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
              c 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
              d 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
              e 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
              f 0.660: binpack 0.319 job-anti-affinity 0.000 node-affinity 1.000 node-reschedule-penalty 0.000
        "#]],
    );
}

#[test]
fn even_spread_places_on_the_value_with_the_fewest_allocs() {
    check(
        "node a dc=dc1
         node b dc=dc2
         node c dc=dc3
         job j count=6 spread=${node.datacenter},50
         run j
         scores j.web[5]",
        expect![[r#"
            run j:
              place j.web[0] on b
              place j.web[1] on c
              place j.web[2] on a
              place j.web[3] on b
              place j.web[4] on c
              place j.web[5] on a
              eval complete, queued web 0
            scores j.web[5]: evaluated 3
              a 0.329: allocation-spread 1.000 binpack 0.319 job-anti-affinity -0.333 node-affinity 0.000 node-reschedule-penalty 0.000
              b -0.356: allocation-spread -1.000 binpack 0.431 job-anti-affinity -0.500 node-affinity 0.000 node-reschedule-penalty 0.000
              c -0.356: allocation-spread -1.000 binpack 0.431 job-anti-affinity -0.500 node-affinity 0.000 node-reschedule-penalty 0.000
        "#]],
    );
}

#[test]
fn spread_targets_get_their_percentage() {
    check(
        "node a dc=dc1
         node b dc=dc2
         node c dc=dc3
         job j count=10 job_spread=${node.datacenter},100,dc1:60,dc2:30
         run j
         scores j.web[9]",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on b
              place j.web[2] on a
              place j.web[3] on a
              place j.web[4] on c
              place j.web[5] on a
              place j.web[6] on b
              place j.web[7] on a
              place j.web[8] on b
              place j.web[9] on a
              eval complete, queued web 0
            scores j.web[9]: evaluated 3
              a 0.028: binpack 0.655 job-anti-affinity -0.600 node-affinity 0.000 node-reschedule-penalty 0.000
              b -0.071: allocation-spread -0.333 binpack 0.522 job-anti-affinity -0.400 node-affinity 0.000 node-reschedule-penalty 0.000
              c -0.294: allocation-spread -1.000 binpack 0.319 job-anti-affinity -0.200 node-affinity 0.000 node-reschedule-penalty 0.000
        "#]],
    );
}

#[test]
fn spread_fills_the_value_that_a_stopped_alloc_leaves() {
    check(
        "node a dc=dc1
         node b dc=dc2
         job j count=4 spread=${node.datacenter},100
         run j
         client j.web[0] running
         client j.web[1] running
         client j.web[2] running
         client j.web[3] running
         drain a
         node d dc=dc1
         run j",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on b
              place j.web[2] on a
              place j.web[3] on b
              eval complete, queued web 0
            run j:
              place after j.web[0] on d
              place after j.web[2] on d
              stop j.web[0]: alloc is being migrated
              stop j.web[2]: alloc is being migrated
              eval complete, queued web 0
        "#]],
    );
}

#[test]
fn node_without_the_spread_attribute_comes_last() {
    check(
        "node a meta.rack=r1
         node b
         job j count=2 spread=${meta.rack},100
         run j
         scores j.web[1]",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on b
              eval complete, queued web 0
            scores j.web[1]: evaluated 2
              a -0.560: allocation-spread -1.000 binpack 0.319 job-anti-affinity -1.000 node-affinity 0.000 node-reschedule-penalty 0.000
              b -0.411: allocation-spread -1.000 binpack 0.178 job-anti-affinity 0.000 node-affinity 0.000 node-reschedule-penalty 0.000
        "#]],
    );
}

#[test]
fn spread_counts_only_allocs_of_its_group() {
    check(
        "node a dc=dc1
         node b dc=dc2
         job other count=4 affinity=${node.datacenter},=,dc1,100
         run other
         job j count=2 spread=${node.datacenter},100
         run j
         scores j.web[1]",
        expect![[r#"
            run other:
              place other.web[0] on a
              place other.web[1] on a
              place other.web[2] on a
              place other.web[3] on b
              eval complete, queued web 0
            run j:
              place j.web[0] on a
              place j.web[1] on b
              eval complete, queued web 0
            scores j.web[1]: evaluated 2
              a -0.468: allocation-spread -1.000 binpack 0.595 job-anti-affinity -1.000 node-affinity 0.000 node-reschedule-penalty 0.000
              b 0.660: allocation-spread 1.000 binpack 0.319 job-anti-affinity 0.000 node-affinity 0.000 node-reschedule-penalty 0.000
        "#]],
    );
}

#[test]
fn replacement_of_a_failed_allocation_avoids_its_node_whatever_replaces_it() {
    // A new version of the job replaces it; it is not rescheduled.
    check(
        "node a
         node b
         job j count=1 attempts=0 affinity=${node.unique.name},=,a,30
         run j
         client j.web[0] failed
         job j count=1 attempts=0 affinity=${node.unique.name},=,a,30 env=2
         run j
         scores j.web[0]",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              place after j.web[0] on b
              stop j.web[0]: alloc is being updated due to job update
              eval complete, queued web 0
            scores j.web[0]: evaluated 2
              a 0.059: binpack 0.178 job-anti-affinity 0.000 node-affinity 1.000 node-reschedule-penalty -1.000
              b 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
        "#]],
    );
    // It was rescheduled once, and a new version replaces its successor.
    check(
        "node a
         node b
         job j count=1 affinity=${node.unique.name},=,a,30
         run j
         client j.web[0] failed
         run j
         job j count=1 affinity=${node.unique.name},=,a,30 env=2
         run j
         scores j.web[0]",
        expect![[r#"
            run j:
              place j.web[0] on a
              eval complete, queued web 0
            run j:
              place again j.web[0] on b
              stop j.web[0]: alloc was rescheduled because it failed
              eval complete, queued web 0
            run j:
              place after j.web[0] on b
              stop j.web[0]: alloc is being updated due to job update
              eval complete, queued web 0
            scores j.web[0]: evaluated 2
              a 0.059: binpack 0.178 job-anti-affinity 0.000 node-affinity 1.000 node-reschedule-penalty -1.000
              b 0.178: binpack 0.178 job-anti-affinity 0.000 node-reschedule-penalty 0.000
        "#]],
    );
}

#[test]
fn spread_does_not_count_a_failed_allocation_that_is_rescheduled() {
    check(
        "node a dc=dc1
         node b dc=dc1
         job j count=2 spread=${node.datacenter},100,dc1:100
         run j
         client j.web[0] failed
         client j.web[1] running
         run j
         scores j.web[0]",
        expect![[r#"
            run j:
              place j.web[0] on a
              place j.web[1] on b
              eval complete, queued web 0
            run j:
              place again j.web[0] on b
              stop j.web[0]: alloc was rescheduled because it failed
              eval complete, queued web 0
            scores j.web[0]: evaluated 2
              a -0.107: allocation-spread 0.500 binpack 0.178 job-anti-affinity 0.000 node-affinity 0.000 node-reschedule-penalty -1.000
              b -0.060: allocation-spread 0.500 binpack 0.319 job-anti-affinity -1.000 node-affinity 0.000 node-reschedule-penalty 0.000
        "#]],
    );
}
