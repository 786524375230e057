//! The network between simulated machines: messages take their time, get lost, come twice, come late, or not at all while there is a
//! partition. What is in them is the log's business, or the clients'.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_log::{Log, NodeId, Transport, TransportError};

use super::disk::SimDisk;
use super::machine::{SimMachine, locked};
use super::shell::Shell;

/// How the network is at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weather {
    /// Longest time that a message takes, in milliseconds.
    pub delay_ms: u64,
    /// Of a thousand messages, so many are lost.
    pub lost_of_1000: u32,
    /// Of a thousand messages, so many come twice.
    pub doubled_of_1000: u32,
}

impl Default for Weather {
    fn default() -> Self {
        Self { delay_ms: 3, lost_of_1000: 0, doubled_of_1000: 0 }
    }
}

/// A server that can be reached: its log, and the disk that knows whether its machine still lives.
#[derive(Clone)]
pub struct Reachable {
    /// Its log.
    pub log: Log<SimMachine>,
    /// Its machine's disk.
    pub disk: SimDisk,
    /// What is around its log.
    pub shell: Arc<Shell>,
    /// Where it is.
    pub address: String,
}

/// The network.
pub struct Network {
    inner: Mutex<Inner>,
}

struct Inner {
    rng: SmallRng,
    weather: Weather,
    /// From, to: nothing that is sent so arrives.
    cut: BTreeSet<(NodeId, NodeId)>,
    servers: BTreeMap<NodeId, Reachable>,
}

impl Network {
    /// A network without anybody in it.
    pub fn new(seed: u64) -> Arc<Self> {
        let rng = SmallRng::seed_from_u64(seed);
        Arc::new(Self { inner: Mutex::new(Inner { rng, weather: Weather::default(), cut: BTreeSet::new(), servers: BTreeMap::new() }) })
    }

    /// Lets a server be reached, or not any more.
    pub fn plug(&self, id: NodeId, server: Option<Reachable>) {
        let mut inner = locked(&self.inner);
        match server {
            Some(server) => inner.servers.insert(id, server),
            None => inner.servers.remove(&id),
        };
    }

    /// Changes the weather.
    pub fn weather(&self, weather: Weather) {
        locked(&self.inner).weather = weather;
    }

    /// Cuts these directions.
    pub fn cut(&self, directions: &[(NodeId, NodeId)]) {
        locked(&self.inner).cut.extend(directions);
    }

    /// Mends these directions.
    pub fn mend(&self, directions: &[(NodeId, NodeId)]) {
        locked(&self.inner).cut.retain(|direction| !directions.contains(direction));
    }

    /// Mends everything.
    pub fn mend_all(&self) {
        let mut inner = locked(&self.inner);
        inner.cut.clear();
        inner.weather = Weather::default();
    }

    /// How long the next message takes; `None` when it is lost.
    pub fn passage(&self) -> Option<Duration> {
        let mut inner = locked(&self.inner);
        let weather = inner.weather;
        // Drawn in any case, so that a message is as long under way in good weather as in bad.
        let (lost, delay) = (inner.rng.random_range(0..1000), inner.rng.random_range(0..=weather.delay_ms));
        (lost >= weather.lost_of_1000).then(|| Duration::from_millis(delay))
    }

    /// How long the next message takes over a connection, which sends again what is lost.
    pub fn passage_surely(&self) -> Duration {
        const AGAIN_AFTER: Duration = Duration::from_millis(200);
        let mut waited = Duration::ZERO;
        loop {
            match self.passage() {
                Some(passage) => return waited + passage,
                None => waited += AGAIN_AFTER,
            }
        }
    }

    fn comes_twice(&self) -> bool {
        let mut inner = locked(&self.inner);
        let drawn = inner.rng.random_range(0..1000);
        drawn < inner.weather.doubled_of_1000
    }

    /// Whether nothing that is sent so arrives.
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        locked(&self.inner).cut.contains(&(from, to))
    }

    /// A server whose machine lives.
    pub fn server(&self, id: NodeId) -> Option<Reachable> {
        locked(&self.inner).servers.get(&id).filter(|server| !server.disk.is_dead()).cloned()
    }
}

impl Network {
    /// The server at an address, if its machine lives.
    pub fn server_at(&self, address: &str) -> Option<(NodeId, Reachable)> {
        let inner = locked(&self.inner);
        let found = inner.servers.iter().find(|(_, server)| server.address == address && !server.disk.is_dead());
        found.map(|(id, server)| (*id, server.clone()))
    }
}

/// One server's way to the others.
pub struct SimTransport {
    /// Whose.
    pub from: NodeId,
    /// The machine it is in.
    pub disk: SimDisk,
    /// The network.
    pub network: Arc<Network>,
}

impl Transport for SimTransport {
    fn send<'a>(&'a self, to: NodeId, _: &'a str, message: Bytes, within: Duration) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        Box::pin(async move {
            let lost = || TransportError::Lost("no answer".to_owned());
            let round_trip = self.round_trip(to, message);
            match tokio::time::timeout(within, round_trip).await {
                Ok(Some(answer)) => answer,
                // Silence is only known when the time is over.
                Ok(None) => {
                    tokio::time::sleep(within).await;
                    Err(lost())
                }
                Err(_) => Err(lost()),
            }
        })
    }
}

impl SimTransport {
    /// `None`: there will be no answer.
    async fn round_trip(&self, to: NodeId, message: Bytes) -> Option<Result<Bytes, TransportError>> {
        if self.disk.is_dead() {
            return None;
        }
        let twice = self.network.comes_twice();
        let there = self.network.passage();
        let second = if twice { self.network.passage() } else { None };
        if let Some(second) = second {
            let (network, from, message) = (Arc::clone(&self.network), self.from, message.clone());
            tokio::spawn(async move {
                tokio::time::sleep(second).await;
                if let Some(server) = network.server(to).filter(|_| !network.is_cut(from, to)) {
                    server.log.receive(message).await;
                }
            });
        }
        tokio::time::sleep(there?).await;
        if self.network.is_cut(self.from, to) {
            return None;
        }
        let Some(server) = self.network.server(to) else {
            return Some(Err(TransportError::Unreachable(format!("{to} is away"))));
        };
        // A sender that gives up takes nothing back.
        let Reachable { log, disk, .. } = server;
        let answer = tokio::spawn(async move { log.receive(message).await }).await.ok()?;
        let back = self.network.passage()?;
        tokio::time::sleep(back).await;
        (!self.network.is_cut(to, self.from) && !disk.is_dead()).then_some(Ok(answer))
    }
}
