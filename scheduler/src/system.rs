//! The scheduler of system and sysbatch jobs: one allocation per group on every ready node of the job's pool and
//! datacenters. An allocation never moves to another node: when its node is lost or drains, it only ends.

mod diff;
mod place;

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{
    AllocMetric, Allocation, DesiredUpdates, EvalStatus, EvalTrigger, Evaluation, Job, JobType, Node, NodeId,
    PlanAnnotations, Str, TaskGroup, Time,
};
use songline_projections::State;

use crate::attempts::{Decision, WaitsFor, blocked_eval};
use crate::generic::stack::Stack;
use crate::generic::tasks_updated;
use crate::generic::update::in_place;
use crate::planning;
use crate::reconcile::{self, Stop, why};
use crate::seed::Seed;
use diff::{Diff, Scope, Wanted};

/// Branches of the attempt's seed: ports, ids.
const SEED_OF_NODES: u64 = 1;
const SEED_OF_IDS: u64 = 2;

/// One attempt: compares the job with its allocations in `view`, node by node.
pub(crate) fn run(view: &State, job: Option<&Arc<Job>>, eval: &Evaluation, seed: &Seed, now: Time) -> Decision {
    let live = job.filter(|job| !job.stop);
    let allocs: Vec<Arc<Allocation>> = view.allocs_of_job(&eval.namespace, &eval.job_id).cloned().collect();
    let tainted = reconcile::tainted(&allocs, |id| view.node(id));
    let mut stack = live.map(|job| Stack::new(view, job, seed.branch(SEED_OF_NODES)));
    let ready: BTreeMap<NodeId, Arc<Node>> =
        stack.iter_mut().flat_map(|stack| stack.ready_nodes()).map(|node| (node.id, node.clone())).collect();
    let mut attempt = Attempt {
        eval,
        job,
        stack,
        decision: Decision { plan: planning::plan(view, job, eval), ..Decision::default() },
        desired: BTreeMap::new(),
        replaced: allocs.iter().filter(|alloc| is_replacement(alloc, eval)).count(),
        filtered: BTreeMap::new(),
        waiting: BTreeMap::new(),
        now,
        seed: seed.branch(SEED_OF_IDS),
    };
    for stop in planning::unreachable(&allocs, &tainted) {
        attempt.stop(&stop);
    }
    let sysbatch = job.map_or(&eval.kind, |job| &job.kind) == &JobType::SysBatch;
    let found = Scope { view, job: live, sysbatch, ready: &ready, tainted: &tainted, now }.diff(&allocs);
    attempt.carry_out(found, &ready);
    attempt.finish()
}

struct Attempt<'a> {
    eval: &'a Evaluation,
    job: Option<&'a Arc<Job>>,
    /// `None`: the job is stopped or purged, so nothing is placed.
    stack: Option<Stack<'a>>,
    decision: Decision,
    desired: BTreeMap<Str, DesiredUpdates>,
    /// Number of replacements that earlier attempts of this evaluation placed.
    replaced: usize,
    /// Per group, the sum of the metrics of the nodes that may not run it.
    filtered: BTreeMap<Str, AllocMetric>,
    /// Nodes without room, each with the groups that wait for it.
    waiting: BTreeMap<NodeId, BTreeMap<Str, AllocMetric>>,
    now: Time,
    seed: Seed,
}

