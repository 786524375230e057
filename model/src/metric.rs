//! Scheduling metrics: reasons why an allocation was placed or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Dur, FlatMap, NodeId, Resources, Str};

/// Record of one search for a node: nodes evaluated, filtered and exhausted, with reasons. Every allocation keeps one, so
/// the fields that a placement seldom has take one pointer each.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocMetric {
    pub nodes_evaluated: i64,
    pub nodes_filtered: i64,
    pub nodes_in_pool: i64,
    /// Number of ready nodes by datacenter.
    pub nodes_available: Option<Arc<FlatMap<Str, i64>>>,
    pub class_filtered: Option<Box<FlatMap<Str, i64>>>,
    pub constraint_filtered: Option<Box<FlatMap<Str, i64>>>,
    pub nodes_exhausted: i64,
    pub class_exhausted: Option<Box<FlatMap<Str, i64>>>,
    pub dimension_exhausted: Option<Box<FlatMap<Str, i64>>>,
    pub quota_exhausted: Option<Box<Vec<Str>>>,
    pub resources_exhausted: Option<Box<BTreeMap<Str, Resources>>>,
    pub scores: Option<Box<BTreeMap<Str, f64>>>,
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
/// program has take one bit each instead of a name, and their scores of 0 another.
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
    /// Scores of the scorers whose bits are set in `listed`, at most two of which are not 0.
    Few { listed: u8, zeros: u8, others: [f64; 2] },
    /// Scores of the scorers whose bits are set in `listed`.
    Many { listed: u8, zeros: u8, others: Box<[f64]> },
    /// Scores of which one at least has another name, in order of name.
    Named(Box<[(Str, f64)]>),
}

impl ScoresByName {
    /// The scores in order of name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        let (listed, zeros, others, named): (u8, u8, &[f64], &[(Str, f64)]) = match &self.0 {
            Kept::Few { listed, zeros, others } => (*listed, *zeros, others, &[]),
            Kept::Many { listed, zeros, others } => (*listed, *zeros, others, &[]),
            Kept::Named(scores) => (0, 0, &[], scores),
        };
        let is_set = |bits: u8, bit: usize| bits >> bit & 1 == 1;
        let mut others = others.iter().copied();
        let of_bits = SCORERS.iter().enumerate().filter(move |(bit, _)| is_set(listed, *bit));
        let known =
            of_bits.map_while(move |(bit, name)| Some((*name, if is_set(zeros, bit) { 0.0 } else { others.next()? })));
        known.chain(named.iter().map(|(name, score)| (name.as_str(), *score)))
    }

    /// The scores of known scorers, by bit.
    fn of_known(scores: [Option<f64>; SCORERS.len()]) -> Self {
        let is_zero = |score: f64| score.to_bits() == 0;
        let bits = |is_set: &dyn Fn(f64) -> bool| {
            scores.iter().enumerate().fold(0, |bits, (bit, score)| bits | (u8::from(score.is_some_and(is_set)) << bit))
        };
        let (listed, zeros) = (bits(&|_| true), bits(&is_zero));
        let others: Vec<f64> = scores.into_iter().flatten().filter(|score| !is_zero(*score)).collect();
        Self(match *others {
            [] => Kept::Few { listed, zeros, others: [0.0; 2] },
            [one] => Kept::Few { listed, zeros, others: [one, 0.0] },
            [one, two] => Kept::Few { listed, zeros, others: [one, two] },
            _ => Kept::Many { listed, zeros, others: others.into_boxed_slice() },
        })
    }
}

impl Default for ScoresByName {
    fn default() -> Self {
        Self::of_known([None; SCORERS.len()])
    }
}

/// Of several scores of a name the last counts.
impl<N: Into<Str>> FromIterator<(N, f64)> for ScoresByName {
    fn from_iter<I: IntoIterator<Item = (N, f64)>>(scores: I) -> Self {
        let (mut known, mut named) = ([None; SCORERS.len()], Vec::new());
        for (name, score) in scores {
            let name = name.into();
            match SCORERS.iter().position(|scorer| *scorer == name.as_str()) {
                Some(bit) => known[bit] = Some(score),
                None => named.push((name, score)),
            }
        }
        if named.is_empty() {
            return Self::of_known(known);
        }
        let known = SCORERS.iter().zip(known).filter_map(|(name, score)| Some((Str::new_static(name), score?)));
        let scores: FlatMap<Str, f64> = known.chain(named).collect();
        Self(Kept::Named(scores.into_iter().collect()))
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
            (vec![("node-affinity", 0.0), ("binpack", 1.0)], r#"{"binpack":1.0,"node-affinity":0.0}"#),
            (vec![("devices", -0.0), ("binpack", 0.0)], r#"{"binpack":0.0,"devices":-0.0}"#),
            (
                vec![("preemption", 0.5), ("binpack", 1.0), ("devices", 0.0), ("allocation-spread", -1.0)],
                r#"{"allocation-spread":-1.0,"binpack":1.0,"devices":0.0,"preemption":0.5}"#,
            ),
            (vec![("binpack", 1.0), ("binpack", 2.0)], r#"{"binpack":2.0}"#),
            (vec![("binpack", 1.0), ("a", 2.0)], r#"{"a":2.0,"binpack":1.0}"#),
            (vec![], "{}"),
        ] {
            let scores: ScoresByName = listed.into_iter().collect();
            assert!(size_of_val(&scores) <= 24, "several are kept for each allocation");
            assert_eq!(serde_json::to_string(&scores).unwrap(), text);
            assert_eq!(serde_json::from_str::<ScoresByName>(text).unwrap(), scores);
        }
    }
}
