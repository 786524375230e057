//! How simulated nodes reach servers: in this process, or over a few connections that many nodes share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use songline_client::core::{Jitter, ServerList};
use songline_model::{Str, Time};
use songline_rpc::net::{Caller, Channel, Dispatch, OnSession, Pool, PoolLimits, Refusal, serve_session};
use songline_rpc::port::Dialer;
use songline_rpc::servers_wire::{RemoteServers, RpcClient};
use songline_rpc::{NodeUpdateResponse, RpcError, Servers};
use tokio::time::Instant;

use super::tally::Tally;

/// Timeout of calls that do not block for changes.
const CALL_WITHIN: Duration = Duration::from_secs(30);
/// Timeout of blocking calls: the servers' longest wait, and a little more.
const POLL_WITHIN: Duration = Duration::from_secs(330);
/// Time for which a server that was lost is not called again, so that thousands of nodes do not all dial it.
const REST: Duration = Duration::from_millis(500);
/// Idle streams that a session keeps. Each node has one call that blocks, and sometimes another.
const IDLE_STREAMS_MAX: usize = 1024;

/// Gives nodes their servers.
pub trait Reach: Send + Sync + 'static {
    /// Type of the servers.
    type Servers: Servers;

    /// The servers of node number `n`, for one registration.
    fn servers(&self, n: usize) -> Arc<Self::Servers>;

    /// Takes a server's answer to node number `n`.
    fn told(&self, n: usize, answer: &NodeUpdateResponse);
}

/// Servers of this process.
pub struct InProcess<S>(pub Arc<S>);

impl<S: Servers> Reach for InProcess<S> {
    type Servers = S;

    fn servers(&self, _n: usize) -> Arc<S> {
        Arc::clone(&self.0)
    }

    fn told(&self, _n: usize, _answer: &NodeUpdateResponse) {}
}

/// Connections to servers. Node `n` uses number `n` modulo their count.
pub struct Lanes {
    lanes: Vec<Arc<Lane>>,
    region: Str,
    /// Whether the lists of servers that answers carry replace the given addresses.
    learns: bool,
}

impl Lanes {
    /// `count` connections, each to any of the servers at these addresses, and to those that the servers name.
    pub fn any(addresses: &[Str], count: usize, region: Str, dialer: &Dialer) -> Self {
        let lanes = (0..count.max(1)).map(|_| Arc::new(Lane::new(addresses.to_vec(), dialer))).collect();
        Self { lanes, region, learns: true }
    }

    /// One connection to each of the servers at these addresses, which stays with it.
    pub fn each(addresses: &[Str], region: Str, dialer: &Dialer) -> Self {
        let lanes = addresses.iter().map(|address| Arc::new(Lane::new(vec![address.clone()], dialer))).collect();
        Self { lanes, region, learns: false }
    }

    /// Uses only the given addresses, whatever servers the servers name.
    #[must_use]
    pub fn fixed(self) -> Self {
        Self { learns: false, ..self }
    }

    fn lane(&self, n: usize) -> &Arc<Lane> {
        &self.lanes[n % self.lanes.len()]
    }

    pub(super) fn count_errors(&self, tally: &Arc<Tally>) {
        for lane in &self.lanes {
            *lane.tally.lock() = Some(Arc::clone(tally));
        }
    }
}

impl Reach for Lanes {
    type Servers = RemoteServers<OnLane>;

    fn servers(&self, n: usize) -> Arc<Self::Servers> {
        Arc::new(RemoteServers::new(OnLane(Arc::clone(self.lane(n))), self.region.clone()))
    }

    fn told(&self, n: usize, answer: &NodeUpdateResponse) {
        if self.learns && !answer.servers.is_empty() {
            // Only an empty list is an error.
            let _ = self.lane(n).list.lock().on_told(answer.servers.clone(), answer.nodes);
        }
    }
}

