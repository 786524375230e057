//! The release of a claim in steps: the node unmounts the volume, the controller detaches it from the node, the claim
//! is freed. Each step is derived from the tables alone, so an interrupted release continues anywhere, and a repeated
//! step is harmless: plugins answer it with success.

use std::sync::Arc;

use songline_commands::ClaimCsiVolume;
use songline_model::{
    AllocId, CsiClaimState, CsiPluginId, CsiVolume, CsiVolumeClaim, CsiVolumeKey, NodeId, NodeStatus, Str,
};
use songline_projections::State;

use super::{NoExternalNode, attaches, external_node};

/// Next step of a release.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing is left to do: the claim is freed, or the volume is gone.
    Done,
    /// Have the node unmount the volume, then record `NodeDetached`.
    DetachNode(Detach),
    /// Have a controller detach the volume from the node `external_node`, then record `ReadyToFree`.
    DetachController(Detach, Str),
    /// Record the state: nothing has to be called for it.
    Record(CsiVolumeClaim, CsiClaimState),
}

/// The data for a call to a plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct Detach {
    /// The volume, with all past claims.
    pub volume: Arc<CsiVolume>,
    /// The claim that is being released.
    pub claim: CsiVolumeClaim,
}

/// Reason why a release cannot go on now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// The volume's plugin is gone, so it is unknown whether a controller has to detach the volume.
    #[error("no such plugin: {0:?}")]
    NoPlugin(CsiPluginId),
    /// The storage's name of the node is unknown.
    #[error(transparent)]
    NoExternalNode(#[from] NoExternalNode),
}

/// The first record of a release that a node or an operator requests. `None`: the alloc holds no claim. A node that
/// sends no access mode has unmounted the volume already.
pub fn begin(view: &State, key: &CsiVolumeKey, request: &CsiVolumeClaim) -> Option<ClaimCsiVolume> {
    let seen = view.denormalize(view.csi_volume_by_key(key)?).volume;
    let alloc = request.allocation_id;
    let past = seen.past_claims.get(&alloc);
    if past.is_none() && !seen.holders().any(|(id, _)| *id == alloc) {
        return None;
    }
    let asked = match request.state {
        CsiClaimState::Taken | CsiClaimState::Unpublishing if request.access_mode.is_unknown() => {
            CsiClaimState::NodeDetached
        }
        CsiClaimState::Taken => CsiClaimState::Unpublishing,
        state => state,
    };
    // A late or repeated request must not undo a step.
    let state = past.map(|past| past.state).filter(|done| rank(*done) > rank(asked)).unwrap_or(asked);
    Some(ClaimCsiVolume { volume: key.clone(), claim: CsiVolumeClaim { state, ..request.clone() } })
}

/// The claims of a node on a volume that an operator detaches from it.
pub fn of_node(view: &State, key: &CsiVolumeKey, node: NodeId) -> Vec<CsiVolumeClaim> {
    let Some(volume) = view.csi_volume_by_key(key) else { return Vec::new() };
    let seen = view.denormalize(volume).volume;
    seen.holders().map(|(_, claim)| claim).filter(|claim| claim.node_id == node).cloned().collect()
}

/// The next step of the release of an alloc's claim.
pub fn next(view: &State, key: &CsiVolumeKey, alloc: AllocId) -> Result<Step, ReleaseError> {
    let Some(volume) = view.csi_volume_by_key(key) else { return Ok(Step::Done) };
    let volume = Arc::new(view.denormalize(volume).volume);
    let Some(claim) = volume.past_claims.get(&alloc).cloned() else { return Ok(Step::Done) };
    match claim.state {
        CsiClaimState::Taken | CsiClaimState::Unpublishing => Ok(from_node(view, volume, claim)),
        CsiClaimState::NodeDetached => from_controller(view, volume, claim),
        CsiClaimState::ControllerDetached | CsiClaimState::ReadyToFree => {
            Ok(Step::Record(claim, CsiClaimState::ReadyToFree))
        }
    }
}

/// The record of a finished step.
pub fn reached(key: &CsiVolumeKey, claim: CsiVolumeClaim, state: CsiClaimState) -> ClaimCsiVolume {
    ClaimCsiVolume { volume: key.clone(), claim: CsiVolumeClaim { state, ..claim } }
}

/// A node that is gone or down cannot be asked: its mounts count as gone.
fn from_node(view: &State, volume: Arc<CsiVolume>, claim: CsiVolumeClaim) -> Step {
    if view.node(claim.node_id).is_none_or(|node| node.status == NodeStatus::Down) {
        return Step::Record(claim, CsiClaimState::NodeDetached);
    }
    Step::DetachNode(Detach { volume, claim })
}

fn from_controller(view: &State, volume: Arc<CsiVolume>, claim: CsiVolumeClaim) -> Result<Step, ReleaseError> {
    if view.csi_plugin(&volume.plugin_id).is_none() {
        return Err(ReleaseError::NoPlugin(volume.plugin_id.clone()));
    }
    if !attaches(view, &volume.plugin_id) || is_used_beside(&volume, &claim) {
        return Ok(Step::Record(claim, CsiClaimState::ReadyToFree));
    }
    let external = match claim.external_node_id.is_empty() {
        true => external_node(view, &volume, claim.node_id)?,
        false => claim.external_node_id.clone(),
    };
    Ok(Step::DetachController(Detach { volume, claim }, external))
}

/// Whether another alloc on the claim's node may still have the volume mounted. The last one to unmount it has the
/// controller detach it.
fn is_used_beside(volume: &CsiVolume, claim: &CsiVolumeClaim) -> bool {
    let unmounted = |alloc: &AllocId| {
        volume.past_claims.get(alloc).is_some_and(|past| rank(past.state) >= rank(CsiClaimState::NodeDetached))
    };
    let mut others = volume.holders().filter(|(alloc, _)| **alloc != claim.allocation_id);
    others.any(|(alloc, held)| held.node_id == claim.node_id && !unmounted(alloc))
}

/// Order of the states.
fn rank(state: CsiClaimState) -> u8 {
    match state {
        CsiClaimState::Taken => 0,
        CsiClaimState::Unpublishing => 1,
        CsiClaimState::NodeDetached => 2,
        CsiClaimState::ControllerDetached => 3,
        CsiClaimState::ReadyToFree => 4,
    }
}
