//! Commands about the cluster as a whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use songline_model::{Blob, SchedulerConfiguration, Str};

/// Replace the scheduler configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetSchedulerConfig {
    /// All of it.
    pub config: SchedulerConfiguration,
    /// Only when the stored row has this modify index.
    pub cas: Option<u64>,
}

/// Give the cluster its id. Refused when it has another one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetClusterMetadata {
    /// A UUID.
    pub cluster_id: Str,
    /// Unix nanoseconds.
    pub create_time: i64,
}

/// Replace the state by that of an archive. Indexes never go back: the base rises as far as needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoreArchive {
    /// The state as a checkpoint writes it, verified before it was proposed. Empty in the log, where the digest names it: whoever applies the entry fills it in.
    pub archive: Blob,
    /// Lower-case hex of its BLAKE3.
    pub digest: Str,
}

/// Compare the state with the leader's. A server that differs fences itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckDigest {
    /// Version of the rows' shapes.
    pub schema: u16,
    /// The last index that the digest counts.
    pub through: u64,
    /// The 16 bytes of the digest over all tables.
    pub total: Blob,
    /// The digests of the tables by name, so that a difference can be narrowed down. Entries of schema 1 have none.
    pub tables: BTreeMap<Str, Blob>,
}
