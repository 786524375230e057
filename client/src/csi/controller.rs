//! Requests of servers to the controllers of plugins on this node. Errors begin with the request's name.

use std::collections::BTreeMap;

use songline_model::{CsiTopology, Str};
use songline_rpc::message::{
    Call, ControllerAttachVolume, ControllerAttachVolumeAnswer, ControllerCreateSnapshot,
    ControllerCreateSnapshotAnswer, ControllerCreateVolume, ControllerCreateVolumeAnswer, ControllerDeleteSnapshot,
    ControllerDeleteVolume, ControllerDetachVolume, ControllerExpandVolume, ControllerExpandVolumeAnswer,
    ControllerListSnapshots, ControllerListSnapshotsAnswer, ControllerListVolumes, ControllerListVolumesAnswer,
    ControllerValidateVolume, CsiCapacityRange, CsiExternalVolume,
};
use songline_rpc::msgpack::RawValue;
use tonic::Code;

use super::capability::{UnknownMode, capability, not_covered};
use super::fingerprint::Parts;
use super::messages::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest,
    CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest, DeleteVolumeRequest, ListSnapshotsRequest,
    ListVolumesRequest, Method, Snapshot, SourceId, Topology, TopologyRequirement, ValidateVolumeCapabilitiesRequest,
    VolumeContentSource, VolumeEntry, content_source, texts,
};
use super::plugin::{CallError, Plugin};
use super::registry::{NoInstance, Registry};

