//! The leader's loop: feeds applied entries and time to the leader's state machines, and proposes the commands they
//! ask for.
//! `leadership.rs` decides when a server leads, and ends all work of a leadership term with it.

use std::sync::Arc;
use std::time::Duration;

use songline_api::{Proposal, ProposeError};
use songline_commands::{Actor, Command, SetAutopilotConfig, SetClusterMetadata, SetSchedulerConfig};
use songline_model::{AutopilotConfig, Dur, NodeId, NodeStatus, Time};
use songline_projections::{Change, Rejected, State};
use songline_scheduler::leader::deployments::Deployments;
use songline_scheduler::leader::digests::Digests;
use songline_scheduler::leader::drains::Drains;
use songline_scheduler::leader::effects::{self, Consequence};
use songline_scheduler::leader::evals::Tended;
use songline_scheduler::leader::gc::{self, Cutoffs};
use songline_scheduler::leader::outbox::{Attempt, Deed, Effect, Outbox, Outcome, Over, Ticket, Told};
use songline_scheduler::leader::periodic::Periodic;
use songline_scheduler::leader::services::Services;

use tokio::sync::{mpsc, oneshot};

use super::leadership::LeadershipTerm;
use super::machine::{Reaction, Reactions};
use super::{Core, panics};

/// Delay before evaluations that ran out of attempts are tried again.
const RETRY_INTERVAL: Dur = Dur::from_mins(1);
/// Longest wait of the loop. The wall clock may be set forward meanwhile, past the launch time of a periodic job.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Number of entries between two comparisons of the servers' states.
const DIGEST_INTERVAL: u64 = 10_000;

/// The state machines of one leadership term.
pub(crate) struct Leader {
    core: Arc<Core>,
    term: Arc<LeadershipTerm>,
    /// Index of the state that the machines were filled from: they already know all changes up to it.
    known: u64,
    deployments: Deployments,
    drains: Drains,
    services: Services,
    periodic: Periodic,
    /// Decisions of the machines that are not written yet.
    outbox: Outbox,
    outcomes: (mpsc::UnboundedSender<Tried>, mpsc::UnboundedReceiver<Tried>),
    retry_at: Time,
    gc_at: Time,
    volumes_at: Time,
    digests: Digests,
}

/// Outcome of an attempt to carry out an effect: the index of the entry, or an error.
type Tried = (Ticket, Result<u64, ProposeError>);

/// Writes the initial objects of a cluster, as its first leader.
pub(crate) async fn establish(core: &Arc<Core>, term: &LeadershipTerm) -> Result<(), ProposeError> {
    let view = core.view();
    if view.scheduler_config().is_none() {
        let config = core.facts.config.default_scheduler_config.clone();
        core.write_under(term, proposal(SetSchedulerConfig { config, cas: None })).await?;
    }
    if view.autopilot_config().is_none() {
        let config = AutopilotConfig::initial();
        core.write_under(term, proposal(SetAutopilotConfig { config, cas: None })).await?;
    }
    if view.cluster_metadata().is_none() {
        let cluster_id = core.world().uuid().to_string().into();
        let command = SetClusterMetadata { cluster_id, create_time: core.now() };
        core.write_under(term, proposal(command)).await?;
    }
    Ok(())
}

/// Clears everything that only a leader fills.
pub(crate) fn forget(core: &Core) {
    core.queues().set_enabled(false, &core.view(), core.pace());
    core.leader.heartbeats.lock().clear();
    core.leader.volumes.lock().clear();
    core.leader.multiregion.lock().clear();
    core.leader.rejections.lock().clear();
    core.leader.event_sinks.forget();
    core.leader.server_health.lock().servers.clear();
}

