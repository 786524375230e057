//! A node's connection to the servers: the choice of the server, retries and failover. The order of servers is the
//! real agent's (`ServerList`). The network is the simulated one with the behaviour of connections: lost messages are
//! resent, and a cut is silence.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use songline_client::core::{Jitter, NoServers, ServerList};
use songline_log::NodeId as ServerId;
use songline_model::{Dur, Str, Time};
use songline_rpc::RpcError;
use tokio::time::Instant;

use super::super::machine::locked;
use super::super::network::{Network, Reachable};
use super::super::record::Record;
use super::super::shell::{HOLD, Shell};

/// Time of silence after which a connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Poll interval for the end of a cut, or for a leader.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// May be repeated any number of times.
    Read,
    /// May have taken effect although the answer was lost.
    Write,
    /// A write with a short timeout.
    Heartbeat,
}

impl Kind {
    fn within(self) -> Duration {
        match self {
            Self::Read | Self::Write => Duration::from_secs(30),
            Self::Heartbeat => Duration::from_secs(5),
        }
    }
}

/// Connection of one agent to the servers.
pub struct Way {
    from: ServerId,
    list: Mutex<ServerList>,
    jitter: Mutex<Jitter>,
    network: Arc<Network>,
    record: Arc<Record>,
}

/// The network's number of a node: beyond those of all servers.
pub fn number_of(node: usize) -> ServerId {
    (1 << 32) + node as u64
}

impl Way {
    /// Creates the connection of this node's agent.
    pub fn new(node: usize, list: ServerList, seed: u64, network: &Arc<Network>, record: &Arc<Record>) -> Self {
        let (list, jitter) = (Mutex::new(list), Mutex::new(Jitter::new(seed)));
        Self { from: number_of(node), list, jitter, network: Arc::clone(network), record: Arc::clone(record) }
    }

    /// Adopts the list of servers and the number of nodes from an answer.
    pub fn told(&self, servers: Vec<Str>, nodes: u32) -> Result<(), NoServers> {
        locked(&self.list).on_told(servers, nodes)
    }

    /// Time of the next rebalancing.
    pub fn next_deadline(&self) -> Time {
        locked(&self.list).next_deadline()
    }

    /// Moves to another server, if rebalancing is due.
    pub async fn rebalance(&self, now: Time) {
        let Some(candidates) = locked(&self.list).on_time(now) else { return };
        for address in &candidates {
            if self.once(address, Kind::Heartbeat, |_| async { Ok(()) }, false).await.is_ok() {
                locked(&self.list).on_pinged(candidates.clone(), address);
                return;
            }
        }
    }

