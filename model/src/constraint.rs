//! What a group asks of nodes: hard constraints, preferences, spreads.

use serde::{Deserialize, Serialize};

use crate::Str;

/// `Constraint` of the wire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Constraint {
    pub l_target: Str,
    pub r_target: Str,
    pub operand: Str,
}

/// `Affinity` of the wire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Affinity {
    pub l_target: Str,
    pub r_target: Str,
    pub operand: Str,
    pub weight: i64,
}

/// `Spread` of the wire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct Spread {
    pub attribute: Str,
    pub weight: i64,
    pub spread_target: Option<Vec<SpreadTarget>>,
}

/// `SpreadTarget` of the wire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SpreadTarget {
    pub value: Str,
    pub percent: u64,
}
