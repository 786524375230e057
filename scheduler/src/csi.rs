//! CSI volumes in use: the nodes on which a plugin's controllers are asked, a node's id in the storage, and the steps
//! by which a claim is released. The shell makes the calls to plugins and writes the claims.

mod release;

use songline_model::{CsiPluginId, CsiVolume, NodeId, NodeStatus, Str};
use songline_projections::State;

pub use release::{Detach, ReleaseError, Step, begin, next, of_node, reached};

/// Reason why no controller of a plugin can be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoController {
    /// No plugin was named.
    #[error("missing plugin ID")]
    Unnamed,
    /// The plugin is unknown.
    #[error("plugin missing: {0}")]
    Missing(CsiPluginId),
    /// The plugin has no controllers.
    #[error("failed to find instances of controller plugin {0:?}")]
    NoInstances(CsiPluginId),
    /// No controller is healthy and on a ready node.
    #[error("failed to find clients running controller plugin {plugin:?}: {}", reasons.join(", "))]
    NoClients {
        /// The plugin.
        plugin: CsiPluginId,
        /// One reason for each controller.
        reasons: Vec<String>,
    },
}

/// A node has no id in the storage, because no instance of the plugin runs on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "missing external node ID: failed to find storage provider info for client \"{node}\", node plugin {plugin:?} is \
     not running or has not fingerprinted on this client"
)]
pub struct NoExternalNode {
    node: NodeId,
    plugin: CsiPluginId,
}

/// The nodes with healthy controllers of a plugin, in the order in which they are asked.
pub fn controllers(view: &State, plugin: &str) -> Result<Vec<NodeId>, NoController> {
    if plugin.is_empty() {
        return Err(NoController::Unnamed);
    }
    let row = view.csi_plugin(plugin).ok_or_else(|| NoController::Missing(plugin.into()))?;
    if row.controllers.is_empty() {
        return Err(NoController::NoInstances(row.id.clone()));
    }
    let (mut usable, mut reasons) = (Vec::new(), Vec::new());
    for (id, info) in &row.controllers {
        match view.node(*id) {
            _ if !info.healthy => reasons.push(format!("controller on node {id} is unhealthy")),
            Some(node) if node.status == NodeStatus::Ready => usable.push(*id),
            Some(node) => reasons.push(format!("node {id} is {}", node.status)),
            None => reasons.push(format!("Unknown node {id}")),
        }
    }
    if usable.is_empty() {
        return Err(NoController::NoClients { plugin: row.id.clone(), reasons });
    }
    Ok(usable)
}

/// Id of a node in the storage of the volume: from a claim of the node, or as the node's plugin reports it.
pub fn external_node(view: &State, volume: &CsiVolume, node: NodeId) -> Result<Str, NoExternalNode> {
    let claims = volume.holders().map(|(_, claim)| claim).chain(volume.past_claims.values());
    let mut claimed = claims.filter(|claim| claim.node_id == node && !claim.external_node_id.is_empty());
    if let Some(claim) = claimed.next() {
        return Ok(claim.external_node_id.clone());
    }
    let plugins = view.node(node).and_then(|node| node.csi_node_plugins.as_ref());
    let info = plugins.and_then(|plugins| plugins.get(volume.plugin_id.as_str())?.node_info.as_ref());
    let known = info.map(|info| info.id.clone()).filter(|id| !id.is_empty());
    known.ok_or_else(|| NoExternalNode { node, plugin: volume.plugin_id.clone() })
}

/// Whether a controller has to attach the plugin's volumes to nodes and detach them again.
pub fn attaches(view: &State, plugin: &str) -> bool {
    view.csi_plugin(plugin).is_some_and(|plugin| {
        plugin.controller_required && plugin.has_controller_capability(|can| can.supports_attach_detach)
    })
}

#[cfg(test)]
mod tests;
