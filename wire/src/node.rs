//! Wire form of nodes: with `Drain`, without their secret; and as stubs in lists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use songline_model::{
    ClientHostVolumeConfig, DrainMetadata, DriverInfo, Dur, Eligibility, Node, NodeId, NodeReservedResources,
    NodeResources, NodeStatus, Str,
};

/// A node in answers and events. Its secret is of a type that JSON does not show.
#[derive(Debug, Serialize)]
pub struct NodeView<'a> {
    #[serde(flatten)]
    node: &'a Node,
    #[serde(rename = "Drain")]
    drain: bool,
}

impl<'a> NodeView<'a> {
    /// Makes the view of a row.
    pub fn new(node: &'a Node) -> Self {
        Self { node, drain: node.drain_strategy.is_some() }
    }
}

/// A node in lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeStub<'a> {
    address: &'a str,
    #[serde(rename = "ID")]
    id: NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<BTreeMap<&'static str, &'a str>>,
    datacenter: &'a str,
    name: &'a str,
    node_pool: &'a str,
    node_class: &'a str,
    version: &'a str,
    drain: bool,
    scheduling_eligibility: Eligibility,
    status: NodeStatus,
    status_description: &'a str,
    drivers: &'a Option<BTreeMap<Str, DriverInfo>>,
    host_volumes: &'a Option<BTreeMap<Str, ClientHostVolumeConfig>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_resources: Option<&'a NodeResources>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_resources: Option<&'a NodeReservedResources>,
    last_drain: &'a Option<DrainMetadata>,
    create_index: u64,
    modify_index: u64,
}

/// Optional fields of a list of nodes.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeFields {
    /// Whether to show resources.
    pub resources: bool,
    /// Whether to show the operating system.
    pub os: bool,
}

impl<'a> NodeStub<'a> {
    /// Makes the stub of a row.
    pub fn new(node: &'a Node, fields: NodeFields) -> Self {
        let text = |name: &str| node.attribute(name).map_or("", Str::as_str);
        Self {
            address: host(&node.http_addr),
            id: node.id,
            attributes: fields.os.then(|| BTreeMap::from([("os.name", text("os.name"))])),
            datacenter: &node.datacenter,
            name: &node.name,
            node_pool: &node.node_pool,
            node_class: &node.node_class,
            version: text("nomad.version"),
            drain: node.drain_strategy.is_some(),
            scheduling_eligibility: node.scheduling_eligibility,
            status: node.status,
            status_description: &node.status_description,
            drivers: &node.drivers,
            host_volumes: &node.host_volumes,
            node_resources: node.node_resources.as_deref().filter(|_| fields.resources),
            reserved_resources: node.reserved_resources.as_ref().filter(|_| fields.resources),
            last_drain: &node.last_drain,
            create_index: node.create_index,
            modify_index: node.modify_index,
        }
    }
}

/// The host of `host:port` or `[host]:port`.
fn host(addr: &str) -> &str {
    let host = addr.rsplit_once(':').map_or("", |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Body that starts, changes or ends the drain of a node.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeUpdateDrainRequest {
    /// Must be a text; the path names the node.
    #[serde(rename = "NodeID")]
    pub node_id: Str,
    /// Drain to start; absent to end the drain.
    pub drain_spec: Option<DrainSpec>,
    /// Whether the node becomes eligible when the drain ends.
    pub mark_eligible: bool,
    /// The caller's remarks on the drain.
    pub meta: Option<BTreeMap<Str, Str>>,
}

/// Deadline of a drain, and whether it spares system jobs.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainSpec {
    /// Nanoseconds until the drain is forced. Below 0: it is forced at once; 0: no deadline.
    pub deadline: Dur,
    /// Whether system jobs stay on the node.
    pub ignore_system_jobs: bool,
}

/// Body that makes a node eligible or ineligible for new allocations.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeUpdateEligibilityRequest {
    /// Takes precedence over the id in the path.
    #[serde(rename = "NodeID")]
    pub node_id: Str,
    /// `eligible` or `ineligible`.
    pub eligibility: Str,
    /// Callers must not set it.
    pub node_event: Option<serde_json::Value>,
}
