//! Takes claims on volumes for nodes, and has controllers attach the volumes.

use std::collections::BTreeMap;

use songline_commands::{Actor, ClaimCsiVolume};
use songline_model::{CsiClaimError, CsiClaimMode, CsiClaimState, CsiVolume, CsiVolumeClaim, CsiVolumeKey, Str};
use songline_rpc::message::{ControllerAttachVolume, CsiVolumeClaimAnswer, csi_volume};
use songline_rpc::{CSI_RETRYABLE, RpcError};
use songline_scheduler::csi;

use super::super::Core;

/// Context that a node needs to mount a volume.
type PublishContext = Option<BTreeMap<Str, Str>>;

impl Core {
    /// Takes a claim, or records a step of its release. A taken claim stays when the controller fails to attach the
    /// volume: the node asks again, or gives the claim up.
    pub(crate) async fn claim(
        &self,
        actor: &Actor,
        key: &CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<CsiVolumeClaimAnswer, RpcError> {
        let term = self.term().ok_or(RpcError::NoLeader)?;
        let is_new = claim.state == CsiClaimState::Taken && claim.mode != CsiClaimMode::Gc;
        let _alone = self.csi.claims.lock((key.clone(), claim.allocation_id)).await;
        let claim = if is_new { self.completed(key, claim)? } else { claim };
        let command = ClaimCsiVolume { volume: key.clone(), claim: claim.clone() };
        let index = self.propose_under(&term, actor.clone(), None, command).await?;
        let view = self.view();
        let volume =
            view.csi_volume_by_key(key).ok_or_else(|| RpcError::remote(format!("volume not found: {}", key.id)))?;
        let publish_context = match is_new {
            true => {
                let refused = |error| RpcError::remote(format!("controller publish: {error}"));
                self.attach(volume, &claim).await.map_err(refused)?
            }
            false => None,
        };
        let health = view.denormalize(volume).health;
        let volume = csi_volume(volume, &health).map_err(|error| RpcError::remote(error.to_string()))?;
        Ok(CsiVolumeClaimAnswer { volume, publish_context, index, known_leader: true, ..Default::default() })
    }

    /// A new claim with its node, and the node's id in the storage, by which the volume can be detached when the node
    /// is gone.
    fn completed(&self, key: &CsiVolumeKey, mut claim: CsiVolumeClaim) -> Result<CsiVolumeClaim, RpcError> {
        let view = self.view();
        if claim.node_id.is_nil() {
            let unknown = || RpcError::remote(format!("Unknown allocation: {}", claim.allocation_id));
            claim.node_id = view.alloc(claim.allocation_id).and_then(|alloc| alloc.node_id).ok_or_else(unknown)?;
        }
        let Some(volume) = view.csi_volume_by_key(key) else {
            return Err(RpcError::remote(format!("volume not found: {}", key.id)));
        };
        // The release of the same claim has begun: a volume that is being detached must not count as mounted.
        if volume.past_claims.contains_key(&claim.allocation_id) {
            return Err(RpcError::remote(CsiClaimError::MaxClaims.to_string()));
        }
        if claim.external_node_id.is_empty() {
            claim.external_node_id = csi::external_node(&view, volume, claim.node_id).unwrap_or_default();
        }
        Ok(claim)
    }

    async fn attach(&self, volume: &CsiVolume, claim: &CsiVolumeClaim) -> Result<PublishContext, RpcError> {
        let view = self.view();
        if view.csi_plugin(&volume.plugin_id).is_none() {
            return Err(RpcError::remote(format!("no such plugin: {:?}", volume.plugin_id.as_str())));
        }
        if !csi::attaches(&view, &volume.plugin_id) {
            return Ok(None);
        }
        let external_node = csi::external_node(&view, volume, claim.node_id);
        let request = ControllerAttachVolume {
            volume_id: volume.remote_id(),
            client_csi_node_id: external_node.map_err(|error| RpcError::remote(error.to_string()))?,
            attachment_mode: claim.attachment_mode.as_str().into(),
            access_mode: claim.access_mode.as_str().into(),
            mount_options: Some(volume.mount_options.as_ref().map(Into::into).unwrap_or_default()),
            read_only: claim.mode == CsiClaimMode::Read,
            secrets: volume.secrets.clone(),
            volume_context: Some(volume.context.clone().unwrap_or_default()),
            ..ControllerAttachVolume::default()
        };
        match self.ask_controller(&volume.plugin_id, request).await {
            Ok(answer) => Ok(answer.publish_context),
            // The volume may still be attached elsewhere, so the node has to ask again.
            Err(RpcError::Remote(text)) if text.contains("FailedPrecondition") => {
                Err(RpcError::remote(format!("{CSI_RETRYABLE}: {text}")))
            }
            Err(error) => Err(error),
        }
    }
}
