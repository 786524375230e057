//! Leadership terms: begins a [`LeadershipTerm`] when this server has won a raft term, and ends it when the term is lost. The
//! leader's work is in `lead.rs`, `work.rs`, `keyring/leader.rs`, `federation/follow.rs`, `workers.rs` and `plans.rs`;
//! elections are the log's.
//!
//! Every decision of the leader itself is proposed under a term, and the log accepts it only while this server leads
//! in the term's raft term. One case remains: an entry that was accepted and whose outcome is unknown when the term
//! ends. It may still be committed, by the next leader or by this server when it regains its majority within the same
//! term. The case is harmless: the next term begins only after every entry in the log is applied and after all
//! proposals of the previous term have ended, and `apply` checks every entry anew.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use songline_api::{Proposal, ProposeError, Written};
use songline_log::Leadership;
use songline_model::{Dur, NodeId};
use songline_scheduler::applier::{RejectionLimits, Rejections};
use songline_scheduler::leader::autopilot;
use songline_scheduler::leader::evals::EvalQueues;
use songline_scheduler::leader::heartbeats::{HeartbeatLimits, Heartbeats};
use songline_scheduler::leader::multiregion::Multiregion;
use songline_scheduler::leader::volumes::Volumes;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;

use super::clock::Clock;
use super::event_sinks::{self, Deliveries};
use super::machine::{Reacting, Reactions};
use super::plans::{PlanQueue, PlanReceiver};
use super::updates::{UpdateQueue, Updates};
use super::workers::leases::Leases;
use super::{Core, lead};

/// Delay before another attempt of a leader that could not begin its term.
const RETRY_WAIT: Duration = Duration::from_millis(500);

/// One leadership term of this server, from the time when it is ready to lead.
#[derive(Debug)]
pub(crate) struct LeadershipTerm {
    raft_term: u64,
    over: CancellationToken,
    /// Running proposals of this term.
    proposals: TaskTracker,
}

impl LeadershipTerm {
    fn new(raft_term: u64, shutdown: &CancellationToken) -> Arc<Self> {
        Arc::new(Self { raft_term, over: shutdown.child_token(), proposals: TaskTracker::new() })
    }

    /// The raft term that was won.
    pub(crate) fn raft_term(&self) -> u64 {
        self.raft_term
    }

    /// Whether the raft term is lost, or the server is shutting down.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Returns when the term is over.
    pub(crate) fn over(&self) -> WaitForCancellationFuture<'_> {
        self.over.cancelled()
    }

    /// Spawns `work`, which runs until it ends by itself or the term is over.
    pub(crate) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let term = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                () = term.over() => {}
            }
        });
    }
}

/// The leader's part of a server: its queues, machines and notifications.
pub(crate) struct LeaderState {
    /// This leadership term; `None` while this server does not lead or is not ready to lead.
    pub(super) term: watch::Sender<Option<Arc<LeadershipTerm>>>,
    queues: Mutex<EvalQueues>,
    /// Evaluations that workers of other servers have.
    pub(super) leases: Leases,
    /// Notified when the queues may have evaluations to work on.
    pub(super) work: Notify,
    /// Notified when long work may be pending.
    pub(super) work_opened: Notify,
    /// Notified when a deadline of the leader's machines may have moved.
    pub(super) deadlines: Notify,
    /// Notified when root keys may be due for rotation or collection.
    pub(super) root_keys_changed: Notify,
    /// Notified when there may be claims on volumes to release.
    pub(super) volumes_changed: Notify,
    pub(super) heartbeats: Mutex<Heartbeats>,
    pub(super) volumes: Mutex<Volumes>,
    /// Deployments of multiregion jobs.
    pub(super) multiregion: Mutex<Multiregion>,
    /// Notified when other parts of other regions may have to be followed.
    pub(super) peers_changed: Notify,
    pub(super) event_sinks: Deliveries,
    /// Health of the servers, as the leader sees it.
    pub(super) server_health: Mutex<autopilot::Health>,
    pub(super) plans: PlanQueue,
    /// Rejections of plans by node.
    pub(super) rejections: Mutex<Rejections>,
    pub(super) updates: Updates,
    /// Sender to the leader's machines. `None` while a start replays the log, and while the server is shutting down: each
    /// batch holds a state, and batches that nobody receives would keep all former versions of its rows in memory.
    pub(super) reactions: Mutex<Option<Reacting>>,
}

