//! Tokens and policies.

use serde_json::{Value, json};

use super::World;
use crate::acl::ALL;

/// Namespaces `seen` and `hidden` with a job each, and a token that may read the first.
async fn two_namespaces() -> (World, String) {
    let world = World::guarded().await;
    for (namespace, job) in [("hidden", "web-hidden"), ("seen", "web-seen")] {
        world.namespace(namespace).await;
        world.job(namespace, job).await;
    }
    let rules = r#"namespace "seen" { policy = "read" variables { path "web/s*" { capabilities = ["list"] } } }"#;
    let secret = world.token("seen", rules).await;
    (world, secret)
}

#[tokio::test]
async fn acl_enforce_search_all_namespaces() {
    let (world, secret) = two_namespaces().await;
    let everywhere = "/v1/search?namespace=*";
    let of_seen = world.done("GET /v1/evaluations?namespace=seen", Value::Null).await[0]["ID"].clone();
    assert_eq!(
        world.found(&secret, everywhere, json!({"Prefix": "", "Context": "jobs"})).await["jobs"],
        json!(["web-seen"])
    );
    assert_eq!(
        world.found(&secret, everywhere, json!({"Prefix": "", "Context": "evals"})).await["evals"],
        json!([of_seen])
    );
    let all = world.found(ALL, everywhere, json!({"Prefix": "", "Context": "jobs"})).await;
    assert_eq!(all["jobs"].as_array().map(Vec::len), Some(2), "a management token finds both");
    let fuzzy = world.found(&secret, "/v1/search/fuzzy?namespace=*", json!({"Text": "web", "Context": "jobs"})).await;
    assert_eq!(fuzzy["jobs"], json!([{"ID": "web-seen", "Scope": ["seen", "web-seen"]}]));
}

/// Variables at three paths; the token may list one of them.
async fn variables() -> (World, String) {
    let (world, secret) = two_namespaces().await;
    world.done("PUT /v1/operator/keyring/rotate", Value::Null).await;
    for (namespace, path) in [("seen", "web/shared"), ("seen", "web/other"), ("hidden", "web/secret")] {
        world.done(&format!("PUT /v1/var/{path}?namespace={namespace}"), json!({"Items": {"k": "v"}})).await;
    }
    (world, secret)
}

#[tokio::test]
async fn acl_enforce_search_variables() {
    let (world, secret) = variables().await;
    for namespace in ["*", "seen"] {
        let body = json!({"Prefix": "web", "Context": "vars"});
        let found = world.found(&secret, &format!("/v1/search?namespace={namespace}"), body).await;
        assert_eq!(found["vars"], json!(["web/shared"]), "namespace {namespace}");
    }
}

#[tokio::test]
async fn variables_acl_list() {
    let (world, secret) = variables().await;
    let found = world.found(&secret, "/v1/search?namespace=*", json!({"Prefix": "web/o", "Context": "vars"})).await;
    assert_eq!(found["vars"], Value::Null, "the path of a namespace in which the token may list another path");
    let found = world.found(&secret, "/v1/search/fuzzy?namespace=*", json!({"Text": "web", "Context": "vars"})).await;
    assert_eq!(found["vars"], json!([{"ID": "web/shared", "Scope": ["seen", "web/shared"]}]));
}

#[tokio::test]
async fn acl_enforce_volume_namespace_check() {
    let world = World::guarded().await;
    world.namespace("dev").await;
    let secret = world.token("dev", r#"namespace "dev" { policy = "write" } plugin { policy = "read" }"#).await;
    for path in ["/v1/volumes", "/v1/volume/csi/v", "/v1/volume/csi/v/create"] {
        let volume = json!({"Volumes": [{"ID": "v", "Namespace": "default", "PluginID": "p"}]});
        let (status, said) = world.ask(&secret, &format!("PUT {path}?namespace=dev"), volume).await;
        assert_eq!((status, said.as_str()), (403, Some("Permission denied")), "{path}");
    }
    assert_eq!(world.ask(ALL, "GET /v1/volume/csi/v", Value::Null).await.0, 404, "nothing is stored");
}

#[tokio::test]
async fn acl_token_expiry() {
    let world = World::guarded().await;
    let made =
        world.done("POST /v1/acl/token", json!({"Name": "a", "Type": "management", "ExpirationTTL": "1h"})).await;
    let target = format!("/v1/acl/token/{}", made["AccessorID"].as_str().expect("an accessor"));
    let update =
        json!({"AccessorID": made["AccessorID"], "Name": "b", "Type": "management", "ExpirationTTL": "1h0m0s"});
    world.done(&format!("PUT {target}"), update).await;
    let kept = world.done(&format!("GET {target}"), Value::Null).await;
    assert_eq!((&kept["Name"], &kept["ExpirationTime"]), (&json!("b"), &made["ExpirationTime"]));
    let secret = made["SecretID"].as_str().expect("a secret");
    assert_eq!(world.ask(secret, "GET /v1/jobs", Value::Null).await.0, 200);
    world.server.pass_minutes(120);
    assert_eq!(world.ask(secret, "GET /v1/jobs", Value::Null).await.0, 403, "the updated token still expires");
}

#[tokio::test]
async fn acl_enforce_token_expired() {
    let world = World::guarded().await;
    let made =
        world.done("POST /v1/acl/token", json!({"Name": "a", "Type": "management", "ExpirationTTL": "1m"})).await;
    let secret = made["SecretID"].as_str().expect("a secret");
    let (_, once) = world.ask(secret, "PUT /v1/acl/token/onetime", Value::Null).await;
    world.server.pass_minutes(2);
    let expired = |(status, said): (u16, Value)| assert_eq!((status, said.as_str()), (403, Some("ACL token expired")));
    expired(world.ask(secret, "GET /v1/acl/token/self", Value::Null).await);
    expired(world.ask(secret, "PUT /v1/acl/token/onetime", Value::Null).await);
    let exchange = json!({"OneTimeSecretID": once["OneTimeToken"]["OneTimeSecretID"]});
    expired(world.ask("", "PUT /v1/acl/token/onetime/exchange", exchange).await);
    assert_eq!(world.ask(secret, "GET /v1/jobs", Value::Null).await.0, 403);
}
