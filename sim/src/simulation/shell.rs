//! The shell of a simulated server: what `src/server` is around the log, with the same machines of the scheduler in it, but without sockets,
//! threads, history and users. It leads when its log does, places work, and answers nodes.

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

/// How often nodes have to show up: more often than real ones, so that more happens in ten minutes.
const LIMITS: HeartbeatLimits =
    HeartbeatLimits { min_ttl: Dur::from_secs(5), per_second_max: 50, grace: Dur::from_secs(8), failover_ttl: Dur::from_secs(20) };

/// How many versions of a job are kept.
pub const JOB_VERSIONS_MAX: u64 = 6;

/// Why something was not written, or is not known to be.
#[derive(Debug, Clone)]
pub enum WriteError {
    /// The entry is in the log and changed nothing.
    Rejected(Rejected),
    /// Nothing was written: somebody else leads, or nobody.
    NoLeader,
    /// It may have been written.
    Unknown(String),
}

impl From<ProposeError> for WriteError {
    fn from(error: ProposeError) -> Self {
        match error {
            // With its disk gone it neither leads nor writes.
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

/// What a server's life has.
pub struct Setup {
    /// Which server.
    pub id: ServerId,
    /// Its log.
    pub log: Log<SimMachine>,
    /// Its state.
    pub seen: Arc<Seen>,
    /// What it applies, as it does.
    pub reactions: Reactions,
    /// Its clock.
    pub time: Paced,
    /// Its chance.
    pub rng: SmallRng,
    /// Where everything is written down.
    pub record: Arc<Record>,
}

/// The shell of one life.
pub struct Shell {
    /// Which server.
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
    /// There may be work for workers.
    work: Notify,
    /// Something is due earlier than it was.
    deadlines: Notify,
    plans: mpsc::UnboundedSender<plans::Waiting>,
    updates: mpsc::UnboundedSender<updates::Waiting>,
}

impl Shell {
    /// Starts everything that a server does besides its log.
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

    /// Its machine is dead, or it has given up: nothing of it goes on.
    pub fn stop(&self) {
        if let Some(reign) = locked(&self.reign).take() {
            reign.end();
        }
        self.life.end();
    }

    /// The state as it is now.
    pub fn view(&self) -> Arc<State> {
        self.seen.view()
    }

    fn reign(&self) -> Option<Arc<Reign>> {
        locked(&self.reign).clone().filter(|reign| !reign.is_over())
    }

    /// Whether it rules: it has been elected, and has begun.
    pub fn rules(&self) -> bool {
        self.reign().is_some()
    }

    /// Who leads, as far as it knows.
    pub fn leader(&self) -> Option<ServerId> {
        self.log.leadership().borrow().leader
    }

    /// The servers that there are, as nodes are told.
    pub fn addresses(&self) -> Vec<songline_model::Str> {
        self.log.members().borrow().addresses.values().map(|address| address.as_str().into()).collect()
    }

    /// What is written into the log.
    pub fn now(&self) -> Time {
        self.time.now()
    }

    fn pace(&self) -> Time {
        self.time.pace()
    }

    fn draw(&self) -> u64 {
        locked(&self.rng).random()
    }

    /// A new id.
    pub fn fresh(&self) -> EvalId {
        let mut rng = locked(&self.rng);
        EvalId::from(uuid::Builder::from_random_bytes(rng.random()).into_uuid())
    }

    /// Writes a command and answers once it is durable and applied here; with a reign, only in its term.
    async fn write(
        &self,
        reign: Option<&Reign>,
        actor: Actor,
        cause: Option<Cause>,
        command: impl Into<Command>,
    ) -> Result<(u64, Outcome), WriteError> {
        self.write_once(reign, actor, cause, None, command).await
    }

    /// The same, once for all writes with the same key.
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

    /// Writes what a user asks for.
    pub async fn write_for_user(&self, command: impl Into<Command>) -> Result<u64, WriteError> {
        self.write(None, Actor::Anonymous, None, command).await.map(|(index, _)| index)
    }

    /// Returns when the entry at `index` is applied here, or says that it takes too long.
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

    /// A node showed up: the time until its next heartbeat.
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
