//! Controller operations of a plugin: creating and deleting volumes and snapshots, and listing what the storage has.
//! Controllers cannot be called yet, so each route answers either the refusal of the reference before such a call, or
//! that calls are not built.

use axum::response::Response;
use songline_model::CsiControllerInfo;
use songline_projections::State;
use songline_wire::csi::{CsiSnapshotCreateRequest, CsiSnapshotCreateResponse};

use super::{admit, requested, require_write, volume_id, write_namespace};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::namespace::multi_error;
use crate::http::params::quote;
use crate::http::rate::RateOp;
use crate::server::{Served, Server};

/// Stands in for the call of a CSI controller: counts it as a failed call of an anonymous caller, and answers that it
/// is not built.
fn call_controller<S: Server>(call: &Call<S>, op: RateOp) -> ApiError {
    let info = call.server.info();
    let identity = (info.rpc_rate_labels && info.acl.enabled).then(|| "token:anonymous".to_owned());
    call.server.count_served(Served { endpoint: "client_csi", op, identity });
    ApiError::not_built("calls of CSI controllers")
}

pub(super) async fn create<S: Server>(mut call: Call<S>) -> Result<Response, ApiError> {
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
    Err(call_controller(&call, RateOp::Write))
}

pub(super) async fn delete<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
    let id = volume_id(&call)?;
    let namespace = call.write_namespace()?;
    require_write(&call, &namespace)?;
    let view = call.server.view();
    let Some(volume) = view.csi_volume(&namespace, &id) else {
        return Err(ApiError::internal(format!("volume not found: {id}")));
    };
    // Without a controller no volume can be deleted. The reference answers as if the plugin were missing.
    if !view.csi_plugin(&volume.plugin_id).is_some_and(|plugin| plugin.controller_required) {
        return Err(ApiError::internal(format!(
            "plugin {} for volume {} not found",
            quote(&volume.plugin_id),
            quote(&id)
        )));
    }
    Err(call_controller(&call, RateOp::Write))
}

pub(super) async fn list_external<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
    call.read_params()?;
    check(
        &call.server.view(),
        &call.query().text("plugin_id"),
        |can| can.supports_list_volumes,
        "unimplemented for this plugin",
    )?;
    Err(call_controller(&call, RateOp::List))
}

pub(super) async fn list_snapshots<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
    call.read_params()?;
    let plugin = call.query().text("plugin_id");
    check(
        &call.server.view(),
        &plugin,
        |can| can.supports_list_snapshots,
        "plugin does not support listing snapshots",
    )?;
    Err(call_controller(&call, RateOp::List))
}

pub(super) async fn delete_snapshot<S: Server>(call: Call<S>) -> Result<Response, ApiError> {
    require_write(&call, &call.write_namespace()?)?;
    let plugin = call.query().text("plugin_id");
    check(&call.server.view(), &plugin, |can| can.supports_create_delete_snapshot, "plugin does not support snapshot")
        .map_err(|error| ApiError::internal(multi_error(&[error.text.into_owned()])))?;
    Err(call_controller(&call, RateOp::Write))
}

pub(super) async fn create_snapshots<S: Server>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: CsiSnapshotCreateRequest = call.json().await?;
    let namespace = write_namespace(&call, &request.namespace)?;
    require_write(&call, &namespace)?;
    let view = call.server.view();
    let mut errors = Vec::new();
    for snapshot in &request.snapshots {
        let Some(volume) = view.csi_volume(&namespace, &snapshot.source_volume_id) else {
            errors.push(format!("no such volume {}", quote(&snapshot.source_volume_id)));
            continue;
        };
        let id = if snapshot.plugin_id.is_empty() { &*volume.plugin_id } else { snapshot.plugin_id.as_str() };
        match view.csi_plugin(id) {
            None => errors.push(format!("no such plugin {}", quote(id))),
            Some(plugin) if !plugin.has_controller_capability(|can| can.supports_create_delete_snapshot) => {
                errors.push(format!("plugin {} does not support snapshot", quote(id)));
            }
            Some(_) => {}
        }
    }
    if !errors.is_empty() {
        return Err(ApiError::internal(multi_error(&errors)));
    }
    if request.snapshots.is_empty() {
        return call.written(0, &CsiSnapshotCreateResponse::default());
    }
    Err(call_controller(&call, RateOp::Write))
}

/// Refuses a missing plugin, and one without a healthy controller that has the capability.
fn check(
    view: &State,
    id: &str,
    can: impl Fn(&CsiControllerInfo) -> bool,
    refusal: &'static str,
) -> Result<(), ApiError> {
    match view.csi_plugin(id) {
        None => Err(ApiError::internal("no such plugin")),
        Some(plugin) if !plugin.has_controller_capability(can) => Err(ApiError::internal(refusal)),
        Some(_) => Ok(()),
    }
}
