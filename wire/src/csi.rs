//! Wire form of CSI volumes and plugins: with derived fields, without secrets; and request bodies about them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use songline_model::{
    AllocId, CsiAccessMode, CsiAttachmentMode, CsiHealth, CsiPlugin, CsiSecrets, CsiTopology, CsiTopologyRequest,
    CsiVolume, CsiVolumeCapability, CsiVolumeMountOptions, Str, Time,
};
use songline_projections::DenormalizedVolume;

use crate::alloc::{AllocFields, AllocStub};
use crate::go_time::GoTime;
use crate::responses::QueryMeta;

/// A whole volume. Its claims are not shown, but their allocations are.
#[derive(Debug)]
pub struct CsiVolumeView(pub DenormalizedVolume);

/// A volume as one answer shows it: the row, and the fields derived from its claims and its plugin.
#[derive(Debug, Serialize)]
#[serde(rename = "CSIVolume", rename_all = "PascalCase")]
struct Shown<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    name: &'a str,
    #[serde(rename = "ExternalID")]
    external_id: &'a str,
    namespace: &'a str,
    requested_topologies: &'a Option<CsiTopologyRequest>,
    topologies: &'a Option<Vec<CsiTopology>>,
    access_mode: &'a CsiAccessMode,
    attachment_mode: &'a CsiAttachmentMode,
    mount_options: Option<CsiVolumeMountOptions>,
    secrets: &'a CsiSecrets,
    parameters: Option<Texts<'a>>,
    context: Option<Texts<'a>>,
    capacity: i64,
    requested_capacity_min: i64,
    requested_capacity_max: i64,
    requested_capabilities: &'a Option<Vec<CsiVolumeCapability>>,
    #[serde(rename = "CloneID")]
    clone_id: &'a str,
    #[serde(rename = "SnapshotID")]
    snapshot_id: &'a str,
    read_allocs: Option<BTreeMap<AllocId, ()>>,
    write_allocs: Option<BTreeMap<AllocId, ()>>,
    /// Allocations of the read claims, then of the write claims.
    allocations: Vec<AllocStub<'a>>,
    schedulable: bool,
    #[serde(rename = "PluginID")]
    plugin_id: &'a str,
    provider: &'a str,
    provider_version: &'a str,
    controller_required: bool,
    controllers_healthy: i64,
    controllers_expected: i64,
    nodes_healthy: i64,
    nodes_expected: i64,
    resource_exhausted: Option<Time>,
    create_index: u64,
    modify_index: u64,
}

type Texts<'a> = BTreeMap<&'a str, &'a str>;

/// Entries of a map; an absent map is empty.
fn texts(map: &Option<BTreeMap<Str, Str>>) -> Texts<'_> {
    map.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str())).collect()
}

impl<'a> Shown<'a> {
    fn new(volume: &'a CsiVolume, health: &CsiHealth) -> Self {
        Self {
            id: &volume.id,
            name: &volume.name,
            external_id: &volume.external_id,
            namespace: &volume.namespace,
            requested_topologies: &volume.requested_topologies,
            topologies: &volume.topologies,
            access_mode: &volume.access_mode,
            attachment_mode: &volume.attachment_mode,
            mount_options: volume.mount_options.clone(),
            secrets: &volume.secrets,
            parameters: volume.parameters.is_some().then(|| texts(&volume.parameters)),
            context: volume.context.is_some().then(|| texts(&volume.context)),
            capacity: volume.capacity,
            requested_capacity_min: volume.requested_capacity_min,
            requested_capacity_max: volume.requested_capacity_max,
            requested_capabilities: &volume.requested_capabilities,
            clone_id: &volume.clone_id,
            snapshot_id: &volume.snapshot_id,
            read_allocs: None,
            write_allocs: None,
            allocations: Vec::new(),
            schedulable: health.schedulable(),
            plugin_id: &volume.plugin_id,
            provider: &volume.provider,
            provider_version: &volume.provider_version,
            controller_required: health.controller_required,
            controllers_healthy: health.controllers_healthy,
            controllers_expected: health.controllers_expected,
            nodes_healthy: health.nodes_healthy,
            nodes_expected: health.nodes_expected,
            resource_exhausted: volume.resource_exhausted,
            create_index: volume.create_index,
            modify_index: volume.modify_index,
        }
    }
}

