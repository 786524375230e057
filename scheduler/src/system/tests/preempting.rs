//! Preemption by system and sysbatch jobs.

use expect_test::expect;

use super::check;

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
