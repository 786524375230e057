//! Placement rules of jobs, groups and tasks: hard constraints, affinities and spreads.

use serde::{Deserialize, Serialize};

use crate::Str;

/// A rule that a node must satisfy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Constraint {
    pub l_target: Str,
    pub r_target: Str,
    pub operand: Str,
}

/// A weighted preference for nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Affinity {
    pub l_target: Str,
    pub r_target: Str,
    pub operand: Str,
    /// From -100 to 100, not 0; a negative weight repels.
    pub weight: i64,
}

/// Distribution of allocations over the values of an attribute.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Spread {
    pub attribute: Str,
    /// From 1 to 100, relative to the other spreads.
    pub weight: i64,
    pub spread_target: Option<Vec<SpreadTarget>>,
}

/// The share in percent of one value.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SpreadTarget {
    pub value: Str,
    /// From 0 to 100.
    pub percent: u64,
}
