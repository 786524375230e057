//! The CSI volumes of an allocation: claimed and mounted before its tasks start, released after they have ended.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use songline_model::{AllocId, Allocation, CsiClaimState, CsiVolumeClaim, CsiVolumeKey, NodeId, Str, VolumeRequest};
use songline_rpc::{CSI_RETRYABLE, ClaimedVolume, NodeAuth, RpcError, Servers};

use super::volumes::{Usage, Use, Volumes};
use crate::driver::Boxed;
use crate::state::StateDb;

/// Delay before the second try of a claim or a release; each later delay is twice the one before.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Longest delay between two tries.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// Time after which nothing is tried again.
const TRY_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// Time after which a volume without a healthy plugin is not claimed any more.
const TRY_UNSCHEDULABLE_FOR: Duration = Duration::from_secs(60);

/// Errors of a claim that pass: another allocation holds the volume still, a plugin or the servers are not there.
const MAY_PASS: [&str; 2] = ["volume max claims reached", CSI_RETRYABLE];
/// Error of a claim while no plugin of the volume is healthy. A node that registers after a restart has no plugin until
/// the agent has found the plugin's task again, and its allocations claim volumes meanwhile.
const UNSCHEDULABLE: &str = "volume is currently unschedulable";

/// Calls about claims to the servers.
pub(crate) trait Claims: Send + Sync {
    /// Id of this node.
    fn node(&self) -> NodeId;
    fn claim(&self, volume: CsiVolumeKey, claim: CsiVolumeClaim) -> Boxed<'_, Result<ClaimedVolume, RpcError>>;
    fn unpublish(&self, volume: CsiVolumeKey, claim: CsiVolumeClaim) -> Boxed<'_, Result<u64, RpcError>>;
}

/// Calls to the servers in the name of this node.
pub(crate) struct AtServers<S> {
    pub servers: Arc<S>,
    pub auth: NodeAuth,
}

impl<S: Servers> Claims for AtServers<S> {
    fn node(&self) -> NodeId {
        self.auth.id
    }

    fn claim(&self, volume: CsiVolumeKey, claim: CsiVolumeClaim) -> Boxed<'_, Result<ClaimedVolume, RpcError>> {
        Box::pin(self.servers.csi_volume_claim(&self.auth, volume, claim))
    }

    fn unpublish(&self, volume: CsiVolumeKey, claim: CsiVolumeClaim) -> Boxed<'_, Result<u64, RpcError>> {
        Box::pin(self.servers.csi_volume_unpublish(&self.auth, volume, claim))
    }
}

/// A volume of an allocation, as far as it is claimed and mounted. The agent's state keeps it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Held {
    /// The plugin's id is empty before the claim is taken.
    pub used: Use,
    /// Place of the mounted volume on this machine.
    pub place: Option<PathBuf>,
}

/// Volumes of an allocation by their names in the group.
pub(crate) type HeldVolumes = BTreeMap<Str, Held>;

/// The volumes of one allocation.
#[derive(Clone)]
pub(crate) struct AllocVolumes {
    alloc: AllocId,
    held: Arc<Mutex<HeldVolumes>>,
    volumes: Arc<Volumes>,
    claims: Arc<dyn Claims>,
    state: StateDb,
}

impl AllocVolumes {
    /// `held` are those of an earlier agent.
    pub fn new(
        alloc: AllocId,
        held: HeldVolumes,
        volumes: Arc<Volumes>,
        claims: Arc<dyn Claims>,
        state: StateDb,
    ) -> Self {
        Self { alloc, held: Arc::new(Mutex::new(held)), volumes, claims, state }
    }

    /// The places of the mounted volumes, by their names in the group.
    pub fn places(&self) -> BTreeMap<Str, PathBuf> {
        let held = self.held.lock();
        held.iter().filter_map(|(name, held)| Some((name.clone(), held.place.clone()?))).collect()
    }

