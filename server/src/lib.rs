//! One server: the log, the state that the log drives, and everything that reads the applied state.
//!
//! Wiring only: commands are applied in `projections`, decisions are made in `scheduler`, bytes are kept in `log`.

pub mod ahead;
mod api;
mod apply_times;
pub mod archive;
mod archives;
mod clock;
pub mod cluster;
pub mod config;
mod connections;
mod csi;
#[cfg(debug_assertions)]
pub mod defects;
mod disk;
mod endpoint;
pub mod event_sinks;
mod federation;
mod fence;
mod forward;
pub mod forwarding;
mod hex;
#[cfg(test)]
mod hooks;
pub mod import;
mod keeping;
mod keyring;
mod lead;
mod leadership;
mod machine;
mod metrics;
mod multiregion;
mod panics;
mod past;
mod plans;
mod published;
mod refill;
mod room;
mod rpc;
mod services;
mod stores;
mod surroundings;
#[cfg(test)]
mod testing;
mod timing;
pub mod trust;
mod updates;
pub mod vault;
mod watching;
mod work;
mod workers;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use futures_util::future::BoxFuture;
use parking_lot::MutexGuard;
use songline_api::sso::{Fetch, Sso};
use songline_api::{AgentInfo, Answer, Api, ForTask, Proposal, ProposeError, Written};
use songline_commands::Envelope;
use songline_events::hub::{EventHub, HubConfig};
use songline_events::object_history::ObjectHistory;
use songline_events::watch::Watches;
use songline_log::{Disk, Log, Start};
use songline_model::{Dur, EvalId, NodeId, Time};
use songline_projections::State;
use songline_rpc::net::Dispatch;
use songline_rpc::port::Dialer;
use songline_rpc::world::World;
use songline_rpc::{Gauges, NodeAgent};
use songline_scheduler::leader::evals::EvalQueues;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use apply_times::ApplyTimes;
pub use archives::load as load_archive;
use config::ServerConfig;
use connections::Connections;
pub use keyring::KnownKey;
use leadership::LeaderState;
pub use machine::{Machine, Reply, replay};
pub use metrics::node::metrics_of_node;
use published::Published;
use rpc::AnyNode;
pub use rpc::Ports;
use stores::Stores;
pub use surroundings::{Keeping, NoProviders, Observer, Surroundings};

/// A running server.
pub struct Core {
    /// Weak reference to this server, for threads that are started later.
    own: Weak<Core>,
    facts: Facts,
    published: Published,
    stores: Stores,
    log: OnceLock<Log<Machine>>,
    clock: clock::Clock,
    /// The leader's part; idle while this server does not lead.
    leader: LeaderState,
    workers: workers::pool::Pool,
    fence: fence::Fence,
    room: room::Room,
    disk: disk::Disk,
    keyring: keyring::Keyring,
    sso: Sso,
    metrics: metrics::Metrics,
    connections: Connections,
    csi: csi::Locks,
    /// Permits of what-if questions: each takes a processor while it is answered.
    what_ifs: Semaphore,
    shutdown: CancellationToken,
    #[cfg(test)]
    hooks: hooks::Hooks,
}

/// Facts that do not change while a server runs.
struct Facts {
    config: ServerConfig,
    info: AgentInfo,
    /// Directory of everything durable.
    dir: PathBuf,
    /// The agent's configuration as `agent/self` shows it.
    agent_config: serde_json::Value,
    stable_since: Time,
    /// File system of the directory.
    disk: Arc<dyn Disk>,
    surroundings: Surroundings,
}

/// Most what-if questions that are answered at once.
const WHAT_IFS_MAX: usize = 2;

