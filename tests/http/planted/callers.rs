//! Callers' secrets and the parts of logins: the first token, users' tokens, one-time tokens, the agent's credentials
//! for a provider, and the provider's tokens. Not here: secrets of jobs, tasks and nodes.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{files_with, find};
use crate::agent::{Agent, Setup};
use crate::http::Request;
use crate::story::{Story, WITHIN};

const FIRST: &str = "b0075700-1234-4678-9abc-def012345678";
const CLIENT_SECRET: &str = "planted-oidc-3c9d01";
const UNKNOWN: &str = "dead7000-1234-4678-9abc-def012345678";
const ONCE_GUESSED: &str = "0ce70000-1234-4678-9abc-def012345678";

fn asked(story: &Story, method: &str, target: &str, body: &Value) -> Result<Value> {
    let answer = story.call(&Request::new(method, target).header("X-Nomad-Token", FIRST).json(body))?;
    Ok(if answer.body.is_empty() { Value::Null } else { answer.json()? })
}

fn secret(value: &Value) -> Result<String> {
    Ok(value.as_str().context("a secret is told to who asked for it")?.to_owned())
}

/// A provider's token, and its parts.
fn brought() -> (String, [String; 2]) {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let (claims, signature) = (part(r#"{"sub":"planted-subject-11d0aa"}"#), part("planted-signature-77fe01"));
    (format!("{}.{claims}.{signature}", part(r#"{"alg":"RS256"}"#)), [claims, signature])
}

/// Everything that a management token can read, except the answers whose purpose is to return a secret.
fn told(story: &Story, accessor: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut out = Vec::new();
    for target in [
        "/v1/audit".to_owned(),
        "/v1/acl/tokens".to_owned(),
        "/v1/acl/policies".to_owned(),
        "/v1/acl/auth-methods".to_owned(),
        "/v1/acl/auth-method/corp".to_owned(),
        "/v1/acl/binding-rules".to_owned(),
        "/v1/agent/self".to_owned(),
        "/v1/agent/host".to_owned(),
        "/v1/metrics".to_owned(),
        "/v1/metrics?format=prometheus".to_owned(),
        format!("/v1/history/acl-token/{accessor}"),
        "/v1/history/acl-auth-method/corp".to_owned(),
        "/v1/system/no-such-route".to_owned(),
    ] {
        out.push((target.clone(), story.ask(&Request::new("GET", &target).header("X-Nomad-Token", FIRST))?.body));
    }
    for query in ["after_index=0&full=true", "snapshot=true&full=true", "index=1"] {
        let deadline = Instant::now() + WITHIN;
        let mut stream = crate::http::Connection::open(story.http(), deadline)?;
        let request = Request::new("GET", &format!("/v1/event/stream?{query}")).header("X-Nomad-Token", FIRST);
        let head = stream.send(&request, deadline)?;
        ensure!(head.status == 200, "the stream: {}", head.status);
        // The secrets were written before this policy, so once its event has arrived theirs have.
        let last = format!("end-of-{}", query.replace(['=', '&', '_'], "-"));
        asked(
            story,
            "PUT",
            &format!("/v1/acl/policy/{last}"),
            &json!({"Name": last, "Rules": "node { policy = \"read\" }"}),
        )?;
        let mut told = Vec::new();
        while !find(&told, &last) {
            told.extend_from_slice(&stream.read_some(deadline)?.context("the stream goes on")?);
        }
        out.push((format!("event stream {query}"), told));
    }
    Ok(out)
}

#[test]
fn planted_caller_secrets_are_in_no_answer_log_or_derived_store() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data_dir = dir.path().join("data");
    let story = Story {
        agent: Agent::start_talkative(&Setup { acl: true, data_dir: Some(data_dir.clone()), ..Setup::dev() })?,
    };
    let first =
        story.call(&Request::new("POST", "/v1/acl/bootstrap").json(&json!({"BootstrapSecret": FIRST})))?.json()?;
    ensure!(first["SecretID"] == FIRST, "the first token has the secret that was asked for");

    asked(&story, "PUT", "/v1/acl/policy/reads", &json!({"Name": "reads", "Rules": "node { policy = \"read\" }"}))?;
    let made = asked(&story, "PUT", "/v1/acl/token", &json!({"Name": "ann", "Type": "client", "Policies": ["reads"]}))?;
    let (ann, accessor) = (secret(&made["SecretID"])?, secret(&made["AccessorID"])?);
    let once = secret(&asked(&story, "POST", "/v1/acl/token/onetime", &json!({}))?["OneTimeToken"]["OneTimeSecretID"])?;
    let used = secret(&asked(&story, "POST", "/v1/acl/token/onetime", &json!({}))?["OneTimeToken"]["OneTimeSecretID"])?;
    asked(&story, "POST", "/v1/acl/token/onetime/exchange", &json!({"OneTimeSecretID": used}))?;
    let config = json!({
        "OIDCDiscoveryURL": "https://127.0.0.1:1", "OIDCClientID": "id", "OIDCClientSecret": CLIENT_SECRET,
        "AllowedRedirectURIs": ["http://127.0.0.1:4649/oidc/callback"],
    });
    let method =
        json!({"Name": "corp", "Type": "OIDC", "TokenLocality": "local", "MaxTokenTTL": "10m", "Config": config});
    asked(&story, "PUT", "/v1/acl/auth-method", &method)?;
    let key = json!({"JWTValidationPubKeys": [include_str!("../../../identity/src/jwt/tests/rsa.pem")]});
    let method = json!({"Name": "keys", "Type": "JWT", "TokenLocality": "local", "MaxTokenTTL": "10m", "Config": key});
    asked(&story, "PUT", "/v1/acl/auth-method", &method)?;

    let (token, brought) = brought();
    let mut traces = Vec::new();
    for (method, target, body) in [
        ("POST", "/v1/acl/login", json!({"AuthMethodName": "keys", "LoginToken": token})),
        ("POST", "/v1/acl/login", json!({"AuthMethodName": "none", "LoginToken": token})),
        ("POST", "/v1/acl/token/onetime/exchange", json!({"OneTimeSecretID": ONCE_GUESSED})),
        ("POST", "/v1/acl/bootstrap", json!({"BootstrapSecret": UNKNOWN})),
        ("PUT", "/v1/acl/auth-method", json!({"Name": "bad!", "Type": "OIDC", "Config": config})),
        (
            "PUT",
            "/v1/acl/oidc/auth-url",
            json!({"AuthMethodName": "corp", "RedirectURI": "http://127.0.0.1:4649/oidc/callback", "ClientNonce": "n"}),
        ),
        ("GET", "/v1/nodes", Value::Null),
    ] {
        let answer = story.ask(&Request::new(method, target).header("X-Nomad-Token", UNKNOWN).json(&body))?;
        ensure!(answer.head.status >= 400, "{method} {target} is refused");
        traces.push((format!("{method} {target}"), answer.body));
    }
    let shown = story.ask(&Request::new("GET", "/v1/nodes").header("Authorization", &format!("Bearer {ann}")))?;
    ensure!(shown.head.status == 200, "a token is shown");
    traces.push(("GET /v1/nodes".to_owned(), shown.body));
    traces.extend(told(&story, &accessor)?);
    traces.push(("what the agent says of itself".to_owned(), story.agent.log()?));
    ensure!(traces.last().is_some_and(|(_, log)| !log.is_empty()), "the agent says something of itself");

    let [claims, signature] = &brought;
    let secrets = [FIRST, &ann, &once, &used, CLIENT_SECRET, claims, signature, UNKNOWN, ONCE_GUESSED];
    for secret in secrets {
        for (place, text) in &traces {
            ensure!(!find(text, secret), "{place} shows {secret}");
        }
    }
    story.agent.interrupt()?;
    // Secrets of tokens are in the log, as docs/secrets.md says. Credentials that were only shown are nowhere.
    for secret in [claims, signature, UNKNOWN, ONCE_GUESSED] {
        let mut found = Vec::new();
        files_with(&data_dir, secret, &mut found)?;
        ensure!(found.is_empty(), "{secret} lies in {found:?}");
    }
    for secret in secrets {
        for derived in ["events", "touches"] {
            let mut found = Vec::new();
            files_with(&data_dir.join("server").join(derived), secret, &mut found)?;
            ensure!(found.is_empty(), "{secret} lies in {found:?}");
        }
    }
    Ok(())
}
