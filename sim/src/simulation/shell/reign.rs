//! Leadership terms: a [`Reign`] begins when a raft term is won and all entries of earlier terms are applied, and all
//! its work stops when the term is lost. The real one is `server/src/leadership.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use songline_commands::{Actor, SetClusterMetadata, SetSchedulerConfig};
use songline_log::Leadership;
use songline_model::SchedulerConfiguration;
use tokio::sync::{Notify, watch};

use super::super::ending::Ending;
use super::super::machine::{Reactions, locked};
use super::lead::Leader;
use super::{Shell, WriteError};

/// Delay before another attempt of a leader that could not begin its reign.
const RETRY_WAIT: Duration = Duration::from_millis(500);

/// One leadership term of this server, from the time when it is ready to lead.
#[derive(Debug)]
pub struct Reign {
    term: u64,
    ending: Arc<Ending>,
    /// Number of running proposals of this reign.
    proposals: AtomicUsize,
    fewer: Notify,
}

/// Guard that counts a running proposal until it is dropped.
struct Proposal<'a>(&'a Reign);

impl Drop for Proposal<'_> {
    fn drop(&mut self) {
        self.0.proposals.fetch_sub(1, Ordering::Relaxed);
        self.0.fewer.notify_waiters();
    }
}

impl Reign {
    fn new(term: u64) -> Arc<Self> {
        Arc::new(Self { term, ending: Ending::new(), proposals: AtomicUsize::new(0), fewer: Notify::new() })
    }

    /// The raft term that was won.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Whether the raft term is lost, or the server dead.
    pub fn is_over(&self) -> bool {
        self.ending.is_over()
    }

    /// Ends the reign.
    pub fn end(&self) {
        self.ending.end();
    }

    /// Returns when the reign is over.
    pub async fn over(&self) {
        self.ending.over().await;
    }

    /// Spawns work that is dropped when the reign ends.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.ending.spawn(work);
    }

    /// Runs a proposal of this reign; `None` when the reign ends before the answer.
    pub async fn during<T>(&self, proposal: impl Future<Output = T>) -> Option<T> {
        self.proposals.fetch_add(1, Ordering::Relaxed);
        let _counted = Proposal(self);
        tokio::select! {
            biased;
            () = self.over() => None,
            answer = proposal => Some(answer),
        }
    }

    /// Returns when no proposal of the reign is running any more.
    async fn rested(&self) {
        loop {
            let fewer = self.fewer.notified();
            if self.proposals.load(Ordering::Relaxed) == 0 {
                return;
            }
            fewer.await;
        }
    }
}

/// Follows leadership for as long as the server lives.
pub async fn follow(shell: Arc<Shell>, mut reactions: Reactions) {
    let mut leadership = shell.log.leadership();
    loop {
        let won = tokio::select! {
            biased;
            won = leadership.wait_for(|now| now.is_leader) => won.map(|now| now.term),
            () = pass_over(&mut reactions) => return,
        };
        let Ok(term) = won else { return };
        shell.record.leads(term, shell.id);
        let reign = Reign::new(term);
        tokio::select! {
            biased;
            () = lost(&mut leadership, term) => end(&shell, &reign).await,
            outcome = rule(&shell, &reign, &mut reactions) => {
                if let Err(error) = outcome {
                    shell.record.note(&format!("server {} cannot begin to lead in term {term}: {error}", shell.id));
                }
                end(&shell, &reign).await;
                tokio::time::sleep(RETRY_WAIT).await;
            }
        }
    }
}

async fn lost(leadership: &mut watch::Receiver<Leadership>, term: u64) {
    // A closed log counts as lost leadership.
    let _ = leadership.wait_for(|now| !now.is_leader || now.term != term).await;
}

/// Discards the reactions of a server that does not lead. Returns when the channel is closed.
async fn pass_over(reactions: &mut Reactions) {
    while reactions.recv().await.is_some() {}
}

async fn rule(shell: &Arc<Shell>, reign: &Arc<Reign>, reactions: &mut Reactions) -> Result<(), WriteError> {
    shell.log.settled().await?;
    shell.time.not_before(shell.view().applied_at());
    establish(shell, reign).await?;
    *locked(&shell.reign) = Some(Arc::clone(reign));
    shell.record.note(&format!("server {} rules in term {}", shell.id, reign.term()));
    let leader = Leader::begin(shell, reign);
    shell.work.notify_waiters();
    leader.run(reactions).await;
    Ok(())
}

/// Writes the initial objects of a cluster, as its first leader.
async fn establish(shell: &Arc<Shell>, reign: &Reign) -> Result<(), WriteError> {
    let actor = || Actor::Leader("leadership".into());
    if shell.view().scheduler_config().is_none() {
        let config = SchedulerConfiguration::default();
        shell.write(Some(reign), actor(), None, SetSchedulerConfig { config, cas: None }).await?;
    }
    if shell.view().cluster_metadata().is_none() {
        let (cluster_id, create_time) = (shell.fresh().to_string().into(), shell.now().nanos());
        shell.write(Some(reign), actor(), None, SetClusterMetadata { cluster_id, create_time }).await?;
    }
    Ok(())
}

/// Ends a reign: its work stops and its queues are emptied; the tables still have everything.
async fn end(shell: &Shell, reign: &Reign) {
    reign.end();
    locked(&shell.reign).take();
    locked(&shell.queues).set_enabled(false, &shell.view(), shell.pace());
    locked(&shell.heartbeats).clear();
    shell.work.notify_waiters();
    reign.rested().await;
}
