//! The leader's loop: feeds applied entries and time to the leader's state machines, and proposes the commands they
//! ask for. The real one is `server/src/lead.rs`; services, root keys and long work are left out.

use std::sync::Arc;

use songline_commands::{Actor, Cause, Kind, UpdateEvals};
use songline_model::{Dur, Node, NodeId, NodeStatus, Time};
use songline_projections::{Change, State, node_evals, node_transition_needs_evals};
use songline_scheduler::leader::deployments::Deployments;
use songline_scheduler::leader::digests::Digests;
use songline_scheduler::leader::drains::Drains;
use songline_scheduler::leader::effects::{self, Consequence};
use songline_scheduler::leader::evals::Tended;
use songline_scheduler::leader::gc::{self, Cutoffs, GcAges};
use songline_scheduler::leader::nodes;
use songline_scheduler::leader::outbox::{Attempt, Deed, Effect, Outbox, Outcome, Over, Ticket, Told};
use tokio::sync::mpsc;

use super::super::machine::{Reaction, Reactions, locked};
use super::reign::Reign;
use super::{JOB_VERSIONS_MAX, Shell, WriteError};

/// Delay before evaluations that ran out of attempts are tried again.
const RETRY_INTERVAL: Dur = Dur::from_mins(1);
/// Interval of garbage collection.
const GC_INTERVAL: Dur = Dur::from_secs(45);
/// Ages of garbage. Nodes that are down stay, because each of them comes back.
const GC_AGES: GcAges = GcAges {
    eval: Dur::from_secs(90),
    batch_eval: Dur::from_secs(90),
    job: Dur::from_secs(120),
    node: Dur::from_hours(24),
    deployment: Dur::from_secs(90),
    acl_token: Dur::from_hours(1),
};
/// Number of entries between two comparisons of the servers' digests.
const DIGEST_INTERVAL: u64 = 500;

/// The state machines of one leadership term.
pub struct Leader {
    shell: Arc<Shell>,
    reign: Arc<Reign>,
    /// Index of the state that the machines were filled from: they already know all changes up to it.
    known: u64,
    deployments: Deployments,
    drains: Drains,
    outbox: Outbox,
    outcomes: (mpsc::UnboundedSender<Tried>, mpsc::UnboundedReceiver<Tried>),
    retry_at: Time,
    gc_at: Time,
    digests: Digests,
}

