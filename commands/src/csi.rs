//! Commands for CSI volumes and plugins.

use serde::{Deserialize, Serialize};
use songline_model::{CsiPluginId, CsiVolume, CsiVolumeClaim, CsiVolumeId, CsiVolumeKey, NamespaceName};

/// Create or update volumes: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RegisterCsiVolumes {
    /// The requested volumes, with the namespace filled in, and the storage's responses. A known volume is updated,
    /// not replaced.
    pub volumes: Vec<CsiVolume>,
}

/// Deregister volumes: all of them or none. The storage keeps them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeregisterCsiVolumes {
    /// Namespace of all the volumes.
    pub namespace: NamespaceName,
    /// Ids of the volumes.
    pub ids: Vec<CsiVolumeId>,
    /// Whether to delete a volume in use, if all its claims are of allocations that are gone or terminal.
    pub force: bool,
}

/// Take a claim on a volume, or record a step of a claim's release.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimCsiVolume {
    /// The volume.
    pub volume: CsiVolumeKey,
    /// The new claim. A step of the release includes the claim's modes and the external id of its node, so that the
    /// next step knows what is left to undo. A claim without an allocation changes nothing, and wakes the watchers of
    /// the volume.
    pub claim: CsiVolumeClaim,
}

/// Apply several claims: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimCsiVolumes {
    /// The claims in order of application.
    pub claims: Vec<ClaimCsiVolume>,
}

/// Delete a plugin that has no instances and no expected instances.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteCsiPlugin {
    /// Id of the plugin.
    pub id: CsiPluginId,
}
