//! The loops of a node agent that speak with its servers: registration and heartbeats, the allocations of the node,
//! reports of them, and events of the node.
//!
//! [`crate::core`] decides when. The surroundings of the loops are the trait [`Host`]: the factory of the runners of allocations,
//! and the stored state. The agent of a machine has one host (`agent/host.rs`), a simulated node another.

mod allocs;
mod disconnect;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_model::{AllocClientStatus, AllocId, Allocation, Dur, Node, NodeEvent, NodeStatus, Str, Time};
use songline_rpc::{AllocReport, NodeAuth, RpcError, Servers};
use tokio::sync::{Notify, watch};

pub use self::allocs::Left;
use crate::clock::Clock;
use crate::core::{AllocRunner, AllocSync, Heartbeats, Input, NextCall};
use crate::driver::Boxed;

/// Time for which one call is retried while there is no leader.
const RPC_HOLD: Duration = Duration::from_secs(5);
/// Retry delay after any error in dev mode, where the only server is in the same process.
pub(crate) const DEV_RETRY: Duration = Duration::from_secs(1);
/// Delay of node events, in which later ones join the batch.
const EVENT_WAIT: Dur = Dur::from_secs(5);
/// Largest number of node events that wait. Surplus ones are dropped, oldest first: they only inform operators.
const EVENTS_MAX: usize = 11;

/// The runner of one allocation, as the loops use it.
pub trait Runner: Send + Sync + 'static {
    /// Sends an input to the allocation's state machine. The runner also stores the copy of an update: only the runner
    /// knows whether an earlier one of the same allocation has still to remove what it stored.
    fn tell(&self, input: Input);

    /// Reports that the servers reconnected to this node. `update` is their copy of the allocation.
    fn reconnect(&self, update: Arc<Allocation>);

    /// The servers' copy of the allocation.
    fn alloc(&self) -> Arc<Allocation>;

    /// The allocation's state as it was last reported.
    fn report(&self) -> AllocReport;

    /// Whether the allocation's directory and records are gone.
    fn is_destroyed(&self) -> bool;
}

/// How the runner of an allocation begins.
pub enum Begin<R, S> {
    /// Nothing of the allocation is on this node.
    Anew,
    /// As `Anew`, once this earlier runner of the same allocation is destroyed. The new one then stores the servers'
    /// newest copy, because the end of the earlier one removes it.
    After(Arc<R>),
    /// An earlier agent left the allocation with this state.
    Restored(S),
}

/// Surroundings of the loops of a node: the factory of runners, and the state that outlives the agent.
pub trait Host: Send + Sync + 'static {
    /// Runners of allocations.
    type Runner: Runner;
    /// Stored state from which a runner goes on after a restart of the agent.
    type Restored: Send;

    /// Why the allocation's tasks cannot run here. `None`: they can.
    fn refusal(&self, alloc: &Allocation) -> Option<String>;

    /// Upper bound of the kill timeouts of tasks.
    fn kill_timeout_max(&self) -> Dur;

    /// Starts the runner of an allocation.
    fn start(&self, machine: AllocRunner, begin: Begin<Self::Runner, Self::Restored>) -> Arc<Self::Runner>;

    /// Stores that the servers know this node.
    fn put_registered(&self);

    /// Stores the servers' copy of an allocation that is new to this node.
    fn put_alloc(&self, alloc: &Arc<Allocation>);

    /// Stores a report that the servers have acknowledged.
    fn put_acknowledged(&self, report: &AllocReport);

    /// Drops all stored state of an allocation.
    fn forget(&self, id: &AllocId);

    /// Takes the tokens for the data of other nodes' allocations, by the allocation of this node that may take it over.
    fn take_migrate_tokens(&self, _tokens: BTreeMap<AllocId, Str>) {}

    /// Makes room for allocations before their runners start.
    fn make_room(&self, _coming: &[Arc<Allocation>]) {}

    /// The runners are those that the servers want.
    fn on_synced(&self) {}

    /// The node is registered.
    fn on_registered(&self) {}

    /// The servers count the node as ready again.
    fn on_reconnected(&self) {}
}

/// The runners of a node, by allocation. Also the host has them.
pub type Runners<R> = Arc<Mutex<BTreeMap<AllocId, Arc<R>>>>;

