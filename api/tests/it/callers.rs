//! Rights of tokens, workloads and nodes at the gate, on lists, on blocking queries, and on streams.

use std::sync::Arc;

use songline_api::keyring::Keyring;
use songline_api::{Api, Reads, Shared};
use songline_commands::{
    DeleteAclPolicies, DeleteAclTokens, RegisterNode, UpsertAclPolicies, UpsertAclTokens, UpsertNamespaces,
};
use songline_model::{AccessorId, AclPolicy, AclToken, AclTokenKind, Namespace, Node, NodeId, Secret, SecretId, Time};
use uuid::Uuid;

use crate::server::{Memory, answer, request, shown, text};
use crate::stream::Reader;

/// The nth token's secret, which is also its accessor id.
fn id(nth: u8) -> Uuid {
    Uuid::from_bytes([nth; 16])
}

fn policy(server: &Memory, name: &str, rules: &str) {
    let policy = AclPolicy { name: name.into(), rules: rules.into(), ..AclPolicy::default() };
    let hash = Some(policy.compute_hash());
    server.run(UpsertAclPolicies { policies: vec![AclPolicy { hash, ..policy }] });
}

/// A client token with these policies; without policies a management token.
fn token(server: &Memory, nth: u8, policies: &[&str], expires: Option<Time>) -> String {
    let kind = if policies.is_empty() { AclTokenKind::Management } else { AclTokenKind::Client };
    let token = AclToken {
        accessor_id: AccessorId::from(id(nth)),
        secret_id: SecretId::from(id(nth)),
        kind,
        policies: Some(policies.iter().map(|name| (*name).into()).collect()),
        create_time: Time::from_secs(1),
        expiration_time: expires,
        ..AclToken::default()
    };
    let hash = Some(token.compute_hash());
    server.run(UpsertAclTokens { tokens: vec![AclToken { hash, ..token }] });
    id(nth).to_string()
}

async fn ask(server: &Arc<Memory>, token: &str, line: &str) -> String {
    let response = answer(server, &shown(token, line)).await;
    let code = response.status().as_u16();
    format!("{code} {}", text(response).await)
}

fn namespaces(server: &Memory, names: &[&str]) {
    let namespaces = names.iter().map(|name| Namespace { name: (*name).into(), ..Namespace::default() }).collect();
    server.run(UpsertNamespaces { namespaces });
}

#[tokio::test]
async fn caller_is_admitted_by_its_own_policies_only() {
    let server = Memory::guarded();
    policy(&server, "reads", "node { policy = \"read\" }");
    let (all, reads) = (token(&server, 1, &[], None), token(&server, 2, &["reads", "gone"], None));
    for (caller, asked, expected) in [
        ("", "GET /v1/nodes", "403 Permission denied"),
        (&*reads, "GET /v1/nodes", "200 []"),
        (&all, "GET /v1/nodes", "200 []"),
        (&reads, "GET /v1/jobs", "403 Permission denied"),
        (&reads, "PUT /v1/system/gc", "403 Permission denied"),
        ("5f7d9a52-0000-4000-8000-00000000dead", "GET /v1/nodes", "403 Permission denied"),
        ("no secret", "GET /v1/nodes", "403 Permission denied"),
        ("5f7d9a52-0000-4000-8000-00000000dead", "GET /v1/agent/self", "403 ACL token not found"),
        ("5f7d9a52-0000-4000-8000-00000000dead", "GET /v1/status/leader", "200 \"127.0.0.1:4647\""),
    ] {
        assert_eq!(ask(&server, caller, asked).await, expected, "{asked} as {caller:?}");
    }
}

#[tokio::test]
async fn agent_looks_up_a_token_that_is_no_uuid_and_does_not_find_it() {
    let server = Memory::guarded();
    for (asked, expected) in [
        ("GET /v1/agent/self", "500 failed to resolve ACL token: acl token lookup failed: index error: "),
        ("GET /v1/agent/host", "500 failed to resolve ACL token: acl token lookup failed: index error: "),
        ("PUT /v1/jobs/parse {}", "500 failed to resolve ACL token: acl token lookup failed: index error: "),
        ("PUT /v1/agent/force-leave?node=x", "500 acl token lookup failed: index error: "),
        ("GET /v1/agent/keyring/list", "500 acl token lookup failed: index error: "),
        ("GET /v1/agent/schedulers", "500 acl token lookup failed: index error: "),
        ("GET /v1/agent/schedulers/config", "500 acl token lookup failed: index error: "),
    ] {
        let expected = format!("{expected}UUID must be 36 characters");
        assert_eq!(ask(&server, "not-a-uuid", asked).await, expected, "{asked}");
    }
}

