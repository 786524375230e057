//! openraft's state machine, implemented with the caller's `StateMachine`: batches, replies, positions, checkpoints.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use openraft::storage::{ApplyResponder, EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::adapt;
use super::types::{LogId, Snapshot, SnapshotData, SnapshotMeta, StoredMembership, Types};
use crate::checkpoint::{Checkpoint, Meta};
use crate::disk::Disk;
use crate::machine::{CheckpointSource, Committed, Payload, StateMachine};
use crate::members::{Members, NodeId};
use crate::position::Edge;

/// Most entries given to the state machine in one call. With more, the first reply would wait for the last entry.
const BATCH_ENTRIES_MAX: usize = 1024;

/// Progress of the state, readable from any thread.
#[derive(Debug)]
pub(crate) struct Progress {
    pub applied: watch::Sender<Edge>,
    /// The newest checkpoint on disk.
    pub newest: Mutex<Option<Checkpoint>>,
    /// Reason why a checkpoint that consensus needs cannot be written or read.
    trouble: Mutex<Option<String>>,
}

impl Progress {
    pub fn newest(&self) -> Option<Checkpoint> {
        self.newest.lock().clone()
    }

    /// The disk error of a checkpoint that consensus needs, if there was one.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    fn note_trouble(&self, doing: &str, error: &io::Error) {
        let mut trouble = self.trouble.lock();
        trouble.get_or_insert_with(|| format!("{doing} a checkpoint: {error}"));
    }

    pub fn set_newest(&self, checkpoint: Checkpoint) {
        *self.newest.lock() = Some(checkpoint);
    }
}

/// Resolves when a state machine has been dropped.
#[derive(Debug)]
pub(crate) struct Gone(oneshot::Receiver<()>);

impl Gone {
    /// Waits until the state machine has been dropped, so that no entry is applied any more.
    pub async fn wait(&mut self) {
        // The sender never sends; dropping it ends the wait.
        let _ = (&mut self.0).await;
    }
}

/// The caller's state machine with its position and membership.
pub(crate) struct Machine<S> {
    /// Never locked: openraft requires `Sync`, and a mutex reached only through `get_mut` provides it.
    state: Mutex<S>,
    applied: Edge,
    members_set: Edge,
    members: Members,
    progress: Arc<Progress>,
    disk: Arc<dyn Disk>,
    checkpoints: PathBuf,
    /// Dropped with the machine, which resolves `Gone`.
    going: Option<oneshot::Sender<()>>,
}

impl<S: StateMachine> Machine<S> {
    pub fn new(state: S, disk: Arc<dyn Disk>, checkpoints: PathBuf) -> Self {
        let progress = Progress {
            applied: watch::Sender::new(Edge::default()),
            newest: Mutex::new(None),
            trouble: Mutex::new(None),
        };
        Self {
            state: Mutex::new(state),
            applied: Edge::default(),
            members_set: Edge::default(),
            members: Members::default(),
            progress: Arc::new(progress),
            disk,
            checkpoints,
            going: None,
        }
    }

    /// The `Gone` of this machine. To be called once.
    pub fn gone(&mut self) -> Gone {
        let (going, gone) = oneshot::channel();
        self.going = Some(going);
        Gone(gone)
    }

    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Whether, as far as the state knows, no other server votes.
    pub fn knows_no_other_voter(&self, id: NodeId) -> bool {
        self.members.voters.iter().flatten().all(|voter| *voter == id)
    }

    pub fn checkpoints_dir(&self) -> PathBuf {
        self.checkpoints.clone()
    }

    /// Replaces the state by a checkpoint's.
    pub fn install(&mut self, checkpoint: Checkpoint) -> io::Result<()> {
        let content = checkpoint.content(self.disk.as_ref());
        let installed =
            content.and_then(|mut content| self.state.get_mut().install(checkpoint.meta.position, &mut content));
        if let Err(error) = installed {
            // Other errors are errors of the content: trying again would not help.
            if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::StorageFull {
                self.progress.note_trouble("reading", &error);
            }
            return Err(error);
        }
        self.applied = Edge::after(checkpoint.meta.position);
        self.members_set = checkpoint.meta.members_set;
        self.members = checkpoint.meta.members.clone();
        self.progress.applied.send_replace(self.applied);
        self.progress.set_newest(checkpoint);
        Ok(())
    }