impl Leader {
    /// Fills the machines from the tables.
    pub(crate) fn begin(core: &Arc<Core>, term: &Arc<LeadershipTerm>) -> Self {
        let view = core.view();
        let now = core.pace();
        let mut leader = Self {
            term: Arc::clone(term),
            known: 0,
            deployments: Deployments::new(),
            drains: Drains::new(),
            services: Services::new(),
            periodic: Periodic::new(),
            outbox: Outbox::new(),
            outcomes: mpsc::unbounded_channel(),
            retry_at: now.plus(RETRY_INTERVAL),
            gc_at: now.plus(core.facts.config.gc_interval),
            volumes_at: now.plus(core.facts.config.csi_volume_gc_interval),
            digests: Digests::new(digest_interval(), &view),
            core: Arc::clone(core),
        };
        leader.rebuild(&view, now);
        leader
    }

    /// Runs until the leadership term is over or the future is dropped.
    pub(crate) async fn run(mut self, reactions: &mut Reactions) {
        // Carry out what became due before this term began.
        self.on_time();
        loop {
            let wait = self.time_to_next();
            tokio::select! {
                biased;
                () = self.term.over() => return,
                applied = reactions.recv() => match applied {
                    Some((view, batch)) => self.on_applied(&view, &batch),
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
                () = self.core.leader.deadlines.notified() => {}
                Some(tried) = self.outcomes.1.recv() => self.on_tried(tried),
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

    fn time_to_next(&self) -> Duration {
        let now = self.core.pace();
        let deadlines = [
            self.core.queues().broker.next_deadline(),
            self.core.leader.heartbeats.lock().next_deadline(),
            self.deployments.next_deadline(),
            self.drains.next_deadline(),
            self.outbox.next_deadline(),
            Some(self.retry_at),
            Some(self.gc_at),
            Some(self.volumes_at),
        ];
        let next = deadlines.into_iter().flatten().min().map(|at| at.since(now));
        // Launch times are times of the wall clock, which may be set at any time: other deadlines are not.
        let launch = self.periodic.next_deadline().map(|at| at.since(self.core.now()));
        next.into_iter().chain(launch).min().map_or(WAIT_MAX, Dur::to_std).min(WAIT_MAX)
    }

    fn on_applied(&mut self, view: &Arc<State>, batch: &[Reaction]) {
        let now = self.core.pace();
        let news = batch.partition_point(|reaction| reaction.index <= self.known);
        let batch = &batch[news..];
        {
            let mut queues = self.core.queues();
            for reaction in batch {
                queues.on_changes(view, reaction.index, &reaction.changes, now);
            }
        }
        for reaction in batch {
            self.deployments.on_changes(&reaction.changes, now);
            self.drains.on_changes(&reaction.changes, now);
            self.services.on_changes(&reaction.changes);
            if self.core.leader.volumes.lock().on_changes(&reaction.changes) {
                self.core.leader.volumes_changed.notify_one();
            }
            if self.core.leader.multiregion.lock().on_changes(&reaction.changes) {
                self.core.leader.peers_changed.notify_one();
            }
            self.periodic.on_changes(view, &reaction.changes);
            for change in reaction.changes.iter() {
                self.core.leader.event_sinks.on_change(change);
                match change {
                    Change::Node { after: None, before: Some(node) } => self.forget_silent(node.id),
                    Change::Node { after: Some(node), .. } if node.status == NodeStatus::Down => {
                        self.forget_silent(node.id)
                    }
                    Change::SchedulerConfig { .. } => self.follow_pause(view, now),
                    Change::RootKey { .. } => self.core.leader.root_keys_changed.notify_one(),
                    Change::PendingWork { before: None, .. } => self.core.leader.work_opened.notify_one(),
                    Change::Restored => self.rebuild(view, now),
                    _ => {}
                }
            }
        }
        self.core.leader.work.notify_waiters();
    }

    /// Stops the heartbeat timer of a node that is down or gone. The node may be back by the time this loop sees the
    /// change: its heartbeat then set its deadline after the newest view had shown it as ready, and the lock keeps
    /// the two in order.
    fn forget_silent(&self, id: NodeId) {
        let mut heartbeats = self.core.leader.heartbeats.lock();
        if self.core.view().node(id).is_none_or(|node| node.status == NodeStatus::Down) {
            heartbeats.forget(id);
        }
    }

    /// Applies a scheduler configuration, which may have paused or resumed the broker.
    fn follow_pause(&self, view: &State, now: Time) {
        let enabled = !is_paused(&self.core, view);
        let mut queues = self.core.queues();
        if queues.broker.is_enabled() != enabled {
            queues.set_enabled(enabled, view, now);
        }
    }

    /// Refills the machines from the tables, as a new leader does: the state may have been replaced as a whole.
    fn rebuild(&mut self, view: &State, now: Time) {
        self.known = view.applied_index();
        self.core.leader.root_keys_changed.notify_one();
        self.core.leader.work_opened.notify_one();
        self.core.leader.event_sinks.look_again();
        self.outbox.clear();
        self.deployments.restore(view, now);
        self.drains.restore(view, now);
        self.services.restore(view);
        self.core.leader.heartbeats.lock().restore(view, now);
        self.core.leader.volumes.lock().restore(view);
        self.core.leader.volumes_changed.notify_one();
        self.core.leader.multiregion.lock().restore(view);
        self.core.leader.peers_changed.notify_one();
        self.periodic.restore(view, self.core.now());
        {
            let mut queues = self.core.queues();
            queues.set_enabled(false, view, now);
            queues.set_enabled(!is_paused(&self.core, view), view, now);
        }
        let written = self.core.now();
        for node in view.nodes() {
            self.decide(effects::look_if_overlooked(view, node, written, || self.core.fresh_eval()));
        }
    }

    fn on_time(&mut self) {
        let (now, written) = (self.core.pace(), self.core.now());
        let view = self.core.view();
        let Tended { canceled, failed } = self.core.queues().on_time(now, written);
        self.decide(effects::cancel(canceled));
        for delivery in failed {
            let chance = self.core.world().uuid().as_bytes()[0];
            match effects::give_up(&view, &delivery, self.core.fresh_eval(), chance, written) {
                Some(effect) => self.decide(Some(effect)),
                // The delivery was taken a moment ago, so its token is still valid.
                None => drop(self.core.queues().broker.ack(delivery.eval.id, delivery.token, now)),
            }
        }
        let missed = self.core.leader.heartbeats.lock().on_time(now);
        for node in missed {
            self.miss(&view, node, now);
        }
        for step in self.deployments.on_time(&view, now) {
            self.decide(Some(effects::deployment(
                &view,
                step,
                self.core.fresh_eval(),
                written,
                self.core.facts.config.job_tracked_versions,
            )));
        }
        let steps = self.core.leader.multiregion.lock().take_due(&view, &self.core.facts.info.region);
        for step in steps {
            let (eval, versions_max) = (self.core.fresh_eval(), self.core.facts.config.job_tracked_versions);
            self.decide(Some(effects::multiregion(&view, step, eval, written, versions_max)));
        }
        for step in self.drains.on_time(&view, now) {
            self.decide(Some(effects::drain(&view, step, written, || self.core.fresh_eval())));
        }
        for launch in self.periodic.on_time(&view, written) {
            let (eval, versions_max) = (self.core.fresh_eval(), self.core.facts.config.job_tracked_versions);
            self.decide(Some(effects::launch(&view, &launch, eval, written, versions_max)));
        }
        for node_id in self.services.take_due(&view) {
            self.decide(Some(effects::drop_services(&view, node_id)));
        }
        if now >= self.retry_at {
            self.retry_at = now.plus(RETRY_INTERVAL);
            self.core.queues().unblock_failed(now);
        }
        if now >= self.gc_at {
            self.gc_at = now.plus(self.core.facts.config.gc_interval);
            let cutoffs = self.core.published.times.lock().cutoffs(&self.core.facts.config.gc, now);
            self.decide(Some(effects::collect_garbage(cutoffs)));
        }
        if now >= self.volumes_at {
            self.volumes_at = now.plus(self.core.facts.config.csi_volume_gc_interval);
            let cutoffs = self.core.published.times.lock().cutoffs(&self.core.facts.config.gc, now);
            self.core.look_at_volumes(&view, cutoffs);
        }
        let digest = effects::compare(&view, &mut self.digests);
        self.decide(digest);
        self.carry_out(&view, now);
        self.core.leader.work.notify_waiters();
    }

    fn miss(&mut self, view: &State, id: NodeId, now: Time) {
        let effect = effects::miss(view, id, now, self.core.now());
        if let (Some(node), Some(Deed::WriteStatus { command, .. })) =
            (view.node(id), effect.as_ref().map(|effect| &effect.deed))
        {
            tracing::warn!(node = %id, name = %node.name, status = %command.status, "node missed its heartbeat");
        }
        self.decide(effect);
    }

    fn decide(&mut self, effect: Option<Effect>) {
        if let Some(effect) = effect {
            self.outbox.decide(effect, self.core.world().uuid().to_string().into(), self.core.pace());
        }
    }

    /// Starts all attempts that are due.
    fn carry_out(&mut self, view: &State, now: Time) {
        loop {
            let core = &self.core;
            let due = self.outbox.on_time(view, now, |node| core.leader.heartbeats.lock().watches(node));
            if due.attempts.is_empty() && due.over.is_empty() {
                return;
            }
            due.attempts.into_iter().for_each(|attempt| self.attempt(attempt));
            due.over.iter().for_each(|over| self.on_over(over));
        }
    }

    fn attempt(&self, attempt: Attempt) {
        let (core, term, outcomes) = (Arc::clone(&self.core), Arc::clone(&self.term), self.outcomes.0.clone());
        self.term.spawn(async move {
            let ticket = attempt.ticket;
            let tried = panics::caught(core.try_effect(&term, attempt)).await;
            let tried = tried.unwrap_or_else(|panicked| Err(ProposeError::OutcomeUnknown(panicked.to_string())));
            // The receiving loop is gone only when the leadership term is over.
            let _ = outcomes.send((ticket, tried));
        });
    }

    fn on_tried(&mut self, (ticket, tried): Tried) {
        let outcome = match &tried {
            Ok(index) => Outcome::Written(*index),
            Err(ProposeError::Rejected(_)) => Outcome::Refused,
            Err(ProposeError::NoLeader | ProposeError::OutcomeUnknown(_) | ProposeError::Unavailable(_)) => {
                Outcome::Lost
            }
        };
        match (self.outbox.on_outcome(ticket, outcome, self.core.pace()), tried) {
            (Told::Again { subject, failures: 1, .. }, Err(error)) => {
                tracing::warn!(?subject, %error, "an effect of the leader could not be written; it is tried again");
            }
            (Told::Again { subject, failures, .. }, Err(error)) => {
                tracing::debug!(?subject, failures, %error, "an effect of the leader could not be written; it is tried again");
            }
            (Told::Over(over), tried) => {
                if let Err(error) = tried {
                    tracing::debug!(subject = ?over.effect.subject, %error, "an effect of the leader was refused");
                }
                self.on_over(&over);
            }
            (Told::Again { .. } | Told::Unknown, _) => {}
        }
    }

    fn on_over(&mut self, over: &Over) {
        let now = self.core.pace();
        for consequence in effects::consequences(&self.core.view(), over, self.core.now(), || self.core.fresh_eval()) {
            match consequence {
                // Refused only when the broker was emptied meanwhile.
                Consequence::Acknowledge(id, token) => drop(self.core.queues().broker.ack(id, token, now)),
                Consequence::Decide(effect) => self.decide(Some(*effect)),
                Consequence::Watch(id) => {
                    if !self.core.leader.heartbeats.lock().watches(id) {
                        self.core.beat(id);
                    }
                }
                Consequence::LookAtDeployment(id) => {
                    self.deployments.look_again(id, now);
                    self.core.leader.multiregion.lock().look_again(id);
                }
                Consequence::LookAtDrains => self.drains.look_again(now),
                Consequence::LookAtServices(id) => self.services.look_again(id),
                Consequence::PlanLaunch(job, at) => self.periodic.on_over(&job, at),
            }
        }
    }
}

impl Core {
    /// Makes one attempt to carry out an effect. Returns the index of the entry.
    async fn try_effect(&self, term: &LeadershipTerm, attempt: Attempt) -> Result<u64, ProposeError> {
        #[cfg(test)]
        self.hooks.on_effect(attempt.subject)?;
        let Attempt { actor, deed, key, .. } = attempt;
        let (cause, command) = match deed {
            Deed::Write { cause, command } => (cause, *command),
            Deed::WriteStatus { command, .. } => (None, command.into()),
            Deed::Collect(cutoffs) => {
                self.collect_garbage(Some(term), cutoffs, &actor).await?;
                return Ok(self.view().applied_index());
            }
        };
        let proposal = Proposal { actor, cause, idempotency: Some(key), command };
        self.write_under(term, proposal).await.map(|(written, _)| written.index)
    }

    /// Has abandoned claims on the volumes that are older than the cutoffs released.
    fn look_at_volumes(&self, view: &State, cutoffs: Cutoffs) {
        self.leader.volumes.lock().look_at_all(view, cutoffs.csi_volume());
        self.leader.volumes_changed.notify_one();
    }

    /// Deletes all objects older than the cutoffs, for the leader itself or for an operator's request.
    pub(crate) async fn collect_garbage(
        &self,
        term: Option<&LeadershipTerm>,
        cutoffs: Cutoffs,
        actor: &Actor,
    ) -> Result<(), ProposeError> {
        if term.is_none() {
            self.look_at_volumes(&self.view(), cutoffs);
        }
        let cutoffs = if self.facts.info.is_authoritative() { cutoffs } else { cutoffs.without_global_tokens() };
        // Evaluations hold allocations and jobs hold evaluations, so one pass can free what the next one drops.
        for _ in 0..3 {
            let commands = self.garbage(cutoffs).await?;
            if commands.is_empty() {
                break;
            }
            for command in commands {
                let proposal = Proposal { actor: actor.clone(), cause: None, idempotency: None, command };
                let written = match term {
                    Some(term) => self.write_under(term, proposal).await.map(|_| ()),
                    None => self.write(proposal).await.map(|_| ()),
                };
                match written {
                    // A plan that was made before the pass has used the key since.
                    Ok(()) | Err(ProposeError::Rejected(Rejected::RootKeyInUse(_))) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// The commands of one pass. Its scan takes seconds with millions of rows, so it has a thread of its own: heartbeats
    /// and requests do not wait for it.
    async fn garbage(&self, cutoffs: Cutoffs) -> Result<Vec<Command>, ProposeError> {
        let (view, now, versions_max) = (self.view(), self.now(), self.facts.config.job_tracked_versions);
        let (done, found) = oneshot::channel();
        let scan = Box::pin(async move { drop(done.send(gc::collect(&view, &cutoffs, now, versions_max))) });
        let started = self.world().start_loop("garbage".into(), scan);
        started.map_err(|error| ProposeError::Unavailable(format!("collecting garbage: {error}")))?;
        found.await.map_err(|_| ProposeError::Unavailable("the scan for garbage has ended early".to_owned()))
    }
}

fn proposal(command: impl Into<Command>) -> Proposal {
    Proposal { actor: Actor::Leader("leadership".into()), cause: None, idempotency: None, command: command.into() }
}

fn digest_interval() -> u64 {
    #[cfg(debug_assertions)]
    if let Some(interval) = super::defects::digest_interval() {
        return interval;
    }
    DIGEST_INTERVAL
}

fn is_paused(core: &Core, view: &State) -> bool {
    view.scheduler_config()
        .map_or(core.facts.config.default_scheduler_config.pause_eval_broker, |config| config.pause_eval_broker)
}

#[cfg(test)]
pub(super) mod tests;