    /// Claims all volumes of the group, then mounts them. A volume that an earlier agent mounted is kept, without asking
    /// the servers.
    pub async fn publish(&self, alloc: &Allocation, driver_mounts: bool) -> Result<(), String> {
        let volumes = alloc.group().and_then(|group| group.volumes.clone()).unwrap_or_default();
        let wanted: Vec<_> = volumes.iter().filter(|(_, request)| request.kind == "csi").collect();
        if wanted.is_empty() {
            return Ok(());
        }
        if !driver_mounts {
            return Err("no task supports CSI".to_owned());
        }
        let mut missing = Vec::new();
        for (name, request) in wanted {
            if !self.is_kept(name).await? {
                missing.push((name, request));
            }
        }
        let mut claimed = Vec::new();
        for (name, request) in missing {
            let volume =
                self.claim(alloc, name, request).await.map_err(|error| format!("claiming volumes: {error}"))?;
            claimed.push((name, request, volume));
        }
        for (name, request, volume) in claimed {
            let Some(used) = self.held.lock().get(name).map(|held| held.used.clone()) else { continue };
            let place = self.volumes.mount(&used, &volume, request.mount_options.as_ref()).await;
            let place = place.map_err(|error| format!("mounting volumes: {error}"))?;
            self.change(name, |held| held.place = Some(place));
        }
        Ok(())
    }

    /// Whether an earlier agent mounted the volume, and it still is.
    async fn is_kept(&self, name: &Str) -> Result<bool, String> {
        let held = self.held.lock().get(name).cloned();
        let Some(Held { used, place: Some(_) }) = held else { return Ok(false) };
        let place = self.volumes.mounted(&used).await.map_err(|error| not_ready(&used.plugin_id, error))?;
        let is_kept = place.is_some();
        self.change(name, |held| held.place = place);
        Ok(is_kept)
    }

    async fn claim(&self, alloc: &Allocation, name: &Str, request: &VolumeRequest) -> Result<ClaimedVolume, String> {
        let usage = Usage {
            read_only: request.read_only,
            access_mode: request.access_mode.as_str().into(),
            attachment_mode: request.attachment_mode.as_str().into(),
        };
        let id = request.volume_of(&alloc.name);
        let volume = CsiVolumeKey::new(alloc.namespace.clone(), id.clone());
        let used = Use {
            alloc: self.alloc,
            volume: volume.clone(),
            usage,
            plugin_id: Str::default(),
            remote_id: Str::default(),
        };
        let claim = self.claim_of(&used, CsiClaimState::Taken);
        // From now on the claim may be taken, whatever the answer is.
        self.held.lock().insert(name.clone(), Held { used, place: None });
        self.persist();
        let take = || self.claims.claim(volume.clone(), claim.clone());
        let claimed = again(take, for_claim).await;
        let claimed = claimed.map_err(|error| format!("could not claim volume {id}: {error}"))?;
        self.change(name, |held| {
            held.used.plugin_id = claimed.volume.plugin_id.0.clone();
            held.used.remote_id = claimed.volume.remote_id();
        });
        Ok(claimed)
    }

    /// Unmounts all volumes and releases their claims. What cannot be unmounted is tried again for a day; the servers
    /// are told at once in any case, because they release claims of nodes that are lost.
    pub async fn release(&self) {
        let held = std::mem::take(&mut *self.held.lock());
        futures_util::future::join_all(held.into_values().map(|held| self.release_one(held.used))).await;
    }

    async fn release_one(&self, used: Use) {
        let unmounted = self.unmount(&used).await;
        self.unpublish(&used).await;
        if unmounted.is_err() {
            let _ = again(|| self.unmount(&used), |_| TRY_FOR).await;
            self.unpublish(&used).await;
        }
    }

    async fn unmount(&self, used: &Use) -> Result<(), String> {
        // Without a plugin the claim was not taken, so nothing was mounted.
        if used.plugin_id.is_empty() {
            return Ok(());
        }
        self.volumes.unmount(used).await.map_err(|error| {
            tracing::warn!(alloc = %self.alloc, volume = used.volume.id.as_str(), %error, "unmounting a volume");
            error.to_string()
        })
    }

