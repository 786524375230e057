//! The log's interface for the server: propose, read, checkpoint, apply retention. `raft` implements consensus, `store`
//! the files.

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
use crate::disk::{Disk, RealDisk};
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

/// Time within which the only member of a cluster must become leader and apply its entries.
const READY_WITHIN: Duration = Duration::from_secs(600);

/// Configuration of a log.
#[derive(Debug, Clone)]
pub struct Config {
    /// Directory of the log; it has `log/` and `checkpoints/` below it.
    pub dir: PathBuf,
    /// The file system of `dir`.
    pub disk: Arc<dyn Disk>,
    /// This server's number in the cluster.
    pub node_id: NodeId,
    /// Address at which other servers reach this one.
    pub address: String,
    /// Start of a server without cluster membership: bootstrap alone, or wait to be added.
    pub start: Start,
    /// Raft timeouts: heartbeat interval and election timeouts.
    pub timing: Timing,
    /// Sizes of the store's files and cache.
    pub store: StoreConfig,
    /// Number of checkpoints kept for recovery. Entries after the oldest of them are never dropped.
    pub checkpoints_keep: usize,
    /// Bounds on older checkpoints, which are kept for reading past states. They do not keep entries from being
    /// dropped.
    pub past: PastBounds,
    /// Bounds after which entries are dropped.
    pub retention: Retention,
    /// Most proposals under way at a time; further ones wait.
    pub proposals_in_flight_max: usize,
}

impl Config {
    /// Default configuration for a log in `dir`.
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

/// Start of a server without cluster membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Bootstraps a cluster of its own.
    Alone,
    /// Waits until `Log::found` is called, or the leader of a cluster adds this server.
    Wait,
}

/// Raft timeouts. Followers notice the loss of a leader after at least `election_max + election_min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Interval of a leader's heartbeats.
    pub heartbeat: Duration,
    /// Shortest election timeout, counted from the end of the leader's lease.
    pub election_min: Duration,
    /// Longest election timeout; also the length of the leader's lease.
    pub election_max: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(400),
            election_max: Duration::from_millis(800),
        }
    }
}

/// The leader's knowledge of another member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerProgress {
    /// Position of the last entry that the member is known to have.
    pub matched: Option<Position>,
    /// Time since the member's last answer; `None`: it has not answered since this server leads.
    pub last_heard: Option<Duration>,
}

/// A proposal that was committed and applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted<R> {
    /// Position of the entry.
    pub position: Position,
    /// Reply of the state machine.
    pub reply: R,
}

/// The current leader, as far as this server knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leadership {
    /// The current term.
    pub term: u64,
    /// The leader of the term, if there is one yet.
    pub leader: Option<NodeId>,
    /// Whether this server is the leader. Entries of earlier terms may still have to be applied: see
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
    /// Held while a checkpoint is written, so that there is one at a time.
    checkpointing: Mutex<()>,
    /// Held while the log is reopened or shut down.
    reopening: Mutex<()>,
}

