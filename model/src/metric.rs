//! Scheduling metrics: reasons why an allocation was placed or not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Dur, FlatMap, NodeId, Resources, Str};

/// Record of one search for a node: nodes evaluated, filtered and exhausted, with reasons.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocMetric {
    pub nodes_evaluated: i64,
    pub nodes_filtered: i64,
    pub nodes_in_pool: i64,
    /// Number of ready nodes by datacenter.
    pub nodes_available: Option<FlatMap<Str, i64>>,
    pub class_filtered: Option<FlatMap<Str, i64>>,
    pub constraint_filtered: Option<FlatMap<Str, i64>>,
    pub nodes_exhausted: i64,
    pub class_exhausted: Option<FlatMap<Str, i64>>,
    pub dimension_exhausted: Option<FlatMap<Str, i64>>,
    pub quota_exhausted: Option<Vec<Str>>,
    pub resources_exhausted: Option<BTreeMap<Str, Resources>>,
    pub scores: Option<BTreeMap<Str, f64>>,
    pub score_meta_data: Option<Vec<NodeScoreMeta>>,
    /// Duration of the search.
    pub allocation_time: Dur,
    /// Number of further allocations of the group that failed in the same way.
    pub coalesced_failures: i64,
}

/// The scores of one node.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeScoreMeta {
    #[serde(rename = "NodeID")]
    pub node_id: NodeId,
    pub scores: Option<ScoresByName>,
    pub norm_score: f64,
}

/// Scores of one node by scorer name: a map on the wire. Every allocation keeps a few of these, so the scorers that this
/// program has take one bit each instead of a name.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoresByName(Kept);

/// Names of the scorers in order; the position of a name is its bit.
const SCORERS: [&str; 7] = [
    "allocation-spread",
    "binpack",
    "devices",
    "job-anti-affinity",
    "node-affinity",
    "node-reschedule-penalty",
    "preemption",
];

#[derive(Debug, Clone, PartialEq)]
enum Kept {
    /// Scores of the scorers whose bits are set.
    Known(u8, Box<[f64]>),
    /// Scores of which one at least has another name, in order of name.
    Named(Box<[(Str, f64)]>),
}

impl ScoresByName {
    /// The scores in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        let (bits, known, named): (u8, &[f64], &[(Str, f64)]) = match &self.0 {
            Kept::Known(bits, scores) => (*bits, scores, &[]),
            Kept::Named(scores) => (0, &[], scores),
        };
        let names = SCORERS.iter().enumerate().filter(move |(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name);
        names.zip(known.iter().copied()).chain(named.iter().map(|(name, score)| (name.as_str(), *score)))
    }
}

impl Default for ScoresByName {
    fn default() -> Self {
        Self(Kept::Known(0, Box::default()))
    }
}

impl<N: Into<Str>> FromIterator<(N, f64)> for ScoresByName {
    fn from_iter<I: IntoIterator<Item = (N, f64)>>(scores: I) -> Self {
        let scores: FlatMap<Str, f64> = scores.into_iter().map(|(name, score)| (name.into(), score)).collect();
        let bit = |name: &Str| SCORERS.iter().position(|known| *known == name.as_str()).map(|bit| 1 << bit);
        let bits = scores.keys().map(bit).try_fold(0, |bits, bit: Option<u8>| Some(bits | bit?));
        match bits {
            Some(bits) => Self(Kept::Known(bits, scores.into_iter().map(|(_, score)| score).collect())),
            None => Self(Kept::Named(scores.into_iter().collect())),
        }
    }
}

impl Serialize for ScoresByName {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for ScoresByName {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(FlatMap::<Str, f64>::deserialize(d)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{SCORERS, ScoresByName};

    #[test]
    fn scores_are_listed_by_name_whether_the_scorer_is_known_or_not() {
        assert!(SCORERS.is_sorted());
        for (listed, text) in [
            (vec![("preemption", 0.5), ("binpack", 1.0)], r#"{"binpack":1.0,"preemption":0.5}"#),
            (vec![("binpack", 1.0), ("a", 2.0)], r#"{"a":2.0,"binpack":1.0}"#),
            (vec![], "{}"),
        ] {
            let scores: ScoresByName = listed.into_iter().collect();
            assert_eq!(serde_json::to_string(&scores).unwrap(), text);
            assert_eq!(serde_json::from_str::<ScoresByName>(text).unwrap(), scores);
        }
    }
}
