//! Requests that methods make of HTTP, and the types in their answers. The tests of HTTP cover its answers.

use expect_test::{expect, expect_file};
use songline_model::{Node, Secret};
use songline_rpc::message::{Call as _, JobRegister, NodeRegister};
use songline_rpc::msgpack::to_vec;
use songline_rpc::net::Pool;

use super::super::routes::{self, ROUTES};
use super::super::tests::{NODE, call, node, pool, start};
use super::*;
use crate::Core;

/// A request as it comes over the wire.
fn asked(request: Value) -> Tree {
    Tree::read(&to_vec(&request).unwrap()).unwrap()
}

/// Method, path and body of the HTTP request for a call.
fn shown(method: &str, call: Value) -> String {
    let (route, tree) = (routes::find(method).unwrap(), asked(call));
    let meta = from_slice(&tree.to_bytes()).unwrap();
    let made = request(route, &tree, &meta).and_then(|request| Ok((request, body_of(route.body, &tree)?)));
    match made {
        Ok((request, body)) => {
            let body = body.map(|body| format!(" {body}")).unwrap_or_default();
            format!("{} {}{body}", request.method_ref().unwrap(), request.uri_ref().unwrap())
        }
        Err(refusal) => format!("{refusal:?}"),
    }
}

#[test]
fn every_routed_method_has_a_route_of_http_whose_rights_it_needs() {
    let known = songline_api::routes::<Core>();
    let mut text = String::new();
    for route in ROUTES {
        let (verb, path, _) = route.parts();
        let parts: Vec<&str> = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part }).collect();
        let path = parts.join("/");
        // Some routes ignore what follows their path.
        let is_it = |of: &str| of == path || of.strip_suffix("{}").is_some_and(|of| of == path);
        let found = known.iter().find(|known| known.methods.takes(&verb) && is_it(&known.path));
        let found = found.unwrap_or_else(|| panic!("{}: no route {verb} {path}", route.method));
        text.push_str(&format!("{} = {verb} {path} = {}\n", route.method, found.capability));
    }
    expect_file!["../tests/routes.txt"].assert_eq(&text);
}

#[test]
fn no_method_has_two_ways_to_be_answered() {
    for (at, route) in ROUTES.iter().enumerate() {
        let others = ROUTES.iter().skip(at + 1).map(|other| other.method);
        let own = super::super::methods::CALLS.iter().map(|(method, _)| *method);
        assert!(others.chain(own).all(|other| other != route.method), "{}", route.method);
    }
}

