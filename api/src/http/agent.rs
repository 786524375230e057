//! Facts about the agent and the cluster: self, members, health, leader, peers, regions, metrics.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Serialize;
use std::collections::BTreeMap;

use crate::error::ApiError;
use crate::http::call::{Call, empty};
use crate::http::capability::Capability;
use crate::http::membership::{dial, with_port};
use crate::http::mux::{Methods, Mux};
use crate::http::namespace::multi_error;
use crate::server::{Cluster, Nodes, Regions, Status, Wellness};
use songline_lang::acl::Access;

/// The servers' port, for an address without one.
const DEFAULT_RPC_PORT: u16 = 4647;

pub(super) fn routes<S: Regions + Cluster + Nodes + Status>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/agent/self", "", Capability::Agent(Access::Read), |call| Box::pin(show(call)));
    mux.add(Methods::Get, "/v1/agent/members", "", Capability::Node(Access::Read), |call| Box::pin(members(call)));
    mux.add(Methods::Get, "/v1/agent/health", "", Capability::Anyone, |call| Box::pin(health(call)));
    mux.add(Methods::Get, "/v1/agent/servers", "", Capability::Servers(Access::Read), |call| Box::pin(servers(call)));
    mux.add(Methods::Write, "/v1/agent/servers", "", Capability::AgentLate(Access::Write), |call| {
        Box::pin(set_servers(call))
    });
    mux.add(Methods::Get, "/v1/status/leader", "", Capability::Anyone, |call| Box::pin(leader(call)));
    mux.add(Methods::Get, "/v1/status/peers", "", Capability::Anyone, |call| Box::pin(peers(call)));
    mux.add(Methods::Get, "/v1/regions", "", Capability::Anyone, |call| Box::pin(regions(call)));
    mux.add(Methods::Get, "/v1/metrics", "", Capability::Anyone, |call| Box::pin(metrics(call)));
}

/// A server in the answer of `agent/members`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Member {
    name: String,
    addr: String,
    port: u16,
    tags: BTreeMap<String, String>,
    status: &'static str,
    protocol_min: u8,
    protocol_max: u8,
    protocol_cur: u8,
    delegate_min: u8,
    delegate_max: u8,
    delegate_cur: u8,
}

impl Member {
    /// This server, as other servers see it.
    fn this<S: Cluster + Status>(server: &S) -> Self {
        let info = server.info();
        let known = server.members().into_iter().find(|member| member.own).map(Self::from);
        // A server without a cluster is not in the list of members.
        let alone =
            || Self::new(info.name.clone(), info.server_ip.clone(), info.serf_port, server.agent_self().tags, true);
        known.unwrap_or_else(alone)
    }

    fn new(name: String, addr: String, port: u16, tags: BTreeMap<String, String>, alive: bool) -> Self {
        Member {
            name,
            addr,
            port,
            tags,
            status: if alive { "alive" } else { "failed" },
            protocol_min: 1,
            protocol_max: 5,
            protocol_cur: 2,
            delegate_min: 2,
            delegate_max: 5,
            delegate_cur: 4,
        }
    }
}

impl From<crate::server::Member> for Member {
    fn from(member: crate::server::Member) -> Self {
        let host = member.host().to_owned();
        Self::new(member.name, host, member.serf_port, member.tags, member.alive)
    }
}

#[derive(Serialize)]
struct SelfResponse {
    config: serde_json::Value,
    member: Member,
    stats: BTreeMap<String, BTreeMap<String, String>>,
}

