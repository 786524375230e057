//! Growth of a registered volume: a request for a larger size has the storage expand it, and then the nodes that have
//! it mounted.

use songline_model::{CsiPlugin, CsiVolume, CsiVolumeCapability, CsiVolumeUpdateRefused};
use songline_rpc::message::{ControllerExpandVolume, CsiCapacityRange, NodeExpandVolume};
use songline_rpc::msgpack::{EncodeError, RawValue};

use super::provider;
use crate::http::call::Call;
use crate::http::rate::RateOp;
use crate::server::{Nodes, Status};

/// Refuses a request that may not update the volume, whatever the storage does about the size.
pub(super) fn check(stored: &CsiVolume, request: &CsiVolume) -> Result<(), CsiVolumeUpdateRefused> {
    let capacity = request.requested_capacity_min.max(request.capacity);
    stored.updated(&CsiVolume { capacity, ..request.clone() }).map(drop)
}

/// Has the storage expand the volume if the request asks for more than it has. The reached size goes into the request.
pub(super) async fn grow<S: Nodes + Status>(
    call: &Call<S>,
    plugin: &CsiPlugin,
    stored: &CsiVolume,
    request: &mut CsiVolume,
) -> Result<(), String> {
    if !stored.must_grow(request).map_err(|refused| refused.to_string())? {
        return Ok(());
    }
    if !plugin.has_controller_capability(|can| can.supports_expand) {
        return Err("expand is not implemented by this controller plugin".into());
    }
    let range = CsiCapacityRange {
        required_bytes: request.requested_capacity_min,
        limit_bytes: request.requested_capacity_max,
    };
    let failed = |error: EncodeError| error.to_string();
    let capacity = RawValue::of(&range).map_err(failed)?;
    let ask = ControllerExpandVolume {
        external_volume_id: stored.remote_id(),
        secrets: request.secrets.clone(),
        capacity_range: capacity.clone(),
        volume_capability: (!stored.access_mode.is_unknown()).then(|| CsiVolumeCapability {
            attachment_mode: stored.attachment_mode.clone(),
            access_mode: stored.access_mode.clone(),
        }),
        ..ControllerExpandVolume::default()
    };
    let answer = provider::ask(call, &plugin.id, RateOp::Write, "unable to expand volume", ask).await?;
    // A storage that answers without a size has reached the requested one.
    request.capacity = answer.capacity_bytes.max(request.requested_capacity_min);
    if answer.node_expansion_required {
        for (_, claim) in stored.holders() {
            let ask = NodeExpandVolume {
                plugin_id: plugin.id.0.clone(),
                volume_id: stored.id.0.clone(),
                external_id: stored.remote_id(),
                capacity: capacity.clone(),
                claim: RawValue::of(claim).map_err(failed)?,
            };
            let expanded = call.server.ask_csi_node(claim.node_id, ask).await;
            expanded.map_err(|error| format!("unable to expand volume: {error}"))?;
        }
    }
    Ok(())
}