#[test]
fn calls_become_requests_of_http() {
    let payload = Tree::Map(vec![
        (Tree::text("JobID"), Tree::text("web/batch")),
        (Tree::text("Payload"), Tree::Raw(b"text".to_vec())),
        (Tree::text("Meta"), Tree::Nil),
    ]);
    let dispatch = body_of(routes::find("Job.Dispatch").unwrap().body, &payload);
    let made = [
        shown("Job.Summary", json!({ "JobID": "a b", "Namespace": "dev", "AllowStale": true })),
        shown("Eval.List", json!({ "FilterJobID": "web", "Prefix": "ab", "PerPage": 2, "MinQueryIndex": 7 })),
        shown("Alloc.List", json!({ "Fields": { "Resources": true, "TaskStates": false } })),
        shown("Job.Deregister", json!({ "JobID": "web", "Purge": true, "EvalPriority": 60 })),
        shown("Deployment.Promote", json!({ "DeploymentID": "d", "All": true, "Groups": null })),
        shown("ACL.UpsertPolicies", json!({ "Policies": [{ "Name": "x", "Rules": "", "Hash": null }] })),
        shown("ACL.UpsertPolicies", json!({ "Policies": [{ "Name": "x" }, { "Name": "y" }] })),
        shown("Operator.SchedulerSetConfiguration", json!({ "CAS": true, "Config": { "ModifyIndex": 9 } })),
        shown("Operator.SchedulerSetConfiguration", json!({ "CAS": false, "Config": { "ModifyIndex": 9 } })),
        shown("Eval.GetEval", json!({ "EvalID": { "x": 1 } })),
        dispatch.unwrap().unwrap().to_string(),
    ];
    expect![[r#"
        GET /v1/job/a%20b/summary?namespace=dev&stale=true
        GET /v1/evaluations?namespace=default&job=web&prefix=ab&per_page=2&index=7
        GET /v1/allocations?namespace=default&resources=true&task_states=false
        DELETE /v1/job/web?namespace=default&purge=true&eval_priority=60
        PUT /v1/deployment/promote/d?namespace=default {"DeploymentID":"d","All":true}
        PUT /v1/acl/policy/x?namespace=default {"Name":"x","Rules":"","Hash":null}
        Failed(Coded { code: 400, text: "Policies.0.Name: more than one object in a request is not supported" })
        PUT /v1/operator/scheduler/configuration?namespace=default&cas=9 {"ModifyIndex":9}
        PUT /v1/operator/scheduler/configuration?namespace=default {"ModifyIndex":9}
        Body(DecodeError { at: 0, text: "field EvalID is not plain" })
        {"JobID":"web/batch","Payload":"dGV4dA=="}"#]]
    .assert_eq(&made.join("\n"));
}

#[test]
fn times_and_bytes_of_requests_are_texts_in_json() {
    let time = Time::from_secs(1_795_254_137);
    let typed = |value: &Tree| json_of(value).to_string();
    assert_eq!(typed(&Tree::read(&to_vec(&time).unwrap()).unwrap()), format!("\"{time}\""));
    assert_eq!(typed(&Tree::Raw(songline_rpc::msgpack::ZERO_TIME.to_vec())), "null");
    assert_eq!(typed(&Tree::Raw(vec![0xff, 0x00])), "\"/wA=\"");
    assert_eq!(typed(&Tree::text("fifteen letters")), "\"fifteen letters\"");
}

/// The answer as it comes over the wire.
async fn answer(pool: &Pool, address: &str, method: &str, request: Value) -> Tree {
    let answer = pool.call(address, method, &to_vec(&request).unwrap()).await;
    Tree::read(&answer.unwrap_or_else(|error| panic!("{method}: {error}"))).unwrap()
}

/// A part of an answer; numbers are places in lists.
fn at<'t>(tree: &'t Tree, path: &str) -> &'t Tree {
    path.split('.').fold(tree, |tree, name| match (tree, name.parse::<usize>()) {
        (Tree::Array(rows), Ok(nth)) => &rows[nth],
        _ => tree.get(name).unwrap_or_else(|| panic!("no {name} of {path} in {tree:?}")),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_of_listed_nodes_are_those_of_the_single_node() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), false).await;
    let (pool, address) = (pool(), server.core.rpc_addr());
    let mut row = node();
    row["Drivers"] = json!({ "exec": {
        "Attributes": null, "Detected": true, "Healthy": true, "HealthDescription": "",
        "UpdateTime": "2026-11-29T01:39:18.718769656Z",
    } });
    let row: Node = serde_json::from_value(row).unwrap();
    let secret = row.secret_id.clone();
    let request = NodeRegister { node: Some(row), region: "global".into(), ..NodeRegister::default() };
    pool.call(&address, NodeRegister::METHOD, &to_vec(&request).unwrap()).await.unwrap();
    let strategy = json!({ "Deadline": 60_000_000_000_i64, "IgnoreSystemJobs": true });
    let drain = json!({ "Region": "global", "NodeID": NODE, "DrainStrategy": strategy, "AuthToken": secret.reveal() });
    answer(&pool, &address, "Node.UpdateDrain", drain).await;

    let listed = answer(&pool, &address, "Node.List", json!({ "Region": "global" })).await;
    let single = answer(&pool, &address, "Node.GetNode", json!({ "Region": "global", "NodeID": NODE })).await;
    assert!(matches!(at(&listed, "Nodes.0.Drivers.exec.UpdateTime"), Tree::Raw(bytes) if bytes.len() == 15));
    // The drain of a node without allocations may be over by now, at another time.
    for field in ["Drivers.exec.UpdateTime", "LastDrain.StartedAt"] {
        assert_eq!(at(&listed, &format!("Nodes.0.{field}")), at(&single, &format!("Node.{field}")), "{field}");
    }
    assert_eq!(at(&listed, "KnownLeader"), &Tree::Bool(true));
    pool.close();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_is_planned_read_and_stopped_over_rpc() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), false).await;
    let (pool, address) = (pool(), server.core.rpc_addr());
    let job = json!({
        "ID": "web", "Name": "web", "Type": "service", "Datacenters": ["dc1"],
        "Namespace": "default", "Region": "global",
        "TaskGroups": [{ "Name": "g", "Count": 1, "Tasks": [{ "Name": "t", "Driver": "mock_driver", "Config": {} }] }],
    });
    let job: Job = serde_json::from_value(job).unwrap();
    let request = JobRegister { job: Some(job), region: "global".into(), ..JobRegister::default() };
    let body = to_vec(&request).unwrap();
    let planned = pool.call(&address, "Job.Plan", &body).await.unwrap();
    let planned = Tree::read(&planned).unwrap();
    assert_eq!(at(&planned, "NextPeriodicLaunch"), &Tree::Raw(songline_rpc::msgpack::ZERO_TIME.to_vec()));
    assert_eq!(at(&planned, "JobModifyIndex"), &Tree::Int(0));
    pool.call(&address, "Job.Register", &body).await.unwrap();

    let of_web = || json!({ "Region": "global", "JobID": "web" });
    let summary = answer(&pool, &address, "Job.Summary", of_web()).await;
    assert_eq!(at(&summary, "JobSummary.JobID"), &Tree::text("web"));
    let evals = answer(&pool, &address, "Eval.List", json!({ "Region": "global", "FilterJobID": "web" })).await;
    assert_eq!(at(&evals, "Evaluations.0.TriggeredBy"), &Tree::text("job-register"));
    let stopped = answer(&pool, &address, "Job.Deregister", of_web()).await;
    assert!(matches!(at(&stopped, "EvalID"), Tree::Raw(id) if id.len() == 36), "{stopped:?}");
    let mut told = String::new();
    for (method, request) in [
        ("Job.Summary", json!({ "Region": "global", "JobID": "gone" })),
        ("Deployment.Fail", json!({ "Region": "global", "DeploymentID": "5d1e0000-0000-0000-0000-000000000007" })),
        ("Namespace.GetNamespace", json!({ "Region": "global", "Name": "none" })),
        ("Region.List", json!({ "Region": "global" })),
        ("ACL.ListPolicies", json!({ "Region": "global" })),
    ] {
        told.push_str(&format!("{method}: {}\n", call(&pool, &address, method, request).await));
    }
    let told: Vec<&str> = told.lines().map(|line| line.split(",\"Index\":").next().unwrap_or(line)).collect();
    expect![[r#"
        Job.Summary: {"JobSummary":null
        Deployment.Fail: error: rpc error: deployment not found
        Namespace.GetNamespace: {"Namespace":null
        Region.List: ["global"]
        ACL.ListPolicies: error: ACL support disabled"#]]
    .assert_eq(&told.join("\n"));
    pool.close();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_over_rpc_have_typed_times_and_hashes() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), true).await;
    let (pool, address) = (pool(), server.core.rpc_addr());
    let made = answer(&pool, &address, "ACL.Bootstrap", json!({ "Region": "global" })).await;
    let secret = Secret::new(at(&made, "Tokens.0.SecretID").as_text().unwrap());
    let asked = json!({ "Region": "global", "SecretID": secret.reveal() });
    let resolved = answer(&pool, &address, "ACL.ResolveToken", asked).await;
    for (field, length) in [("CreateTime", 15), ("Hash", 32), ("AccessorID", 36)] {
        let value = at(&resolved, &format!("Token.{field}"));
        assert!(matches!(value, Tree::Raw(bytes) if bytes.len() == length), "{field}: {value:?}");
    }
    assert_eq!(at(&resolved, "Token.ExpirationTTL"), &Tree::Int(0));
    assert_eq!(at(&resolved, "Token.ExpirationTime"), &Tree::Nil);
    let list = json!({ "Region": "global", "AuthToken": secret.reveal() });
    let listed = answer(&pool, &address, "ACL.ListTokens", list).await;
    assert_eq!(at(&listed, "Tokens.0.CreateTime"), at(&resolved, "Token.CreateTime"));
    let refused = call(&pool, &address, "ACL.ListTokens", json!({ "Region": "global" })).await;
    assert_eq!(refused, "error: rpc error: Permission denied");
    pool.close();
    server.stop().await;
}