/// A request that failed.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    NoInstance(#[from] NoInstance),
    #[error(transparent)]
    Mode(#[from] UnknownMode),
    #[error("{0}")]
    Request(String),
    #[error("{what}: {error}")]
    Explained { what: String, error: CallError },
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A request of servers to a plugin on this node.
pub(crate) trait Asked: Call {
    /// The plugin's part that answers it.
    const PART: Parts = Parts::Controller;

    fn plugin(&self) -> &Str;

    fn ask(self, plugin: &Plugin) -> impl Future<Output = Result<Self::Answer, Refused>> + Send;
}

/// Has the plugin answer a request.
pub(crate) async fn answer<A: Asked>(asked: A, registry: &Registry) -> Result<A::Answer, Refused> {
    if asked.plugin().is_empty() {
        return Err(missing("PluginID"));
    }
    let running = registry.newest(A::PART, asked.plugin())?;
    asked.ask(&running.plugin).await
}

impl Asked for ControllerValidateVolume {
    fn plugin(&self) -> &Str {
        &self.plugin_id
    }

    async fn ask(self, plugin: &Plugin) -> Result<Self::Answer, Refused> {
        let asked = self.volume_capabilities.iter().flatten();
        let asked: Vec<_> = asked
            .map(|of| capability(&of.access_mode, &of.attachment_mode, self.mount_options.as_ref()))
            .collect::<Result<_, _>>()?;
        let volume = required("VolumeID", &self.volume_id)?;
        let request = ValidateVolumeCapabilitiesRequest {
            volume_id: volume.clone(),
            volume_context: texts(self.context.as_ref()),
            volume_capabilities: asked.clone(),
            parameters: texts(self.parameters.as_ref()),
            secrets: texts(self.secrets.reveal()),
        };
        let answer = send(plugin, request, |code| match code {
            Code::NotFound => Some(format!("volume {volume:?} could not be found")),
            _ => None,
        })
        .await?;
        // A plugin that confirms nothing knows nothing about the volume, which is no reason to refuse it.
        let Some(confirmed) = answer.confirmed else { return Ok(Self::Answer::default()) };
        for one in &asked {
            let reasons: Vec<_> = confirmed.volume_capabilities.iter().filter_map(|by| not_covered(one, by)).collect();
            if reasons.len() == confirmed.volume_capabilities.len() {
                let reasons = if reasons.is_empty() { vec!["the plugin confirmed none"] } else { reasons };
                return Err(Refused::Request(format!("volume capability validation failed: {}", reasons.join(", "))));
            }
        }
        Ok(Self::Answer::default())
    }
}

impl Asked for ControllerAttachVolume {
    fn plugin(&self) -> &Str {
        &self.plugin_id
    }

    async fn ask(self, plugin: &Plugin) -> Result<Self::Answer, Refused> {
        let (access, attachment) = (self.access_mode.as_str().into(), self.attachment_mode.as_str().into());
        let capability = capability(&access, &attachment, self.mount_options.as_ref())?;
        let volume = required("VolumeID", &self.volume_id)?;
        let node = required("ClientCSINodeID", &self.client_csi_node_id)?;
        let request = ControllerPublishVolumeRequest {
            volume_id: volume.clone(),
            node_id: node.clone(),
            volume_capability: Some(capability),
            readonly: self.read_only,
            secrets: texts(self.secrets.reveal()),
            volume_context: texts(self.volume_context.as_ref()),
        };
        let answer = send(plugin, request, |code| match code {
            Code::NotFound => Some(format!("volume {volume:?} or node {node:?} could not be found")),
            Code::AlreadyExists => Some(format!(
                "volume {volume:?} is already published at node {node:?} but with capabilities or a read_only setting \
                 incompatible with this request"
            )),
            Code::ResourceExhausted => {
                Some(format!("node {node:?} has reached the maximum allowable number of attached volumes"))
            }
            Code::FailedPrecondition => Some(format!(
                "volume {volume:?} is already published on another node and does not have MULTI_NODE volume capability"
            )),
            _ => None,
        })
        .await?;
        Ok(ControllerAttachVolumeAnswer { publish_context: Some(strs(answer.publish_context)) })
    }
}

impl Asked for ControllerDetachVolume {
    fn plugin(&self) -> &Str {
        &self.plugin_id
    }

    async fn ask(self, plugin: &Plugin) -> Result<Self::Answer, Refused> {
        let request = ControllerUnpublishVolumeRequest {
            volume_id: required("VolumeID", &self.volume_id)?,
            // The protocol takes an empty id for all nodes.
            node_id: required("ClientCSINodeID", &self.client_csi_node_id)?,
            secrets: texts(self.secrets.reveal()),
        };
        gone_is_done(send(plugin, request, |_| None).await)
    }
}

impl Asked for ControllerCreateVolume {
    fn plugin(&self) -> &Str {
        &self.plugin_id
    }

    async fn ask(self, plugin: &Plugin) -> Result<Self::Answer, Refused> {
        let asked = self.volume_capabilities.iter().flatten();
        let capabilities = asked
            .map(|of| capability(&of.access_mode, &of.attachment_mode, self.mount_options.as_ref()))
            .collect::<Result<_, _>>()?;
        let name = required("Name", &self.name)?;
        let source = format!("&{{{:?} {:?}}}", self.clone_id.as_str(), self.snapshot_id.as_str());
        let source_of = |id: &Str| SourceId { id: id.to_string() };
        let content = match (self.snapshot_id.is_empty(), self.clone_id.is_empty()) {
            (true, true) => None,
            (false, _) => Some(content_source::Kind::Snapshot(source_of(&self.snapshot_id))),
            (true, false) => Some(content_source::Kind::Volume(source_of(&self.clone_id))),
        };
        let wanted = self.requested_topologies.as_ref();
        let request = CreateVolumeRequest {
            name: name.clone(),
            capacity_range: capacity(CsiCapacityRange {
                required_bytes: self.capacity_min,
                limit_bytes: self.capacity_max,
            })?,
            volume_capabilities: capabilities,
            parameters: texts(self.parameters.as_ref()),
            secrets: texts(self.secrets.reveal()),
            volume_content_source: content.map(|kind| VolumeContentSource { kind: Some(kind) }),
            accessibility_requirements: wanted.map(|wanted| TopologyRequirement {
                requisite: wanted.required.iter().flatten().map(topology).collect(),
                preferred: wanted.preferred.iter().flatten().map(topology).collect(),
            }),
        };
        let answer = send(plugin, request, |code| match code {
            Code::InvalidArgument => {
                Some(format!("volume {name:?} snapshot source {source} is not compatible with these parameters"))
            }
            Code::NotFound => Some(format!("volume {name:?} content source {source} does not exist")),
            Code::AlreadyExists => {
                Some(format!("volume {name:?} already exists but is incompatible with these parameters"))
            }
            Code::ResourceExhausted => Some(format!("unable to provision {name:?} in accessible_topology")),
            Code::OutOfRange => Some(format!("unsupported capacity_range for volume {name:?}")),
            _ => None,
        })
        .await?;
        let made = answer.volume.ok_or_else(|| Refused::Request("the plugin answered without a volume".to_owned()))?;
        Ok(ControllerCreateVolumeAnswer {
            external_volume_id: made.volume_id.as_str().into(),
            capacity_bytes: made.capacity_bytes,
            volume_context: Some(strs(made.volume_context)),
            topologies: Some(made.accessible_topology.into_iter().map(of_model).collect()),
        })
    }
}

impl Asked for ControllerDeleteVolume {
    fn plugin(&self) -> &Str {
        &self.plugin_id
    }

    async fn ask(self, plugin: &Plugin) -> Result<Self::Answer, Refused> {
        let volume = required("ExternalVolumeID", &self.external_volume_id)?;
        let request = DeleteVolumeRequest { volume_id: volume.clone(), secrets: texts(self.secrets.reveal()) };
        let done = send(plugin, request, |code| match code {
            Code::FailedPrecondition => Some(format!("volume {volume:?} is in use")),
            _ => None,
        });
        gone_is_done(done.await)
    }
}

impl Asked for ControllerListVolumes {
    fn plugin(&self) -> &Str {
        &self.plugin_id
    }

    async fn ask(self, plugin: &Plugin) -> Result<Self::Answer, Refused> {
        let token = self.starting_token.to_string();
        let request = ListVolumesRequest { max_entries: page(self.max_entries)?, starting_token: token.clone() };
        let answer = send(plugin, request, |code| bad_token(code, &token)).await?;
        Ok(ControllerListVolumesAnswer {
            entries: Some(answer.entries.into_iter().map(external).collect()),
            next_token: answer.next_token.as_str().into(),
        })
    }
}

impl Asked for ControllerExpandVolume {
    fn plugin(&self) -> &Str {
        &self.plugin_id
    }

    async fn ask(self, plugin: &Plugin) -> Result<Self::Answer, Refused> {
        let volume = required("ExternalVolumeID", &self.external_volume_id)?;
        let of = self.volume_capability.as_ref();
        let request = ControllerExpandVolumeRequest {
            volume_id: volume.clone(),
            capacity_range: range(&self.capacity_range)?,
            secrets: texts(self.secrets.reveal()),
            volume_capability: of.map(|of| capability(&of.access_mode, &of.attachment_mode, None)).transpose()?,
        };
        let answer = send(plugin, request, |code| match code {
            Code::NotFound => Some(format!("volume {volume:?} could not be found")),
            Code::FailedPrecondition => Some(format!("volume {volume:?} cannot be expanded while it is in use")),
            Code::OutOfRange => Some(format!("unsupported capacity_range for volume {volume:?}")),
            Code::InvalidArgument => Some(format!("requested capabilities not compatible with volume {volume:?}")),
            _ => None,
        })
        .await?;
        Ok(ControllerExpandVolumeAnswer {
            capacity_bytes: answer.capacity_bytes,
            node_expansion_required: answer.node_expansion_required,
        })
    }
}

impl Asked for ControllerCreateSnapshot {
    fn plugin(&self) -> &Str {
        &self.plugin_id
    }

    async fn ask(self, plugin: &Plugin) -> Result<Self::Answer, Refused> {
        let volume = required("ExternalSourceVolumeID", &self.external_source_volume_id)?;
        let name = self.name.to_string();
        let request = CreateSnapshotRequest {
            source_volume_id: volume.clone(),
            name: name.clone(),
            secrets: texts(self.secrets.reveal()),
            parameters: texts(self.parameters.as_ref()),
        };
        let answer = send(plugin, request, |code| match code {
            Code::AlreadyExists => {
                Some(format!("snapshot {name:?} already exists but is incompatible with volume ID {volume:?}"))
            }
            Code::Aborted => Some(format!("snapshot {name:?} is already pending")),
            Code::ResourceExhausted => Some("storage provider does not have enough space for this snapshot".to_owned()),
            _ => None,
        })
        .await?;
        let made = answer.snapshot.ok_or_else(|| Refused::Request("the plugin answered without a snapshot".to_owned()));
        made.map(snapshot)
    }
}

impl Asked for ControllerDeleteSnapshot {
    fn plugin(&self) -> &Str {
        &self.plugin_id
    }

    async fn ask(self, plugin: &Plugin) -> Result<Self::Answer, Refused> {
        let id = required("SnapshotID", &self.id)?;
        let request = DeleteSnapshotRequest { snapshot_id: id.clone(), secrets: texts(self.secrets.reveal()) };
        let done = send(plugin, request, |code| match code {
            Code::FailedPrecondition => Some(format!("snapshot {id:?} could not be deleted because it is in use")),
            Code::Aborted => Some(format!("snapshot {id:?} has a pending operation")),
            _ => None,
        });
        gone_is_done(done.await)
    }
}

impl Asked for ControllerListSnapshots {
    fn plugin(&self) -> &Str {
        &self.plugin_id
    }

    async fn ask(self, plugin: &Plugin) -> Result<Self::Answer, Refused> {
        let token = self.starting_token.to_string();
        let request = ListSnapshotsRequest {
            max_entries: page(self.max_entries)?,
            starting_token: token.clone(),
            secrets: texts(self.secrets.reveal()),
        };
        let answer = send(plugin, request, |code| bad_token(code, &token)).await?;
        Ok(ControllerListSnapshotsAnswer {
            entries: Some(answer.entries.into_iter().filter_map(|entry| entry.snapshot).map(snapshot).collect()),
            next_token: answer.next_token.as_str().into(),
        })
    }
}

/// Sends a request. `explain` says what a code of the plugin's error means for it.
async fn send<M: Method>(
    plugin: &Plugin,
    request: M,
    explain: impl Fn(Code) -> Option<String>,
) -> Result<M::Answer, Refused> {
    plugin.ask(request).await.map_err(|error| {
        let internal = || {
            (error.0.code() == Code::Internal).then(|| {
                "controller plugin returned an internal error, check the plugin allocation logs for more information"
                    .to_owned()
            })
        };
        match explain(error.0.code()).or_else(internal) {
            Some(what) => Refused::Explained { what, error },
            None => Refused::Call(error),
        }
    })
}

/// A plugin that does not find what it should delete or detach has nothing left to do.
fn gone_is_done<A, B: Default>(answer: Result<A, Refused>) -> Result<B, Refused> {
    match answer {
        Err(Refused::Call(error)) if error.0.code() == Code::NotFound => Ok(B::default()),
        Err(error) => Err(error),
        Ok(_) => Ok(B::default()),
    }
}

fn bad_token(code: Code, token: &str) -> Option<String> {
    (code == Code::Aborted).then(|| format!("invalid starting token {token:?}"))
}

fn missing(field: &str) -> Refused {
    Refused::Request(format!("missing {field}"))
}

fn required(field: &str, value: &Str) -> Result<String, Refused> {
    if value.is_empty() { Err(missing(field)) } else { Ok(value.to_string()) }
}

fn page(entries: i32) -> Result<i32, Refused> {
    if entries < 0 { Err(Refused::Request("MaxEntries cannot be negative".to_owned())) } else { Ok(entries) }
}

/// Reads a capacity range from a request.
pub(super) fn range(of: &RawValue) -> Result<Option<CapacityRange>, Refused> {
    let range: Option<CsiCapacityRange> = of.read().map_err(|error| Refused::Request(error.to_string()))?;
    capacity(range.unwrap_or_default())
}

/// A capacity range as requests have it; `None` is any capacity.
fn capacity(range: CsiCapacityRange) -> Result<Option<CapacityRange>, Refused> {
    let CsiCapacityRange { required_bytes, limit_bytes } = range;
    let wrong = |text: &str| Err(Refused::Request(text.to_owned()));
    match (required_bytes, limit_bytes) {
        (0, 0) => Ok(None),
        (required, limit) if required < 0 || limit < 0 => wrong("capacities cannot be negative"),
        (required, limit) if limit != 0 && limit < required => wrong("LimitBytes cannot be less than RequiredBytes"),
        _ => Ok(Some(CapacityRange { required_bytes, limit_bytes })),
    }
}

fn strs(of: BTreeMap<String, String>) -> BTreeMap<Str, Str> {
    of.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

fn topology(of: &CsiTopology) -> Topology {
    Topology { segments: texts(of.segments.as_ref()) }
}

fn of_model(of: Topology) -> CsiTopology {
    CsiTopology { segments: Some(strs(of.segments)) }
}

fn external(entry: VolumeEntry) -> CsiExternalVolume {
    let volume = entry.volume.unwrap_or_default();
    let status = entry.status.unwrap_or_default();
    let condition = status.volume_condition.unwrap_or_default();
    let (snapshot_id, clone_id) = match volume.content_source.and_then(|source| source.kind) {
        Some(content_source::Kind::Snapshot(of)) => (of.id, String::new()),
        Some(content_source::Kind::Volume(of)) => (String::new(), of.id),
        None => (String::new(), String::new()),
    };
    let nodes: Vec<Str> = status.published_node_ids.into_iter().map(Str::from).collect();
    CsiExternalVolume {
        external_id: volume.volume_id.into(),
        capacity_bytes: volume.capacity_bytes,
        volume_context: Some(strs(volume.volume_context)),
        clone_id: clone_id.into(),
        snapshot_id: snapshot_id.into(),
        published_external_node_ids: (!nodes.is_empty()).then_some(nodes),
        is_abnormal: condition.abnormal,
        status: condition.message.into(),
    }
}

fn snapshot(of: Snapshot) -> ControllerCreateSnapshotAnswer {
    ControllerCreateSnapshotAnswer {
        id: of.snapshot_id.into(),
        external_source_volume_id: of.source_volume_id.into(),
        size_bytes: of.size_bytes,
        create_time: of.creation_time.map_or(0, |time| time.seconds),
        is_ready: of.ready_to_use,
    }
}
