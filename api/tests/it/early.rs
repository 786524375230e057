//! Errors that come before the rights of a caller are checked: those of path, own parameters and body, then those of
//! the standard parameters, then an unknown region.

use std::sync::Arc;

use songline_api::Reads;

use crate::server::{Memory, answer, text};
use crate::world::{ALLOC, DEPLOYMENT, MANAGEMENT, NODE, OF_NODE, UNKNOWN, job, rules, token_with, told, world};

/// Secrets of callers without rights: a token, none, one that is unknown, one that is no secret, and a node's.
fn without_rights(server: &Memory) -> [String; 5] {
    let nothing = token_with(server, 7, "");
    [nothing, String::new(), UNKNOWN.to_string(), "not-a-uuid".to_owned(), OF_NODE.to_string()]
}

#[tokio::test]
async fn errors_of_path_parameters_and_body_are_told_before_the_rights_are_checked() {
    let server = world().await;
    let no_bool = |name: &str| {
        format!(
            "500 Failed to parse value of \"{name}\" (x) as a bool: strconv.ParseBool: parsing \"x\": invalid syntax"
        )
    };
    let no_field = no_bool("os").replacen("500 ", "400 Failed to parse node list fields: ", 1);
    let (meta, diffs, purge) = (no_bool("meta"), no_bool("diffs"), no_bool("purge"));
    for (line, expected) in [
        ("PUT /v1/namespace", "400 Request body is empty"),
        ("PUT /v1/namespace/a {\"Name\": \"b\"}", "400 Namespace name does not match request path"),
        ("DELETE /v1/namespace/", "400 Missing Namespace Name"),
        ("PUT /v1/node/pools {", "400 unexpected EOF"),
        ("PUT /v1/node/pool/a {\"Name\": \"b\"}", "400 Node pool name does not match request path"),
        ("GET /v1/node/pool/default/nodes?prefix=a", "400 prefix argument not allowed"),
        ("GET /v1/node/pool/default/jobs?prefix=a", "400 prefix argument not allowed"),
        ("GET /v1/nodes?os=x", &no_field),
        ("PUT /v1/node/x/drain {", "400 unexpected EOF"),
        ("PUT /v1/node/x/eligibility", "400 Request body is empty"),
        ("GET /v1/jobs?meta=x", &meta),
        ("GET /v1/job/web/versions?diffs=x", &diffs),
        ("GET /v1/job/web/submission", "400 Unable to parse job submission version parameter"),
        ("PUT /v1/job/web/submission?version=0", "405 Invalid method"),
        ("PUT /v1/job/web/summary?index=x", "400 Invalid index"),
        ("PUT /v1/job/web/scale {", "400 unexpected EOF"),
        ("PUT /v1/job/web/scale {\"Target\": {\"Job\": \"a\"}}", "400 job ID in payload did not match URL"),
        ("DELETE /v1/job/web?purge=x", &purge),
        ("PUT /v1/jobs {", "400 unexpected EOF"),
        ("PUT /v1/job/web/plan {}", "400 Job must be specified"),
        ("PUT /v1/validate/job {}", "400 Job must be specified"),
        ("PUT /v1/acl/policy/a {\"Name\": \"b\"}", "400 ACL policy name does not match request path"),
        ("DELETE /v1/acl/policy/", "400 Missing Policy Name"),
        ("PUT /v1/acl/role {", "400 unexpected EOF"),
        ("DELETE /v1/acl/role/a/b", "400 invalid URI"),
        ("PUT /v1/acl/token {\"ExpirationTTL\": \"x\"}", "400 time: invalid duration \"x\""),
        ("DELETE /v1/acl/token/", "400 Missing Token Accessor"),
        ("GET /v1/acl/auth-method/", "400 missing ACL auth-method name"),
        ("PUT /v1/acl/binding-rule/a {\"ID\": \"b\"}", "400 ACL binding rule ID does not match request path"),
        ("PUT /v1/operator/scheduler/configuration", "400 Error parsing scheduler config: Request body is empty"),
        (
            "PUT /v1/operator/autopilot/configuration?cas=x {}",
            "400 Error parsing cas value: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            "DELETE /v1/operator/raft/peer",
            "400 Must specify either ?id with the server's ID or ?address with IP:port of peer to remove",
        ),
        ("GET /v1/operator/raft/peer", "404 Invalid method"),
        ("GET /v1/operator/raft/none", "404 Invalid method"),
        ("PUT /v1/operator/raft/configuration", "405 "),
        ("GET /v1/service/", "400 missing service name"),
        ("DELETE /v1/service/web", "405 Invalid method"),
        ("POST /v1/client/metadata {", "400 unexpected EOF"),
        ("PUT /v1/search {", "400 unexpected EOF"),
        ("PUT /v1/search/fuzzy", "400 Request body is empty"),
    ] {
        for secret in without_rights(&server) {
            assert_eq!(told(&server, &secret, line).await, expected, "{line} as {secret:?}");
        }
    }
}