/// Topologies of a volume that has none.
const NO_TOPOLOGIES: &Option<Vec<CsiTopology>> = &Some(Vec::new());

/// Topologies of a volume; absent ones are empty.
fn topologies(volume: &CsiVolume) -> &Option<Vec<CsiTopology>> {
    if volume.topologies.is_some() { &volume.topologies } else { NO_TOPOLOGIES }
}

impl CsiVolumeView {
    fn shown(&self) -> Shown<'_> {
        let DenormalizedVolume { volume, health, .. } = &self.0;
        Shown {
            topologies: topologies(volume),
            provider: self.0.provider(),
            provider_version: self.0.provider_version(),
            mount_options: Some(volume.mount_options.clone().unwrap_or_default()),
            parameters: Some(texts(&volume.parameters)),
            context: Some(texts(&volume.context)),
            read_allocs: Some(volume.read_claims.keys().map(|id| (*id, ())).collect()),
            write_allocs: Some(volume.write_claims.keys().map(|id| (*id, ())).collect()),
            allocations: self.0.known_allocs().map(|alloc| AllocStub::new(alloc, AllocFields::default())).collect(),
            ..Shown::new(volume, health)
        }
    }
}

impl Serialize for CsiVolumeView {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(s)
    }
}

/// A volume in the answer to its update: as [`CsiVolumeView`], with missing options and context as `null`.
#[derive(Debug)]
pub struct CsiVolumeUpdated(pub DenormalizedVolume);

impl Serialize for CsiVolumeUpdated {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let view = CsiVolumeView(self.0.clone());
        let volume = &self.0.volume;
        let context = volume.context.is_some().then(|| texts(&volume.context));
        Shown { mount_options: volume.mount_options.clone(), context, ..view.shown() }.serialize(s)
    }
}

/// A volume in the answer to its creation: as the storage has made it, without fields of its row.
#[derive(Debug)]
pub struct CsiVolumeMade(pub CsiVolume);

impl Serialize for CsiVolumeMade {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        Shown::new(&self.0, &CsiHealth::default()).serialize(s)
    }
}

/// A volume in the answer to a creation.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum CsiVolumeCreated {
    /// The volume is new.
    Made(CsiVolumeMade),
    /// The volume existed, and was updated.
    Updated(CsiVolumeUpdated),
}

/// Answer to the creation of volumes: those that the storage provider made.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CsiVolumeCreateResponse {
    /// The volumes in order of the request.
    pub volumes: Vec<CsiVolumeCreated>,
    /// Index and metadata.
    #[serde(flatten)]
    pub meta: QueryMeta,
}

/// A volume in lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CsiVolumeStub<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    namespace: &'a str,
    name: &'a str,
    #[serde(rename = "ExternalID")]
    external_id: &'a str,
    topologies: &'a Option<Vec<CsiTopology>>,
    access_mode: &'a CsiAccessMode,
    attachment_mode: &'a CsiAttachmentMode,
    current_readers: usize,
    current_writers: usize,
    schedulable: bool,
    #[serde(rename = "PluginID")]
    plugin_id: &'a str,
    provider: &'a str,
    controller_required: bool,
    controllers_healthy: i64,
    controllers_expected: i64,
    nodes_healthy: i64,
    nodes_expected: i64,
    resource_exhausted: Option<Time>,
    create_index: u64,
    modify_index: u64,
}

impl<'a> CsiVolumeStub<'a> {
    /// Makes the stub of a volume.
    pub fn new(seen: &'a CsiVolumeView) -> Self {
        let DenormalizedVolume { volume, health, .. } = &seen.0;
        Self {
            id: &volume.id,
            namespace: &volume.namespace,
            name: &volume.name,
            external_id: &volume.external_id,
            topologies: topologies(volume),
            access_mode: &volume.access_mode,
            attachment_mode: &volume.attachment_mode,
            current_readers: volume.read_claims.len(),
            current_writers: volume.write_claims.len(),
            schedulable: health.schedulable(),
            plugin_id: &volume.plugin_id,
            provider: seen.0.provider(),
            controller_required: health.controller_required,
            controllers_healthy: health.controllers_healthy,
            controllers_expected: health.controllers_expected,
            nodes_healthy: health.nodes_healthy,
            nodes_expected: health.nodes_expected,
            resource_exhausted: volume.resource_exhausted,
            create_index: volume.create_index,
            modify_index: volume.modify_index,
        }
    }
}

