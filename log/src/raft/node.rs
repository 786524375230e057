//! One member of the cluster: openraft behind calls that speak our own types.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, Fatal, ForwardToLeader, LinearizableReadError, RaftError};
use openraft::impls::BasicNode;
use openraft::{Config, Raft, ReadPolicy, SnapshotPolicy};
use tokio::sync::{oneshot, watch};

use super::adapt;
use super::machine::{Machine, Progress};
use super::network::NoNetwork;
use super::storage::LogStorage;
use super::types::{Command, CommittedLeaderId, ReplyTo, Types};
use crate::checkpoint::Meta;
use crate::error::OpenError;
use crate::log::{Accepted, Failure, Leadership, ProposeError};
use crate::machine::{CheckpointSource, StateMachine};
use crate::members::NodeId;
use crate::position::{Edge, Position};
use crate::store::Store;

/// How often a running core is looked at for having failed. Its storage errors are seen at once; this is for
/// the rest.
const WATCHDOG: Duration = Duration::from_millis(200);

/// How long the core may take to notice a checkpoint that was just written.
const SNAPSHOT_NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// Why a member is not ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadyError {
    #[error("there is no leader yet")]
    NoLeader,
    #[error("consensus has stopped: {0}")]
    Stopped(String),
}

/// A running member.
pub(crate) struct Node<S: StateMachine> {
    id: NodeId,
    raft: Raft<Types<S::Reply>, Machine<S>>,
    leadership: watch::Receiver<Leadership>,
    failure: watch::Receiver<Option<Failure>>,
}

type RaftFatal<S> = Fatal<Types<<S as StateMachine>::Reply>>;

impl<S: StateMachine> Node<S> {
    /// Starts consensus over what is on disk.
    pub async fn start(id: NodeId, store: Arc<Store>, machine: Machine<S>) -> Result<Self, OpenError> {
        let config = Config {
            cluster_name: "songline".to_owned(),
            heartbeat_interval: 250,
            election_timeout_min: 1000,
            election_timeout_max: 2000,
            install_snapshot_timeout: 300_000,
            enable_pre_vote: Some(true),
            // We write checkpoints and drop segments by our own rules: openraft must not purge by itself.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: u64::MAX,
            ..Config::default()
        };
        let config = config.validate().map_err(|error| OpenError::Start(error.to_string()))?;
        let raft = Raft::new(id, Arc::new(config), NoNetwork, LogStorage { store }, machine)
            .await
            .map_err(|error| OpenError::Start(error.to_string()))?;
        let leadership = watch_leadership(&raft);
        let failure = watch_failure(&raft);
        Ok(Self { id, raft, leadership, failure })
    }

    /// Makes this server the only member of a new cluster, unless it already is in one.
    pub async fn found_cluster(&self, address: &str) -> Result<(), OpenError> {
        let start = |error: String| OpenError::Start(error);
        if self.raft.is_initialized().await.map_err(|error| start(error.to_string()))? {
            return Ok(());
        }
        let members = BTreeMap::from([(self.id, BasicNode::new(address))]);
        self.raft.initialize(members).await.map_err(|error| start(error.to_string()))
    }

    /// Whether this server decides alone.
    pub async fn is_only_voter(&self) -> Result<bool, OpenError> {
        let id = self.id;
        self.raft
            .with_raft_state(move |state| state.membership_state.effective().voter_ids().eq([id]))
            .await
            .map_err(|error| OpenError::Start(error.to_string()))
    }

    /// Stands for election now instead of waiting for silence to be noticed.
    pub async fn stand(&self) {
        // A core that has stopped says so to the next caller.
        let _ = self.raft.trigger().elect(false).await;
    }

