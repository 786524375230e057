//! Logins at an identity provider on a real port, over TLS: the server's requests, its trust in certificates, and its
//! size limits. Not here: invalid answers of a provider, which tests of the API cover.

mod provider;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::{Agent, Setup};
use crate::http::{self, Answer, Request};
use crate::story::{Story, WITHIN};
use provider::{AUTHORITY, CLIENT, Provider};

const REDIRECT: &str = "http://127.0.0.1:4649/oidc/callback";

/// An agent with ACLs, and its first token.
struct Guarded {
    story: Story,
    token: String,
}

impl Guarded {
    fn start() -> Result<Guarded> {
        let story = Story { agent: Agent::start(&Setup { acl: true, ..Setup::dev() })? };
        let mut guarded = Guarded { story, token: String::new() };
        let first = guarded.ask("POST", "/v1/acl/bootstrap", &Value::Null)?.json()?;
        guarded.token = first["SecretID"].as_str().context("a secret")?.to_owned();
        let policy = json!({"Name": "ops", "Rules": "node { policy = \"read\" }"});
        ensure!(guarded.ask("PUT", "/v1/acl/policy/ops", &policy)?.head.status == 200);
        Ok(guarded)
    }

    fn ask(&self, method: &str, target: &str, body: &Value) -> Result<Answer> {
        self.ask_as(&self.token, method, target, body)
    }

    fn ask_as(&self, token: &str, method: &str, target: &str, body: &Value) -> Result<Answer> {
        let mut request = Request::new(method, target);
        if !token.is_empty() {
            request = request.header("X-Nomad-Token", token);
        }
        if !body.is_null() {
            request = request.json(body);
        }
        Ok(http::call(self.story.http(), &request, Instant::now() + WITHIN)?)
    }

    /// Creates an auth method whose logins get the policy `ops` if they are in the group `ops`.
    fn method(&self, name: &str, kind: &str, mut config: Value) -> Result<()> {
        config["SigningAlgs"] = json!(["ES256"]);
        config["ListClaimMappings"] = json!({"groups": "groups"});
        let method =
            json!({"Name": name, "Type": kind, "TokenLocality": "local", "MaxTokenTTL": "10m", "Config": config});
        let made = self.ask("PUT", "/v1/acl/auth-method", &method)?;
        ensure!(made.head.status == 200, "{}", made.text());
        let rule =
            json!({"AuthMethod": name, "BindType": "policy", "BindName": "ops", "Selector": "ops in list.groups"});
        let made = self.ask("PUT", "/v1/acl/binding-rule", &rule)?;
        ensure!(made.head.status == 200, "{}", made.text());
        Ok(())
    }

    fn login(&self, name: &str, token: &str) -> Result<Answer> {
        self.ask_as("", "POST", "/v1/acl/login", &json!({"AuthMethodName": name, "LoginToken": token}))
    }

    /// Checks that the answer of a login is a token that may read nodes, but not jobs.
    fn is_good(&self, answer: &Answer) -> Result<()> {
        ensure!(answer.head.status == 200, "{}", answer.text());
        let token = answer.json()?;
        let secret = token["SecretID"].as_str().context("a secret")?;
        ensure!(self.ask_as(secret, "GET", "/v1/nodes", &Value::Null)?.head.status == 200);
        ensure!(self.ask_as(secret, "GET", "/v1/jobs", &Value::Null)?.head.status == 403);
        Ok(())
    }
}

