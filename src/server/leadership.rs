//! Leadership as it comes and goes: begins a reign when this server has won a term, and ends it when the term is lost.
//! What is done during a reign is in `lead.rs`, `work.rs`, `keyring/leader.rs`, `workers.rs` and `plans.rs`; who leads is the log's to say.
//!
//! Whatever the leader decides on its own is proposed in the name of a reign, and the log takes it only while the reign's term is the one
//! that this server leads in. What remains possible is an entry that was taken and whose fate is not known when the reign ends: it may
//! still be committed by whoever leads next, or by this server when it has found its majority again within the same term. It is harmless:
//! the next reign looks at nothing before everything that the log holds is applied, and begins only when nobody proposes in the name of
//! the one before any more; and `apply` decides about every entry anew.

use std::sync::Arc;
use std::time::Duration;

use songline_api::{Proposal, ProposeError, Written};
use songline_log::Leadership;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;

use super::machine::Reactions;
use super::{Core, lead};

/// How long after it could not begin to lead a leader tries again.
const RETRY_WAIT: Duration = Duration::from_millis(500);

/// One time of being leader.
#[derive(Debug)]
pub(crate) struct Reign {
    term: u64,
    over: CancellationToken,
    /// Proposals in its name.
    proposals: TaskTracker,
}

impl Reign {
    fn new(term: u64, shutdown: &CancellationToken) -> Arc<Self> {
        Arc::new(Self { term, over: shutdown.child_token(), proposals: TaskTracker::new() })
    }

    /// The term that was won.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Whether the term is lost, or the server going down.
    pub fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Returns when it is over.
    pub fn over(&self) -> WaitForCancellationFuture<'_> {
        self.over.cancelled()
    }

    /// Runs until it has ended by itself, or the reign has.
    pub fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let reign = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                () = reign.over() => {}
            }
        });
    }
}

/// Follows leadership from now on. Returns at once, unless this server leads already: then once it has begun to.
pub(crate) async fn start(core: &Arc<Core>, reactions: Reactions) -> Result<(), ProposeError> {
    // One of several that led when it went down takes itself for the leader until it hears of a later one.
    let leads = core.log().is_leader() && core.log().members().borrow().addresses.len() <= 1;
    let (told, begun) = oneshot::channel();
    tokio::spawn(follow(Arc::clone(core), reactions, Some(told)));
    if !leads {
        return Ok(());
    }
    match begun.await.unwrap_or(Err(ProposeError::NoLeader)) {
        // It was elected while it started, and another was before it could begin: that is how elections go.
        Err(ProposeError::NoLeader) => Ok(()),
        begun => begun,
    }
}

/// Tells, once, how the first reign began.
type Told = Option<oneshot::Sender<Result<(), ProposeError>>>;

async fn follow(core: Arc<Core>, mut reactions: Reactions, mut told: Told) {
    let mut leadership = core.log().leadership();
    loop {
        let term = tokio::select! {
            term = won(&mut leadership) => term,
            () = pass_over(&mut reactions) => return,
            () = core.shutdown.cancelled() => return,
        };
        let Some(term) = term else { return };
        let reign = Reign::new(term, &core.shutdown);
        tokio::select! {
            outcome = rule(&core, &reign, &mut reactions, &mut told) => {
                if let Err(error) = &outcome {
                    tracing::warn!(term, %error, "this server was elected and cannot begin to lead; it tries again");
                }
                end(&core, &reign).await;
                tell(&mut told, outcome);
                // Losing the term is noticed at the next turn.
                tokio::time::sleep(RETRY_WAIT).await;
            }
            () = lost(&mut leadership, term) => {
                end(&core, &reign).await;
                tell(&mut told, Err(ProposeError::NoLeader));
            }
            () = reign.over() => {
                end(&core, &reign).await;
                return;
            }
        }
    }
}

fn tell(told: &mut Told, outcome: Result<(), ProposeError>) {
    if let Some(told) = told.take() {
        // Nobody waits for it where the server was not leader from the start.
        let _ = told.send(outcome);
    }
}

/// The term that this server leads in, once it does; `None` when the log is gone.
async fn won(leadership: &mut watch::Receiver<Leadership>) -> Option<u64> {
    let now = leadership.wait_for(|now| now.is_leader).await.ok()?;
    Some(now.term)
}

async fn lost(leadership: &mut watch::Receiver<Leadership>, term: u64) {
    // A log that is gone leads no more.
    let _ = leadership.wait_for(|now| !now.is_leader || now.term != term).await;
}

/// Who does not lead lets pass what is applied. Returns when nothing more will be.
async fn pass_over(reactions: &mut Reactions) {
    while reactions.recv().await.is_some() {}
}

/// Begins a reign and goes on until the server goes down.
async fn rule(core: &Arc<Core>, reign: &Arc<Reign>, reactions: &mut Reactions, told: &mut Told) -> Result<(), ProposeError> {
    // Everything that earlier reigns have left is applied before anything is decided.
    core.metrics.at.leader_barrier.of(core.log().settled()).await.map_err(super::propose_error)?;
    core.clock.not_before(core.view().applied_at());
    lead::establish(core, reign).await?;
    tracing::info!(term = reign.term(), "this server leads");
    core.metrics.at.raft_leader.add_one();
    core.reign.send_replace(Some(Arc::clone(reign)));
    let leader = lead::Leader::begin(core, reign);
    super::work::start(core, reign);
    super::keyring::start(core, reign);
    super::cluster::autopilot::start(core, reign);
    core.work.notify_waiters();
    tell(told, Ok(()));
    leader.run(reactions).await;
    Ok(())
}

/// Nothing of the reign goes on: its loops end, what waits in the queues is forgotten (the tables still have it), its plans are refused.
async fn end(core: &Core, reign: &Reign) {
    reign.over.cancel();
    let ruled = core.reign.send_replace(None).is_some();
    lead::forget(core);
    core.work.notify_waiters();
    if ruled {
        tracing::info!(term = reign.term(), "this server leads no more");
        core.metrics.at.raft_follower.add_one();
    }
    // Each of them ends with the reign.
    reign.proposals.close();
    reign.proposals.wait().await;
}

impl Core {
    /// The reign under way. It is there once everything of earlier terms is applied and the leader's machines stand.
    pub(crate) fn reign(&self) -> Option<Arc<Reign>> {
        self.reign.borrow().clone().filter(|reign| !reign.is_over())
    }

    /// Writes what the leader has decided on its own: under a reign, and never after it.
    pub(crate) async fn write_under(&self, reign: &Reign, proposal: Proposal) -> Result<(Written, Duration), ProposeError> {
        let write = async {
            tokio::select! {
                biased;
                () = reign.over() => Err(ProposeError::NoLeader),
                written = self.write_in_term(Some(reign.term()), proposal) => written,
            }
        };
        reign.proposals.track_future(write).await
    }
}

#[cfg(test)]
pub(super) mod tests;
