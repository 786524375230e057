//! Order of refusals: errors that come before the rights of a caller are checked, callers that a route refuses whatever
//! their policies grant, and lists that filter instead of refusing.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::Value;
use songline_api::Reads;

use crate::rights::{READS, json};
use crate::server::Memory;
use crate::world::{
    ALLOC, MANAGEMENT, OF_API, OF_NODE, OVER, UNKNOWN, ask, bound_policy, identity, job, rules, token_with, told, world,
};

#[tokio::test]
async fn parameters_of_a_read_are_parsed_before_its_rights_are_checked() {
    let server = world().await;
    let nothing = token_with(&server, 7, "");
    for (target, expected) in [
        ("/v1/jobs", "403 Permission denied"),
        ("/v1/jobs?region=elsewhere", "500 No path to region"),
        ("/v1/nodes?index=x", "400 Invalid index"),
        ("/v1/operator/raft/configuration?region=elsewhere", "500 No path to region"),
        ("/v1/agent/members?index=x", "400 Invalid index"),
        ("/v1/agent/members?region=elsewhere", "403 Permission denied"),
        ("/v1/agent/self?region=elsewhere&index=x", "403 Permission denied"),
        ("/v1/client/stats?wait=5", "400 Invalid wait time"),
        ("/v1/regions?wait=5", "400 Invalid wait time"),
    ] {
        let (status, body) = ask(&server, &nothing, &format!("GET {target}")).await;
        assert_eq!(format!("{} {body}", status.as_u16()), expected, "{target}");
    }
}

#[tokio::test]
async fn agent_routes_refuse_task_identities_whatever_their_policies_grant() {
    let server = world().await;
    let granted = format!("{} agent {{ policy = \"write\" }}", rules("submit-job", "default"));
    bound_policy(&server, "of-web", &granted, Some(("default", "web")));
    let lookup = "acl token lookup failed: index error: UUID must be 36 characters";
    for alloc in [ALLOC, OF_API, OVER] {
        let secret = identity(&server, alloc);
        for line in
            ["GET /v1/agent/self", "GET /v1/agent/host", "PUT /v1/jobs/parse {\"JobHCL\": \"job \\\"a\\\" {}\"}"]
        {
            let expected = format!("500 failed to resolve ACL token: {lookup}");
            assert_eq!(told(&server, &secret, line).await, expected, "{line} {alloc}");
        }
        for line in ["PUT /v1/agent/force-leave?node=x", "GET /v1/agent/keyring/list", "GET /v1/agent/schedulers"] {
            assert_eq!(told(&server, &secret, line).await, format!("500 {lookup}"), "{line} {alloc}");
        }
    }
}

#[tokio::test]
async fn job_is_not_registered_by_tasks_and_nodes_whatever_their_policies_grant() {
    let server = world().await;
    bound_policy(&server, "of-web", &rules("submit-job", "default"), Some(("default", "web")));
    let body = format!("{{\"Job\": {}}}", job("new", "new", "raw_exec"));
    for (secret, expected) in [
        (identity(&server, ALLOC), "500 ACL token is invalid"),
        (identity(&server, OF_API), "500 ACL token is invalid"),
        (identity(&server, OVER), "403 Permission denied"),
        (OF_NODE.to_string(), "403 ACL token not found"),
        (String::new(), "403 Permission denied"),
    ] {
        assert_eq!(told(&server, &secret, &format!("PUT /v1/jobs {body}")).await, expected, "{secret}");
        assert_eq!(told(&server, &secret, &format!("PUT /v1/job/new {body}")).await, expected, "{secret}");
    }
    // An invalid job is refused first.
    let invalid = told(&server, &identity(&server, ALLOC), "PUT /v1/jobs {\"Job\": {\"ID\": \"x\"}}").await;
    assert_eq!(invalid, "500 1 error occurred:\n\t* Missing job task groups");
    let planned = ask(&server, &identity(&server, ALLOC), &format!("PUT /v1/job/new/plan {body}")).await;
    assert_eq!(planned.0, StatusCode::OK, "{}", planned.1);
    assert!(server.view().job("default", "new").is_none());
}

