//! Requests of servers to the plugins of this node, by the names of their methods. Errors begin with the method's name.

use bytes::Bytes;
use songline_model::{AllocId, CsiClaimMode, CsiVolumeClaim, CsiVolumeKey, NamespaceName};
use songline_rpc::RpcError;
use songline_rpc::message::{
    Call, ControllerAttachVolume, ControllerCreateSnapshot, ControllerCreateVolume, ControllerDeleteSnapshot,
    ControllerDeleteVolume, ControllerDetachVolume, ControllerExpandVolume, ControllerListSnapshots,
    ControllerListVolumes, ControllerValidateVolume, NodeDetachVolume, NodeExpandVolume, NodeExpandVolumeAnswer,
};
use songline_rpc::msgpack;
use songline_rpc::net::Refusal;

use super::controller::{self, Asked};
use super::volumes::{Usage, Use, Volumes};

/// Answers a request. `namespace_of` is asked for the namespace of an allocation on this node.
pub(crate) async fn serve(
    volumes: &Volumes,
    namespace_of: impl Fn(AllocId) -> Option<NamespaceName> + Send + Sync,
    method: &str,
    body: &[u8],
) -> Result<Bytes, Refusal> {
    match method {
        ControllerAttachVolume::METHOD => ask::<ControllerAttachVolume>(volumes, body).await,
        ControllerDetachVolume::METHOD => ask::<ControllerDetachVolume>(volumes, body).await,
        ControllerValidateVolume::METHOD => ask::<ControllerValidateVolume>(volumes, body).await,
        ControllerCreateVolume::METHOD => ask::<ControllerCreateVolume>(volumes, body).await,
        ControllerDeleteVolume::METHOD => ask::<ControllerDeleteVolume>(volumes, body).await,
        ControllerListVolumes::METHOD => ask::<ControllerListVolumes>(volumes, body).await,
        ControllerExpandVolume::METHOD => ask::<ControllerExpandVolume>(volumes, body).await,
        ControllerCreateSnapshot::METHOD => ask::<ControllerCreateSnapshot>(volumes, body).await,
        ControllerDeleteSnapshot::METHOD => ask::<ControllerDeleteSnapshot>(volumes, body).await,
        ControllerListSnapshots::METHOD => ask::<ControllerListSnapshots>(volumes, body).await,
        NodeDetachVolume::METHOD => {
            let asked: NodeDetachVolume = msgpack::from_slice(body)?;
            let used = Use {
                alloc: asked.alloc_id,
                volume: CsiVolumeKey::new(asked.volume_namespace, asked.volume_id),
                usage: Usage {
                    read_only: asked.read_only,
                    access_mode: asked.access_mode.as_str().into(),
                    attachment_mode: asked.attachment_mode.as_str().into(),
                },
                plugin_id: asked.plugin_id,
                remote_id: asked.external_id,
            };
            let done = volumes.unmount(&used).await;
            encode::<NodeDetachVolume>(done.map(|()| Default::default()))
        }
        NodeExpandVolume::METHOD => {
            let asked: NodeExpandVolume = msgpack::from_slice(body)?;
            encode::<NodeExpandVolume>(expand(volumes, namespace_of, asked).await)
        }
        _ => Err(Refusal::NoMethod),
    }
}

async fn ask<A: Asked>(volumes: &Volumes, body: &[u8]) -> Result<Bytes, Refusal> {
    encode::<A>(controller::answer(msgpack::from_slice::<A>(body)?, &volumes.registry).await)
}

async fn expand(
    volumes: &Volumes,
    namespace_of: impl Fn(AllocId) -> Option<NamespaceName>,
    asked: NodeExpandVolume,
) -> Result<NodeExpandVolumeAnswer, String> {
    let claim: CsiVolumeClaim = asked.claim.read().map_err(|error| error.to_string())?;
    let range = controller::range(&asked.capacity).map_err(|error| error.to_string())?;
    let namespace =
        namespace_of(claim.allocation_id).ok_or_else(|| format!("Unknown allocation: {}", claim.allocation_id))?;
    let used = Use {
        alloc: claim.allocation_id,
        volume: CsiVolumeKey::new(namespace, asked.volume_id),
        usage: Usage {
            read_only: claim.mode == CsiClaimMode::Read,
            access_mode: claim.access_mode,
            attachment_mode: claim.attachment_mode,
        },
        plugin_id: asked.plugin_id,
        remote_id: asked.external_id,
    };
    let capacity_bytes = volumes.expand(&used, range).await.map_err(|error| error.to_string())?;
    Ok(NodeExpandVolumeAnswer { capacity_bytes })
}

fn encode<C: Call>(answer: Result<C::Answer, impl ToString>) -> Result<Bytes, Refusal> {
    let answer = answer.map_err(|error| RpcError::Remote(format!("{}: {}", C::METHOD, error.to_string())))?;
    let body = msgpack::to_vec(&answer).map_err(|error| RpcError::Remote(error.to_string()))?;
    Ok(Bytes::from(body))
}
