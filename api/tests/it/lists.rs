//! Pages, filters and prefixes.

use std::sync::Arc;

use expect_test::expect;
use serde_json::Value;
use songline_commands::{ApplyPlan, UpdateEvals, UpsertNodePools, UpsertServiceRegistrations};
use songline_model::{
    AllocId, Allocation, Deployment, DeploymentId, EvalId, EvalTrigger, Evaluation, Job, NodePool, ServiceRegistration,
};

use crate::server::{Memory, answer, check, text};

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

/// A page: the values of a field of its rows, and the token of the next page.
async fn page(server: &Arc<Memory>, target: &str, field: &str) -> (Vec<String>, Option<String>) {
    let response = answer(server, &format!("GET {target}")).await;
    let next = response.headers().get("x-nomad-nexttoken").map(|token| token.to_str().expect("text").to_owned());
    let body = text(response).await;
    let rows: Vec<Value> = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{target}: {body}"));
    (rows.iter().map(|row| row[field].as_str().expect("a text").to_owned()).collect(), next)
}

#[tokio::test]
async fn lists_with_a_prefix_are_reversed_and_their_pages_end() {
    let server = Memory::new();
    for n in 1..=3 {
        let mut id = [n; 16];
        id[0] = 0xff;
        let eval = Evaluation { id: EvalId::from_bytes(id), namespace: "default".into(), ..Evaluation::default() };
        server.run(UpdateEvals { evals: vec![eval] });
        let job = Arc::new(Job { id: "web".into(), namespace: "default".into(), ..Job::default() });
        let alloc = Allocation {
            id: AllocId::from_bytes(id),
            namespace: "default".into(),
            job_id: "web".into(),
            job: Some(job),
            ..Allocation::default()
        };
        let deployment =
            Deployment { id: DeploymentId::from_bytes(id), namespace: "default".into(), ..Deployment::default() };
        server.run(ApplyPlan { updated: vec![alloc.into()], deployment: Some(deployment), ..ApplyPlan::default() });
    }
    let [first, second, third] =
        ["01", "02", "03"].map(|n| format!("ff{n}{n}{n}-{n}{n}-{n}{n}-{n}{n}-{}", n.repeat(6)));
    for path in ["allocations", "deployments", "evaluations"] {
        let target = format!("/v1/{path}?prefix=ff&reverse=true");
        let all = vec![third.clone(), second.clone(), first.clone()];
        assert_eq!(page(&server, &target, "ID").await, (all, None), "{path}");
        let (mut seen, mut token) = (Vec::new(), Some(String::new()));
        while let Some(next) = token.filter(|_| seen.len() < 10) {
            let found = page(&server, &format!("{target}&per_page=1&next_token={next}"), "ID").await;
            seen.extend(found.0);
            token = found.1;
        }
        assert_eq!(seen, [third.as_str(), second.as_str(), first.as_str()], "{path} in pages");
    }
}

#[tokio::test]
async fn reverse_turns_the_token_comparison_of_lists_that_keep_their_order() {
    let server = Memory::new();
    answer(&server, "PUT /v1/operator/keyring/rotate").await;
    let mut services = Vec::new();
    for name in ["a", "b", "c", "d"] {
        answer(&server, &format!("PUT /v1/var/{name} {{\"Items\": {{\"k\": \"v\"}}}}")).await;
        let job = crate::world::job(name, name, "raw_exec");
        answer(&server, &format!("PUT /v1/jobs {{\"Job\": {job}}}")).await;
        services.push(ServiceRegistration {
            id: name.into(),
            service_name: "web".into(),
            namespace: "default".into(),
            ..ServiceRegistration::default()
        });
    }
    server.run(UpsertServiceRegistrations { services });
    for (path, field) in [("vars", "Path"), ("jobs", "ID"), ("service/web", "ID")] {
        // The first row is not after the token, so the page begins with it.
        let target = format!("/v1/{path}?reverse=true&next_token=default.c&per_page=2");
        let expected = (vec!["a".to_owned(), "b".to_owned()], Some("default.c".to_owned()));
        assert_eq!(page(&server, &target, field).await, expected, "{path}");
        // The rows after the first one are not compared.
        let target = format!("/v1/{path}?reverse=true&next_token=default.b");
        let expected = (["a", "b", "c", "d"].map(str::to_owned).to_vec(), None);
        assert_eq!(page(&server, &target, field).await, expected, "{path}");
    }
}

#[tokio::test]
async fn filters_treat_bytes_times_and_related_evals_as_go_does() {
    let server = Memory::new();
    evals(&server, 1);
    check(
        &server,
        "GET /v1/evaluations?filter=RelatedEvals+is+empty
        GET /v1/evaluations?filter=RelatedEvals+is+not+empty
        GET /v1/evaluations?filter=WaitUntil+is+empty
        GET /v1/evaluations?filter=WaitUntil==x",
        expect![[r#"
            GET /v1/evaluations?filter=RelatedEvals+is+empty
                200 @2 [{"ID":"01010101-0101-0101-0101-010101010101","Namespace":"default","Priority":50,"Type":"service","TriggeredBy":"job-register","JobID":"job-0","Status":"pending","CreateIndex":2,"ModifyIndex":2}]
            GET /v1/evaluations?filter=RelatedEvals+is+not+empty
                200 @2 []
            GET /v1/evaluations?filter=WaitUntil+is+empty
                400 failed to read result page: Cannot perform is empty operations on type struct for selector: "WaitUntil"
            GET /v1/evaluations?filter=WaitUntil==x
                400 failed to read result page: unable to find suitable primitive comparison function for matching
        "#]],
    )
    .await;
    assert_eq!(page(&server, "/v1/node/pools?filter=Hash+matches+%22x%22", "Name").await, (vec![], None));
    let (names, _) = page(&server, "/v1/node/pools?filter=Hash+matches+%22%5E$%22", "Name").await;
    assert_eq!(names, ["all", "default"]);
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