#[tokio::test]
async fn policy_cache_separates_policies_of_equal_name_and_index_after_a_restore() {
    let (before, after) = (Memory::guarded(), Memory::guarded());
    let shared = Shared::of(&*before);
    // The same policy name at the same index, as after restoring another cluster's archive.
    for (server, rules, expected) in
        [(&before, "node { policy = \"read\" }", 200), (&after, "node { policy = \"deny\" }", 403)]
    {
        policy(server, "p", rules);
        let secret = token(server, 1, &["p"], None);
        let api = Api::with(Arc::clone(server), shared.clone());
        let response = api.answer(request(&shown(&secret, "GET /v1/nodes"))).await;
        assert_eq!(response.status().as_u16(), expected, "{rules}");
    }
}

#[tokio::test]
async fn anonymous_policy_applies_to_callers_without_a_token() {
    let server = Memory::guarded();
    assert_eq!(ask(&server, "", "GET /v1/nodes").await, "403 Permission denied");
    policy(&server, "anonymous", "node { policy = \"read\" }");
    assert_eq!(ask(&server, "", "GET /v1/nodes").await, "200 []");
    server.run(DeleteAclPolicies { names: vec!["anonymous".into()] });
    assert_eq!(ask(&server, "", "GET /v1/nodes").await, "403 Permission denied");
}

#[tokio::test]
async fn expired_token_lists_no_nodes() {
    let server = Memory::guarded();
    let old = token(&server, 1, &[], Some(Time::from_secs(1)));
    assert_eq!(ask(&server, &old, "GET /v1/nodes").await, "403 Permission denied");
}

#[tokio::test]
async fn list_over_all_namespaces_shows_only_readable_namespaces() {
    let server = Memory::guarded();
    namespaces(&server, &["dev", "prod"]);
    policy(&server, "dev", "namespace \"dev\" { policy = \"read\" }");
    let dev = token(&server, 1, &["dev"], None);
    let seen = ask(&server, &dev, "GET /v1/namespaces").await;
    assert!(seen.contains("\"dev\"") && !seen.contains("\"prod\""), "{seen}");
    assert_eq!(ask(&server, &dev, "GET /v1/jobs?namespace=*").await, "200 []");
    assert_eq!(ask(&server, &dev, "GET /v1/jobs?namespace=prod").await, "403 Permission denied");
    assert_eq!(ask(&server, &dev, "GET /v1/namespace/prod").await, "403 Permission denied");
}

#[tokio::test]
async fn defect_1_node_secret_grants_only_what_nodes_need() {
    let server = Memory::guarded();
    let node = Node { id: NodeId::from(id(9)), secret_id: Secret::new(id(8).to_string()), ..Node::default() };
    server.run(RegisterNode { node, ..RegisterNode::default() });
    let secret = id(8).to_string();
    for (asked, expected) in [
        ("GET /v1/jobs", "403 Permission denied"),
        ("GET /v1/vars", "200 []"),
        ("GET /v1/var/a", "403 Permission denied"),
        ("GET /v1/operator/snapshot", "403 Permission denied"),
        ("PUT /v1/namespace {\"Name\": \"x\"}", "403 Permission denied"),
        ("GET /v1/agent/self", "403 ACL token not found"),
        ("GET /v1/services", "200 []"),
    ] {
        assert_eq!(ask(&server, &secret, asked).await, expected, "{asked}");
    }
    let own = ask(&server, &secret, &format!("GET /v1/node/{}", id(9))).await;
    assert!(own.starts_with("200 ") && !own.contains(&secret), "{own}");
}

#[tokio::test]
async fn blocking_query_is_refused_after_its_token_is_deleted() {
    let server = Memory::guarded();
    let all = token(&server, 1, &[], None);
    let index = server.view().applied_index();
    let before = server.watches().waiting();
    let (other, secret) = (Arc::clone(&server), all.clone());
    let query = tokio::spawn(async move { ask(&other, &secret, &format!("GET /v1/namespaces?index={index}")).await });
    while server.watches().waiting() == before {
        tokio::task::yield_now().await;
    }
    server.run(DeleteAclTokens { accessor_ids: vec![AccessorId::from(id(1))] });
    namespaces(&server, &["dev"]);
    assert_eq!(query.await.expect("answers"), "403 Permission denied");
}

