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
#[cfg(debug_assertions)]
pub mod defects;
mod disk;
mod endpoint;
mod fence;
pub mod forward;
pub mod forwarding;
mod hex;
#[cfg(test)]
mod hooks;
mod keeping;
mod keyring;
mod lead;
mod leadership;
mod machine;
mod metrics;
mod panics;
mod past;
mod plans;
mod refill;
mod room;
mod rpc;
mod services;
#[cfg(test)]
mod testing;
mod timing;
pub mod trust;
mod updates;
mod watching;
mod work;
mod workers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, Weak};

use arc_swap::ArcSwap;
use songline_api::sso::{Fetch, Sso};
use songline_api::{AgentInfo, Proposal, ProposeError, Written};
use songline_commands::Envelope;
use songline_events::hub::{EventHub, History, HubConfig, StoredHistory};
use songline_events::touches::Touches;
use songline_events::watch::Watches;
use songline_log::{Log, Start};
use songline_model::{Dur, NodeId, Time};
use songline_projections::State;
use songline_rpc::NodeAgent;
use songline_rpc::net::{Dispatch, Pool, PoolLimits};
use songline_rpc::port::Dialer;
use songline_scheduler::leader::evals::EvalQueues;
use songline_scheduler::leader::gc::TimeTable;
use songline_scheduler::leader::heartbeats::Heartbeats;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub use apply_times::ApplyTimes;
pub use archives::load as load_archive;
pub use clock::TimeSource;
use cluster::Cluster;
use config::ServerConfig;
pub use keyring::KnownKey;
use machine::Machine;
pub use machine::replay;
pub use rpc::{AnyNode, Ports, RemoteNode};
use rpc::{Local, LocalNode};

pub(crate) use endpoint::wall_clock;

/// Idle timeout of a session between servers.
const SERVER_SESSION_IDLE: std::time::Duration = std::time::Duration::from_mins(2);

/// A running server.
pub struct Core {
    config: ServerConfig,
    info: AgentInfo,
    dir: PathBuf,
    view: ArcSwap<State>,
    watches: Watches,
    events: OnceLock<Arc<EventHub>>,
    history: Arc<StoredHistory>,
    touches: Arc<Touches>,
    past: past::PastStates,
    refill: refill::Progress,
    read_archive: Mutex<Option<archives::ReadArchive>>,
    log: OnceLock<Log<Machine>>,
    applied: watch::Sender<u64>,
    queues: Mutex<EvalQueues>,
    /// Notified when the queues may have evaluations to work on.
    work: Notify,
    /// Notified when long work may be pending.
    work_opened: Notify,
    /// This leadership term; `None` while this server does not lead or is not ready to lead.
    reign: watch::Sender<Option<Arc<leadership::Reign>>>,
    times: Mutex<TimeTable>,
    /// Health of the servers, as the leader sees it.
    server_health: Mutex<songline_scheduler::leader::autopilot::Health>,
    fence: fence::Fence,
    room: room::Room,
    disk: disk::Disk,
    /// Sender to the leader's machines, for a state machine that replaces another one; `None` while the server is
    /// shutting down.
    reactions: Mutex<Option<machine::Reacting>>,
    apply_times: ApplyTimes,
    clock: clock::Clock,
    heartbeats: Mutex<Heartbeats>,
    workers: workers::pool::Pool,
    /// Weak reference to this server, for threads that are started later.
    own: Weak<Core>,
    /// Notified when a deadline of the leader's machines may have moved.
    deadlines: Notify,
    plans: plans::PlanQueue,
    keyring: keyring::Keyring,
    /// Notified when root keys may be due for rotation or collection.
    root_keys_changed: Notify,
    sso: Sso,
    updates: updates::Updates,
    metrics: metrics::Metrics,
    local_nodes: RwLock<BTreeMap<NodeId, Arc<dyn LocalNode>>>,
    /// The node in this process that is reached over its session, like any other node.
    own_node: OnceLock<NodeId>,
    agent_config: serde_json::Value,
    cluster: Cluster,
    /// Dials other servers.
    dialer: Dialer,
    /// Sessions with other servers.
    pool: Pool,
    /// Whether methods for nodes and servers require a certificate with a node's or server's name.
    verify_names: bool,
    /// Sessions with nodes.
    sessions: rpc::Sessions,
    stable_since: Time,
    forward: forward::Forward,
    shutdown: CancellationToken,
    #[cfg(test)]
    hooks: hooks::Hooks,
}

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
    pub disk: Arc<dyn songline_log::Disk>,
    /// HTTP client for identity providers.
    pub outgoing: Arc<dyn Fetch>,
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
    /// The touches store, the record of the objects that entries changed, cannot be opened.
    #[error("opening the record of what entries did in {dir}")]
    Touches {
        /// Directory of the store.
        dir: PathBuf,
        #[source]
        source: songline_events::touches::TouchesError,
    },
    /// This program's chain of migrations is inconsistent.
    #[error("checking the migrations of this version")]
    Migrations(#[from] songline_migrations::ChainError),
    /// The log has members that could not authenticate to this server.
    #[error("{0}")]
    Unproven(String),
    /// This server is the only member and did not become leader.
    #[error("becoming leader: {0}")]
    Lead(String),
}

