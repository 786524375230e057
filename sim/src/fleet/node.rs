//! One simulated node: registers, sends heartbeats, watches its allocations and reports them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use songline_client::core::Jitter;
use songline_model::{AllocId, Allocation, Dur, NodeStatus};
use songline_rpc::{BlockingQuery, NodeAuth, NodeUpdateResponse, RpcError, Servers};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::allocs::Allocs;
use super::behaviour::Behaviour;
use super::clock::Clock;
use super::profile::Profile;
use super::reach::Reach;
use super::tally::Tally;

/// Delay after an error; up to the same time is added at random.
const RETRY: Dur = Dur::from_millis(500);
/// Delay of the next heartbeat when the servers name none.
const HEARTBEAT_RETRY: Dur = Dur::from_secs(1);

/// State that all nodes of a fleet share.
pub(super) struct Shared<R> {
    pub(super) reach: R,
    pub(super) profile: Profile,
    pub(super) behaviour: Arc<Behaviour>,
    pub(super) tally: Arc<Tally>,
    /// Woken when a node gets ready.
    pub(super) joined: Notify,
    pub(super) clock: Clock,
}

/// One registration of a node, until the servers know it no longer or the node dies.
struct Life<R: Reach> {
    shared: Arc<Shared<R>>,
    servers: Arc<R::Servers>,
    n: usize,
    auth: NodeAuth,
    allocs: Mutex<Allocs>,
    /// Woken when deadlines change.
    changed: Notify,
    jitter: Mutex<Jitter>,
}

