//! Snapshots of volumes. The storage has them; the tables do not.

use axum::response::Response;
use songline_projections::State;
use songline_rpc::message::{
    ControllerCreateSnapshot, ControllerCreateSnapshotAnswer, ControllerDeleteSnapshot, ControllerListSnapshots,
};
use songline_wire::csi::{CsiSnapshotCreateRequest, CsiSnapshotRequest, CsiSnapshotView, CsiSnapshotsResponse};
use songline_wire::responses::QueryMeta;

use super::provider::{Page, ask, check, next_page, secrets};
use super::require_write;
use crate::error::ApiError;
use crate::http::call::{Call, Meta, empty_written};
use crate::http::namespace::multi_error;
use crate::http::params::quote;
use crate::http::rate::RateOp;
use crate::server::{Nodes, Reads, Status};

pub(super) async fn create<S: Reads + Nodes + Status>(mut call: Call<S>) -> Result<Response, ApiError> {
    let request: CsiSnapshotCreateRequest = call.json().await?;
    let namespace = call.write_namespace_or(&request.namespace)?;
    require_write(&call, &namespace)?;
    let view = call.server.view();
    let (mut made, mut errors) = (Vec::new(), Vec::new());
    for snapshot in request.snapshots {
        let snapshot = snapshot.ok_or_else(|| ApiError::internal("snapshot cannot be nil"))?;
        match create_one(&call, &view, &namespace, snapshot).await {
            Ok(snapshot) => made.push(snapshot),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(ApiError::internal(multi_error(&errors)));
    }
    let snapshots = (!made.is_empty()).then_some(made);
    call.written(0, &CsiSnapshotsResponse { snapshots, meta: QueryMeta::default() })
}

async fn create_one<S: Nodes + Status>(
    call: &Call<S>,
    view: &State,
    namespace: &str,
    snapshot: CsiSnapshotRequest,
) -> Result<CsiSnapshotView, String> {
    let volume = view.csi_volume(namespace, &snapshot.source_volume_id);
    let volume = volume.ok_or_else(|| format!("no such volume {}", quote(&snapshot.source_volume_id)))?;
    let id = if snapshot.plugin_id.is_empty() { &*volume.plugin_id } else { snapshot.plugin_id.as_str() };
    let plugin = view.csi_plugin(id).ok_or_else(|| format!("no such plugin {}", quote(id)))?;
    if !plugin.has_controller_capability(|can| can.supports_create_delete_snapshot) {
        return Err(format!("plugin {} does not support snapshot", quote(id)));
    }
    let request = ControllerCreateSnapshot {
        external_source_volume_id: volume.remote_id(),
        name: snapshot.name,
        secrets: volume.secrets.overlaid(&snapshot.secrets),
        parameters: snapshot.parameters,
        ..ControllerCreateSnapshot::default()
    };
    let what = "could not create snapshot: controller create snapshot";
    ask(call, id, RateOp::Write, what, request).await.map(shown)
}

pub(super) async fn delete<S: Reads + Nodes + Status>(call: Call<S>) -> Result<Response, ApiError> {
    require_write(&call, &call.write_namespace()?)?;
    let view = call.server.view();
    let (plugin, id) = (call.query().text("plugin_id"), call.query().text("snapshot_id"));
    let can = check(&view, &plugin, |can| can.supports_create_delete_snapshot, "plugin does not support snapshot");
    let refused = |error: String| ApiError::internal(multi_error(&[error]));
    let plugin = can.map_err(|error| refused(error.text.into_owned()))?;
    let request = ControllerDeleteSnapshot {
        id: id.as_ref().into(),
        secrets: secrets(&call),
        ..ControllerDeleteSnapshot::default()
    };
    let what = format!("could not delete {}: controller delete snapshot", quote(&id));
    ask(&call, &plugin.id, RateOp::Write, &what, request).await.map_err(refused)?;
    Ok(empty_written(0))
}

pub(super) async fn list<S: Reads + Nodes + Status>(call: Call<S>) -> Result<Response, ApiError> {
    let page = Page::of(&call)?;
    let view = call.server.view();
    let plugin = call.query().text("plugin_id");
    let refusal = "plugin does not support listing snapshots";
    let plugin = check(&view, &plugin, |can| can.supports_list_snapshots, refusal)?;
    let request = ControllerListSnapshots {
        max_entries: page.size,
        starting_token: page.token.clone(),
        secrets: secrets(&call),
        ..ControllerListSnapshots::default()
    };
    let answer = ask(&call, &plugin.id, RateOp::List, "controller list snapshots", request).await;
    let answer = answer.map_err(ApiError::internal)?;
    let snapshots = page.cut(answer.entries.unwrap_or_default()).into_iter();
    let snapshots = snapshots.map(|entry| CsiSnapshotView { plugin_id: plugin.id.0.clone(), ..shown(entry) }).collect();
    let meta = QueryMeta { next_token: answer.next_token.clone(), ..QueryMeta::default() };
    let response = CsiSnapshotsResponse { snapshots: Some(snapshots), meta };
    call.read(&Meta::page(0, next_page(&answer.next_token)), &response)
}

fn shown(snapshot: ControllerCreateSnapshotAnswer) -> CsiSnapshotView {
    CsiSnapshotView {
        id: snapshot.id,
        external_source_volume_id: snapshot.external_source_volume_id,
        size_bytes: snapshot.size_bytes,
        create_time: snapshot.create_time,
        is_ready: snapshot.is_ready,
        ..CsiSnapshotView::default()
    }
}
