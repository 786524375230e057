//! The leader's loop: feeds what is applied to the machines of time, and proposes what they ask for. The real one is `src/server/lead.rs`;
//! what it leaves out is services, root keys and long work.

use std::sync::Arc;

use songline_commands::{Actor, Cause, Command, Kind, UpdateEvals};
use songline_model::{Dur, Node, NodeEvent, NodeId, NodeStatus, Time};
use songline_projections::{Change, State, node_evals, node_transition_needs_evals};
use songline_scheduler::broker;
use songline_scheduler::leader::deployments::{self, Deployments};
use songline_scheduler::leader::digests::Digests;
use songline_scheduler::leader::drains::{self, Drains};
use songline_scheduler::leader::evals::Tended;
use songline_scheduler::leader::gc::{self, GcAges};
use songline_scheduler::leader::{heartbeats, nodes};
use tokio::sync::mpsc;

use super::super::machine::{Reaction, Reactions, locked};
use super::reign::Reign;
use super::{JOB_VERSIONS_MAX, Shell, WriteError};

/// How often evaluations that ran out of attempts are tried again.
const RETRY_INTERVAL: Dur = Dur::from_mins(1);
/// How often what is old is dropped.
const GC_INTERVAL: Dur = Dur::from_secs(45);
/// What is old. Nodes that are down stay: each comes back.
const GC_AGES: GcAges = GcAges {
    eval: Dur::from_secs(90),
    batch_eval: Dur::from_secs(90),
    job: Dur::from_secs(120),
    node: Dur::from_hours(24),
    deployment: Dur::from_secs(90),
    acl_token: Dur::from_hours(1),
};
/// How often the leader has the digests compared, in entries.
const DIGEST_INTERVAL: u64 = 500;

/// The machines of one reign.
pub struct Leader {
    shell: Arc<Shell>,
    reign: Arc<Reign>,
    /// Up to which index the machines know everything.
    known: u64,
    deployments: Deployments,
    drains: Drains,
    drain_failures: (mpsc::UnboundedSender<NodeId>, mpsc::UnboundedReceiver<NodeId>),
    retry_at: Time,
    gc_at: Time,
    digests: Digests,
}

impl Leader {
    /// Fills the machines from the tables.
    pub fn begin(shell: &Arc<Shell>, reign: &Arc<Reign>) -> Self {
        let view = shell.view();
        let now = shell.pace();
        let mut leader = Self {
            shell: Arc::clone(shell),
            reign: Arc::clone(reign),
            known: view.applied_index(),
            deployments: Deployments::new(),
            drains: Drains::new(),
            drain_failures: mpsc::unbounded_channel(),
            retry_at: now.plus(RETRY_INTERVAL),
            gc_at: now.plus(GC_INTERVAL),
            digests: Digests::new(DIGEST_INTERVAL, &view),
        };
        leader.deployments.restore(&view, now);
        leader.drains.restore(&view, now);
        locked(&shell.heartbeats).restore(&view, now);
        let mut queues = locked(&shell.queues);
        queues.set_enabled(false, &view, now);
        queues.set_enabled(true, &view, now);
        drop(queues);
        leader
    }

    /// Goes on until somebody drops it, or nothing more is applied.
    pub async fn run(mut self, reactions: &mut Reactions) {
        // What was due before this reign began is done at once.
        self.on_time();
        loop {
            let next = self.next_deadline();
            tokio::select! {
                biased;
                () = self.reign.over() => return,
                applied = reactions.recv() => match applied {
                    Some((view, batch)) => self.on_applied(&view, &batch),
                    None => return,
                },
                Some(node) = self.drain_failures.1.recv() => self.drains.on_end_failed(node, self.shell.pace()),
                () = self.shell.deadlines.notified() => {}
                () = self.shell.time.until(next) => {}
            }
            while let Ok((view, batch)) = reactions.try_recv() {
                self.on_applied(&view, &batch);
            }
            self.on_time();
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            locked(&self.shell.queues).broker.next_deadline(),
            locked(&self.shell.heartbeats).next_deadline(),
            self.deployments.next_deadline(),
            self.drains.next_deadline(),
            Some(self.retry_at),
            Some(self.gc_at),
        ];
        deadlines.into_iter().flatten().min()
    }

