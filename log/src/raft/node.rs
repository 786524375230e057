//! One member of the cluster: openraft behind calls that speak our own types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
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

/// What the outside sees of consensus, whichever run of it there is. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Outlook {
    pub leadership: watch::Sender<Leadership>,
    pub members: watch::Sender<Members>,
}

impl Outlook {
    /// Before the first run.
    pub fn new() -> Self {
        Self {
            leadership: watch::Sender::new(Leadership { term: 0, leader: None, is_leader: false }),
            members: watch::Sender::new(Members::default()),
        }
    }

    /// Consensus does not run: this server leads nobody, and hears of nobody who does.
    fn nobody_leads(&self) {
        self.leadership.send_if_modified(|known| {
            let now = Leadership { leader: None, is_leader: false, ..*known };
            std::mem::replace(known, now) != now
        });
    }
}

/// A running member.
pub(crate) struct Node<S: StateMachine> {
    id: NodeId,
    raft: Raft<Types<S::Reply>, Machine<S>>,
    outlook: Outlook,
    /// Whether this server is a leader that reaches no majority.
    /// As many wait for it as there are proposals, so that it has to wake them in their order.
    cut_off: runtime::watch::Receiver<bool>,
    failure: watch::Receiver<Option<Failure>>,
    timing: Timing,
    /// One change of the membership at a time.
    changing: Mutex<()>,
    incoming: Mutex<Incoming>,
    /// When a leader was last heard.
    heard: std::sync::Mutex<Option<Instant>>,
    /// What tells the outlook of changes. Taken when it ends.
    tellers: Mutex<Vec<JoinHandle<()>>>,
}

type RaftFatal<S> = Fatal<Types<<S as StateMachine>::Reply>>;

