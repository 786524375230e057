//! Servers on the network: which of them is asked, how often, and what is made of one that does not answer.
//!
//! What calls say is in `rpc`; the order of the servers is decided by [`ServerList`]. What servers ask of the node over the same sessions is
//! in [`crate::reverse`].

use std::sync::{Arc, Mutex};
use std::time::Duration;

use songline_model::{AllocId, Allocation, Dur, NamespaceName, Node, NodeEvent, NodeStatus, ServiceRegistration, Str};
use songline_rpc::message::{Call, Caller, Signed, StatusPing};
use songline_rpc::net::{OnSession, Pool, PoolLimits};
use songline_rpc::port::Dialer;
use songline_rpc::servers_wire::{RemoteServers, RpcClient, call};
use songline_rpc::{AllocUpdate, BlockingQuery, ClientAllocs, NodeAuth, NodeUpdateResponse, RpcError, Servers};
use tokio::time::Instant;

use crate::agent::lock;
use crate::clock::Clock;
use crate::core::{Jitter, NoServers, ServerList};
use crate::reverse::encoded;

/// How long one call is tried again while there is no leader or a server goes away.
const HOLD: Duration = Duration::from_secs(5);
/// How long a heartbeat may take: less than it takes servers to give a node up, with time left to ask another server.
const HEARTBEAT_WITHIN: Duration = Duration::from_secs(5);
/// How long another call may take that does not wait for news.
const CALL_WITHIN: Duration = Duration::from_secs(30);
/// How long a call may take that does: as long as servers wait, and a little more.
const POLL_WITHIN: Duration = Duration::from_secs(330);
/// How long a server may take to answer a ping.
const PING_WITHIN: Duration = Duration::from_secs(3);

/// Servers that are reached over the network.
pub struct NetServers {
    calls: RemoteServers<Failover>,
}

/// Calls to whichever server answers.
struct Failover {
    pool: Pool,
    list: Mutex<ServerList>,
    clock: Clock,
    region: Str,
}

/// Which kind of call it is: that decides whether one that broke off may be made again, and how long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// May be made as often as one likes.
    Read,
    /// The same, but it waits for news.
    Poll,
    /// May have happened though nobody said so.
    Write,
    /// A write that has to be known soon.
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
    /// Servers at these addresses (`host:port`), reached through `dialer`. `on_session` gets every session, for what servers ask over it.
    pub fn new(addresses: Vec<Str>, region: Str, dialer: Dialer, on_session: Option<OnSession>) -> Self {
        // The session of a node has its poll open: it does not end for want of use.
        let limits = PoolLimits { idle_session: Duration::from_hours(24), ..PoolLimits::default() };
        let clock = Clock::start();
        let list = Mutex::new(ServerList::new(addresses, clock.now(), Jitter::new(rand::random())));
        let calls = Failover { pool: Pool::new(dialer, limits, on_session), list, clock, region: region.clone() };
        Self { calls: RemoteServers::new(calls, region) }
    }

    /// The servers as they are known now, in the order in which they are asked.
    pub fn known(&self) -> Vec<Str> {
        lock(&self.calls.client().list).all().to_vec()
    }

    /// Takes other servers, told by an operator.
    pub fn replace(&self, addresses: Vec<Str>) -> Result<(), NoServers> {
        lock(&self.calls.client().list).replace(addresses)
    }

    /// A server did not answer somebody who asked it in another way.
    pub fn on_failed(&self, address: &str) {
        lock(&self.calls.client().list).on_failed(address);
    }

    /// Whether a server answers at an address.
    pub async fn ping(&self, address: &str) -> Result<(), RpcError> {
        self.calls.client().ping(address).await
    }

    /// Looks for another server now and then, so that nodes spread over the servers that there are. Does not return.
    pub async fn rebalance(&self) {
        let Failover { list, clock, .. } = self.calls.client();
        loop {
            let deadline = lock(list).next_deadline();
            clock.until(Some(deadline)).await;
            let Some(candidates) = lock(list).on_time(clock.now()) else { continue };
            for address in &candidates {
                match self.ping(address).await {
                    Ok(()) => {
                        lock(list).on_pinged(candidates.clone(), address);
                        break;
                    }
                    Err(error) => tracing::debug!(%address, %error, "a server does not answer a ping"),
                }
            }
        }
    }

    /// Asks whatever there is to ask.
    pub async fn ask<R: Call + Sync>(&self, request: &R) -> Result<R::Answer, RpcError> {
        call(self.calls.client(), request).await
    }

    /// Ends all sessions.
    pub fn close(&self) {
        self.calls.client().pool.close();
    }

    /// Takes the servers that an answer names.
    fn told(&self, answer: Result<NodeUpdateResponse, RpcError>) -> Result<NodeUpdateResponse, RpcError> {
        let answer = answer?;
        let list = &self.calls.client().list;
        lock(list).on_told(answer.servers.clone(), answer.nodes).map_err(|error| RpcError::remote(error.to_string()))?;
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

    async fn node_update_alloc(&self, from: &NodeAuth, allocs: Vec<AllocUpdate>) -> Result<u64, RpcError> {
        self.calls.node_update_alloc(from, allocs).await
    }

    async fn service_registration_upsert(&self, from: &NodeAuth, services: Vec<ServiceRegistration>) -> Result<u64, RpcError> {
        self.calls.service_registration_upsert(from, services).await
    }

    async fn service_registration_delete_by_id(&self, from: &NodeAuth, namespace: NamespaceName, id: Str) -> Result<u64, RpcError> {
        self.calls.service_registration_delete_by_id(from, namespace, id).await
    }

    async fn node_emit_events(&self, from: &NodeAuth, events: Vec<NodeEvent>) -> Result<u64, RpcError> {
        self.calls.node_emit_events(from, events).await
    }
}

impl RpcClient for Failover {
    /// Makes a call to the first server of the list, and to the next ones as far as that can do no harm.
    async fn call(&self, method: &str, body: Vec<u8>) -> Result<Vec<u8>, RpcError> {
        let kind = Kind::of(method);
        let until = Instant::now() + HOLD;
        let mut tried = 0;
        loop {
            let server = lock(&self.list).first().map_err(|error| RpcError::remote(error.to_string()))?;
            tried += 1;
            let error = match self.once(&server, method, &body, kind).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let again = match &error {
                _ if is_no_leader(&error) => true,
                RpcError::Lost(_) => kind.is_read(),
                // It was understood and refused: another server would say the same.
                RpcError::Remote(_) | RpcError::Coded { .. } | RpcError::NoLeader => return Err(error),
            };
            lock(&self.list).on_failed(&server);
            // A list is gone through once in any case: the wait is for servers that come back.
            let untried = tried < lock(&self.list).all().len();
            if !again || (Instant::now() >= until && !untried) {
                return Err(if is_no_leader(&error) { RpcError::NoLeader } else { error });
            }
            if !untried {
                let wait = Jitter::new(rand::random()).below(Dur::from(HOLD / 16));
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
                // Whatever else is under way over that session would wait as long.
                self.pool.forget(server);
                Err(RpcError::Lost(format!("{server} did not answer {method} within {} s", kind.within().as_secs())))
            }
        }
    }
}

/// The text comes behind as many `rpc error: ` as servers have passed the call on.
fn is_no_leader(error: &RpcError) -> bool {
    match error {
        RpcError::NoLeader => true,
        RpcError::Remote(text) => text.contains("No cluster leader"),
        RpcError::Coded { .. } | RpcError::Lost(_) => false,
    }
}

#[cfg(test)]
mod tests;