/// Runs node number `n` until `stop`. The permit is given back once the node is ready.
pub(super) async fn run<R: Reach>(
    shared: Arc<Shared<R>>,
    n: usize,
    auth: NodeAuth,
    mut permit: Option<OwnedSemaphorePermit>,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let life = Life::new(Arc::clone(&shared), n, auth.clone());
        // Ends only when the servers do not know the node: it then registers again and has no allocations.
        tokio::select! {
            () = life.live(&mut permit) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// A ready node. Counted until it is dropped.
struct Ready(Arc<Tally>);

impl Ready {
    fn new(tally: &Arc<Tally>) -> Self {
        tally.ready.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(tally))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.0.ready.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<R: Reach> Life<R> {
    fn new(shared: Arc<Shared<R>>, n: usize, auth: NodeAuth) -> Self {
        let mut jitter = Jitter::new(uuid::Uuid::new_v4().as_u64_pair().0);
        let own = Jitter::new(jitter.next_u64());
        let allocs = Allocs::new(Arc::clone(&shared.behaviour), Arc::clone(&shared.tally), own);
        let servers = shared.reach.servers(n);
        Self {
            shared,
            servers,
            n,
            auth,
            allocs: Mutex::new(allocs),
            changed: Notify::new(),
            jitter: Mutex::new(jitter),
        }
    }

    async fn live(&self, permit: &mut Option<OwnedSemaphorePermit>) {
        let ttl = self.join().await;
        drop(permit.take());
        let _ready = Ready::new(&self.shared.tally);
        self.shared.joined.notify_waiters();
        tokio::select! {
            () = self.beat(ttl) => {}
            () = self.watch() => {}
            () = self.report() => {}
        }
    }

    /// Registers the node and reports it as ready, until the servers accept both. Returns the delay of the next
    /// heartbeat.
    async fn join(&self) -> Dur {
        loop {
            match self.try_join().await {
                Ok(answer) => return answer.heartbeat_ttl,
                Err(error) => {
                    tracing::debug!(node = %self.auth.id, %error, "a simulated node could not register");
                    self.pause(RETRY).await;
                }
            }
        }
    }

    async fn try_join(&self) -> Result<NodeUpdateResponse, RpcError> {
        let node = self.shared.profile.node(self.n, &self.auth, self.shared.clock.now());
        let answer = self.servers.node_register(node).await?;
        self.shared.reach.told(self.n, &answer);
        let answer = self.servers.node_update_status(&self.auth, NodeStatus::Ready).await?;
        self.shared.tally.registered.fetch_add(1, Ordering::Relaxed);
        Ok(answer)
    }

    /// Sends heartbeats. Returns when the servers do not know the node.
    async fn beat(&self, mut ttl: Dur) {
        loop {
            tokio::time::sleep(if ttl > Dur::ZERO { ttl } else { HEARTBEAT_RETRY }.to_std()).await;
            match self.servers.node_update_status(&self.auth, NodeStatus::Ready).await {
                Ok(answer) => {
                    self.shared.tally.heartbeats.fetch_add(1, Ordering::Relaxed);
                    self.shared.reach.told(self.n, &answer);
                    ttl = answer.heartbeat_ttl;
                    if answer.index != 0 {
                        self.shared.tally.missed.fetch_add(1, Ordering::Relaxed);
                        self.say_again().await;
                    }
                }
                Err(error) if is_unknown(&error) => return,
                Err(error) => {
                    tracing::debug!(node = %self.auth.id, %error, "a simulated node's heartbeat failed");
                    ttl = self.jitter.lock().stretched(RETRY);
                }
            }
        }
    }

    /// Reports the running allocations again, as the servers hold them.
    async fn say_again(&self) {
        let running = self.allocs.lock().running();
        if running.is_empty() {
            return;
        }
        // An error is not repeated: the servers ask again with the next heartbeat that finds the node not ready.
        if let Ok(fetched) = self.servers.alloc_get_allocs(&self.auth, running).await {
            self.allocs.lock().say_again(self.shared.clock.now(), &fetched);
            self.changed.notify_one();
        }
    }

    /// Follows the servers' list of the node's allocations. Does not return.
    async fn watch(&self) {
        let mut index = 0;
        loop {
            match self.follow(index).await {
                Ok(next) => index = next,
                Err(error) => {
                    tracing::debug!(node = %self.auth.id, %error, "a simulated node's call failed");
                    self.pause(RETRY).await;
                }
            }
        }
    }

    /// One blocking query and what follows from its answer. Returns the index of the next one.
    async fn follow(&self, index: u64) -> Result<u64, RpcError> {
        let query = BlockingQuery { min_index: index, max_wait: Dur::ZERO };
        let answer = self.servers.node_get_client_allocs(&self.auth, query).await?;
        if answer.index <= index {
            // A timeout, or the answer of a server that is behind: nothing may be dropped for it.
            return Ok(index);
        }
        let wanted = self.allocs.lock().on_listed(&answer.allocs);
        let lacks = if wanted.is_empty() {
            false
        } else {
            let fetched = self.servers.alloc_get_allocs(&self.auth, wanted.clone()).await?;
            let lacks = lacks_any(&wanted, &fetched, |id| answer.allocs.get(id).copied());
            self.allocs.lock().on_fetched(self.shared.clock.now(), fetched);
            lacks
        };
        self.changed.notify_one();
        if lacks {
            return Err(RpcError::remote("the server does not have all of the node's allocations yet"));
        }
        Ok(answer.index)
    }

    /// Carries out what is due, and sends updates. Does not return.
    async fn report(&self) {
        loop {
            let deadline = self.allocs.lock().next_deadline();
            tokio::select! {
                () = self.shared.clock.until(deadline) => {}
                () = self.changed.notified() => {}
            }
            let updates = self.allocs.lock().on_time(self.shared.clock.now());
            if updates.is_empty() {
                continue;
            }
            let count = updates.len() as u64;
            let sent = self.servers.node_update_alloc(&self.auth, updates).await;
            match &sent {
                Ok(_) => {
                    self.shared.tally.updates.fetch_add(count, Ordering::Relaxed);
                    self.shared.tally.update_calls.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => tracing::debug!(node = %self.auth.id, %error, "a simulated node's update failed"),
            }
            self.allocs.lock().on_sent(self.shared.clock.now(), sent.is_ok());
        }
    }

    async fn pause(&self, base: Dur) {
        let wait = self.jitter.lock().stretched(base);
        tokio::time::sleep(wait.to_std()).await;
    }
}

/// Whether the servers do not know the node, so that it has to register again.
fn is_unknown(error: &RpcError) -> bool {
    error.to_string().contains("node not found")
}

/// Whether an answer lacks a wanted allocation, or has it older than listed.
fn lacks_any(wanted: &[AllocId], fetched: &[Arc<Allocation>], listed: impl Fn(&AllocId) -> Option<u64>) -> bool {
    fetched.len() < wanted.len()
        || fetched.iter().any(|alloc| listed(&alloc.id).is_some_and(|index| alloc.alloc_modify_index < index))
}