    /// With a `term`, only while this server leads in it; the core compares the two in its own order of things.
    pub async fn propose(&self, command: Bytes, term: Option<u64>) -> Result<Accepted<S::Reply>, ProposeError> {
        let (tx, rx) = oneshot::channel();
        let sent = match term {
            None => self.raft.client_write_ff(Command(command), Some(ReplyTo(tx))).await,
            Some(term) => self.raft.write(Command(command)).with_leader(CommittedLeaderId::new(term)).responder(ReplyTo(tx)).await,
        };
        sent.map_err(|fatal| stopped::<S>(&fatal))?;
        match rx.await {
            Ok(Ok(response)) => Ok(Accepted { position: adapt::position(&response.log_id), reply: response.data }),
            Ok(Err(error)) => Err(match error {
                ClientWriteError::ForwardToLeader(forward) => not_leader::<S>(&forward),
                ClientWriteError::LogEntryDiscarded(_) => ProposeError::OutcomeUnknown,
                // Neither is ever asked for here; whatever it means, nothing was promised.
                error @ (ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_)) => {
                    ProposeError::Stopped(error.to_string())
                }
            }),
            Err(_) => {
                let failure = self.failure.borrow().clone();
                Err(ProposeError::Stopped(failure.map_or_else(|| "the log is shut down".to_owned(), |it| it.0)))
            }
        }
    }

    /// Returns once this server is known to lead and has applied everything committed before the call.
    pub async fn read_barrier(&self) -> Result<(), ProposeError> {
        match self.raft.ensure_linearizable(ReadPolicy::ReadIndex).await {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => Err(not_leader::<S>(&forward)),
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
                Err(ProposeError::NotLeader { leader: None, address: None })
            }
            Err(RaftError::Fatal(fatal)) => Err(stopped::<S>(&fatal)),
        }
    }

    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    pub fn failure(&self) -> watch::Receiver<Option<Failure>> {
        self.failure.clone()
    }

    /// Takes the state between two batches.
    pub async fn begin_checkpoint(&self) -> Result<Option<(Meta, Box<dyn CheckpointSource>)>, ProposeError> {
        self.raft
            .with_state_machine(|machine: &mut Machine<S>| {
                let begun = machine.begin_checkpoint();
                Box::pin(async move { begun })
            })
            .await
            .map_err(|fatal| stopped::<S>(&fatal))
    }

    /// Tells openraft of a checkpoint that is on disk, so that entries below it may be purged.
    pub async fn announce_checkpoint(&self, position: Position) -> Result<(), ProposeError> {
        self.raft.trigger().snapshot().await.map_err(|fatal| stopped::<S>(&fatal))?;
        let wanted = adapt::log_id(position);
        self.raft
            .wait(Some(SNAPSHOT_NOTICED_WITHIN))
            .metrics(|metrics| metrics.snapshot.is_some_and(|known| known >= wanted), "checkpoint is known")
            .await
            .map_err(|error| ProposeError::Stopped(error.to_string()))?;
        Ok(())
    }

    /// Lets openraft forget entries below `next`, as far as a checkpoint covers them and no member needs them.
    pub async fn purge(&self, next: u64) -> Result<(), ProposeError> {
        let Some(last) = next.checked_sub(1) else { return Ok(()) };
        self.raft.trigger().purge_log(last).await.map_err(|fatal| stopped::<S>(&fatal))
    }

    pub async fn shutdown(&self) {
        if let Err(error) = self.raft.shutdown().await {
            tracing::error!(%error, "consensus did not stop cleanly");
        }
    }

    /// Waits until this server leads and has applied all that it holds.
    pub async fn ready(&self) -> Result<(), ReadyError> {
        match self.read_barrier().await {
            Ok(()) => Ok(()),
            Err(ProposeError::Stopped(why)) => Err(ReadyError::Stopped(why)),
            Err(_) => Err(ReadyError::NoLeader),
        }
    }
}

fn stopped<S: StateMachine>(fatal: &RaftFatal<S>) -> ProposeError {
    ProposeError::Stopped(fatal.to_string())
}

fn not_leader<S: StateMachine>(forward: &ForwardToLeader<Types<S::Reply>>) -> ProposeError {
    ProposeError::NotLeader { leader: forward.leader_id, address: forward.leader_node.as_ref().map(|node| node.addr.clone()) }
}

fn watch_leadership<S: StateMachine>(raft: &Raft<Types<S::Reply>, Machine<S>>) -> watch::Receiver<Leadership> {
    let mut metrics = raft.server_metrics();
    let read = |metrics: &openraft::metrics::RaftServerMetrics<Types<S::Reply>>| Leadership {
        term: metrics.vote.leader_id().term,
        leader: metrics.current_leader,
        is_leader: metrics.state.is_leader() && metrics.vote.is_committed(),
    };
    let (tx, rx) = watch::channel(read(&metrics.borrow_watched()));
    tokio::spawn(async move {
        while metrics.changed().await.is_ok() {
            let now = read(&metrics.borrow_watched());
            tx.send_if_modified(|known| std::mem::replace(known, now) != now);
        }
        tx.send_modify(|known| known.is_leader = false);
    });
    rx
}

fn watch_failure<S: StateMachine>(raft: &Raft<Types<S::Reply>, Machine<S>>) -> watch::Receiver<Option<Failure>> {
    let mut metrics = raft.metrics();
    let (tx, rx) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            let gone = metrics.changed().await.is_err();
            match metrics.borrow_watched().running_state.clone() {
                Err(Fatal::Stopped) => return,
                Err(fatal) => {
                    tx.send_replace(Some(Failure(fatal.to_string())));
                    return;
                }
                Ok(()) if gone => {
                    tx.send_replace(Some(Failure("consensus panicked".to_owned())));
                    return;
                }
                Ok(()) => {}
            }
            // The metrics change with every group; there is no need to look at each.
            tokio::time::sleep(WATCHDOG).await;
        }
    });
    rx
}

/// Waits until at least `edge` is applied.
pub(crate) async fn applied(progress: &Progress, edge: Edge) {
    // The sender lives in `progress`, so waiting cannot fail.
    let _ = progress.applied.subscribe().wait_for(|applied| applied.next >= edge.next).await;
}
