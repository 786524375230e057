//! Commands for nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use songline_model::{DrainStrategy, Eligibility, Node, NodeEvent, NodeId, NodeStatus, Str, UnixSecs};

/// Register a node, or update its own description. A known node keeps its status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RegisterNode {
    /// The whole row; computed class and `status_updated_at` must be set.
    pub node: Node,
    /// Whether to create the node's pool if it is missing.
    pub create_node_pool: bool,
}

/// Remove a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeregisterNode {
    /// Id of the node.
    pub node_id: NodeId,
}

/// Remove nodes: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeregisterNodes {
    /// Ids of the nodes.
    pub node_ids: Vec<NodeId>,
}

/// Set a node's status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateNodeStatus {
    /// Id of the node.
    pub node_id: NodeId,
    /// The new status; the proposer has already applied the rules for reconnecting nodes.
    pub status: NodeStatus,
    /// Event to add to the node.
    pub event: Option<NodeEvent>,
    /// Time of the change.
    pub updated_at: UnixSecs,
}

/// Start, change or cancel a drain.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateNodeDrain {
    /// Id of the node.
    pub node_id: NodeId,
    /// The drain; absent cancels the current one.
    pub drain_strategy: Option<DrainStrategy>,
    /// Whether the node becomes eligible when `drain_strategy` is absent.
    pub mark_eligible: bool,
    /// Event to add to the node.
    pub event: Option<NodeEvent>,
    /// Time of the change.
    pub updated_at: UnixSecs,
    /// The caller's metadata for the drain.
    pub meta: Option<BTreeMap<Str, Str>>,
    /// Accessor or node id of the caller.
    pub updated_by: Str,
}

/// End the drains that are complete.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FinishNodeDrains {
    /// Ids of the nodes.
    pub node_ids: Vec<NodeId>,
    /// Event to add to each node.
    pub event: Option<NodeEvent>,
    /// Time of the change.
    pub updated_at: UnixSecs,
}

/// Make a node eligible or ineligible.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateNodeEligibility {
    /// Id of the node.
    pub node_id: NodeId,
    /// The new eligibility.
    pub eligibility: Eligibility,
    /// Event to add to the node.
    pub event: Option<NodeEvent>,
    /// Time of the change.
    pub updated_at: UnixSecs,
}

/// Add events to nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AddNodeEvents {
    /// Events by node.
    pub events: BTreeMap<NodeId, Vec<NodeEvent>>,
}