impl<S: StateMachine> Node<S> {
    /// Starts consensus over what is on disk.
    ///
    /// `alone`: the server founds a cluster of its own if it belongs to none.
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
            // A leader that reaches no majority falls silent, so that those who can reach one elect another.
            quorum_loss_probe_interval: Some(millis(timing.election_max) * 2),
            // We write checkpoints and drop segments by our own rules: openraft must not purge by itself.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: u64::MAX,
            ..Config::default()
        };
        let config = config.validate().map_err(|error| OpenError::Start(error.to_string()))?;
        let incoming = Mutex::new(Incoming::new(Arc::clone(&network.disk), machine.checkpoints_dir()));
        let asks_anew = !(alone && machine.knows_no_other_voter(id));
        let progress = machine.progress();
        let raft = Raft::new(id, Arc::new(config), network, LogStorage { store: Arc::clone(&store), asks_anew }, machine)
            .await
            .map_err(|error| OpenError::Start(error.to_string()))?;
        let (leadership, cut_off) = watch_leadership(&raft, timing, outlook.clone());
        let members = watch_members(&raft, outlook.members.clone());
        let failure = watch_failure(&raft, store, progress);
        let (changing, heard) = (Mutex::default(), std::sync::Mutex::default());
        let tellers = Mutex::new(vec![leadership, members]);
        Ok(Self { id, raft, outlook, cut_off, failure, timing, changing, incoming, heard, tellers })
    }

    /// Whether this server belongs to a cluster, or knows of one.
    pub async fn is_initialized(&self) -> Result<bool, OpenError> {
        self.raft.is_initialized().await.map_err(|error| OpenError::Start(error.to_string()))
    }

    /// Founds a cluster of these members, unless this server already belongs to one.
    pub async fn found_cluster(&self, members: &BTreeMap<NodeId, String>) -> Result<(), OpenError> {
        if self.is_initialized().await? {
            return Ok(());
        }
        let members: BTreeMap<_, _> = members.iter().map(|(id, address)| (*id, BasicNode::new(address))).collect();
        self.raft.initialize(members).await.map_err(|error| OpenError::Start(error.to_string()))
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
        if *self.cut_off.borrow_watched() {
            return Err(ProposeError::NotLeader { leader: None, address: None });
        }
        let mut cut_off = self.cut_off.clone();
        let sent = match term {
            None => self.raft.client_write_ff(Command(command), Some(ReplyTo(tx))).await,
            Some(term) => self.raft.write(Command(command)).with_leader(CommittedLeaderId::new(term)).responder(ReplyTo(tx)).await,
        };
        sent.map_err(|fatal| stopped::<S>(&fatal))?;
        let answered = tokio::select! {
            biased;
            answered = rx => answered,
            // Without a majority there may be no answer for as long as the others cannot be reached.
            Ok(_) = cut_off.wait_until(|cut_off| *cut_off) => return Err(ProposeError::OutcomeUnknown),
        };
        match answered {
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
                // What ended it is known a moment later.
                let mut failure = self.failure.clone();
                let told = tokio::time::timeout(WATCHDOG * 5, failure.wait_for(Option::is_some)).await;
                let why = told.ok().and_then(|told| told.ok()?.as_ref().map(ToString::to_string));
                Err(ProposeError::Stopped(why.unwrap_or_else(|| "the log is shut down".to_owned())))
            }
        }
    }

    /// Returns once this server is known to lead and has applied everything committed before the call.
    pub async fn read_barrier(&self) -> Result<(), ProposeError> {
        self.barrier(ReadPolicy::ReadIndex).await
    }

    /// The same by the leader's lease: nobody is asked. Right as long as clocks do not run at different speeds.
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

    /// What the leader knows of the others; empty elsewhere.
    pub fn peers(&self) -> BTreeMap<NodeId, PeerProgress> {
        let metrics = self.raft.data_metrics();
        let metrics = metrics.borrow_watched();
        let heard = |id: &NodeId| {
            let at = metrics.heartbeat.as_ref()?.get(id)?.as_ref()?;
            Some(at.elapsed())
        };
        let replication = metrics.replication.iter().flatten().filter(|(id, _)| **id != self.id);
        replication
            .map(|(id, matched)| (*id, PeerProgress { matched: matched.as_ref().map(adapt::position), last_heard: heard(id) }))
            .collect()
    }

    /// How long ago a leader was heard; `None`: not since the start. Zero on the leader itself.
    pub fn last_contact(&self) -> Option<Duration> {
        if self.outlook.leadership.borrow().is_leader {
            return Some(Duration::ZERO);
        }
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.map(|at| at.elapsed())
    }

    /// The last committed entry that this server knows of.
    pub fn committed(&self) -> Option<Position> {
        self.raft.data_metrics().borrow_watched().cluster_committed.as_ref().map(adapt::position)
    }

    /// Answers a message of another member.
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
            Request::PreVote(vote) => Response::Vote(self.raft.pre_vote(vote).await.map_err(|error| error.to_string())?),
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
            // Whoever sent it did not hear that, perhaps because this server was down.
            return Ok(Response::Part { vote: own, have: file_bytes });
        }
        Ok(match incoming.take(part).await.map_err(|error| format!("storing a checkpoint: {error}"))? {
            Gathered::Have(have) => Response::Part { vote: own, have },
            Gathered::Whole(checkpoint) => {
                tracing::info!(%position, bytes = file_bytes, "installing a checkpoint of the leader");
                let raft = self.raft.clone();
                incoming.install(position, async move {
                    let snapshot = checkpoint.verified().await.and_then(super::machine::to_snapshot).map_err(|error| error.to_string())?;
                    let installed = raft.install_full_snapshot(vote, snapshot).await.map_err(|fatal| fatal.to_string())?;
                    Ok(installed.vote)
                });
                Response::Installing
            }
            Gathered::Installing => Response::Installing,
            Gathered::Installed(vote) => Response::Part { vote, have: file_bytes },
        })
    }

    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Lets a server follow without a vote, or gives one that does another address. Returns once that is committed.
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

    /// Gives a server that follows a vote.
    pub async fn promote(&self, id: NodeId) -> Result<(), MemberError> {
        let _alone = self.changing.lock().await;
        self.change(ChangeMembers::AddVoterIds(BTreeSet::from([id])), true).await
    }

    /// Takes a server's vote; it goes on following.
    pub async fn demote(&self, id: NodeId) -> Result<(), MemberError> {
        let _alone = self.changing.lock().await;
        self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id])), true).await
    }

    /// Takes a server out of the cluster.
    pub async fn remove(&self, id: NodeId) -> Result<(), MemberError> {
        let _alone = self.changing.lock().await;
        let members = self.outlook.members.borrow().clone();
        if members.voters.iter().any(|voters| voters.contains(&id)) {
            self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id])), false).await
        } else {
            self.change(ChangeMembers::RemoveNodes(BTreeSet::from([id])), false).await
        }
    }

    async fn change(&self, change: ChangeMembers<NodeId, BasicNode>, retain: bool) -> Result<(), MemberError> {
        self.raft.change_membership(change, retain).await.map(|_| ()).map_err(member_error::<S>)
    }

    /// Asks a voter to take over, and tells who leads then: it may be another.
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
            Ok(None) | Err(_) => Err(MemberError::Failed(format!("server {to} did not take over in {} ms", within.as_millis()))),
        }
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

    /// Ends it; nothing is told of it any more when this returns.
    pub async fn shutdown(&self) {
        if let Err(error) = self.raft.shutdown().await {
            tracing::error!(%error, "consensus did not stop cleanly");
        }
        // It would go on in files that a next run has again.
        self.incoming.lock().await.rest().await;
        let mut tellers = self.tellers.lock().await;
        for teller in tellers.drain(..) {
            teller.abort();
            // It was told to end, or has.
            let _ = teller.await;
            self.outlook.nobody_leads();
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

fn member_error<S: StateMachine>(error: RaftError<Types<S::Reply>, ClientWriteError<Types<S::Reply>>>) -> MemberError {
    match error {
        RaftError::APIError(ClientWriteError::ForwardToLeader(_)) => MemberError::NotLeader,
        other => MemberError::Failed(other.to_string()),
    }
}

fn watch_members<S: StateMachine>(raft: &Raft<Types<S::Reply>, Machine<S>>, tx: watch::Sender<Members>) -> JoinHandle<()> {
    let mut metrics = raft.server_metrics();
    let read = |metrics: &openraft::metrics::RaftServerMetrics<Types<S::Reply>>| adapt::members(metrics.membership_config.membership());
    let first = read(&metrics.borrow_watched());
    tx.send_if_modified(|known| {
        let differs = *known != first;
        *known = first;
        differs
    });
    tokio::spawn(async move {
        while metrics.changed().await.is_ok() {
            let now = read(&metrics.borrow_watched());
            tx.send_if_modified(|known| {
                let differs = *known != now;
                *known = now;
                differs
            });
        }
    })
}

/// Follows who leads, and whether this server is a leader that has heard no majority for a while: such a one counts as none, since it
/// cannot commit anything.
fn watch_leadership<S: StateMachine>(
    raft: &Raft<Types<S::Reply>, Machine<S>>,
    timing: Timing,
    outlook: Outlook,
) -> (JoinHandle<()>, runtime::watch::Receiver<bool>) {
    let mut metrics = raft.server_metrics();
    let data = raft.data_metrics();
    let patience = timing.election_max * 2;
    let read = move |metrics: &openraft::metrics::RaftServerMetrics<Types<S::Reply>>, since: Instant| {
        let leads = metrics.state.is_leader() && metrics.vote.is_committed();
        let silence = data.borrow_watched().last_quorum_acked.map_or(Duration::MAX, |at| at.elapsed()).min(since.elapsed());
        let alone = metrics.membership_config.membership().voter_ids().count() == 1;
        let cut_off = leads && !alone && silence > patience;
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
                // Of a term that just began nobody can have been heard yet.
                term = (now.term, Instant::now());
            }
            outlook.leadership.send_if_modified(|known| std::mem::replace(known, now) != now);
            cut_tx.send_if_modified(|known| std::mem::replace(known, cut_off) != cut_off);
        }
        outlook.nobody_leads();
    });
    (teller, cut_rx)
}

/// Waits for consensus to end by itself, and for a disk that fails while consensus asks nothing of it.
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
