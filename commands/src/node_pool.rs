//! Commands about node pools.

use serde::{Deserialize, Serialize};
use songline_model::{NodePool, NodePoolName};

/// Make or change node pools.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertNodePools {
    /// Whole rows; hashes present, indexes ignored.
    pub node_pools: Vec<NodePool>,
}

/// Delete node pools: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteNodePools {
    /// Which.
    pub names: Vec<NodePoolName>,
}