/// A plugin: the row, and the allocations of its instances.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CsiPluginView<'a> {
    /// The row.
    #[serde(flatten)]
    pub plugin: &'a CsiPlugin,
    /// Allocations of the plugin's instances; omitted when there are none.
    pub allocations: Option<Vec<AllocStub<'a>>>,
}

/// A plugin in lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CsiPluginStub<'a> {
    #[serde(rename = "ID")]
    id: &'a str,
    provider: &'a str,
    controller_required: bool,
    controllers_healthy: i64,
    controllers_expected: i64,
    nodes_healthy: i64,
    nodes_expected: i64,
    create_index: u64,
    modify_index: u64,
}

impl<'a> CsiPluginStub<'a> {
    /// Makes the stub of a row.
    pub fn new(plugin: &'a CsiPlugin) -> Self {
        let health: CsiHealth = plugin.health();
        Self {
            id: &plugin.id,
            provider: &plugin.provider,
            controller_required: health.controller_required,
            controllers_healthy: health.controllers_healthy,
            controllers_expected: health.controllers_expected,
            nodes_healthy: health.nodes_healthy,
            nodes_expected: health.nodes_expected,
            create_index: plugin.create_index,
            modify_index: plugin.modify_index,
        }
    }
}

/// Body of the registration and of the creation of volumes.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "CSIVolumeRegisterRequest", rename_all = "PascalCase")]
pub struct CsiVolumeRegisterRequest {
    /// Volumes to register.
    pub volumes: Vec<CsiVolumeRequest>,
    /// Namespace of the write if the query names none.
    pub namespace: Str,
}

/// `CSIVolume` in a request. The fields with an underscore have no effect, but a wrong type of them is refused.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "CSIVolume", rename_all = "PascalCase")]
pub struct CsiVolumeRequest {
    #[serde(rename = "ID")]
    id: Str,
    name: Str,
    #[serde(rename = "ExternalID")]
    external_id: Str,
    namespace: Str,
    requested_topologies: Option<CsiTopologyRequest>,
    topologies: Option<Vec<CsiTopology>>,
    mount_options: Option<CsiVolumeMountOptions>,
    secrets: CsiSecrets,
    parameters: Option<BTreeMap<Str, Str>>,
    context: Option<BTreeMap<Str, Str>>,
    capacity: i64,
    requested_capacity_min: i64,
    requested_capacity_max: i64,
    requested_capabilities: Option<Vec<CsiVolumeCapability>>,
    #[serde(rename = "CloneID")]
    clone_id: Str,
    #[serde(rename = "SnapshotID")]
    snapshot_id: Str,
    #[serde(rename = "PluginID")]
    plugin_id: Str,
    #[serde(rename = "AccessMode")]
    _access_mode: Str,
    #[serde(rename = "AttachmentMode")]
    _attachment_mode: Str,
    #[serde(rename = "ReadAllocs")]
    _read_allocs: Option<BTreeMap<Str, Allocation>>,
    #[serde(rename = "WriteAllocs")]
    _write_allocs: Option<BTreeMap<Str, Allocation>>,
    #[serde(rename = "Schedulable")]
    _schedulable: bool,
    #[serde(rename = "Provider")]
    _provider: Str,
    #[serde(rename = "ProviderVersion")]
    _provider_version: Str,
    #[serde(rename = "ControllerRequired")]
    _controller_required: bool,
    #[serde(rename = "ControllersHealthy")]
    _controllers_healthy: i64,
    #[serde(rename = "ControllersExpected")]
    _controllers_expected: i64,
    #[serde(rename = "NodesHealthy")]
    _nodes_healthy: i64,
    #[serde(rename = "NodesExpected")]
    _nodes_expected: i64,
    #[serde(rename = "ResourceExhausted")]
    _resource_exhausted: GoTime,
    #[serde(rename = "CreateIndex")]
    _create_index: u64,
    #[serde(rename = "ModifyIndex")]
    _modify_index: u64,
}

