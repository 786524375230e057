//! `CSI`: requests of servers to the CSI plugins on nodes.

use std::collections::BTreeMap;

use songline_model::{
    AllocId, CsiSecrets, CsiTopology, CsiTopologyRequest, CsiVolumeCapability, CsiVolumeMountOptions, NodeId, Str,
};

use serde::{Deserialize, Deserializer, Serialize};

use super::{Call, Empty, message};
use crate::msgpack::RawValue;

/// Reads a list and drops its empty items.
fn without_empty<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<Vec<T>>, D::Error> {
    let items = Option::<Vec<Option<T>>>::deserialize(d)?;
    Ok(items.map(|items| items.into_iter().flatten().collect()))
}

/// Request to a controller of a plugin. The server that sends it chooses the controller.
pub trait ToController: Call<Answer: Send> + Clone + Send + Sync {
    /// Whether a server sends only one of these requests at a time to the same plugin.
    const ONE_AT_A_TIME: bool;

    /// Sets the plugin, and the node that runs the controller.
    fn address(&mut self, plugin: &str, node: NodeId);
}

/// Request to an instance of a plugin that mounts volumes.
pub trait ToCsiNode: Call<Answer: Send> + Send + Sync {}

impl ToCsiNode for NodeDetachVolume {}
impl ToCsiNode for NodeExpandVolume {}

/// Implements [`ToController`] for requests with the usual two fields.
macro_rules! to_controller {
    ($($name:ident: $one_at_a_time:literal,)*) => {$(
        impl ToController for $name {
            const ONE_AT_A_TIME: bool = $one_at_a_time;

            fn address(&mut self, plugin: &str, node: NodeId) {
                self.plugin_id = plugin.into();
                self.controller_node_id = node;
            }
        }
    )*};
}

to_controller! {
    ControllerAttachVolume: true,
    ControllerDetachVolume: true,
    ControllerValidateVolume: false,
    ControllerCreateVolume: false,
    ControllerDeleteVolume: true,
    ControllerListVolumes: false,
    ControllerExpandVolume: true,
    ControllerCreateSnapshot: true,
    ControllerDeleteSnapshot: true,
    ControllerListSnapshots: false,
}

/// Smallest and largest capacity of a volume, in bytes; 0 is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CsiCapacityRange {
    /// Least capacity.
    pub required_bytes: i64,
    /// Most capacity.
    pub limit_bytes: i64,
}

message! {
    /// Options for mounting a volume.
    plain ClientMountOptions {
        filesystem: Str,
        mount_flags: Option<Vec<Str>>,
    }
}

impl From<&CsiVolumeMountOptions> for ClientMountOptions {
    fn from(options: &CsiVolumeMountOptions) -> Self {
        Self { filesystem: options.fs_type.clone(), mount_flags: options.mount_flags.reveal().map(<[Str]>::to_vec) }
    }
}

message! {
    /// Attaches a volume to a node.
    plain ControllerAttachVolume ("CSI.ControllerAttachVolume" -> ControllerAttachVolumeAnswer) {
        /// Id of the volume at the storage.
        #[serde(rename = "VolumeID")]
        volume_id: Str,
        /// Id of the node at the storage.
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
    /// Context that the node needs to mount the volume.
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
    /// Asks whether a volume exists and has the requested capabilities.
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
    /// Creates a volume.
    plain ControllerCreateVolume ("CSI.ControllerCreateVolume" -> ControllerCreateVolumeAnswer) {
        name: Str,
        volume_capabilities: Option<Vec<CsiVolumeCapability>>,
        mount_options: Option<ClientMountOptions>,
        parameters: Option<BTreeMap<Str, Str>>,
        secrets: CsiSecrets,
        /// Least capacity, in bytes.
        capacity_min: i64,
        /// Most capacity, in bytes.
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
    /// The created volume.
    plain ControllerCreateVolumeAnswer {
        #[serde(rename = "ExternalVolumeID")]
        external_volume_id: Str,
        capacity_bytes: i64,
        volume_context: Option<BTreeMap<Str, Str>>,
        /// Without the empty ones with which the list of a node of the reference begins.
        #[serde(deserialize_with = "without_empty")]
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
    /// Asks for the volumes of the storage.
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
    /// A page of volumes.
    plain ControllerListVolumesAnswer {
        entries: Option<Vec<CsiExternalVolume>>,
        next_token: Str,
    }
}
message! {
    /// A volume as the storage describes it.
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
    /// Expands a volume.
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
    /// The new capacity.
    plain ControllerExpandVolumeAnswer {
        capacity_bytes: i64,
        node_expansion_required: bool,
    }
}
message! {
    /// Creates a snapshot of a volume.
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
    /// The created snapshot.
    plain ControllerCreateSnapshotAnswer {
        #[serde(rename = "ID")]
        id: Str,
        #[serde(rename = "ExternalSourceVolumeID")]
        external_source_volume_id: Str,
        size_bytes: i64,
        /// Creation time, in Unix seconds.
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
    /// Asks for the snapshots of the storage.
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
    /// A page of snapshots.
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
    /// Expands the file system of a mounted volume.
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
    /// The new capacity.
    plain NodeExpandVolumeAnswer {
        capacity_bytes: i64,
    }
}
