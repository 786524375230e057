//! HTTP of an agent without a server: requests about the agent are answered here, all others by a server.
//!
//! Requests are forwarded unchanged over the servers' port, so that servers authorize them; answers are returned
//! unchanged. Requests that are answered here are authorized by the same policies, fetched from a server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value, json};
use songline_api::{Answer, Answering};
use songline_lang::acl::{self, Access, Acl};
use songline_model::{AllocId, Time};
use songline_rpc::{Gauges, NodeAgent, RpcError};
use songline_server::config::{DEFAULT_RPC_PORT, with_port};
use songline_server::forwarding::{ForwardError, Forwarder};
use songline_server::metrics_of_node;

use super::client_only::ClientOnly;
use crate::config::AgentConfig;

/// Header with the caller's token.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-nomad-token");
/// Largest server answer that is read into memory here, in bytes.
const READ_BYTES_MAX: usize = 1 << 20;
/// Paths that only agents with a server implement.
const OF_SERVERS: [&str; 3] = ["/v1/agent/join", "/v1/agent/force-leave", "/v1/agent/keyring/"];
/// Routes that mean the node of the asked agent, unless the request names a node.
const OF_THE_NODE: [&str; 6] = [
    "/v1/client/stats",
    "/v1/client/gc",
    "/v1/client/metadata",
    "/v1/agent/host",
    "/v1/agent/monitor",
    "/v1/agent/pprof/",
];

/// Answers requests.
pub(super) struct Relay {
    shared: Arc<Shared>,
}

struct Shared {
    client_only: Arc<ClientOnly>,
    forwarder: Forwarder,
    /// The configuration as `agent/self` shows it.
    config: Value,
    acl_enabled: bool,
    /// Whether the metrics are available in Prometheus format.
    prometheus_metrics: bool,
    headers: BTreeMap<String, String>,
}

impl Relay {
    /// A relay of the agent with this configuration, whose blocks `agent/self` shows as `shown`.
    pub(super) fn new(client_only: Arc<ClientOnly>, forwarder: Forwarder, config: &AgentConfig, shown: Value) -> Self {
        Self {
            shared: Arc::new(Shared {
                client_only,
                forwarder,
                config: shown,
                acl_enabled: config.acl.enabled,
                prometheus_metrics: config.prometheus_metrics,
                headers: config.response_headers.clone(),
            }),
        }
    }
}

impl Answer for Relay {
    fn answer(&self, request: Request) -> Answering<'_> {
        Box::pin(self.respond(request))
    }
}

impl Relay {
    async fn respond(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        if let Some(alloc) = moved(&parts) {
            return match self.data_of(&parts.headers, alloc).await {
                Ok(data) => self.decorated(data),
                Err((status, text)) => self.decorated(text_response(status, text)),
            };
        }
        let local = match parts.uri.path() {
            "/v1/agent/health" if parts.method == Method::GET => Some(self.health(&parts)),
            "/v1/agent/self" if parts.method == Method::GET => Some(self.own(&parts).await),
            "/v1/agent/servers" => Some(self.servers(&parts).await),
            "/v1/metrics" if parts.method == Method::GET => return self.decorated(self.metrics(&parts.uri)),
            path if OF_SERVERS.iter().any(|root| path.starts_with(root)) => {
                Some(Err((StatusCode::NOT_IMPLEMENTED, "Invalid method".into())))
            }
            _ => None,
        };
        match local {
            None => self.pass(Request::from_parts(parts, body)).await,
            Some(Ok(value)) => self.decorated(json_response(&value)),
            Some(Err((status, text))) => self.decorated(text_response(status, text)),
        }
    }
}

/// An answer given here: a document, or a status and a text.
type Local = Result<Value, (StatusCode, String)>;

