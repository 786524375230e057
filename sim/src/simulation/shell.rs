//! The shell of a simulated server: like `server` around the log, with the same machines of the scheduler, but
//! without sockets, threads, history and ACLs. It leads when its log does, places allocations, and answers nodes.

mod endpoint;
mod lead;
mod plans;
mod reign;
mod updates;
mod workers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;
use songline_commands::{Actor, Cause, Command, Envelope, Idempotency};
use songline_log::{Log, NodeId as ServerId, ProposeError};
use songline_model::{Dur, EvalId, NodeId, Time};
use songline_projections::{Outcome, Rejected, State};
use songline_rpc::RpcError;
use songline_scheduler::leader::evals::EvalQueues;
use songline_scheduler::leader::heartbeats::{HeartbeatLimits, Heartbeats};
use tokio::sync::{Notify, mpsc};

use super::clock::Paced;
use super::ending::Ending;
use super::machine::{Reactions, Seen, SimMachine, locked};
use super::record::Record;
use reign::Reign;

pub use endpoint::HOLD;

/// Heartbeat TTLs: shorter than real ones, so that more happens in ten minutes.
const LIMITS: HeartbeatLimits =
    HeartbeatLimits { min_ttl: Dur::from_secs(5), per_second_max: 50, grace: Dur::from_secs(8), failover_ttl: Dur::from_secs(20) };

/// Number of versions that are kept of a job.
pub const JOB_VERSIONS_MAX: u64 = 6;

/// Reasons why an entry was not written, or its outcome is unknown.
#[derive(Debug, Clone)]
pub enum WriteError {
    /// The entry is in the log and changed nothing.
    Rejected(Rejected),
    /// Nothing was written: this server does not lead.
    NoLeader,
    /// The entry may have been written.
    Unknown(String),
}

impl From<ProposeError> for WriteError {
    fn from(error: ProposeError) -> Self {
        match error {
            // A server without its disk neither leads nor writes.
            ProposeError::NotLeader { .. } | ProposeError::Disk(_) => Self::NoLeader,
            ProposeError::OutcomeUnknown | ProposeError::Stopped(_) | ProposeError::TooLong { .. } => Self::Unknown(error.to_string()),
        }
    }
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rejected(refusal) => refusal.fmt(f),
            Self::NoLeader => RpcError::NoLeader.fmt(f),
            Self::Unknown(why) => why.fmt(f),
        }
    }
}

impl From<WriteError> for RpcError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::NoLeader => Self::NoLeader,
            WriteError::Rejected(_) | WriteError::Unknown(_) => Self::remote(error.to_string()),
        }
    }
}

/// Everything that a server's life is started with.
pub struct Setup {
    /// Server id.
    pub id: ServerId,
    /// Log.
    pub log: Log<SimMachine>,
    /// State.
    pub seen: Arc<Seen>,
    /// Receiver of applied batches.
    pub reactions: Reactions,
    /// Clock.
    pub time: Paced,
    /// Random generator.
    pub rng: SmallRng,
    /// Record of the simulation.
    pub record: Arc<Record>,
}

/// The shell of one life.
pub struct Shell {
    /// Server id.
    pub id: ServerId,
    log: Log<SimMachine>,
    seen: Arc<Seen>,
    time: Paced,
    rng: Mutex<SmallRng>,
    record: Arc<Record>,
    life: Arc<Ending>,
    reign: Mutex<Option<Arc<Reign>>>,
    queues: Mutex<EvalQueues>,
    heartbeats: Mutex<Heartbeats>,
    /// Notified when workers may have evaluations to work on.
    work: Notify,
    /// Notified when a deadline may have moved forward.
    deadlines: Notify,
    plans: mpsc::UnboundedSender<plans::Waiting>,
    updates: mpsc::UnboundedSender<updates::Waiting>,
}

impl Shell {
    /// Starts all tasks of a server besides its log.
    pub fn start(setup: Setup) -> Arc<Self> {
        let Setup { id, log, seen, reactions, time, rng, record } = setup;
        let (plans, plan_queue) = mpsc::unbounded_channel();
        let (updates, update_queue) = mpsc::unbounded_channel();
        let shell = Arc::new(Self {
            id,
            log,
            seen,
            time,
            rng: Mutex::new(rng),
            record,
            life: Ending::new(),
            reign: Mutex::default(),
            queues: Mutex::new(EvalQueues::new()),
            heartbeats: Mutex::new(Heartbeats::new(LIMITS)),
            work: Notify::new(),
            deadlines: Notify::new(),
            plans,
            updates,
        });
        shell.life.spawn(reign::follow(Arc::clone(&shell), reactions));
        for _ in 0..2 {
            shell.life.spawn(workers::run(Arc::clone(&shell)));
        }
        shell.life.spawn(plans::run(Arc::clone(&shell), plan_queue));
        shell.life.spawn(updates::run(Arc::clone(&shell), update_queue));
        shell
    }

