//! A Consul agent in this process: the part of its HTTP API that node agents use. It runs no checks; tests set their
//! statuses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::consul_store::Store;

/// Token that the agent's requests must carry.
pub const TOKEN: &str = "consul-token";

#[derive(Default)]
struct Known {
    services: BTreeMap<String, Value>,
    checks: BTreeMap<String, Value>,
    /// Writing requests so far: method of the API and name of the service or check.
    calls: Vec<String>,
    /// Whether every request fails.
    away: bool,
    store: Store,
}

/// The agent.
#[derive(Clone)]
pub struct ConsulApi {
    known: Arc<Mutex<Known>>,
    changed: watch::Sender<u64>,
    address: SocketAddr,
}

impl ConsulApi {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let known: Arc<Mutex<Known>> = Arc::default();
        let consul = Self { known, changed: watch::Sender::new(1), address };
        let router = Router::new().fallback(answer).with_state(consul.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        consul
    }

    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The writing requests so far.
    pub fn calls(&self) -> Vec<String> {
        self.known.lock().calls.clone()
    }

    /// Names of the services, in order of their ids.
    pub fn services(&self) -> Vec<String> {
        self.known.lock().services.values().map(|service| text(service, "Service")).collect()
    }

    pub fn service(&self, name: &str) -> Option<Value> {
        self.known.lock().services.values().find(|service| text(service, "Service") == name).cloned()
    }

    pub fn check(&self, name: &str) -> Option<Value> {
        self.known.lock().checks.values().find(|check| text(check, "Name") == name).cloned()
    }

    pub fn set_status(&self, name: &str, status: &str) {
        let mut known = self.known.lock();
        known.checks.values_mut().filter(|check| text(check, "Name") == name).for_each(|check| {
            check["Status"] = status.into();
        });
    }

    /// Adds a service that somebody else has registered.
    pub fn add_service(&self, id: &str, service: Value) {
        self.known.lock().services.insert(id.to_owned(), service);
    }

    /// Loses everything, as an agent without its data directory does.
    pub fn forget(&self) {
        let mut known = self.known.lock();
        known.services.clear();
        known.checks.clear();
    }

    pub fn forget_check(&self, name: &str) {
        self.known.lock().checks.retain(|_, check| text(check, "Name") != name);
    }

    /// Changes keys or the catalogue, and answers those who wait for a change.
    pub fn store(&self, change: impl FnOnce(&mut Store)) {
        let mut known = self.known.lock();
        change(&mut known.store);
        known.store.index += 1;
        self.changed.send_replace(known.store.index);
    }

    /// Paths and queries that were asked of the store.
    pub fn asked(&self) -> Vec<String> {
        self.known.lock().store.asked.clone()
    }

