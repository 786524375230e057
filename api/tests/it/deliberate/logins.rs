//! Auth methods and logins.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::World;
use crate::provider::{NOW, public_key, signed};

/// The public key of the tests as PEM, as operators configure it.
fn pem() -> String {
    // SubjectPublicKeyInfo of Ed25519: these twelve bytes and the key (RFC 8410).
    let mut spki = vec![0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
    spki.extend(public_key(1));
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(spki))
}

fn jwt(config: Value) -> Value {
    json!({"Name": "corp", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "1h", "Config": config})
}

#[tokio::test]
async fn auth_login_algorithms() {
    let world = World::guarded().await;
    let config = json!({"JWTValidationPubKeys": [pem()], "SigningAlgs": ["EdDSA"], "ClaimMappings": {"team": "team"}});
    world.done("PUT /v1/acl/auth-method", jwt(config)).await;
    world.done("PUT /v1/acl/policy/ops", json!({"Name": "ops", "Rules": "node { policy = \"read\" }"})).await;
    let rule = json!({"AuthMethod": "corp", "BindType": "policy", "BindName": "ops", "Selector": "value.team == ops"});
    world.done("PUT /v1/acl/binding-rule", rule).await;
    let claims = json!({"team": "ops", "iat": NOW, "exp": NOW + 3600});
    let login = |token: String| {
        let world = &world;
        async move { world.ask("", "POST /v1/acl/login", json!({"AuthMethodName": "corp", "LoginToken": token})).await }
    };
    let (status, said) = login(signed(&json!({"alg": "EdDSA"}), &claims)).await;
    assert_eq!((status, &said["Policies"]), (200, &json!(["ops"])), "{said}");
    let (status, said) = login(signed(&json!({"alg": "EdDSA", "by": 2}), &claims)).await;
    assert_eq!(status, 401, "another's signature: {said}");
}

#[tokio::test]
async fn auth_method_oidc() {
    let world = World::guarded().await;
    let config = json!({
        "OIDCDiscoveryURL": "https://id.test", "OIDCClientID": "songline", "OIDCClientSecret": "hush-hush",
        "AllowedRedirectURIs": ["http://127.0.0.1:4649/oidc/callback"],
    });
    let method =
        json!({"Name": "corp", "Type": "OIDC", "TokenLocality": "local", "MaxTokenTTL": "1h", "Config": config});
    let made = world.done("PUT /v1/acl/auth-method", method).await;
    let read = world.done("GET /v1/acl/auth-method/corp", Value::Null).await;
    let updated = world.done("PUT /v1/acl/auth-method/corp", json!({"Name": "corp", "MaxTokenTTL": "2h"})).await;
    for shown in [made, read, updated] {
        assert_eq!(shown["Config"]["OIDCClientSecret"], "redacted");
        assert!(!shown.to_string().contains("hush-hush"), "{shown}");
    }
}

#[tokio::test]
async fn auth_method_hash_blind() {
    let world = World::guarded().await;
    let config = json!({
        "JWTValidationPubKeys": [pem()], "BoundIssuer": ["a"], "BoundAudiences": ["a"], "SigningAlgs": ["EdDSA"],
        "ClaimMappings": {"a": "a"}, "ListClaimMappings": {"b": "b"}, "ExpirationLeeway": "1m0s", "NotBeforeLeeway": "1m0s",
        "ClockSkewLeeway": "1m0s",
    });
    world.done("PUT /v1/acl/auth-method", jwt(config.clone())).await;
    let changes = [
        ("BoundIssuer", json!(["b"])),
        ("BoundAudiences", json!(["b"])),
        ("SigningAlgs", json!(["RS256", "EdDSA"])),
        ("ClaimMappings", json!({"a": "other"})),
        ("ListClaimMappings", json!({"b": "other"})),
        ("ExpirationLeeway", json!("2m0s")),
        ("NotBeforeLeeway", json!("2m0s")),
        ("ClockSkewLeeway", json!("2m0s")),
    ];
    let mut before = config;
    for (field, value) in changes {
        before[field] = value.clone();
        world.done("PUT /v1/acl/auth-method/corp", jwt(before.clone())).await;
        let stored = world.done("GET /v1/acl/auth-method/corp", Value::Null).await;
        assert_eq!(stored["Config"][field], value, "{field}");
    }
    for (field, value) in
        [("TokenLocality", json!("global")), ("MaxTokenTTL", json!("3h0m0s")), ("Default", json!(true))]
    {
        let mut method = jwt(before.clone());
        method[field] = value.clone();
        world.done("PUT /v1/acl/auth-method/corp", method).await;
        assert_eq!(world.done("GET /v1/acl/auth-method/corp", Value::Null).await[field], value, "{field}");
    }
}
