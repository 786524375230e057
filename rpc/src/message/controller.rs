//! `CSI`: what servers ask of the plugins on nodes.

use std::collections::BTreeMap;

use songline_model::{AllocId, CsiSecrets, CsiTopology, CsiTopologyRequest, CsiVolumeCapability, NodeId, Str};

use super::{Empty, message};
use crate::msgpack::RawValue;

message! {
    /// How a volume is mounted.
    plain ClientMountOptions {
        filesystem: Str,
        mount_flags: Option<Vec<Str>>,
    }
}
message! {
    /// Attaches a volume to a node.
    plain ControllerAttachVolume ("CSI.ControllerAttachVolume" -> ControllerAttachVolumeAnswer) {
        /// What the storage calls it.
        #[serde(rename = "VolumeID")]
        volume_id: Str,
        /// What the storage calls the node.
        #[serde(rename = "ClientCSINodeID")]
        client_csi_node_id: Str,
        attachment_mode: Str,
        access_mode: Str,
        mount_options: Option<ClientMountOptions>,
        read_only: bool,
        secrets: CsiSecrets,
        volume_context: Option<BTreeMap<Str, Str>>,
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "ControllerNodeID")]
        controller_node_id: NodeId,
    }
}
message! {
    /// What the node needs to know of it.
    plain ControllerAttachVolumeAnswer {
        publish_context: Option<BTreeMap<Str, Str>>,
    }
}
message! {
    /// Detaches a volume from a node.
    plain ControllerDetachVolume ("CSI.ControllerDetachVolume" -> Empty) {
        #[serde(rename = "VolumeID")]
        volume_id: Str,
        #[serde(rename = "ClientCSINodeID")]
        client_csi_node_id: Str,
        secrets: CsiSecrets,
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "ControllerNodeID")]
        controller_node_id: NodeId,
    }
}
message! {
    /// Asks whether a volume is there and can do what is asked of it.
    plain ControllerValidateVolume ("CSI.ControllerValidateVolume" -> Empty) {
        #[serde(rename = "VolumeID")]
        volume_id: Str,
        volume_capabilities: Option<Vec<CsiVolumeCapability>>,
        attachment_mode: Str,
        access_mode: Str,
        secrets: CsiSecrets,
        parameters: Option<BTreeMap<Str, Str>>,
        context: Option<BTreeMap<Str, Str>>,
        mount_options: Option<ClientMountOptions>,
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "ControllerNodeID")]
        controller_node_id: NodeId,
    }
}
message! {
    /// Makes a volume.
    plain ControllerCreateVolume ("CSI.ControllerCreateVolume" -> ControllerCreateVolumeAnswer) {
        name: Str,
        volume_capabilities: Option<Vec<CsiVolumeCapability>>,
        mount_options: Option<ClientMountOptions>,
        parameters: Option<BTreeMap<Str, Str>>,
        secrets: CsiSecrets,
        /// Bytes.
        capacity_min: i64,
        /// Bytes.
        capacity_max: i64,
        #[serde(rename = "SnapshotID")]
        snapshot_id: Str,
        #[serde(rename = "CloneID")]
        clone_id: Str,
        requested_topologies: Option<CsiTopologyRequest>,
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "ControllerNodeID")]
        controller_node_id: NodeId,
    }
}
message! {
    /// The volume.
    plain ControllerCreateVolumeAnswer {
        #[serde(rename = "ExternalVolumeID")]
        external_volume_id: Str,
        capacity_bytes: i64,
        volume_context: Option<BTreeMap<Str, Str>>,
        topologies: Option<Vec<CsiTopology>>,
    }
}
message! {
    /// Deletes a volume.
    plain ControllerDeleteVolume ("CSI.ControllerDeleteVolume" -> Empty) {
        #[serde(rename = "ExternalVolumeID")]
        external_volume_id: Str,
        secrets: CsiSecrets,
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "ControllerNodeID")]
        controller_node_id: NodeId,
    }
}
message! {
    /// Asks which volumes the storage has.
    plain ControllerListVolumes ("CSI.ControllerListVolumes" -> ControllerListVolumesAnswer) {
        max_entries: i32,
        starting_token: Str,
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "ControllerNodeID")]
        controller_node_id: NodeId,
    }
}
message! {
    /// A page of them.
    plain ControllerListVolumesAnswer {
        entries: Option<Vec<CsiExternalVolume>>,
        next_token: Str,
    }
}
message! {
    /// A volume as the storage has it.
    plain CsiExternalVolume {
        #[serde(rename = "ExternalID")]
        external_id: Str,
        capacity_bytes: i64,
        volume_context: Option<BTreeMap<Str, Str>>,
        #[serde(rename = "CloneID")]
        clone_id: Str,
        #[serde(rename = "SnapshotID")]
        snapshot_id: Str,
        #[serde(rename = "PublishedExternalNodeIDs")]
        published_external_node_ids: Option<Vec<Str>>,
        is_abnormal: bool,
        status: Str,
    }
}
message! {
    /// Makes a volume larger.
    plain ControllerExpandVolume ("CSI.ControllerExpandVolume" -> ControllerExpandVolumeAnswer) {
        #[serde(rename = "ExternalVolumeID")]
        external_volume_id: Str,
        secrets: CsiSecrets,
        capacity_range: RawValue,
        volume_capability: Option<CsiVolumeCapability>,
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "ControllerNodeID")]
        controller_node_id: NodeId,
    }
}
message! {
    /// How large it is now.
    plain ControllerExpandVolumeAnswer {
        capacity_bytes: i64,
        node_expansion_required: bool,
    }
}
message! {
    /// Makes a snapshot of a volume.
    plain ControllerCreateSnapshot ("CSI.ControllerCreateSnapshot" -> ControllerCreateSnapshotAnswer) {
        #[serde(rename = "ExternalSourceVolumeID")]
        external_source_volume_id: Str,
        name: Str,
        secrets: CsiSecrets,
        parameters: Option<BTreeMap<Str, Str>>,
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "ControllerNodeID")]
        controller_node_id: NodeId,
    }
}
message! {
    /// The snapshot.
    plain ControllerCreateSnapshotAnswer {
        #[serde(rename = "ID")]
        id: Str,
        #[serde(rename = "ExternalSourceVolumeID")]
        external_source_volume_id: Str,
        size_bytes: i64,
        /// Unix seconds.
        create_time: i64,
        is_ready: bool,
    }
}
message! {
    /// Deletes a snapshot.
    plain ControllerDeleteSnapshot ("CSI.ControllerDeleteSnapshot" -> Empty) {
        #[serde(rename = "ID")]
        id: Str,
        secrets: CsiSecrets,
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "ControllerNodeID")]
        controller_node_id: NodeId,
    }
}
message! {
    /// Asks which snapshots the storage has.
    plain ControllerListSnapshots ("CSI.ControllerListSnapshots" -> ControllerListSnapshotsAnswer) {
        max_entries: i32,
        starting_token: Str,
        secrets: CsiSecrets,
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "ControllerNodeID")]
        controller_node_id: NodeId,
    }
}
message! {
    /// A page of them.
    plain ControllerListSnapshotsAnswer {
        entries: Option<Vec<ControllerCreateSnapshotAnswer>>,
        next_token: Str,
    }
}
message! {
    /// Unmounts a volume from a node whose own agent did not.
    plain NodeDetachVolume ("CSI.NodeDetachVolume" -> Empty) {
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "VolumeID")]
        volume_id: Str,
        #[serde(rename = "VolumeNamespace")]
        volume_namespace: Str,
        #[serde(rename = "AllocID")]
        alloc_id: AllocId,
        #[serde(rename = "NodeID")]
        node_id: NodeId,
        #[serde(rename = "ExternalID")]
        external_id: Str,
        attachment_mode: Str,
        access_mode: Str,
        read_only: bool,
    }
}
message! {
    /// Makes the file system of a volume larger where it is mounted.
    plain NodeExpandVolume ("CSI.NodeExpandVolume" -> NodeExpandVolumeAnswer) {
        #[serde(rename = "PluginID")]
        plugin_id: Str,
        #[serde(rename = "VolumeID")]
        volume_id: Str,
        #[serde(rename = "ExternalID")]
        external_id: Str,
        capacity: RawValue,
        claim: RawValue,
    }
}
message! {
    /// How large it is now.
    plain NodeExpandVolumeAnswer {
        capacity_bytes: i64,
    }
}