    /// Applies committed entries that follow the last applied one.
    pub fn apply_batch(&mut self, batch: Vec<Committed>) -> io::Result<Vec<S::Reply>> {
        let mut edge = self.applied;
        for committed in &batch {
            // Gaps are for the state machine to detect: openraft's own test suite leaves entries out.
            assert!(committed.position.index >= edge.next, "entries apply in order, once");
            edge = Edge::after(committed.position);
            if let Payload::Membership(members) = &committed.payload {
                self.members_set = edge;
                self.members.clone_from(members);
            }
        }
        let count = batch.len();
        // A panic here would only end openraft's state machine task, and the server would hang. As an error it stops
        // consensus, and with it the process.
        let replies = catch_unwind(AssertUnwindSafe(|| self.state.get_mut().apply(batch)))
            .map_err(|_| io::Error::other("the state machine panicked"))?;
        assert_eq!(replies.len(), count, "one reply per entry");
        self.applied = edge;
        self.progress.applied.send_replace(edge);
        Ok(replies)
    }

    /// Captures the present state for a checkpoint; `None` before the first entry.
    pub fn begin_checkpoint(&mut self) -> Option<(Meta, Box<dyn CheckpointSource>)> {
        let position = self.applied.last()?;
        let meta = Meta { position, members_set: self.members_set, members: self.members.clone() };
        Some((meta, self.state.get_mut().checkpoint()))
    }
}

impl<S: StateMachine> RaftStateMachine<Types<S::Reply>> for Machine<S> {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        let applied = self.applied.last().map(adapt::log_id);
        Ok((applied, adapt::stored_membership(self.members_set, &self.members)?))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Types<S::Reply>>>> + Unpin + OptionalSend,
    {
        let mut batch = Vec::new();
        let mut responders: Vec<Option<ApplyResponder<Types<S::Reply>>>> = Vec::new();
        loop {
            let item = entries.next().await;
            let ended = item.is_none();
            if let Some(item) = item {
                let (entry, responder) = item?;
                batch.push(adapt::committed_entry(entry));
                responders.push(responder);
            }
            if !batch.is_empty() && (ended || batch.len() >= BATCH_ENTRIES_MAX) {
                let replies = self.apply_batch(std::mem::take(&mut batch))?;
                for (responder, reply) in responders.drain(..).zip(replies) {
                    if let Some(responder) = responder {
                        responder.send(reply);
                    }
                }
            }
            if ended {
                return Ok(());
            }
        }
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        let newest = self.progress.newest();
        let current = newest.as_ref().map(|checkpoint| checkpoint.meta.position) == self.applied.last();
        match newest {
            // openraft asks because a checkpoint was just written (see `announce_checkpoint`), so return that one.
            Some(newest) if current || !force => Some(Builder::Written(newest)),
            _ if force => Some(self.get_snapshot_builder().await),
            _ => None,
        }
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder::Unwritten {
            begun: Mutex::new(self.begin_checkpoint()),
            disk: Arc::clone(&self.disk),
            dir: self.checkpoints.clone(),
            progress: self.progress(),
        }
    }

    async fn install_snapshot(&mut self, _meta: &SnapshotMeta, snapshot: SnapshotData) -> io::Result<()> {
        snapshot.map_or(Ok(()), |checkpoint| self.install(checkpoint))
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        self.progress.newest().map(to_snapshot).transpose()
    }
}

pub(super) fn to_snapshot(checkpoint: Checkpoint) -> io::Result<Snapshot> {
    Ok(Snapshot { meta: adapt::snapshot_meta(&checkpoint.meta)?, snapshot: Some(checkpoint) })
}

/// Snapshot for openraft. Checkpoints are normally written before openraft asks for them, because an error here, such
/// as a full disk, stops consensus.
pub(crate) enum Builder {
    Written(Checkpoint),
    Unwritten {
        begun: Mutex<Option<(Meta, Box<dyn CheckpointSource>)>>,
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        progress: Arc<Progress>,
    },
}

impl<R: Send + Sync + 'static> RaftSnapshotBuilder<Types<R>> for Builder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        match self {
            Self::Written(checkpoint) => to_snapshot(checkpoint.clone()),
            Self::Unwritten { begun, disk, dir, progress } => {
                let begun = begun.get_mut().take();
                let Some((meta, source)) = begun else {
                    return Ok(Snapshot { meta: SnapshotMeta::default(), snapshot: None });
                };
                let (dir, on) = (dir.clone(), Arc::clone(disk));
                let written = disk.blocking(move || Checkpoint::write(on.as_ref(), &dir, meta, source)).await?;
                let checkpoint = written.inspect_err(|error| progress.note_trouble("writing", error))?;
                progress.set_newest(checkpoint.clone());
                to_snapshot(checkpoint)
            }
        }
    }
}
