//! The fingerprint of a CSI plugin: its answers about itself, as the rows that the node reports to the servers.

use songline_model::{CsiControllerInfo, CsiInfo, CsiNodeInfo, CsiTopology, Str, Time};

use super::messages::{GetCapabilitiesResponse, NodeGetInfoResponse};
use super::plugin::{CallError, Plugin};

/// Numbers of `PluginCapability.Service.Type`.
mod service {
    pub const CONTROLLER: i32 = 1;
    pub const ACCESSIBILITY_CONSTRAINTS: i32 = 2;
}

/// Numbers of `ControllerServiceCapability.RPC.Type`.
mod controller {
    pub const CREATE_DELETE_VOLUME: i32 = 1;
    pub const PUBLISH_UNPUBLISH_VOLUME: i32 = 2;
    pub const LIST_VOLUMES: i32 = 3;
    pub const GET_CAPACITY: i32 = 4;
    pub const CREATE_DELETE_SNAPSHOT: i32 = 5;
    pub const LIST_SNAPSHOTS: i32 = 6;
    pub const CLONE_VOLUME: i32 = 7;
    pub const PUBLISH_READONLY: i32 = 8;
    pub const EXPAND_VOLUME: i32 = 9;
    pub const LIST_VOLUMES_PUBLISHED_NODES: i32 = 10;
    pub const VOLUME_CONDITION: i32 = 11;
    pub const GET_VOLUME: i32 = 12;
}

/// Numbers of `NodeServiceCapability.RPC.Type`.
mod node {
    pub const STAGE_UNSTAGE_VOLUME: i32 = 1;
    pub const GET_VOLUME_STATS: i32 = 2;
    pub const EXPAND_VOLUME: i32 = 3;
    pub const VOLUME_CONDITION: i32 = 4;
}

/// The parts that an instance of a plugin has, from the `type` of its task's `csi_plugin` block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parts {
    Controller,
    Node,
    Monolith,
}

impl Parts {
    /// Name of a single part, as in errors.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Node => "node",
            Self::Monolith => "monolith",
        }
    }

    /// The one or two parts.
    pub(super) fn each(self) -> &'static [Parts] {
        match self {
            Self::Controller => &[Self::Controller],
            Self::Node => &[Self::Node],
            Self::Monolith => &[Self::Controller, Self::Node],
        }
    }
}

/// An instance of a plugin: its id, and the allocation whose task it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub plugin_id: Str,
    pub alloc_id: Str,
    pub parts: Parts,
}

/// The rows of an instance: one for each of its parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Fingerprint {
    pub controller: Option<CsiInfo>,
    pub node: Option<CsiInfo>,
}

/// A plugin that did not answer about itself, or left out what every plugin must say.
#[derive(Debug, thiserror::Error)]
pub enum FingerprintError {
    #[error("failed fingerprinting with error: {0}")]
    Call(#[from] CallError),
    #[error("failed fingerprinting with error: PluginGetInfo: plugin returned empty name field")]
    NoName,
    #[error("failed fingerprinting with error: plugin failed to return nodeid")]
    NoNodeId,
}

impl Instance {
    /// Asks the plugin about itself. `at` becomes the rows' time of update.
    pub async fn fingerprint(&self, plugin: &Plugin, at: Time) -> Result<Fingerprint, FingerprintError> {
        let shared = self.shared(plugin, at).await?;
        let mut found = Fingerprint { controller: None, node: None };
        if self.parts != Parts::Node {
            let info = controller_info(&plugin.controller_capabilities().await?);
            found.controller = Some(CsiInfo { controller_info: Some(info), ..shared.clone() });
        }
        if self.parts != Parts::Controller {
            let about = plugin.node_info().await?;
            if about.node_id.is_empty() {
                return Err(FingerprintError::NoNodeId);
            }
            let info = node_info(about, &plugin.node_capabilities().await?);
            found.node = Some(CsiInfo { node_info: Some(info), ..shared });
        }
        Ok(found)
    }

