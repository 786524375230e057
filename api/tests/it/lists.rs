//! Pages, filters and prefixes.

use std::sync::Arc;

use expect_test::expect;
use songline_commands::{UpdateEvals, UpsertNodePools};
use songline_model::{EvalId, EvalTrigger, Evaluation, NodePool};

use crate::server::{Memory, check};

fn pools(server: &Arc<Memory>, names: &[&str]) {
    for name in names {
        server.run(UpsertNodePools { node_pools: vec![NodePool { name: (*name).into(), ..NodePool::default() }] });
    }
}

fn evals(server: &Arc<Memory>, count: u8) {
    for n in 0..count {
        let eval = Evaluation {
            id: EvalId::from_bytes([n + 1; 16]),
            namespace: "default".into(),
            job_id: format!("job-{n}").into(),
            triggered_by: EvalTrigger::JobRegister,
            priority: 50,
            ..Evaluation::default()
        };
        server.run(UpdateEvals { evals: vec![eval] });
    }
}

#[tokio::test]
async fn node_pools_are_paged_by_name() {
    let server = Memory::new();
    pools(&server, &["a", "b", "c"]);
    check(
        &server,
        r#"GET /v1/node/pools?per_page=2&filter=Name!=all
        GET /v1/node/pools?per_page=2&next_token=c
        GET /v1/node/pools?per_page=1&reverse=true
        GET /v1/node/pools?per_page=-1
        GET /v1/node/pools?prefix=zz"#,
        expect![[r#"
            GET /v1/node/pools?per_page=2&filter=Name!=all
                200 @4 next=c [{"Name":"a","Description":"","Meta":null,"SchedulerConfiguration":null,"Hash":null,"CreateIndex":2,"ModifyIndex":2},{"Name":"b","Description":"","Meta":null,"SchedulerConfiguration":null,"Hash":null,"CreateIndex":3,"ModifyIndex":3}]
            GET /v1/node/pools?per_page=2&next_token=c
                200 @4 [{"Name":"c","Description":"","Meta":null,"SchedulerConfiguration":null,"Hash":null,"CreateIndex":4,"ModifyIndex":4},{"Name":"default","Description":"Default node pool.","Meta":null,"SchedulerConfiguration":null,"Hash":null,"CreateIndex":1,"ModifyIndex":1}]
            GET /v1/node/pools?per_page=1&reverse=true
                200 @4 next=c [{"Name":"default","Description":"Default node pool.","Meta":null,"SchedulerConfiguration":null,"Hash":null,"CreateIndex":1,"ModifyIndex":1}]
            GET /v1/node/pools?per_page=-1
                200 @4 next=a []
            GET /v1/node/pools?prefix=zz
                200 @4 []
        "#]],
    )
    .await;
}

#[tokio::test]
async fn next_token_indexes_compare_as_numbers() {
    let server = Memory::new();
    evals(&server, 10);
    check(
        &server,
        "GET /v1/evaluations?per_page=1
        GET /v1/evaluations?per_page=1&next_token=9.08080808-0808-0808-0808-080808080808
        GET /v1/evaluations?per_page=1&reverse=true
        GET /v1/evaluations?prefix=0a0a
        GET /v1/evaluations?prefix=0a0
        GET /v1/evaluations/count
        GET /v1/evaluations/count?filter=JobID==job-3",
        expect![[r#"
            GET /v1/evaluations?per_page=1
                200 @11 next=3.02020202-0202-0202-0202-020202020202 [{"ID":"01010101-0101-0101-0101-010101010101","Namespace":"default","Priority":50,"Type":"service","TriggeredBy":"job-register","JobID":"job-0","Status":"pending","CreateIndex":2,"ModifyIndex":2}]
            GET /v1/evaluations?per_page=1&next_token=9.08080808-0808-0808-0808-080808080808
                200 @11 next=10.09090909-0909-0909-0909-090909090909 [{"ID":"08080808-0808-0808-0808-080808080808","Namespace":"default","Priority":50,"Type":"service","TriggeredBy":"job-register","JobID":"job-7","Status":"pending","CreateIndex":9,"ModifyIndex":9}]
            GET /v1/evaluations?per_page=1&reverse=true
                200 @11 next=10.09090909-0909-0909-0909-090909090909 [{"ID":"0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a","Namespace":"default","Priority":50,"Type":"service","TriggeredBy":"job-register","JobID":"job-9","Status":"pending","CreateIndex":11,"ModifyIndex":11}]
            GET /v1/evaluations?prefix=0a0a
                200 @11 [{"ID":"0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a","Namespace":"default","Priority":50,"Type":"service","TriggeredBy":"job-register","JobID":"job-9","Status":"pending","CreateIndex":11,"ModifyIndex":11}]
            GET /v1/evaluations?prefix=0a0
                500 eval lookup failed: index error: Input (without hyphens) must be even length
            GET /v1/evaluations/count
                200 @11 {"Count":10,"Index":11,"LastContact":0,"KnownLeader":true,"NextToken":""}
            GET /v1/evaluations/count?filter=JobID==job-3
                500 1:11 (10): no match found, expected: ".", "[", [ \t\r\n], [a-zA-Z0-9_/] or EOF
        "#]],
    )
    .await;
}

#[tokio::test]
async fn invalid_list_filters_are_refused() {
    let server = Memory::new();
    evals(&server, 1);
    check(
        &server,
        "GET /v1/evaluations?filter=Nope==1
        GET /v1/evaluations?filter=JobID==job-0&job=x
        GET /v1/evaluations?job=job-0&status=complete",
        expect![[r#"
            GET /v1/evaluations?filter=Nope==1
                400 failed to read result page: error finding value in datum: /Nope at part 0: couldn't find key: struct field with name "Nope"
            GET /v1/evaluations?filter=JobID==job-0&job=x
                400 Filter expression cannot be used with other filter parameters
            GET /v1/evaluations?job=job-0&status=complete
                200 @2 []
        "#]],
    )
    .await;
}

#[tokio::test]
async fn evaluations_are_deleted_while_the_broker_is_paused() {
    let server = Memory::new();
    evals(&server, 3);
    check(
        &server,
        r#"DELETE /v1/evaluations {"EvalIDs": ["01010101-0101-0101-0101-010101010101"]}
        PUT /v1/operator/scheduler/configuration {"PauseEvalBroker": true}
        DELETE /v1/evaluations {"EvalIDs": ["01010101-0101-0101-0101-010101010101"]}
        DELETE /v1/evaluations {"EvalIDs": ["01010101-0101-0101-0101-010101010101"]}
        DELETE /v1/evaluations {"EvalIDs": ["x"], "Filter": "x"}
        DELETE /v1/evaluations {"Filter": "JobID == \"nothing\""}
        DELETE /v1/evaluations {"Filter": "JobID matches \"job\""}
        GET /v1/evaluations/count"#,
        expect![[r#"
            DELETE /v1/evaluations {"EvalIDs": ["01010101-0101-0101-0101-010101010101"]}
                500 eval broker is enabled; eval broker must be paused to delete evals
            PUT /v1/operator/scheduler/configuration {"PauseEvalBroker": true}
                200 @5 {"Updated":true,"Index":5}
            DELETE /v1/evaluations {"EvalIDs": ["01010101-0101-0101-0101-010101010101"]}
                200 @6 {"Count":1,"Index":6}
            DELETE /v1/evaluations {"EvalIDs": ["01010101-0101-0101-0101-010101010101"]}
                500 eval not found
            DELETE /v1/evaluations {"EvalIDs": ["x"], "Filter": "x"}
                400 evals cannot be deleted by both ID and filter
            DELETE /v1/evaluations {"Filter": "JobID == \"nothing\""}
                200 @0 {"Count":0,"Index":0}
            DELETE /v1/evaluations {"Filter": "JobID matches \"job\""}
                200 @8 {"Count":2,"Index":8}
            GET /v1/evaluations/count
                200 @8 {"Count":0,"Index":8,"LastContact":0,"KnownLeader":true,"NextToken":""}
        "#]],
    )
    .await;
}
