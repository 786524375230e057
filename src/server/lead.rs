//! The leader's loop: feeds what is applied to the machines of time, and proposes what they ask for.
//! When a server leads, and that nothing of a reign outlives it, is `leadership.rs`'s business.

use std::sync::Arc;
use std::time::Duration;

use songline_api::{Proposal, ProposeError};
use songline_commands::{
    Actor, Cause, Command, DeleteServiceRegistrationsOfNode, Kind, SetAutopilotConfig, SetClusterMetadata, SetSchedulerConfig, UpdateEvals,
};
use songline_model::{AutopilotConfig, Dur, EvalId, NodeId, NodeStatus, Time};
use songline_projections::{Change, State};
use songline_scheduler::broker;
use songline_scheduler::leader::deployments::{self, Deployments};
use songline_scheduler::leader::digests::Digests;
use songline_scheduler::leader::drains::{self, Drains};
use songline_scheduler::leader::evals::Tended;
use songline_scheduler::leader::gc::{self, Cutoffs};
use songline_scheduler::leader::services::Services;
use songline_scheduler::leader::{heartbeats, nodes};

use tokio::sync::mpsc;

use super::leadership::Reign;
use super::machine::{Reaction, Reactions};
use super::{Core, lock};

/// How often evaluations that ran out of attempts are tried again.
const RETRY_INTERVAL: Dur = Dur::from_mins(1);
/// How often the servers compare their states, in entries.
const DIGEST_INTERVAL: u64 = 10_000;

/// The machines of one reign.
pub(crate) struct Leader {
    core: Arc<Core>,
    reign: Arc<Reign>,
    /// Up to which index the machines know everything: they were filled from the state after it.
    known: u64,
    deployments: Deployments,
    drains: Drains,
    services: Services,
    /// Nodes whose drain's end could not be written.
    drain_failures: (mpsc::UnboundedSender<NodeId>, mpsc::UnboundedReceiver<NodeId>),
    retry_at: Time,
    gc_at: Time,
    digests: Digests,
}

/// What the first leader of a cluster writes.
pub(crate) async fn establish(core: &Arc<Core>, reign: &Reign) -> Result<(), ProposeError> {
    let view = core.view();
    if view.scheduler_config().is_none() {
        let config = core.config.default_scheduler_config.clone();
        core.write_under(reign, proposal("leadership", None, SetSchedulerConfig { config, cas: None })).await?;
    }
    if view.autopilot_config().is_none() {
        let config = AutopilotConfig::initial();
        core.write_under(reign, proposal("leadership", None, SetAutopilotConfig { config, cas: None })).await?;
    }
    if view.cluster_metadata().is_none() {
        let cluster_id = uuid::Uuid::new_v4().to_string().into();
        let command = SetClusterMetadata { cluster_id, create_time: core.now().nanos() };
        core.write_under(reign, proposal("leadership", None, command)).await?;
    }
    Ok(())
}

/// Empties everything that only a leader fills.
pub(crate) fn forget(core: &Core) {
    core.queues().set_enabled(false, &core.view(), core.pace());
    lock(&core.heartbeats).clear();
    lock(&core.server_health).servers.clear();
}

impl Leader {
    /// Fills the machines from the tables.
    pub(crate) fn begin(core: &Arc<Core>, reign: &Arc<Reign>) -> Self {
        let view = core.view();
        let now = core.pace();
        let mut leader = Self {
            reign: Arc::clone(reign),
            known: 0,
            deployments: Deployments::new(),
            drains: Drains::new(),
            services: Services::new(),
            drain_failures: mpsc::unbounded_channel(),
            retry_at: now.plus(RETRY_INTERVAL),
            gc_at: now.plus(core.config.gc_interval),
            digests: Digests::new(DIGEST_INTERVAL, &view),
            core: Arc::clone(core),
        };
        leader.rebuild(&view, now);
        leader
    }

    /// Goes on until the reign is over; whoever drops the future ends it as well.
    pub(crate) async fn run(mut self, reactions: &mut Reactions) {
        // What was due before this reign began is done at once.
        self.on_time();
        loop {
            let wait = self.time_to_next();
            tokio::select! {
                applied = reactions.recv() => match applied {
                    Some((view, batch)) => self.on_applied(&view, &batch),
                    None => return,
                },
                () = tokio::time::sleep(wait) => {}
                () = self.core.deadlines.notified() => {}
                Some(node) = self.drain_failures.1.recv() => self.drains.on_end_failed(node, self.core.pace()),
                () = self.reign.over() => return,
            }
            while let Ok((view, batch)) = reactions.try_recv() {
                self.on_applied(&view, &batch);
            }
            self.on_time();
        }
    }