impl Relay {
    fn decorated(&self, mut response: Response) -> Response {
        for (name, value) in &self.shared.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value)) {
                response.headers_mut().entry(name).or_insert(value);
            }
        }
        response
    }

    fn health(&self, request: &Parts) -> Local {
        let asked = values(&request.uri, "type");
        let wanted = |kind: &str| asked.is_empty() || asked.iter().any(|asked| asked == kind);
        let mut parts = serde_json::Map::new();
        let knows = !self.shared.client_only.servers.known().is_empty();
        if wanted("client") {
            parts.insert(
                "client".into(),
                json!({ "ok": knows, "message": if knows { "ok" } else { "no known servers" } }),
            );
        }
        // A part that does not run here is reported only when the caller asks for it by name.
        if asked == ["server"] {
            parts.insert("server".into(), json!({ "ok": false, "message": "server not enabled" }));
        }
        let well = parts.values().all(|part| part["ok"] == true);
        let parts = Value::Object(parts);
        if well { Ok(parts) } else { Err((StatusCode::INTERNAL_SERVER_ERROR, parts.to_string())) }
    }

    /// The metrics of the node, which everybody may read, as on servers.
    fn metrics(&self, uri: &Uri) -> Response {
        let client = &self.shared.client_only.client;
        let (gauges, counts) = (client.gauges(), client.counts());
        let is_text = values(uri, "format").first().is_some_and(|format| format == "prometheus");
        if is_text && !self.shared.prometheus_metrics {
            return text_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Prometheus is not enabled".into());
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let text = metrics_of_node(
            &gauges,
            &counts,
            is_text,
            Time::from_secs(i64::try_from(since.as_secs()).unwrap_or(i64::MAX)),
        );
        let media = if is_text { "text/plain; version=0.0.4; charset=utf-8" } else { "application/json" };
        let mut response = Response::new(Body::from(text));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        response
    }

    async fn own(&self, request: &Parts) -> Local {
        self.require(&request.headers, Access::Read).await?;
        let ClientOnly { client, servers, .. } = &*self.shared.client_only;
        let running = client.allocs().values().filter(|status| !status.is_terminal()).count();
        let no_member = json!({
            "Name": "", "Addr": null, "Port": 0, "Tags": null, "Status": "", "ProtocolMin": 0, "ProtocolMax": 0, "ProtocolCur": 0,
            "DelegateMin": 0, "DelegateMax": 0, "DelegateCur": 0,
        });
        Ok(json!({
            "config": self.shared.config,
            "member": no_member,
            "stats": {
                "client": {
                    "node_id": client.node_id().to_string(),
                    "known_servers": servers.known().join(","),
                    "num_allocations": running.to_string(),
                },
                "runtime": { "arch": std::env::consts::ARCH, "kernel.name": "linux", "version": env!("CARGO_PKG_VERSION") },
            },
        }))
    }

    /// The data directory of an allocation that ran here, for the alloc that replaces it on another node.
    async fn data_of(&self, headers: &HeaderMap, alloc: &str) -> Result<Response, (StatusCode, String)> {
        let denied = || (StatusCode::FORBIDDEN, "Permission denied".to_owned());
        let missing = || (StatusCode::NOT_FOUND, "allocation not found".to_owned());
        let client = &self.shared.client_only.client;
        let id: Option<AllocId> = alloc.parse().ok();
        if self.shared.acl_enabled {
            // A caller without a token for the allocation must not learn whether it exists.
            let token = headers.get(TOKEN).and_then(|token| token.to_str().ok()).unwrap_or_default();
            id.filter(|id| client.is_migrate_token(token, *id)).ok_or_else(denied)?;
        }
        let pieces = client.alloc_snapshot(id.ok_or_else(missing)?).await.map_err(|error| match error {
            RpcError::Coded { code: 404, .. } => missing(),
            other => (StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
        })?;
        let pieces =
            stream::unfold(pieces, |mut pieces| async move { pieces.recv().await.map(|piece| (piece, pieces)) });
        Ok(Response::new(Body::from_stream(pieces)))
    }

    async fn servers(&self, request: &Parts) -> Local {
        let servers = &self.shared.client_only.servers;
        match request.method {
            Method::GET => {
                self.require(&request.headers, Access::Read).await?;
                Ok(json!(servers.known()))
            }
            Method::PUT | Method::POST => {
                self.require(&request.headers, Access::Write).await?;
                let told: Vec<String> =
                    values(&request.uri, "address").into_iter().filter(|address| !address.is_empty()).collect();
                if told.is_empty() {
                    return Err((StatusCode::BAD_REQUEST, "missing server address".into()));
                }
                let addresses: Vec<String> = told.iter().map(|address| with_port(address, DEFAULT_RPC_PORT)).collect();
                let mut silent = Vec::new();
                for address in &addresses {
                    if let Err(error) = servers.ping(address).await {
                        silent.push(format!("\t* Server at address {address} failed ping: {error}"));
                    }
                }
                if !silent.is_empty() {
                    let count =
                        if silent.len() == 1 { "1 error".to_owned() } else { format!("{} errors", silent.len()) };
                    return Err((StatusCode::BAD_REQUEST, format!("{count} occurred:\n{}\n\n", silent.join("\n"))));
                }
                let replaced = servers.replace(addresses.into_iter().map(Into::into).collect());
                replaced.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
                Ok(Value::Null)
            }
            _ => Err((StatusCode::METHOD_NOT_ALLOWED, "Invalid method".into())),
        }
    }

    /// Whether the caller's policies, which are fetched from a server, allow this access to the agent.
    async fn require(&self, headers: &HeaderMap, access: Access) -> Result<(), (StatusCode, String)> {
        if !self.shared.acl_enabled {
            return Ok(());
        }
        let token = headers.get(TOKEN).cloned();
        let denied = || (StatusCode::FORBIDDEN, "Permission denied".to_owned());
        if token.is_some() {
            let own = self.ask("/v1/acl/token/self", token.as_ref()).await?;
            if own["Type"] == "management" {
                return Ok(());
            }
        }
        let listed = self.ask("/v1/acl/policies", token.as_ref()).await?;
        let mut policies = Vec::new();
        for name in listed.as_array().into_iter().flatten().filter_map(|policy| policy["Name"].as_str()) {
            let policy = self.ask(&format!("/v1/acl/policy/{name}"), token.as_ref()).await?;
            // A policy that cannot be parsed gives no rights.
            policies.extend(acl::parse(policy["Rules"].as_str().unwrap_or_default()));
        }
        if Acl::of(&policies).agent(access) { Ok(()) } else { Err(denied()) }
    }

    /// Asks a server with a caller's token. A refusal of the server becomes the refusal of the request.
    async fn ask(&self, path: &str, token: Option<&HeaderValue>) -> Result<Value, (StatusCode, String)> {
        let internal = |text: String| (StatusCode::INTERNAL_SERVER_ERROR, text);
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = path.parse().map_err(|_| internal(format!("{path} is no path")))?;
        if let Some(token) = token {
            request.headers_mut().insert(TOKEN, token.clone());
        }
        let (parts, body) = self.pass(request).await.into_parts();
        let body = axum::body::to_bytes(body, READ_BYTES_MAX).await.map_err(|error| internal(error.to_string()))?;
        if !parts.status.is_success() {
            return Err((parts.status, String::from_utf8_lossy(&body).into_owned()));
        }
        serde_json::from_slice(&body).map_err(|error| internal(error.to_string()))
    }

    /// Forwards a request to the first server that accepts it.
    async fn pass(&self, mut request: Request) -> Response {
        self.name_node(&mut request);
        let servers = &self.shared.client_only.servers;
        let mut why = "no servers".to_owned();
        for address in servers.known() {
            match self.shared.forwarder.pass(&address, request).await {
                Ok(response) => return response,
                Err(ForwardError::NotSent { request: unsent, why: reason }) => {
                    tracing::debug!(%address, reason, "a server cannot be reached");
                    servers.on_failed(&address);
                    (request, why) = (*unsent, reason);
                }
                // The request may have been carried out. The caller decides whether to repeat it.
                Err(ForwardError::Lost(reason)) => {
                    servers.on_failed(&address);
                    return text_response(StatusCode::INTERNAL_SERVER_ERROR, format!("rpc error: {reason}"));
                }
            }
        }
        text_response(StatusCode::INTERNAL_SERVER_ERROR, format!("rpc error: failed to get conn: {why}"))
    }

    /// Adds this agent's node id where the caller means the node of the asked agent.
    fn name_node(&self, request: &mut Request) {
        let path = request.uri().path();
        let named = ["node_id", "server_id"].iter().any(|name| !values(request.uri(), name).is_empty());
        if named || !OF_THE_NODE.iter().any(|root| path.starts_with(root)) {
            return;
        }
        let node = self.shared.client_only.client.node_id();
        let query = request.uri().query().map_or(String::new(), |query| format!("{query}&"));
        let with_node = format!("{path}?{query}node_id={node}");
        if let Ok(uri) = with_node.parse() {
            *request.uri_mut() = uri;
        }
    }
}

/// Id of the allocation whose data is requested.
fn moved(request: &Parts) -> Option<&str> {
    let path = request.uri.path().strip_prefix("/v1/client/allocation/")?;
    path.strip_suffix("/snapshot").filter(|_| request.method == Method::GET)
}

/// All values of a query parameter.
fn values(uri: &Uri, name: &str) -> Vec<String> {
    let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then(|| percent_decoded(value))
    });
    pairs.collect()
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        match (bytes[at], hex) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn json_response(value: &Value) -> Response {
    let body = if value.is_null() { Body::empty() } else { Body::from(value.to_string()) };
    let mut response = Response::new(body);
    if !value.is_null() {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

fn text_response(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}
