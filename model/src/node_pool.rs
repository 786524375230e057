//! Node pools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Blob, NodePoolName, Str};

/// A node pool: a named part of all nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodePool {
    pub name: NodePoolName,
    pub description: Str,
    pub meta: Option<BTreeMap<Str, Str>>,
    pub scheduler_configuration: Option<NodePoolSchedulerConfiguration>,
    pub hash: Option<Blob>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// Scheduler settings that apply to one pool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodePoolSchedulerConfiguration {
    pub scheduler_algorithm: Str,
    pub memory_oversubscription_enabled: Option<bool>,
}