async fn show<S: Cluster + Status>(call: Call<S>) -> Result<Response, ApiError> {
    let agent = call.server.agent_self();
    call.plain(&SelfResponse { config: agent.config, member: Member::this(&*call.server), stats: agent.stats })
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MembersResponse {
    server_name: String,
    server_region: String,
    #[serde(rename = "ServerDC")]
    server_dc: String,
    members: Vec<Member>,
}

async fn members<S: Regions + Cluster + Status>(call: Call<S>) -> Result<Response, ApiError> {
    let info = call.server.info();
    let mut members: Vec<Member> =
        call.server.members().into_iter().filter(|member| !member.name.is_empty()).map(Member::from).collect();
    if members.is_empty() {
        members.push(Member::this(&*call.server));
    }
    members.extend(call.server.members_elsewhere().into_iter().map(Member::from));
    // The server that answers comes first: programs take the second member for another server.
    members.sort_by(|a, b| (a.name != info.name, &a.name).cmp(&(b.name != info.name, &b.name)));
    let answer = MembersResponse {
        server_name: info.name.rsplit_once('.').map_or(info.name.as_str(), |(host, _)| host).to_owned(),
        server_region: info.region.clone(),
        server_dc: info.datacenter.clone(),
        members,
    };
    call.plain(&answer)
}

#[derive(Serialize)]
struct PartHealth<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

async fn health<S: Status>(call: Call<S>) -> Result<Response, ApiError> {
    let health = call.server.health();
    let asked: Vec<String> = call.query().all("type").map(|kind| kind.into_owned()).collect();
    let mut parts: BTreeMap<&str, PartHealth<'_>> = BTreeMap::new();
    let not_enabled = |name: &str| Wellness { ok: false, message: format!("{name} not enabled") };
    let (no_client, no_server) = (not_enabled("client"), not_enabled("server"));
    let named = asked.len() == 1;
    for (name, part, missing) in [("client", &health.client, &no_client), ("server", &health.server, &no_server)] {
        let wanted = asked.is_empty() || asked.iter().any(|kind| kind == name);
        // A part that does not run here is reported only when the request names it.
        match part.as_ref().or(named.then_some(missing)) {
            Some(part) if wanted => {
                parts.insert(name, PartHealth { ok: part.ok, message: &part.message });
            }
            Some(_) | None => {}
        }
    }
    if parts.values().all(|part| part.ok) {
        return call.plain(&parts);
    }
    let text = serde_json::to_string(&parts).map_err(|error| ApiError::internal(error.to_string()))?;
    Err(ApiError::internal(text))
}

async fn servers<S: Cluster + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    if call.server.local_node().is_none() {
        return Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, "Invalid method"));
    }
    call.plain(&call.server.peer_addrs())
}

/// Accepts server addresses for this agent's node if all of them are servers of this cluster, and changes
/// nothing. Other addresses are refused.
async fn set_servers<S: Cluster + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    if call.server.local_node().is_none() {
        return Err(ApiError::new(StatusCode::NOT_IMPLEMENTED, "Invalid method"));
    }
    let addresses: Vec<String> =
        call.query().all("address").map(|address| with_port(&address, DEFAULT_RPC_PORT)).collect();
    if addresses.is_empty() {
        return Err(ApiError::bad_request("missing server address"));
    }
    call.require(|acl| acl.agent(Access::Write))?;
    let known = call.server.peer_addrs();
    let mut errors = Vec::new();
    for address in addresses.iter().filter(|address| !known.contains(address)) {
        let why = match dial(address).await {
            Ok(()) => "not a server of this cluster".to_owned(),
            Err(why) => format!("rpc error: failed to get conn: {why}"),
        };
        errors.push(format!("Server at address {address} failed ping: {why}"));
    }
    if errors.is_empty() { Ok(empty()) } else { Err(ApiError::bad_request(multi_error(&errors))) }
}

async fn leader<S: Cluster>(call: Call<S>) -> Result<Response, ApiError> {
    call.plain(&call.server.leader_addr())
}

async fn peers<S: Cluster>(call: Call<S>) -> Result<Response, ApiError> {
    call.plain(&call.server.peer_addrs())
}

async fn regions<S: Regions>(call: Call<S>) -> Result<Response, ApiError> {
    call.plain(&call.server.regions())
}

async fn metrics<S: Status>(call: Call<S>) -> Result<Response, ApiError> {
    let (body, media) = if call.query().text("format") == "prometheus" {
        if !call.server.info().prometheus_metrics {
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Prometheus is not enabled"));
        }
        (call.server.metrics_prometheus(), "text/plain; version=0.0.4; charset=utf-8")
    } else {
        let body = call.server.metrics();
        if call.query().get("pretty").is_some() {
            let value: serde_json::Value =
                serde_json::from_str(&body).map_err(|error| ApiError::internal(error.to_string()))?;
            return call.plain(&value);
        }
        (body, "application/json")
    };
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    Ok(response)
}
