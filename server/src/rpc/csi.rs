//! Claims on CSI volumes, as nodes take and release them.

use bytes::Bytes;
use songline_api::caller::Identity;
use songline_commands::Actor;
use songline_lang::acl::{Access, NamespaceCapability};
use songline_model::{AllocId, CsiVolumeClaim, CsiVolumeKey, NodeId};
use songline_rpc::RpcError;
use songline_rpc::message::{CsiVolumeClaimRequest, CsiVolumeUnpublish, CsiVolumeUnpublishAnswer, RequestMeta};
use songline_rpc::net::Refusal;

use super::dispatch::NodeRpc;
use super::more::namespace;
use super::reads::encode;
use crate::csi::may_claim;

impl NodeRpc {
    /// Takes a claim.
    pub(super) async fn claim(&self, ask: CsiVolumeClaimRequest, meta: &RequestMeta) -> Result<Bytes, Refusal> {
        let actor = self.may_claim(meta, ask.allocation_id, ask.node_id)?;
        if ask.volume_id.is_empty() {
            return Err(RpcError::remote("missing volume ID").into());
        }
        let claim = CsiVolumeClaim {
            allocation_id: ask.allocation_id,
            node_id: ask.node_id,
            external_node_id: ask.external_node_id,
            mode: ask.claim,
            access_mode: ask.access_mode,
            attachment_mode: ask.attachment_mode,
            state: ask.state,
        };
        let key = CsiVolumeKey::new(namespace(meta), ask.volume_id);
        encode(&self.core.claim(&actor, &key, claim).await?)
    }

    /// Releases a claim, or all that a node has on the volume.
    pub(super) async fn unpublish(&self, ask: CsiVolumeUnpublish, meta: &RequestMeta) -> Result<Bytes, Refusal> {
        let (alloc, node) = ask.claim.as_ref().map(|claim| (claim.allocation_id, claim.node_id)).unwrap_or_default();
        let actor = self.may_claim(meta, alloc, node)?;
        if ask.volume_id.is_empty() {
            return Err(RpcError::remote("missing volume ID").into());
        }
        let claim = ask.claim.ok_or_else(|| RpcError::remote("missing volume claim"))?;
        let key = CsiVolumeKey::new(namespace(meta), ask.volume_id);
        if self.core.view().csi_volume_by_key(&key).is_none() {
            return Err(RpcError::remote("no such volume").into());
        }
        let written = match claim.allocation_id.is_nil() {
            true => self.core.detach(&actor, &key, claim.node_id).await?,
            false => self.core.unpublish(&actor, &key, &claim).await?,
        };
        let index = written.max(self.core.view().applied_index());
        encode(&CsiVolumeUnpublishAnswer { index, known_leader: true, ..CsiVolumeUnpublishAnswer::default() })
    }

    /// The actor of a claim. A node claims for its own allocs only; other callers need the right to mount volumes.
    fn may_claim(&self, meta: &RequestMeta, alloc: AllocId, node: NodeId) -> Result<Actor, RpcError> {
        let denied = || RpcError::remote("Permission denied");
        let caller = self.callers.authenticate(&*self.core, meta.auth_token.reveal()).map_err(|_| denied())?;
        let own = match caller.identity() {
            Identity::Node(own) => Some(*own),
            Identity::AclsOff => self.core.view().node_by_secret(meta.auth_token.reveal()),
            Identity::Anonymous | Identity::Token(_) | Identity::Workload(_) => None,
        };
        let Some(own) = own else {
            let mounts = caller.acl().namespace(namespace(meta), NamespaceCapability::CsiMountVolume);
            return if mounts && caller.acl().plugin(Access::Read) { Ok(caller.actor()) } else { Err(denied()) };
        };
        let elsewhere = !node.is_nil() && node != own;
        if elsewhere || !may_claim(&self.core.view(), own, alloc) { Err(denied()) } else { Ok(Actor::Node(own)) }
    }
}
