//! CSI volumes: list, read, register, deregister, detach. Plugins are in `plugins`, operations of a plugin's
//! controller in `provider` and `snapshots`.

mod growth;
mod plugins;
mod provider;
mod snapshots;

use std::sync::Arc;

use axum::http::{HeaderValue, Method};
use axum::response::Response;
use songline_commands::{DeregisterCsiVolumes, RegisterCsiVolumes};
use songline_events::watch::WatchKey;
use songline_lang::go_json::Names;
use songline_model::{CsiPlugin, CsiVolume, CsiVolumeKey, NodeId, Str};
use songline_projections::{State, Table};
use songline_wire::csi::{CsiVolumeRegisterRequest, CsiVolumeStub, CsiVolumeView};

use crate::error::ApiError;
use crate::http::blocking::{self, At};
use crate::http::call::{Call, Meta, empty, empty_written};
use crate::http::capability::Capability;
use crate::http::gate::any_of;
use crate::http::mux::{Methods, Mux};
use crate::http::paging::{self, Token};
use crate::http::params::{ReadParams, parse_bool};
use crate::server::{Agent, Nodes, Reads, Status, Writes};
use songline_lang::acl::{Access, NamespaceCapability};

/// Capabilities each of which permits to list volumes.
const LIST: &[NamespaceCapability] = &[
    NamespaceCapability::CsiListVolume,
    NamespaceCapability::CsiReadVolume,
    NamespaceCapability::CsiMountVolume,
    NamespaceCapability::ListJobs,
];
/// Capabilities each of which permits to read a volume.
const READ: &[NamespaceCapability] =
    &[NamespaceCapability::CsiReadVolume, NamespaceCapability::CsiMountVolume, NamespaceCapability::ReadJob];

pub(super) fn routes<S: Writes + Nodes + Status>(mux: &mut Mux<S>) {
    let (list, read) = (Capability::Namespace(LIST), Capability::OrNode(&Capability::Namespace(READ)));
    let (write, mount) = (
        Capability::Object(&[NamespaceCapability::CsiWriteVolume]),
        Capability::OrNode(&Capability::Object(&[NamespaceCapability::CsiMountVolume])),
    );
    // The list of another type than `csi` is for every caller, so the handler checks the rights.
    mux.add(Methods::Get, "/v1/volumes", "", Capability::Anyone, |call| Box::pin(self::list(call)));
    mux.add(Methods::Write, "/v1/volumes", "", write, |call| Box::pin(register(call)));
    mux.add(Methods::Get, "/v1/volumes/external", "", list, |call| Box::pin(provider::list_external(call)));
    mux.add(Methods::Get, "/v1/volumes/snapshot", "", list, |call| Box::pin(snapshots::list(call)));
    mux.add(Methods::Write, "/v1/volumes/snapshot", "", write, |call| Box::pin(snapshots::create(call)));
    mux.add(Methods::Delete, "/v1/volumes/snapshot", "", write, |call| Box::pin(snapshots::delete(call)));
    mux.add(Methods::Put, "/v1/volume/csi/", "{}/create", write, |call| Box::pin(provider::create(call)));
    mux.add(Methods::Delete, "/v1/volume/csi/", "{}/delete", write, |call| Box::pin(provider::delete(call)));
    mux.add(Methods::Delete, "/v1/volume/csi/", "{}/detach", mount, |call| Box::pin(detach(call)));
    for tail in ["{}/create", "{}/delete", "{}/detach"] {
        mux.add(Methods::Any, "/v1/volume/csi/", tail, Capability::Anyone, |call| Box::pin(unknown_verb(call)));
    }
    mux.add(Methods::Get, "/v1/volume/csi/", "{}", read, |call| Box::pin(self::read(call)));
    mux.add(Methods::Put, "/v1/volume/csi/", "{}", write, |call| Box::pin(register(call)));
    mux.add(Methods::Delete, "/v1/volume/csi/", "{}", write, |call| Box::pin(deregister(call)));
    plugins::routes(mux);
}

