//! One member of the cluster: openraft behind calls that use this crate's types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::async_runtime::{Watch as _, WatchReceiver, WatchSender as _};
use openraft::errors::{ClientWriteError, Fatal, ForwardToLeader, LinearizableReadError, RaftError};
use openraft::impls::BasicNode;
use openraft::raft::AppendEntriesResponse;
use openraft::{ChangeMembers, Config, Instant as _, Raft, ReadPolicy, SnapshotPolicy};
use tokio::sync::{Mutex, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::adapt;
use super::incoming::{Gathered, Incoming};
use super::machine::{Machine, Progress};
use super::message::{Part, Request, Response};
use super::network::Network;
use super::runtime;
use super::storage::LogStorage;
use super::types::{Command, CommittedLeaderId, ReplyTo, Types};
use crate::checkpoint::Meta;
use crate::error::{Failure, MemberError, OpenError, ProposeError};
use crate::log::{Accepted, Leadership, PeerProgress, Timing};
use crate::machine::{CheckpointSource, StateMachine};
use crate::members::{Members, NodeId};
use crate::position::{Edge, Position};
use crate::store::Store;

/// Interval at which a running core is checked for failure. Storage errors are seen at once; this is for all others.
const WATCHDOG: Duration = Duration::from_millis(200);

/// Time within which the core must notice a checkpoint that was just written.
const SNAPSHOT_NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// Reason why a member is not ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadyError {
    #[error("there is no leader yet")]
    NoLeader,
    #[error("consensus has stopped: {0}")]
    Stopped(String),
}

/// Published state of consensus, across its runs. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Outlook {
    pub leadership: watch::Sender<Leadership>,
    pub members: watch::Sender<Members>,
}

impl Outlook {
    /// The state before the first run.
    pub fn new() -> Self {
        Self {
            leadership: watch::Sender::new(Leadership { term: 0, leader: None, is_leader: false }),
            members: watch::Sender::new(Members::default()),
        }
    }

    /// Publishes that there is no leader: consensus does not run on this server.
    fn nobody_leads(&self) {
        self.leadership.send_if_modified(|known| {
            let now = Leadership { leader: None, is_leader: false, ..*known };
            std::mem::replace(known, now) != now
        });
    }
}

/// A running member of the cluster.
pub(crate) struct Node<S: StateMachine> {
    id: NodeId,
    raft: Raft<Types<S::Reply>, Machine<S>>,
    outlook: Outlook,
    /// Whether this server is a leader that reaches no majority. Every proposal under way waits for this value, so it
    /// must wake them in their order.
    cut_off: runtime::watch::Receiver<bool>,
    failure: watch::Receiver<Option<Failure>>,
    timing: Timing,
    /// Held during a membership change, so that there is one at a time.
    changing: Mutex<()>,
    incoming: Mutex<Incoming>,
    /// Time at which a leader was last heard.
    heard: parking_lot::Mutex<Option<Instant>>,
    /// Tasks that update `outlook`. Taken when the node shuts down.
    tellers: Mutex<Vec<JoinHandle<()>>>,
}

type RaftFatal<S> = Fatal<Types<<S as StateMachine>::Reply>>;

