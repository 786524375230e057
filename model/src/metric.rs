//! Why the scheduler placed, or did not place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Dur, NodeId, Resources, Str};

/// `AllocMetric` of the wire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocMetric {
    pub nodes_evaluated: i64,
    pub nodes_filtered: i64,
    pub nodes_in_pool: i64,
    pub nodes_available: Option<BTreeMap<Str, i64>>,
    pub class_filtered: Option<BTreeMap<Str, i64>>,
    pub constraint_filtered: Option<BTreeMap<Str, i64>>,
    pub nodes_exhausted: i64,
    pub class_exhausted: Option<BTreeMap<Str, i64>>,
    pub dimension_exhausted: Option<BTreeMap<Str, i64>>,
    pub quota_exhausted: Option<Vec<Str>>,
    pub resources_exhausted: Option<BTreeMap<Str, Resources>>,
    pub scores: Option<BTreeMap<Str, f64>>,
    pub score_meta_data: Option<Vec<NodeScoreMeta>>,
    pub allocation_time: Dur,
    pub coalesced_failures: i64,
}

/// `NodeScoreMeta` of the wire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeScoreMeta {
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    pub scores: Option<BTreeMap<Str, f64>>,
    pub norm_score: f64,
}
