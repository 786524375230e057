//! Facts about the machine of an agent, for debugging. Without ACLs it needs `enable_debug`: the answer shows the
//! environment.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use songline_model::NodeId;
use songline_rpc::NodeAgent;

use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::capability::Capability;
use crate::http::ids;
use crate::http::mux::{Methods, Mux};
use crate::server::{Cluster, Nodes, Reads, Status};
use songline_lang::acl::Access;

/// Replacement for secret values.
const REDACTED: &str = "<redacted>";
/// Words in the names of environment variables that hold secrets.
const SECRET_WORDS: [&str; 6] = ["TOKEN", "SECRET", "PASSWORD", "KEY", "CREDENTIAL", "LICENSE"];

pub(super) fn routes<S: Reads + Cluster + Nodes + Status>(mux: &mut Mux<S>) {
    mux.add(Methods::Get, "/v1/agent/host", "", Capability::Agent(Access::Read), |call| Box::pin(host(call)));
}

/// Facts of an agent's machine, for support.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct HostData {
    #[serde(rename = "OS")]
    os: String,
    network: Vec<BTreeMap<&'static str, String>>,
    resolv_conf: String,
    hosts: String,
    environment: BTreeMap<String, String>,
    disk: BTreeMap<String, DiskUsage>,
}

/// Size and use of one disk, in bytes and percent.
#[derive(Debug, Serialize)]
struct DiskUsage {
    #[serde(rename = "DiskMB")]
    disk_mb: u64,
    #[serde(rename = "UsedMB")]
    used_mb: u64,
}

/// Answer of `agent/host`: the data, and the id of the requested agent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostDataResponse<T> {
    #[serde(rename = "AgentID")]
    agent_id: String,
    host_data: T,
}

/// Target of a request for a machine, profile or log.
pub(super) enum Asked {
    /// This agent; with the id by which the request named it, which the answer repeats.
    Own(Option<String>),
    /// The agent of another node.
    Node(NodeId),
}

async fn host<S: Reads + Cluster + Nodes + Status>(call: Call<S>) -> Result<Response, ApiError> {
    // With ACLs enabled, the token decides.
    if !call.server.info().acl.enabled && !call.server.info().enable_debug {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "Permission denied"));
    }
    let query = call.query();
    if !query.text("node_id").is_empty() && !query.text("server_id").is_empty() {
        return Err(ApiError::bad_request("Can only forward to either client node or server"));
    }
    match asked_for(&call)? {
        Asked::Own(None) => call.plain(&data().await?),
        Asked::Own(Some(agent_id)) => call.plain(&HostDataResponse { agent_id, host_data: data().await? }),
        Asked::Node(node) => {
            let found = agent_of(&call, node)?.agent_host().await?;
            let host_data: serde_json::Value = serde_json::from_slice(&found)
                .map_err(|error| ApiError::internal(format!("reading what the node says: {error}")))?;
            call.plain(&HostDataResponse { agent_id: node.to_string(), host_data })
        }
    }
}

/// Facts about this machine.
pub(crate) async fn data() -> Result<HostData, ApiError> {
    tokio::task::spawn_blocking(look).await.map_err(|error| ApiError::internal(error.to_string()))
}

/// Client of another node's agent, which is called on the caller's behalf.
pub(super) fn agent_of<S: Nodes>(call: &Call<S>, node: NodeId) -> Result<Arc<S::Node>, ApiError> {
    call.server.node_agent(node, call.secret()).ok_or_else(|| ApiError::not_found("No path to node"))
}