#[tokio::test]
async fn errors_of_job_mutators_are_told_before_the_rights_are_checked() {
    let server = world().await;
    let nothing = token_with(&server, 7, "");
    let check = r#"{"Name": "c", "Type": "http", "Path": "/", "Expose": true}"#;
    let service =
        format!(r#"{{"Name": "s", "PortLabel": "none", "Connect": {{"SidecarService": {{}}}}, "Checks": [{check}]}}"#);
    let group = format!(
        r#"{{"Name": "g", "Networks": [{{"Mode": "bridge"}}], "Services": [{service}], "Tasks": [{{"Name": "t", "Driver": "d"}}]}}"#
    );
    let exposed = format!(r#"{{"Job": {{"ID": "x", "TaskGroups": [{group}]}}}}"#);
    let text = "error in job mutator expose-check: unable to determine local service port for service check g->s->c";
    for target in ["/v1/validate/job", "/v1/job/x/plan", "/v1/jobs"] {
        assert_eq!(
            told(&server, &nothing, &format!("PUT {target} {exposed}")).await,
            format!("500 {text}"),
            "{target}"
        );
    }
    // A job that is only invalid is not described to a caller without rights.
    let invalid = told(&server, &nothing, "PUT /v1/validate/job {\"Job\": {\"ID\": \"x\"}}").await;
    assert_eq!(invalid, "403 Permission denied");
}

#[tokio::test]
async fn task_that_may_only_write_its_variable_does_not_see_it_in_a_conflict() {
    let server = world().await;
    let all = MANAGEMENT.to_string();
    let path = "/v1/var/nomad/jobs/web";
    assert_eq!(ask(&server, &all, &format!("PUT {path} {{\"Items\": {{\"k\": \"v\"}}}}")).await.0, StatusCode::OK);
    let secret = identity(&server, ALLOC);
    let conflict = format!("PUT {path}?cas=1 {{\"Items\": {{\"k\": \"w\"}}}}");
    let granted = |words: &str| {
        let path = format!("path \"nomad/jobs/*\" {{ capabilities = [{words}] }}");
        bound_policy(
            &server,
            "of-web",
            &format!("namespace \"default\" {{ variables {{ {path} }} }}"),
            Some(("default", "web")),
        );
    };
    granted("\"write\", \"destroy\"");
    // Reads have the right of a task to its own variables, writes do not.
    assert_eq!(json(&server, &secret, path).await["Items"], serde_json::json!({"k": "v"}));
    for line in [conflict.clone(), format!("DELETE {path}?cas=1")] {
        let (status, body) = ask(&server, &secret, &line).await;
        let stored: Value = serde_json::from_str(&body).expect("is JSON");
        assert_eq!((status, &stored["Items"]), (StatusCode::CONFLICT, &Value::Null), "{line}: {body}");
    }
    granted("\"write\", \"read\"");
    let (status, body) = ask(&server, &secret, &conflict).await;
    let stored: Value = serde_json::from_str(&body).expect("is JSON");
    assert_eq!((status, &stored["Items"]), (StatusCode::CONFLICT, &serde_json::json!({"k": "v"})), "{body}");
}

#[tokio::test]
async fn lists_of_volumes_and_plugins_need_rights_only_with_type_csi() {
    let server = world().await;
    let (nothing, unknown, all) = (token_with(&server, 7, ""), UNKNOWN.to_string(), MANAGEMENT.to_string());
    for list in ["/v1/volumes", "/v1/plugins"] {
        for secret in [&*nothing, &unknown, "not-a-uuid", "", &all] {
            for (query, expected) in
                [("", "200 []"), ("?index=x&wait=x", "200 []"), ("?type=host", "200 "), ("?type=x&index=x", "200 ")]
            {
                let told = told(&server, secret, &format!("GET {list}{query}")).await;
                assert_eq!(told, expected, "{list}{query} as {secret:?}");
            }
        }
        for secret in [&*nothing, &unknown, "not-a-uuid", ""] {
            for (query, expected) in [
                ("?type=csi", "403 Permission denied"),
                ("?type=csi&namespace=*", "403 Permission denied"),
                ("?type=csi&index=x", "400 Invalid index"),
            ] {
                let told = told(&server, secret, &format!("GET {list}{query}")).await;
                assert_eq!(told, expected, "{list}{query} as {secret:?}");
            }
        }
    }
    let lists = token_with(&server, 8, &rules("csi-list-volume", "default"));
    assert_eq!(json(&server, &lists, "/v1/volumes?type=csi").await[0]["ID"], "v");
    for target in ["/v1/volumes?type=csi&namespace=other", "/v1/plugins?type=csi"] {
        assert_eq!(told(&server, &lists, &format!("GET {target}")).await, "403 Permission denied", "{target}");
    }
}

#[tokio::test]
async fn blocking_list_of_volumes_is_refused_after_its_caller_has_lost_the_right() {
    let server = world().await;
    let secret = token_with(&server, 7, &rules("csi-list-volume", "default"));
    let index = server.view().table_index(songline_projections::Table::CsiVolumes);
    let before = server.watches().waiting();
    let (other, own) = (Arc::clone(&server), secret.clone());
    let line = format!("GET /v1/volumes?type=csi&index={index}");
    let query = tokio::spawn(async move { told(&other, &own, &line).await });
    while server.watches().waiting() == before {
        tokio::task::yield_now().await;
    }
    token_with(&server, 7, &rules("read-job", "default"));
    let volume = crate::world::VOLUME.replacen("\"ID\": \"v\"", "\"ID\": \"w\"", 1);
    let all = MANAGEMENT.to_string();
    let written = ask(&server, &all, &format!("PUT /v1/volumes {{\"Volumes\": [{volume}]}}")).await;
    assert_eq!(written.0, StatusCode::OK, "{}", written.1);
    assert_eq!(query.await.expect("answers"), "403 Permission denied");
}

#[tokio::test]
async fn volume_detach_without_a_node_is_refused_before_the_rights_are_checked() {
    let server = world().await;
    let nothing = token_with(&server, 7, "");
    for (query, expected) in [("", "400 detach requires node ID"), ("?node=x", "403 Permission denied")] {
        let told = told(&server, &nothing, &format!("DELETE /v1/volume/csi/v/detach{query}")).await;
        assert_eq!(told, expected, "{query}");
    }
}

/// Status, matches and truncations of a fuzzy search over all namespaces.
async fn fuzzy(server: &Arc<Memory>, secret: &str, text: &str, context: &str) -> String {
    let line = format!("PUT /v1/search/fuzzy?namespace=* {{\"Text\": \"{text}\", \"Context\": \"{context}\"}}");
    let (status, body) = ask(server, secret, &line).await;
    let found: Value = serde_json::from_str(&body).unwrap_or_default();
    format!("{} {} {}", status.as_u16(), found["Matches"], found["Truncations"])
}

#[tokio::test]
async fn fuzzy_search_over_all_namespaces_filters_objects_and_refuses_no_context() {
    let server = world().await;
    let nothing = token_with(&server, 7, "");
    let (jobs, nodes) = (token_with(&server, 8, READS), token_with(&server, 9, "node { policy = \"read\" }"));
    let by_id = r#"{"deployment":[],"evals":[],"scaling_policy":[],"volumes":[]}"#;
    let every = r#"{"allocs":false,"deployment":false,"evals":false,"jobs":false,"namespaces":false,"node_pools":false,"nodes":false,"plugins":false,"scaling_policy":false,"vars":false,"volumes":false}"#;
    for secret in [&*nothing, ""] {
        for (text, context) in
            [("web", "jobs"), ("web", "allocs"), ("stab", "nodes"), ("zebra", "vars"), ("pp", "plugins")]
        {
            let found = fuzzy(&server, secret, text, context).await;
            assert_eq!(found, format!(r#"200 {{}} {{"{context}":false}}"#));
        }
        assert_eq!(fuzzy(&server, secret, "stab", "all").await, format!("200 {by_id} {every}"));
    }
    assert_eq!(
        fuzzy(&server, &jobs, "web", "jobs").await,
        r#"200 {"jobs":[{"ID":"web","Scope":["default","web"]}]} {"jobs":false}"#
    );
    assert_eq!(fuzzy(&server, &jobs, "zebra", "jobs").await, r#"200 {} {"jobs":false}"#);
    assert_eq!(
        fuzzy(&server, &nodes, "stab", "nodes").await,
        r#"200 {"nodes":[{"ID":"stable","Scope":["01010101-0101-0101-0101-010101010101"]}]} {"nodes":false}"#
    );
    // In one namespace, and by prefix, a forbidden context is refused.
    for line in [
        r#"PUT /v1/search/fuzzy {"Text": "web", "Context": "jobs"}"#,
        r#"PUT /v1/search?namespace=* {"Prefix": "web", "Context": "jobs"}"#,
    ] {
        assert_eq!(told(&server, &nothing, line).await, "403 Permission denied", "{line}");
    }
}