/// Outcome of an attempt to carry out an effect: the index of the entry, or an error.
type Tried = (Ticket, Result<u64, WriteError>);

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
            outbox: Outbox::new(),
            outcomes: mpsc::unbounded_channel(),
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
        let written = shell.now();
        for node in view.nodes() {
            leader.decide(effects::look_if_overlooked(&view, node, written, || shell.fresh()));
        }
        leader
    }

    /// Runs until it is dropped, or the channel of applied batches is closed.
    pub async fn run(mut self, reactions: &mut Reactions) {
        // Carry out what became due before this term began.
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
                Some(tried) = self.outcomes.1.recv() => self.on_tried(tried),
                () = self.shell.deadlines.notified() => {}
                () = self.shell.time.until(next) => {}
            }
            while let Ok((view, batch)) = reactions.try_recv() {
                self.on_applied(&view, &batch);
            }
            while let Ok(tried) = self.outcomes.1.try_recv() {
                self.on_tried(tried);
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
            self.outbox.next_deadline(),
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
            for change in reaction.changes.iter() {
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

    /// Stops the heartbeat timer of a node that is down or gone in the newest view.
    fn forget_silent(&self, id: NodeId) {
        let mut heartbeats = locked(&self.shell.heartbeats);
        if self.shell.view().node(id).is_none_or(|node| node.status == NodeStatus::Down) {
            heartbeats.forget(id);
        }
    }

    fn on_time(&mut self) {
        let (now, written) = (self.shell.pace(), self.shell.now());
        let view = self.shell.view();
        let shell = Arc::clone(&self.shell);
        self.tend_evals(&view, now, written);
        let missed = locked(&shell.heartbeats).on_time(now);
        for node in missed {
            let effect = effects::miss(&view, node, now, written);
            if let (Some(node), Some(Deed::WriteStatus { command, .. })) = (view.node(node), effect.as_ref().map(|effect| &effect.deed)) {
                shell.record.note(&format!("node {} missed its heartbeat and is to be {}", node.name, command.status));
            }
            self.decide(effect);
        }
        for step in self.deployments.on_time(&view, now) {
            self.decide(Some(effects::deployment(&view, step, shell.fresh(), written, JOB_VERSIONS_MAX)));
        }
        for step in self.drains.on_time(&view, now) {
            self.decide(Some(effects::drain(&view, step, written, || shell.fresh())));
        }
        if now >= self.retry_at {
            self.retry_at = now.plus(RETRY_INTERVAL);
            locked(&shell.queues).unblock_failed(now);
        }
        if now >= self.gc_at {
            self.gc_at = now.plus(GC_INTERVAL);
            let cutoffs = locked(&shell.seen.times).cutoffs(&GC_AGES, now);
            self.decide(Some(effects::collect_garbage(cutoffs)));
        }
        let digest = effects::compare(&view, &mut self.digests);
        self.decide(digest);
        self.carry_out(&view, now);
        shell.work.notify_waiters();
    }

    fn tend_evals(&mut self, view: &State, now: Time, written: Time) {
        let Tended { canceled, failed } = locked(&self.shell.queues).on_time(now, written);
        self.decide(effects::cancel(canceled));
        for delivery in failed {
            let chance = u8::try_from(self.shell.draw() & 0xff).unwrap_or(0);
            match effects::give_up(view, &delivery, self.shell.fresh(), chance, written) {
                Some(effect) => self.decide(Some(effect)),
                // The delivery was taken a moment ago, so its token is still valid.
                None => drop(locked(&self.shell.queues).broker.ack(delivery.eval.id, delivery.token, now)),
            }
        }
    }

    fn decide(&mut self, effect: Option<Effect>) {
        if let Some(effect) = effect {
            self.outbox.decide(effect, self.shell.fresh().to_string().into(), self.shell.pace());
        }
    }

    /// Starts all attempts that are due.
    fn carry_out(&mut self, view: &State, now: Time) {
        let shell = Arc::clone(&self.shell);
        loop {
            let due = self.outbox.on_time(view, now, |node| locked(&shell.heartbeats).watches(node));
            if due.attempts.is_empty() && due.over.is_empty() {
                return;
            }
            for attempt in due.attempts {
                let (shell, reign, outcomes) = (Arc::clone(&shell), Arc::clone(&self.reign), self.outcomes.0.clone());
                self.reign.spawn(async move {
                    let ticket = attempt.ticket;
                    // The receiving loop is gone only when the leadership term is over.
                    let _ = outcomes.send((ticket, shell.try_effect(&reign, attempt).await));
                });
            }
            due.over.iter().for_each(|over| self.on_over(over));
        }
    }

    fn on_tried(&mut self, (ticket, tried): Tried) {
        let outcome = match &tried {
            Ok(index) => Outcome::Written(*index),
            Err(WriteError::Rejected(_)) => Outcome::Refused,
            Err(WriteError::NoLeader | WriteError::Unknown(_)) => Outcome::Lost,
        };
        let told = self.outbox.on_outcome(ticket, outcome, self.shell.pace());
        if let Err(error) = tried {
            self.shell.record.note(&format!("server {}: an effect was not written: {error}", self.shell.id));
        }
        match told {
            Told::Over(over) => self.on_over(&over),
            Told::Again { .. } | Told::Unknown => {}
        }
    }

    fn on_over(&mut self, over: &Over) {
        let (now, shell) = (self.shell.pace(), Arc::clone(&self.shell));
        for consequence in effects::consequences(&shell.view(), over, shell.now(), || shell.fresh()) {
            match consequence {
                // Refused only when the broker was emptied meanwhile.
                Consequence::Acknowledge(id, token) => drop(locked(&shell.queues).broker.ack(id, token, now)),
                Consequence::Decide(effect) => self.decide(Some(*effect)),
                Consequence::Watch(id) => {
                    if !locked(&shell.heartbeats).watches(id) {
                        shell.beat(id);
                    }
                }
                Consequence::LookAtDeployment(id) => self.deployments.look_again(id, now),
                Consequence::LookAtDrains => self.drains.look_again(now),
                // The simulation has no services.
                Consequence::LookAtServices(_) => {}
            }
        }
    }
}

impl Shell {
    /// Makes one attempt to carry out an effect. Returns the index of the entry.
    async fn try_effect(&self, reign: &Reign, attempt: Attempt) -> Result<u64, WriteError> {
        let Attempt { actor, deed, key, .. } = attempt;
        let (cause, command) = match deed {
            Deed::Write { cause, command } => (cause, *command),
            Deed::WriteStatus { command, .. } => (None, command.into()),
            Deed::Collect(cutoffs) => return self.collect(reign, cutoffs, &actor).await,
        };
        self.write_once(Some(reign), actor, cause, Some(key), command).await.map(|(index, _)| index)
    }

    async fn collect(&self, reign: &Reign, cutoffs: Cutoffs, actor: &Actor) -> Result<u64, WriteError> {
        for _ in 0..3 {
            let commands = gc::collect(&self.view(), &cutoffs, self.now(), JOB_VERSIONS_MAX);
            if commands.is_empty() {
                break;
            }
            for command in commands {
                self.write(Some(reign), actor.clone(), None, command).await?;
            }
        }
        Ok(self.view().applied_index())
    }

    /// Writes the status that a node asks for, if it differs from the current one, and the evaluations that follow
    /// from it. Returns the entry's index, 0 when nothing was written.
    pub(super) async fn change_node_status(&self, node: &Node, wanted: NodeStatus) -> Result<u64, WriteError> {
        let Some(command) = nodes::status_update(&self.view(), node, wanted, None, self.now()) else { return Ok(0) };
        let status = command.status;
        let (index, _) = self.write(None, Actor::Node(node.id), None, command).await?;
        // `apply` decides about the status: another entry may have come between.
        let status = self.view().node(node.id).map_or(status, |after| after.status);
        if node_transition_needs_evals(node.status, status) {
            self.propose_node_evals(node.id, Cause::new(index, Kind::NodeUpdateStatus)).await?;
        }
        Ok(index)
    }

    /// Creates evaluations for all jobs that a node's change may concern.
    pub(super) async fn propose_node_evals(&self, node: NodeId, cause: Cause) -> Result<(), WriteError> {
        let view = self.view();
        let Some(row) = view.node(node) else { return Ok(()) };
        let evals = node_evals(&view, row, cause.index, self.now(), || self.fresh());
        if !evals.is_empty() {
            self.write(None, Actor::Node(node), Some(cause), UpdateEvals { evals }).await?;
        }
        Ok(())
    }

    /// Creates evaluations for a node that is eligible again since the entry at `index`.
    pub async fn look_at_node(&self, node: NodeId, index: u64) -> Result<(), WriteError> {
        self.propose_node_evals(node, Cause::new(index, Kind::NodeUpdateEligibility)).await
    }
}
