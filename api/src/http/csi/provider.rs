//! Operations of a plugin's controller on volumes: validating, creating, deleting, and listing what the storage has.

use axum::response::Response;
use serde::Serialize;
use songline_commands::{DeregisterCsiVolumes, RegisterCsiVolumes};
use songline_model::{CsiControllerInfo, CsiPlugin, CsiSecrets, CsiVolume, CsiVolumeKey, Str};
use songline_projections::State;
use songline_rpc::message::{
    ControllerCreateVolume, ControllerDeleteVolume, ControllerListVolumes, ControllerValidateVolume, CsiExternalVolume,
    ToController,
};
use songline_wire::csi::{CsiVolumeCreateResponse, CsiVolumeCreated, CsiVolumeMade, CsiVolumeUpdated};
use songline_wire::responses::QueryMeta;

use super::{admit, growth, requested, require_write, volume_id, written_with_meta};
use crate::error::ApiError;
use crate::http::call::{Call, Meta};
use crate::http::namespace::multi_error;
use crate::http::params::quote;
use crate::http::rate::RateOp;
use crate::server::{Agent, Nodes, Reads, Served, Status, Writes};

/// Header with secrets for a plugin, in requests without a body: `k=v,k2=v2`.
const SECRETS: &str = "x-nomad-csi-secrets";

/// Sends a request to a controller. The request is counted as a call of the servers themselves. `what` begins the text
/// of an error.
pub(super) async fn ask<S: Nodes + Status, C: ToController>(
    call: &Call<S>,
    plugin: &str,
    op: RateOp,
    what: &str,
    request: C,
) -> Result<C::Answer, String> {
    let info = call.server.info();
    let identity = (info.rpc_rate_labels && info.acl.enabled).then(|| "token:anonymous".to_owned());
    call.server.count_served(Served { endpoint: "client_csi", op, identity });
    call.server.ask_csi_controller(plugin, request).await.map_err(|error| format!("{what}: {error}"))
}

/// Has the controller check a volume that is to be registered. A volume that it does not know is refused.
pub(super) async fn validate<S: Nodes + Status>(
    call: &Call<S>,
    stored: Option<&CsiVolume>,
    volume: &CsiVolume,
) -> Result<(), ApiError> {
    let known = stored.filter(|_| volume.external_id.is_empty()).unwrap_or(volume);
    let request = ControllerValidateVolume {
        volume_id: known.remote_id(),
        volume_capabilities: volume.requested_capabilities.clone(),
        secrets: volume.secrets.clone(),
        parameters: stored.unwrap_or(volume).parameters.clone(),
        context: volume.context.clone(),
        ..ControllerValidateVolume::default()
    };
    let answer = ask(call, &volume.plugin_id, RateOp::Write, "controller validate volume", request).await;
    answer.map(drop).map_err(ApiError::internal)
}

pub(super) async fn create<S: Writes + Nodes + Status>(mut call: Call<S>) -> Result<Response, ApiError> {
    volume_id(&call)?;
    let volumes = requested(&mut call, "structs.CSIVolumeCreateRequest").await?;
    let view = call.server.view();
    for volume in &volumes {
        let plugin = admit(&view, volume)?;
        if !plugin.controller_required {
            return Err(ApiError::internal("plugin has no controller"));
        }
        if !plugin.has_controller_capability(|can| can.supports_create_delete) {
            return Err(ApiError::internal("plugin does not support creating volumes"));
        }
    }
    let (mut made, mut errors) = (Vec::new(), Vec::new());
    for volume in volumes {
        match create_one(&call, &view, volume).await {
            Ok(volume) => made.push(volume),
            Err(error) => errors.push(error),
        }
    }
    // What the storage has made is registered even if it refused the rest.
    let mut index = 0;
    if !made.is_empty() {
        index = call.propose(RegisterCsiVolumes { volumes: made.clone() }).await?.index;
    }
    if !errors.is_empty() {
        return Err(ApiError::internal(multi_error(&errors)));
    }
    let after = call.view_after(index).await;
    let volumes = made.into_iter().map(|volume| shown(&view, &after, volume)).collect();
    let meta = QueryMeta { known_leader: true, ..QueryMeta::written(index) };
    call.written(index, &CsiVolumeCreateResponse { volumes, meta })
}

/// Has the storage make a volume, or grow one that is registered. Returns the volume to register.
async fn create_one<S: Nodes + Status>(
    call: &Call<S>,
    view: &State,
    mut volume: CsiVolume,
) -> Result<CsiVolume, String> {
    let plugin = view.csi_plugin(&volume.plugin_id).ok_or("no such plugin")?;
    if let Some(stored) = view.csi_volume_by_key(&volume.key()) {
        stored.must_grow(&volume).map_err(|refused| refused.to_string())?;
        growth::check(stored, &volume)
            .map_err(|refused| multi_error(&refused.0.iter().map(ToString::to_string).collect::<Vec<_>>()))?;
        growth::grow(call, plugin, stored, &mut volume).await?;
        return Ok(volume);
    }
    let request = ControllerCreateVolume {
        name: volume.name.clone(),
        volume_capabilities: volume.requested_capabilities.clone(),
        mount_options: volume.mount_options.as_ref().map(Into::into),
        parameters: volume.parameters.clone(),
        secrets: volume.secrets.clone(),
        capacity_min: volume.requested_capacity_min,
        capacity_max: volume.requested_capacity_max,
        snapshot_id: volume.snapshot_id.clone(),
        clone_id: volume.clone_id.clone(),
        requested_topologies: volume.requested_topologies.clone(),
        ..ControllerCreateVolume::default()
    };
    let answer = ask(call, &plugin.id, RateOp::Write, "controller create volume", request).await?;
    volume.external_id = answer.external_volume_id;
    volume.capacity = answer.capacity_bytes;
    volume.context = answer.volume_context;
    volume.topologies = Some(answer.topologies.unwrap_or_default());
    volume.provider.clone_from(&plugin.provider);
    volume.provider_version.clone_from(&plugin.version);
    Ok(volume)
}

