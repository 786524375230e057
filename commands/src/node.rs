//! Commands about nodes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use songline_model::{DrainStrategy, Eligibility, Node, NodeEvent, NodeId, NodeStatus, Str};

/// Add a node, or replace what it says of itself. A known node keeps its status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RegisterNode {
    /// The whole row; computed class and `status_updated_at` present.
    pub node: Node,
    /// Whether a missing pool is made.
    pub create_node_pool: bool,
}

/// Remove a node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeregisterNode {
    /// Which.
    pub node_id: NodeId,
}

/// Remove nodes: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeregisterNodes {
    /// Which.
    pub node_ids: Vec<NodeId>,
}

/// Change a node's status.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateNodeStatus {
    /// Which.
    pub node_id: NodeId,
    /// To what; already what the rules of reconnecting allow.
    pub status: NodeStatus,
    /// What is added to its events.
    pub event: Option<NodeEvent>,
    /// Unix seconds.
    pub updated_at: i64,
}

/// Start, change or call off a drain.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateNodeDrain {
    /// Which.
    pub node_id: NodeId,
    /// Absent calls it off.
    pub drain_strategy: Option<DrainStrategy>,
    /// Whether a node without a drain becomes eligible.
    pub mark_eligible: bool,
    /// What is added to its events.
    pub event: Option<NodeEvent>,
    /// Unix seconds.
    pub updated_at: i64,
    /// What the caller says about the drain.
    pub meta: Option<BTreeMap<Str, Str>>,
    /// Accessor or node id of the caller.
    pub updated_by: Str,
}

/// End drains that are done.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FinishNodeDrains {
    /// Which.
    pub node_ids: Vec<NodeId>,
    /// What is added to the events of each.
    pub event: Option<NodeEvent>,
    /// Unix seconds.
    pub updated_at: i64,
}

/// Make a node eligible or ineligible.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpdateNodeEligibility {
    /// Which.
    pub node_id: NodeId,
    /// To what.
    pub eligibility: Eligibility,
    /// What is added to its events.
    pub event: Option<NodeEvent>,
    /// Unix seconds.
    pub updated_at: i64,
}

/// Add events to nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AddNodeEvents {
    /// By node.
    pub events: BTreeMap<NodeId, Vec<NodeEvent>>,
}