    /// Stops all tasks: the machine is dead, or the server has given up.
    pub fn stop(&self) {
        if let Some(reign) = locked(&self.reign).take() {
            reign.end();
        }
        self.life.end();
    }

    /// Current state.
    pub fn view(&self) -> Arc<State> {
        self.seen.view()
    }

    fn reign(&self) -> Option<Arc<Reign>> {
        locked(&self.reign).clone().filter(|reign| !reign.is_over())
    }

    /// Whether its leadership term is ready: it was elected, and has begun.
    pub fn rules(&self) -> bool {
        self.reign().is_some()
    }

    /// The leader, as far as this server knows.
    pub fn leader(&self) -> Option<ServerId> {
        self.log.leadership().borrow().leader
    }

    /// Addresses of the servers, as nodes get them.
    pub fn addresses(&self) -> Vec<songline_model::Str> {
        self.log.members().borrow().addresses.values().map(|address| address.as_str().into()).collect()
    }

    /// Time for log entries.
    pub fn now(&self) -> Time {
        self.time.now()
    }

    fn pace(&self) -> Time {
        self.time.pace()
    }

    fn draw(&self) -> u64 {
        locked(&self.rng).random()
    }

    /// Generates an evaluation id.
    pub fn fresh(&self) -> EvalId {
        let mut rng = locked(&self.rng);
        EvalId::from(uuid::Builder::from_random_bytes(rng.random()).into_uuid())
    }

    /// Writes a command and returns once it is durable and applied here; with a reign, only in its term.
    async fn write(
        &self,
        reign: Option<&Reign>,
        actor: Actor,
        cause: Option<Cause>,
        command: impl Into<Command>,
    ) -> Result<(u64, Outcome), WriteError> {
        self.write_once(reign, actor, cause, None, command).await
    }

    /// Like `write`, with an idempotency key: writes with the same key take effect once.
    async fn write_once(
        &self,
        reign: Option<&Reign>,
        actor: Actor,
        cause: Option<Cause>,
        key: Option<Idempotency>,
        command: impl Into<Command>,
    ) -> Result<(u64, Outcome), WriteError> {
        let mut envelope = Envelope::new(self.now(), actor, command).caused_by(cause);
        envelope.idempotency = key;
        let bytes = envelope.encode().expect("what this program makes can be encoded");
        let accepted = match reign {
            Some(reign) => reign.during(self.log.propose_in_term(reign.term(), bytes.into())).await.ok_or(WriteError::NoLeader)?,
            None => self.log.propose(bytes.into()).await,
        };
        let reply = accepted?.reply;
        reply.result.map(|outcome| (reply.index, outcome)).map_err(WriteError::Rejected)
    }

    /// Writes a user's command.
    pub async fn write_for_user(&self, command: impl Into<Command>) -> Result<u64, WriteError> {
        self.write(None, Actor::Anonymous, None, command).await.map(|(index, _)| index)
    }

    /// Waits until the entry at `index` is applied here. `None` after `within`.
    async fn wait_for_index(&self, index: u64, within: Duration) -> Option<Arc<State>> {
        let reached = async {
            loop {
                let news = self.seen.applied.notified();
                let view = self.view();
                if view.applied_index() >= index {
                    return view;
                }
                news.await;
            }
        };
        tokio::time::timeout(within, reached).await.ok()
    }

    /// Records a node's heartbeat. Returns the time until its next one.
    fn beat(&self, node: NodeId) -> Dur {
        let stagger = f64::from(u8::try_from(self.draw() & 0xff).unwrap_or(0)) / 256.0;
        let mut heartbeats = locked(&self.heartbeats);
        let earliest = heartbeats.next_deadline();
        let ttl = heartbeats.on_heartbeat(node, stagger, self.pace());
        let moved = heartbeats.next_deadline() != earliest;
        drop(heartbeats);
        if moved {
            self.deadlines.notify_one();
        }
        ttl
    }
}
