//! The node agent: registers, sends heartbeats, fetches the allocations assigned to it, runs them, and reports their
//! status.
//!
//! Four independent loops: heartbeats, watching, sending updates, garbage collection. [`crate::serve`] answers
//! requests to the node.

mod allocs;
mod consul_agent;
mod counts;
mod disconnect;
mod drain;
mod gc;
mod machine;
mod plugins;
mod publish;
mod vault;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::counts::Counts;
use parking_lot::Mutex;
use songline_model::{AllocClientStatus, AllocId, Allocation, Dur, Node, NodeEvent, NodeId, NodeStatus, Secret, Time};
use songline_rpc::{AllocReport, Gauge, NodeAuth, NodeMeta, RpcError, Servers};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::checks;
use crate::clock::Clock;
use crate::config::ClientConfig;
use crate::core::{AllocSync, Heartbeats, Input, NextCall};
use crate::csi;
use crate::meta::{Dynamic, Layers};
use crate::network::Networks;
use crate::runner::{News, Runner, Shared, Waits};
use crate::services::AtServers;
use crate::state::{Contents, StateDb, StateError};
use crate::{consul, driver, fingerprint, meta, options, previous, vault as of_vault};

/// Time for which one call is retried while there is no leader.
const RPC_HOLD: Duration = Duration::from_secs(5);
/// Retry delay after any error in dev mode, where the only server is in the same process.
const DEV_RETRY: Duration = Duration::from_secs(1);
/// Interval at which drivers are fingerprinted.
const FINGERPRINT_PERIOD: Duration = Duration::from_secs(30);
/// Delay of node events, in which later ones join the batch.
const EVENT_WAIT: Dur = Dur::from_secs(5);
/// Longest time of stopping all allocations, beyond the longest kill timeout.
const STOP_MAX: Duration = Duration::from_secs(60);