impl<S: StateMachine> Log<S> {
    /// Opens the log, rebuilds `state` from the newest sound checkpoint and the entries after it, and starts consensus.
    /// If this server is the only voter, it leads and has applied every entry that it ever acknowledged when this
    /// returns. Must be called within a tokio runtime.
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
        let log = Self {
            inner: Arc::new(Inner { config, transport, running, outlook, failure, turns, checkpointing, reopening }),
        };
        log.watch_over();
        log.lead_if_alone().await?;
        Ok(log)
    }

    /// Continues after `Failure::Disk`: reads the files anew as a start does, rebuilds `state` from them and starts
    /// consensus. Acknowledged entries are there; proposals that were under way when the disk failed may or may not be.
    /// Existing clones of this log stay usable. After an error the log stays failed, and the call can be repeated.
    pub async fn reopen(&self, state: S) -> Result<(), OpenError> {
        let _alone = self.inner.reopening.lock().await;
        if self.inner.turns.is_closed() {
            return Err(OpenError::Start("the log is shut down".to_owned()));
        }
        if !matches!(*self.inner.failure.borrow(), Some(Failure::Disk { .. })) {
            return Err(OpenError::Start("the disk of the log has not failed".to_owned()));
        }
        // The old run lets go of the files before the new one reads them. The failure is cleared last: proposals are
        // refused until the new run can take them.
        self.running().stop(&self.inner.config).await?;
        let running = Running::start(&self.inner.config, &self.inner.transport, &self.inner.outlook, state).await?;
        self.inner.running.store(Arc::new(running));
        self.inner.failure.send_replace(None);
        self.watch_over();
        // Consensus runs. If something ends it again, `watch_over` reports that as a failure.
        if let Err(error) = self.lead_if_alone().await {
            tracing::warn!(%error, "the only member does not lead after its disk has come back");
        }
        Ok(())
    }

    fn running(&self) -> Arc<Running<S>> {
        self.inner.running.load_full()
    }

    /// Publishes the failure of this run of consensus. A run whose disk has failed is stopped at once: it must neither
    /// vote nor serve reads, because its log may differ from the disk.
    fn watch_over(&self) {
        // A weak reference: dropping the last clone of the log must end it.
        let (inner, mut failure) = (Arc::downgrade(&self.inner), self.running().node.failure());
        tokio::spawn(async move {
            let Some(failure) = failure.wait_for(Option::is_some).await.ok().and_then(|failure| failure.clone()) else {
                return;
            };
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
                    // The read barrier passed, but the published leadership is updated a moment later.
                    Ok(()) => {}
                    Err(ReadyError::Stopped(why)) => return Err(OpenError::Start(why)),
                    Err(ReadyError::NoLeader) if is_leader => {}
                    Err(ReadyError::NoLeader) => node.stand().await,
                }
                // A change of leadership may have come just before this wait, so it is bounded.
                let _ = tokio::time::timeout(Duration::from_millis(50), leadership.changed()).await;
            }
        };
        tokio::time::timeout(READY_WITHIN, lead)
            .await
            .map_err(|_| OpenError::Start("the only member did not become leader".to_owned()))?
    }

    /// Result of the rebuild when the log was last opened.
    pub fn recovery(&self) -> Recovery {
        self.running().recovery.clone()
    }

    /// Writes a command to the log. Returns once the command is on disk, committed and applied. If the future is
    /// dropped, the outcome is unknown: the command may still be written.
    pub async fn propose(&self, command: Bytes) -> Result<Accepted<S::Reply>, ProposeError> {
        self.propose_if(None, command).await
    }

    /// Like `propose`, but only while this server leads in `term`: a decision made in an earlier term is not written in
    /// a later one.
    pub async fn propose_in_term(&self, term: u64, command: Bytes) -> Result<Accepted<S::Reply>, ProposeError> {
        self.propose_if(Some(term), command).await
    }

    async fn propose_if(&self, term: Option<u64>, command: Bytes) -> Result<Accepted<S::Reply>, ProposeError> {
        if command.len() > PAYLOAD_BYTES_MAX {
            return Err(ProposeError::TooLong { bytes: command.len(), bytes_max: PAYLOAD_BYTES_MAX });
        }
        let closed = |_| ProposeError::Stopped("the log is shut down".to_owned());
        // Turns are given in the order of the calls. Without the bound, a slow disk would fill the memory.
        let _turn = self.inner.turns.acquire().await.map_err(closed)?;
        // Checked with the turn: the disk may have failed during the wait.
        self.check()?;
        self.running().node.propose(command, term).await
    }

    /// An error while the disk has failed.
    fn check(&self) -> Result<(), ProposeError> {
        match &*self.inner.failure.borrow() {
            Some(failure @ Failure::Disk { .. }) => Err(failure.clone().into()),
            // Consensus itself reports this failure to the caller.
            Some(Failure::Consensus(_)) | None => Ok(()),
        }
    }

    /// Returns once this server is known to lead and has applied every entry that was committed before the call.
    pub async fn read_barrier(&self) -> Result<(), ProposeError> {
        self.check()?;
        self.running().node.read_barrier().await
    }

    /// Returns once this server is known to lead and has applied every entry that is in its log or was proposed before
    /// the call, committed or not. A server that takes over from itself in the same term uses this so as not to
    /// overlook proposals under way.
    pub async fn settled(&self) -> Result<(), ProposeError> {
        // The core handles calls in order: proposals made before the barrier are in the log when the barrier returns.
        let running = self.running();
        running.node.read_barrier().await?;
        applied(&running.progress, Edge { term: 0, next: running.store.last().next }).await;
        Ok(())
    }

    /// Like `read_barrier`, but relies on the leader's lease instead of asking the other members. Correct only while no
    /// member's clock runs much faster than another's.
    pub async fn lease_barrier(&self) -> Result<(), ProposeError> {
        self.check()?;
        self.running().node.lease_barrier().await
    }

    /// This server's number.
    pub fn id(&self) -> NodeId {
        self.inner.config.node_id
    }

    /// Whether this server belongs to a cluster, or has heard of a cluster's leader.
    pub async fn is_initialized(&self) -> Result<bool, OpenError> {
        self.running().node.is_initialized().await
    }

    /// Bootstraps a cluster of these members. Call it on one of them, or with exactly the same members on several. Does
    /// nothing on a server that belongs to a cluster.
    pub async fn found(&self, members: &BTreeMap<NodeId, String>) -> Result<(), OpenError> {
        self.running().node.found_cluster(members).await
    }

    /// Handles a message that another member's `Transport` sent, and returns the answer.
    pub async fn receive(&self, message: Bytes) -> Bytes {
        self.running().node.receive(message).await
    }

    /// Subscribes to the members of the cluster. Empty before there is a cluster.
    pub fn members(&self) -> watch::Receiver<Members> {
        self.inner.outlook.members.subscribe()
    }

    /// The leader's knowledge of the other members; empty on other servers.
    pub fn peers(&self) -> BTreeMap<NodeId, PeerProgress> {
        self.running().node.peers()
    }

    /// Time since a leader was last heard; `None`: not since the start. Zero on the leader itself.
    pub fn last_contact(&self) -> Option<Duration> {
        self.running().node.last_contact()
    }

    /// Position of the last committed entry that this server knows of.
    pub fn committed(&self) -> Option<Position> {
        self.running().node.committed()
    }

    /// Adds a server as a learner (a follower without a vote), or changes a learner's address. Only on the leader;
    /// returns once the change is committed.
    pub async fn add_learner(&self, id: NodeId, address: &str) -> Result<(), MemberError> {
        self.running().node.add_learner(id, address).await
    }

    /// Gives a learner a vote. Only on the leader.
    pub async fn promote(&self, id: NodeId) -> Result<(), MemberError> {
        self.running().node.promote(id).await
    }

    /// Makes a voter a learner. Only on the leader.
    pub async fn demote(&self, id: NodeId) -> Result<(), MemberError> {
        self.running().node.demote(id).await
    }

    /// Removes a server from the cluster, possibly the leader itself. Only on the leader.
    pub async fn remove(&self, id: NodeId) -> Result<(), MemberError> {
        self.running().node.remove(id).await
    }

    /// Finishes a change of the voters that an earlier leader began and did not end. Until then every decision needs a
    /// majority of the former voters and one of the new ones. Without such a change it does nothing. Only on the
    /// leader.
    pub async fn finish_member_change(&self) -> Result<(), MemberError> {
        self.running().node.finish_change().await
    }

    /// Transfers leadership to another voter: to `to`, or else to the one that has most of the log.
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
                // Without a named target, any other leader will do.
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

    /// Subscribes to changes of the leader.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.outlook.leadership.subscribe()
    }

    /// Waits until consensus fails. Pending for ever after a clean shutdown.
    pub async fn failed(&self) -> Failure {
        let mut failure = self.inner.failure.subscribe();
        match failure.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
            Ok(Some(failure)) => failure,
            // Not reached: the sender lives as long as `self`.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// The failure of consensus, if it has failed.
    pub fn failure(&self) -> Option<Failure> {
        self.inner.failure.borrow().clone()
    }

    /// Subscribes to failures of consensus.
    pub fn failures(&self) -> watch::Receiver<Option<Failure>> {
        self.inner.failure.subscribe()
    }

    /// Position of the last applied entry.
    pub fn applied(&self) -> Option<Position> {
        self.running().progress.applied.borrow().last()
    }

    /// Waits until the entry at `index` is applied here.
    pub async fn wait_applied(&self, index: u64) {
        applied(&self.running().progress, Edge { term: 0, next: index + 1 }).await;
    }

    /// Number of entries in this server's log that are not applied yet. It grows when applying is too slow.
    pub fn unapplied(&self) -> u64 {
        let running = self.running();
        running.store.last().next.saturating_sub(running.progress.applied.borrow().next)
    }

    /// Index of the oldest entry that can be read.
    pub fn oldest_index(&self) -> u64 {
        self.running().store.oldest()
    }

    /// Applied entries of `range`, in order. Reads files, so it blocks.
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

    /// Position of the last entry in the newest checkpoint on disk.
    pub fn checkpointed(&self) -> Option<Position> {
        self.running().progress.newest().map(|checkpoint| checkpoint.meta.position)
    }

    /// Bytes of the files of the log that have entries after the newest checkpoint: a start reads them.
    pub fn unsaved_bytes(&self) -> u64 {
        let saved = self.checkpointed().map_or(0, |position| position.index + 1);
        self.segments().iter().filter(|segment| segment.end.next > saved).map(|segment| segment.bytes).sum()
    }

    /// Bytes of the state in the newest checkpoint on disk. 0: there is none.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.running().progress.newest().map_or(0, |checkpoint| checkpoint.content_bytes)
    }

    /// Indexes of the last entries of the checkpoints on disk, newest first, from the file names. Reads a directory, so
    /// it blocks.
    pub fn checkpoint_indexes(&self) -> io::Result<Vec<u64>> {
        let found = checkpoint::list(self.inner.config.disk.as_ref(), &self.inner.config.checkpoints_dir())?;
        Ok(found.iter().filter_map(|path| checkpoint::index_of(path)).collect())
    }

    /// Content of the checkpoint after the entry at `index`, verified. Reads the whole file, so it blocks.
    pub fn read_checkpoint(&self, index: u64) -> io::Result<impl io::Read + use<S>> {
        let disk = self.inner.config.disk.as_ref();
        Checkpoint::verify(disk, &checkpoint::path(&self.inner.config.checkpoints_dir(), index))?.content(disk)
    }

    /// Writes the present state to disk while further entries are applied. Returns the position of the last entry in
    /// the checkpoint; `None` when no entry was applied yet.
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
        let written = self.inner.config.disk.blocking(move || {
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

    /// Drops segments beyond retention, but never one that a kept checkpoint needs for replay. `now_ms` is the wall
    /// time in milliseconds since 1970.
    pub async fn retain(&self, now_ms: u64) -> Result<Dropped, CheckpointError> {
        let dir = self.inner.config.checkpoints_dir();
        let keep = self.inner.config.checkpoints_keep.max(1);
        let disk = Arc::clone(&self.inner.config.disk);
        let oldest = self.inner.config.disk.blocking(move || checkpoint::oldest_index(disk.as_ref(), &dir, keep));
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

    /// Stops the log. When this returns, acknowledged entries are on disk and the high-water mark is written. Proposals
    /// under way may fail.
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