/// Receivers of what [`LeaderState`] queues.
pub(super) struct Queues {
    pub(super) plans: PlanReceiver,
    pub(super) updates: UpdateQueue,
}

impl LeaderState {
    pub(super) fn new(heartbeats: HeartbeatLimits, rejections: RejectionLimits) -> (Self, Queues) {
        let ((plans, plan_queue), (updates, update_queue)) = (PlanQueue::new(), Updates::new());
        let state = Self {
            term: watch::Sender::new(None),
            queues: Mutex::new(EvalQueues::new()),
            leases: Leases::default(),
            work: Notify::new(),
            work_opened: Notify::new(),
            deadlines: Notify::new(),
            root_keys_changed: Notify::new(),
            volumes_changed: Notify::new(),
            heartbeats: Mutex::new(Heartbeats::new(heartbeats)),
            volumes: Mutex::default(),
            multiregion: Mutex::default(),
            peers_changed: Notify::new(),
            event_sinks: Deliveries::default(),
            server_health: Mutex::default(),
            plans,
            rejections: Mutex::new(Rejections::new(rejections)),
            updates,
            reactions: Mutex::default(),
        };
        (state, Queues { plans: plan_queue, updates: update_queue })
    }

    /// The current term. Set once every entry of earlier terms is applied; the machines are filled right after.
    pub(super) fn term(&self) -> Option<Arc<LeadershipTerm>> {
        self.term.borrow().clone().filter(|term| !term.is_over())
    }

    pub(super) fn queues(&self) -> MutexGuard<'_, EvalQueues> {
        self.queues.lock()
    }

    /// Channel to the leader's machines.
    pub(super) fn reactions(&self) -> Option<Reacting> {
        self.reactions.lock().clone()
    }

    /// Records a node's heartbeat; `stagger`, from 0 to 1, spreads the deadlines. Returns the time until its next one.
    pub(super) fn beat(&self, node: NodeId, stagger: f64, clock: &Clock) -> Dur {
        let mut heartbeats = self.heartbeats.lock();
        let earliest = heartbeats.next_deadline();
        let ttl = heartbeats.on_heartbeat(node, stagger, clock.pace());
        let moved = heartbeats.next_deadline() != earliest;
        drop(heartbeats);
        if moved {
            self.deadlines.notify_one();
        }
        ttl
    }

    /// Ends the leader's loops when the server shuts down.
    pub(super) fn stop(&self) {
        self.reactions.lock().take();
        self.work.notify_waiters();
        self.deadlines.notify_waiters();
    }
}

/// Follows leadership from now on. Returns at once, unless this server leads already: then it returns once its term
/// has begun.
pub(crate) async fn start(core: &Arc<Core>) -> Result<(), ProposeError> {
    // A term that begins later builds its machines from the newest state, so it misses nothing that was applied before.
    let (reacting, reactions) = mpsc::unbounded_channel();
    *core.leader.reactions.lock() = Some(reacting);
    // One of several servers that led when it went down still counts as the leader until it hears of a later term.
    let leads = core.log().is_leader() && core.log().members().borrow().addresses.len() <= 1;
    let (told, begun) = oneshot::channel();
    tokio::spawn(follow(Arc::clone(core), reactions, Some(told)));
    if !leads {
        return Ok(());
    }
    match begun.await.unwrap_or(Err(ProposeError::NoLeader)) {
        // Elected during the start and deposed before its term could begin: an ordinary course of elections.
        Err(ProposeError::NoLeader) => Ok(()),
        begun => begun,
    }
}

/// Reports, once, the outcome of beginning the first term.
type Told = Option<oneshot::Sender<Result<(), ProposeError>>>;

async fn follow(core: Arc<Core>, mut reactions: Reactions, mut told: Told) {
    let mut leadership = core.log().leadership();
    loop {
        let raft_term = tokio::select! {
            raft_term = won(&mut leadership) => raft_term,
            () = pass_over(&mut reactions) => return,
            () = core.shutdown.cancelled() => return,
        };
        let Some(raft_term) = raft_term else { return };
        let term = LeadershipTerm::new(raft_term, &core.shutdown);
        tokio::select! {
            outcome = rule(&core, &term, &mut reactions, &mut told) => {
                if let Err(error) = &outcome {
                    tracing::warn!(raft_term, %error, "this server was elected and cannot begin to lead; it tries again");
                }
                end(&core, &term).await;
                tell(&mut told, outcome);
                // A lost term is noticed at the next turn.
                tokio::time::sleep(RETRY_WAIT).await;
            }
            () = lost(&mut leadership, raft_term) => {
                end(&core, &term).await;
                tell(&mut told, Err(ProposeError::NoLeader));
            }
            // From outside only a shutdown ends a term: `over` is a child of the server's token.
            () = term.over() => {
                end(&core, &term).await;
                return;
            }
        }
    }
}