    async fn unpublish(&self, used: &Use) {
        let claim = self.claim_of(used, CsiClaimState::Unpublishing);
        if let Err(error) = self.claims.unpublish(used.volume.clone(), claim).await {
            tracing::warn!(alloc = %self.alloc, volume = used.volume.id.as_str(), %error, "releasing a claim");
        }
    }

    fn claim_of(&self, used: &Use, state: CsiClaimState) -> CsiVolumeClaim {
        CsiVolumeClaim {
            allocation_id: self.alloc,
            node_id: self.claims.node(),
            external_node_id: Str::default(),
            mode: used.usage.claim_mode(),
            access_mode: used.usage.access_mode.clone(),
            attachment_mode: used.usage.attachment_mode.clone(),
            state,
        }
    }

    fn change(&self, name: &Str, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.held.lock().get_mut(name) {
            change(held);
        }
        self.persist();
    }

    fn persist(&self) {
        self.state.put_volumes(&self.alloc, &self.held.lock());
    }
}

/// Error of a kept volume whose plugin does not answer, in the reference's words.
fn not_ready(plugin: &str, error: impl Display) -> String {
    format!("node plugin '{plugin}' did not become ready: {error}")
}

/// Time for which a claim is tried that was refused like this.
fn for_claim(error: &RpcError) -> Duration {
    match error {
        RpcError::Remote(text) | RpcError::Coded { text, .. } => {
            if MAY_PASS.iter().any(|part| text.contains(part)) {
                TRY_FOR
            } else if text.contains(UNSCHEDULABLE) {
                TRY_UNSCHEDULABLE_FOR
            } else {
                Duration::ZERO
            }
        }
        RpcError::NoLeader | RpcError::Lost(_) => TRY_FOR,
    }
}

/// Repeats a step until it succeeds, or its error has been tried for as long as `for_error` says, since the first try.
async fn again<T, E, F: Future<Output = Result<T, E>>>(
    mut step: impl FnMut() -> F,
    for_error: impl Fn(&E) -> Duration,
) -> Result<T, E> {
    let begun = tokio::time::Instant::now();
    let mut delay = FIRST_DELAY;
    loop {
        match step().await {
            Err(error) if begun.elapsed() + delay < for_error(&error) => tokio::time::sleep(delay).await,
            done => return done,
        }
        delay = (delay * 2).min(LONGEST_DELAY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unschedulable() -> RpcError {
        RpcError::Remote(format!("rpc error: {UNSCHEDULABLE}"))
    }

    #[tokio::test(start_paused = true)]
    async fn claim_waits_a_minute_for_a_plugin_that_comes_back() {
        let begun = tokio::time::Instant::now();
        let claimed = again(
            || async { if begun.elapsed() < Duration::from_secs(20) { Err(unschedulable()) } else { Ok(()) } },
            for_claim,
        );
        assert!(claimed.await.is_ok());
        let begun = tokio::time::Instant::now();
        let refused = again(|| async { Err::<(), _>(unschedulable()) }, for_claim).await;
        assert!(refused.is_err() && begun.elapsed() < TRY_UNSCHEDULABLE_FOR, "{:?}", begun.elapsed());
    }

    #[test]
    fn missing_plugin_of_a_kept_volume_is_named_in_single_quotes() {
        let told = not_ready("nfs", "timed out");
        assert_eq!(told, "node plugin 'nfs' did not become ready: timed out");
    }

    #[tokio::test(start_paused = true)]
    async fn claim_of_an_unknown_volume_is_not_repeated() {
        let begun = tokio::time::Instant::now();
        let refused = || async { Err::<(), _>(RpcError::Remote("volume not found: v".to_owned())) };
        assert!(again(refused, for_claim).await.is_err());
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
