//! The log as the server uses it: propose, read, checkpoint, drop what is old.
//! How consensus works is `raft`'s business, how bytes reach the disk `store`'s.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use tokio::sync::{Mutex, Semaphore, watch};

use crate::checkpoint::{self, Checkpoint};
use crate::disk::{self, Disk, RealDisk};
use crate::error::{CheckpointError, Failure, MemberError, OpenError, ProposeError, ReadError};
use crate::history::{Entries, Source};
use crate::machine::StateMachine;
use crate::members::{Members, NodeId};
use crate::past::PastBounds;
use crate::position::{Edge, Position};
use crate::raft::{Outlook, ReadyError, applied};
use crate::record::PAYLOAD_BYTES_MAX;
use crate::recovery::Recovery;
use crate::retention::{self, Dropped, Retention};
use crate::running::Running;
use crate::store::{SegmentInfo, StoreConfig};
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

/// A proposal that was committed and applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted<R> {
    /// Where it is in the log.
    pub position: Position,
    /// What the state machine said.
    pub reply: R,
}

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
    transport: Arc<dyn Transport>,
    running: ArcSwap<Running<S>>,
    outlook: Outlook,
    failure: watch::Sender<Option<Failure>>,
    turns: Semaphore,
    /// Held while a checkpoint is written: one at a time.
    checkpointing: Mutex<()>,
    /// Held while the log is opened anew, or shut down.
    reopening: Mutex<()>,
}

impl<S: StateMachine> Log<S> {
    /// Opens the log, rebuilds `state` from the newest sound checkpoint and the entries after it, and starts
    /// consensus. A server that is alone has, when this returns, applied everything it ever acknowledged.
    /// Must be called within a tokio runtime.
    pub async fn open(config: Config, state: S, transport: Arc<dyn Transport>) -> Result<Self, OpenError> {
        let outlook = Outlook::new();
        let running = Running::start(&config, &transport, &outlook, state).await?;
        if config.start == Start::Alone {
            running.node.found_cluster(&BTreeMap::from([(config.node_id, config.address.clone())])).await?;
        }
        let turns = Semaphore::new(config.proposals_in_flight_max);
        let running = ArcSwap::from_pointee(running);
        let failure = watch::Sender::new(None);
        let (checkpointing, reopening) = (Mutex::default(), Mutex::default());
        let log = Self { inner: Arc::new(Inner { config, transport, running, outlook, failure, turns, checkpointing, reopening }) };
        log.watch_over();
        log.lead_if_alone().await?;
        Ok(log)
    }

    /// Goes on after `Failure::Disk`: reads the files anew, as a start does, rebuilds `state` from them and starts consensus. What was
    /// acknowledged is there; of what was under way when the disk failed, nobody knows until then. Whoever has this log keeps it. An error
    /// leaves everything as it was, to be tried again.
    pub async fn reopen(&self, state: S) -> Result<(), OpenError> {
        let _alone = self.inner.reopening.lock().await;
        if self.inner.turns.is_closed() {
            return Err(OpenError::Start("the log is shut down".to_owned()));
        }
        if !matches!(*self.inner.failure.borrow(), Some(Failure::Disk { .. })) {
            return Err(OpenError::Start("the disk of the log has not failed".to_owned()));
        }
        self.running().stop(&self.inner.config).await?;
        let running = Running::start(&self.inner.config, &self.inner.transport, &self.inner.outlook, state).await?;
        self.inner.running.store(Arc::new(running));
        self.inner.failure.send_replace(None);
        self.watch_over();
        // It runs, and whatever ends it again is told as its failure.
        if let Err(error) = self.lead_if_alone().await {
            tracing::warn!(%error, "the only member does not lead after its disk has come back");
        }
        Ok(())
    }

    fn running(&self) -> Arc<Running<S>> {
        self.inner.running.load_full()
    }

    /// Says when this run of consensus has failed. One whose disk has failed ends at once: it must not vote, nor serve from what it takes
    /// for its log.
    fn watch_over(&self) {
        // A log that is dropped ends, so nothing of it is held here.
        let (inner, mut failure) = (Arc::downgrade(&self.inner), self.running().node.failure());
        tokio::spawn(async move {
            let Some(failure) = failure.wait_for(Option::is_some).await.ok().and_then(|failure| failure.clone()) else { return };
            let Some(inner) = inner.upgrade() else { return };
            let of_disk = matches!(failure, Failure::Disk { .. });
            inner.failure.send_replace(Some(failure));
            if of_disk && let Err(error) = inner.running.load_full().stop(&inner.config).await {
                tracing::error!(%error, "consensus did not end with its disk");
            }
        });
    }

