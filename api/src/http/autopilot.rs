//! Autopilot: its configuration, and the health of the servers.

use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use songline_commands::SetAutopilotConfig;
use songline_lang::{duration, go_json};
use songline_model::{AutopilotConfig, Dur, Str, Time};
use songline_projections::Outcome;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::mux::{Methods, Mux};
use crate::http::params::cas;
use crate::server::{Cluster, Member, MemberHealth, Reads, Writes};
use songline_lang::acl::Access;

pub(super) fn routes<S: Writes + Cluster>(mux: &mut Mux<S>) {
    let (config, health) = ("/v1/operator/autopilot/configuration", "/v1/operator/autopilot/health");
    mux.add(Methods::Get, config, "", Capability::Operator(Access::Read), |call| Box::pin(read_config(call)));
    let late_write = Capability::Late(&Capability::Operator(Access::Write));
    mux.add(Methods::Put, config, "", late_write, |call| Box::pin(write_config(call)));
    mux.add(Methods::Get, health, "", Capability::Operator(Access::Read), |call| Box::pin(read_health(call)));
    for path in [config, health] {
        // Other methods are answered like unknown paths.
        mux.add(Methods::Any, path, "", Capability::Anyone, |_| {
            Box::pin(std::future::ready(Err(ApiError::not_found("Invalid method"))))
        });
    }
}

/// JSON form of the autopilot configuration: durations are strings.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ConfigView {
    last_contact_threshold: String,
    server_stabilization_time: String,
    cleanup_dead_servers: bool,
    max_trailing_logs: u64,
    min_quorum: u64,
    enable_redundancy_zones: bool,
    disable_upgrade_migration: bool,
    enable_custom_upgrades: bool,
    create_index: u64,
    modify_index: u64,
}

impl ConfigView {
    fn new(row: &AutopilotConfig) -> Self {
        Self {
            last_contact_threshold: row.last_contact_threshold.to_string(),
            server_stabilization_time: row.server_stabilization_time.to_string(),
            cleanup_dead_servers: row.cleanup_dead_servers,
            max_trailing_logs: row.max_trailing_logs,
            min_quorum: row.min_quorum,
            enable_redundancy_zones: row.enable_redundancy_zones,
            disable_upgrade_migration: row.disable_upgrade_migration,
            enable_custom_upgrades: row.enable_custom_upgrades,
            create_index: row.create_index,
            modify_index: row.modify_index,
        }
    }
}

async fn read_config<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let view = call.fresh_view(&call.read_params()?).await?;
    let config = view.autopilot_config().map_or_else(AutopilotConfig::initial, |row| AutopilotConfig::clone(row));
    call.plain(&ConfigView::new(&config))
}

/// Durations of a configuration in a request. The reference parses them apart from the other fields, which its errors
/// show.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase", rename = "")]
struct SpansRequest {
    last_contact_threshold: Str,
    server_stabilization_time: Str,
}

/// Other fields of a configuration in a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase", rename = ".Alias")]
struct ConfigRequest {
    cleanup_dead_servers: bool,
    max_trailing_logs: u64,
    min_quorum: u64,
    enable_redundancy_zones: bool,
    disable_upgrade_migration: bool,
    enable_custom_upgrades: bool,
    #[serde(rename = "CreateIndex")]
    _create_index: u64,
    #[serde(rename = "ModifyIndex")]
    _modify_index: u64,
}

/// Go's name of the type that a configuration is parsed with.
const GO_TYPE: &str = "struct { LastContactThreshold string; ServerStabilizationTime string; *api.Alias }";

/// Parses a configuration. A missing field is zero, not the previous value.
fn read_body(body: &[u8]) -> Result<AutopilotConfig, ApiError> {
    let bad = |error: String| ApiError::bad_request(format!("Error parsing autopilot config: {error}"));
    if body.is_empty() {
        return Err(bad("Request body is empty".to_owned()));
    }
    let names =
        go_json::Names { root: Some(GO_TYPE), fields: &[(".Alias.MinQuorum", "uint")], ..go_json::Names::default() };
    let spans: SpansRequest = go_json::from_slice_named(body, names).map_err(|error| bad(error.to_string()))?;
    let rest: ConfigRequest = go_json::from_slice_named(body, names).map_err(|error| bad(error.to_string()))?;
    let span = |text: &str| match text {
        "" => Ok(Dur::ZERO),
        text => duration::parse(text).map(Dur).map_err(|error| bad(error.to_string())),
    };
    Ok(AutopilotConfig {
        cleanup_dead_servers: rest.cleanup_dead_servers,
        last_contact_threshold: span(&spans.last_contact_threshold)?,
        max_trailing_logs: rest.max_trailing_logs,
        min_quorum: rest.min_quorum,
        server_stabilization_time: span(&spans.server_stabilization_time)?,
        enable_redundancy_zones: rest.enable_redundancy_zones,
        disable_upgrade_migration: rest.disable_upgrade_migration,
        enable_custom_upgrades: rest.enable_custom_upgrades,
        ..AutopilotConfig::default()
    })
}

async fn write_config<S: Writes>(mut call: Call<S>) -> Result<Response, ApiError> {
    let body = call.bytes().await?;
    let config = read_body(&body)?;
    let cas = cas(call.query())?;
    call.write_namespace()?;
    let written = call.propose(SetAutopilotConfig { config, cas }).await?;
    call.plain(&(written.outcome != Outcome::Cas(false)))
}

/// Answer of `autopilot/health`: the cluster's health, and that of each server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct HealthReply {
    failure_tolerance: u64,
    healthy: bool,
    servers: Vec<ServerHealth>,
}

/// Health of one server in the answer of `autopilot/health`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ServerHealth {
    last_contact: String,
    #[serde(rename = "ID")]
    id: String,
    name: String,
    address: String,
    serf_status: &'static str,
    version: String,
    leader: bool,
    last_term: u64,
    last_index: u64,
    healthy: bool,
    voter: bool,
    stable_since: Time,
}

impl ServerHealth {
    fn new(member: Member, health: &MemberHealth) -> Self {
        ServerHealth {
            // Rounded to milliseconds.
            last_contact: Dur::from_millis(i64::try_from(health.last_contact.as_millis()).unwrap_or(i64::MAX))
                .to_string(),
            serf_status: if member.alive { "alive" } else { "failed" },
            leader: member.leader,
            last_term: health.last_term,
            last_index: health.last_index,
            healthy: health.healthy,
            voter: member.voter,
            stable_since: Time::from_secs(health.stable_since.secs()),
            id: member.id,
            name: member.name,
            address: member.address,
            version: member.version,
        }
    }
}

/// Health of the cluster. The status is 429 with the same body when a server is unhealthy, so that a monitor needs
/// only the status.
async fn read_health<S: Cluster>(call: Call<S>) -> Result<Response, ApiError> {
    let health = call.server.cluster_health();
    let members = call.server.members().into_iter();
    let servers = members.filter_map(|member| {
        let known = health.servers.get(&member.id)?;
        Some(ServerHealth::new(member, known))
    });
    let reply = HealthReply {
        failure_tolerance: health.failure_tolerance,
        healthy: health.healthy,
        servers: servers.collect(),
    };
    let mut response = call.plain(&reply)?;
    if !reply.healthy {
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    }
    Ok(response)
}
