//! Carries out the release of claims: calls nodes and controllers, and records every step.

use songline_commands::Actor;
use songline_model::{AllocId, CsiClaimMode, CsiClaimState, CsiVolumeClaim, CsiVolumeKey, NodeId, Str};
use songline_rpc::RpcError;
use songline_rpc::message::{ControllerDetachVolume, NodeDetachVolume};
use songline_scheduler::csi::{self, Detach, Step};

use super::super::Core;
use super::super::leadership::LeadershipTerm;

impl Core {
    /// Releases the claim of an alloc, as its node asks. Returns the index of the last entry; 0 without one.
    pub(crate) async fn unpublish(
        &self,
        actor: &Actor,
        key: &CsiVolumeKey,
        claim: &CsiVolumeClaim,
    ) -> Result<u64, RpcError> {
        let term = self.term().ok_or(RpcError::NoLeader)?;
        let _alone = self.csi.claims.lock((key.clone(), claim.allocation_id)).await;
        let Some(first) = csi::begin(&self.view(), key, claim) else { return Ok(0) };
        let begun = self.propose_under(&term, actor.clone(), None, first).await?;
        Ok(self.release_steps(&term, actor, key, claim.allocation_id).await?.max(begun))
    }

    /// Releases all claims of a node on a volume, for an operator. Refused when there is none.
    pub(crate) async fn detach(&self, actor: &Actor, key: &CsiVolumeKey, node: NodeId) -> Result<u64, RpcError> {
        let claims = csi::of_node(&self.view(), key, node);
        if claims.is_empty() {
            return Err(RpcError::remote("Unknown allocation"));
        }
        let (mut index, mut errors) = (0, Vec::new());
        for claim in claims {
            let claim = CsiVolumeClaim { state: CsiClaimState::Unpublishing, ..claim };
            match self.unpublish(actor, key, &claim).await {
                Ok(written) => index = index.max(written),
                Err(error) => errors.push(error.to_string()),
            }
        }
        if errors.is_empty() { Ok(index) } else { Err(RpcError::remote(errors.join("; "))) }
    }

    /// Continues the release of a past claim, for the volume watcher.
    pub(super) async fn release(
        &self,
        term: &LeadershipTerm,
        key: &CsiVolumeKey,
        alloc: AllocId,
    ) -> Result<u64, RpcError> {
        let _alone = self.csi.claims.lock((key.clone(), alloc)).await;
        self.release_steps(term, &Actor::Leader("volumes".into()), key, alloc).await
    }

    async fn release_steps(
        &self,
        term: &LeadershipTerm,
        actor: &Actor,
        key: &CsiVolumeKey,
        alloc: AllocId,
    ) -> Result<u64, RpcError> {
        let mut index = 0;
        loop {
            let step = csi::next(&self.view(), key, alloc).map_err(|error| RpcError::remote(error.to_string()))?;
            let (claim, state) = match step {
                Step::Done => return Ok(index),
                Step::DetachNode(detach) => {
                    self.detach_from_node(&detach).await?;
                    (detach.claim, CsiClaimState::NodeDetached)
                }
                Step::DetachController(detach, external_node) => {
                    self.detach_from_controller(&detach, external_node).await?;
                    (detach.claim, CsiClaimState::ReadyToFree)
                }
                Step::Record(claim, state) => (claim, state),
            };
            index = self.propose_under(term, actor.clone(), None, csi::reached(key, claim, state)).await?;
        }
    }

    async fn detach_from_node(&self, Detach { volume, claim }: &Detach) -> Result<(), RpcError> {
        let request = NodeDetachVolume {
            plugin_id: volume.plugin_id.0.clone(),
            volume_id: volume.id.0.clone(),
            volume_namespace: volume.namespace.0.clone(),
            alloc_id: claim.allocation_id,
            node_id: claim.node_id,
            external_id: volume.remote_id(),
            attachment_mode: claim.attachment_mode.as_str().into(),
            access_mode: claim.access_mode.as_str().into(),
            read_only: claim.mode == CsiClaimMode::Read,
        };
        match self.call_plugin(claim.node_id, &request).await {
            Ok(_) => Ok(()),
            Err(error) if is_done(&error) || error.to_string().contains("Unknown node") => Ok(()),
            Err(error) => Err(RpcError::remote(format!("could not detach from node: {error}"))),
        }
    }

    async fn detach_from_controller(&self, Detach { volume, .. }: &Detach, external_node: Str) -> Result<(), RpcError> {
        let request = ControllerDetachVolume {
            volume_id: volume.remote_id(),
            client_csi_node_id: external_node,
            secrets: volume.secrets.clone(),
            ..ControllerDetachVolume::default()
        };
        match self.ask_controller(&volume.plugin_id, request).await {
            Ok(_) => Ok(()),
            Err(error) if is_done(&error) => Ok(()),
            Err(error) => Err(RpcError::remote(format!("could not detach from controller: {error}"))),
        }
    }
}

/// Whether the plugin says that there was nothing to do.
fn is_done(error: &RpcError) -> bool {
    error.to_string().contains("CSI client error (ignorable)")
}