fn tell(told: &mut Told, outcome: Result<(), ProposeError>) {
    if let Some(told) = told.take() {
        // The receiver is gone when the server did not lead from the start.
        let _ = told.send(outcome);
    }
}

/// Waits until this server leads and returns its raft term; `None` when the log is gone.
async fn won(leadership: &mut watch::Receiver<Leadership>) -> Option<u64> {
    let now = leadership.wait_for(|now| now.is_leader).await.ok()?;
    Some(now.term)
}

async fn lost(leadership: &mut watch::Receiver<Leadership>, raft_term: u64) {
    // A closed log counts as lost leadership.
    let _ = leadership.wait_for(|now| !now.is_leader || now.term != raft_term).await;
}

/// Discards the reactions of a server that does not lead. Returns when the channel is closed.
async fn pass_over(reactions: &mut Reactions) {
    while reactions.recv().await.is_some() {}
}

/// Begins a term and runs the leader's loop until the server shuts down.
async fn rule(
    core: &Arc<Core>,
    term: &Arc<LeadershipTerm>,
    reactions: &mut Reactions,
    told: &mut Told,
) -> Result<(), ProposeError> {
    // Apply every entry that earlier terms have left before deciding anything.
    core.metrics.at.leader_barrier.of(core.log().settled()).await.map_err(super::propose_error)?;
    core.clock.not_before(core.view().applied_at());
    lead::establish(core, term).await?;
    tracing::info!(term = term.raft_term(), "this server leads");
    core.metrics.at.raft_leader.add_one();
    // Published before the queues and machines are filled: a worker that asks in between finds the queues disabled and
    // waits for `work`, a heartbeat sets a deadline that filling sets anew, and changes wait in `reactions`.
    core.leader.term.send_replace(Some(Arc::clone(term)));
    let leader = lead::Leader::begin(core, term);
    super::work::start(core, term);
    super::csi::start(core, term);
    super::multiregion::start(core, term);
    super::keyring::start(core, term);
    super::cluster::autopilot::start(core, term);
    super::federation::start(core, term);
    event_sinks::start(core, term);
    core.leader.work.notify_waiters();
    tell(told, Ok(()));
    leader.run(reactions).await;
    Ok(())
}

/// Ends a term: its loops stop, its queues are emptied (the tables still have everything), its plans are refused.
///
/// In this order: without `over`, a loop could propose between the last two steps; without the term, nobody fills the
/// queues again; and the next term may begin only when the outcome of every proposal is known or in the log.
async fn end(core: &Core, term: &LeadershipTerm) {
    term.over.cancel();
    let ruled = core.leader.term.send_replace(None).is_some();
    lead::forget(core);
    core.leader.work.notify_waiters();
    if ruled {
        tracing::info!(term = term.raft_term(), "this server leads no more");
        core.metrics.at.raft_follower.add_one();
    }
    // Wait for running proposals: each of them ends with the term.
    term.proposals.close();
    term.proposals.wait().await;
}

impl Core {
    /// Whether this server leads and is ready to: every entry of earlier terms is applied.
    pub fn leads(&self) -> bool {
        self.term().is_some()
    }

    /// The current term. Set once every entry of earlier terms is applied; the machines are filled right after.
    pub(crate) fn term(&self) -> Option<Arc<LeadershipTerm>> {
        self.leader.term()
    }

    /// Writes a decision of the leader itself: under a term, and never after its end.
    pub(crate) async fn write_under(
        &self,
        term: &LeadershipTerm,
        proposal: Proposal,
    ) -> Result<(Written, Duration), ProposeError> {
        let write = async {
            tokio::select! {
                // The end of the term counts first. Then the outcome of the write is unknown to its caller, and the
                // next term finds it in the log.
                biased;
                () = term.over() => Err(ProposeError::NoLeader),
                written = self.write_in_term(Some(term.raft_term()), proposal) => written,
            }
        };
        term.proposals.track_future(write).await
    }
}

#[cfg(test)]
pub(super) mod tests;
