//! Commands about CSI volumes and plugins.

use serde::{Deserialize, Serialize};
use songline_model::{CsiPluginId, CsiVolume, CsiVolumeClaim, CsiVolumeId, CsiVolumeKey, NamespaceName};

/// Make volumes, or change known ones: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RegisterCsiVolumes {
    /// What was asked for, with the namespace filled in, and what the storage answered. A known volume is changed by it, not replaced.
    pub volumes: Vec<CsiVolume>,
}

/// Forget volumes: all of them or none. The storage keeps them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeregisterCsiVolumes {
    /// Of all of them.
    pub namespace: NamespaceName,
    /// Which.
    pub ids: Vec<CsiVolumeId>,
    /// Whether claims of allocations that are over are no hindrance.
    pub force: bool,
}

/// Take a claim on a volume, or move one towards release.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimCsiVolume {
    /// Of which volume.
    pub volume: CsiVolumeKey,
    /// The claim as it is to be. A step towards release carries its modes and the external id of its node, too, so that whoever goes on
    /// from there knows what is left to undo. Without an allocation it changes nothing and wakes those who watch the volume.
    pub claim: CsiVolumeClaim,
}

/// Several claims at once: all of them or none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimCsiVolumes {
    /// In this order.
    pub claims: Vec<ClaimCsiVolume>,
}

/// Forget a plugin that nothing runs and nothing expects.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeleteCsiPlugin {
    /// Which.
    pub id: CsiPluginId,
}