/// Everything that a server is started with.
pub struct Setup {
    /// Configuration.
    pub config: ServerConfig,
    /// The agent's public description.
    pub info: AgentInfo,
    /// Directory of everything durable.
    pub dir: PathBuf,
    /// The agent's configuration as `agent/self` shows it.
    pub agent_config: serde_json::Value,
    /// Ports that the server listens on, and their advertised addresses.
    pub ports: Ports,
    /// File system that holds the log.
    pub disk: Arc<dyn Disk>,
    /// HTTP client for identity providers.
    pub outgoing: Arc<dyn Fetch>,
    /// The world around the server.
    pub surroundings: Surroundings,
}

/// Reasons why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The log is damaged or in use.
    #[error("opening the log in {dir}")]
    Log {
        /// Log directory.
        dir: PathBuf,
        #[source]
        source: songline_log::OpenError,
    },
    /// The server's directory cannot be made.
    #[error("making the server's directory {dir}")]
    Directory {
        /// Server directory.
        dir: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The event history cannot be opened.
    #[error("opening the event history in {dir}")]
    History {
        /// History directory.
        dir: PathBuf,
        #[source]
        source: songline_events::hub::HistoryError,
    },
    /// The object history, the record of the objects that entries changed, cannot be opened.
    #[error("opening the record of what entries did in {dir}")]
    ObjectHistory {
        /// Directory of the store.
        dir: PathBuf,
        #[source]
        source: songline_events::object_history::ObjectHistoryError,
    },
    /// This program's chain of migrations is inconsistent.
    #[error("checking the migrations of this version")]
    Migrations(#[from] songline_migrations::ChainError),
    /// There are other servers, in the configuration or the log, that could not authenticate to this server.
    #[error("{0}")]
    Unproven(String),
    /// This server is the only member and did not become leader.
    #[error("becoming leader: {0}")]
    Lead(String),
}

impl Core {
    /// Opens or creates the server's directory, replays the log and joins consensus. A single server leads when this
    /// function returns; one of several may still wait for the others.
    pub fn start(setup: Setup) -> BoxFuture<'static, Result<Arc<Self>, StartError>> {
        Box::pin(Self::start_parts(setup))
    }

    async fn start_parts(setup: Setup) -> Result<Arc<Self>, StartError> {
        let Setup { config, info, dir, agent_config, ports, disk, outgoing, surroundings } = setup;
        let world = Arc::clone(&surroundings.world);
        songline_migrations::check()?;
        disk.create_dir_all(&dir).map_err(|source| StartError::Directory { dir: dir.clone(), source })?;
        archives::remove_unfinished(&dir, &*disk);
        let stores = Stores::open(&dir, &surroundings)?;
        let id = cluster::identity(&dir, &*disk, &*world)
            .map_err(|source| StartError::Directory { dir: dir.clone(), source })?;
        let (leader, queues) = LeaderState::new(config.heartbeats, config.plan_rejections);
        let core = Arc::new_cyclic(|own| Self {
            own: own.clone(),
            published: Published::default(),
            stores,
            log: OnceLock::new(),
            clock: clock::Clock::new(Arc::clone(&world)),
            leader,
            workers: workers::pool::Pool::default(),
            fence: fence::Fence::default(),
            room: room::Room::default(),
            disk: disk::Disk::default(),
            keyring: keyring::Keyring::new(dir.join("keystore"), Arc::clone(&disk), Arc::clone(&world)),
            sso: Sso::new(outgoing),
            metrics: metrics::Metrics::new(info.dispatched_metrics),
            connections: Connections::new(
                id,
                ports.advertised.clone(),
                &info.authoritative_region,
                &ports.dialer,
                ports.trust.clone(),
                ports.verify_names,
            ),
            csi: csi::Locks::default(),
            what_ifs: Semaphore::new(WHAT_IFS_MAX),
            shutdown: CancellationToken::new(),
            #[cfg(test)]
            hooks: hooks::Hooks::default(),
            facts: Facts { stable_since: world.wall(), config, info, dir, agent_config, disk, surroundings },
        });
        let machine = Machine::new(&core);
        let mut log_config = core.facts.log_config();
        log_config.node_id = core.connections.cluster.id();
        core.connections.cluster.address().clone_into(&mut log_config.address);
        log_config.start = if core.facts.config.starts_alone() { Start::Alone } else { Start::Wait };
        let transport = core.facts.surroundings.transport.clone();
        let transport = transport.unwrap_or_else(|| Arc::new(core.connections.cluster.transport()));
        let log = Log::open(log_config, machine, transport).await;
        let log = log.map_err(|source| StartError::Log { dir: core.facts.dir.clone(), source })?;
        if core.log.set(log).is_err() {
            unreachable!("the log is opened once, above");
        }
        core.trust_members(&ports.trust)?;
        // A server that still waits for its cluster has applied nothing; its subscribers wait with it.
        core.start_events(1);
        room::start(&core);
        disk::start(&core);
        rpc::start(&core, ports.listeners, &ports.limits);
        tokio::spawn(updates::run(Arc::downgrade(&core), queues.updates));
        plans::start(&core, queues.plans);
        leadership::start(&core).await.map_err(|error| StartError::Lead(error.to_string()))?;
        workers::start(&core);
        keeping::start(&core);
        refill::start(&core);
        cluster::start(&core);
        cluster::kek::start(&core);
        metrics::start(&core);
        Ok(core)
    }

    /// The HTTP API of this server.
    pub fn http_api(self: &Arc<Self>) -> Arc<dyn Answer> {
        Arc::new(Api::new(Arc::clone(self)))
    }

    /// The HTTP API of this server for sockets of tasks.
    pub fn task_api(self: &Arc<Self>) -> Arc<dyn Answer> {
        Arc::new(ForTask(Api::new(Arc::clone(self))))
    }

    /// Ends waiting requests and loops, and closes connections. Nothing is flushed.
    pub fn shutdown_now(&self) {
        self.shutdown.cancel();
        self.leader.stop();
        self.connections.pool.close();
    }

    /// Stops accepting work, ends waiting requests and closes the log cleanly.
    pub fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.shutdown_now();
            self.log().shutdown().await;
            self.stores.close();
        })
    }

    /// The log. It is set by `start` before the server is handed out.
    pub fn log(&self) -> &Log<Machine> {
        self.log.get().expect("the log is set before the server is handed out")
    }

    /// Hub of the event streams. It is set by `start` before the server is handed out.
    pub fn events(&self) -> &Arc<EventHub> {
        self.stores.events()
    }

    /// Starts the event hub at the first index to publish.
    pub(crate) fn start_events(&self, first_index: u64) {
        let hub = HubConfig { backlog_frames: self.facts.config.event_buffer_size, ..self.facts.surroundings.hub };
        self.stores.start_events(first_index, hub);
    }

    /// The record of the objects that each entry changed.
    pub(crate) fn object_history(&self) -> &Arc<ObjectHistory> {
        self.stores.object_history()
    }

    /// Newest applied state.
    pub fn view(&self) -> Arc<State> {
        self.published.view()
    }

    /// Writes a command and returns once the entry is durable and applied here.
    pub fn write(&self, proposal: Proposal) -> BoxFuture<'_, Result<Written, ProposeError>> {
        Box::pin(async { self.write_timed(proposal).await.map(|(written, _)| written) })
    }

    /// Histogram of the times for which applying held the state.
    pub fn apply_times(&self) -> &ApplyTimes {
        &self.published.apply_times
    }

    /// Like [`Self::write`], and also returns the time that applying took on this server.
    pub(crate) async fn write_timed(&self, proposal: Proposal) -> Result<(Written, std::time::Duration), ProposeError> {
        self.write_in_term(None, proposal).await
    }

    /// Like [`Self::write_timed`]; if `term` is given, only while this server leads in that term.
    async fn write_in_term(
        &self,
        term: Option<u64>,
        proposal: Proposal,
    ) -> Result<(Written, std::time::Duration), ProposeError> {
        self.room.check()?;
        let Proposal { actor, cause, idempotency, command } = proposal;
        let mut envelope = Envelope::new(self.now(), actor, command).caused_by(cause);
        envelope.idempotency = idempotency;
        let bytes = envelope.encode().map_err(|error| ProposeError::Unavailable(error.to_string()))?;
        let handed = std::time::Instant::now();
        let accepted = match term {
            Some(term) => self.log().propose_in_term(term, bytes.into()).await,
            None => self.log().propose(bytes.into()).await,
        };
        let reply = accepted.map_err(propose_error)?.reply;
        self.metrics.measure_proposal(handed.elapsed(), reply.took);
        let outcome = reply.result?;
        Ok((Written { index: reply.index, outcome }, reply.took))
    }

    /// Waits until this server has applied the entry at `index`. `None` after `within`.
    pub(crate) async fn wait_for_index(&self, index: u64, within: std::time::Duration) -> Option<Arc<State>> {
        self.published.wait_for_index(index, within).await
    }

    /// Clocks, randomness and threads of this server's machine.
    pub(crate) fn world(&self) -> &dyn World {
        &*self.facts.surroundings.world
    }

    /// A new random id of an evaluation.
    pub(crate) fn fresh_eval(&self) -> EvalId {
        EvalId::from(self.world().uuid())
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Time for deadlines and waiting, steady when the wall clock is set: see `clock.rs`.
    pub(crate) fn pace(&self) -> Time {
        self.clock.pace()
    }

    pub(crate) fn watches(&self) -> &Watches {
        &self.published.watches
    }

    /// Dials other servers.
    pub fn dialer(&self) -> &Dialer {
        &self.connections.dialer
    }

    /// Cancelled when the server shuts down.
    pub fn shutdown_token(&self) -> &CancellationToken {
        &self.shutdown
    }

    pub(crate) fn rpc_addr(&self) -> String {
        self.connections.cluster.address().to_owned()
    }

    /// Records a node's heartbeat. Returns the time until its next one.
    pub(crate) fn beat(&self, node: NodeId) -> Dur {
        let stagger = f64::from(self.world().uuid().as_bytes()[0]) / 256.0;
        self.leader.beat(node, stagger, &self.clock)
    }

    pub(crate) fn queues(&self) -> MutexGuard<'_, EvalQueues> {
        self.leader.queues()
    }

    /// Registers a node agent of this process for requests that address it. `calls` answers the calls of the node RPC
    /// with the same agent.
    pub fn add_local_node(&self, id: NodeId, node: Arc<impl NodeAgent>, calls: Arc<impl Dispatch>) {
        self.connections.add_local_node(id, node, calls);
    }

    /// Registers the node of this process that is reached over its session; to be called once.
    pub fn set_own_node(&self, id: NodeId) {
        self.connections.set_own_node(id);
    }

    /// Shows the gauges of the node of this process among the metrics; to be called once.
    pub fn show_gauges(&self, of: Weak<dyn Gauges>) {
        self.connections.show_gauges(of);
    }

    /// Unregisters the node agents of this process before they stop.
    pub fn remove_local_nodes(&self) {
        self.connections.remove_local_nodes();
    }
}

/// The caller's error for an entry that the log did not accept.
pub(crate) fn propose_error(error: songline_log::ProposeError) -> ProposeError {
    match error {
        // Another server may lead. `NoLeader` makes the caller look for it; the reason is reported when there is
        // none.
        songline_log::ProposeError::NotLeader { .. } | songline_log::ProposeError::Disk(_) => ProposeError::NoLeader,
        lost @ (songline_log::ProposeError::OutcomeUnknown | songline_log::ProposeError::Stopped(_)) => {
            ProposeError::OutcomeUnknown(lost.to_string())
        }
        long @ songline_log::ProposeError::TooLong { .. } => ProposeError::Unavailable(long.to_string()),
    }
}
