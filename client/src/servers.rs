//! Servers on the network: the choice of the server to ask, retries, and failover from a server that does not answer.
//!
//! Crate `rpc` defines the calls; [`ServerList`] decides the order of the servers; [`crate::reverse`] answers the
//! servers' calls to the node over the same sessions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_model::{
    AllocId, Allocation, CsiVolumeClaim, CsiVolumeKey, DrainStrategy, Dur, NamespaceName, Node, NodeEvent, NodeId,
    NodeStatus, ServiceRegistration, Str,
};
use songline_rpc::message::{Call, Caller, Signed, StatusPing};
use songline_rpc::net::{OnSession, Pool, PoolLimits};
use songline_rpc::port::Dialer;
use songline_rpc::servers_wire::{RemoteServers, RpcClient, call};
use songline_rpc::world::World;
use songline_rpc::{
    AllocReport, BlockingQuery, ClaimedVolume, ClientAllocs, NoVaultToken, NodeAuth, NodeUpdateResponse, RpcError,
    Servers, WrappedTokens,
};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::core::{NoServers, ServerList};
use crate::reverse::encoded;

/// Time for which one call is retried while there is no leader or a server goes away.
const HOLD: Duration = Duration::from_secs(5);
/// Timeout of a heartbeat: less than the TTL after which servers mark a node as down, with time left to ask another
/// server.
const HEARTBEAT_WITHIN: Duration = Duration::from_secs(3);
/// Timeout of other calls that do not block for changes.
const CALL_WITHIN: Duration = Duration::from_secs(30);
/// Timeout of blocking calls: the servers' longest wait, and a little more.
const POLL_WITHIN: Duration = Duration::from_secs(330);
/// Timeout of a ping.
const PING_WITHIN: Duration = Duration::from_secs(3);

/// Servers that are reached over the network.
pub struct NetServers {
    calls: RemoteServers<Failover>,
}

/// Calls the first server that answers.
struct Failover {
    pool: Pool,
    list: Mutex<ServerList>,
    clock: Clock,
    region: Str,
}

/// Kind of a call: decides whether a lost call may be repeated, and its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// May be repeated any number of times.
    Read,
    /// A read that blocks for changes.
    Poll,
    /// May have taken effect although the answer was lost.
    Write,
    /// A write with a short timeout.
    Heartbeat,
}

impl Kind {
    fn of(method: &str) -> Self {
        match method {
            "Node.GetClientAllocs" | "Alloc.GetAlloc" => Self::Poll,
            "Alloc.GetAllocs" | "Node.GetNode" | "Status.Ping" => Self::Read,
            "ACL.WhoAmI" | "ACL.GetPolicies" | "ACL.GetRolesByID" | "ACL.GetClaimPolicies" => Self::Read,
            "Node.UpdateStatus" => Self::Heartbeat,
            _ => Self::Write,
        }
    }

    fn within(self) -> Duration {
        match self {
            Self::Poll => POLL_WITHIN,
            Self::Read | Self::Write => CALL_WITHIN,
            Self::Heartbeat => HEARTBEAT_WITHIN,
        }
    }

    fn is_read(self) -> bool {
        match self {
            Self::Poll | Self::Read => true,
            Self::Write | Self::Heartbeat => false,
        }
    }
}

impl NetServers {
    /// Servers at these addresses (`host:port`), reached from `world` through `dialer`. `on_session` gets every
    /// session, to answer the servers' calls.
    pub fn new(
        addresses: Vec<Str>,
        region: Str,
        world: Arc<dyn World>,
        dialer: Dialer,
        on_session: Option<OnSession>,
    ) -> Self {
        // A node's session always carries its blocking poll, so the idle timeout must not end it.
        let limits = PoolLimits { idle_session: Duration::from_hours(24), ..PoolLimits::default() };
        let clock = Clock::start(world);
        let list = Mutex::new(ServerList::new(addresses, clock.now(), clock.jitter()));
        let calls = Failover { pool: Pool::new(dialer, limits, on_session), list, clock, region: region.clone() };
        Self { calls: RemoteServers::new(calls, region) }
    }