/// Reasons why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A directory of the agent cannot be created.
    #[error("creating {dir}")]
    Directory {
        /// Path of the directory.
        dir: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A host volume's directory does not exist.
    #[error("failed to validate volume {name}, err: {source}")]
    HostVolume {
        /// Name of the volume.
        name: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A setting of another system cannot be used.
    #[error("{0}")]
    Setting(String),
    /// The agent's stored state cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The thread that opens the state ended early.
    #[error("opening the agent's state")]
    Interrupted(#[source] tokio::task::JoinError),
}

/// A running node agent. Dropping it leaves the tasks running; a later agent finds them again.
pub struct Client<S: Servers> {
    pub(crate) inner: Arc<Inner<S>>,
    database: Mutex<Option<std::thread::JoinHandle<()>>>,
}

pub(crate) struct Inner<S: Servers> {
    pub shared: Arc<Shared>,
    servers: Arc<S>,
    pub(crate) auth: NodeAuth,
    pub runners: Arc<Mutex<BTreeMap<AllocId, Arc<Runner>>>>,
    /// Allocations that could not be set up: not tried again until the servers drop them.
    invalid: Mutex<BTreeSet<AllocId>>,
    /// Tokens for the data of previous allocations, as of the servers' last answer.
    tokens: previous::MigrateTokens,
    sync: Mutex<AllocSync>,
    sync_wake: Notify,
    registered: watch::Sender<bool>,
    register_again: Notify,
    node_changed: Notify,
    collect: Notify,
    events: Mutex<Vec<NodeEvent>>,
    events_wake: Notify,
    /// Time at which the servers last answered this node.
    heard_at: Mutex<Option<Time>>,
    /// Server addresses as the servers last sent them; a transport uses them.
    servers_known: Mutex<Vec<songline_model::Str>>,
    /// Gauges as they were last read.
    gauges: Mutex<Arc<Vec<Gauge>>>,
    /// Locked while a change is written, so that changes reach the disk in order.
    meta: tokio::sync::Mutex<Layers>,
}

impl<S: Servers> Client<S> {
    /// Starts an agent: restores the state that an earlier one left in the data directory, then connects to the
    /// servers.
    pub async fn start(config: ClientConfig, servers: Arc<S>) -> Result<Self, StartError> {
        let clock = Clock::start(Arc::clone(&config.world));
        options::warn_of_unknown(&config);
        directories(&config)?;
        let consul_agent = config.consul.as_ref().map(consul::Agent::new).transpose().map_err(StartError::Setting)?;
        let dir = config.state_dir().join("client.db");
        let opened = tokio::task::spawn_blocking(move || StateDb::open(&dir)).await.map_err(StartError::Interrupted)?;
        let (state, contents, thread) = opened?;
        let Contents { identity, registered, meta, allocs } = contents;
        let auth = match identity.as_deref().and_then(parse_identity) {
            Some(auth) => auth,
            None => {
                let fresh = || clock.world().uuid();
                let id = machine::id_of_machine(&config).unwrap_or_else(fresh);
                let auth = NodeAuth { id: NodeId::from(id), secret: Secret::new(fresh().to_string()) };
                state.put_identity(format!("{}\n{}", auth.id, auth.secret.reveal())).await;
                auth
            }
        };
        let drivers = driver::all(&config);
        let mut node = first_node(&config, &auth, &drivers, clock.now()).await;
        if let Some(agent) = &consul_agent
            && let Ok(print) = consul::print(agent).await
        {
            fingerprint::apply_consul(&mut node, &print);
        }
        let tokens = of_vault::AtServers { servers: Arc::clone(&servers), auth: auth.clone() };
        let vault = config.vault.as_ref().map(|settings| of_vault::Access::new(settings, Arc::new(tokens)));
        let vault = vault.transpose().map_err(StartError::Setting)?;
        if let Some(access) = vault.as_ref().filter(|_| vault::is_wanted(&config)) {
            vault::first_look(&access.vault, &mut node).await;
        }
        let layers = Layers::new(node.meta.take().unwrap_or_default(), meta);
        node.meta = Some(layers.merged());
        let (news, inbox) = mpsc::unbounded_channel();
        let runners: Arc<Mutex<BTreeMap<AllocId, Arc<Runner>>>> = Arc::default();
        let tokens = previous::MigrateTokens::default();
        let earlier = previous::AtServers {
            runners: Arc::downgrade(&runners),
            servers: Arc::clone(&servers),
            auth: auth.clone(),
            clock: clock.clone(),
            retry: config.dev.then_some(DEV_RETRY),
            tokens: Arc::clone(&tokens),
            region: config.region.clone(),
            http_ca_pem: config.http_ca_pem.clone(),
        };
        let networks = Networks::new(&config, &drivers);
        let node_events = news.clone();
        let shared = Arc::new(Shared {
            config,
            clock: clock.clone(),
            drivers,
            state,
            node: Mutex::new(Arc::new(node)),
            cancel: CancellationToken::new(),
            tracker: TaskTracker::new(),
            news,
            earlier: Arc::new(earlier),
            registrar: Arc::new(AtServers { servers: Arc::clone(&servers), auth: auth.clone() }),
            consul: consul_agent.map(|agent| Arc::new(consul::Registrations::new(agent, auth.id))),
            vault,
            volumes: Arc::new(csi::Volumes::new(Arc::default(), clock.clone(), move |event| {
                // Fails only when the agent is gone.
                let _ = node_events.send(News::NodeEvent(Box::new(event)));
            })),
            claims: Arc::new(csi::AtServers { servers: Arc::clone(&servers), auth: auth.clone() }),
            checks: checks::Runs::default(),
            networks,
            sessions: Arc::new(tokio::sync::Semaphore::new(crate::serve::SESSIONS_MAX)),
            counts: Counts::new(clock.now()),
            waits: Waits::default(),
        });
        let inner = Arc::new(Inner {
            servers,
            auth,
            runners,
            invalid: Mutex::default(),
            tokens,
            sync: Mutex::new(AllocSync::new(clock.now(), clock.jitter())),
            sync_wake: Notify::new(),
            registered: watch::Sender::new(registered),
            register_again: Notify::new(),
            node_changed: Notify::new(),
            collect: Notify::new(),
            events: Mutex::default(),
            events_wake: Notify::new(),
            heard_at: Mutex::default(),
            servers_known: Mutex::default(),
            gauges: Mutex::default(),
            meta: tokio::sync::Mutex::new(layers),
            shared: Arc::clone(&shared),
        });
        inner.restore(allocs);
        let tracker = &shared.tracker;
        let all = shared.cancel.clone();
        let until_stopped = |loops: driver::Boxed<'static, ()>| {
            let all = all.clone();
            tracker.spawn(async move {
                tokio::select! { () = all.cancelled() => {}, () = loops => {} }
            });
        };
        let (sweeping, restored) = (Arc::clone(&shared), inner.all().into_keys().collect());
        until_stopped(Box::pin(async move { sweeping.networks.sweep(restored).await }));
        until_stopped(Box::pin(Arc::clone(&inner).keep_registered()));
        until_stopped(Box::pin(Arc::clone(&inner).gather(inbox)));
        until_stopped(Box::pin(Arc::clone(&inner).send_updates()));
        until_stopped(Box::pin(Arc::clone(&inner).watch()));
        until_stopped(Box::pin(Arc::clone(&inner).look_at_drivers()));
        if let Some(consul) = shared.consul.clone() {
            until_stopped(Box::pin(Arc::clone(&inner).look_at_consul(Arc::clone(&consul))));
            until_stopped(Box::pin(async move { consul.run().await }));
        }
        if let Some(access) = shared.vault.clone().filter(|_| vault::is_wanted(&shared.config)) {
            until_stopped(Box::pin(Arc::clone(&inner).look_at_vault(access.vault)));
        }
        until_stopped(Box::pin(Arc::clone(&inner).look_at_cgroups()));
        until_stopped(Box::pin(Arc::clone(&inner).look_at_clouds()));
        until_stopped(Box::pin(Arc::clone(&inner).emit_events()));
        until_stopped(Box::pin(Arc::clone(&inner).collect_garbage()));
        until_stopped(Box::pin(Arc::clone(&inner).stop_when_cut_off()));
        until_stopped(Box::pin(Arc::clone(&inner).publish_gauges()));
        Ok(Self { inner, database: Mutex::new(Some(thread)) })
    }

    /// The node's id.
    pub fn node_id(&self) -> NodeId {
        self.inner.auth.id
    }

    /// The node's current description of itself.
    pub fn node(&self) -> Arc<Node> {
        self.inner.node()
    }

    /// The allocations on this node, with their client status.
    pub fn allocs(&self) -> BTreeMap<AllocId, AllocClientStatus> {
        self.inner.all().into_iter().map(|(id, runner)| (id, runner.view().status())).collect()
    }

    /// The servers' addresses as they last sent them.
    pub fn known_servers(&self) -> Vec<songline_model::Str> {
        self.inner.servers_known.lock().clone()
    }

    /// Stops the agent. With `stop_tasks` (dev mode) every task is stopped and every directory removed first;
    /// otherwise tasks keep running and a later agent with the same data directory finds them. Returns when all state
    /// is written and the directory is free.
    pub async fn shutdown(&self, stop_tasks: bool) {
        let shared = &self.inner.shared;
        if stop_tasks {
            // Plugins last: they unmount the volumes of the others.
            let (plugins, others): (Vec<_>, Vec<_>) =
                self.inner.all().into_values().partition(|runner| is_plugin(&runner.view().alloc));
            let all = async {
                for runners in [others, plugins] {
                    runners.iter().for_each(|runner| runner.tell(Input::Destroy));
                    for runner in &runners {
                        runner.wait_for(|view| view.destroyed).await;
                    }
                }
            };
            if tokio::time::timeout(shared.config.kill_timeout_max.to_std() + STOP_MAX, all).await.is_err() {
                tracing::warn!("some tasks did not end in time");
            }
        }
        shared.cancel.cancel();
        shared.tracker.close();
        shared.tracker.wait().await;
        self.inner.shared.state.close();
        let thread = self.database.lock().take();
        if let Some(thread) = thread {
            // The thread returns nothing; it ends once everything is written.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}

/// Whether a task of the allocation is a CSI plugin.
fn is_plugin(alloc: &Allocation) -> bool {
    alloc.group().is_some_and(|group| group.csi_plugins().next().is_some())
}

impl<S: Servers> Drop for Client<S> {
    fn drop(&mut self) {
        self.inner.shared.cancel.cancel();
        self.inner.shared.state.close();
    }
}

impl<S: Servers> Inner<S> {
    pub fn node(&self) -> Arc<Node> {
        Arc::clone(&self.shared.node.lock())
    }

    /// Changes the node's row in one step: several loops change it side by side, and none may undo the change of another.
    /// The row stays as it was if `change` returns false. Returns what `change` returned; reporting is the caller's.
    fn change_node(&self, change: impl FnOnce(&mut Node) -> bool) -> bool {
        let mut known = self.shared.node.lock();
        let mut node = Node::clone(&known);
        let changed = change(&mut node);
        if changed {
            *known = Arc::new(node);
        }
        changed
    }

    pub fn all(&self) -> BTreeMap<AllocId, Arc<Runner>> {
        self.runners.lock().clone()
    }

    fn now(&self) -> Time {
        self.shared.clock.now()
    }

    pub async fn meta(&self) -> NodeMeta {
        self.meta.lock().await.shown()
    }

    /// Writes a change of the node's metadata to disk, then applies it, then reports it to the servers.
    pub async fn change_meta(&self, change: Dynamic) -> Result<NodeMeta, RpcError> {
        meta::check(&change)?;
        let mut layers = self.meta.lock().await;
        layers.apply(change);
        self.shared.state.put_meta(layers.dynamic()).await;
        self.change_node(|node| {
            node.meta = Some(layers.merged());
            true
        });
        self.node_changed.notify_one();
        Ok(layers.shown())
    }

    /// Delay after an error, with jitter; in dev mode constant.
    fn retry_wait(&self, base: Dur) -> Duration {
        if self.shared.config.dev {
            DEV_RETRY.min(base.to_std())
        } else {
            self.shared.clock.jitter().stretched(base).to_std()
        }
    }

    /// Makes a call, and repeats it while there is no leader, for at most `RPC_HOLD`.
    async fn call<T, F: Future<Output = Result<T, RpcError>>>(
        &self,
        mut make: impl FnMut() -> F,
    ) -> Result<T, RpcError> {
        let until = tokio::time::Instant::now() + RPC_HOLD;
        loop {
            match make().await {
                Err(RpcError::NoLeader) if tokio::time::Instant::now() < until => {
                    let wait = self.shared.clock.jitter().below(Dur::from(RPC_HOLD / 16));
                    tokio::time::sleep(wait.to_std()).await;
                }
                answer => return answer,
            }
        }
    }

    async fn until_registered(&self) {
        let mut registered = self.registered.subscribe();
        // Fails only when the agent is gone.
        let _ = registered.wait_for(|is| *is).await;
    }

    async fn keep_registered(self: Arc<Self>) {
        let mut beats = Heartbeats::new(self.now(), self.shared.config.dev, self.shared.clock.jitter());
        loop {
            let (call, at) = beats.next();
            tokio::select! {
                () = self.node_changed.notified() => { beats.on_change(self.now()); continue }
                () = self.register_again.notified() => { beats.register_again(self.now()); continue }
                () = self.shared.clock.until(Some(at)) => {}
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
                    self.shared.state.put_registered();
                }
                tracing::info!(node = %self.auth.id, "node registration complete");
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
        let runs = |update: &AllocReport| update.client_status == AllocClientStatus::Running;
        let known: Vec<AllocReport> =
            self.runners.lock().values().map(|runner| runner.view().update.clone()).filter(runs).collect();
        self.sync.lock().say_again(self.now(), known);
        self.sync_wake.notify_one();
    }

    /// Collects the runners' messages.
    async fn gather(self: Arc<Self>, mut inbox: mpsc::UnboundedReceiver<News>) {
        while let Some(news) = inbox.recv().await {
            match news {
                News::Update(update) => {
                    // An allocation that the servers have dropped has nothing to report.
                    if self.runners.lock().contains_key(&update.id) {
                        self.sync.lock().put(self.now(), *update);
                        self.sync_wake.notify_one();
                    }
                }
                News::Plugin(rows) => self.on_plugin(*rows),
                News::NodeEvent(event) => self.emit(*event),
                News::Ended => self.collect.notify_one(),
            }
        }
    }

    async fn send_updates(self: Arc<Self>) {
        self.until_registered().await;
        loop {
            let deadline = self.sync.lock().next_deadline(self.now());
            tokio::select! {
                () = self.sync_wake.notified() => continue,
                () = self.shared.clock.until(deadline) => {}
            }
            let Some(batch) = self.sync.lock().on_time(self.now()) else { continue };
            let sent = self.call(|| self.servers.node_update_alloc(&self.auth, batch.clone())).await;
            if let Err(error) = &sent {
                tracing::warn!(%error, "updating allocations");
            }
            let acknowledged = self.sync.lock().on_sent(self.now(), sent.is_ok());
            for update in acknowledged {
                // The state of an allocation that was destroyed meanwhile must not be stored again.
                if self.runners.lock().get(&update.id).is_some_and(|runner| !runner.view().destroyed) {
                    self.shared.state.put_acknowledged(&update);
                }
            }
        }
    }

    async fn look_at_drivers(self: Arc<Self>) {
        loop {
            tokio::time::sleep(FINGERPRINT_PERIOD).await;
            let mut changed = false;
            for (name, driver) in &self.shared.drivers {
                let print = driver.fingerprint().await;
                let mut flipped = false;
                changed |= self.change_node(|node| {
                    let (news, health) = fingerprint::apply_driver(node, name, &print, self.now());
                    flipped = health;
                    news
                });
                if flipped {
                    self.emit(NodeEvent {
                        message: print.description.clone(),
                        subsystem: "Driver".into(),
                        details: Some([("driver".into(), name.clone())].into()),
                        timestamp: Some(self.now()),
                        create_index: 0,
                    });
                }
            }
            if changed {
                self.node_changed.notify_one();
            }
        }
    }

    fn emit(&self, event: NodeEvent) {
        let mut events = self.events.lock();
        events.push(event);
        // Surplus events are dropped, oldest first: they only inform operators.
        let surplus = events.len().saturating_sub(11);
        events.drain(..surplus);
        self.events_wake.notify_one();
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

fn directories(config: &ClientConfig) -> Result<(), StartError> {
    for (dir, mode) in [(config.state_dir(), 0o700), (config.alloc_dir(), 0o711)] {
        let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(&dir);
        made.map_err(|source| StartError::Directory { dir: dir.display().to_string(), source })?;
    }
    for (name, volume) in &config.host_volumes {
        std::fs::metadata(volume.path.as_str())
            .map_err(|source| StartError::HostVolume { name: name.to_string(), source })?;
    }
    Ok(())
}

fn parse_identity(text: &str) -> Option<NodeAuth> {
    let (id, secret) = text.split_once('\n')?;
    Some(NodeAuth { id: id.parse().ok()?, secret: Secret::new(secret) })
}

async fn first_node(
    config: &ClientConfig,
    auth: &NodeAuth,
    drivers: &BTreeMap<songline_model::Str, Arc<dyn driver::Driver>>,
    now: Time,
) -> Node {
    let mut node = fingerprint::node(config);
    node.id = auth.id;
    node.secret_id = auth.secret.clone();
    for (name, driver) in drivers {
        fingerprint::apply_driver(&mut node, name, &driver.fingerprint().await, now);
    }
    node
}
