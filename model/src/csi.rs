//! CSI volumes: their rows, claims, and the steps of release. Values derived from the plugin (whether the volume is
//! schedulable, how many instances are healthy) are not part of the row: they are read together with the plugin's own
//! row.
//!
//! Nodes and controllers talk to the storage, and report the results in claims; that code is in other crates.

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

/// A volume, without derived fields: the allocations are the keys of the claims, the rest is on the
/// plugin's row.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename = "CSIVolume", rename_all = "PascalCase")]
pub struct CsiVolume {
    #[serde(rename = "ID")]
    pub id: CsiVolumeId,
    pub name: Str,
    /// Id of the volume in the storage.
    #[serde(rename = "ExternalID")]
    pub external_id: Str,
    pub namespace: NamespaceName,
    pub requested_topologies: Option<CsiTopologyRequest>,
    /// Topologies that can access the volume; can not change once set.
    pub topologies: Option<Vec<CsiTopology>>,
    /// Access mode of the current claims; empty when there is none.
    pub access_mode: CsiAccessMode,
    /// Attachment mode of the current claims; empty when there is none.
    pub attachment_mode: CsiAttachmentMode,
    pub mount_options: Option<CsiVolumeMountOptions>,
    pub secrets: CsiSecrets,
    pub parameters: Option<BTreeMap<Str, Str>>,
    pub context: Option<BTreeMap<Str, Str>>,
    /// Size in bytes, as the storage last reported it.
    pub capacity: i64,
    /// Smallest acceptable size in bytes; 0 is any.
    pub requested_capacity_min: i64,
    /// Largest acceptable size in bytes; 0 is any.
    pub requested_capacity_max: i64,
    /// Combinations of modes that the volume may be claimed in.
    pub requested_capabilities: Option<Vec<CsiVolumeCapability>>,
    #[serde(rename = "CloneID")]
    pub clone_id: Str,
    #[serde(rename = "SnapshotID")]
    pub snapshot_id: Str,
    /// Claims of readers. An allocation is either here or among the writers, never both.
    pub read_claims: BTreeMap<AllocId, CsiVolumeClaim>,
    /// Claims of writers, which may also read.
    pub write_claims: BTreeMap<AllocId, CsiVolumeClaim>,
    /// Claims that are being released. They keep their place among the readers or writers until they are freed.
    pub past_claims: BTreeMap<AllocId, CsiVolumeClaim>,
    #[serde(rename = "PluginID")]
    pub plugin_id: CsiPluginId,
    /// The plugin's provider when the volume was registered; can not change.
    pub provider: Str,
    /// The plugin's provider version when the volume was registered.
    pub provider_version: Str,
    /// Time when the storage last reported that it is full.
    pub resource_exhausted: Option<Time>,
    pub create_index: u64,
    pub modify_index: u64,
}

/// Required and preferred topologies of a volume.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename = "CSITopologyRequest", rename_all = "PascalCase")]
pub struct CsiTopologyRequest {
    pub required: Option<Vec<CsiTopology>>,
    pub preferred: Option<Vec<CsiTopology>>,
}

/// An attachment mode with an access mode.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename = "CSIVolumeCapability", rename_all = "PascalCase")]
pub struct CsiVolumeCapability {
    pub attachment_mode: CsiAttachmentMode,
    pub access_mode: CsiAccessMode,
}

impl CsiVolume {
    /// The volume's namespace and id.
    pub fn key(&self) -> CsiVolumeKey {
        CsiVolumeKey { namespace: self.namespace.clone(), id: self.id.clone() }
    }

    /// Id of the volume in the storage: the external id, or the volume's own if it has none.
    pub fn remote_id(&self) -> Str {
        if self.external_id.is_empty() { self.id.0.clone() } else { self.external_id.clone() }
    }

    /// Whether any allocation holds the volume, including those whose claims are being released.
    pub fn in_use(&self) -> bool {
        !self.read_claims.is_empty() || !self.write_claims.is_empty()
    }

    /// Every allocation that holds the volume, readers first.
    pub fn holders(&self) -> impl Iterator<Item = (&AllocId, &CsiVolumeClaim)> {
        self.read_claims.iter().chain(&self.write_claims)
    }
}

#[cfg(test)]
mod tests;