impl<S: StateMachine> Node<S> {
    /// Starts consensus over the log on disk.
    ///
    /// `alone`: the server bootstraps a cluster of its own if it belongs to none.
    pub async fn start(
        id: NodeId,
        alone: bool,
        timing: Timing,
        store: Arc<Store>,
        machine: Machine<S>,
        network: Network,
        outlook: Outlook,
    ) -> Result<Self, OpenError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let config = Config {
            cluster_name: "songline".to_owned(),
            heartbeat_interval: millis(timing.heartbeat),
            election_timeout_min: millis(timing.election_min),
            election_timeout_max: millis(timing.election_max),
            install_snapshot_timeout: 300_000,
            enable_pre_vote: Some(true),
            // A leader that reaches no majority falls silent, so that a majority elsewhere can elect another.
            quorum_loss_probe_interval: Some(millis(timing.election_max) * 2),
            // Checkpoints and retention follow our own rules: openraft must not purge by itself.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: u64::MAX,
            ..Config::default()
        };
        let config = config.validate().map_err(|error| OpenError::Start(error.to_string()))?;
        let incoming = Mutex::new(Incoming::new(Arc::clone(&network.disk), machine.checkpoints_dir()));
        let asks_anew = !(alone && machine.knows_no_other_voter(id));
        let progress = machine.progress();
        let raft =
            Raft::new(id, Arc::new(config), network, LogStorage { store: Arc::clone(&store), asks_anew }, machine)
                .await
                .map_err(|error| OpenError::Start(error.to_string()))?;
        let (leadership, cut_off) = watch_leadership(&raft, timing, outlook.clone());
        let members = watch_members(&raft, outlook.members.clone()).await?;
        let failure = watch_failure(&raft, store, progress);
        let (changing, heard) = (Mutex::default(), parking_lot::Mutex::default());
        let tellers = Mutex::new(vec![leadership, members]);
        Ok(Self { id, raft, outlook, cut_off, failure, timing, changing, incoming, heard, tellers })
    }

    /// Whether this server belongs to a cluster, or has heard of one.
    pub async fn is_initialized(&self) -> Result<bool, OpenError> {
        self.raft.is_initialized().await.map_err(|error| OpenError::Start(error.to_string()))
    }

    /// Bootstraps a cluster of these members, unless this server already belongs to one.
    pub async fn found_cluster(&self, members: &BTreeMap<NodeId, String>) -> Result<(), OpenError> {
        if self.is_initialized().await? {
            return Ok(());
        }
        let members: BTreeMap<_, _> = members.iter().map(|(id, address)| (*id, BasicNode::new(address))).collect();
        self.raft.initialize(members).await.map_err(|error| OpenError::Start(error.to_string()))
    }

    /// Whether this server is the only voter.
    pub async fn is_only_voter(&self) -> Result<bool, OpenError> {
        let id = self.id;
        self.raft
            .with_raft_state(move |state| state.membership_state.effective().voter_ids().eq([id]))
            .await
            .map_err(|error| OpenError::Start(error.to_string()))
    }

    /// Stands for election now instead of after the election timeout.
    pub async fn stand(&self) {
        // A stopped core reports its error at the next call.
        let _ = self.raft.trigger().elect(false).await;
    }

    /// Proposes a command. With a `term`, only while this server leads in that term; the core checks the term in order
    /// with its other work.
    pub async fn propose(&self, command: Bytes, term: Option<u64>) -> Result<Accepted<S::Reply>, ProposeError> {
        let (tx, rx) = oneshot::channel();
        if *self.cut_off.borrow_watched() {
            return Err(ProposeError::NotLeader { leader: None, address: None });
        }
        let mut cut_off = self.cut_off.clone();
        let sent = match term {
            None => self.raft.client_write_ff(Command(command), Some(ReplyTo(tx))).await,
            Some(term) => {
                self.raft.write(Command(command)).with_leader(CommittedLeaderId::new(term)).responder(ReplyTo(tx)).await
            }
        };
        sent.map_err(|fatal| stopped::<S>(&fatal))?;
        let answered = tokio::select! {
            // An answer that is there counts, even when the leader is cut off at the same moment.
            biased;
            answered = rx => answered,
            // Without a majority the answer may never come, so the wait ends when the leader is cut off.
            Ok(_) = cut_off.wait_until(|cut_off| *cut_off) => return Err(ProposeError::OutcomeUnknown),
        };
        match answered {
            Ok(Ok(response)) => Ok(Accepted { position: adapt::position(&response.log_id), reply: response.data }),
            Ok(Err(error)) => Err(match error {
                ClientWriteError::ForwardToLeader(forward) => not_leader::<S>(&forward),
                ClientWriteError::LogEntryDiscarded(_) => ProposeError::OutcomeUnknown,
                // These errors belong to calls that are not made here; in any case nothing was promised.
                error @ (ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_)) => {
                    ProposeError::Stopped(error.to_string())
                }
            }),
            Err(_) => {
                // The reason is published a moment later.
                let mut failure = self.failure.clone();
                let told = tokio::time::timeout(WATCHDOG * 5, failure.wait_for(Option::is_some)).await;
                let why = told.ok().and_then(|told| told.ok()?.as_ref().map(ToString::to_string));
                Err(ProposeError::Stopped(why.unwrap_or_else(|| "the log is shut down".to_owned())))
            }
        }
    }

    /// Returns once this server is known to lead and has applied every entry committed before the call.
    pub async fn read_barrier(&self) -> Result<(), ProposeError> {
        self.barrier(ReadPolicy::ReadIndex).await
    }

    /// Like `read_barrier`, but relies on the leader's lease and asks no other member. Correct only while clocks run at
    /// the same speed.
    pub async fn lease_barrier(&self) -> Result<(), ProposeError> {
        self.barrier(ReadPolicy::LeaseRead).await
    }

    async fn barrier(&self, policy: ReadPolicy) -> Result<(), ProposeError> {
        match self.raft.ensure_linearizable(policy).await {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => Err(not_leader::<S>(&forward)),
            Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
                Err(ProposeError::NotLeader { leader: None, address: None })
            }
            Err(RaftError::Fatal(fatal)) => Err(stopped::<S>(&fatal)),
        }
    }

    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.outlook.leadership.subscribe()
    }

    /// The leader's knowledge of the other members; empty on other servers.
    pub fn peers(&self) -> BTreeMap<NodeId, PeerProgress> {
        let metrics = self.raft.data_metrics();
        let metrics = metrics.borrow_watched();
        let heard = |id: &NodeId| {
            let at = metrics.heartbeat.as_ref()?.get(id)?.as_ref()?;
            Some(at.elapsed())
        };
        let replication = metrics.replication.iter().flatten().filter(|(id, _)| **id != self.id);
        replication
            .map(|(id, matched)| {
                (*id, PeerProgress { matched: matched.as_ref().map(adapt::position), last_heard: heard(id) })
            })
            .collect()
    }

    /// Time since a leader was last heard; `None`: not since the start. Zero on the leader itself.
    pub fn last_contact(&self) -> Option<Duration> {
        if self.outlook.leadership.borrow().is_leader {
            return Some(Duration::ZERO);
        }
        let heard = *self.heard.lock();
        heard.map(|at| at.elapsed())
    }

    /// Position of the last committed entry that this server knows of.
    pub fn committed(&self) -> Option<Position> {
        self.raft.data_metrics().borrow_watched().cluster_committed.as_ref().map(adapt::position)
    }

    /// Handles a message of another member and returns the answer.
    pub async fn receive(&self, message: Bytes) -> Bytes {
        let response = match Request::<S::Reply>::decode(self.id, message) {
            Ok(request) => self.answer(request).await.unwrap_or_else(Response::Failed),
            Err(error) => Response::Failed(error.to_string()),
        };
        response.encode()
    }

    async fn answer(&self, request: Request<S::Reply>) -> Result<Response<S::Reply>, String> {
        Ok(match request {
            Request::Append(append) => {
                let response = self.raft.append_entries(append).await.map_err(|error| error.to_string())?;
                if !matches!(response, AppendEntriesResponse::HigherVote(_)) {
                    self.hear();
                }
                Response::Append(response)
            }
            Request::Vote(vote) => Response::Vote(self.raft.vote(vote).await.map_err(|error| error.to_string())?),
            Request::PreVote(vote) => {
                Response::Vote(self.raft.pre_vote(vote).await.map_err(|error| error.to_string())?)
            }
            Request::Transfer(transfer) => {
                Response::Transfer(self.raft.handle_transfer_leader(transfer).await.map_err(|error| error.to_string())?)
            }
            Request::Part(part) => self.take_part(part).await?,
        })
    }

    async fn take_part(&self, part: Part) -> Result<Response<S::Reply>, String> {
        let mut incoming = self.incoming.lock().await;
        let own = self.raft.server_metrics().borrow_watched().vote;
        if own > part.vote {
            return Ok(Response::Part { vote: own, have: 0 });
        }
        self.hear();
        let (vote, position, file_bytes) = (part.vote, part.position, part.file_bytes);
        let applied = self.raft.data_metrics().borrow_watched().last_applied.as_ref().map(adapt::position);
        if applied.is_some_and(|applied| applied.index >= position.index) {
            // The leader missed the answer to an earlier installation, perhaps because this server was down.
            return Ok(Response::Part { vote: own, have: file_bytes });
        }
        Ok(match incoming.take(part).await.map_err(|error| format!("storing a checkpoint: {error}"))? {
            Gathered::Have(have) => Response::Part { vote: own, have },
            Gathered::Whole(checkpoint) => {
                tracing::info!(%position, bytes = file_bytes, "installing a checkpoint of the leader");
                let raft = self.raft.clone();
                incoming.install(position, async move {
                    let snapshot = checkpoint
                        .verified()
                        .await
                        .and_then(super::machine::to_snapshot)
                        .map_err(|error| error.to_string())?;
                    let installed =
                        raft.install_full_snapshot(vote, snapshot).await.map_err(|fatal| fatal.to_string())?;
                    Ok(installed.vote)
                });
                Response::Installing
            }
            Gathered::Installing => Response::Installing,
            Gathered::Installed(vote) => Response::Part { vote, have: file_bytes },
        })
    }

    fn hear(&self) {
        *self.heard.lock() = Some(Instant::now());
    }

    /// Adds a learner, or changes a learner's address. Returns once the change is committed.
    pub async fn add_learner(&self, id: NodeId, address: &str) -> Result<(), MemberError> {
        let _alone = self.changing.lock().await;
        let node = BasicNode::new(address);
        let known = self.outlook.members.borrow().addresses.get(&id).cloned();
        match known {
            Some(known) if known == address => Ok(()),
            Some(_) => self.change(ChangeMembers::SetNodes(BTreeMap::from([(id, node)])), true).await,
            None => self.raft.add_learner(id, node, false).await.map(|_| ()).map_err(member_error::<S>),
        }
    }

    /// Gives a learner a vote.
    pub async fn promote(&self, id: NodeId) -> Result<(), MemberError> {
        let _alone = self.changing.lock().await;
        self.change(ChangeMembers::AddVoterIds(BTreeSet::from([id])), true).await
    }

    /// Makes a voter a learner.
    pub async fn demote(&self, id: NodeId) -> Result<(), MemberError> {
        let _alone = self.changing.lock().await;
        self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id])), true).await
    }

    /// Removes a server from the cluster.
    pub async fn remove(&self, id: NodeId) -> Result<(), MemberError> {
        let _alone = self.changing.lock().await;
        let members = self.outlook.members.borrow().clone();
        if members.voters.iter().any(|voters| voters.contains(&id)) {
            self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id])), false).await
        } else {
            self.change(ChangeMembers::RemoveNodes(BTreeSet::from([id])), false).await
        }
    }

    /// Finishes a change of the voters that an earlier leader began.
    pub async fn finish_change(&self) -> Result<(), MemberError> {
        let _alone = self.changing.lock().await;
        let voters = self.outlook.members.borrow().voters.clone();
        match voters.as_slice() {
            // The last set is the one that was wanted. Setting its voters once more leaves only that set.
            [_, .., wanted] => self.change(ChangeMembers::AddVoterIds(wanted.clone()), true).await,
            [] | [_] => Ok(()),
        }
    }

    async fn change(&self, change: ChangeMembers<NodeId, BasicNode>, retain: bool) -> Result<(), MemberError> {
        self.raft.change_membership(change, retain).await.map(|_| ()).map_err(member_error::<S>)
    }

    /// Asks a voter to take over, and returns the next leader, which may be another. Fails if none is known after
    /// `election_max * 4`.
    pub async fn transfer(&self, to: NodeId) -> Result<NodeId, MemberError> {
        let mut leadership = self.leadership();
        if !leadership.borrow().is_leader {
            return Err(MemberError::NotLeader);
        }
        self.raft.trigger().transfer_leader(to).await.map_err(|fatal| MemberError::Failed(fatal.to_string()))?;
        let within = self.timing.election_max * 4;
        let replaced = leadership.wait_for(|now| !now.is_leader && now.leader.is_some_and(|leader| leader != self.id));
        match tokio::time::timeout(within, replaced).await.map(|now| now.ok().and_then(|now| now.leader)) {
            Ok(Some(leader)) => Ok(leader),
            Ok(None) | Err(_) => {
                Err(MemberError::Failed(format!("server {to} did not take over in {} ms", within.as_millis())))
            }
        }
    }

    pub fn failure(&self) -> watch::Receiver<Option<Failure>> {
        self.failure.clone()
    }

    /// Captures the state between two batches.
    pub async fn begin_checkpoint(&self) -> Result<Option<(Meta, Box<dyn CheckpointSource>)>, ProposeError> {
        self.raft
            .with_state_machine(|machine: &mut Machine<S>| {
                let begun = machine.begin_checkpoint();
                Box::pin(async move { begun })
            })
            .await
            .map_err(|fatal| stopped::<S>(&fatal))
    }

    /// Makes openraft notice a checkpoint on disk, so that entries below it may be purged.
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

    /// Lets openraft purge entries below `next`, as far as a checkpoint covers them and no member needs them.
    pub async fn purge(&self, next: u64) -> Result<(), ProposeError> {
        let Some(last) = next.checked_sub(1) else { return Ok(()) };
        self.raft.trigger().purge_log(last).await.map_err(|fatal| stopped::<S>(&fatal))
    }

    /// Stops consensus. When this returns, its tasks no longer update `outlook`.
    pub async fn shutdown(&self) {
        if let Err(error) = self.raft.shutdown().await {
            tracing::error!(%error, "consensus did not stop cleanly");
        }
        // An installation in progress would write to files that the next run opens again.
        self.incoming.lock().await.rest().await;
        let mut tellers = self.tellers.lock().await;
        for teller in tellers.drain(..) {
            teller.abort();
            // An error here only says that the task was aborted or has ended.
            let _ = teller.await;
            self.outlook.nobody_leads();
        }
    }

    /// Returns once this server leads and has applied every entry committed before the call.
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
    ProposeError::NotLeader {
        leader: forward.leader_id,
        address: forward.leader_node.as_ref().map(|node| node.addr.clone()),
    }
}

