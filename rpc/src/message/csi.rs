//! `CSIVolume`: claims on volumes, as nodes take and release them. Requests to plugins are in `controller`.

use std::collections::BTreeMap;

use serde::Serialize;
use songline_model::{
    AllocId, CsiAccessMode, CsiAttachmentMode, CsiClaimMode, CsiClaimState, CsiHealth, CsiVolume, CsiVolumeClaim,
    CsiVolumeId, NodeId, Str,
};

use super::message;
use crate::msgpack::{self, EncodeError, RawValue};
use crate::{ClaimedVolume, RpcError};

/// Beginning of an error that passes, or that another instance of the plugin may not have.
pub const CSI_RETRYABLE: &str = "CSI client error (retryable)";

message! {
    /// Takes a claim on a volume.
    write CsiVolumeClaimRequest ("CSIVolume.Claim" -> CsiVolumeClaimAnswer) {
        #[serde(rename = "VolumeID")]
        volume_id: CsiVolumeId,
        #[serde(rename = "AllocationID")]
        allocation_id: AllocId,
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "ExternalNodeID")]
        external_node_id: Str,
        claim: CsiClaimMode,
        access_mode: CsiAccessMode,
        attachment_mode: CsiAttachmentMode,
        state: CsiClaimState,
    }
}
message! {
    /// The volume, and the controller's context for mounting it.
    answer CsiVolumeClaimAnswer {
        /// Read as a [`CsiVolume`]; written by [`csi_volume`].
        volume: RawValue,
        publish_context: Option<BTreeMap<Str, Str>>,
    }
}
impl TryFrom<CsiVolumeClaimAnswer> for ClaimedVolume {
    type Error = RpcError;

    fn try_from(answer: CsiVolumeClaimAnswer) -> Result<Self, RpcError> {
        let volume = answer.volume.read().map_err(|error| RpcError::remote(error.on_wire(0)))?;
        Ok(Self { volume, publish_context: answer.publish_context.unwrap_or_default() })
    }
}

message! {
    /// Releases a claim.
    write CsiVolumeUnpublish ("CSIVolume.Unpublish" -> CsiVolumeUnpublishAnswer) {
        #[serde(rename = "VolumeID")]
        volume_id: CsiVolumeId,
        claim: Option<CsiVolumeClaim>,
    }
}
message! {
    /// The claim is released or will be.
    answer CsiVolumeUnpublishAnswer {}
}

/// Fields of a volume on the wire that are derived from its plugin and its claims.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Derived {
    schedulable: bool,
    controller_required: bool,
    controllers_healthy: i64,
    controllers_expected: i64,
    nodes_healthy: i64,
    nodes_expected: i64,
    read_allocs: BTreeMap<AllocId, Option<()>>,
    write_allocs: BTreeMap<AllocId, Option<()>>,
}

/// A volume with its secrets, for the node that mounts it.
pub fn csi_volume(volume: &CsiVolume, health: &CsiHealth) -> Result<RawValue, EncodeError> {
    let derived = Derived {
        schedulable: health.schedulable(),
        controller_required: health.controller_required,
        controllers_healthy: health.controllers_healthy,
        controllers_expected: health.controllers_expected,
        nodes_healthy: health.nodes_healthy,
        nodes_expected: health.nodes_expected,
        read_allocs: volume.read_claims.keys().map(|alloc| (*alloc, None)).collect(),
        write_allocs: volume.write_claims.keys().map(|alloc| (*alloc, None)).collect(),
    };
    msgpack::merged(volume, &derived)
}
