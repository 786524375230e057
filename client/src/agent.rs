//! The node agent: registers, sends heartbeats, fetches the allocations assigned to it, runs them, and reports their
//! status.
//!
//! Independent loops: those that speak with the servers ([`crate::loops`]), fingerprints of the machine, metrics, garbage
//! collection. [`crate::serve`] answers requests to the node.

mod consul_agent;
mod counts;
mod drain;
mod gc;
mod host;
mod machine;
mod plugins;
mod publish;
mod vault;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_model::{AllocClientStatus, AllocId, Allocation, Node, NodeEvent, NodeId, Secret, Time};
use songline_rpc::{Gauge, NodeAuth, NodeMeta, RpcError, Servers};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use self::counts::Counts;
use self::gc::Collector;
use self::host::AgentHost;
use crate::checks;
use crate::clock::Clock;
use crate::config::ClientConfig;
use crate::core::Input;
use crate::csi;
use crate::loops::{Beginning, DEV_RETRY, Loops, Runners};
use crate::meta::{Dynamic, Layers};
use crate::network::Networks;
use crate::runner::{News, Runner, Shared, Waits};
use crate::services::AtServers;
use crate::state::{Contents, StateDb, StateError};
use crate::{consul, driver, fingerprint, meta, options, previous, vault as of_vault};

/// Interval at which drivers are fingerprinted.
const FINGERPRINT_PERIOD: Duration = Duration::from_secs(30);
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
    pub loops: Arc<Loops<S, AgentHost>>,
    pub collector: Arc<Collector>,
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
        let runners = Runners::<Runner>::default();
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
            node: Arc::new(Mutex::new(Arc::new(node))),
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
        let collector = Collector::new(Arc::clone(&shared), Arc::clone(&runners));
        let host = AgentHost { shared: Arc::clone(&shared), collector: Arc::clone(&collector), tokens };
        let node = Arc::clone(&shared.node);
        let beginning = Beginning { auth, clock, dev: shared.config.dev, node, runners, registered };
        let inner = Arc::new(Inner {
            shared: Arc::clone(&shared),
            loops: Loops::new(beginning, servers, host),
            collector,
            gauges: Mutex::default(),
            meta: tokio::sync::Mutex::new(layers),
        });
        inner.loops.restore(allocs.into_values().map(host::left));
        let tracker = &shared.tracker;
        let all = shared.cancel.clone();
        let until_stopped = |loops: driver::Boxed<'static, ()>| {
            let all = all.clone();
            tracker.spawn(async move {
                tokio::select! { () = all.cancelled() => {}, () = loops => {} }
            });
        };
        let (sweeping, restored) = (Arc::clone(&shared), inner.loops.all().into_keys().collect());
        until_stopped(Box::pin(async move { sweeping.networks.sweep(restored).await }));
        inner.loops.all_loops().into_iter().for_each(until_stopped);
        until_stopped(Box::pin(Arc::clone(&inner).gather(inbox)));
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
        until_stopped(Box::pin(Arc::clone(&inner.collector).run()));
        until_stopped(Box::pin(Arc::clone(&inner).publish_gauges()));
        Ok(Self { inner, database: Mutex::new(Some(thread)) })
    }

    /// The node's id.
    pub fn node_id(&self) -> NodeId {
        self.inner.loops.auth().id
    }

    /// The node's current description of itself.
    pub fn node(&self) -> Arc<Node> {
        self.inner.loops.node()
    }

    /// The allocations on this node, with their client status.
    pub fn allocs(&self) -> BTreeMap<AllocId, AllocClientStatus> {
        self.inner.loops.all().into_iter().map(|(id, runner)| (id, runner.view().status())).collect()
    }

    /// The servers' addresses as they last sent them.
    pub fn known_servers(&self) -> Vec<songline_model::Str> {
        self.inner.loops.servers_known()
    }

    /// Stops the agent. With `stop_tasks` (dev mode) every task is stopped and every directory removed first;
    /// otherwise tasks keep running and a later agent with the same data directory finds them. Returns when all state
    /// is written and the directory is free.
    pub async fn shutdown(&self, stop_tasks: bool) {
        let shared = &self.inner.shared;
        if stop_tasks {
            // Plugins last: they unmount the volumes of the others.
            let (plugins, others): (Vec<_>, Vec<_>) =
                self.inner.loops.all().into_values().partition(|runner| is_plugin(&runner.view().alloc));
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
        self.loops.change_node(|node| {
            node.meta = Some(layers.merged());
            true
        });
        self.loops.node_changed();
        Ok(layers.shown())
    }

    /// Collects the runners' messages.
    async fn gather(self: Arc<Self>, mut inbox: mpsc::UnboundedReceiver<News>) {
        while let Some(news) = inbox.recv().await {
            match news {
                News::Update(id) => self.loops.report(&id),
                News::Plugin(rows) => self.on_plugin(*rows),
                News::NodeEvent(event) => self.loops.emit(*event),
                News::Ended => self.collector.look(),
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
                changed |= self.loops.change_node(|node| {
                    let (news, health) = fingerprint::apply_driver(node, name, &print, self.now());
                    flipped = health;
                    news
                });
                if flipped {
                    self.loops.emit(NodeEvent {
                        message: print.description.clone(),
                        subsystem: "Driver".into(),
                        details: Some([("driver".into(), name.clone())].into()),
                        timestamp: Some(self.now()),
                        create_index: 0,
                    });
                }
            }
            if changed {
                self.loops.node_changed();
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