fn member_error<S: StateMachine>(error: RaftError<Types<S::Reply>, ClientWriteError<Types<S::Reply>>>) -> MemberError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => MemberError::NotLeader,
        other => MemberError::Failed(other.to_string()),
    }
}

async fn watch_members<S: StateMachine>(
    raft: &Raft<Types<S::Reply>, Machine<S>>,
    tx: watch::Sender<Members>,
) -> Result<JoinHandle<()>, OpenError> {
    let mut metrics = raft.server_metrics();
    let read = |metrics: &openraft::metrics::RaftServerMetrics<Types<S::Reply>>| {
        adapt::members(metrics.membership_config.membership())
    };
    // openraft publishes its first metrics a moment after its start. Until then they name no members, and a server that
    // believed that would not check whether it can authenticate the others.
    let first = raft.with_raft_state(|state| adapt::members(state.membership_state.effective().membership()));
    let first = first.await.map_err(|error| OpenError::Start(error.to_string()))?;
    tx.send_if_modified(|known| {
        let differs = *known != first;
        *known = first;
        differs
    });
    Ok(tokio::spawn(async move {
        while metrics.changed().await.is_ok() {
            let now = read(&metrics.borrow_watched());
            tx.send_if_modified(|known| {
                let differs = *known != now;
                *known = now;
                differs
            });
        }
    }))
}