    /// The currently known servers, in the order in which they are asked.
    pub fn known(&self) -> Vec<Str> {
        self.calls.client().list.lock().all().to_vec()
    }

    /// Replaces the list of servers on an operator's request.
    pub fn replace(&self, addresses: Vec<Str>) -> Result<(), NoServers> {
        self.calls.client().list.lock().replace(addresses)
    }

    /// Reports a server that did not answer a request that bypassed this type.
    pub fn on_failed(&self, address: &str) {
        self.calls.client().list.lock().on_failed(address);
    }

    /// Checks that a server answers at an address.
    pub async fn ping(&self, address: &str) -> Result<(), RpcError> {
        self.calls.client().ping(address).await
    }

    /// Moves to another server from time to time, so that nodes spread evenly over the servers. Does not return.
    pub async fn rebalance(&self) {
        let Failover { list, clock, .. } = self.calls.client();
        loop {
            let deadline = list.lock().next_deadline();
            clock.until(Some(deadline)).await;
            let Some(candidates) = list.lock().on_time(clock.now()) else { continue };
            for address in &candidates {
                match self.ping(address).await {
                    Ok(()) => {
                        list.lock().on_pinged(candidates.clone(), address);
                        break;
                    }
                    Err(error) => tracing::debug!(%address, %error, "a server does not answer a ping"),
                }
            }
        }
    }

    /// Makes any call.
    pub async fn ask<R: Call + Sync>(&self, request: &R) -> Result<R::Answer, RpcError> {
        call(self.calls.client(), request).await
    }

    /// Ends all sessions.
    pub fn close(&self) {
        self.calls.client().pool.close();
    }

    /// Adopts the servers that an answer lists.
    fn told(&self, answer: Result<NodeUpdateResponse, RpcError>) -> Result<NodeUpdateResponse, RpcError> {
        let answer = answer?;
        let list = &self.calls.client().list;
        list.lock()
            .on_told(answer.servers.clone(), answer.nodes)
            .map_err(|error| RpcError::remote(error.to_string()))?;
        Ok(answer)
    }
}

impl Servers for NetServers {
    async fn node_register(&self, node: Node) -> Result<NodeUpdateResponse, RpcError> {
        self.told(self.calls.node_register(node).await)
    }

    async fn node_update_status(&self, from: &NodeAuth, status: NodeStatus) -> Result<NodeUpdateResponse, RpcError> {
        self.told(self.calls.node_update_status(from, status).await)
    }

    async fn node_get_client_allocs(&self, from: &NodeAuth, query: BlockingQuery) -> Result<ClientAllocs, RpcError> {
        self.calls.node_get_client_allocs(from, query).await
    }

    async fn alloc_get_allocs(&self, from: &NodeAuth, ids: Vec<AllocId>) -> Result<Vec<Arc<Allocation>>, RpcError> {
        self.calls.alloc_get_allocs(from, ids).await
    }

    async fn alloc_get_alloc(
        &self,
        from: &NodeAuth,
        id: AllocId,
        query: BlockingQuery,
    ) -> Result<(Option<Arc<Allocation>>, u64), RpcError> {
        self.calls.alloc_get_alloc(from, id, query).await
    }

    async fn node_get_node(&self, from: &NodeAuth, id: NodeId) -> Result<Option<Node>, RpcError> {
        self.calls.node_get_node(from, id).await
    }

    async fn node_update_alloc(&self, from: &NodeAuth, allocs: Vec<AllocReport>) -> Result<u64, RpcError> {
        self.calls.node_update_alloc(from, allocs).await
    }

    async fn service_registration_upsert(
        &self,
        from: &NodeAuth,
        services: Vec<ServiceRegistration>,
    ) -> Result<u64, RpcError> {
        self.calls.service_registration_upsert(from, services).await
    }