/// A new volume as the storage has made it, a registered one as it is after the update.
fn shown(before: &State, after: &State, volume: CsiVolume) -> CsiVolumeCreated {
    match (before.csi_volume_by_key(&volume.key()), after.csi_volume_by_key(&volume.key())) {
        (Some(_), Some(row)) => CsiVolumeCreated::Updated(CsiVolumeUpdated(after.denormalize(row))),
        (None, _) | (_, None) => CsiVolumeCreated::Made(CsiVolumeMade(volume)),
    }
}

pub(super) async fn delete<S: Writes + Nodes + Status>(call: Call<S>) -> Result<Response, ApiError> {
    let id = volume_id(&call)?;
    let namespace = call.write_namespace()?;
    require_write(&call, &namespace)?;
    let view = call.server.view();
    let key = CsiVolumeKey::new(&*namespace, &id);
    let Some(volume) = view.csi_volume_by_key(&key) else {
        return Err(ApiError::internal(format!("volume not found: {id}")));
    };
    // Without a controller no volume can be deleted. The reference answers as if the plugin were missing.
    let plugin = view.csi_plugin(&volume.plugin_id).filter(|plugin| plugin.controller_required);
    let Some(plugin) = plugin else {
        let (plugin, volume) = (quote(&volume.plugin_id), quote(&id));
        return Err(ApiError::internal(format!("plugin {plugin} for volume {volume} not found")));
    };
    // The storage must not delete what an allocation uses.
    if volume.in_use() {
        return Err(ApiError::internal(format!("volume in use: {id}")));
    }
    let request = ControllerDeleteVolume {
        external_volume_id: volume.remote_id(),
        secrets: volume.secrets.overlaid(&secrets(&call)),
        ..ControllerDeleteVolume::default()
    };
    let answer = ask(&call, &plugin.id, RateOp::Write, "controller delete volume", request).await;
    answer.map_err(ApiError::internal)?;
    let command = DeregisterCsiVolumes { namespace: key.namespace, ids: vec![key.id], force: false };
    Ok(written_with_meta(call.propose(command).await?.index))
}

/// One page of a storage provider's own list of volumes.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct External {
    volumes: Vec<CsiExternalVolume>,
    #[serde(flatten)]
    meta: QueryMeta,
}

pub(super) async fn list_external<S: Reads + Nodes + Status>(call: Call<S>) -> Result<Response, ApiError> {
    let page = Page::of(&call)?;
    let view = call.server.view();
    let plugin = call.query().text("plugin_id");
    let plugin = check(&view, &plugin, |can| can.supports_list_volumes, "unimplemented for this plugin")?;
    let request = ControllerListVolumes {
        max_entries: page.size,
        starting_token: page.token.clone(),
        ..ControllerListVolumes::default()
    };
    let answer = ask(&call, &plugin.id, RateOp::List, "controller list volumes", request).await;
    let answer = answer.map_err(ApiError::internal)?;
    let volumes = page.cut(answer.entries.unwrap_or_default());
    let meta = QueryMeta { next_token: answer.next_token.clone(), ..QueryMeta::default() };
    call.read(&Meta::page(0, next_page(&answer.next_token)), &External { volumes, meta })
}

/// The page of a list that the plugin pages itself.
pub(super) struct Page {
    /// Most entries; 0 is all.
    pub(super) size: i32,
    /// Token of the plugin's last answer.
    pub(super) token: Str,
}

impl Page {
    pub(super) fn of<S: Agent>(call: &Call<S>) -> Result<Self, ApiError> {
        let size = call.read_params()?.per_page.max(0);
        Ok(Self { size, token: call.query().text("next_token").as_ref().into() })
    }

    /// A plugin may answer with more than was asked for.
    pub(super) fn cut<T>(&self, mut entries: Vec<T>) -> Vec<T> {
        if let Some(most) = usize::try_from(self.size).ok().filter(|most| *most > 0) {
            entries.truncate(most);
        }
        entries
    }
}

/// Token for the header of a list.
pub(super) fn next_page(token: &Str) -> Option<String> {
    (!token.is_empty()).then(|| token.to_string())
}

/// Secrets in the request's header. Parts without a name or without `=` are left out.
pub(super) fn secrets<S>(call: &Call<S>) -> CsiSecrets {
    let text = call.headers.get(SECRETS).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let pairs = text.split(',').filter_map(|part| part.split_once('=')).filter(|(key, _)| !key.is_empty());
    CsiSecrets::new(pairs.map(|(key, value)| (key.into(), value.into())).collect())
}

/// The plugin. Refuses a missing one, and one without a healthy controller that has the capability.
pub(super) fn check<'a>(
    view: &'a State,
    id: &str,
    can: impl Fn(&CsiControllerInfo) -> bool,
    refusal: &'static str,
) -> Result<&'a CsiPlugin, ApiError> {
    match view.csi_plugin(id) {
        None => Err(ApiError::internal("no such plugin")),
        Some(plugin) if !plugin.has_controller_capability(can) => Err(ApiError::internal(refusal)),
        Some(plugin) => Ok(plugin),
    }
}