    pub fn set_away(&self, away: bool) {
        self.known.lock().away = away;
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

async fn answer(
    State(consul): State<ConsulApi>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, HeaderMap, String) {
    if method == Method::GET && !uri.path().starts_with("/v1/agent/") {
        // A query with an index is answered after the next change.
        let query = uri.query().unwrap_or_default();
        let after = query.split('&').find_map(|pair| pair.strip_prefix("index=")?.parse::<u64>().ok());
        let _ = consul.changed.subscribe().wait_for(|index| after.is_none_or(|after| *index > after)).await;
    }
    let mut known = consul.known.lock();
    let (status, text) = known.answer(&method, &uri, &headers, &body);
    let index = known.store.index.to_string().parse().expect("a number");
    (status, HeaderMap::from_iter([(HeaderName::from_static("x-consul-index"), index)]), text)
}

impl Known {
    fn answer(&mut self, method: &Method, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> (StatusCode, String) {
        let known = self;
        if known.away {
            return (StatusCode::INTERNAL_SERVER_ERROR, "No cluster leader".to_owned());
        }
        if headers.get("X-Consul-Token").is_none_or(|token| token != TOKEN) {
            return (StatusCode::FORBIDDEN, "Permission denied".to_owned());
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        match (method.as_str(), uri.path().trim_start_matches("/v1/agent/")) {
            ("GET", "self") => ok(&json!({
                "Config": { "Datacenter": "east", "NodeName": "c1", "Server": false, "Version": "1.16.6", "Revision": "ab" },
                "DebugConfig": { "ConnectEnabled": true, "GRPCPort": -1, "GRPCTLSPort": -1 },
                "Member": { "Tags": {} },
            })),
            ("GET", "services") => ok(&json!(known.services)),
            ("GET", "checks") => ok(&json!(known.checks)),
            ("PUT", path) => known.write(path, &body),
            ("GET", _) => known.store.answer(uri.path(), uri.query().unwrap_or_default()),
            _ => (StatusCode::NOT_FOUND, String::new()),
        }
    }
}

/// Fields of a service's registration, beside the id.
const OF_SERVICE: &[&str] =
    &["Name", "Tags", "Address", "Port", "Meta", "EnableTagOverride", "TaggedAddresses", "Checks"];
/// Fields of a check's registration, beside the id.
const OF_CHECK: &[&str] = &[
    "Name",
    "Status",
    "HTTP",
    "Method",
    "Header",
    "Body",
    "TCP",
    "GRPC",
    "GRPCUseTLS",
    "TLSServerName",
    "TLSSkipVerify",
    "TTL",
    "Interval",
    "Timeout",
    "SuccessBeforePassing",
    "FailuresBeforeCritical",
];

/// The refusal of an object with a field that Consul does not know.
fn unknown_field(object: &Value, known: &[&str], id: &str) -> Option<(StatusCode, String)> {
    let names = object.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let field = names.into_iter().find(|name| *name != id && !known.contains(name))?;
    Some((StatusCode::BAD_REQUEST, format!("Request decode failed: json: unknown field {field:?}")))
}

fn ok(value: &Value) -> (StatusCode, String) {
    (StatusCode::OK, value.to_string())
}

impl Known {
    fn write(&mut self, path: &str, body: &Value) -> (StatusCode, String) {
        let (call, id) = path.rsplit_once('/').unwrap_or((path, ""));
        match (call, id) {
            ("service", "register") => {
                let checks = body["Checks"].as_array();
                let fields = checks.into_iter().flatten().map(|check| (check, OF_CHECK, "CheckID"));
                for (object, known, id) in fields.chain([(body, OF_SERVICE, "ID")]) {
                    if let Some(refused) = unknown_field(object, known, id) {
                        return refused;
                    }
                }
                self.calls.push(format!("+{}", text(body, "Name")));
                self.register_service(body);
            }
            ("service/deregister", id) => {
                let Some(service) = self.services.remove(id) else {
                    return (StatusCode::NOT_FOUND, format!("Unknown service ID {id:?}"));
                };
                self.calls.push(format!("-{}", text(&service, "Service")));
                self.checks.retain(|_, check| text(check, "ServiceID") != id);
            }
            ("check", "register") => {
                let of_check: Vec<&str> = OF_CHECK.iter().copied().chain(["ServiceID"]).collect();
                if let Some(refused) = unknown_field(body, &of_check, "ID") {
                    return refused;
                }
                self.calls.push(format!("+check {}", text(body, "Name")));
                self.register_check(&text(body, "ID"), body);
            }
            ("check/deregister", id) => {
                let Some(check) = self.checks.remove(id) else {
                    return (StatusCode::NOT_FOUND, format!("Unknown check ID {id:?}"));
                };
                self.calls.push(format!("-check {}", text(&check, "Name")));
            }
            ("check/update", id) => {
                let Some(check) = self.checks.get_mut(id) else {
                    return (StatusCode::NOT_FOUND, format!("Unknown check ID {id:?}"));
                };
                check["Status"] = body["Status"].clone();
                check["Output"] = body["Output"].clone();
            }
            _ => return (StatusCode::NOT_FOUND, String::new()),
        }
        (StatusCode::OK, String::new())
    }

    fn register_service(&mut self, body: &Value) {
        let (id, mut service) = (text(body, "ID"), body.clone());
        service["Service"] = body["Name"].clone();
        // Consul adds addresses of its own.
        service["TaggedAddresses"]["lan_ipv4"] = json!({ "Address": body["Address"], "Port": body["Port"] });
        self.services.insert(id, service);
        for check in body["Checks"].as_array().into_iter().flatten() {
            let mut check = check.clone();
            check["ServiceID"] = body["ID"].clone();
            self.register_check(&text(&check, "CheckID"), &check);
        }
    }

    /// A check is critical until it has run; the registration may say otherwise. A known one keeps its status.
    fn register_check(&mut self, id: &str, body: &Value) {
        let known = self.checks.get(id).map(|check| check["Status"].clone());
        let first = body["Status"].as_str().filter(|status| !status.is_empty()).unwrap_or("critical");
        let mut check = body.clone();
        check["Status"] = known.unwrap_or_else(|| first.into());
        check["Output"] = "".into();
        self.checks.insert(id.to_owned(), check);
    }
}