async fn list<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    if let Some(response) = other_type(&call)? {
        return Ok(response);
    }
    let params = call.read_params()?;
    let (plugin, node) = (call.query().text("plugin_id").into_owned(), call.query().text("node_id").into_owned());
    let found = blocking::run(&call, &params, &[WatchKey::Table(Table::CsiVolumes)], |view| {
        // A waiting query is refused when its caller has lost the right.
        call.require_in(&params.namespace, LIST)?;
        let caller = call.caller()?;
        let shown = |row: &Arc<CsiVolume>| any_of(caller.acl(), &row.namespace, LIST);
        let rows = selected(view, &params, &plugin, &node)
            .into_iter()
            .filter(shown)
            .map(|row| Arc::new(CsiVolumeView(view.denormalize(&row))));
        let token =
            |seen: &CsiVolumeView| Token::Spaced(seen.0.volume.namespace.to_string(), seen.0.volume.id.to_string());
        let page = paging::page(&params, rows, token, |_| true)?;
        Ok(At { index: view.table_index(Table::CsiVolumes), value: page })
    })
    .await?;
    let stubs: Vec<_> = found.value.rows.iter().map(|seen| CsiVolumeStub::new(seen)).collect();
    call.read(&Meta::page(found.index, found.value.next_token.clone()), &stubs)
}

/// Answer to a list of another type than `csi`: an empty list when no type is given, an empty body for another type.
/// Neither the token nor the other parameters matter to it. `None`: the type is `csi`.
fn other_type<S>(call: &Call<S>) -> Result<Option<Response>, ApiError> {
    Ok(match call.query().get("type").as_deref() {
        Some("csi") => None,
        Some(_) => Some(empty()),
        None => Some(call.plain::<[(); 0]>(&[])?),
    })
}

/// Rows of a list, ordered by namespace and id. An empty `plugin` or `node` matches all.
fn selected(view: &State, params: &ReadParams, plugin: &str, node: &str) -> Vec<Arc<CsiVolume>> {
    let rows: Vec<Arc<CsiVolume>> = if !node.is_empty() {
        // A text that is no id matches no node.
        node.parse::<NodeId>().map(|node| view.csi_volumes_of_node(node)).unwrap_or_default()
    } else if !plugin.is_empty() {
        view.csi_volumes_of_plugin(plugin).cloned().collect()
    } else if params.all_namespaces() {
        view.csi_volumes().cloned().collect()
    } else {
        view.csi_volumes_in(&params.namespace).cloned().collect()
    };
    let wanted = |row: &Arc<CsiVolume>| {
        params.in_namespace(&row.namespace)
            && row.id.starts_with(&params.prefix)
            && (plugin.is_empty() || row.plugin_id == *plugin)
    };
    rows.into_iter().filter(wanted).collect()
}

async fn read<S: Reads>(call: Call<S>) -> Result<Response, ApiError> {
    let id = volume_id(&call)?;
    let params = call.read_params()?;
    if id.is_empty() {
        return Err(ApiError::internal("missing volume ID"));
    }
    let key = CsiVolumeKey::new(&params.namespace, &id);
    let found = blocking::run(&call, &params, &[WatchKey::CsiVolume(key.clone())], |view| {
        let seen = view.csi_volume_by_key(&key).map(|row| CsiVolumeView(view.denormalize(row)));
        Ok(At { index: view.table_index(Table::CsiVolumes), value: seen })
    })
    .await?;
    match found.value {
        Some(seen) => call.read(&Meta::at(found.index), &seen),
        None => Err(ApiError::missing("volume not found", found.index)),
    }
}

async fn register<S: Writes + Nodes + Status>(mut call: Call<S>) -> Result<Response, ApiError> {
    if !call.id.is_empty() {
        volume_id(&call)?;
    }
    let mut volumes = requested(&mut call, "structs.CSIVolumeRegisterRequest").await?;
    let view = call.view();
    for volume in &mut volumes {
        let plugin = admit(&view, volume)?;
        let stored = view.csi_volume_by_key(&volume.key());
        if let Some(stored) = stored {
            growth::check(stored, volume).map_err(|refused| ApiError::internal(refused.to_string()))?;
        }
        if plugin.controller_required {
            provider::validate(&call, stored.map(|stored| &**stored), volume).await?;
        }
        if let Some(stored) = stored {
            growth::grow(&call, plugin, stored, volume).await.map_err(ApiError::internal)?;
        }
    }
    let written = call.propose(RegisterCsiVolumes { volumes }).await?;
    Ok(written_with_meta(written.index))
}

