//! Logins: at an OpenID provider, and with tokens of an issuer with published keys. The exact answers of the
//! reference are in the recorded conversations.

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use songline_api::Reads;
use songline_commands::{UpsertAclAuthMethods, UpsertAclBindingRules, UpsertAclPolicies, UpsertAclRoles};
use songline_model::{
    AclAuthMethod, AclAuthMethodKind, AclBindingRule, AclPolicy, AclRole, AclRolePolicyLink, BindingRuleId, Dur,
    RoleId, Time, TokenLocality,
};

use crate::provider::{NOW, Provider, jwk, signed};
use crate::server::{Memory, answer, text};

const REDIRECT: &str = "http://127.0.0.1:4649/oidc/callback";

/// Stores an auth method `corp` with this configuration.
fn method(server: &Memory, kind: AclAuthMethodKind, config: Option<Value>) {
    let method = AclAuthMethod {
        name: "corp".into(),
        kind,
        token_locality: TokenLocality::Local,
        max_token_ttl: Dur::from_hours(1),
        config: config.map(|config| serde_json::from_value(config).expect("a configuration")),
        create_time: Time::from_secs(1),
        modify_time: Time::from_secs(1),
        ..AclAuthMethod::default()
    };
    let hash = Some(method.compute_hash());
    server.run(UpsertAclAuthMethods { auth_methods: vec![AclAuthMethod { hash, ..method }] });
}

/// Stores a binding rule of `corp`.
fn rule(server: &Memory, nth: u8, selector: &str, kind: &str, name: &str) {
    let rule = AclBindingRule {
        id: BindingRuleId::from_bytes([nth; 16]),
        auth_method: "corp".into(),
        selector: selector.into(),
        bind_kind: kind.into(),
        bind_name: name.into(),
        create_time: Time::from_secs(1),
        modify_time: Time::from_secs(1),
        ..AclBindingRule::default()
    };
    let hash = Some(rule.compute_hash());
    server.run(UpsertAclBindingRules {
        binding_rules: vec![AclBindingRule { hash, ..rule }],
        allow_missing_auth_methods: false,
    });
}

/// Stores a policy `ops` and a role `admins` that has it.
fn targets(server: &Memory) {
    let policy = AclPolicy { name: "ops".into(), rules: "node { policy = \"read\" }".into(), ..AclPolicy::default() };
    let hash = Some(policy.compute_hash());
    server.run(UpsertAclPolicies { policies: vec![AclPolicy { hash, ..policy }] });
    let links = Some(vec![AclRolePolicyLink { name: "ops".into() }]);
    let role =
        AclRole { id: RoleId::from_bytes([8; 16]), name: "admins".into(), policies: links, ..AclRole::default() };
    let hash = Some(role.compute_hash());
    server.run(UpsertAclRoles { roles: vec![AclRole { hash, ..role }], allow_missing_policies: false });
}

fn oidc() -> Value {
    json!({
        "OIDCDiscoveryURL": "https://id.test",
        "OIDCClientID": "songline",
        "OIDCClientSecret": "hush&",
        "OIDCScopes": ["groups", "openid"],
        "AllowedRedirectURIs": [REDIRECT],
        "SigningAlgs": ["EdDSA"],
        "ClaimMappings": {"team": "team"},
        "ListClaimMappings": {"roles": "roles"},
    })
}

/// A server whose users log in at a provider.
fn corp(config: Value) -> (Arc<Memory>, Arc<Provider>) {
    let provider = Provider::new();
    let server = Memory::asking(Arc::clone(&provider) as _);
    method(&server, AclAuthMethodKind::Oidc, Some(config));
    targets(&server);
    rule(&server, 1, "", "policy", "${value.team}");
    rule(&server, 2, "admin in list.roles", "role", "admins");
    (server, provider)
}

async fn put(server: &Arc<Memory>, path: &str, body: &Value) -> (u16, String) {
    let response = answer(server, &format!("PUT {path} {body}")).await;
    (response.status().as_u16(), text(response).await)
}

async fn begin(server: &Arc<Memory>, nonce: &str) -> (u16, String) {
    let body = json!({"AuthMethodName": "corp", "RedirectURI": REDIRECT, "ClientNonce": nonce});
    let (code, text) = put(server, "/v1/acl/oidc/auth-url", &body).await;
    let url =
        serde_json::from_str::<Value>(&text).ok().and_then(|answer| answer["AuthURL"].as_str().map(str::to_owned));
    (code, url.unwrap_or(text))
}