/// State that the loops of a node share.
pub struct Loops<S: Servers, H: Host> {
    servers: Arc<S>,
    auth: NodeAuth,
    clock: Clock,
    /// Whether the only server is in this process: then waits after errors are short.
    dev: bool,
    host: H,
    /// The node as it registers.
    node: Arc<Mutex<Arc<Node>>>,
    runners: Runners<H::Runner>,
    /// Runners that were told to destroy their allocations. The servers may want such an allocation again, if they went
    /// back to an earlier state.
    leaving: Mutex<BTreeMap<AllocId, Arc<H::Runner>>>,
    /// Allocations that could not be set up: not tried again until the servers drop them.
    invalid: Mutex<BTreeSet<AllocId>>,
    sync: Mutex<AllocSync>,
    sync_wake: Notify,
    registered: watch::Sender<bool>,
    register_again: Notify,
    node_changed: Notify,
    events: Mutex<Vec<NodeEvent>>,
    events_wake: Notify,
    /// Time at which the servers last answered this node.
    heard_at: Mutex<Option<Time>>,
    /// Server addresses as the servers last sent them; a transport uses them.
    servers_known: Mutex<Vec<Str>>,
}

/// A node as its loops begin.
pub struct Beginning<R> {
    /// Credentials of the node.
    pub auth: NodeAuth,
    /// Clock of the machine.
    pub clock: Clock,
    /// Whether the only server is in this process: then waits after errors are short.
    pub dev: bool,
    /// The node as it registers; shared with the host.
    pub node: Arc<Mutex<Arc<Node>>>,
    /// Runners, none at first; shared with the host.
    pub runners: Runners<R>,
    /// Whether the servers know the node from an earlier agent.
    pub registered: bool,
}

impl<S: Servers, H: Host> Loops<S, H> {
    /// Loops that do not run yet.
    pub fn new(beginning: Beginning<H::Runner>, servers: Arc<S>, host: H) -> Arc<Self> {
        let Beginning { auth, clock, dev, node, runners, registered } = beginning;
        Arc::new(Self {
            servers,
            auth,
            dev,
            host,
            node,
            runners,
            leaving: Mutex::default(),
            invalid: Mutex::default(),
            sync: Mutex::new(AllocSync::new(clock.now(), clock.jitter())),
            sync_wake: Notify::new(),
            registered: watch::Sender::new(registered),
            register_again: Notify::new(),
            node_changed: Notify::new(),
            events: Mutex::default(),
            events_wake: Notify::new(),
            heard_at: Mutex::default(),
            servers_known: Mutex::default(),
            clock,
        })
    }

    /// The loops, to be spawned. None ends by itself.
    pub fn all_loops(self: &Arc<Self>) -> [Boxed<'static, ()>; 5] {
        [
            Box::pin(Arc::clone(self).keep_registered()),
            Box::pin(Arc::clone(self).send_updates()),
            Box::pin(Arc::clone(self).watch()),
            Box::pin(Arc::clone(self).emit_events()),
            Box::pin(Arc::clone(self).stop_when_cut_off()),
        ]
    }

    /// Credentials of the node.
    pub fn auth(&self) -> &NodeAuth {
        &self.auth
    }

    /// The servers.
    pub fn servers(&self) -> &Arc<S> {
        &self.servers
    }

    /// The node's current description of itself.
    pub fn node(&self) -> Arc<Node> {
        Arc::clone(&self.node.lock())
    }

    /// The runners of the node.
    pub fn all(&self) -> BTreeMap<AllocId, Arc<H::Runner>> {
        self.runners.lock().clone()
    }

    /// The servers' addresses as they last sent them.
    pub fn servers_known(&self) -> Vec<Str> {
        self.servers_known.lock().clone()
    }

    /// Changes the node's row in one step: several loops change it side by side, and none may undo the change of another.
    /// The row stays as it was if `change` returns false; otherwise [`Self::node_changed`] reports it. Returns what
    /// `change` returned.
    pub fn change_node(&self, change: impl FnOnce(&mut Node) -> bool) -> bool {
        let mut known = self.node.lock();
        let mut node = Node::clone(&known);
        let changed = change(&mut node);
        if changed {
            *known = Arc::new(node);
        }
        changed
    }

    /// Reports the changed row of the node to the servers.
    pub fn node_changed(&self) {
        self.node_changed.notify_one();
    }

    /// Takes the newest report of an allocation's runner for the servers.
    pub fn report(&self, id: &AllocId) {
        // An allocation that the servers have dropped has nothing to report. The caller may speak for a runner that was
        // replaced, whose report does not count any more.
        let report = self.runners.lock().get(id).map(|runner| runner.report());
        if let Some(report) = report {
            self.sync.lock().put(self.now(), report);
            self.sync_wake.notify_one();
        }
    }

    /// Sends an event of the node to the servers, some time later.
    pub fn emit(&self, event: NodeEvent) {
        let mut events = self.events.lock();
        events.push(event);
        let surplus = events.len().saturating_sub(EVENTS_MAX);
        events.drain(..surplus);
        self.events_wake.notify_one();
    }