    /// Calls the first server of the list, and the next ones while repeating the call is safe.
    pub async fn call<T, F, Fut>(&self, kind: Kind, ask: F) -> Result<T, RpcError>
    where
        T: Send + 'static,
        F: Fn(Arc<Shell>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<T, RpcError>> + Send + 'static,
    {
        let until = Instant::now() + HOLD;
        let mut tried = 0;
        loop {
            let server = locked(&self.list).first().map_err(|error| RpcError::remote(error.to_string()))?;
            tried += 1;
            let error = match self.once(&server, kind, ask.clone(), true).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let again = match &error {
                RpcError::NoLeader => true,
                RpcError::Lost(_) => kind == Kind::Read,
                // The server understood and refused the call: another server would refuse it, too.
                RpcError::Remote(_) | RpcError::Coded { .. } => return Err(error),
            };
            locked(&self.list).on_failed(&server);
            self.record.count(|counts| counts.moves += 1);
            let untried = tried < locked(&self.list).all().len();
            if !again || (Instant::now() >= until && !untried) {
                return Err(error);
            }
            if !untried {
                let wait = locked(&self.jitter).below(Dur::from(HOLD / 16));
                tokio::time::sleep(wait.to_std()).await;
            }
        }
    }

    async fn once<T, F, Fut>(&self, server: &str, kind: Kind, ask: F, of_leader: bool) -> Result<T, RpcError>
    where
        T: Send + 'static,
        F: Fn(Arc<Shell>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<T, RpcError>> + Send + 'static,
    {
        let Some((id, _)) = self.network.server_at(server) else {
            // A dead machine does not refuse connections, so the failure takes time.
            tokio::time::sleep(LOOK_EVERY).await;
            return Err(RpcError::Lost(format!("nobody is at {server}")));
        };
        let answered = tokio::time::timeout(kind.within(), self.round_trip(id, kind, ask, of_leader)).await;
        answered.unwrap_or_else(|_| Err(RpcError::Lost(format!("{server} did not answer within {} s", kind.within().as_secs()))))
    }

    async fn round_trip<T, F, Fut>(&self, to: ServerId, kind: Kind, ask: F, of_leader: bool) -> Result<T, RpcError>
    where
        T: Send + 'static,
        F: Fn(Arc<Shell>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<T, RpcError>> + Send + 'static,
    {
        travel(&self.network, self.from, to).await?;
        let server = reach(&self.network, to)?;
        let serving = serve(Arc::clone(&self.network), server.clone(), kind, ask, of_leader);
        // A write continues after its caller has gone.
        let answer = match kind {
            Kind::Read => serving.await,
            Kind::Write | Kind::Heartbeat => tokio::spawn(serving).await.unwrap_or_else(|_| Err(RpcError::Lost("ended".into()))),
        };
        if server.disk.is_dead() {
            return Err(RpcError::Lost(format!("server {to} died")));
        }
        travel(&self.network, to, self.from).await?;
        answer
    }
}

/// Sends a message over a connection.
async fn travel(network: &Network, from: ServerId, to: ServerId) -> Result<(), RpcError> {
    let since = Instant::now();
    tokio::time::sleep(network.passage_surely()).await;
    while network.is_cut(from, to) {
        if since.elapsed() > SILENCE_MAX {
            return Err(RpcError::Lost("the connection is broken".into()));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

fn reach(network: &Network, to: ServerId) -> Result<Reachable, RpcError> {
    network.server(to).ok_or_else(|| RpcError::Lost(format!("server {to} is away")))
}

/// A server's handling of a call: it answers when it leads, and forwards the call when another server does.
async fn serve<T, F, Fut>(network: Arc<Network>, server: Reachable, kind: Kind, ask: F, of_leader: bool) -> Result<T, RpcError>
where
    F: Fn(Arc<Shell>) -> Fut + Sync,
    Fut: Future<Output = Result<T, RpcError>> + Send + 'static,
{
    if !of_leader {
        return ask(server.shell).await;
    }
    let until = Instant::now() + HOLD;
    let own = server.shell.id;
    loop {
        let leader = server.shell.leader().filter(|leader| *leader != own);
        if let Some(leader) = leader {
            match pass_on(&network, own, leader, &ask).await {
                Err(RpcError::NoLeader) => {}
                Err(RpcError::Lost(_)) if kind == Kind::Read => {}
                answer => return answer,
            }
        } else if server.shell.rules() {
            return ask(server.shell).await;
        }
        if Instant::now() >= until {
            return Err(RpcError::NoLeader);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn pass_on<T, F, Fut>(network: &Network, from: ServerId, leader: ServerId, ask: &F) -> Result<T, RpcError>
where
    F: Fn(Arc<Shell>) -> Fut + Sync,
    Fut: Future<Output = Result<T, RpcError>> + Send + 'static,
{
    travel(network, from, leader).await?;
    let server = reach(network, leader)?;
    let until = Instant::now() + HOLD;
    while !server.shell.rules() {
        if Instant::now() >= until || server.disk.is_dead() {
            return Err(RpcError::NoLeader);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let answer = ask(server.shell).await;
    if server.disk.is_dead() {
        return Err(RpcError::Lost(format!("server {leader} died")));
    }
    travel(network, leader, from).await?;
    answer
}
