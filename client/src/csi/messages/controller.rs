//! Requests to controllers and their answers. Requests have secrets and contexts of volumes, which `Debug` leaves out.

use std::collections::BTreeMap;
use std::fmt;

use super::{Empty, Method, Topology, VolumeCapability, shown};

/// `CapacityRange`, in bytes; 0 is any.
#[derive(Clone, Copy, PartialEq, ::prost::Message)]
pub struct CapacityRange {
    #[prost(int64, tag = "1")]
    pub required_bytes: i64,
    #[prost(int64, tag = "2")]
    pub limit_bytes: i64,
}

/// `VolumeContentSource`: the snapshot or the volume that a new volume is a copy of.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct VolumeContentSource {
    #[prost(oneof = "content_source::Kind", tags = "1, 2")]
    pub kind: Option<content_source::Kind>,
}

/// The two forms of `VolumeContentSource.type`.
pub mod content_source {
    /// A snapshot or a volume.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum Kind {
        #[prost(message, tag = "1")]
        Snapshot(super::SourceId),
        #[prost(message, tag = "2")]
        Volume(super::SourceId),
    }
}

/// `SnapshotSource` and `VolumeSource`, which have the same form.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct SourceId {
    #[prost(string, tag = "1")]
    pub id: String,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct TopologyRequirement {
    #[prost(message, repeated, tag = "1")]
    pub requisite: Vec<Topology>,
    #[prost(message, repeated, tag = "2")]
    pub preferred: Vec<Topology>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct CreateVolumeRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub parameters: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub secrets: BTreeMap<String, String>,
    #[prost(message, optional, tag = "6")]
    pub volume_content_source: Option<VolumeContentSource>,
    #[prost(message, optional, tag = "7")]
    pub accessibility_requirements: Option<TopologyRequirement>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CreateVolumeResponse {
    #[prost(message, optional, tag = "1")]
    pub volume: Option<Volume>,
}

/// A volume of the storage.
#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct Volume {
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    #[prost(string, tag = "2")]
    pub volume_id: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub volume_context: BTreeMap<String, String>,
    #[prost(message, optional, tag = "4")]
    pub content_source: Option<VolumeContentSource>,
    #[prost(message, repeated, tag = "5")]
    pub accessible_topology: Vec<Topology>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct DeleteVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct ControllerPublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub node_id: String,
    #[prost(message, optional, tag = "3")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(bool, tag = "4")]
    pub readonly: bool,
    #[prost(btree_map = "string, string", tag = "5")]
    pub secrets: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub volume_context: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct ControllerPublishVolumeResponse {
    #[prost(btree_map = "string, string", tag = "1")]
    pub publish_context: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct ControllerUnpublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub node_id: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct ValidateVolumeCapabilitiesRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub volume_context: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub parameters: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ValidateVolumeCapabilitiesResponse {
    #[prost(message, optional, tag = "1")]
    pub confirmed: Option<Confirmed>,
    /// The reason of a plugin that does not confirm.
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Confirmed {
    #[prost(message, repeated, tag = "2")]
    pub volume_capabilities: Vec<VolumeCapability>,
}

/// `ListVolumesRequest`, and the part of `ListSnapshotsRequest` before its filters.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListVolumesRequest {
    #[prost(int32, tag = "1")]
    pub max_entries: i32,
    #[prost(string, tag = "2")]
    pub starting_token: String,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListVolumesResponse {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<VolumeEntry>,
    #[prost(string, tag = "2")]
    pub next_token: String,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct VolumeEntry {
    #[prost(message, optional, tag = "1")]
    pub volume: Option<Volume>,
    #[prost(message, optional, tag = "2")]
    pub status: Option<VolumeStatus>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct VolumeStatus {
    #[prost(string, repeated, tag = "1")]
    pub published_node_ids: Vec<String>,
    #[prost(message, optional, tag = "2")]
    pub volume_condition: Option<VolumeCondition>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct VolumeCondition {
    #[prost(bool, tag = "1")]
    pub abnormal: bool,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct CreateSnapshotRequest {
    #[prost(string, tag = "1")]
    pub source_volume_id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(btree_map = "string, string", tag = "3")]
    pub secrets: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub parameters: BTreeMap<String, String>,
}

/// `CreateSnapshotResponse`, and an entry of `ListSnapshotsResponse`, which have the same form.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct CreateSnapshotResponse {
    #[prost(message, optional, tag = "1")]
    pub snapshot: Option<Snapshot>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Snapshot {
    #[prost(int64, tag = "1")]
    pub size_bytes: i64,
    #[prost(string, tag = "2")]
    pub snapshot_id: String,
    #[prost(string, tag = "3")]
    pub source_volume_id: String,
    #[prost(message, optional, tag = "4")]
    pub creation_time: Option<Timestamp>,
    #[prost(bool, tag = "5")]
    pub ready_to_use: bool,
}

/// `google.protobuf.Timestamp`, without its nanoseconds.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
}

#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct DeleteSnapshotRequest {
    #[prost(string, tag = "1")]
    pub snapshot_id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct ListSnapshotsRequest {
    #[prost(int32, tag = "1")]
    pub max_entries: i32,
    #[prost(string, tag = "2")]
    pub starting_token: String,
    #[prost(btree_map = "string, string", tag = "5")]
    pub secrets: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ListSnapshotsResponse {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<CreateSnapshotResponse>,
    #[prost(string, tag = "2")]
    pub next_token: String,
}

#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct ControllerExpandVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub secrets: BTreeMap<String, String>,
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ControllerExpandVolumeResponse {
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    #[prost(bool, tag = "2")]
    pub node_expansion_required: bool,
}

/// The method that takes each request.
macro_rules! methods {
    ($($request:ident => $method:literal -> $answer:ident;)*) => {$(
        impl Method for $request {
            const PATH: &'static str = concat!("/csi.v1.Controller/", $method);
            type Answer = $answer;
        }
    )*};
}

methods! {
    CreateVolumeRequest => "CreateVolume" -> CreateVolumeResponse;
    DeleteVolumeRequest => "DeleteVolume" -> Empty;
    ControllerPublishVolumeRequest => "ControllerPublishVolume" -> ControllerPublishVolumeResponse;
    ControllerUnpublishVolumeRequest => "ControllerUnpublishVolume" -> Empty;
    ValidateVolumeCapabilitiesRequest => "ValidateVolumeCapabilities" -> ValidateVolumeCapabilitiesResponse;
    ListVolumesRequest => "ListVolumes" -> ListVolumesResponse;
    CreateSnapshotRequest => "CreateSnapshot" -> CreateSnapshotResponse;
    DeleteSnapshotRequest => "DeleteSnapshot" -> Empty;
    ListSnapshotsRequest => "ListSnapshots" -> ListSnapshotsResponse;
    ControllerExpandVolumeRequest => "ControllerExpandVolume" -> ControllerExpandVolumeResponse;
}

shown! {
    CreateVolumeRequest { name }
    Volume { volume_id, capacity_bytes }
    DeleteVolumeRequest { volume_id }
    ControllerPublishVolumeRequest { volume_id, node_id, readonly }
    ControllerPublishVolumeResponse {}
    ControllerUnpublishVolumeRequest { volume_id, node_id }
    ValidateVolumeCapabilitiesRequest { volume_id }
    CreateSnapshotRequest { source_volume_id, name }
    DeleteSnapshotRequest { snapshot_id }
    ListSnapshotsRequest { max_entries, starting_token }
    ControllerExpandVolumeRequest { volume_id, capacity_range }
}