#[tokio::test]
async fn unknown_region_is_told_before_the_rights_are_checked() {
    let server = world().await;
    let web = format!("{{\"Job\": {}}}", job("web", "web", "raw_exec"));
    let lines = [
        "GET /v1/var/a?region=mars".to_owned(),
        "GET /v1/vars?region=mars".to_owned(),
        "PUT /v1/var/a?region=mars {\"Items\": {\"k\": \"w\"}}".to_owned(),
        "DELETE /v1/var/a?region=mars".to_owned(),
        "GET /v1/jobs?region=mars".to_owned(),
        format!("PUT /v1/jobs?region=mars {web}"),
        format!("PUT /v1/job/web?region=mars {web}"),
        format!("PUT /v1/job/web/plan?region=mars {web}"),
        format!("PUT /v1/validate/job?region=mars {web}"),
        "PUT /v1/job/web/scale?region=mars {\"Count\": 2, \"Target\": {\"Group\": \"g\"}}".to_owned(),
        "PUT /v1/job/web/evaluate?region=mars {\"JobID\": \"web\"}".to_owned(),
        "PUT /v1/job/web/periodic/force?region=mars".to_owned(),
        "DELETE /v1/job/web?region=mars".to_owned(),
        "DELETE /v1/evaluations?region=mars {\"EvalIDs\": []}".to_owned(),
        format!("PUT /v1/allocation/{ALLOC}/stop?region=mars"),
        format!("PUT /v1/deployment/fail/{DEPLOYMENT}?region=mars"),
        format!("PUT /v1/node/{NODE}/evaluate?region=mars"),
        format!("PUT /v1/node/{NODE}/drain?region=mars {{\"DrainSpec\": null}}"),
        "DELETE /v1/service/web/s?region=mars".to_owned(),
        "DELETE /v1/volume/csi/v?region=mars".to_owned(),
        "PUT /v1/acl/token?region=mars {\"Type\": \"management\"}".to_owned(),
        format!("DELETE /v1/acl/token/{MANAGEMENT}?region=mars"),
        "PUT /v1/acl/token/onetime?region=mars".to_owned(),
        "PUT /v1/operator/keyring/rotate?region=mars".to_owned(),
        "PUT /v1/operator/scheduler/configuration?region=mars {}".to_owned(),
        "PUT /v1/operator/autopilot/configuration?region=mars {}".to_owned(),
        "DELETE /v1/operator/raft/peer?region=mars&id=none".to_owned(),
        "PUT /v1/operator/snapshot?region=mars none".to_owned(),
        "PUT /v1/system/gc?region=mars".to_owned(),
        "PUT /v1/what-if?region=mars {\"Changes\": []}".to_owned(),
    ];
    let secrets = without_rights(&server);
    let before = server.view().applied_index();
    for line in &lines {
        for secret in secrets.iter().chain([&MANAGEMENT.to_string()]) {
            assert_eq!(told(&server, secret, line).await, "500 No path to region", "{line} as {secret:?}");
        }
    }
    assert_eq!(server.view().applied_index(), before, "a refused write is not in the log");
    // These are written in the authoritative region, whatever the region is.
    for line in [
        "PUT /v1/namespace?region=mars {\"Name\": \"a\"}",
        "DELETE /v1/node/pool/a?region=mars",
        "PUT /v1/acl/policy/a?region=mars {\"Name\": \"a\"}",
        "PUT /v1/acl/token?region=mars {\"Type\": \"management\", \"Global\": true}",
    ] {
        assert_eq!(told(&server, &secrets[0], line).await, "403 Permission denied", "{line}");
    }
}