/// An allocation in the body of a volume, of which no field counts.
#[derive(Debug, Default, Deserialize)]
struct Allocation {}

impl CsiVolumeRequest {
    /// The volume of the request; in `namespace` unless the request names another.
    pub fn into_volume(self, namespace: &Str) -> CsiVolume {
        CsiVolume {
            id: self.id.into(),
            name: self.name,
            external_id: self.external_id,
            namespace: if self.namespace.is_empty() { namespace.into() } else { self.namespace.into() },
            requested_topologies: self.requested_topologies,
            topologies: self.topologies,
            mount_options: self.mount_options,
            secrets: self.secrets,
            parameters: self.parameters,
            context: self.context,
            capacity: self.capacity,
            requested_capacity_min: self.requested_capacity_min,
            requested_capacity_max: self.requested_capacity_max,
            requested_capabilities: self.requested_capabilities,
            clone_id: self.clone_id,
            snapshot_id: self.snapshot_id,
            plugin_id: self.plugin_id.into(),
            ..CsiVolume::default()
        }
    }
}

/// Body of the creation of snapshots.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "CSISnapshotCreateRequest", rename_all = "PascalCase")]
pub struct CsiSnapshotCreateRequest {
    /// Snapshots to create.
    pub snapshots: Vec<Option<CsiSnapshotRequest>>,
    /// Namespace of the write if the query names none.
    pub namespace: Str,
}

/// `CSISnapshot` in a request. The fields with an underscore have no effect, but a wrong type of them is refused.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename = "CSISnapshot", rename_all = "PascalCase")]
pub struct CsiSnapshotRequest {
    /// Volume to snapshot.
    #[serde(rename = "SourceVolumeID")]
    pub source_volume_id: Str,
    /// Plugin to use; that of the volume when empty.
    #[serde(rename = "PluginID")]
    pub plugin_id: Str,
    /// Name, from which the storage derives the snapshot's id.
    pub name: Str,
    /// Secrets for the plugin, beside those of the volume.
    pub secrets: CsiSecrets,
    /// Parameters for the plugin.
    pub parameters: Option<BTreeMap<Str, Str>>,
    #[serde(rename = "ID")]
    _id: Str,
    #[serde(rename = "ExternalSourceVolumeID")]
    _external_source_volume_id: Str,
    #[serde(rename = "SizeBytes")]
    _size_bytes: i64,
    #[serde(rename = "CreateTime")]
    _create_time: i64,
    #[serde(rename = "IsReady")]
    _is_ready: bool,
}

/// `CSISnapshot` in an answer: a snapshot as the storage describes it.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CsiSnapshotView {
    /// Id in the storage.
    #[serde(rename = "ID")]
    pub id: Str,
    /// Id of the volume in the storage.
    #[serde(rename = "ExternalSourceVolumeID")]
    pub external_source_volume_id: Str,
    /// Size, in bytes.
    pub size_bytes: i64,
    /// Creation time, in Unix seconds.
    pub create_time: i64,
    /// Whether a volume can be made of it.
    pub is_ready: bool,
    /// Empty: the storage does not know the id.
    #[serde(rename = "SourceVolumeID")]
    pub source_volume_id: Str,
    /// The plugin, in lists only.
    #[serde(rename = "PluginID")]
    pub plugin_id: Str,
    /// Empty: the storage does not keep the name.
    pub name: Str,
    /// Always null.
    pub secrets: (),
    /// Always null.
    pub parameters: (),
}

/// Answer to the creation of snapshots, and one page of a list of them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CsiSnapshotsResponse {
    /// Null: there is none.
    pub snapshots: Option<Vec<CsiSnapshotView>>,
    /// Index and metadata.
    #[serde(flatten)]
    pub meta: QueryMeta,
}
