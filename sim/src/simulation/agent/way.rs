//! The way from a node to the servers: which of them is asked, how often, and what is made of one that does not answer. The order is the real
//! agent's (`ServerList`); the network is the simulated one, as a connection sees it: what is lost is sent again, and a cut is silence.

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

/// How long a connection is silent before it is taken for broken.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// How often somebody looks whether a cut is mended, or a leader there.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What kind of call it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// May be made as often as one likes.
    Read,
    /// May have happened though nobody said so.
    Write,
    /// A write that has to be known soon.
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

/// The way of one agent.
pub struct Way {
    from: ServerId,
    list: Mutex<ServerList>,
    jitter: Mutex<Jitter>,
    network: Arc<Network>,
    record: Arc<Record>,
}

/// As what the network knows a node: beyond all servers.
pub fn number_of(node: usize) -> ServerId {
    (1 << 32) + node as u64
}

impl Way {
    /// For the agent of this node.
    pub fn new(node: usize, list: ServerList, seed: u64, network: &Arc<Network>, record: &Arc<Record>) -> Self {
        let (list, jitter) = (Mutex::new(list), Mutex::new(Jitter::new(seed)));
        Self { from: number_of(node), list, jitter, network: Arc::clone(network), record: Arc::clone(record) }
    }

    /// Servers told which of them there are, and how many nodes.
    pub fn told(&self, servers: Vec<Str>, nodes: u32) -> Result<(), NoServers> {
        locked(&self.list).on_told(servers, nodes)
    }

    /// When to look for another server.
    pub fn next_deadline(&self) -> Time {
        locked(&self.list).next_deadline()
    }

    /// Looks for another server, if it is time.
    pub async fn rebalance(&self, now: Time) {
        let Some(candidates) = locked(&self.list).on_time(now) else { return };
        for address in &candidates {
            if self.once(address, Kind::Heartbeat, |_| async { Ok(()) }, false).await.is_ok() {
                locked(&self.list).on_pinged(candidates.clone(), address);
                return;
            }
        }
    }

    /// Makes a call to the first server of the list, and to the next ones as far as that can do no harm.
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
                // It was understood and refused: another server would say the same.
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
            // Nobody refuses a connection to a machine that is dead.
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
        // A write goes on when its caller has gone.
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

/// A message goes over a connection.
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

/// What a server does with a call: it answers itself when it leads, and passes it on when another does.
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