impl Core {
    /// Opens or creates the server's directory, replays the log and joins consensus. A single server leads when this
    /// function returns; one of several may still wait for the others.
    pub async fn start(setup: Setup) -> Result<Arc<Self>, StartError> {
        Self::start_with(setup, Box::new(clock::Machine::default())).await
    }

    /// Like [`Self::start`], with another clock than the machine's.
    pub async fn start_with(setup: Setup, time: Box<dyn TimeSource>) -> Result<Arc<Self>, StartError> {
        let Setup { config, info, dir, agent_config, ports, disk, outgoing } = setup;
        songline_migrations::check()?;
        let history_dir = dir.join("events");
        std::fs::create_dir_all(&dir).map_err(|source| StartError::Directory { dir: dir.clone(), source })?;
        let history = StoredHistory::open(&history_dir).map_err(|source| StartError::History { dir: history_dir, source })?;
        let touches_dir = dir.join("touches");
        let touches = Touches::open(&touches_dir).map_err(|source| StartError::Touches { dir: touches_dir, source })?;
        let id = cluster::identity(&dir).map_err(|source| StartError::Directory { dir: dir.clone(), source })?;
        let cluster = Cluster::new(id, ports.advertised.clone(), ports.dialer.clone());
        let (updates, update_queue) = updates::Updates::new();
        let (plans, plan_queue) = plans::PlanQueue::new();
        let heartbeats = Heartbeats::new(config.heartbeats);
        let pool_limits = PoolLimits { idle_session: SERVER_SESSION_IDLE, of_server: true, ..PoolLimits::default() };
        let dispatched_metrics = info.dispatched_metrics;
        let core = Arc::new_cyclic(|own| Self {
            own: own.clone(),
            workers: workers::pool::Pool::default(),
            config,
            info,
            view: ArcSwap::from_pointee(State::new()),
            watches: Watches::default(),
            events: OnceLock::new(),
            history: Arc::new(history),
            touches,
            past: past::PastStates::default(),
            refill: refill::Progress::default(),
            read_archive: Mutex::default(),
            log: OnceLock::new(),
            applied: watch::Sender::new(0),
            queues: Mutex::new(EvalQueues::new()),
            work: Notify::new(),
            work_opened: Notify::new(),
            reign: watch::Sender::new(None),
            times: Mutex::default(),
            server_health: Mutex::default(),
            fence: fence::Fence::default(),
            room: room::Room::default(),
            disk: disk::Disk::default(),
            reactions: Mutex::default(),
            apply_times: ApplyTimes::default(),
            clock: clock::Clock::new(time),
            heartbeats: Mutex::new(heartbeats),
            deadlines: Notify::new(),
            plans,
            keyring: keyring::Keyring::new(dir.join("keystore")),
            root_keys_changed: Notify::new(),
            sso: Sso::new(outgoing),
            updates,
            metrics: metrics::Metrics::new(dispatched_metrics),
            local_nodes: RwLock::default(),
            own_node: OnceLock::new(),
            agent_config,
            cluster,
            dialer: ports.dialer.clone(),
            pool: Pool::new(ports.dialer.clone(), pool_limits, None),
            verify_names: ports.verify_names,
            sessions: rpc::Sessions::default(),
            stable_since: wall_clock(),
            forward: forward::Forward::new(forwarding::Forwarder::of_server(ports.dialer.clone())),
            shutdown: CancellationToken::new(),
            #[cfg(test)]
            hooks: hooks::Hooks::default(),
            dir,
        });
        let (machine, reactions) = Machine::new(&core);
        let mut log_config = machine::log_config(&core.config, core.dir.clone());
        log_config.node_id = core.cluster.id();
        log_config.disk = disk;
        core.cluster.address().clone_into(&mut log_config.address);
        log_config.start = if core.config.starts_alone() { Start::Alone } else { Start::Wait };
        let log = Log::open(log_config, machine, Arc::new(core.cluster.transport())).await;
        let log = log.map_err(|source| StartError::Log { dir: core.dir.clone(), source })?;
        if core.log.set(log).is_err() {
            unreachable!("the log is opened once, above");
        }
        core.trust_members(&ports.trust)?;
        // A server that still waits for its cluster has applied nothing; its subscribers wait with it.
        core.start_events(1);
        room::start(&core);
        disk::start(&core);
        rpc::start(&core, ports.listeners, &ports.limits);
        tokio::spawn(updates::run(Arc::downgrade(&core), update_queue));
        plans::start(&core, plan_queue);
        leadership::start(&core, reactions).await.map_err(|error| StartError::Lead(error.to_string()))?;
        workers::start(&core);
        keeping::start(&core);
        refill::start(&core);
        cluster::start(&core);
        cluster::kek::start(&core);
        metrics::start(&core);
        Ok(core)
    }