impl Attempt<'_> {
    fn carry_out(&mut self, found: Diff, ready: &BTreeMap<NodeId, Arc<Node>>) {
        for alloc in &found.ignored {
            self.desired_of(alloc).ignore += 1;
        }
        for alloc in &found.stop {
            self.desired_of(alloc).stop += 1;
            self.end(alloc, why::NOT_NEEDED);
        }
        for alloc in &found.migrate {
            self.desired_of(alloc).migrate += 1;
            self.end(alloc, why::TAINTED);
        }
        for alloc in &found.lost {
            self.stop(&planning::lost(alloc));
        }
        for alloc in &found.disconnecting {
            planning::write(&mut self.decision.plan, reconcile::unknown(alloc, self.now), self.now);
        }
        let Some(job) = self.job else { return };
        let mut wanted = found.place;
        for wanted in &wanted {
            self.desired.entry(wanted.group.clone()).or_default().place += 1;
        }
        let replaced = self.update_in_place(job, found.update, found.reconnecting, ready);
        wanted.extend(self.replace(job, replaced, ready));
        if wanted.is_empty() {
            self.decision.queued.extend(job.groups().map(|group| (group.name.clone(), 0)));
        }
        for wanted in &wanted {
            *self.decision.queued.entry(wanted.group.clone()).or_insert(0) += 1;
        }
        for wanted in wanted {
            self.place(job, wanted);
        }
    }

    /// Writes the allocations that can go on without a restart. Returns those that have to be replaced.
    fn update_in_place(
        &mut self,
        job: &Job,
        changed: Vec<Arc<Allocation>>,
        reconnecting: Vec<Allocation>,
        ready: &BTreeMap<NodeId, Arc<Node>>,
    ) -> Vec<Arc<Allocation>> {
        let mut replaced = Vec::new();
        let rows = changed.into_iter().map(|alloc| (alloc, false));
        for (alloc, came_back) in rows.chain(reconnecting.into_iter().map(|row| (Arc::new(row), true))) {
            let Some(group) = job.group(&alloc.task_group) else { continue };
            // A node that is not ready takes no other version, so an allocation that came back there goes on as it is.
            if came_back && !alloc.node_id.is_some_and(|node| ready.contains_key(&node)) {
                planning::write(&mut self.decision.plan, Allocation::clone(&alloc), self.now);
                continue;
            }
            let restarts = Self::restarts(job, group, &alloc);
            // An allocation that has ended need not be told about the new version, and needs no room for it.
            if alloc.terminal() && !restarts {
                self.desired_of(&alloc).in_place_update += 1;
                continue;
            }
            let row = if restarts { None } else { self.updated(group, &alloc) };
            match row {
                Some(row) => {
                    self.desired_of(&alloc).in_place_update += 1;
                    planning::write(&mut self.decision.plan, row, self.now);
                }
                None => {
                    self.desired_of(&alloc).destructive_update += 1;
                    replaced.push(alloc);
                }
            }
        }
        replaced
    }

    /// Whether the tasks of an allocation have to start anew under the new version of its group.
    fn restarts(job: &Job, group: &TaskGroup, alloc: &Allocation) -> bool {
        alloc.job.as_ref().is_none_or(|own| tasks_updated(own, job, &group.name))
    }

    /// The row of an allocation under the new version of its group; `None`: there is no room for it on its node.
    fn updated(&mut self, group: &TaskGroup, alloc: &Allocation) -> Option<Allocation> {
        let metrics = Some(Arc::new(AllocMetric { nodes_evaluated: 1, ..AllocMetric::default() }));
        in_place(alloc, group, self.stack.as_mut()?, self.eval.id).map(|row| Allocation { metrics, ..row })
    }

    /// Stops allocations of an older version, as many as a rolling update allows. Returns their replacements.
    fn replace(
        &mut self,
        job: &Job,
        replaced: Vec<Arc<Allocation>>,
        ready: &BTreeMap<NodeId, Arc<Node>>,
    ) -> Vec<Wanted> {
        let rolls = job.update.stagger.nanos() > 0 && job.update.max_parallel > 0;
        let parallel = if rolls { usize::try_from(job.update.max_parallel).unwrap_or(usize::MAX) } else { usize::MAX };
        let limit = parallel.saturating_sub(self.replaced);
        if replaced.len() > limit {
            self.decision.rolling = Some(self.rolling(job));
        }
        let mut wanted = Vec::new();
        for alloc in replaced.into_iter().take(limit) {
            let Some(node) = alloc.node_id.and_then(|id| ready.get(&id)) else { continue };
            self.end(&alloc, why::UPDATING);
            wanted.push(Wanted {
                node: node.clone(),
                group: alloc.task_group.clone(),
                name: alloc.name.clone(),
                previous: Some(alloc),
                replaces: true,
            });
        }
        wanted
    }

    /// The evaluation that updates the next allocations after the update's stagger.
    fn rolling(&mut self, job: &Job) -> Evaluation {
        Evaluation {
            id: self.seed.eval_id(),
            namespace: self.eval.namespace.clone(),
            priority: self.eval.priority,
            kind: self.eval.kind.clone(),
            triggered_by: EvalTrigger::RollingUpdate,
            job_id: self.eval.job_id.clone(),
            job_modify_index: self.eval.job_modify_index,
            status: EvalStatus::Pending,
            wait: job.update.stagger,
            previous_eval: Some(self.eval.id),
            create_time: self.now,
            modify_time: self.now,
            ..Evaluation::default()
        }
    }

    fn desired_of(&mut self, alloc: &Allocation) -> &mut DesiredUpdates {
        self.desired.entry(alloc.task_group.clone()).or_default()
    }

    fn end(&mut self, alloc: &Arc<Allocation>, description: &'static str) {
        self.stop(&Stop { alloc: alloc.clone(), description, client_status: None, followup: None });
    }

    fn stop(&mut self, stop: &Stop) {
        if let Some(stack) = self.stack.as_mut() {
            stack.stop(&stop.alloc);
        }
        planning::stop(&mut self.decision.plan, stop, self.now);
    }

    fn finish(mut self) -> Decision {
        let classes = match &self.stack {
            Some(stack) => stack.class_eligibility(),
            None => Some(BTreeMap::new()),
        };
        self.decision.note_quota(self.stack.as_ref().map(Stack::quota_name).unwrap_or_default());
        for (node, failed) in &self.waiting {
            let trigger = EvalTrigger::QueuedAllocs;
            let quota = self.decision.quota_limit_reached.clone();
            let waits_for = WaitsFor { failed, classes: classes.as_ref(), quota };
            let mut blocked = blocked_eval(self.eval, waits_for, &mut self.seed, self.now, trigger);
            blocked.node_id = Some(*node);
            self.decision.blocked.push(blocked);
        }
        self.decision.class_eligibility = classes;
        if self.eval.annotate_plan {
            self.decision.plan.annotations = Some(PlanAnnotations { desired_tg_updates: self.desired });
        }
        self.decision
    }
}

/// Whether an earlier attempt of `eval` placed this allocation in exchange for another. An update in place takes the
/// id of its evaluation too, but only of a later one.
fn is_replacement(alloc: &Allocation, eval: &Evaluation) -> bool {
    let placed = alloc.eval_id == Some(eval.id) && alloc.create_index > eval.create_index;
    placed && alloc.previous_allocation.is_some()
}

#[cfg(test)]
mod tests;