    /// Makes a call, and repeats it while there is no leader, for at most `RPC_HOLD`.
    pub async fn call<T, F: Future<Output = Result<T, RpcError>>>(
        &self,
        mut make: impl FnMut() -> F,
    ) -> Result<T, RpcError> {
        let until = tokio::time::Instant::now() + RPC_HOLD;
        loop {
            match make().await {
                Err(RpcError::NoLeader) if tokio::time::Instant::now() < until => {
                    let wait = self.clock.jitter().below(Dur::from(RPC_HOLD / 16));
                    tokio::time::sleep(wait.to_std()).await;
                }
                answer => return answer,
            }
        }
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    /// Delay after an error, with jitter; in dev mode constant.
    fn retry_wait(&self, base: Dur) -> Duration {
        if self.dev { DEV_RETRY.min(base.to_std()) } else { self.clock.jitter().stretched(base).to_std() }
    }

    async fn until_registered(&self) {
        let mut registered = self.registered.subscribe();
        // Fails only when the agent is gone.
        let _ = registered.wait_for(|is| *is).await;
    }

    async fn keep_registered(self: Arc<Self>) {
        let mut beats = Heartbeats::new(self.now(), self.dev, self.clock.jitter());
        loop {
            let (call, at) = beats.next();
            tokio::select! {
                () = self.node_changed.notified() => { beats.on_change(self.now()); continue }
                () = self.register_again.notified() => { beats.register_again(self.now()); continue }
                () = self.clock.until(Some(at)) => {}
            }
            match call {
                NextCall::Register => self.register(&mut beats).await,
                NextCall::Heartbeat => self.heartbeat(&mut beats).await,
            }
            *self.heard_at.lock() = beats.heard_at();
        }
    }

    async fn register(&self, beats: &mut Heartbeats) {
        let node = Node::clone(&self.node());
        match self.call(|| self.servers.node_register(node.clone())).await {
            Ok(answer) => {
                self.change_node(|node| {
                    node.status = NodeStatus::Ready;
                    node.scheduling_eligibility = answer.eligibility;
                    true
                });
                *self.servers_known.lock() = answer.servers;
                beats.on_registered(self.now(), answer.heartbeat_ttl);
                if !self.registered.send_replace(true) {
                    self.host.put_registered();
                }
                tracing::info!(node = %self.auth.id, "node registration complete");
                self.host.on_registered();
            }
            Err(error) => {
                tracing::warn!(%error, "registering the node");
                let away =
                    matches!(error, RpcError::NoLeader | RpcError::Lost(_)) || error.to_string().contains("no servers");
                beats.on_register_failed(self.now(), away);
            }
        }
    }

    async fn heartbeat(&self, beats: &mut Heartbeats) {
        match self.call(|| self.servers.node_update_status(&self.auth, NodeStatus::Ready)).await {
            Ok(answer) => {
                if answer.index != 0 {
                    tracing::debug!("the servers had not counted this node as ready");
                    self.host.on_reconnected();
                    self.say_again();
                }
                *self.servers_known.lock() = answer.servers;
                beats.on_heartbeat(self.now(), answer.heartbeat_ttl);
            }
            Err(error) if error.to_string().contains("node not found") => beats.register_again(self.now()),
            Err(error) => {
                tracing::warn!(%error, "heartbeat");
                beats.on_heartbeat_failed(self.now(), error == RpcError::NoLeader);
            }
        }
    }

    /// Reports all running allocations again: the servers may know their status, but requested it.
    fn say_again(&self) {
        let runs = |report: &AllocReport| report.client_status == AllocClientStatus::Running;
        let known: Vec<AllocReport> = self.runners.lock().values().map(|runner| runner.report()).filter(runs).collect();
        self.sync.lock().say_again(self.now(), known);
        self.sync_wake.notify_one();
    }

    async fn send_updates(self: Arc<Self>) {
        self.until_registered().await;
        loop {
            let deadline = self.sync.lock().next_deadline(self.now());
            tokio::select! {
                () = self.sync_wake.notified() => continue,
                () = self.clock.until(deadline) => {}
            }
            let Some(batch) = self.sync.lock().on_time(self.now()) else { continue };
            let sent = self.call(|| self.servers.node_update_alloc(&self.auth, batch.clone())).await;
            if let Err(error) = &sent {
                tracing::warn!(%error, "updating allocations");
            }
            let acknowledged = self.sync.lock().on_sent(self.now(), sent.is_ok());
            for report in acknowledged {
                // The state of an allocation that was destroyed meanwhile must not be stored again.
                if self.runners.lock().get(&report.id).is_some_and(|runner| !runner.is_destroyed()) {
                    self.host.put_acknowledged(&report);
                }
            }
        }
    }

    async fn emit_events(self: Arc<Self>) {
        self.until_registered().await;
        loop {
            self.events_wake.notified().await;
            tokio::time::sleep(self.retry_wait(EVENT_WAIT)).await;
            let events = std::mem::take(&mut *self.events.lock());
            if let Err(error) = self.call(|| self.servers.node_emit_events(&self.auth, events.clone())).await {
                tracing::warn!(%error, "telling of the node's events");
            }
        }
    }
}