#[test]
fn user_logs_in_at_an_oidc_provider_over_tls() -> Result<()> {
    let (guarded, provider) = (Guarded::start()?, Provider::start()?);
    let config = json!({
        "OIDCDiscoveryURL": provider.url(""), "OIDCClientID": CLIENT.0, "OIDCClientSecret": CLIENT.1, "DiscoveryCaPem": [AUTHORITY],
        "AllowedRedirectURIs": [REDIRECT], "OIDCScopes": ["groups"],
    });
    guarded.method("corp", "OIDC", config.clone())?;
    let began = json!({"AuthMethodName": "corp", "RedirectURI": REDIRECT, "ClientNonce": "n 1"});
    let answer = guarded.ask_as("", "PUT", "/v1/acl/oidc/auth-url", &began)?;
    ensure!(answer.head.status == 200, "{}", answer.text());
    let (state, code) = provider.visit(answer.json()?["AuthURL"].as_str().context("an address")?)?;
    let back =
        json!({"AuthMethodName": "corp", "RedirectURI": REDIRECT, "ClientNonce": "n 1", "State": state, "Code": code});
    guarded.is_good(&guarded.ask_as("", "PUT", "/v1/acl/oidc/complete-auth", &back)?)?;
    let again = guarded.ask_as("", "PUT", "/v1/acl/oidc/complete-auth", &back)?;
    ensure!((again.head.status, &*again.text()) == (400, "no OIDC request found for client nonce"), "{}", again.text());

    let mut untrusted = config;
    untrusted["DiscoveryCaPem"] = Value::Null;
    guarded.method("stranger", "OIDC", untrusted)?;
    let began = json!({"AuthMethodName": "stranger", "RedirectURI": REDIRECT, "ClientNonce": "n"});
    let answer = guarded.ask_as("", "PUT", "/v1/acl/oidc/auth-url", &began)?;
    let expected = "failed to generate OIDC provider: NewProvider: unable to create provider: Get ";
    ensure!(answer.head.status == 500 && answer.text().starts_with(expected), "{}", answer.text());
    ensure!(answer.text().contains("certificate"), "{}", answer.text());
    Ok(())
}

#[test]
fn machine_logs_in_with_a_jwt_signed_by_published_keys() -> Result<()> {
    let (guarded, provider) = (Guarded::start()?, Provider::start()?);
    let by_keys =
        |path: &str| json!({"JWKSURL": provider.url(path), "JWKSCACert": AUTHORITY, "BoundAudiences": ["cluster"]});
    guarded.method("keys", "JWT", by_keys("/keys"))?;
    guarded.method("found", "JWT", json!({"OIDCDiscoveryURL": provider.url(""), "DiscoveryCaPem": [AUTHORITY]}))?;
    guarded.method("moved", "JWT", by_keys("/moved"))?;
    guarded.method("endless", "JWT", by_keys("/endless"))?;
    guarded.method("gone", "JWT", by_keys("/nothing"))?;
    let token = provider.token(&json!({"aud": "cluster", "groups": ["ops"]}))?;
    guarded.is_good(&guarded.login("keys", &token)?)?;
    guarded.is_good(&guarded.login("found", &token)?)?;
    for (method, reason) in
        [("moved", "unexpected status 302"), ("endless", "answer is longer than 524288 bytes"), ("gone", "status 404")]
    {
        let answer = guarded.login(method, &token)?;
        ensure!(
            answer.head.status == 401 && answer.text().contains(reason),
            "{method}: {} {}",
            answer.head.status,
            answer.text()
        );
    }
    let wrong = [
        (json!({"aud": "other", "groups": ["ops"]}), 401, "audience claim does not match any expected audience"),
        (json!({"aud": "cluster", "groups": ["ops"], "iat": 1, "exp": 2}), 401, "token is expired"),
        (json!({"aud": "cluster", "groups": ["dev"]}), 400, "no role or policy bindings matched"),
    ];
    for (claims, status, reason) in wrong {
        let answer = guarded.login("keys", &provider.token(&claims)?)?;
        ensure!(
            answer.head.status == status && answer.text().ends_with(reason),
            "{claims}: {} {}",
            answer.head.status,
            answer.text()
        );
    }
    let another = Provider::start()?;
    let answer = guarded.login("keys", &another.token(&json!({"aud": "cluster", "groups": ["ops"]}))?)?;
    ensure!(answer.head.status == 401, "{}", answer.text());
    Ok(())
}
