//! CSI volumes in use: claims, their release, and the calls of this server to plugins on nodes. What a release does
//! next is decided in `songline_scheduler::csi`; the tables keep the claims.

mod claim;
mod release;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_model::{AllocId, CsiVolumeKey, NodeId, Str};
use songline_projections::State;
use songline_rpc::message::{Call, ToController};
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_rpc::{CSI_RETRYABLE, RpcError};
use songline_scheduler::csi;
use tokio::sync::OwnedMutexGuard;

use super::Core;

pub(super) use watch::start;

/// Longest wait for a plugin. A node gives up earlier, after two minutes.
const CALL_WITHIN: Duration = Duration::from_secs(150);

/// Operations that are done one at a time.
#[derive(Default)]
pub(crate) struct Locks {
    /// Taking and releasing the claim of an alloc.
    claims: Keyed<(CsiVolumeKey, AllocId)>,
    /// Requests to the controllers of a plugin.
    plugins: Keyed<Str>,
}

/// Locks by key.
struct Keyed<K>(Mutex<BTreeMap<K, Arc<tokio::sync::Mutex<()>>>>);

impl<K> Default for Keyed<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord> Keyed<K> {
    async fn lock(&self, key: K) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.0.lock();
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(key).or_default())
        };
        lock.lock_owned().await
    }
}

/// Whether a node may claim volumes for an allocation: for one of its own, or for one that is not known any more.
pub(crate) fn may_claim(view: &State, node: NodeId, alloc: AllocId) -> bool {
    view.alloc(alloc).and_then(|alloc| alloc.node_id).is_none_or(|at| at == node)
}

impl Core {
    /// Sends a request to a controller of the plugin: to one after another, until one of them can answer.
    pub(crate) async fn ask_controller<C: ToController>(
        &self,
        plugin: &str,
        mut request: C,
    ) -> Result<C::Answer, RpcError> {
        let _alone = match C::ONE_AT_A_TIME {
            true => Some(self.csi.plugins.lock(plugin.into()).await),
            false => None,
        };
        let nodes = csi::controllers(&self.view(), plugin).map_err(|error| RpcError::remote(error.to_string()))?;
        let mut last = RpcError::remote(format!("failed to find instances of controller plugin {plugin:?}"));
        for node in nodes {
            request.address(plugin, node);
            match self.call_plugin(node, &request).await {
                Err(error) if is_of_the_node(&error) => last = error,
                answer => return answer,
            }
        }
        Err(last)
    }

    /// Sends a request to the plugins of a node.
    pub(crate) async fn call_plugin<C: Call>(&self, node: NodeId, request: &C) -> Result<C::Answer, RpcError> {
        let body = to_vec(request).map_err(|error| RpcError::remote(error.to_string()))?;
        let answer = tokio::time::timeout(CALL_WITHIN, self.call_any_node(node, C::METHOD, body)).await;
        let late = || RpcError::Lost(format!("node {node} did not answer {} within {CALL_WITHIN:?}", C::METHOD));
        from_slice(&answer.unwrap_or_else(|_| Err(late()))?).map_err(|error| RpcError::remote(error.on_wire(0)))
    }
}

/// Whether the call failed on the way to the plugin, so that another instance may succeed.
fn is_of_the_node(error: &RpcError) -> bool {
    match error {
        RpcError::Remote(text) => text.contains(CSI_RETRYABLE) || text.contains("Unknown node"),
        RpcError::Coded { code, .. } => *code == 404,
        RpcError::NoLeader | RpcError::Lost(_) => true,
    }
}
