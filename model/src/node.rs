//! Nodes: machines that run allocations.

mod ability;
mod class;
mod datacenter;

pub use ability::{ABILITY_PREFIX, AGENT_VERSION};

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::empty::is_empty;
use crate::{
    DrainStatus, Dur, Eligibility, NodeId, NodePoolName, NodeReservedResources, NodeResources, NodeStatus, Resources,
    Secret, Str, Time, UnixSecs,
};

/// A node: a machine with its attributes, resources, drivers and status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Node {
    #[serde(rename = "ID")]
    pub id: NodeId,
    #[serde(rename = "SecretID")]
    pub secret_id: Secret,
    pub datacenter: Str,
    pub name: Str,
    pub cgroup_parent: Str,
    #[serde(rename = "HTTPAddr")]
    pub http_addr: Str,
    #[serde(rename = "TLSEnabled")]
    pub tls_enabled: bool,
    pub attributes: Option<Arc<BTreeMap<Str, Str>>>,
    pub node_resources: Option<Arc<NodeResources>>,
    pub reserved_resources: Option<NodeReservedResources>,
    pub resources: Option<Resources>,
    pub reserved: Option<Resources>,
    pub links: Option<BTreeMap<Str, Str>>,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub node_class: Str,
    pub node_pool: NodePoolName,
    pub computed_class: Str,
    pub drain_strategy: Option<DrainStrategy>,
    pub scheduling_eligibility: Eligibility,
    pub status: NodeStatus,
    pub status_description: Str,
    /// Time of the last change of the status.
    pub status_updated_at: UnixSecs,
    pub events: Option<Vec<NodeEvent>>,
    pub drivers: Option<BTreeMap<Str, DriverInfo>>,
    #[serde(rename = "CSIControllerPlugins")]
    pub csi_controller_plugins: Option<BTreeMap<Str, CsiInfo>>,
    #[serde(rename = "CSINodePlugins")]
    pub csi_node_plugins: Option<BTreeMap<Str, CsiInfo>>,
    pub host_volumes: Option<BTreeMap<Str, ClientHostVolumeConfig>>,
    pub host_networks: Option<BTreeMap<Str, ClientHostNetworkConfig>>,
    pub last_drain: Option<DrainMetadata>,
    pub last_missed_heartbeat_index: u64,
    pub last_alloc_update_index: u64,
    pub create_index: u64,
    pub modify_index: u64,
}

/// An entry of the node's short history.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeEvent {
    pub message: Str,
    pub subsystem: Str,
    pub details: Option<BTreeMap<Str, Str>>,
    pub timestamp: Option<Time>,
    pub create_index: u64,
}

/// Fingerprint and health of a task driver.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DriverInfo {
    pub attributes: Option<BTreeMap<Str, Str>>,
    pub detected: bool,
    pub healthy: bool,
    pub health_description: Str,
    pub update_time: Option<Time>,
}

/// A directory that the node offers as a volume.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ClientHostVolumeConfig {
    pub name: Str,
    pub path: Str,
    pub read_only: bool,
}

/// A named network of the node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ClientHostNetworkConfig {
    pub name: Str,
    #[serde(rename = "CIDR")]
    pub cidr: Str,
    pub interface: Str,
    pub reserved_ports: Str,
}

/// A running drain with its deadline.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainStrategy {
    /// Time after which the remaining allocations are stopped; 0: never, negative: at once.
    pub deadline: Dur,
    pub ignore_system_jobs: bool,
    /// Time at which the deadline passes; `None`: never.
    pub force_deadline: Option<Time>,
    pub started_at: Option<Time>,
}

/// Start, status and author of the last drain.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DrainMetadata {
    pub started_at: Option<Time>,
    pub updated_at: Option<Time>,
    pub status: DrainStatus,
    #[serde(rename = "AccessorID")]
    pub accessor_id: Str,
    pub meta: Option<BTreeMap<Str, Str>>,
}

/// Fingerprint of a CSI plugin instance on the node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiInfo {
    #[serde(rename = "PluginID")]
    pub plugin_id: Str,
    #[serde(rename = "AllocID")]
    pub alloc_id: Str,
    pub healthy: bool,
    pub health_description: Str,
    pub update_time: Option<Time>,
    pub provider: Str,
    pub provider_version: Str,
    pub requires_controller_plugin: bool,
    pub requires_topologies: bool,
    #[serde(skip_serializing_if = "is_empty")]
    pub controller_info: Option<CsiControllerInfo>,
    #[serde(skip_serializing_if = "is_empty")]
    pub node_info: Option<CsiNodeInfo>,
}

/// Capabilities of a controller.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiControllerInfo {
    pub supports_create_delete: bool,
    pub supports_attach_detach: bool,
    pub supports_list_volumes: bool,
    pub supports_get_capacity: bool,
    pub supports_create_delete_snapshot: bool,
    pub supports_list_snapshots: bool,
    pub supports_clone: bool,
    pub supports_read_only_attach: bool,
    pub supports_expand: bool,
    pub supports_list_volumes_attached_nodes: bool,
    pub supports_condition: bool,
    pub supports_get: bool,
}

/// Capabilities and limits of a node instance.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiNodeInfo {
    #[serde(rename = "ID")]
    pub id: Str,
    /// Most volumes that the node may publish; 0: unbounded.
    pub max_volumes: i64,
    pub accessible_topology: Option<CsiTopology>,
    pub requires_node_stage_volume: bool,
    pub supports_stats: bool,
    pub supports_expand: bool,
    pub supports_condition: bool,
}

/// Segments, such as zone and rack, that a node or volume is in.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiTopology {
    pub segments: Option<BTreeMap<Str, Str>>,
}

impl Node {
    /// Whether new allocations may be placed on the node: ready, not draining, and eligible.
    pub fn is_ready(&self) -> bool {
        self.status == NodeStatus::Ready
            && self.drain_strategy.is_none()
            && self.scheduling_eligibility == Eligibility::Eligible
    }

    /// Whether the node may offer something that it did not offer `before`: whatever placements look at has changed,
    /// except for CSI plugins.
    pub fn offers_more_than(&self, before: &Node) -> bool {
        !before.is_ready()
            || self.computed_class != before.computed_class
            || self.attributes != before.attributes
            || self.meta != before.meta
            || self.name != before.name
            || self.node_resources != before.node_resources
            || self.reserved_resources != before.reserved_resources
            || (&self.resources, &self.reserved) != (&before.resources, &before.reserved)
            || self.drivers != before.drivers
            || self.host_volumes != before.host_volumes
    }

    /// Value of an attribute, such as `kernel.name`.
    pub fn attribute(&self, name: &str) -> Option<&Str> {
        self.attributes.as_ref()?.get(name)
    }
}