    /// The rows of an instance that stopped answering: not healthy, and without capabilities. What `known` says about the
    /// plugin itself stays. Servers keep such a row, and do not count it.
    pub fn failed(&self, known: Option<&Fingerprint>, error: &FingerprintError, at: Time) -> Fingerprint {
        let known = known.and_then(|rows| rows.controller.as_ref().or(rows.node.as_ref()));
        let row = CsiInfo { controller_info: None, node_info: None, ..known.cloned().unwrap_or_else(|| self.row(at)) };
        let shared = CsiInfo {
            healthy: false,
            health_description: error.to_string().as_str().into(),
            update_time: Some(at),
            ..row
        };
        Fingerprint {
            controller: (self.parts != Parts::Node)
                .then(|| CsiInfo { controller_info: Some(CsiControllerInfo::default()), ..shared.clone() }),
            node: (self.parts != Parts::Controller)
                .then(|| CsiInfo { node_info: Some(CsiNodeInfo::default()), ..shared.clone() }),
        }
    }

    async fn shared(&self, plugin: &Plugin, at: Time) -> Result<CsiInfo, FingerprintError> {
        let about = plugin.info().await?;
        if about.name.is_empty() {
            return Err(FingerprintError::NoName);
        }
        let capabilities = plugin.capabilities().await?.capabilities;
        let has = |kind| capabilities.iter().any(|one| one.service.as_ref().is_some_and(|of| of.kind == kind));
        Ok(CsiInfo {
            healthy: true,
            health_description: "healthy".into(),
            provider: about.name.as_str().into(),
            provider_version: about.vendor_version.as_str().into(),
            requires_controller_plugin: has(service::CONTROLLER),
            requires_topologies: has(service::ACCESSIBILITY_CONSTRAINTS),
            ..self.row(at)
        })
    }

    fn row(&self, at: Time) -> CsiInfo {
        CsiInfo {
            plugin_id: self.plugin_id.clone(),
            alloc_id: self.alloc_id.clone(),
            update_time: Some(at),
            ..CsiInfo::default()
        }
    }
}

/// Whether volumes have to be staged before they are published.
pub(super) async fn requires_stage(plugin: &Plugin) -> Result<bool, CallError> {
    Ok(supports(&plugin.node_capabilities().await?, node::STAGE_UNSTAGE_VOLUME))
}

/// Whether mounted volumes have to be expanded on the node.
pub(super) async fn expands(plugin: &Plugin) -> Result<bool, CallError> {
    Ok(supports(&plugin.node_capabilities().await?, node::EXPAND_VOLUME))
}

fn controller_info(answer: &GetCapabilitiesResponse) -> CsiControllerInfo {
    let has = |kind| supports(answer, kind);
    CsiControllerInfo {
        supports_create_delete: has(controller::CREATE_DELETE_VOLUME),
        supports_attach_detach: has(controller::PUBLISH_UNPUBLISH_VOLUME),
        supports_list_volumes: has(controller::LIST_VOLUMES),
        supports_get_capacity: has(controller::GET_CAPACITY),
        supports_create_delete_snapshot: has(controller::CREATE_DELETE_SNAPSHOT),
        supports_list_snapshots: has(controller::LIST_SNAPSHOTS),
        supports_clone: has(controller::CLONE_VOLUME),
        supports_read_only_attach: has(controller::PUBLISH_READONLY),
        supports_expand: has(controller::EXPAND_VOLUME),
        supports_list_volumes_attached_nodes: has(controller::LIST_VOLUMES_PUBLISHED_NODES),
        supports_condition: has(controller::VOLUME_CONDITION),
        supports_get: has(controller::GET_VOLUME),
    }
}

fn node_info(about: NodeGetInfoResponse, answer: &GetCapabilitiesResponse) -> CsiNodeInfo {
    let segments = |of: super::messages::Topology| {
        of.segments.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
    };
    CsiNodeInfo {
        id: about.node_id.as_str().into(),
        // Zero is "not limited by the plugin".
        max_volumes: if about.max_volumes_per_node == 0 { i64::MAX } else { about.max_volumes_per_node },
        accessible_topology: about.accessible_topology.map(|of| CsiTopology { segments: Some(segments(of)) }),
        requires_node_stage_volume: supports(answer, node::STAGE_UNSTAGE_VOLUME),
        supports_stats: supports(answer, node::GET_VOLUME_STATS),
        supports_expand: supports(answer, node::EXPAND_VOLUME),
        supports_condition: supports(answer, node::VOLUME_CONDITION),
    }
}

fn supports(answer: &GetCapabilitiesResponse, kind: i32) -> bool {
    answer.capabilities.iter().any(|one| one.rpc.as_ref().is_some_and(|rpc| rpc.kind == kind))
}
