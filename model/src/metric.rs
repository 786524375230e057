//! Scheduling metrics: reasons why an allocation was placed or not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Dur, NodeId, Resources, Str};

/// `AllocMetric` of the wire: nodes evaluated, filtered and exhausted, with reasons.
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

/// `NodeScoreMeta` of the wire: the scores of one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeScoreMeta {
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    pub scores: Option<ScoresByName>,
    pub norm_score: f64,
}

/// Scores of one node by scorer name: a map on the wire, a short list here, because every allocation keeps a few.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ScoresByName(Box<[(Str, f64)]>);

impl ScoresByName {
    /// The scores in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&Str, f64)> {
        self.0.iter().map(|(name, score)| (name, *score))
    }
}

impl FromIterator<(Str, f64)> for ScoresByName {
    fn from_iter<I: IntoIterator<Item = (Str, f64)>>(scores: I) -> Self {
        let mut scores: Vec<(Str, f64)> = scores.into_iter().collect();
        scores.sort_by(|(one, _), (other, _)| one.cmp(other));
        Self(scores.into_boxed_slice())
    }
}

impl Serialize for ScoresByName {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for ScoresByName {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(BTreeMap::<Str, f64>::deserialize(d)?.into_iter().collect())
    }
}
