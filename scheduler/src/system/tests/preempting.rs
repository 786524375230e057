//! Preemption by system and sysbatch jobs.

use expect_test::expect;

use super::check;

#[test]
fn system_job_preempts_on_each_node_without_room() {
    check(
        "node n1 cpu=2500 mem=2048
         node n2 cpu=4000 mem=2048
         job low priority=50 count=3 cpu=700 mem=300 constraint=${node.unique.name},=,n1
         run low
         job agent system priority=100 cpu=900 mem=64
         run agent annotate
         scores agent.web[0]
         run low",
        expect![[r#"
            run low:
              place low.web[0] on n1
              place low.web[1] on n1
              place low.web[2] on n1
              eval complete, queued web 0
            run agent:
              place agent.web[0] on n1
              place agent.web[0] on n2
              preempt low.web[1] on n1 for agent.web[0]
              would: web ignore 0 place 2 stop 0 preemptions 1
              new eval preemption for low pending
              eval complete, queued web 0
            scores agent.web[0]: evaluated 1
              n2 0.263: binpack 0.263
            run low:
              new eval queued-allocs blocked, escaped
              failed web: evaluated 2 filtered 1 exhausted 1 coalesced 0 in pool 2; available {dc1: 2}; constraints {${node.unique.name} = n1: 1}; dimensions {cpu: 1}; task t cpu 700 memory 0
              eval complete, queued web 1
        "#]],
    );
}

#[test]
fn sysbatch_job_preempts_only_where_that_is_on() {
    check(
        "node n1 cpu=1000
         settings system_preempts
         job low priority=20 cpu=700
         run low
         job off sysbatch priority=90 cpu=900
         run off
         settings sysbatch_preempts
         job on sysbatch priority=90 cpu=900
         run on",
        expect![[r#"
            run low:
              place low.web[0] on n1
              eval complete, queued web 0
            run off:
              new eval queued-allocs blocked for n1, classes 1 yes 0 no
              failed web: evaluated 1 filtered 0 exhausted 1 coalesced 0 in pool 1; available {dc1: 1}; dimensions {cpu: 1}; task t cpu 900 memory 0
              eval complete, queued web 1
            run on:
              place on.web[0] on n1
              preempt low.web[0] on n1 for on.web[0]
              new eval preemption for low pending
              eval complete, queued web 0
        "#]],
    );
}