#[tokio::test]
async fn wrong_standard_parameter_is_told_before_an_unknown_region() {
    let server = world().await;
    for (query, expected) in [
        ("?region=mars&index=x", "400 Invalid index"),
        ("?region=mars&wait=x", "400 Invalid wait time"),
        ("?region=mars&index=1", "500 No path to region"),
    ] {
        assert_eq!(told(&server, "", &format!("GET /v1/nodes{query}")).await, expected, "{query}");
    }
}

#[tokio::test]
async fn stored_answer_of_a_key_is_not_for_a_caller_that_is_checked_late_and_has_lost_the_right() {
    let server = world().await;
    let secret = token_with(&server, 7, &rules("node:write", "default"));
    let line = format!("PUT /v1/node/{NODE}/eligibility [idempotency-key: one] {{\"Eligibility\": \"eligible\"}}");
    let first = told(&server, &secret, &line).await;
    assert!(first.starts_with("200 "), "{first}");
    assert_eq!(told(&server, &secret, &line).await, first, "a retry gets the first answer");
    token_with(&server, 7, &rules("node:read", "default"));
    assert_eq!(told(&server, &secret, &line).await, "403 Permission denied");
}

#[tokio::test]
async fn past_state_is_not_made_for_a_caller_without_the_right() {
    let server = world().await;
    let nothing = token_with(&server, 7, "");
    for target in ["/v1/jobs?at_index=1000000", "/v1/nodes?at_index=1000000", "/v1/job/web/versions?at_index=1000000"] {
        assert_eq!(told(&server, &nothing, &format!("GET {target}")).await, "403 Permission denied", "{target}");
    }
}

/// Status, index and body of an answer.
async fn whole(server: &Arc<Memory>, line: &str) -> String {
    let response = answer(server, line).await;
    let status = response.status().as_u16();
    let index = response.headers().contains_key("x-nomad-index");
    format!("{status} {index} {}", text(response).await)
}

#[tokio::test]
async fn bad_stale_parameter_is_told_before_every_answer() {
    let server = Memory::new();
    let guarded = Memory::guarded();
    let error = "400 false Expect `true` or `false` for `stale` query string parameter, got x";
    for (server, line, answer) in [
        (&server, "GET /v1/node/pools?stale=x&prefix=none", "[]"),
        (&server, "GET /v1/job/none?stale=x", "job not found"),
        (&server, "GET /v1/nodes?stale=x&index=y", "Invalid index"),
        (&server, "GET /v1/nodes?stale=x&region=mars", "No path to region"),
        (&server, "GET /v1/vars?stale=x&index=y", "Invalid indexfailed to parse parameters"),
        // Answers without an index.
        (&server, "GET /v1/status/leader?stale=x", "\"127.0.0.1:4647\""),
        (&server, "GET /v1/regions?stale=x", "[\"global\"]"),
        (&server, "PUT /v1/system/gc?stale=x", ""),
        (&guarded, "GET /v1/nodes?stale=x", "Permission denied"),
    ] {
        assert_eq!(whole(server, line).await, format!("{error}{answer}"), "{line}");
    }
    // Writes have no such parameter, and errors of the path come before it.
    let written = whole(&server, "PUT /v1/namespace?stale=x {\"Name\": \"a\"}").await;
    assert_eq!(written, "200 true ");
    assert_eq!(whole(&server, "GET /v1/service/a/b/c?stale=x").await, "400 false invalid URI");
}
