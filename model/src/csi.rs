//! CSI volumes: what they are, who may hold them, and what giving them back takes. What a volume's plugin makes of it (whether it is
//! schedulable, how many instances are healthy) is no part of the row: it is read together with the plugin's own row.
//!
//! Talking to storage is not here: controllers and nodes do that, and tell what came of it in claims.

mod claim;
mod hidden;
mod mode;
mod plugin;
mod register;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AllocId, CsiPluginId, CsiTopology, CsiVolumeId, CsiVolumeKey, NamespaceName, Str, Time};

pub use claim::{CsiClaimChange, CsiClaimError, CsiVolumeClaim};
pub use hidden::{CsiMountFlags, CsiSecrets, CsiVolumeMountOptions};
pub use mode::{CsiAccessMode, CsiAttachmentMode, CsiClaimMode, CsiClaimState};
pub use plugin::{CsiHealth, CsiPlugin, CsiPluginPart, JobDescription, JobDescriptions};
pub use register::{CsiVolumeUpdateRefused, InvalidCsiVolume};

/// `CSIVolume` of the wire, without what is derived: the allocations are the keys of the claims, the rest is its plugin's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename = "CSIVolume", rename_all = "PascalCase")]
pub struct CsiVolume {
    #[serde(rename = "ID")]
    pub id: CsiVolumeId,
    pub name: Str,
    /// What the storage calls it.
    #[serde(rename = "ExternalID")]
    pub external_id: Str,
    pub namespace: NamespaceName,
    pub requested_topologies: Option<CsiTopologyRequest>,
    /// Where it is; can not change once it is set.
    pub topologies: Option<Vec<CsiTopology>>,
    /// Of the claims that hold it now; the empty word when none does.
    pub access_mode: CsiAccessMode,
    /// Of the claims that hold it now; the empty word when none does.
    pub attachment_mode: CsiAttachmentMode,
    pub mount_options: Option<CsiVolumeMountOptions>,
    pub secrets: CsiSecrets,
    pub parameters: Option<BTreeMap<Str, Str>>,
    pub context: Option<BTreeMap<Str, Str>>,
    /// Bytes, as the storage said last.
    pub capacity: i64,
    /// Bytes; 0 is any.
    pub requested_capacity_min: i64,
    /// Bytes; 0 is any.
    pub requested_capacity_max: i64,
    /// In which modes it may be claimed.
    pub requested_capabilities: Option<Vec<CsiVolumeCapability>>,
    #[serde(rename = "CloneID")]
    pub clone_id: Str,
    #[serde(rename = "SnapshotID")]
    pub snapshot_id: Str,
    /// Who reads it. An allocation is here or among the writers, never both.
    pub read_claims: BTreeMap<AllocId, CsiVolumeClaim>,
    /// Who reads and writes it.
    pub write_claims: BTreeMap<AllocId, CsiVolumeClaim>,
    /// Claims on their way to be freed. They hold their place above until they are.
    pub past_claims: BTreeMap<AllocId, CsiVolumeClaim>,
    #[serde(rename = "PluginID")]
    pub plugin_id: CsiPluginId,
    /// The plugin's when the volume was registered; can not change.
    pub provider: Str,
    /// The plugin's when the volume was registered.
    pub provider_version: Str,
    /// When the storage last said that it is full.
    pub resource_exhausted: Option<Time>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// `CSITopologyRequest` of the wire.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename = "CSITopologyRequest", rename_all = "PascalCase")]
pub struct CsiTopologyRequest {
    pub required: Option<Vec<CsiTopology>>,
    pub preferred: Option<Vec<CsiTopology>>,
}

/// `CSIVolumeCapability` of the wire: a mode of attaching with a mode of access.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename = "CSIVolumeCapability", rename_all = "PascalCase")]
pub struct CsiVolumeCapability {
    pub attachment_mode: CsiAttachmentMode,
    pub access_mode: CsiAccessMode,
}

impl CsiVolume {
    /// Its whole name.
    pub fn key(&self) -> CsiVolumeKey {
        CsiVolumeKey { namespace: self.namespace.clone(), id: self.id.clone() }
    }

    /// Whether an allocation holds it, even one that is on its way to give it back.
    pub fn in_use(&self) -> bool {
        !self.read_claims.is_empty() || !self.write_claims.is_empty()
    }

    /// Every allocation that holds it, readers first.
    pub fn holders(&self) -> impl Iterator<Item = (&AllocId, &CsiVolumeClaim)> {
        self.read_claims.iter().chain(&self.write_claims)
    }
}

#[cfg(test)]
mod tests;
