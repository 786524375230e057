//! Commands for the cluster as a whole.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use songline_model::{Blob, SchedulerConfiguration, Str, Time};

/// Replace the scheduler configuration.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetSchedulerConfig {
    /// The whole configuration.
    pub config: SchedulerConfiguration,
    /// If set, the modify index that the stored row must have.
    pub cas: Option<u64>,
}

/// Set the cluster's id. Refused when the cluster has another one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SetClusterMetadata {
    /// The id, a UUID.
    pub cluster_id: Str,
    /// Time of creation.
    #[serde(with = "songline_model::unix_nanos")]
    pub create_time: Time,
}

/// Replace the state by that of an archive. Indexes never go back: the base rises as far as needed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoreArchive {
    /// The state in the form of a checkpoint, verified before it was proposed. Empty in the log, which has only the
    /// digest: each server fills in the bytes before it applies the entry.
    pub archive: Blob,
    /// BLAKE3 of the archive in lower-case hexadecimal.
    pub digest: Str,
    /// The archive of Nomad that the state was made of. `None`: the archive is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportedArchive>,
    /// Whether the allocations that nodes may have to act on get the index of the entry, so that every node fetches
    /// them again. Entries of earlier versions left the rows as they were in the archive.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub renews_allocs: bool,
}

/// Archive of Nomad that a state was made of. Tables of such a state keep their indexes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportedArchive {
    /// Id of the archive: term, index and Unix milliseconds.
    pub id: Str,
    /// Last log index of the archived cluster.
    pub index: u64,
    /// SHA-256 of the archive's `state.bin` in lower-case hexadecimal.
    pub sha256: Str,
}

/// Compare the state with the leader's. A server whose state differs fences itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckDigest {
    /// Schema of the rows.
    pub schema: u16,
    /// Log index of the last entry that the digest includes.
    pub through: u64,
    /// The digest over all tables, 16 bytes.
    pub total: Blob,
    /// The digests by table name, to find the table that differs. Entries of schema 1 have none.
    pub tables: BTreeMap<Str, Blob>,
}