    /// Stops accepting work, ends waiting requests and closes the log cleanly.
    pub async fn stop(&self) {
        self.shutdown.cancel();
        lock(&self.reactions).take();
        self.work.notify_waiters();
        self.deadlines.notify_waiters();
        self.pool.close();
        self.log().shutdown().await;
        self.events().close();
        self.touches.close();
    }

    /// The log. It is set by `start` before the server is handed out.
    pub fn log(&self) -> &Log<Machine> {
        self.log.get().expect("the log is set before the server is handed out")
    }

    /// Hub of the event streams. It is set by `start` before the server is handed out.
    pub(crate) fn events(&self) -> &Arc<EventHub> {
        self.events.get().expect("the hub is started before the server is handed out")
    }

    /// Starts the event hub at the first index to publish. Panics on failure: an entry whose events are lost must not
    /// be applied.
    pub(crate) fn start_events(&self, first_index: u64) {
        self.events.get_or_init(|| {
            let config = HubConfig { backlog_frames: self.config.event_buffer_size, ..HubConfig::default() };
            let history: Arc<dyn History> = Arc::clone(&self.history) as Arc<dyn History>;
            match EventHub::start(config, Some(history), first_index) {
                Ok(hub) => hub,
                Err(error) => panic!("the event history cannot be used: {error}"),
            }
        });
    }

    /// The record of the objects that each entry changed.
    pub(crate) fn touches(&self) -> &Arc<Touches> {
        &self.touches
    }

    /// Newest applied state.
    pub fn view(&self) -> Arc<State> {
        self.view.load_full()
    }

    /// Writes a command and returns once the entry is durable and applied here.
    pub async fn write(&self, proposal: Proposal) -> Result<Written, ProposeError> {
        self.write_timed(proposal).await.map(|(written, _)| written)
    }

    /// Histogram of the times for which applying held the state.
    pub fn apply_times(&self) -> &ApplyTimes {
        &self.apply_times
    }

    /// Like [`Self::write`], and also returns the time that applying took on this server.
    pub(crate) async fn write_timed(&self, proposal: Proposal) -> Result<(Written, std::time::Duration), ProposeError> {
        self.write_in_term(None, proposal).await
    }

    /// Like [`Self::write_timed`]; if `term` is given, only while this server leads in that term.
    async fn write_in_term(&self, term: Option<u64>, proposal: Proposal) -> Result<(Written, std::time::Duration), ProposeError> {
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
        let mut applied = self.applied.subscribe();
        let reached = tokio::time::timeout(within, applied.wait_for(|at| *at >= index)).await;
        matches!(reached, Ok(Ok(_))).then(|| self.view())
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Time for deadlines and waiting, steady when the wall clock is set: see `clock.rs`.
    pub(crate) fn pace(&self) -> Time {
        self.clock.pace()
    }

    pub(crate) fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Dials other servers.
    pub fn dialer(&self) -> &Dialer {
        &self.dialer
    }

    /// Cancelled when the server shuts down.
    pub fn shutdown_token(&self) -> &CancellationToken {
        &self.shutdown
    }

    pub(crate) fn rpc_addr(&self) -> String {
        self.cluster.address().to_owned()
    }

    /// Records a node's heartbeat. Returns the time until its next one.
    pub(crate) fn beat(&self, node: NodeId) -> Dur {
        let stagger = f64::from(uuid::Uuid::new_v4().as_bytes()[0]) / 256.0;
        let mut heartbeats = lock(&self.heartbeats);
        let earliest = heartbeats.next_deadline();
        let ttl = heartbeats.on_heartbeat(node, stagger, self.pace());
        let moved = heartbeats.next_deadline() != earliest;
        drop(heartbeats);
        if moved {
            self.deadlines.notify_one();
        }
        ttl
    }

    pub(crate) fn queues(&self) -> std::sync::MutexGuard<'_, EvalQueues> {
        lock(&self.queues)
    }

    /// Registers a node agent of this process for requests that address it. `calls` answers the calls of the node RPC
    /// with the same agent.
    pub fn add_local_node(&self, id: NodeId, node: Arc<impl NodeAgent>, calls: Arc<impl Dispatch>) {
        let local: Arc<dyn LocalNode> = Arc::new(Local { node, calls });
        self.local_nodes.write().unwrap_or_else(PoisonError::into_inner).insert(id, local);
    }

    pub(crate) fn local_nodes(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<NodeId, Arc<dyn LocalNode>>> {
        self.local_nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the node of this process that is reached over its session; to be called once.
    pub fn set_own_node(&self, id: NodeId) {
        self.own_node.get_or_init(|| id);
    }

    /// Unregisters the node agents of this process before they stop.
    pub fn remove_local_nodes(&self) {
        self.local_nodes.write().unwrap_or_else(PoisonError::into_inner).clear();
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

/// Locks a mutex and ignores poisoning: the panic was reported where it happened, and the values behind these locks
/// are consistent between two calls.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