/// One connection at a time, to the first server of a list.
struct Lane {
    pool: Pool,
    list: Mutex<ServerList>,
    /// Servers that are not called before these times.
    resting: Mutex<BTreeMap<Str, Instant>>,
    /// Held while a server that was lost is dialled.
    probing: tokio::sync::Mutex<()>,
    tally: Mutex<Option<Arc<Tally>>>,
}

impl Lane {
    fn new(addresses: Vec<Str>, dialer: &Dialer) -> Self {
        let limits = PoolLimits {
            idle_streams_max: IDLE_STREAMS_MAX,
            idle_session: Duration::from_hours(24),
            ..PoolLimits::default()
        };
        let seed = uuid::Uuid::new_v4().as_u64_pair().0;
        Self {
            pool: Pool::new(dialer.clone(), limits, Some(refuses())),
            list: Mutex::new(ServerList::new(addresses, Time::default(), Jitter::new(seed))),
            resting: Mutex::default(),
            probing: tokio::sync::Mutex::default(),
            tally: Mutex::default(),
        }
    }

    async fn call(&self, method: &str, body: &[u8]) -> Result<Vec<u8>, RpcError> {
        let server = self.list.lock().first().map_err(|error| RpcError::remote(error.to_string()))?;
        self.probe(&server).await?;
        let within = if method == "Node.GetClientAllocs" { POLL_WITHIN } else { CALL_WITHIN };
        let error = match tokio::time::timeout(within, self.pool.call(&server, method, body)).await {
            Ok(Ok(answer)) => return Ok(answer.to_vec()),
            Ok(Err(error)) => error,
            // Other nodes' calls over the session go on.
            Err(_) => RpcError::Lost(format!("no answer within {} s", within.as_secs())),
        };
        if let RpcError::Lost(_) = error {
            self.lost(&server);
        }
        self.count(&server, method, &error);
        Err(error)
    }

    /// Dials a server that was lost: one call at a time, and after a rest. The other calls fail meanwhile.
    async fn probe(&self, server: &Str) -> Result<(), RpcError> {
        if !self.resting.lock().contains_key(server) {
            return Ok(());
        }
        let _probing = self.probing.lock().await;
        match self.resting.lock().get(server) {
            None => return Ok(()),
            Some(until) if *until > Instant::now() => return Err(RpcError::Lost(format!("{server} was just lost"))),
            Some(_) => {}
        }
        if let Err(error) = self.pool.session(server).await {
            let error = RpcError::Lost(error.to_string());
            self.lost(server);
            self.count(server, "connecting", &error);
            return Err(error);
        }
        self.resting.lock().remove(server);
        Ok(())
    }

    fn lost(&self, server: &Str) {
        self.resting.lock().insert(server.clone(), Instant::now() + REST);
        self.list.lock().on_failed(server);
    }

    fn count(&self, server: &Str, what: &str, error: &RpcError) {
        if let Some(tally) = &*self.tally.lock() {
            tally.error(format!("{server}: {what}: {error}"));
        }
    }
}

/// Calls over a lane.
pub struct OnLane(Arc<Lane>);

impl RpcClient for OnLane {
    async fn call(&self, method: &str, body: Vec<u8>) -> Result<Vec<u8>, RpcError> {
        self.0.call(method, &body).await
    }
}

/// Refuses the servers' calls to nodes: there are no files, logs and processes.
struct Refuses;

fn refuses() -> OnSession {
    Arc::new(|_, session| {
        let from = SocketAddr::from(([0, 0, 0, 0], 0));
        tokio::spawn(serve_session(session, true, Caller::plain(from), Arc::new(Refuses)));
    })
}

impl Dispatch for Refuses {
    async fn call(&self, method: &str, _body: Bytes, _caller: &Caller) -> Result<Bytes, Refusal> {
        Err(RpcError::remote(format!("{method}: a simulated node does not answer calls")).into())
    }

    fn streams(&self, _method: &str) -> bool {
        false
    }

    async fn stream(&self, _method: &str, _channel: Channel, _caller: &Caller) {}
}
