//! Nodes as answers show them: with `Drain`, without their secret; and their short form in lists.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use songline_model::{
    ClientHostVolumeConfig, DrainMetadata, DriverInfo, Dur, Eligibility, Node, NodeId, NodeReservedResources, NodeResources, NodeStatus,
    Str,
};

/// A node as answers and events show it. Its secret is of a type that no JSON shows.
#[derive(Debug, Serialize)]
pub struct NodeView<'a> {
    #[serde(flatten)]
    node: &'a Node,
    #[serde(rename = "Drain")]
    drain: bool,
}

impl<'a> NodeView<'a> {
    /// The view of a row.
    pub fn new(node: &'a Node) -> Self {
        Self { node, drain: node.drain_strategy.is_some() }
    }
}

/// `NodeListStub` of the wire.
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

/// What a list of nodes shows beyond the usual.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeFields {
    /// Resources.
    pub resources: bool,
    /// The operating system.
    pub os: bool,
}

impl<'a> NodeStub<'a> {
    /// The stub of a row.
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

/// `NodeUpdateDrainRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeUpdateDrainRequest {
    /// How to drain; absent ends the drain.
    pub drain_spec: Option<DrainSpec>,
    /// Whether the node becomes eligible when the drain ends.
    pub mark_eligible: bool,
    /// What the caller says about it.
    pub meta: Option<BTreeMap<Str, Str>>,
}

/// `DrainSpec` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainSpec {
    /// Below 0 forces the drain at once, 0 has no end.
    pub deadline: Dur,
    /// Whether system jobs stay.
    pub ignore_system_jobs: bool,
}

/// `NodeUpdateEligibilityRequest` of the wire.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeUpdateEligibilityRequest {
    /// Wins over the path.
    #[serde(rename = "NodeID")]
    pub node_id: Str,
    /// The wire's word.
    pub eligibility: Str,
    /// Nobody may set it.
    pub node_event: Option<serde_json::Value>,
}