    async fn service_registration_delete_by_id(
        &self,
        from: &NodeAuth,
        namespace: NamespaceName,
        id: Str,
    ) -> Result<u64, RpcError> {
        self.calls.service_registration_delete_by_id(from, namespace, id).await
    }

    async fn csi_volume_claim(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<ClaimedVolume, RpcError> {
        self.calls.csi_volume_claim(from, volume, claim).await
    }

    async fn csi_volume_unpublish(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<u64, RpcError> {
        self.calls.csi_volume_unpublish(from, volume, claim).await
    }

    async fn node_update_drain(
        &self,
        from: &NodeAuth,
        strategy: DrainStrategy,
        meta: BTreeMap<Str, Str>,
    ) -> Result<u64, RpcError> {
        self.calls.node_update_drain(from, strategy, meta).await
    }

    async fn node_derive_vault_token(
        &self,
        from: &NodeAuth,
        alloc: AllocId,
        tasks: Vec<Str>,
    ) -> Result<Result<WrappedTokens, NoVaultToken>, RpcError> {
        self.calls.node_derive_vault_token(from, alloc, tasks).await
    }

    async fn node_emit_events(&self, from: &NodeAuth, events: Vec<NodeEvent>) -> Result<u64, RpcError> {
        self.calls.node_emit_events(from, events).await
    }
}

impl RpcClient for Failover {
    /// Calls the first server of the list, and the next ones while repeating the call is safe.
    async fn call(&self, method: &str, body: Vec<u8>) -> Result<Vec<u8>, RpcError> {
        let kind = Kind::of(method);
        let until = Instant::now() + HOLD;
        let mut tried = 0;
        loop {
            let server = self.list.lock().first().map_err(|error| RpcError::remote(error.to_string()))?;
            tried += 1;
            let error = match self.once(&server, method, &body, kind).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let again = match &error {
                _ if is_no_leader(&error) => true,
                RpcError::Lost(_) => kind.is_read(),
                // The server understood and refused the call: another server would refuse it, too.
                RpcError::Remote(_) | RpcError::Coded { .. } | RpcError::NoLeader => return Err(error),
            };
            self.list.lock().on_failed(&server);
            // Every server is tried once in any case; the time bound is for waiting until servers come back.
            let untried = tried < self.list.lock().all().len();
            if !again || (Instant::now() >= until && !untried) {
                return Err(if is_no_leader(&error) { RpcError::NoLeader } else { error });
            }
            if !untried {
                let wait = self.clock.jitter().below(Dur::from(HOLD / 16));
                tokio::time::sleep(wait.to_std()).await;
            }
        }
    }
}

impl Failover {
    async fn ping(&self, address: &str) -> Result<(), RpcError> {
        let caller = Caller { region: self.region.clone(), ..Caller::default() };
        let body = encoded(&StatusPing::default().signed(&caller))?;
        let pong = tokio::time::timeout(PING_WITHIN, self.pool.call(address, StatusPing::METHOD, &body)).await;
        pong.map_err(|_| RpcError::Lost(format!("no answer within {} s", PING_WITHIN.as_secs())))?.map(drop)
    }

    async fn once(&self, server: &str, method: &str, body: &[u8], kind: Kind) -> Result<Vec<u8>, RpcError> {
        match tokio::time::timeout(kind.within(), self.pool.call(server, method, body)).await {
            Ok(answered) => answered.map(Vec::from),
            Err(_) => {
                // Other calls in flight over that session would time out as well.
                self.pool.forget(server);
                Err(RpcError::Lost(format!("{server} did not answer {method} within {} s", kind.within().as_secs())))
            }
        }
    }
}

/// Whether the error is a missing leader. The text follows one `rpc error: ` for each server that forwarded the call.
fn is_no_leader(error: &RpcError) -> bool {
    match error {
        RpcError::NoLeader => true,
        RpcError::Remote(text) => text.contains("No cluster leader"),
        RpcError::Coded { .. } | RpcError::Lost(_) => false,
    }
}

#[cfg(test)]
mod tests;