/// The volumes in a request's body, with their namespaces.
async fn requested<S: Agent>(call: &mut Call<S>, name: &'static str) -> Result<Vec<CsiVolume>, ApiError> {
    let request: CsiVolumeRegisterRequest = call.json_named(Names { root: Some(name), ..Names::default() }).await?;
    let namespace = call.write_namespace_or(&request.namespace)?;
    if request.volumes.is_empty() {
        return Err(ApiError::internal("missing volume definition"));
    }
    let volumes: Vec<CsiVolume> = request.volumes.into_iter().map(|volume| volume.into_volume(&namespace)).collect();
    // Each volume is checked in its own namespace, not in that of the request.
    volumes.iter().try_for_each(|volume| require_write(call, &volume.namespace))?;
    Ok(volumes)
}

/// Refuses a caller that may not write volumes in a namespace, or not read plugins.
fn require_write<S>(call: &Call<S>, namespace: &str) -> Result<(), ApiError> {
    call.require_in(namespace, &[NamespaceCapability::CsiWriteVolume])?;
    call.require(|acl| acl.plugin(Access::Read))
}

/// Refuses an incomplete volume, or one whose plugin cannot serve it. Returns the plugin.
fn admit<'a>(view: &'a State, volume: &CsiVolume) -> Result<&'a CsiPlugin, ApiError> {
    volume.validate().map_err(|invalid| ApiError::internal(invalid.to_string()))?;
    let Some(plugin) = view.csi_plugin(&volume.plugin_id) else {
        return Err(ApiError::internal(format!("no CSI plugin named: {} could be found", volume.plugin_id)));
    };
    if plugin.controller_required && plugin.controllers_healthy < 1 {
        return Err(ApiError::internal(format!("no healthy controllers for CSI plugin: {}", plugin.id)));
    }
    Ok(plugin)
}

async fn deregister<S: Writes>(call: Call<S>) -> Result<Response, ApiError> {
    let id = volume_id(&call)?;
    let force = match &*call.query().text("force") {
        "" => false,
        text => parse_bool(text).ok_or_else(|| ApiError::bad_request("invalid force value"))?,
    };
    let namespace = call.write_namespace()?;
    call.require_in(&namespace, &[NamespaceCapability::CsiWriteVolume])?;
    let command = DeregisterCsiVolumes { namespace: namespace.into(), ids: vec![id.into()], force };
    let written = call.propose(command).await?;
    Ok(written_with_meta(written.index))
}

/// Releases all claims of a node on the volume.
async fn detach<S: Reads + Nodes>(call: Call<S>) -> Result<Response, ApiError> {
    let id = volume_id(&call)?;
    let node = call.query().text("node").into_owned();
    if node.is_empty() {
        return Err(ApiError::bad_request("detach requires node ID"));
    }
    let namespace = call.write_namespace()?;
    let caller = call.caller()?;
    if !caller.is_node() {
        call.require_in(&namespace, &[NamespaceCapability::CsiMountVolume])?;
        call.require(|acl| acl.plugin(Access::Read))?;
    }
    let key = CsiVolumeKey::new(namespace, &id);
    if call.view().csi_volume_by_key(&key).is_none() {
        return Err(ApiError::internal("no such volume"));
    }
    // A text that is no id names no node, so nothing is claimed from it.
    let node: NodeId = node.to_lowercase().parse().unwrap_or_default();
    let index = call.server.detach_csi_volume(caller.actor(), &key, node).await?;
    Ok(written_with_meta(index))
}

/// Answers a path that ends in a verb with a method that the verb does not have.
async fn unknown_verb<S>(call: Call<S>) -> Result<Response, ApiError> {
    volume_id(&call)?;
    match call.method {
        Method::PUT | Method::DELETE => Err(not_a_resource()),
        _ => Err(ApiError::method()),
    }
}

/// The id in the path, which must not contain a slash.
fn volume_id<S>(call: &Call<S>) -> Result<Str, ApiError> {
    if call.id().contains('/') {
        return Err(not_a_resource());
    }
    Ok(Str::new(call.id()))
}

fn not_a_resource() -> ApiError {
    ApiError::not_found("resource not found")
}

/// An empty response to a write that carries empty headers of a read: clients rely on them.
fn written_with_meta(index: u64) -> Response {
    let mut response = empty_written(index);
    let headers = response.headers_mut();
    headers.insert("x-nomad-knownleader", HeaderValue::from_static("false"));
    headers.insert("x-nomad-lastcontact", HeaderValue::from_static("0"));
    response
}
