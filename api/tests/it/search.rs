//! Search by the beginning of ids, and in names.

use std::sync::Arc;

use expect_test::expect;
use songline_commands::{UpdateEvals, UpsertNamespaces, UpsertNodePools};
use songline_model::{EvalId, Evaluation, Namespace, NodePool};

use crate::server::{Memory, answer, check};

/// Writes a job of this namespace, id and name, with one task of each kind that search looks into.
async fn job(server: &Arc<Memory>, namespace: &str, id: &str, name: &str) {
    let task = |name: &str, driver: &str, param: &str| {
        format!(
            r#"{{"Name": "{name}", "Driver": "{driver}", "Config": {{"{param}": "/x/{name}"}}, "Services": [{{"Name": "svc-{name}", "Provider": "nomad"}}]}}"#
        )
    };
    let tasks = [task("sh-qqq", "raw_exec", "command"), task("jar-qqq", "java", "class"), task("img-qqq", "docker", "image")].join(", ");
    let groups = format!(r#"[{{"Name": "grp-qqq", "Count": 0, "Tasks": [{tasks}]}}]"#);
    let line = format!(r#"PUT /v1/jobs?namespace={namespace} {{"Job": {{"ID": "{id}", "Name": "{name}", "TaskGroups": {groups}}}}}"#);
    assert_eq!(answer(server, &line).await.status(), 200);
}

fn eval(server: &Arc<Memory>, id: [u8; 16], namespace: &str) {
    let eval = Evaluation { id: EvalId::from_bytes(id), namespace: namespace.into(), job_id: "none".into(), ..Evaluation::default() };
    server.run(UpdateEvals { evals: vec![eval] });
}

#[tokio::test]
async fn jobs_are_found_by_their_id_in_the_namespace_of_query_or_body() {
    let server = Memory::new();
    server.run(UpsertNamespaces { namespaces: vec![Namespace { name: "dev".into(), ..Namespace::default() }] });
    for (namespace, id) in [("default", "web-b"), ("default", "web"), ("default", "WEB"), ("dev", "web-d")] {
        job(&server, namespace, id, "a name").await;
    }
    check(
        &server,
        r#"POST /v1/search {"Prefix": "web", "Context": "jobs"}
        PUT /v1/search {"prefix": "WEB", "context": "jobs"}
        PUT /v1/search {"Prefix": "a name", "Context": "jobs"}
        PUT /v1/search?namespace=dev {"Prefix": "web", "Context": "jobs"}
        PUT /v1/search {"Prefix": "web", "Context": "jobs", "Namespace": "dev"}
        PUT /v1/search?namespace=*&prefix=other&per_page=1 {"Prefix": "web", "Context": "jobs"}"#,
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn ids_are_found_by_their_beginning_and_texts_that_begin_none_leave_their_context_out() {
    let server = Memory::new();
    eval(&server, [0x11; 16], "default");
    eval(&server, [0x12; 16], "default");
    eval(&server, [0x13; 16], "other");
    check(
        &server,
        r#"PUT /v1/search {"Prefix": "11111111-1111-1111-1111-111111111111", "Context": "all"}
        PUT /v1/search {"Prefix": "11111111-1", "Context": "evals"}
        PUT /v1/search {"Prefix": "1", "Context": "evals"}
        PUT /v1/search {"Prefix": "13", "Context": "evals"}
        PUT /v1/search {"Prefix": "zz", "Context": "evals"}
        PUT /v1/search {"Prefix": "zz", "Context": "all"}"#,
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn names_are_found_by_a_part_of_them() {
    let server = Memory::new();
    server.run(UpsertNamespaces { namespaces: vec![Namespace { name: "a-qqq-ns".into(), ..Namespace::default() }] });
    server.run(UpsertNodePools { node_pools: vec![NodePool { name: "b-QQQ".into(), ..NodePool::default() }] });
    job(&server, "default", "web", "Job-QQQ").await;
    check(
        &server,
        r#"PUT /v1/search/fuzzy {"Text": "qQq", "Context": "all"}
        PUT /v1/search/fuzzy {"Text": "web", "Context": "jobs"}
        PUT /v1/search/fuzzy?namespace=a-qqq-ns {"Text": "qqq", "Context": "jobs"}"#,
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn what_cannot_be_searched_is_refused() {
    check(
        &Memory::new(),
        r#"PUT /v1/search
        PUT /v1/search {
        PUT /v1/search []
        PUT /v1/search null
        PUT /v1/search {"Context": "tasks"}
        PUT /v1/search/fuzzy {"Context": "jobs", "Prefix": "long enough"}
        PUT /v1/search/fuzzy {"Context": "quotas", "Text": "long enough"}
        PUT /v1/search/fuzzy []
        GET /v1/search"#,
        expect![[""]],
    )
    .await;
}
