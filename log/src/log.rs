//! The log as the server uses it: propose, read, checkpoint, drop what is old.
//! How consensus works is `raft`'s business, how bytes reach the disk `store`'s.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Mutex, Semaphore, watch};

use crate::checkpoint::{self, Checkpoint};
use crate::disk::{self, Disk, RealDisk};
use crate::error::{OpenError, ReadError};
use crate::history::{Entries, Source};
use crate::machine::StateMachine;
use crate::members::{Members, NodeId};
use crate::past::PastBounds;
use crate::position::{Edge, Position};
use crate::raft::{Network, Node, Progress, ReadyError, applied};
use crate::record::PAYLOAD_BYTES_MAX;
use crate::recovery::{self, Recovery};
use crate::retention::{self, Dropped, Retention};
use crate::store::{SegmentInfo, Store, StoreConfig};
use crate::transport::Transport;

/// How long a single server may take to become leader of itself and to apply what it holds.
const READY_WITHIN: Duration = Duration::from_secs(600);

/// How a log is kept.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where everything is: `log/` and `checkpoints/` below it.
    pub dir: PathBuf,
    /// The file system `dir` is in.
    pub disk: Arc<dyn Disk>,
    /// This server's number in the cluster.
    pub node_id: NodeId,
    /// Where other servers reach this one.
    pub address: String,
    /// What a server does that belongs to no cluster yet.
    pub start: Start,
    /// How patient the members are with each other.
    pub timing: Timing,
    /// Sizes of the files.
    pub store: StoreConfig,
    /// How many checkpoints are kept. Entries above the oldest of them are never dropped.
    pub checkpoints_keep: usize,
    /// How many older ones are kept for reading past states. They hold no entries back.
    pub past: PastBounds,
    /// When entries are dropped.
    pub retention: Retention,
    /// How many proposals may be under way; more wait for their turn.
    pub proposals_in_flight_max: usize,
}

impl Config {
    /// The usual values for a log in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            disk: Arc::new(RealDisk),
            node_id: 1,
            address: String::new(),
            start: Start::Alone,
            timing: Timing::default(),
            store: StoreConfig::default(),
            checkpoints_keep: 2,
            past: PastBounds::default(),
            retention: Retention::default(),
            proposals_in_flight_max: 16_384,
        }
    }
}

/// What a server does that belongs to no cluster yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// It founds one of its own.
    Alone,
    /// It waits until `Log::found` is called, or the leader of a cluster adds it.
    Wait,
}

/// How patient the members are with each other. A leader is missed after at least `election_max + election_min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often a leader gives a sign of life.
    pub heartbeat: Duration,
    /// Shortest time, beyond the leader's lease, after which a follower stands for election.
    pub election_min: Duration,
    /// The longest. It is also the leader's lease.
    pub election_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { heartbeat: Duration::from_millis(150), election_min: Duration::from_millis(400), election_max: Duration::from_millis(800) }
    }
}

/// What the leader knows of another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerProgress {
    /// The last entry that it is known to have.
    pub matched: Option<Position>,
    /// How long ago it answered; `None`: not since this server leads.
    pub last_heard: Option<Duration>,
}

/// Why the membership was not changed, or the leadership not moved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// Only the leader can.
    #[error("this server is not the leader")]
    NotLeader,
    /// The text says why; the change may or may not come about.
    #[error("{0}")]
    Failed(String),
}

/// A proposal that was committed and applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted<R> {
    /// Where it is in the log.
    pub position: Position,
    /// What the state machine said.
    pub reply: R,
}

/// Why a proposal, or a read that must be current, got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// Only the leader can do this; nothing was written.
    #[error("this server is not the leader")]
    NotLeader {
        /// Who is, if known.
        leader: Option<NodeId>,
        /// Where it is reached, if known.
        address: Option<String>,
    },
    /// Longer than an entry may be; nothing was written.
    #[error("a command of {bytes} bytes is longer than {bytes_max}")]
    TooLong {
        /// Length of the command.
        bytes: usize,
        /// Longest command, in bytes.
        bytes_max: usize,
    },
    /// Leadership was lost on the way: the proposal may or may not be in the log.
    #[error("leadership was lost before the outcome was known")]
    OutcomeUnknown,
    /// Consensus does not run any more, so the proposal may or may not be in the log.
    #[error("the log has stopped: {0}")]
    Stopped(String),
}

/// Why a checkpoint was not made.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The log has stopped.
    #[error(transparent)]
    Log(#[from] ProposeError),
    /// The file could not be written; the log goes on without it.
    #[error("writing a checkpoint")]
    Write(#[source] io::Error),
}

/// Consensus has failed for good. The process should exit with an error, for a supervisor to start it anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("consensus has failed: {0}")]
pub struct Failure(pub String);

/// Who leads, as far as this server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leadership {
    /// The current term.
    pub term: u64,
    /// The leader of the term, if there is one yet.
    pub leader: Option<NodeId>,
    /// Whether that is this server. Entries of earlier terms may still have to be applied: see
    /// `Log::read_barrier`.
    pub is_leader: bool,
}