    fn on_applied(&mut self, view: &State, batch: &[Reaction]) {
        let now = self.shell.pace();
        let news = batch.partition_point(|reaction| reaction.index <= self.known);
        for reaction in &batch[news..] {
            locked(&self.shell.queues).on_changes(view, reaction.index, &reaction.changes, now);
            self.deployments.on_changes(&reaction.changes, now);
            self.drains.on_changes(&reaction.changes, now);
            for change in &reaction.changes {
                if let Change::Node { after, before } = change {
                    match (after, before) {
                        (None, Some(node)) => self.forget_silent(node.id),
                        (Some(node), _) if node.status == NodeStatus::Down => self.forget_silent(node.id),
                        (Some(_) | None, _) => {}
                    }
                }
            }
        }
        self.shell.work.notify_waiters();
    }

    /// Watches a node no longer that is down or gone, by the newest view.
    fn forget_silent(&self, id: NodeId) {
        let mut heartbeats = locked(&self.shell.heartbeats);
        if self.shell.view().node(id).is_none_or(|node| node.status == NodeStatus::Down) {
            heartbeats.forget(id);
        }
    }

    fn on_time(&mut self) {
        let (now, written) = (self.shell.pace(), self.shell.now());
        let view = self.shell.view();
        self.tend_evals(now, written);
        let missed = locked(&self.shell.heartbeats).on_time(now);
        for node in missed {
            self.miss(&view, node, now);
        }
        for effect in self.deployments.on_time(&view, now) {
            let (cause, command) = deployments::entry(&view, effect, self.shell.fresh(), written, JOB_VERSIONS_MAX);
            self.propose("deployments", Some(cause), command);
        }
        for effect in self.drains.on_time(&view, now) {
            self.drain(&view, effect, written);
        }
        if now >= self.retry_at {
            self.retry_at = now.plus(RETRY_INTERVAL);
            locked(&self.shell.queues).unblock_failed(now);
        }
        if now >= self.gc_at {
            self.gc_at = now.plus(GC_INTERVAL);
            self.collect(now);
        }
        if let Some(digest) = self.digests.take_due(&view) {
            self.propose("digest", None, digest);
        }
        self.shell.work.notify_waiters();
    }

    fn tend_evals(&self, now: Time, written: Time) {
        let Tended { canceled, failed } = locked(&self.shell.queues).on_time(now, written);
        if !canceled.is_empty() {
            self.propose("evals", None, UpdateEvals { evals: canceled });
        }
        for delivery in failed {
            let wait = broker::give_up_wait(u8::try_from(self.shell.draw() & 0xff).unwrap_or(0));
            let rows = broker::give_up(&delivery.eval, self.shell.fresh(), wait, written);
            self.propose("evals", None, UpdateEvals { evals: rows.into() });
            // The delivery was taken a moment ago, so it is still ours.
            let _ = locked(&self.shell.queues).broker.ack(delivery.eval.id, delivery.token, now);
        }
    }

    fn miss(&self, view: &State, id: NodeId, now: Time) {
        let Some(node) = view.node(id).cloned() else { return };
        let status = heartbeats::status_after_miss(view, &node, now);
        self.shell.record.note(&format!("node {} missed its heartbeat and is to be {status}", node.name));
        let again = status == NodeStatus::Disconnected && heartbeats::was_not_looked_at(view, &node);
        let (shell, reign) = (Arc::clone(&self.shell), Arc::clone(&self.reign));
        self.reign.spawn(async move {
            let actor = Actor::Leader("heartbeats".into());
            let written = shell.change_node_status(Some(&reign), &node, status, Some(nodes::missed_event(shell.now())), actor).await;
            if again {
                let cause = Cause::new(node.modify_index, Kind::NodeUpdateStatus);
                // It is looked at again, and then tried again.
                let _ = shell.propose_node_evals(Some(&reign), id, cause).await;
            }
            if written.is_err() || status == NodeStatus::Disconnected {
                shell.beat(id);
            }
        });
    }

