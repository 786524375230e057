//! Empties draining nodes: migrates their allocations group by group as far as the migrate blocks allow, and ends the
//! drains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_commands::{FinishNodeDrains, SetDesiredTransitions};
use songline_model::{
    AllocId, Allocation, DesiredTransition, DrainStrategy, Dur, EvalId, EvalStatus, EvalTrigger, Evaluation, Job,
    JobKey, JobType, NodeEvent, NodeId, Str, Time,
};
use songline_projections::{Change, State};

/// Time for which changes of allocations are gathered before the drains are checked.
const LOOK_WAIT: Dur = Dur::from_millis(200);

/// A decision to be proposed.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// These allocations have to migrate; one evaluation per job.
    Migrate {
        /// The allocations, each with its transition.
        allocs: BTreeMap<AllocId, DesiredTransition>,
        /// The jobs of these allocations.
        jobs: BTreeSet<JobKey>,
        /// The draining nodes that the decision was made on.
        nodes: BTreeSet<NodeId>,
    },
    /// The drain of a node is complete: every allocation that has to leave the node is marked in the tables.
    Complete {
        /// The node.
        node: NodeId,
        /// Event for the node's history.
        event: NodeEvent,
    },
}

/// Watches the draining nodes.
#[derive(Debug, Default)]
pub struct Drains {
    draining: BTreeSet<NodeId>,
    look_at: Option<Time>,
}

impl Drains {
    /// A watcher without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every draining node due at once. A new leader calls this.
    pub fn restore(&mut self, view: &State, now: Time) {
        self.draining = view.nodes().filter(|node| node.drain_strategy.is_some()).map(|node| node.id).collect();
        self.look_at = (!self.draining.is_empty()).then_some(now);
    }

    /// Notes changes that concern draining nodes.
    pub fn on_changes(&mut self, changes: &[Change], now: Time) {
        for change in changes {
            match change {
                Change::Node { after: Some(node), .. } if node.drain_strategy.is_some() => {
                    self.draining.insert(node.id);
                    // A later check may be due already: that of another drain's deadline, or of one that was cancelled.
                    self.look_again(now);
                }
                Change::Node { before: Some(node), .. } => {
                    self.draining.remove(&node.id);
                }
                Change::Alloc { .. } if !self.draining.is_empty() => {
                    let soon = now.plus(LOOK_WAIT);
                    self.look_at = Some(self.look_at.map_or(soon, |at| at.min(soon)));
                }
                _ => {}
            }
        }
    }

    /// Makes all drains due now, because a decision about them was put off.
    pub fn look_again(&mut self, now: Time) {
        self.look_at = Some(now);
    }

    /// The next time at which [`Self::on_time`] has work; `None`: no check is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.look_at
    }

    /// Checks all draining nodes, if a check is due.
    pub fn on_time(&mut self, view: &State, now: Time) -> Vec<Effect> {
        if self.look_at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.look_at = None;
        let nodes: Vec<_> =
            self.draining.iter().filter_map(|id| view.node(*id)).filter(|node| node.drain_strategy.is_some()).collect();
        let mut moving = Moving::default();
        let mut ended = Vec::new();
        let mut open = BTreeSet::new();
        for node in nodes {
            let Some(strategy) = &node.drain_strategy else { continue };
            let forced = strategy.deadline < Dur::ZERO || strategy.force_deadline.is_some_and(|at| at <= now);
            let done = leaving_first(view, node.id).all(|alloc| alloc.client_terminal());
            if !forced && !done {
                open.insert(node.id);
                if let Some(deadline) = strategy.force_deadline {
                    self.look_at = Some(self.look_at.map_or(deadline, |at| at.min(deadline)));
                }
                continue;
            }
            let leaving = view.allocs_of_node(node.id).filter(|alloc| !alloc.terminal());
            let marked = moving.allocs.len();
            leaving
                .filter(|alloc| !(strategy.ignore_system_jobs && is_system(alloc)))
                .for_each(|alloc| moving.add(alloc));
            // The drain ends only once the marks are written, because a node whose drain has ended is not looked at any
            // more.
            if moving.allocs.len() == marked {
                let by_deadline = forced && (!done || outlasted(view, node.id, strategy));
                ended.push(Effect::Complete { node: node.id, event: end_event(by_deadline, now) });
            }
        }
        for job in jobs_on(view, &open) {
            migrate_job(view, &job, &open, &mut moving);
        }
        moving.into_effect(&self.draining).into_iter().chain(ended).collect()
    }
}

/// The entry that marks these allocations for migration. `fresh` makes the ids of the evaluations, one per job.
pub fn migration(
    view: &State,
    allocs: BTreeMap<AllocId, DesiredTransition>,
    jobs: &BTreeSet<JobKey>,
    mut fresh: impl FnMut() -> EvalId,
    now: Time,
) -> SetDesiredTransitions {
    let jobs = jobs.iter().filter_map(|key| view.job(&key.namespace, &key.id));
    SetDesiredTransitions { allocs, evals: jobs.map(|job| evaluation(job, fresh(), now)).collect() }
}

