//! Vault in this process: the part of its HTTP API that servers and node agents use. Tests let tokens end and see who
//! asks for what.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Token of the servers.
pub const SERVERS_TOKEN: &str = "servers-token";

#[derive(Default)]
struct Known {
    /// Policies of the tokens that are good.
    tokens: BTreeMap<String, Vec<String>>,
    /// Tokens by the token of their wrapping.
    wrapped: BTreeMap<String, String>,
    /// Number of tokens made so far.
    made: usize,
    /// Data of the engine `kv`, version 2, at `secret/`.
    secrets: BTreeMap<String, Value>,
    /// Time of tokens, in seconds.
    ttl: u64,
    renewals: usize,
    /// Numbers of passwords made, and of renewals of their leases, which Vault grants unless they are at an end.
    passwords: usize,
    lease_renewals: usize,
    leases_ended: bool,
    revoked: Vec<String>,
    /// Namespaces that were named.
    namespaces: Vec<String>,
    /// Whether every request fails, and whether the servers cannot reach it either.
    away: bool,
}

impl Known {
    fn wrap(&mut self, policies: Vec<String>) -> String {
        self.made += 1;
        let (token, wrapping) = (format!("token-{}", self.made), format!("wrapping-{}", self.made));
        self.tokens.insert(token.clone(), policies);
        self.wrapped.insert(wrapping.clone(), token);
        wrapping
    }
}

/// Vault.
#[derive(Clone)]
pub struct VaultApi {
    known: Arc<Mutex<Known>>,
    address: SocketAddr,
}

impl VaultApi {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let known: Arc<Mutex<Known>> = Arc::new(Mutex::new(Known { ttl: 3600, ..Known::default() }));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&known));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { known, address }
    }

    pub fn address(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Creates a token, and returns that of its wrapping. `None`: Vault is away.
    pub fn wrap(&self, policies: Vec<String>) -> Option<String> {
        let mut known = self.known.lock();
        if known.away { None } else { Some(known.wrap(policies)) }
    }

    /// Sets a secret, which the policy `db` may read.
    pub fn put(&self, path: &str, data: Value) {
        self.known.lock().secrets.insert(path.to_owned(), data);
    }

    /// Ends a token before its time.
    pub fn revoke(&self, token: &str) {
        self.known.lock().tokens.remove(token);
    }

    pub fn set_away(&self, away: bool) {
        self.known.lock().away = away;
    }

    /// Sets the time of tokens, in seconds.
    pub fn set_ttl(&self, seconds: u64) {
        self.known.lock().ttl = seconds;
    }

    /// Refuses further renewals of leases.
    pub fn end_leases(&self) {
        self.known.lock().leases_ended = true;
    }

    pub fn lease_renewals(&self) -> usize {
        self.known.lock().lease_renewals
    }

    pub fn made(&self) -> usize {
        self.known.lock().made
    }

    pub fn renewals(&self) -> usize {
        self.known.lock().renewals
    }

    /// Tokens that were revoked by themselves.
    pub fn revoked(&self) -> Vec<String> {
        self.known.lock().revoked.clone()
    }

    /// Namespaces that requests named, each once.
    pub fn namespaces(&self) -> Vec<String> {
        let mut all = self.known.lock().namespaces.clone();
        all.sort();
        all.dedup();
        all
    }
}

async fn answer(
    State(known): State<Arc<Mutex<Known>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let mut known = known.lock();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let refused = |status: StatusCode, text: &str| (status, json!({ "errors": [text] }).to_string());
    if known.away {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "Vault is sealed");
    }
    let path = uri.path().trim_start_matches("/v1/");
    if path == "sys/seal-status" {
        return ok(&json!({ "sealed": false, "version": "1.14.8", "cluster_name": "vault-east", "cluster_id": "c-1" }));
    }
    known.namespaces.push(header("X-Vault-Namespace"));
    let (token, ttl) = (header("X-Vault-Token"), known.ttl);
    let auth = |token: &str| json!({ "client_token": token, "lease_duration": ttl, "renewable": true });
    if (method.as_str(), path) == ("PUT", "sys/wrapping/unwrap") {
        return match known.wrapped.remove(&token) {
            Some(token) => ok(&json!({ "auth": auth(&token) })),
            None => refused(StatusCode::BAD_REQUEST, "wrapping token is not valid or does not exist"),
        };
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if token == SERVERS_TOKEN {
        if path != "auth/token/create" {
            return ok(&json!({ "auth": { "client_token": token, "lease_duration": 0, "renewable": false } }));
        }
        let policies = body["policies"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let wrapping = known.wrap(policies.collect());
        return ok(&json!({ "wrap_info": { "token": wrapping, "ttl": 300 } }));
    }
    let Some(policies) = known.tokens.get(&token).cloned() else {
        return refused(StatusCode::FORBIDDEN, "permission denied");
    };
    match (method.as_str(), path) {
        ("PUT", "auth/token/renew-self") => {
            known.renewals += 1;
            ok(&json!({ "auth": auth(&token) }))
        }
        ("PUT", "auth/token/revoke-self") => {
            known.tokens.remove(&token);
            known.revoked.push(token);
            (StatusCode::NO_CONTENT, String::new())
        }
        ("GET", path) if path.starts_with("sys/internal/ui/mounts/secret/") => {
            ok(&json!({ "data": { "path": "secret/", "type": "kv", "options": { "version": "2" } } }))
        }
        ("GET", path) if path.starts_with("secret/data/") && policies.iter().any(|policy| policy == "db") => {
            match known.secrets.get(path.trim_start_matches("secret/data/")) {
                Some(data) => ok(&json!({ "data": { "data": data, "metadata": { "version": 1 } } })),
                None => refused(StatusCode::NOT_FOUND, ""),
            }
        }
        ("GET", "secret/metadata/app") => {
            let names = known.secrets.keys().filter_map(|path| path.strip_prefix("app/"));
            ok(&json!({ "data": { "keys": names.collect::<Vec<_>>() } }))
        }
        ("GET", "database/creds/app") => {
            known.passwords += 1;
            let data = json!({ "password": format!("password-{}", known.passwords) });
            ok(&json!({ "lease_id": "database/creds/app/1", "lease_duration": 2, "renewable": true, "data": data }))
        }
        ("PUT", "sys/leases/renew") if known.leases_ended => refused(StatusCode::BAD_REQUEST, "lease not found"),
        ("PUT", "sys/leases/renew") => {
            known.lease_renewals += 1;
            ok(&json!({ "lease_id": body["lease_id"], "lease_duration": 2, "renewable": true }))
        }
        ("PUT", "pki/issue/web") => {
            let name = body["common_name"].as_str().unwrap_or_default();
            ok(&json!({ "data": { "certificate": format!("certificate of {name}"), "serial_number": 7 } }))
        }
        _ => refused(StatusCode::FORBIDDEN, "permission denied"),
    }
}

fn ok(body: &Value) -> (StatusCode, String) {
    (StatusCode::OK, body.to_string())
}
