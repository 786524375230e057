//! Thousands of simulated nodes in one process: each speaks the whole node RPC, and none has processes. For load on
//! servers, and for tests of them.
//!
//! A node registers, sends heartbeats when the servers say, watches its allocations with blocking queries, and reports
//! them through their states as [`Behaviour`] says. Time is real: [`crate::simulation`] is the simulation with a clock of
//! its own.

mod allocs;
mod behaviour;
mod clock;
mod node;
mod profile;
mod reach;
mod reports;
mod tally;
mod updates;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_client::core::Jitter;
use songline_model::{NodeId, NodeStatus};
use songline_rpc::{NodeAuth, Servers};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use behaviour::{Behaviour, Delay, RunFor, duration_of};
pub use profile::Profile;
pub use reach::{InProcess, Lanes, OnLane, Reach};
pub use tally::Counts;

use clock::Clock;
use node::Shared;
use tally::Tally;

/// Number of nodes that join, or leave, at a time: each waits for two durable writes.
const JOINING_MAX: usize = 64;
/// Longest wait between two looks at the number of ready nodes.
const LOOK: Duration = Duration::from_millis(200);

/// Size and nature of a fleet.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// Number of nodes.
    pub count: usize,
    /// Most registrations per second; 0: as fast as the servers accept them.
    pub start_rate: u32,
    /// Description that the nodes register.
    pub profile: Profile,
    /// How their allocations behave.
    pub behaviour: Behaviour,
}

/// Running simulated nodes. They end when the fleet is dropped; the servers learn of it by missing heartbeats.
pub struct Fleet<R: Reach> {
    shared: Arc<Shared<R>>,
    nodes: Arc<Nodes>,
    jitter: Mutex<Jitter>,
}

/// The nodes by number.
struct Nodes {
    auths: Vec<NodeAuth>,
    /// `None`: the node is dead, or was not started yet.
    lives: Mutex<BTreeMap<usize, CancellationToken>>,
    stop: CancellationToken,
}

impl Fleet<Lanes> {
    /// Starts nodes that reach servers over connections. Failed calls are counted with the name of the server.
    pub fn over(options: FleetOptions, lanes: Lanes) -> Self {
        let tally = Arc::new(Tally::default());
        lanes.count_errors(&tally);
        Self::with(options, lanes, tally)
    }
}

impl<R: Reach> Fleet<R> {
    /// Starts nodes in the background: [`Self::all_ready`] waits for them.
    pub fn start(options: FleetOptions, reach: R) -> Self {
        Self::with(options, reach, Arc::default())
    }

    fn with(options: FleetOptions, reach: R, tally: Arc<Tally>) -> Self {
        let FleetOptions { count, start_rate, profile, behaviour } = options;
        let auths = (0..count).map(|n| profile.auth(n)).collect();
        let shared = Arc::new(Shared {
            reach,
            profile,
            behaviour: Arc::new(behaviour),
            tally,
            joined: Notify::new(),
            clock: Clock::start(),
        });
        let nodes = Arc::new(Nodes { auths, lives: Mutex::default(), stop: CancellationToken::new() });
        tokio::spawn(launch(Arc::clone(&shared), Arc::clone(&nodes), start_rate));
        let seed = uuid::Uuid::new_v4().as_u64_pair().0;
        Self { shared, nodes, jitter: Mutex::new(Jitter::new(seed)) }
    }

    /// Current counts.
    pub fn counts(&self) -> Counts {
        self.shared.tally.counts()
    }

    /// Errors of calls since this was last asked, by text, with how often each came. The text names the server.
    pub fn take_errors(&self) -> BTreeMap<String, u64> {
        self.shared.tally.take_errors()
    }

    /// Ids of all nodes, by number.
    pub fn ids(&self) -> Vec<NodeId> {
        self.nodes.auths.iter().map(|auth| auth.id).collect()
    }