fn callback(nonce: &str, state: &str) -> Value {
    json!({"AuthMethodName": "corp", "RedirectURI": REDIRECT, "ClientNonce": nonce, "State": state, "Code": "code"})
}

/// The relevant part of an answer with a token.
fn told((code, text): (u16, String)) -> String {
    match serde_json::from_str::<Value>(&text) {
        Ok(token) if code == 200 => {
            let roles: Vec<&str> =
                token["Roles"].as_array().into_iter().flatten().filter_map(|role| role["Name"].as_str()).collect();
            format!("200 {} {} policies {} roles {roles:?}", token["Name"], token["Type"], token["Policies"])
        }
        _ => format!("{code} {text}"),
    }
}

/// A complete login at a provider with these deviations.
async fn login(server: &Arc<Memory>, provider: &Provider, nonce: &str, bent: Value) -> String {
    provider.bend(bent);
    let (code, url) = begin(server, nonce).await;
    if code != 200 {
        return format!("{code} {url}");
    }
    let state = provider.visit(&url);
    told(put(server, "/v1/acl/oidc/complete-auth", &callback(nonce, &state)).await)
}

/// Each story is a set of the provider's deviations; the output has the outcome of a login at it.
async fn check(stories: Vec<Value>, expected: Expect) {
    let mut out = String::new();
    for bent in stories {
        let (server, provider) = corp(oidc());
        let shown: String = bent.to_string().chars().take(100).collect();
        out.push_str(&format!("{shown}\n    {}\n", login(&server, &provider, "n", bent).await));
    }
    expected.assert_eq(&out);
}

