//! Cluster-wide rows: scheduler configuration and cluster id; and the check of the state's digest.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use songline_commands::{CheckDigest, SetClusterMetadata, SetSchedulerConfig};
use songline_migrations::SCHEMA;
use songline_model::{SchedulerConfiguration, Str, Time};

use crate::Outcome;
use crate::digest::Digest;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

/// Identity of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ClusterMetadata {
    /// The id, a UUID.
    #[serde(rename = "ClusterID")]
    pub cluster_id: Str,
    /// Time of creation.
    #[serde(with = "songline_model::unix_nanos")]
    pub create_time: Time,
}

impl Rules<(), SchedulerConfiguration> for tables::SchedulerConfig {
    fn key(_row: &SchedulerConfiguration) {}

    #[cfg(test)]
    fn in_story(_row: &SchedulerConfiguration) -> String {
        "config:".to_owned()
    }
}

impl Rules<(), ClusterMetadata> for tables::ClusterMeta {
    fn key(_row: &ClusterMetadata) {}

    #[cfg(test)]
    fn in_story(row: &ClusterMetadata) -> String {
        format!("cluster:{}", row.cluster_id)
    }
}

impl State {
    /// The scheduler configuration. `None`: never set, so the agents' defaults apply.
    pub fn scheduler_config(&self) -> Option<&Arc<SchedulerConfiguration>> {
        self.tables.scheduler_config.get(&())
    }

    /// The cluster's id; `None` until it is set.
    pub fn cluster_metadata(&self) -> Option<&Arc<ClusterMetadata>> {
        self.tables.cluster_meta.get(&())
    }
}

/// Replaces the configuration. A compare-and-set on a missing row always fails.
pub(crate) fn set_scheduler_config(tx: &mut Tx<'_>, cmd: &SetSchedulerConfig) -> Result<Outcome, Rejected> {
    let stored = tx.scheduler_config().cloned();
    if let Some(wanted) = cmd.cas
        && stored.as_ref().is_none_or(|row| row.modify_index != wanted)
    {
        return Ok(Outcome::Cas(false));
    }
    let create_index = stored.map_or(tx.index(), |row| row.create_index);
    let row = SchedulerConfiguration { create_index, modify_index: tx.index(), ..cmd.config.clone() };
    tx.put::<tables::SchedulerConfig>(row);
    Ok(if cmd.cas.is_some() { Outcome::Cas(true) } else { Outcome::Done })
}

pub(crate) fn set_cluster_metadata(tx: &mut Tx<'_>, cmd: &SetClusterMetadata) -> Result<(), Rejected> {
    if let Some(stored) = tx.cluster_metadata()
        && stored.cluster_id != cmd.cluster_id
    {
        return Err(Rejected::ClusterIdTaken { previous: stored.cluster_id.clone(), new: cmd.cluster_id.clone() });
    }
    tx.put::<tables::ClusterMeta>(ClusterMetadata { cluster_id: cmd.cluster_id.clone(), create_time: cmd.create_time });
    Ok(())
}

/// Compares the digest at the command's index with the leader's. The server decides how to react to a difference.
pub(crate) fn check_digest(tx: &Tx<'_>, cmd: &CheckDigest) -> Outcome {
    let Ok(theirs) = <[u8; 16]>::try_from(cmd.total.0.as_slice()).map(Digest::from_bytes) else {
        return Outcome::DigestNotCompared;
    };
    match tx.digest_at(cmd.through) {
        Some(ours) if cmd.schema == SCHEMA && ours == theirs => Outcome::DigestMatches,
        Some(ours) if cmd.schema == SCHEMA => Outcome::DigestDiffers { index: cmd.through, ours, theirs },
        Some(_) | None => Outcome::DigestNotCompared,
    }
}

#[cfg(test)]
mod tests;