    fn time_to_next(&self) -> Duration {
        let now = self.core.pace();
        let deadlines = [
            self.core.queues().broker.next_deadline(),
            lock(&self.core.heartbeats).next_deadline(),
            self.deployments.next_deadline(),
            self.drains.next_deadline(),
            Some(self.retry_at),
            Some(self.gc_at),
        ];
        deadlines.into_iter().flatten().min().map_or(Duration::from_secs(60), |at| at.since(now).to_std())
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
            for change in reaction.changes.iter() {
                match change {
                    Change::Node { after: None, before: Some(node) } => self.forget_silent(node.id),
                    Change::Node { after: Some(node), .. } if node.status == NodeStatus::Down => self.forget_silent(node.id),
                    Change::SchedulerConfig { .. } => self.follow_pause(view, now),
                    Change::RootKey { .. } => self.core.root_keys_changed.notify_one(),
                    Change::PendingWork { before: None, .. } => self.core.work_opened.notify_one(),
                    Change::Restored => self.rebuild(view, now),
                    _ => {}
                }
            }
        }
        self.core.work.notify_waiters();
    }

    /// Watches a node no longer that is down or gone. It may be back by the time that this loop hears of it; then its heartbeat has set its
    /// deadline after the newest view said so, and the lock keeps the two in order.
    fn forget_silent(&self, id: NodeId) {
        let mut heartbeats = lock(&self.core.heartbeats);
        if self.core.view().node(id).is_none_or(|node| node.status == NodeStatus::Down) {
            heartbeats.forget(id);
        }
    }

    /// The configuration may have paused the broker, or set it going again.
    fn follow_pause(&self, view: &State, now: Time) {
        let enabled = !is_paused(&self.core, view);
        let mut queues = self.core.queues();
        if queues.broker.is_enabled() != enabled {
            queues.set_enabled(enabled, view, now);
        }
    }

    /// Everything may be another state: the machines begin anew from its tables, as those of a new leader do.
    fn rebuild(&mut self, view: &State, now: Time) {
        self.known = view.applied_index();
        self.core.root_keys_changed.notify_one();
        self.core.work_opened.notify_one();
        self.deployments.restore(view, now);
        self.drains.restore(view, now);
        self.services.restore(view);
        lock(&self.core.heartbeats).restore(view, now);
        let mut queues = self.core.queues();
        queues.set_enabled(false, view, now);
        queues.set_enabled(!is_paused(&self.core, view), view, now);
    }

    fn on_time(&mut self) {
        let (now, written) = (self.core.pace(), self.core.now());
        let view = self.core.view();
        let Tended { canceled, failed } = self.core.queues().on_time(now, written);
        if !canceled.is_empty() {
            self.propose("evals", None, UpdateEvals { evals: canceled });
        }
        for delivery in failed {
            let wait = broker::give_up_wait(uuid::Uuid::new_v4().as_bytes()[0]);
            let rows = broker::give_up(&delivery.eval, EvalId::from(uuid::Uuid::new_v4()), wait, written);
            self.propose("evals", None, UpdateEvals { evals: rows.into() });
            // The delivery was taken a moment ago, so it is still ours.
            let _ = self.core.queues().broker.ack(delivery.eval.id, delivery.token, now);
        }
        for node in lock(&self.core.heartbeats).on_time(now) {
            self.miss(&view, node, now);
        }
        for effect in self.deployments.on_time(&view, now) {
            let eval = EvalId::from(uuid::Uuid::new_v4());
            let (cause, command) = deployments::entry(&view, effect, eval, written, self.core.config.job_tracked_versions);
            self.propose("deployments", Some(cause), command);
        }
        for effect in self.drains.on_time(&view, now) {
            self.drain(&view, effect, written);
        }
        for node_id in self.services.take_due(&view) {
            self.propose("services", None, DeleteServiceRegistrationsOfNode { node_id });
        }
        if now >= self.retry_at {
            self.retry_at = now.plus(RETRY_INTERVAL);
            self.core.queues().unblock_failed(now);
        }
        if now >= self.gc_at {
            self.gc_at = now.plus(self.core.config.gc_interval);
            let cutoffs = lock(&self.core.times).cutoffs(&self.core.config.gc, now);
            let (core, reign) = (Arc::clone(&self.core), Arc::clone(&self.reign));
            self.reign.spawn(async move {
                if let Err(error) = core.collect_garbage(Some(&reign), cutoffs, &Actor::Leader("gc".into())).await {
                    tracing::warn!(%error, "garbage collection stopped early; the next one goes on");
                }
            });
        }
        if let Some(digest) = self.digests.take_due(&view) {
            self.propose("digest", None, digest);
        }
        self.core.work.notify_waiters();
    }

    fn miss(&self, view: &State, id: NodeId, now: Time) {
        let Some(node) = view.node(id).cloned() else { return };
        let status = heartbeats::status_after_miss(view, &node, now);
        tracing::warn!(node = %id, name = %node.name, %status, "node missed its heartbeat");
        let again = status == NodeStatus::Disconnected && heartbeats::was_not_looked_at(view, &node);
        let (core, reign) = (Arc::clone(&self.core), Arc::clone(&self.reign));
        self.reign.spawn(async move {
            let (under, event) = (Some(&*reign), Some(nodes::missed_event(core.now())));
            let written = core.change_node_status(under, &node, status, event, Actor::Leader("heartbeats".into())).await;
            if let Err(error) = &written {
                tracing::warn!(node = %id, %error, "could not write that the node missed its heartbeat; it is tried again");
            }
            if again && let Err(error) = core.propose_node_evals(under, id, Cause::new(node.modify_index, Kind::NodeUpdateStatus)).await {
                tracing::warn!(node = %id, %error, "could not write the evaluations of a node that is away; it is tried again");
            }
            if written.is_err() || status == NodeStatus::Disconnected {
                // It is looked at again: nothing may be left to wait for by then.
                core.beat(id);
            }
        });
    }

    fn drain(&self, view: &State, effect: drains::Effect, now: Time) {
        match effect {
            drains::Effect::Migrate { allocs, jobs } => {
                let fresh = || EvalId::from(uuid::Uuid::new_v4());
                self.propose("drains", None, drains::migration(view, allocs, &jobs, fresh, now));
            }
            drains::Effect::Complete { node, event } => {
                let command = drains::completion(node, event, now);
                let (core, reign, failures) = (Arc::clone(&self.core), Arc::clone(&self.reign), self.drain_failures.0.clone());
                self.reign.spawn(async move {
                    if let Err(error) = core.write_under(&reign, proposal("drains", None, command)).await {
                        tracing::warn!(%node, %error, "could not write the end of a drain; it is tried again");
                        // The loop is gone only when the reign is over.
                        let _ = failures.send(node);
                    }
                });
            }
        }
    }

    /// Writes without waiting: the loop goes on, and whatever fails shows up again in the tables.
    fn propose(&self, name: &'static str, cause: Option<Cause>, command: impl Into<Command>) {
        let (core, reign) = (Arc::clone(&self.core), Arc::clone(&self.reign));
        let proposal = proposal(name, cause, command);
        self.reign.spawn(async move {
            if let Err(error) = core.write_under(&reign, proposal).await {
                tracing::debug!(actor = name, %error, "a leader's command was refused");
            }
        });
    }
}

impl Core {
    /// Drops all that is old enough, for the leader itself or for somebody who asks.
    pub(crate) async fn collect_garbage(&self, reign: Option<&Reign>, cutoffs: Cutoffs, actor: &Actor) -> Result<(), ProposeError> {
        // Evaluations hold allocations and jobs hold evaluations, so one pass can free what the next one drops.
        for _ in 0..3 {
            let commands = gc::collect(&self.view(), &cutoffs, self.now(), self.config.job_tracked_versions);
            if commands.is_empty() {
                break;
            }
            for command in commands {
                let proposal = Proposal { actor: actor.clone(), cause: None, idempotency: None, command };
                match reign {
                    Some(reign) => self.write_under(reign, proposal).await?.0,
                    None => self.write(proposal).await?,
                };
            }
        }
        Ok(())
    }
}

fn proposal(name: &str, cause: Option<Cause>, command: impl Into<Command>) -> Proposal {
    Proposal { actor: Actor::Leader(name.into()), cause, idempotency: None, command: command.into() }
}

fn is_paused(core: &Core, view: &State) -> bool {
    view.scheduler_config().map_or(core.config.default_scheduler_config.pause_eval_broker, |config| config.pause_eval_broker)
}
