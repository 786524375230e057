//! Servers on the network: which of them is asked, how often, and what is made of one that does not answer.
//!
//! What calls say is in `rpc`; the order of the servers is decided by [`ServerList`]. What servers ask of the node over the same sessions is
//! in [`crate::reverse`].

mod calls;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use songline_model::{Dur, Secret, Str};
use songline_rpc::RpcError;
use songline_rpc::message::{Caller, StatusPing, Signed};
use songline_rpc::net::{OnSession, Pool, PoolLimits};
use songline_rpc::port::Dialer;
use tokio::time::Instant;

use crate::agent::lock;
use crate::clock::Clock;
use crate::core::{Jitter, NoServers, ServerList};

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
pub struct RemoteServers {
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

impl RemoteServers {
    /// Servers at these addresses (`host:port`), reached through `dialer`. `on_session` gets every session, for what servers ask over it.
    pub fn new(addresses: Vec<Str>, region: Str, dialer: Dialer, on_session: Option<OnSession>) -> Self {
        // The session of a node has its poll open: it does not end for want of use.
        let limits = PoolLimits { idle_session: Duration::from_hours(24), ..PoolLimits::default() };
        let clock = Clock::start();
        let list = ServerList::new(addresses, clock.now(), Jitter::new(rand::random()));
        Self { pool: Pool::new(dialer, limits, on_session), list: Mutex::new(list), clock, region }
    }

    /// The servers as they are known now, in the order in which they are asked.
    pub fn known(&self) -> Vec<Str> {
        lock(&self.list).all().to_vec()
    }

    /// Takes other servers, told by an operator.
    pub fn replace(&self, addresses: Vec<Str>) -> Result<(), NoServers> {
        lock(&self.list).replace(addresses)
    }

    /// Whether a server answers at an address.
    pub async fn ping(&self, address: &str) -> Result<(), RpcError> {
        let caller = Caller { region: self.region.clone(), ..Caller::default() };
        let body = calls::bytes_of(&StatusPing::default().signed(&caller))?;
        let pong = tokio::time::timeout(PING_WITHIN, self.pool.call(address, "Status.Ping", &body)).await;
        pong.map_err(|_| RpcError::Lost(format!("no answer within {} s", PING_WITHIN.as_secs())))?.map(drop)
    }

    /// Looks for another server now and then, so that nodes spread over the servers that there are. Does not return.
    pub async fn rebalance(&self) {
        loop {
            let deadline = lock(&self.list).next_deadline();
            self.clock.until(Some(deadline)).await;
            let Some(candidates) = lock(&self.list).on_time(self.clock.now()) else { continue };
            for address in &candidates {
                match self.ping(address).await {
                    Ok(()) => {
                        lock(&self.list).on_pinged(candidates.clone(), address);
                        break;
                    }
                    Err(error) => tracing::debug!(%address, %error, "a server does not answer a ping"),
                }
            }
        }
    }

    /// Makes a call to the first server of the list, and to the next ones as far as that can do no harm.
    async fn call(&self, method: &str, body: &[u8]) -> Result<Bytes, RpcError> {
        let kind = Kind::of(method);
        let until = Instant::now() + HOLD;
        let mut tried = 0;
        loop {
            let server = lock(&self.list).first().map_err(|error| RpcError::remote(error.to_string()))?;
            tried += 1;
            let error = match self.once(&server, method, body, kind).await {
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

    async fn once(&self, server: &str, method: &str, body: &[u8], kind: Kind) -> Result<Bytes, RpcError> {
        match tokio::time::timeout(kind.within(), self.pool.call(server, method, body)).await {
            Ok(answered) => answered,
            Err(_) => {
                // Whatever else is under way over that session would wait as long.
                self.pool.forget(server);
                Err(RpcError::Lost(format!("{server} did not answer {method} within {} s", kind.within().as_secs())))
            }
        }
    }

    /// Whom a call is from: a node that has registered signs with its secret.
    fn caller(&self, secret: Secret) -> Caller {
        Caller { region: self.region.clone(), auth_token: secret, ..Caller::default() }
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