/// A running log. Clones share it.
pub struct Log<S: StateMachine> {
    inner: Arc<Inner<S>>,
}

impl<S: StateMachine> Clone for Log<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<S: StateMachine> std::fmt::Debug for Log<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("dir", &self.inner.config.dir).finish_non_exhaustive()
    }
}

struct Inner<S: StateMachine> {
    config: Config,
    node: Node<S>,
    store: Arc<Store>,
    progress: Arc<Progress>,
    recovery: Recovery,
    turns: Semaphore,
    /// Held while a checkpoint is written: one at a time.
    checkpointing: Mutex<()>,
}

impl<S: StateMachine> Log<S> {
    /// Opens the log, rebuilds `state` from the newest sound checkpoint and the entries after it, and starts
    /// consensus. A server that is alone has, when this returns, applied everything it ever acknowledged.
    /// Must be called within a tokio runtime.
    pub async fn open(config: Config, state: S, transport: Arc<dyn Transport>) -> Result<Self, OpenError> {
        let plan = config.clone();
        let recovered = disk::beside(config.disk.as_ref(), move || recovery::recover(&plan, state));
        let (store, machine, recovery) = recovered.await.map_err(|error| OpenError::Start(error.to_string()))??;
        let store = Arc::new(store);
        let progress = machine.progress();
        let node = Node::start(
            config.node_id,
            config.start == Start::Alone,
            config.timing,
            Arc::clone(&store),
            machine,
            Network::new(Arc::clone(&config.disk), transport),
        )
        .await?;
        if config.start == Start::Alone {
            node.found_cluster(&BTreeMap::from([(config.node_id, config.address.clone())])).await?;
        }
        let turns = Semaphore::new(config.proposals_in_flight_max);
        let inner = Inner { config, node, store, progress, recovery, turns, checkpointing: Mutex::new(()) };
        let log = Self { inner: Arc::new(inner) };
        if log.inner.node.is_only_voter().await? {
            log.lead_alone().await?;
        }
        Ok(log)
    }

    async fn lead_alone(&self) -> Result<(), OpenError> {
        let node = &self.inner.node;
        let mut leadership = node.leadership();
        let lead = async {
            loop {
                match node.ready().await {
                    Ok(()) => return Ok(()),
                    Err(ReadyError::Stopped(why)) => return Err(OpenError::Start(why)),
                    Err(ReadyError::NoLeader) => {}
                }
                if !leadership.borrow_and_update().is_leader {
                    node.stand().await;
                }
                // A change may have come before we looked; try again soon in any case.
                let _ = tokio::time::timeout(Duration::from_millis(50), leadership.changed()).await;
            }
        };
        tokio::time::timeout(READY_WITHIN, lead).await.map_err(|_| OpenError::Start("the only member did not become leader".to_owned()))?
    }