    async fn lead_if_alone(&self) -> Result<(), OpenError> {
        if self.running().node.is_only_voter().await? { self.lead_alone().await } else { Ok(()) }
    }

    async fn lead_alone(&self) -> Result<(), OpenError> {
        let running = self.running();
        let node = &running.node;
        let mut leadership = node.leadership();
        let lead = async {
            loop {
                let ready = node.ready().await;
                let is_leader = leadership.borrow_and_update().is_leader;
                match ready {
                    Ok(()) if is_leader => return Ok(()),
                    // The log's own word on who leads follows a moment later.
                    Ok(()) => {}
                    Err(ReadyError::Stopped(why)) => return Err(OpenError::Start(why)),
                    Err(ReadyError::NoLeader) if is_leader => {}
                    Err(ReadyError::NoLeader) => node.stand().await,
                }
                // A change may have come before we looked; try again soon in any case.
                let _ = tokio::time::timeout(Duration::from_millis(50), leadership.changed()).await;
            }
        };
        tokio::time::timeout(READY_WITHIN, lead).await.map_err(|_| OpenError::Start("the only member did not become leader".to_owned()))?
    }

    /// How the state was rebuilt when the log was opened last.
    pub fn recovery(&self) -> Recovery {
        self.running().recovery.clone()
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
        self.check()?;
        self.running().node.propose(command, term).await
    }

    /// Refuses while the disk has failed.
    fn check(&self) -> Result<(), ProposeError> {
        match &*self.inner.failure.borrow() {
            Some(failure @ Failure::Disk { .. }) => Err(failure.clone().into()),
            // What has become of it is told by consensus itself.
            Some(Failure::Consensus(_)) | None => Ok(()),
        }
    }

    /// Returns once this server is known to lead and has applied everything that was committed before the call.
    pub async fn read_barrier(&self) -> Result<(), ProposeError> {
        self.check()?;
        self.running().node.read_barrier().await
    }

    /// Returns once this server is known to lead and has applied everything that is in its log or was proposed before the call, committed
    /// or not: whoever takes over from itself in the same term must not overlook what is under way.
    pub async fn settled(&self) -> Result<(), ProposeError> {
        // The core takes calls in turn, so what was proposed before is in the log when it has answered this one.
        let running = self.running();
        running.node.read_barrier().await?;
        applied(&running.progress, Edge { term: 0, next: running.store.last().next }).await;
        Ok(())
    }

    /// The same as `read_barrier` by the leader's lease, without asking anybody: right as long as no member's clock runs much faster than another's.
    pub async fn lease_barrier(&self) -> Result<(), ProposeError> {
        self.check()?;
        self.running().node.lease_barrier().await
    }

    /// This server's number.
    pub fn id(&self) -> NodeId {
        self.inner.config.node_id
    }

    /// Whether this server belongs to a cluster, or has heard of one's leader.
    pub async fn is_initialized(&self) -> Result<bool, OpenError> {
        self.running().node.is_initialized().await
    }

    /// Founds a cluster of these members. To be called on one of them, or with the very same members on several; nothing happens on a
    /// server that belongs to a cluster.
    pub async fn found(&self, members: &BTreeMap<NodeId, String>) -> Result<(), OpenError> {
        self.running().node.found_cluster(members).await
    }

    /// Answers a message that another member's `Transport` sent.
    pub async fn receive(&self, message: Bytes) -> Bytes {
        self.running().node.receive(message).await
    }

    /// Who is in the cluster, with every change of it. Empty before there is one.
    pub fn members(&self) -> watch::Receiver<Members> {
        self.inner.outlook.members.subscribe()
    }

    /// What the leader knows of the others; empty elsewhere.
    pub fn peers(&self) -> BTreeMap<NodeId, PeerProgress> {
        self.running().node.peers()
    }

    /// How long ago a leader was heard; `None`: not since the start. Zero on the leader itself.
    pub fn last_contact(&self) -> Option<Duration> {
        self.running().node.last_contact()
    }

