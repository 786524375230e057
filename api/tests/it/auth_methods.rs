//! Auth methods and binding rules that differ from the reference on purpose: secrets are not shown, and every change
//! is stored. The rest is in the recorded conversations.

use songline_api::Reads;
use songline_commands::UpsertAclTokens;
use songline_model::{AccessorId, AclToken, AclTokenKind, SecretId, Time};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::server::{Memory, answer, parsed, text};

const SECRET: &str = "5ec2e75e-c2e7-5ec2-e75e-c2e75ec2e75e";

/// A server and a management token.
fn guarded() -> Arc<Memory> {
    let server = Memory::guarded();
    let token = AclToken {
        accessor_id: AccessorId::from_bytes([1; 16]),
        secret_id: SECRET.parse::<SecretId>().expect("a secret"),
        kind: AclTokenKind::Management,
        create_time: Time::from_secs(1),
        ..AclToken::default()
    };
    let hash = Some(token.compute_hash());
    server.run(UpsertAclTokens { tokens: vec![AclToken { hash, ..token }] });
    server
}

async fn ask(server: &Arc<Memory>, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    parsed(answer(server, &format!("{method} {path} [x-nomad-token: {SECRET}] {body}")).await).await
}

fn corp() -> Value {
    let config = json!({"OIDCDiscoveryURL": "https://id.test", "OIDCClientID": "songline", "OIDCClientSecret": "hush"});
    json!({"Name": "corp", "Type": "OIDC", "TokenLocality": "local", "MaxTokenTTL": "1h", "Config": config})
}

fn stored_secret(server: &Memory) -> String {
    let view = server.view();
    let method = view.acl_auth_method("corp").expect("a method");
    method.config.as_ref().map(|config| config.oidc_client_secret.reveal().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn defect_3_client_secret_is_stored_and_never_returned() {
    let server = guarded();
    let (code, made) = ask(&server, "PUT", "/v1/acl/auth-method", corp()).await;
    assert_eq!((code, &made["Config"]["OIDCClientSecret"]), (200, &json!("redacted")));
    let (_, mut read) = ask(&server, "GET", "/v1/acl/auth-method/corp", Value::Null).await;
    assert_eq!(read["Config"]["OIDCClientSecret"], "redacted");
    assert_eq!(stored_secret(&server), "hush");
    // A caller that sends back the answer of a read keeps the secret, and the leeways in their numeric form.
    read["Config"]["OIDCClientID"] = json!("other");
    let (code, changed) = ask(&server, "PUT", "/v1/acl/auth-method/corp", read).await;
    assert_eq!((code, &changed["Config"]["OIDCClientID"]), (200, &json!("other")));
    assert_eq!(stored_secret(&server), "hush");
    let mut other = corp();
    other["Config"]["OIDCClientSecret"] = json!("psst");
    ask(&server, "PUT", "/v1/acl/auth-method/corp", other).await;
    assert_eq!(stored_secret(&server), "psst");
}

#[tokio::test]
async fn auth_method_update_stores_a_change_of_any_field() {
    let server = guarded();
    ask(&server, "PUT", "/v1/acl/auth-method", corp()).await;
    let changes = [
        ("BoundIssuer", json!(["a"])),
        ("JWKSURL", json!("https://a")),
        ("JWKSCACert", json!("a")),
        ("JWTValidationPubKeys", json!(["a"])),
        ("OIDCScopes", json!(["a"])),
        ("ExpirationLeeway", json!("1s")),
        ("NotBeforeLeeway", json!("2s")),
        ("ClockSkewLeeway", json!(3_000_000_000_u64)),
        ("ClaimMappings", json!({"a": "b"})),
        ("ListClaimMappings", json!({"a": "b"})),
    ];
    for (field, value) in changes {
        let (_, before) = ask(&server, "GET", "/v1/acl/auth-method/corp", Value::Null).await;
        let mut method = before.clone();
        method["Config"][field] = value.clone();
        let (code, after) = ask(&server, "PUT", "/v1/acl/auth-method/corp", method).await;
        assert_eq!(code, 200, "{field}: {after}");
        assert_ne!(after["Config"][field], before["Config"][field], "{field}");
        assert!(after["ModifyIndex"].as_u64() > before["ModifyIndex"].as_u64(), "{field}");
        assert_eq!(after["CreateIndex"], before["CreateIndex"], "{field}");
    }
}

#[tokio::test]
async fn binding_rule_update_clears_an_omitted_selector_but_keeps_the_auth_method() {
    let server = guarded();
    ask(&server, "PUT", "/v1/acl/auth-method", corp()).await;
    let rule = json!({"AuthMethod": "corp", "BindType": "policy", "BindName": "p", "Selector": "value.a == b", "Description": "d"});
    let (_, made) = ask(&server, "PUT", "/v1/acl/binding-rule", rule).await;
    let path = format!("/v1/acl/binding-rule/{}", made["ID"].as_str().expect("an id"));
    let (code, changed) = ask(&server, "PUT", &path, json!({"BindName": "q"})).await;
    let told = ["AuthMethod", "BindType", "BindName", "Selector", "Description"]
        .map(|field| changed[field].as_str().unwrap_or("?"));
    assert_eq!((code, told), (200, ["corp", "policy", "q", "", ""]));
    let mut other = corp();
    other["Name"] = json!("other");
    ask(&server, "PUT", "/v1/acl/auth-method", other).await;
    let (code, answer) = ask(&server, "PUT", &path, json!({"AuthMethod": "other"})).await;
    assert_eq!((code, answer), (400, json!("cannot update auth method for binding rule, create a new rule instead")));
    let (code, answer) = ask(&server, "PUT", &path, json!({"ID": "00000000-0000-0000-0000-00000000dead"})).await;
    assert_eq!((code, answer), (400, json!("ACL binding rule ID does not match request path")));
}

#[tokio::test]
async fn login_routes_are_refused_when_acls_are_disabled() {
    let server = Memory::new();
    for line in [
        "GET /v1/acl/auth-methods",
        "PUT /v1/acl/login {}",
        "PUT /v1/acl/oidc/auth-url {}",
        "GET /v1/acl/binding-rules",
    ] {
        let response = answer(&server, line).await;
        assert_eq!((response.status().as_u16(), &*text(response).await), (400, "ACL support disabled"), "{line}");
    }
}