/// Publishes the leader, and whether this server is cut off: a leader that has heard no majority for
/// `election_max * 2`. A cut-off leader is published as no leader, because it cannot commit anything.
fn watch_leadership<S: StateMachine>(
    raft: &Raft<Types<S::Reply>, Machine<S>>,
    timing: Timing,
    outlook: Outlook,
) -> (JoinHandle<()>, runtime::watch::Receiver<bool>) {
    let mut metrics = raft.server_metrics();
    let data = raft.data_metrics();
    let timeout = timing.election_max * 2;
    let read = move |metrics: &openraft::metrics::RaftServerMetrics<Types<S::Reply>>, since: Instant| {
        let leads = metrics.state.is_leader() && metrics.vote.is_committed();
        let silence =
            data.borrow_watched().last_quorum_acked.map_or(Duration::MAX, |at| at.elapsed()).min(since.elapsed());
        let alone = metrics.membership_config.membership().voter_ids().count() == 1;
        let cut_off = leads && !alone && silence > timeout;
        let leadership = Leadership {
            term: metrics.vote.leader_id().term,
            leader: metrics.current_leader.filter(|_| !cut_off),
            is_leader: leads && !cut_off,
        };
        (leadership, cut_off)
    };
    let (first, _) = read(&metrics.borrow_watched(), Instant::now());
    outlook.leadership.send_replace(first);
    let (cut_tx, cut_rx) = runtime::watch::Watches::channel(false);
    let teller = tokio::spawn(async move {
        let mut term = (first.term, Instant::now());
        loop {
            match tokio::time::timeout(timing.heartbeat, metrics.changed()).await {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(_)) => break,
            }
            let (now, cut_off) = read(&metrics.borrow_watched(), term.1);
            if now.term != term.0 {
                // At the start of a term no member can have answered yet, so count the silence from now.
                term = (now.term, Instant::now());
            }
            outlook.leadership.send_if_modified(|known| std::mem::replace(known, now) != now);
            cut_tx.send_if_modified(|known| std::mem::replace(known, cut_off) != cut_off);
        }
        outlook.nobody_leads();
    });
    (teller, cut_rx)
}

