//! Search by prefix of ids, and in names.

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
    let tasks =
        [task("sh-qqq", "raw_exec", "command"), task("jar-qqq", "java", "class"), task("img-qqq", "docker", "image")]
            .join(", ");
    let groups = format!(r#"[{{"Name": "grp-qqq", "Count": 0, "Tasks": [{tasks}]}}]"#);
    let line = format!(
        r#"PUT /v1/jobs?namespace={namespace} {{"Job": {{"ID": "{id}", "Name": "{name}", "TaskGroups": {groups}}}}}"#
    );
    assert_eq!(answer(server, &line).await.status(), 200);
}

fn eval(server: &Arc<Memory>, id: [u8; 16], namespace: &str) {
    let eval = Evaluation {
        id: EvalId::from_bytes(id),
        namespace: namespace.into(),
        job_id: "none".into(),
        ..Evaluation::default()
    };
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
        expect![[r#"
            POST /v1/search {"Prefix": "web", "Context": "jobs"}
                200 @6 {"Matches":{"jobs":["web","web-b"]},"Truncations":{"jobs":false},"Index":6,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search {"prefix": "WEB", "context": "jobs"}
                200 @6 {"Matches":{"jobs":["WEB"]},"Truncations":{"jobs":false},"Index":6,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search {"Prefix": "a name", "Context": "jobs"}
                200 @6 {"Matches":{"jobs":null},"Truncations":{"jobs":false},"Index":6,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search?namespace=dev {"Prefix": "web", "Context": "jobs"}
                200 @6 {"Matches":{"jobs":["web-d"]},"Truncations":{"jobs":false},"Index":6,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search {"Prefix": "web", "Context": "jobs", "Namespace": "dev"}
                200 @6 {"Matches":{"jobs":["web-d"]},"Truncations":{"jobs":false},"Index":6,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search?namespace=*&prefix=other&per_page=1 {"Prefix": "web", "Context": "jobs"}
                200 @6 {"Matches":{"jobs":["web","web-b","web-d"]},"Truncations":{"jobs":false},"Index":6,"LastContact":0,"KnownLeader":true,"NextToken":""}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn search_finds_ids_by_prefix_and_omits_contexts_for_invalid_prefixes() {
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
        expect![[r#"
            PUT /v1/search {"Prefix": "11111111-1111-1111-1111-111111111111", "Context": "all"}
                200 @4 {"Matches":{"allocs":null,"deployment":null,"evals":["11111111-1111-1111-1111-111111111111"],"jobs":null,"namespaces":null,"node_pools":null,"nodes":null,"plugins":null,"scaling_policy":null,"vars":null,"volumes":null},"Truncations":{"allocs":false,"deployment":false,"evals":false,"jobs":false,"namespaces":false,"node_pools":false,"nodes":false,"plugins":false,"scaling_policy":false,"vars":false,"volumes":false},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search {"Prefix": "11111111-1", "Context": "evals"}
                200 @4 {"Matches":{"evals":["11111111-1111-1111-1111-111111111111"]},"Truncations":{"evals":false},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search {"Prefix": "1", "Context": "evals"}
                200 @4 {"Matches":{"evals":["11111111-1111-1111-1111-111111111111","12121212-1212-1212-1212-121212121212"]},"Truncations":{"evals":false},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search {"Prefix": "13", "Context": "evals"}
                200 @4 {"Matches":{"evals":null},"Truncations":{"evals":false},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search {"Prefix": "zz", "Context": "evals"}
                200 @4 {"Matches":{},"Truncations":{},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search {"Prefix": "zz", "Context": "all"}
                200 @4 {"Matches":{"jobs":null,"namespaces":null,"node_pools":null,"plugins":null,"scaling_policy":null,"vars":null,"volumes":null},"Truncations":{"jobs":false,"namespaces":false,"node_pools":false,"plugins":false,"scaling_policy":false,"vars":false,"volumes":false},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn fuzzy_search_finds_names_by_substring() {
    let server = Memory::new();
    server.run(UpsertNamespaces { namespaces: vec![Namespace { name: "a-qqq-ns".into(), ..Namespace::default() }] });
    server.run(UpsertNodePools { node_pools: vec![NodePool { name: "b-QQQ".into(), ..NodePool::default() }] });
    job(&server, "default", "web", "Job-QQQ").await;
    check(
        &server,
        r#"PUT /v1/search/fuzzy {"Text": "qQq", "Context": "all"}
        PUT /v1/search/fuzzy {"Text": "web", "Context": "jobs"}
        PUT /v1/search/fuzzy?namespace=a-qqq-ns {"Text": "qqq", "Context": "jobs"}"#,
        expect![[r#"
            PUT /v1/search/fuzzy {"Text": "qQq", "Context": "all"}
                200 @4 {"Matches":{"classes":[{"ID":"/x/jar-qqq","Scope":["default","web","grp-qqq","jar-qqq"]}],"commands":[{"ID":"/x/sh-qqq","Scope":["default","web","grp-qqq","sh-qqq"]}],"deployment":[],"evals":[],"groups":[{"ID":"grp-qqq","Scope":["default","web"]}],"images":[{"ID":"/x/img-qqq","Scope":["default","web","grp-qqq","img-qqq"]}],"jobs":[{"ID":"Job-QQQ","Scope":["default","web"]}],"namespaces":[{"ID":"a-qqq-ns"}],"node_pools":[{"ID":"b-QQQ","Scope":["b-QQQ"]}],"scaling_policy":[],"services":[{"ID":"svc-sh-qqq","Scope":["default","web","grp-qqq","sh-qqq"]},{"ID":"svc-img-qqq","Scope":["default","web","grp-qqq","img-qqq"]},{"ID":"svc-jar-qqq","Scope":["default","web","grp-qqq","jar-qqq"]}],"tasks":[{"ID":"sh-qqq","Scope":["default","web","grp-qqq"]},{"ID":"img-qqq","Scope":["default","web","grp-qqq"]},{"ID":"jar-qqq","Scope":["default","web","grp-qqq"]}],"volumes":[]},"Truncations":{"allocs":false,"deployment":false,"evals":false,"jobs":false,"namespaces":false,"node_pools":false,"nodes":false,"plugins":false,"scaling_policy":false,"vars":false,"volumes":false},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search/fuzzy {"Text": "web", "Context": "jobs"}
                200 @4 {"Matches":{},"Truncations":{"jobs":false},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search/fuzzy?namespace=a-qqq-ns {"Text": "qqq", "Context": "jobs"}
                200 @4 {"Matches":{},"Truncations":{"jobs":false},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn invalid_search_requests_are_refused() {
    check(
        &Memory::new(),
        r#"PUT /v1/search
        PUT /v1/search {
        PUT /v1/search 7
        PUT /v1/search null
        PUT /v1/search {"Context": "tasks"}
        PUT /v1/search/fuzzy {"Context": "jobs", "Prefix": "long enough"}
        PUT /v1/search/fuzzy {"Context": "recommendations", "Text": "long enough"}
        PUT /v1/search/fuzzy 7
        GET /v1/search"#,
        expect![[r#"
            PUT /v1/search
                400 Request body is empty
            PUT /v1/search {
                400 unexpected EOF
            PUT /v1/search 7
                400 json: cannot unmarshal number into Go value of type structs.SearchRequest
            PUT /v1/search null
                500 context must be one of [allocs jobs nodes node_pools evals deployment plugins volumes scaling_policy vars namespaces] or 'all' for all contexts; got ""
            PUT /v1/search {"Context": "tasks"}
                500 context must be one of [allocs jobs nodes node_pools evals deployment plugins volumes scaling_policy vars namespaces] or 'all' for all contexts; got "tasks"
            PUT /v1/search/fuzzy {"Context": "jobs", "Prefix": "long enough"}
                500 fuzzy search query must be at least 2 characters, got 0
            PUT /v1/search/fuzzy {"Context": "recommendations", "Text": "long enough"}
                500 context must be one of [allocs jobs nodes node_pools evals deployment plugins volumes scaling_policy vars namespaces] or 'all' for all contexts; got "recommendations"
            PUT /v1/search/fuzzy 7
                400 json: cannot unmarshal number into Go value of type structs.FuzzySearchRequest
            GET /v1/search
                405 Invalid method
        "#]],
    )
    .await;
}