    /// The last committed entry that this server knows of.
    pub fn committed(&self) -> Option<Position> {
        self.running().node.committed()
    }

    /// Lets a server follow without a vote, or gives one that does another address. Only the leader can; returns once it is committed.
    pub async fn add_learner(&self, id: NodeId, address: &str) -> Result<(), MemberError> {
        self.running().node.add_learner(id, address).await
    }

    /// Gives a server that follows a vote. Only the leader can.
    pub async fn promote(&self, id: NodeId) -> Result<(), MemberError> {
        self.running().node.promote(id).await
    }

    /// Takes a server's vote; it goes on following. Only the leader can.
    pub async fn demote(&self, id: NodeId) -> Result<(), MemberError> {
        self.running().node.demote(id).await
    }

    /// Takes a server out of the cluster. Only the leader can, also itself.
    pub async fn remove(&self, id: NodeId) -> Result<(), MemberError> {
        self.running().node.remove(id).await
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
            Some(asked) if voters.contains(&asked) => {
                let leader = self.running().node.transfer(asked).await?;
                // Whoever asked for nobody in particular has what was asked for.
                if to.is_none_or(|to| to == leader) {
                    return Ok(());
                }
                Err(MemberError::Failed(format!("server {leader} took over, not server {asked}")))
            }
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
        self.inner.outlook.leadership.subscribe()
    }

    /// Waits for consensus to fail. Pending for ever after a clean shutdown.
    pub async fn failed(&self) -> Failure {
        let mut failure = self.inner.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure,
            // The sender lives as long as this.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Why consensus does not run, if it has failed.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.failure.borrow().clone()
    }

    /// The same, with every change of it.
    pub fn failures(&self) -> watch::Receiver<Option<Failure>> {
        self.inner.failure.subscribe()
    }

    /// The last applied entry.
    pub fn applied(&self) -> Option<Position> {
        self.running().progress.applied.borrow().last()
    }

    /// Waits until the entry at `index` is applied here.
    pub async fn wait_applied(&self, index: u64) {
        applied(&self.running().progress, Edge { term: 0, next: index + 1 }).await;
    }

    /// How many entries are in this server's log but not yet applied. It grows when applying is too slow.
    pub fn unapplied(&self) -> u64 {
        let running = self.running();
        running.store.last().next.saturating_sub(running.progress.applied.borrow().next)
    }

    /// The oldest entry that can be read.
    pub fn oldest_index(&self) -> u64 {
        self.running().store.oldest()
    }

    /// Applied entries of `range`, in order. Reads files: not for a task that must not block.
    pub fn read(&self, range: Range<u64>) -> Result<Entries, ReadError> {
        let running = self.running();
        let applied = running.progress.applied.borrow().next;
        let source: Arc<dyn Source> = Arc::clone(&running.store) as Arc<dyn Source>;
        Entries::new(source, range.start..range.end.min(applied))
    }

    /// The files of the log, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.running().store.segments()
    }

    /// The last entry of the newest checkpoint on disk.
    pub fn checkpointed(&self) -> Option<Position> {
        self.running().progress.newest().map(|checkpoint| checkpoint.meta.position)
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
        let running = self.running();
        self.check()?;
        let Some((meta, source)) = running.node.begin_checkpoint().await? else { return Ok(None) };
        let position = meta.position;
        let dir = self.inner.config.checkpoints_dir();
        let keep = self.inner.config.checkpoints_keep.max(1);
        let (past, oldest_entry) = (self.inner.config.past, self.oldest_index());
        let floor = running.store.floor().next;
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
        running.progress.set_newest(written.map_err(CheckpointError::Write)?);
        running.node.announce_checkpoint(position).await?;
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
        let running = self.running();
        let applied = running.progress.applied.borrow().next;
        let dropped = retention::plan(&self.inner.config.retention, &self.segments(), oldest + 1, applied, now_ms);
        if dropped.segments > 0 {
            running.node.purge(dropped.below).await?;
        }
        Ok(dropped)
    }

    /// Stops: what was acknowledged is on disk and marked when this returns. Proposals under way may fail.
    pub async fn shutdown(&self) {
        self.inner.turns.close();
        let _alone = self.inner.reopening.lock().await;
        if let Err(error) = self.running().stop(&self.inner.config).await {
            tracing::error!(%error, "the log did not close cleanly");
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
