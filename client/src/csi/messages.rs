//! The messages of CSI 1.x that the agent sends and reads, with their protobuf field numbers. Fields that the agent
//! does not use are left out; protobuf skips unknown fields.

mod controller;

use std::collections::BTreeMap;
use std::fmt;

use songline_model::Str;

pub use controller::*;

/// `Debug` of messages by the fields that may be shown.
macro_rules! shown {
    ($($name:ident { $($field:ident),* })*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut shown = f.debug_struct(stringify!($name));
                $(shown.field(stringify!($field), &self.$field);)*
                shown.finish_non_exhaustive()
            }
        }
    )*};
}
use shown;

/// A map of the model as the protocol has it; none is an empty one.
pub(super) fn texts(of: Option<&BTreeMap<Str, Str>>) -> BTreeMap<String, String> {
    of.into_iter().flatten().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// A message without fields: most requests for information, and most answers of node calls.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Empty {}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetPluginInfoResponse {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub vendor_version: String,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetPluginCapabilitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<PluginCapability>,
}

/// A capability of the plugin as a whole. Its other form, volume expansion, leaves `service` empty.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct PluginCapability {
    #[prost(message, optional, tag = "1")]
    pub service: Option<Capability>,
}

/// `PluginCapability.Service`, and the `RPC` of controller and node capabilities: a number whose meaning depends on
/// the message around it.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Capability {
    #[prost(int32, tag = "1")]
    pub kind: i32,
}

/// The answer of `ControllerGetCapabilities` and `NodeGetCapabilities`, which have the same form.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct GetCapabilitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<ServiceCapability>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ServiceCapability {
    #[prost(message, optional, tag = "1")]
    pub rpc: Option<Capability>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct ProbeResponse {
    #[prost(message, optional, tag = "1")]
    pub ready: Option<BoolValue>,
}

/// `google.protobuf.BoolValue`: distinguishes `false` from an absent value.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct BoolValue {
    #[prost(bool, tag = "1")]
    pub value: bool,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct NodeGetInfoResponse {
    #[prost(string, tag = "1")]
    pub node_id: String,
    #[prost(int64, tag = "2")]
    pub max_volumes_per_node: i64,
    #[prost(message, optional, tag = "3")]
    pub accessible_topology: Option<Topology>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct Topology {
    #[prost(btree_map = "string, string", tag = "1")]
    pub segments: BTreeMap<String, String>,
}

/// The form in which a volume is used: as a block device or a mounted file system, and by how many nodes.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct VolumeCapability {
    #[prost(oneof = "access_type::AccessType", tags = "1, 2")]
    pub access_type: Option<access_type::AccessType>,
    #[prost(message, optional, tag = "3")]
    pub access_mode: Option<AccessMode>,
}

/// The two forms of `VolumeCapability.access_type`.
pub mod access_type {
    /// A block device or a mounted file system.
    #[derive(Clone, PartialEq, ::prost::Oneof)]
    pub enum AccessType {
        #[prost(message, tag = "1")]
        Block(super::Empty),
        #[prost(message, tag = "2")]
        Mount(super::MountVolume),
    }
}

/// Options of a mounted file system. Mount flags may contain secrets, so `Debug` leaves them out.
#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct MountVolume {
    #[prost(string, tag = "1")]
    pub fs_type: String,
    #[prost(string, repeated, tag = "2")]
    pub mount_flags: Vec<String>,
}

/// `VolumeCapability.AccessMode`, with the protocol's number of the mode.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct AccessMode {
    #[prost(int32, tag = "1")]
    pub mode: i32,
}

/// A request with secrets and contexts of the volume; `Debug` leaves them out.
#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct NodeStageVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub publish_context: BTreeMap<String, String>,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(btree_map = "string, string", tag = "5")]
    pub secrets: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "6")]
    pub volume_context: BTreeMap<String, String>,
}

/// `NodeUnstageVolumeRequest` (path of the stage) and `NodeUnpublishVolumeRequest` (path of the target), which have
/// the same form.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct VolumeAtPath {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub path: String,
}

/// A request with secrets and contexts of the volume; `Debug` leaves them out.
#[derive(Clone, PartialEq, ::prost::Message)]
#[prost(skip_debug)]
pub struct NodePublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub publish_context: BTreeMap<String, String>,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    #[prost(string, tag = "4")]
    pub target_path: String,
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(bool, tag = "6")]
    pub readonly: bool,
    #[prost(btree_map = "string, string", tag = "7")]
    pub secrets: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "8")]
    pub volume_context: BTreeMap<String, String>,
}

/// The file system of a mounted volume gets a larger size.
#[derive(Clone, PartialEq, ::prost::Message)]
pub struct NodeExpandVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub volume_path: String,
    #[prost(message, optional, tag = "3")]
    pub capacity_range: Option<CapacityRange>,
    #[prost(string, tag = "4")]
    pub staging_target_path: String,
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
}

#[derive(Clone, PartialEq, ::prost::Message)]
pub struct NodeExpandVolumeResponse {
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
}

/// A request about volumes: the gRPC method that takes it, and its answer.
pub trait Method: ::prost::Message + Clone + 'static {
    /// Path of the method.
    const PATH: &'static str;
    /// The method's answer.
    type Answer: ::prost::Message + Default + 'static;
}

impl Method for NodeStageVolumeRequest {
    const PATH: &'static str = "/csi.v1.Node/NodeStageVolume";
    type Answer = Empty;
}

impl Method for NodePublishVolumeRequest {
    const PATH: &'static str = "/csi.v1.Node/NodePublishVolume";
    type Answer = Empty;
}

impl Method for NodeExpandVolumeRequest {
    const PATH: &'static str = "/csi.v1.Node/NodeExpandVolume";
    type Answer = NodeExpandVolumeResponse;
}

shown! {
    MountVolume { fs_type }
    NodeStageVolumeRequest { volume_id, staging_target_path }
    NodePublishVolumeRequest { volume_id, target_path, readonly }
}