#[tokio::test]
async fn defect_4_event_stream_shows_only_events_of_readable_namespaces() {
    let server = Memory::guarded();
    namespaces(&server, &["dev", "prod"]);
    policy(&server, "dev", "namespace \"dev\" { policy = \"read\" }");
    let (dev, all) = (token(&server, 1, &["dev"], None), token(&server, 2, &[], None));
    let stream = |secret: String, query: &'static str| {
        let server = Arc::clone(&server);
        async move { answer(&server, &shown(&secret, &format!("GET /v1/event/stream?{query}"))).await }
    };
    assert_eq!(stream(dev.clone(), "topic=Node").await.status(), 500);
    assert_eq!(stream(dev.clone(), "topic=Evaluation&namespace=prod").await.status(), 500);
    let of_dev = stream(dev, "topic=Evaluation&namespace=*").await;
    let of_all = stream(all, "topic=Evaluation&namespace=*").await;
    for namespace in ["prod", "dev"] {
        server.run(crate::stream::eval("web", namespace));
    }
    let mut readers = [(Reader::new(of_dev), &["dev"][..]), (Reader::new(of_all), &["prod", "dev"])];
    for (reader, sees) in &mut readers {
        assert_eq!(reader.line().await.as_deref(), Some("{}"));
        for namespace in *sees {
            let line = reader.line().await.expect("goes on");
            assert!(line.contains(&format!("\"Namespace\":\"{namespace}\"")), "{line}");
        }
    }
    server.run(DeleteAclTokens { accessor_ids: vec![AccessorId::from(id(1)), AccessorId::from(id(2))] });
    for (mut reader, _) in readers {
        let ended = reader.line().await;
        assert_eq!(ended.as_deref(), Some("subscription closed by server, client should resubscribe"));
    }
}

#[tokio::test]
async fn log_entry_records_the_accessor_of_the_writer() {
    let server = Memory::guarded();
    let all = token(&server, 1, &[], None);
    assert_eq!(ask(&server, &all, "PUT /v1/namespace {\"Name\": \"dev\"}").await, "200 ");
    assert_eq!(server.last_actor().to_string(), format!("token:{}", id(1)));
}

#[tokio::test]
async fn requests_are_counted_by_endpoint_operation_and_caller() {
    let server = Memory::guarded();
    let all = token(&server, 1, &[], None);
    for (caller, asked) in [
        (&*all, "GET /v1/jobs"),
        ("", "GET /v1/node/x"),
        ("5f7d9a52-0000-4000-8000-00000000dead", "PUT /v1/system/gc"),
        ("no secret", "GET /v1/jobs"),
        (&all, "GET /v1/metrics"),
    ] {
        ask(&server, caller, asked).await;
    }
    let own = format!("job.list token:{}", id(1));
    assert_eq!(server.served(), [&*own, "node.read token:anonymous", "system.write unauthenticated", "job.list "]);
    assert_eq!(
        server.answered(),
        ["GET /v1/jobs", "GET /v1/node/{}", "PUT /v1/system/gc", "GET /v1/jobs", "GET /v1/metrics"]
    );
}

#[tokio::test]
async fn requests_are_counted_under_the_endpoint_that_the_reference_uses() {
    let server = Memory::new();
    for asked in [
        "PUT /v1/job/web/periodic/force",
        "GET /v1/job/web/submission?version=0",
        "PUT /v1/job/web/plan {}",
        "GET /v1/volumes/external?plugin_id=none",
        "GET /v1/acl/tokens",
    ] {
        ask(&server, "", asked).await;
    }
    assert_eq!(
        server.served(),
        ["periodic.write ", "job_submission.read ", "job.write ", "csi_volume.list ", "acl.list "]
    );
}

#[tokio::test]
async fn identity_public_keys_are_readable_without_a_token() {
    let server = Memory::guarded();
    let key = server.keyring().fresh_key(false).expect("makes one");
    server.run(key);
    let expected = r#"200 {"keys":[{"use":"sig","kty":"OKP","kid":"09090909-0909-0909-0909-090909090909","crv":"Ed25519","alg":"EdDSA","x":"BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc"}]}"#;
    assert_eq!(ask(&server, "", "GET /v1/jwks.json").await, expected);
}