    fn drain(&self, view: &State, effect: drains::Effect, now: Time) {
        match effect {
            drains::Effect::Migrate { allocs, jobs } => {
                self.propose("drains", None, drains::migration(view, allocs, &jobs, || self.shell.fresh(), now));
            }
            drains::Effect::Complete { node, event } => {
                let command = drains::completion(node, event, now);
                let (shell, reign, failures) = (Arc::clone(&self.shell), Arc::clone(&self.reign), self.drain_failures.0.clone());
                self.reign.spawn(async move {
                    if shell.write(Some(&reign), Actor::Leader("drains".into()), None, command).await.is_err() {
                        // The loop is gone only when the reign is over.
                        let _ = failures.send(node);
                    }
                });
            }
        }
    }

    fn collect(&self, now: Time) {
        let cutoffs = locked(&self.shell.seen.times).cutoffs(&GC_AGES, now);
        let (shell, reign) = (Arc::clone(&self.shell), Arc::clone(&self.reign));
        self.reign.spawn(async move {
            for _ in 0..3 {
                let commands = gc::collect(&shell.view(), &cutoffs, shell.now(), JOB_VERSIONS_MAX);
                if commands.is_empty() {
                    return;
                }
                for command in commands {
                    // The next collection goes on where this one stops.
                    if shell.write(Some(&reign), Actor::Leader("gc".into()), None, command).await.is_err() {
                        return;
                    }
                }
            }
        });
    }

    /// Writes without waiting: whatever fails shows up again in the tables.
    fn propose(&self, name: &'static str, cause: Option<Cause>, command: impl Into<Command>) {
        let (shell, reign, command) = (Arc::clone(&self.shell), Arc::clone(&self.reign), command.into());
        self.reign.spawn(async move {
            if let Err(error) = shell.write(Some(&reign), Actor::Leader(name.into()), cause, command).await {
                shell.record.note(&format!("server {}: a command of {name} was not written: {error}", shell.id));
            }
        });
    }
}

impl Shell {
    /// Writes a node's new status if it is one, and the evaluations that follow. Returns the entry's index, 0 when there was none.
    pub(super) async fn change_node_status(
        &self,
        reign: Option<&Reign>,
        node: &Node,
        wanted: NodeStatus,
        event: Option<NodeEvent>,
        actor: Actor,
    ) -> Result<u64, WriteError> {
        let Some(command) = nodes::status_update(&self.view(), node, wanted, event, self.now()) else { return Ok(0) };
        let status = command.status;
        let (index, _) = self.write(reign, actor, None, command).await?;
        // The entry decides which status it became: something else may have come between.
        let status = self.view().node(node.id).map_or(status, |after| after.status);
        if node_transition_needs_evals(node.status, status) {
            self.propose_node_evals(reign, node.id, Cause::new(index, Kind::NodeUpdateStatus)).await?;
        }
        Ok(index)
    }

    /// Has the schedulers look at all that a node's change may concern.
    pub(super) async fn propose_node_evals(&self, reign: Option<&Reign>, node: NodeId, cause: Cause) -> Result<(), WriteError> {
        let view = self.view();
        let Some(row) = view.node(node) else { return Ok(()) };
        let evals = node_evals(&view, row, cause.index, self.now(), || self.fresh());
        if !evals.is_empty() {
            self.write(reign, Actor::Node(node), Some(cause), UpdateEvals { evals }).await?;
        }
        Ok(())
    }
}

impl Shell {
    /// Has the schedulers look at a node that takes work again since the entry at `index`.
    pub async fn look_at_node(&self, node: NodeId, index: u64) -> Result<(), WriteError> {
        self.propose_node_evals(None, node, Cause::new(index, Kind::NodeUpdateEligibility)).await
    }
}