/// Publishes the failure of consensus, or of a disk while consensus does not use it.
fn watch_failure<S: StateMachine>(
    raft: &Raft<Types<S::Reply>, Machine<S>>,
    store: Arc<Store>,
    progress: Arc<Progress>,
) -> watch::Receiver<Option<Failure>> {
    let mut metrics = raft.metrics();
    let (tx, rx) = watch::channel(None);
    let of_disk = move || {
        let why = store.failure().or_else(|| progress.trouble())?;
        Some(Failure::Disk { dir: store.dir().to_owned(), why })
    };
    tokio::spawn(async move {
        loop {
            let gone = matches!(tokio::time::timeout(WATCHDOG, metrics.changed()).await, Ok(Err(_)));
            let failure = match metrics.borrow_watched().running_state.clone() {
                Err(Fatal::Stopped) => return,
                Err(fatal) => Some(of_disk().unwrap_or_else(|| Failure::Consensus(fatal.to_string()))),
                Ok(()) if gone => Some(Failure::Consensus("consensus panicked".to_owned())),
                Ok(()) => of_disk(),
            };
            if failure.is_some() {
                tx.send_replace(failure);
                return;
            }
            // The metrics change with every group of entries; looking at each change is not needed.
            tokio::time::sleep(WATCHDOG).await;
        }
    });
    rx
}

/// Waits until entries up to `edge` are applied.
pub(crate) async fn applied(progress: &Progress, edge: Edge) {
    // The sender lives in `progress`, so the wait cannot fail.
    let _ = progress.applied.subscribe().wait_for(|applied| applied.next >= edge.next).await;
}