    /// How the state was rebuilt when the log was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.inner.recovery
    }

    /// Writes a command to the log. Answers when it is on disk, committed and applied. Whoever drops the future
    /// learns nothing of the outcome; the command may still be written.
    pub async fn propose(&self, command: Bytes) -> Result<Accepted<S::Reply>, ProposeError> {
        self.propose_if(None, command).await
    }

    /// The same, but only while this server leads in `term`: what was decided in an earlier term is not written in a later one.
    pub async fn propose_in_term(&self, term: u64, command: Bytes) -> Result<Accepted<S::Reply>, ProposeError> {
        self.propose_if(Some(term), command).await
    }

    async fn propose_if(&self, term: Option<u64>, command: Bytes) -> Result<Accepted<S::Reply>, ProposeError> {
        if command.len() > PAYLOAD_BYTES_MAX {
            return Err(ProposeError::TooLong { bytes: command.len(), bytes_max: PAYLOAD_BYTES_MAX });
        }
        let closed = |_| ProposeError::Stopped("the log is shut down".to_owned());
        let _turn = self.inner.turns.acquire().await.map_err(closed)?;
        self.inner.node.propose(command, term).await
    }

    /// Returns once this server is known to lead and has applied everything that was committed before the call.
    pub async fn read_barrier(&self) -> Result<(), ProposeError> {
        self.inner.node.read_barrier().await
    }

    /// Returns once this server is known to lead and has applied everything that is in its log or was proposed before the call, committed
    /// or not: whoever takes over from itself in the same term must not overlook what is under way.
    pub async fn settled(&self) -> Result<(), ProposeError> {
        // The core takes calls in turn, so what was proposed before is in the log when it has answered this one.
        self.inner.node.read_barrier().await?;
        applied(&self.inner.progress, Edge { term: 0, next: self.inner.store.last().next }).await;
        Ok(())
    }

    /// The same as `read_barrier` by the leader's lease, without asking anybody: right as long as no member's clock runs much faster than another's.
    pub async fn lease_barrier(&self) -> Result<(), ProposeError> {
        self.inner.node.lease_barrier().await
    }

    /// This server's number.
    pub fn id(&self) -> NodeId {
        self.inner.config.node_id
    }

    /// Whether this server belongs to a cluster, or has heard of one's leader.
    pub async fn is_initialized(&self) -> Result<bool, OpenError> {
        self.inner.node.is_initialized().await
    }

    /// Founds a cluster of these members. To be called on one of them, or with the very same members on several; nothing happens on a
    /// server that belongs to a cluster.
    pub async fn found(&self, members: &BTreeMap<NodeId, String>) -> Result<(), OpenError> {
        self.inner.node.found_cluster(members).await
    }

    /// Answers a message that another member's `Transport` sent.
    pub async fn receive(&self, message: Bytes) -> Bytes {
        self.inner.node.receive(message).await
    }

    /// Who is in the cluster, with every change of it. Empty before there is one.
    pub fn members(&self) -> watch::Receiver<Members> {
        self.inner.node.members()
    }

    /// What the leader knows of the others; empty elsewhere.
    pub fn peers(&self) -> BTreeMap<NodeId, PeerProgress> {
        self.inner.node.peers()
    }

    /// How long ago a leader was heard; `None`: not since the start. Zero on the leader itself.
    pub fn last_contact(&self) -> Option<Duration> {
        self.inner.node.last_contact()
    }

    /// The last committed entry that this server knows of.
    pub fn committed(&self) -> Option<Position> {
        self.inner.node.committed()
    }

    /// Lets a server follow without a vote, or gives one that does another address. Only the leader can; returns once it is committed.
    pub async fn add_learner(&self, id: NodeId, address: &str) -> Result<(), MemberError> {
        self.inner.node.add_learner(id, address).await
    }

    /// Gives a server that follows a vote. Only the leader can.
    pub async fn promote(&self, id: NodeId) -> Result<(), MemberError> {
        self.inner.node.promote(id).await
    }

    /// Takes a server's vote; it goes on following. Only the leader can.
    pub async fn demote(&self, id: NodeId) -> Result<(), MemberError> {
        self.inner.node.demote(id).await
    }

    /// Takes a server out of the cluster. Only the leader can, also itself.
    pub async fn remove(&self, id: NodeId) -> Result<(), MemberError> {
        self.inner.node.remove(id).await
    }

    /// Lets another voter lead: `to`, or the one that has most of the log.
    pub async fn transfer_leadership(&self, to: Option<NodeId>) -> Result<(), MemberError> {
        let members = self.members().borrow().clone();
        let voters = members.voters.last().cloned().unwrap_or_default();
        let furthest = || {
            let peers = self.peers().into_iter().filter(|(id, _)| voters.contains(id));
            peers.max_by_key(|(_, peer)| peer.matched.map(|it| it.index)).map(|(id, _)| id)
        };
        match to.or_else(furthest) {
            Some(to) if to == self.id() => Ok(()),
            Some(to) if voters.contains(&to) => self.inner.node.transfer(to).await,
            Some(to) => Err(MemberError::Failed(format!("server {to} has no vote"))),
            None => Err(MemberError::Failed("there is no other server with a vote".to_owned())),
        }
    }

    /// Whether this server leads, as far as it knows.
    pub fn is_leader(&self) -> bool {
        self.leadership().borrow().is_leader
    }

    /// Who leads, with every change of it.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.node.leadership()
    }

    /// Waits for consensus to fail. Pending for ever after a clean shutdown.
    pub async fn failed(&self) -> Failure {
        let mut failure = self.inner.node.failure();
        loop {
            if let Some(failure) = failure.borrow_and_update().clone() {
                return failure;
            }
            if failure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The last applied entry.
    pub fn applied(&self) -> Option<Position> {
        self.inner.progress.applied.borrow().last()
    }

    /// Waits until the entry at `index` is applied here.
    pub async fn wait_applied(&self, index: u64) {
        applied(&self.inner.progress, Edge { term: 0, next: index + 1 }).await;
    }

    /// How many entries are in this server's log but not yet applied. It grows when applying is too slow.
    pub fn unapplied(&self) -> u64 {
        self.inner.store.last().next.saturating_sub(self.inner.progress.applied.borrow().next)
    }

    /// The oldest entry that can be read.
    pub fn oldest_index(&self) -> u64 {
        self.inner.store.oldest()
    }

    /// Applied entries of `range`, in order. Reads files: not for a task that must not block.
    pub fn read(&self, range: Range<u64>) -> Result<Entries, ReadError> {
        let applied = self.inner.progress.applied.borrow().next;
        let source: Arc<dyn Source> = Arc::clone(&self.inner.store) as Arc<dyn Source>;
        Entries::new(source, range.start..range.end.min(applied))
    }

    /// The files of the log, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.inner.store.segments()
    }

    /// The last entry of the newest checkpoint on disk.
    pub fn checkpointed(&self) -> Option<Position> {
        self.inner.progress.newest().map(|checkpoint| checkpoint.meta.position)
    }

    /// The last entries of the checkpoints on disk, newest first, by their names. Reads a directory.
    pub fn checkpoint_indexes(&self) -> io::Result<Vec<u64>> {
        let found = checkpoint::list(self.inner.config.disk.as_ref(), &self.inner.config.checkpoints_dir())?;
        Ok(found.iter().filter_map(|path| checkpoint::index_of(path)).collect())
    }

    /// The checkpoint after the entry at `index`, verified: the state machine's part. Reads the whole file.
    pub fn read_checkpoint(&self, index: u64) -> io::Result<impl io::Read + use<S>> {
        let disk = self.inner.config.disk.as_ref();
        Checkpoint::verify(disk, &checkpoint::path(&self.inner.config.checkpoints_dir(), index))?.content(disk)
    }

    /// Writes the state as it is now to disk, while more is being applied. Answers the last entry it contains;
    /// `None` when nothing was applied yet.
    pub async fn checkpoint_now(&self) -> Result<Option<Position>, CheckpointError> {
        let _alone = self.inner.checkpointing.lock().await;
        if let Some(newest) = self.checkpointed()
            && Some(newest) == self.applied()
        {
            return Ok(Some(newest));
        }
        let Some((meta, source)) = self.inner.node.begin_checkpoint().await? else { return Ok(None) };
        let position = meta.position;
        let dir = self.inner.config.checkpoints_dir();
        let keep = self.inner.config.checkpoints_keep.max(1);
        let (past, oldest_entry) = (self.inner.config.past, self.oldest_index());
        let floor = self.inner.store.floor().next;
        let disk = Arc::clone(&self.inner.config.disk);
        let written = disk::beside(self.inner.config.disk.as_ref(), move || {
            let disk = disk.as_ref();
            let checkpoint = Checkpoint::write(disk, &dir, meta, source)?;
            for received in checkpoint::received(disk, &dir)? {
                if checkpoint::index_of_received(&received).is_some_and(|index| index < floor) {
                    checkpoint::adopt(disk, &received, &dir)?;
                }
            }
            checkpoint::tidy(disk, &dir, keep, &past, oldest_entry)?;
            Ok(checkpoint)
        });
        let written = written.await.and_then(|outcome| outcome);
        self.inner.progress.set_newest(written.map_err(CheckpointError::Write)?);
        self.inner.node.announce_checkpoint(position).await?;
        Ok(Some(position))
    }

    /// Drops segments that retention no longer wants. Never one that a kept checkpoint would need for replay.
    /// `now_ms` is the wall time in milliseconds since 1970.
    pub async fn retain(&self, now_ms: u64) -> Result<Dropped, CheckpointError> {
        let dir = self.inner.config.checkpoints_dir();
        let keep = self.inner.config.checkpoints_keep.max(1);
        let disk = Arc::clone(&self.inner.config.disk);
        let oldest = disk::beside(self.inner.config.disk.as_ref(), move || checkpoint::oldest_index(disk.as_ref(), &dir, keep));
        let oldest = oldest.await.and_then(|outcome| outcome);
        let Some(oldest) = oldest.map_err(CheckpointError::Write)? else { return Ok(Dropped::default()) };
        let applied = self.inner.progress.applied.borrow().next;
        let dropped = retention::plan(&self.inner.config.retention, &self.segments(), oldest + 1, applied, now_ms);
        if dropped.segments > 0 {
            self.inner.node.purge(dropped.below).await?;
        }
        Ok(dropped)
    }

    /// Stops: what was acknowledged is on disk and marked when this returns. Proposals under way may fail.
    pub async fn shutdown(&self) {
        self.inner.turns.close();
        self.inner.node.shutdown().await;
        let store = Arc::clone(&self.inner.store);
        if disk::beside(self.inner.config.disk.as_ref(), move || store.close()).await.is_err() {
            tracing::error!("closing the log panicked");
        }
    }
}

impl Config {
    pub(crate) fn log_dir(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub(crate) fn checkpoints_dir(&self) -> PathBuf {
        self.dir.join("checkpoints")
    }
}