/// The entry that ends the drain of a node.
pub fn completion(node: NodeId, event: NodeEvent, now: Time) -> FinishNodeDrains {
    FinishNodeDrains { node_ids: vec![node], event: Some(event), updated_at: now.into() }
}

/// The evaluation that migrates the allocations of a job. It names no job version, because none was written.
pub fn evaluation(job: &Job, id: EvalId, now: Time) -> Evaluation {
    Evaluation {
        id,
        namespace: job.namespace.clone(),
        priority: job.priority,
        kind: job.kind.clone(),
        triggered_by: EvalTrigger::NodeDrain,
        job_id: job.id.clone(),
        status: EvalStatus::Pending,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    }
}

#[derive(Default)]
struct Moving {
    allocs: BTreeMap<AllocId, DesiredTransition>,
    jobs: BTreeSet<JobKey>,
}

impl Moving {
    fn add(&mut self, alloc: &Allocation) {
        if alloc.desired_transition.should_migrate() {
            return;
        }
        self.allocs.insert(alloc.id, DesiredTransition { migrate: Some(true), ..DesiredTransition::default() });
        self.jobs.insert(alloc.job_key());
    }

    fn into_effect(self, draining: &BTreeSet<NodeId>) -> Option<Effect> {
        let Self { allocs, jobs } = self;
        (!allocs.is_empty()).then(|| Effect::Migrate { allocs, jobs, nodes: draining.clone() })
    }
}

fn is_system(alloc: &Allocation) -> bool {
    alloc.job.as_ref().is_some_and(|job| job.kind == JobType::System)
}

/// Whether an allocation stays on a draining node until the others have ended. Those may need the CSI plugin to unmount
/// their volumes.
fn stays_longest(alloc: &Allocation) -> bool {
    is_system(alloc) || alloc.job.as_ref().is_some_and(|job| !job.csi_plugins().is_empty())
}

/// The allocations that a node has to be rid of before its drain is done.
fn leaving_first(view: &State, node: NodeId) -> impl Iterator<Item = &Arc<Allocation>> {
    view.allocs_of_node(node).filter(|alloc| !stays_longest(alloc))
}

/// Whether allocations of a node ran on when its drain was to end, so that the drain stopped them.
fn outlasted(view: &State, node: NodeId, strategy: &DrainStrategy) -> bool {
    let end = if strategy.deadline < Dur::ZERO { strategy.started_at } else { strategy.force_deadline };
    let stopped = |alloc: &Arc<Allocation>| alloc.desired_transition.should_migrate();
    end.is_some_and(|end| leaving_first(view, node).any(|alloc| stopped(alloc) && alloc.modify_time >= end))
}

fn end_event(deadline_reached: bool, now: Time) -> NodeEvent {
    let details = deadline_reached.then(|| [(Str::new("deadline_reached"), Str::new("true"))].into());
    NodeEvent {
        message: "Node drain complete".into(),
        subsystem: "Drain".into(),
        details,
        timestamp: Some(now),
        create_index: 0,
    }
}

fn jobs_on(view: &State, nodes: &BTreeSet<NodeId>) -> BTreeSet<JobKey> {
    let allocs = nodes.iter().flat_map(|node| view.allocs_of_node(*node));
    allocs.filter(|alloc| !alloc.terminal() && !stays_longest(alloc)).map(|alloc| alloc.job_key()).collect()
}

/// Marks allocations of a job for migration, per group as many as its `max_parallel` allows. Live allocations whose
/// health is decided count as healthy, even unhealthy ones. Groups without a migrate block (batch jobs) run on until
/// the deadline.
fn migrate_job(view: &State, key: &JobKey, draining: &BTreeSet<NodeId>, moving: &mut Moving) {
    let Some(job) = view.job(&key.namespace, &key.id) else { return };
    for group in job.groups() {
        let Some(migrate) = &group.migrate else { continue };
        let mut healthy = 0;
        let mut drainable: Vec<&Arc<Allocation>> = Vec::new();
        for alloc in view.allocs_of_job(&key.namespace, &key.id).filter(|alloc| alloc.task_group == group.name) {
            if !alloc.terminal() && alloc.health().is_some() {
                healthy += 1;
            }
            let leaving = alloc.node_id.is_some_and(|node| draining.contains(&node));
            if leaving && !alloc.terminal() && !alloc.desired_transition.should_migrate() {
                drainable.push(alloc);
            }
        }
        let spare = healthy - (group.count - migrate.max_parallel);
        for alloc in drainable.into_iter().take(usize::try_from(spare).unwrap_or(0)) {
            moving.add(alloc);
        }
    }
}