    /// Waits until all nodes that live are ready. An error after `within`.
    pub async fn all_ready(&self, within: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let joined = self.shared.joined.notified();
            let (ready, wanted) = (self.counts().ready, self.wanted());
            if ready >= wanted {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let errors = self.shared.tally.errors();
                anyhow::bail!("only {ready} of {wanted} nodes are ready after {} s: {errors:?}", within.as_secs());
            }
            // The bound is for nodes that get ready just now.
            let _ = tokio::time::timeout(LOOK, joined).await;
        }
    }

    /// Number of nodes that are to be ready: all but the dead.
    fn wanted(&self) -> i64 {
        let launching = self.nodes.auths.len();
        let lives = self.nodes.lives.lock();
        let dead = lives.values().filter(|life| life.is_cancelled()).count();
        i64::try_from(launching - dead).unwrap_or(i64::MAX)
    }

    /// Kills up to `count` nodes at random: they fall silent, and their allocations are gone. Returns their numbers.
    pub fn kill(&self, count: usize) -> Vec<usize> {
        let lives = self.nodes.lives.lock();
        let mut living: Vec<_> = lives.iter().filter(|(_, life)| !life.is_cancelled()).map(|(n, _)| *n).collect();
        let mut killed = Vec::new();
        while killed.len() < count && !living.is_empty() {
            let at = usize::try_from(self.jitter.lock().next_u64() % living.len() as u64).unwrap_or(0);
            let n = living.swap_remove(at);
            if let Some(life) = lives.get(&n) {
                life.cancel();
            }
            killed.push(n);
        }
        killed
    }

    /// Starts dead nodes again. They have the same identities, and know no allocations.
    pub fn revive(&self, numbers: &[usize]) {
        for n in numbers.iter().copied().filter(|n| *n < self.nodes.auths.len()) {
            let is_dead = self.nodes.lives.lock().get(&n).is_some_and(CancellationToken::is_cancelled);
            if is_dead {
                start(&self.shared, &self.nodes, n, None);
            }
        }
    }

    /// Stops all nodes. The servers learn of it by missing heartbeats.
    pub fn stop(&self) {
        self.nodes.stop.cancel();
    }

    /// Stops all nodes and reports them to the servers as down. Returns how many reports the servers accepted.
    pub async fn leave(&self) -> usize {
        self.stop();
        let started: Vec<_> = self.nodes.lives.lock().keys().copied().collect();
        let mut leaving = JoinSet::new();
        let mut accepted = 0;
        for n in started {
            let (servers, auth) = (self.shared.reach.servers(n), self.nodes.auths[n].clone());
            leaving.spawn(async move { servers.node_update_status(&auth, NodeStatus::Down).await.is_ok() });
            if leaving.len() >= JOINING_MAX {
                accepted += usize::from(matches!(leaving.join_next().await, Some(Ok(true))));
            }
        }
        while let Some(left) = leaving.join_next().await {
            accepted += usize::from(matches!(left, Ok(true)));
        }
        accepted
    }
}

impl<R: Reach> Drop for Fleet<R> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Starts all nodes, a bounded number at a time.
async fn launch<R: Reach>(shared: Arc<Shared<R>>, nodes: Arc<Nodes>, rate: u32) {
    let joining = Arc::new(Semaphore::new(JOINING_MAX));
    let between = if rate == 0 { Duration::ZERO } else { Duration::from_secs(1) / rate };
    let mut at = Instant::now();
    for n in 0..nodes.auths.len() {
        let joins = async {
            tokio::time::sleep_until(at).await;
            Arc::clone(&joining).acquire_owned().await.ok()
        };
        let permit = tokio::select! {
            permit = joins => permit,
            () = nodes.stop.cancelled() => return,
        };
        at += between;
        start(&shared, &nodes, n, permit);
    }
}

fn start<R: Reach>(shared: &Arc<Shared<R>>, nodes: &Nodes, n: usize, permit: Option<OwnedSemaphorePermit>) {
    let life = nodes.stop.child_token();
    nodes.lives.lock().insert(n, life.clone());
    tokio::spawn(node::run(Arc::clone(shared), n, nodes.auths[n].clone(), permit, life));
}