/// Target that a request names: the agent in this process, or a node. Other servers answer only requests that are
/// sent to them directly.
pub(super) fn asked_for<S: Reads + Cluster + Nodes + Status>(call: &Call<S>) -> Result<Asked, ApiError> {
    let (node, server) = (call.query().text("node_id"), call.query().text("server_id"));
    match (node.is_empty(), server.is_empty()) {
        (true, true) => Ok(Asked::Own(None)),
        (false, false) => Err(ApiError::bad_request("Cannot target node and server simultaneously")),
        (true, false) => {
            let info = call.server.info();
            let leads = *server == *"leader" && !call.server.leader_addr().is_empty();
            if leads || *server == info.name || call.server.agent_self().tags.get("id").is_some_and(|id| *id == *server)
            {
                return Ok(Asked::Own(Some(server.into_owned())));
            }
            Err(ApiError::internal(format!("unknown Nomad server {server}")))
        }
        (false, true) => {
            let id = ids::exact(&node)
                .map_err(|error| ApiError::internal(format!("node lookup failed: index error: {error}")))?;
            let id = id.map(NodeId::from).unwrap_or_default();
            if call.server.local_node() == Some(id) {
                return Ok(Asked::Own(Some(node.into_owned())));
            }
            match call.server.view().node(id) {
                Some(_) => Ok(Asked::Node(id)),
                None => Err(ApiError::not_found(format!("Unknown node \"{node}\""))),
            }
        }
    }
}

fn look() -> HostData {
    HostData {
        os: os(),
        network: network(Path::new("/sys/class/net")),
        resolv_conf: text("/etc/resolv.conf"),
        hosts: text("/etc/hosts"),
        environment: std::env::vars_os()
            .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
            .map(|(name, value)| if is_secret(&name) { (name, REDACTED.to_owned()) } else { (name, value) })
            .collect(),
        disk: disks(&text("/proc/self/mounts")),
    }
}

/// A file's text; empty when the file cannot be read, because the other facts are worth showing nevertheless.
fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn os() -> String {
    let name = rustix::system::uname();
    let parts = [name.sysname(), name.nodename(), name.release(), name.version(), name.machine()];
    parts.map(|part| part.to_string_lossy().into_owned()).join(" ")
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Network interfaces of the machine.
fn network(dir: &Path) -> Vec<BTreeMap<&'static str, String>> {
    let mut names: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let interface = |name: &std::ffi::OsString| {
        let read = |what: &str| text(&dir.join(name).join(what).to_string_lossy()).trim().to_owned();
        BTreeMap::from([
            ("name", name.to_string_lossy().into_owned()),
            ("mac", read("address")),
            ("mtu", read("mtu")),
            ("flags", read("flags")),
            ("state", read("operstate")),
        ])
    };
    names.iter().map(interface).collect()
}

/// Usage of the file systems on devices, by mount point.
fn disks(mounts: &str) -> BTreeMap<String, DiskUsage> {
    let on_devices = mounts.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (device, at) = (fields.next()?, fields.next()?);
        device.starts_with("/dev/").then_some(at)
    });
    on_devices.filter_map(|at| Some((at.to_owned(), usage(at)?))).collect()
}

fn usage(at: &str) -> Option<DiskUsage> {
    let stat = rustix::fs::statvfs(at).ok()?;
    let mb = |blocks: u64| blocks.saturating_mul(stat.f_frsize) >> 20;
    Some(DiskUsage { disk_mb: mb(stat.f_blocks), used_mb: mb(stat.f_blocks.saturating_sub(stat.f_bfree)) })
}

#[cfg(test)]
mod tests {
    use super::{disks, is_secret};

    #[test]
    fn secret_environment_variables_are_recognised_by_name() {
        for (name, secret) in [
            ("PATH", false),
            ("VAULT_TOKEN", true),
            ("aws_secret_access_key", true),
            ("DB_PASSWORD", true),
            ("NOMAD_LICENSE", true),
            ("HOME", false),
        ] {
            assert_eq!(is_secret(name), secret, "{name}");
        }
    }

    #[test]
    fn host_disks_include_only_file_systems_on_devices() {
        let disks = disks("proc /proc proc rw 0 0\n/dev/none / ext4 rw 0 0\nhalf a line\n");
        assert_eq!(disks.into_keys().collect::<Vec<_>>(), ["/"]);
    }
}
