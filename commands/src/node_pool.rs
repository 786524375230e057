//! Commands for node pools.

use serde::{Deserialize, Serialize};
use songline_model::{NodePool, NodePoolName};

/// Create or update node pools.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UpsertNodePools {
    /// Whole rows; hashes must be set, indexes are ignored.
    pub node_pools: Vec<NodePool>,
}

/// Delete node pools: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteNodePools {
    /// Names of the node pools.
    pub names: Vec<NodePoolName>,
}