#[tokio::test]
async fn oidc_login_redirects_to_the_provider_and_returns_a_token() {
    let (server, provider) = corp(oidc());
    let (_, url) = begin(&server, "n&1").await;
    let state = provider.visit(&url);
    let challenge =
        url.split("code_challenge=").nth(1).and_then(|rest| rest.split('&').next()).expect("a challenge").to_owned();
    assert!(state.len() == 23 && challenge.len() == 43, "{url}");
    expect!["https://id.test/login?client_id=songline&code_challenge=CHALLENGE&code_challenge_method=S256&nonce=n%261&redirect_uri=http%3A%2F%2F127.0.0.1%3A4649%2Foidc%2Fcallback&response_type=code&scope=openid+groups&state=STATE"].assert_eq(&url.replace(&state, "STATE").replace(&challenge, "CHALLENGE"));
    let (code, body) = put(&server, "/v1/acl/oidc/complete-auth", &callback("n&1", &state)).await;
    assert_eq!(code, 200, "{body}");
    let token: Value = serde_json::from_str(&body).expect("a token");
    expect![[r#"{"ExpirationTTL":"1h0m0s","AccessorID":"00000000-0000-0001-8000-000000000001","SecretID":"00000000-0000-0002-8000-000000000001","Name":"OIDC-corp","Type":"client","Policies":["ops"],"Roles":[{"ID":"08080808-0808-0808-0808-080808080808","Name":"admins"}],"Global":false,"Hash":"ayWESYsjpzY3WoLb6D1G2MkbXrTwG9/TcPj9MrDOxCs=","CreateTime":"2023-11-14T22:13:27Z","ExpirationTime":"2023-11-14T23:13:27Z","CreateIndex":7,"ModifyIndex":7}"#]].assert_eq(&token.to_string());
    expect![[r#"
        GET /.well-known/openid-configuration
        POST /token
        GET /keys
        GET /user"#]]
    .assert_eq(&provider.asked());
    let secret = token["SecretID"].as_str().expect("a secret");
    let nodes = answer(&server, &format!("GET /v1/nodes [x-nomad-token: {secret}]")).await;
    assert_eq!(nodes.status(), 200);
}

#[tokio::test]
async fn invalid_answers_of_the_oidc_provider_fail_the_login() {
    check(
        vec![
            json!({}),
            json!({"claims": {"nonce": "other"}}),
            json!({"claims": {"nonce": null}}),
            json!({"claims": {"exp": NOW - 3600}}),
            json!({"claims": {"iat": NOW + 3600}}),
            json!({"claims": {"aud": "other"}}),
            json!({"claims": {"aud": ["songline", "other"], "azp": "other"}}),
            json!({"claims": {"iss": "https://elsewhere"}}),
            json!({"claims": {"sub": null}}),
            json!({"claims": {"at_hash": "x"}}),
            json!({"header": {"alg": "none"}}),
            json!({"header": {"alg": "HS256"}}),
            json!({"header": {"alg": "RS256"}}),
            json!({"header": {"by": 2}}),
            json!({"header": {"by": 2, "kid": "key-2"}}),
            json!({"header": {"kid": null}}),
            json!({"keys": {"keys": null}}),
            json!({"keys": {"more": "x".repeat(600_000)}}),
            json!({"tokens": {"id_token": null}}),
            json!({"tokens": {"id_token": "x.y"}}),
            json!({"tokens": {"id_token": "x".repeat(1_100_000)}}),
            json!({"tokens": {"access_token": null}}),
            json!({"user": {"sub": "eve"}}),
            json!({"user": {"more": "x".repeat(600_000)}}),
            json!({"user": {"iss": "https://elsewhere", "team": "dev"}}),
            json!({"user": {"team": "dev", "roles": []}}),
            json!({"user": {"team": ["ops"]}}),
            json!({"broken": "/token"}),
            json!({"broken": "/keys"}),
            json!({"broken": "/user"}),
            json!({"broken": "/.well-known/openid-configuration"}),
            json!({"document": {"issuer": "https://elsewhere"}}),
            json!({"document": {"token_endpoint": "http://id.test/token"}}),
            json!({"document": {"token_endpoint": "file:///etc/passwd"}}),
            json!({"document": {"more": "x".repeat(300_000)}}),
            json!({"document": {"userinfo_endpoint": null}, "claims": {"team": "ops"}}),
            json!({"document": {"code_challenge_methods_supported": null}}),
            json!({"document": {"token_endpoint_auth_methods_supported": ["client_secret_post"]}}),
        ],
        expect![[r#"
            {}
                200 "OIDC-corp" "client" policies ["ops"] roles ["admins"]
            {"claims":{"nonce":"other"}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token nonce: invalid nonce
            {"claims":{"nonce":null}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token nonce: invalid nonce
            {"claims":{"exp":1699996400}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token: invalid expiration time (exp) claim: token is expired
            {"claims":{"iat":1700003600}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token: invalid issued at (iat) claim: token issued in the future
            {"claims":{"aud":"other"}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token audiences: invalid audience
            {"claims":{"aud":["songline","other"],"azp":"other"}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token authorized party: invalid authorized party
            {"claims":{"iss":"https://elsewhere"}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token issuer: expected "https://id.test" got "https://elsewhere": invalid issuer
            {"claims":{"sub":null}}
                401 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token subject: sub claim is missing
            {"claims":{"at_hash":"x"}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid access_token hash: invalid at_hash
            {"header":{"alg":"none"}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token signature: invalid signature
            {"header":{"alg":"HS256"}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token signature: invalid signature
            {"header":{"alg":"RS256"}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token signature: invalid signature
            {"header":{"by":2}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token signature: invalid signature
            {"header":{"by":2,"kid":"key-2"}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token signature: invalid signature
            {"header":{"kid":null}}
                200 "OIDC-corp" "client" policies ["ops"] roles ["admins"]
            {"keys":{"keys":null}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: fetching keys Get "https://id.test/keys": answer is no key set
            {"keys":{"more":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: fetching keys Get "https://id.test/keys": answer is longer than 524288 bytes
            {"tokens":{"id_token":null}}
                500 failed to exchange token with provider: Provider.Exchange: id_token is missing from auth code exchange: id_token is missing
            {"tokens":{"id_token":"x.y"}}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: invalid id_token: error verifying token signature: square/go-jose: compact JWS format must have three parts
            {"tokens":{"id_token":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                500 failed to exchange token with provider: Provider.Exchange: unable to exchange auth code with provider: Post "https://id.test/token": answer is longer than 1048576 bytes
            {"tokens":{"access_token":null}}
                500 computed "policy" bind name for bind target is invalid: ""
            {"user":{"sub":"eve"}}
                500 failed to retrieve the user info claims: Provider.UserInfo: sub of the user info is not that of the id_token: invalid subject
            {"user":{"more":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                500 failed to retrieve the user info claims: Get "https://id.test/user": answer is longer than 524288 bytes
            {"user":{"iss":"https://elsewhere","team":"dev"}}
                200 "OIDC-corp" "client" policies [] roles ["admins"]
            {"user":{"team":"dev","roles":[]}}
                400 no role or policy bindings matched
            {"user":{"team":["ops"]}}
                500 error converting claim 'team' to string from unknown type []interface {}
            {"broken":"/token"}
                500 failed to exchange token with provider: Provider.Exchange: unable to exchange auth code with provider: Post "https://id.test/token": unexpected status 500: out of service
            {"broken":"/keys"}
                500 failed to exchange token with provider: Provider.Exchange: id_token failed verification: Provider.VerifyIDToken: fetching keys Get "https://id.test/keys": unexpected status 500: out of service
            {"broken":"/user"}
                500 failed to retrieve the user info claims: Get "https://id.test/user": unexpected status 500: out of service
            {"broken":"/.well-known/openid-configuration"}
                500 failed to generate OIDC provider: NewProvider: unable to create provider: Get "https://id.test/.well-known/openid-configuration": unexpected status 500: out of service
            {"document":{"issuer":"https://elsewhere"}}
                500 failed to generate OIDC provider: NewProvider: unable to create provider: oidc: issuer did not match the issuer returned by provider, expected "https://id.test" got "https://elsewhere"
            {"document":{"token_endpoint":"http://id.test/token"}}
                500 failed to generate OIDC provider: NewProvider: unable to create provider: oidc: token_endpoint "http://id.test/token" of the provider has a scheme that is not allowed
            {"document":{"token_endpoint":"file:///etc/passwd"}}
                500 failed to generate OIDC provider: NewProvider: unable to create provider: oidc: token_endpoint "file:///etc/passwd" of the provider has a scheme that is not allowed
            {"document":{"more":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                500 failed to generate OIDC provider: NewProvider: unable to create provider: Get "https://id.test/.well-known/openid-configuration": answer is longer than 262144 bytes
            {"document":{"userinfo_endpoint":null},"claims":{"team":"ops"}}
                200 "OIDC-corp" "client" policies ["ops"] roles []
            {"document":{"code_challenge_methods_supported":null}}
                200 "OIDC-corp" "client" policies ["ops"] roles ["admins"]
            {"document":{"token_endpoint_auth_methods_supported":["client_secret_post"]}}
                200 "OIDC-corp" "client" policies ["ops"] roles ["admins"]
        "#]],
    )
    .await;
}

#[tokio::test]
async fn defect_25_oidc_login_completes_once_with_its_own_state_nonce_and_redirect() {
    let (server, provider) = corp(oidc());
    let mut out = String::new();
    let mut tell = |what: &str, answer: String| out.push_str(&format!("{what}\n    {answer}\n"));
    let path = "/v1/acl/oidc/complete-auth";
    tell("never begun", told(put(&server, path, &callback("n", "st_made_up")).await));
    let state = provider.visit(&begin(&server, "n").await.1);
    let (code, again) = begin(&server, "n").await;
    tell("the nonce a second time", format!("{code} {again}"));
    tell("with another's nonce", told(put(&server, path, &callback("m", &state)).await));
    tell("as it began", told(put(&server, path, &callback("n", &state)).await));
    tell("replayed", told(put(&server, path, &callback("n", &state)).await));
    let state = provider.visit(&begin(&server, "n").await.1);
    tell("with a state made up", told(put(&server, path, &callback("n", "st_made_up")).await));
    tell("and then the right one", told(put(&server, path, &callback("n", &state)).await));
    let state = provider.visit(&begin(&server, "n").await.1);
    let mut elsewhere = callback("n", &state);
    elsewhere["RedirectURI"] = json!("http://127.0.0.1:4650/oidc/callback");
    tell("to another port", told(put(&server, path, &elsewhere).await));
    let body = json!({"AuthMethodName": "corp", "RedirectURI": "http://evil.test/oidc/callback", "ClientNonce": "n"});
    tell("to somebody else", told(put(&server, "/v1/acl/oidc/auth-url", &body).await));
    let body = json!({"AuthMethodName": "corp", "RedirectURI": "http://127.0.0.1:9/oidc/callback", "ClientNonce": "p"});
    let (code, _) = put(&server, "/v1/acl/oidc/auth-url", &body).await;
    tell("to another port of this machine", code.to_string());
    let body = json!({"AuthMethodName": "corp", "RedirectURI": "http://127.0.0.1:9@evil.test/oidc/callback", "ClientNonce": "q"});
    tell("to somebody else in disguise", told(put(&server, "/v1/acl/oidc/auth-url", &body).await));
    let body = json!({"AuthMethodName": "corp", "RedirectURI": REDIRECT, "ClientNonce": "x".repeat(3000)});
    tell("with a very long nonce", told(put(&server, "/v1/acl/oidc/auth-url", &body).await));
    expect![[r#"
        never begun
            400 no OIDC request found for client nonce
        the nonce a second time
            400 nonce reuse detected
        with another's nonce
            400 no OIDC request found for client nonce
        as it began
            200 "OIDC-corp" "client" policies ["ops"] roles ["admins"]
        replayed
            400 no OIDC request found for client nonce
        with a state made up
            500 failed to exchange token with provider: Provider.Exchange: authentication request state and authorization state are not equal: invalid response state
        and then the right one
            400 no OIDC request found for client nonce
        to another port
            500 failed to exchange token with provider: Provider.Exchange: Provider.validRedirect: redirect URI http://127.0.0.1:4650/oidc/callback: unauthorized redirect_uri
        to somebody else
            500 failed to generate auth URL: Provider.AuthURL: Provider.validRedirect: redirect URI http://evil.test/oidc/callback: unauthorized redirect_uri
        to another port of this machine
            200
        to somebody else in disguise
            500 failed to generate auth URL: Provider.AuthURL: Provider.validRedirect: redirect URI http://127.0.0.1:9@evil.test/oidc/callback: unauthorized redirect_uri
        with a very long nonce
            400 client nonce is longer than 2048 bytes
    "#]].assert_eq(&out);
}

/// A server that verifies tokens by the keys at a URL.
fn by_keys() -> (Arc<Memory>, Arc<Provider>) {
    let provider = Provider::new();
    let server = Memory::asking(Arc::clone(&provider) as _);
    let config =
        json!({"JWKSURL": "https://id.test/keys", "SigningAlgs": ["EdDSA"], "ClaimMappings": {"team": "team"}});
    method(&server, AclAuthMethodKind::Jwt, Some(config));
    targets(&server);
    rule(&server, 1, "", "policy", "${value.team}");
    (server, provider)
}

async fn show(server: &Arc<Memory>, header: Value) -> String {
    let token = signed(&header, &json!({"sub": "ann", "team": "ops", "iat": NOW, "exp": NOW + 3600}));
    told(put(server, "/v1/acl/login", &json!({"AuthMethodName": "corp", "LoginToken": token})).await)
}

#[tokio::test(start_paused = true)]
async fn jwks_keys_are_fetched_only_when_needed() {
    let (server, provider) = by_keys();
    let mut out = String::new();
    let mut tell = |what: &str, answer: String| {
        out.push_str(&format!("{what}: {answer}\n"));
        for line in provider.asked().lines() {
            out.push_str(&format!("    {line}\n"));
        }
    };
    let key = |nth: u8| json!({"alg": "EdDSA", "kid": format!("key-{nth}"), "by": nth});
    tell(
        "no token at all",
        told(put(&server, "/v1/acl/login", &json!({"AuthMethodName": "corp", "LoginToken": "x"})).await),
    );
    tell("the first", show(&server, key(1)).await);
    tell("the second", show(&server, key(1)).await);
    tell("signed by another", show(&server, json!({"alg": "EdDSA", "kid": "key-1", "by": 2})).await);
    tell("by an unknown key", show(&server, key(2)).await);
    provider.bend(json!({"keys": {"keys": [jwk(1), jwk(2)]}}));
    tokio::time::advance(Duration::from_secs(11)).await;
    tell("by a new key", show(&server, key(2)).await);
    tell("by an unknown key", show(&server, key(3)).await);
    provider.bend(json!({"broken": "/keys"}));
    tokio::time::advance(Duration::from_secs(3601)).await;
    tell("the keys are old", show(&server, key(1)).await);
    tell("at once again", show(&server, key(1)).await);
    provider.bend(json!({"keys": {"keys": [jwk(2)]}}));
    tokio::time::advance(Duration::from_secs(2)).await;
    tell("a key that is gone", show(&server, key(1)).await);
    tell("a key that is there", show(&server, key(2)).await);
    expect![[r#"
        no token at all: 401 unable to validate provided token: unable to verify signature of JWT token: error verifying token signature: square/go-jose: compact JWS format must have three parts
        the first: 200 "JWT-corp" "client" policies ["ops"] roles []
            GET /keys
        the second: 200 "JWT-corp" "client" policies ["ops"] roles []
        signed by another: 401 unable to validate provided token: unable to verify signature of JWT token: error verifying token signature: failed to verify id token signature
        by an unknown key: 401 unable to validate provided token: unable to verify signature of JWT token: error verifying token signature: failed to verify id token signature
        by a new key: 200 "JWT-corp" "client" policies ["ops"] roles []
            GET /keys
        by an unknown key: 401 unable to validate provided token: unable to verify signature of JWT token: error verifying token signature: failed to verify id token signature
        the keys are old: 401 unable to validate provided token: unable to verify signature of JWT token: error verifying token signature: fetching keys Get "https://id.test/keys": unexpected status 500: out of service
            GET /keys
        at once again: 401 unable to validate provided token: unable to verify signature of JWT token: error verifying token signature: fetching keys Get "https://id.test/keys": unexpected status 500: out of service
        a key that is gone: 401 unable to validate provided token: unable to verify signature of JWT token: error verifying token signature: failed to verify id token signature
            GET /keys
        a key that is there: 200 "JWT-corp" "client" policies ["ops"] roles []
    "#]].assert_eq(&out);
}

#[tokio::test]
async fn auth_method_without_config_accepts_no_login() {
    let server = Memory::asking(Provider::new());
    method(&server, AclAuthMethodKind::Jwt, None);
    assert_eq!(show(&server, json!({"alg": "EdDSA"})).await, "400 missing auth method Config");
    method(&server, AclAuthMethodKind::Jwt, Some(json!({})));
    assert_eq!(
        show(&server, json!({"alg": "EdDSA"})).await,
        "401 unable to validate provided token: keySet must not be nil"
    );
    let server = Memory::asking(Provider::new());
    method(&server, AclAuthMethodKind::Oidc, None);
    assert_eq!(begin(&server, "n").await, (400, "missing auth method Config".to_owned()));
    let back = put(&server, "/v1/acl/oidc/complete-auth", &callback("n", "s")).await;
    assert_eq!(back, (400, "missing auth method Config".to_owned()));
}

#[tokio::test]
async fn one_unusable_static_key_refuses_every_login() {
    let server = Memory::asking(Provider::new());
    let refused = "401 unable to validate provided token: unable to parse public key for JWT auth: \
                   data does not contain any valid RSA or ECDSA public keys";
    for key in ["junk", "-----BEGIN X-----\nMAA=\n-----END X-----"] {
        // The other sources of keys are not asked.
        let config = json!({"JWTValidationPubKeys": [key], "JWKSURL": "https://id.test/keys"});
        method(&server, AclAuthMethodKind::Jwt, Some(config));
        assert_eq!(show(&server, json!({"alg": "EdDSA"})).await, refused);
        let malformed = json!({"AuthMethodName": "corp", "LoginToken": "x"});
        assert_eq!(told(put(&server, "/v1/acl/login", &malformed).await), refused);
    }
}

#[tokio::test]
async fn login_repeated_under_one_idempotency_key_creates_one_token() {
    let (server, _) = by_keys();
    let token =
        signed(&json!({"alg": "EdDSA", "kid": "key-1"}), &json!({"team": "ops", "iat": NOW, "exp": NOW + 3600}));
    let body = json!({"AuthMethodName": "corp", "LoginToken": token});
    let line = format!("PUT /v1/acl/login [idempotency-key: one] {body}");
    let first = text(answer(&server, &line).await).await;
    let second = text(answer(&server, &line).await).await;
    assert_eq!(first, second);
    let tokens: Vec<_> = server.view().acl_tokens().cloned().collect();
    assert_eq!(tokens.len(), 1, "{first}");
    // The accessor id is derived from the idempotency key; the secret is not.
    assert_ne!(tokens[0].secret_id.reveal(), tokens[0].accessor_id.to_string());
}
