//! The network between simulated machines: messages of consensus are delayed, lost, duplicated, reordered, or cut off
//! by a partition; connections carry everything else.

mod tcp;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_log::{Log, NodeId, Transport, TransportError};
use songline_server::Machine;

use super::disk::SimDisk;

pub use tcp::Tcp;

/// Current quality of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weather {
    /// Longest delay of a message, in milliseconds.
    pub delay_ms: u64,
    /// Lost messages in a thousand.
    pub lost_of_1000: u32,
    /// Duplicated messages in a thousand.
    pub doubled_of_1000: u32,
}

impl Default for Weather {
    fn default() -> Self {
        Self { delay_ms: 3, lost_of_1000: 0, doubled_of_1000: 0 }
    }
}

/// A reachable server: its log, and its disk, which knows whether its machine still runs.
#[derive(Clone)]
pub struct Reachable {
    /// Log.
    pub log: Log<Machine>,
    /// Disk of its machine.
    pub disk: SimDisk,
}

/// Number of the first node: nodes are beyond all servers.
const FIRST_NODE: u64 = 1 << 32;

/// The network's number of a node.
pub fn number_of(node: usize) -> u64 {
    FIRST_NODE + node as u64
}

/// The network.
pub struct Network {
    inner: Mutex<Inner>,
}

struct Inner {
    rng: SmallRng,
    weather: Weather,
    /// Cut directions (from, to): no message in such a direction arrives.
    cut: BTreeSet<(NodeId, NodeId)>,
    servers: BTreeMap<NodeId, Reachable>,
    /// Ports by their addresses.
    ports: BTreeMap<String, tcp::Port>,
}

impl Network {
    /// Creates a network without servers.
    pub fn new(seed: u64) -> Arc<Self> {
        let rng = SmallRng::seed_from_u64(seed);
        Arc::new(Self {
            inner: Mutex::new(Inner {
                rng,
                weather: Weather::default(),
                cut: BTreeSet::new(),
                servers: BTreeMap::new(),
                ports: BTreeMap::new(),
            }),
        })
    }

    /// Makes a server reachable, or unreachable with `None`.
    pub fn plug(&self, id: NodeId, server: Option<Reachable>) {
        let mut inner = self.inner.lock();
        match server {
            Some(server) => inner.servers.insert(id, server),
            None => inner.servers.remove(&id),
        };
    }

    /// Changes the quality of the network.
    pub fn weather(&self, weather: Weather) {
        self.inner.lock().weather = weather;
    }

    /// Cuts these directions.
    pub fn cut(&self, directions: &[(NodeId, NodeId)]) {
        self.inner.lock().cut.extend(directions);
    }

    /// Restores these directions.
    pub fn mend(&self, directions: &[(NodeId, NodeId)]) {
        self.inner.lock().cut.retain(|direction| !directions.contains(direction));
    }

    /// Restores all directions.
    pub fn mend_all(&self) {
        let mut inner = self.inner.lock();
        inner.cut.clear();
        inner.weather = Weather::default();
    }

    /// Delay of the next message; `None` when it is lost.
    pub fn passage(&self) -> Option<Duration> {
        let mut inner = self.inner.lock();
        let weather = inner.weather;
        // Both are drawn in any case, so that the loss rate does not change the sequence of delays.
        let (lost, delay) = (inner.rng.random_range(0..1000), inner.rng.random_range(0..=weather.delay_ms));
        (lost >= weather.lost_of_1000).then(|| Duration::from_millis(delay))
    }

    /// Delay of the next message over a connection, which resends lost messages.
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
        let mut inner = self.inner.lock();
        let drawn = inner.rng.random_range(0..1000);
        drawn < inner.weather.doubled_of_1000
    }

    /// Whether messages in this direction are cut off.
    pub fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.inner.lock().cut.contains(&(from, to))
    }

    /// A server whose machine runs.
    pub fn server(&self, id: NodeId) -> Option<Reachable> {
        self.inner.lock().servers.get(&id).filter(|server| !server.disk.is_dead()).cloned()
    }
}

impl Network {
    /// Opens a port, in place of one that another life had opened at the address.
    fn open_port(&self, address: &str, port: tcp::Port) {
        self.inner.lock().ports.insert(address.to_owned(), port);
    }

    /// The port at an address.
    fn port(&self, address: &str) -> Option<tcp::Port> {
        self.inner.lock().ports.get(address).cloned()
    }
}

/// Carries one server's messages of consensus.
pub struct SimTransport {
    /// Machine of the sending server.
    pub from: NodeId,
    /// Disk of its machine.
    pub disk: SimDisk,
    /// The network.
    pub network: Arc<Network>,
}

impl Transport for SimTransport {
    fn send<'a>(
        &'a self,
        _: NodeId,
        address: &'a str,
        message: Bytes,
        within: Duration,
    ) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        Box::pin(async move {
            let lost = || TransportError::Lost("no answer".to_owned());
            let Some(to) = machine_at(address) else {
                return Err(TransportError::Unreachable(format!("nothing is at {address}")));
            };
            let round_trip = self.round_trip(to, message);
            match tokio::time::timeout(within, round_trip).await {
                Ok(Some(answer)) => answer,
                // A missing answer is known only at the timeout.
                Ok(None) => {
                    tokio::time::sleep(within).await;
                    Err(lost())
                }
                Err(_) => Err(lost()),
            }
        })
    }
}

/// Number of the machine at an address.
fn machine_at(address: &str) -> Option<u64> {
    address.strip_prefix("machine-")?.split_once(':')?.0.parse().ok()
}

impl SimTransport {
    /// Sends a message and returns the answer; `None` when there will be none.
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
        // The receiver processes a message even if its sender gives up.
        let Reachable { log, disk, .. } = server;
        let answer = tokio::spawn(async move { log.receive(message).await }).await.ok()?;
        let back = self.network.passage()?;
        tokio::time::sleep(back).await;
        (!self.network.is_cut(to, self.from) && !disk.is_dead()).then_some(Ok(answer))
    }
}
