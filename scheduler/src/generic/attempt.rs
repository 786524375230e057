//! One attempt: reconciles the job with its allocations, then finds nodes for the new ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    AllocDeploymentStatus, AllocMetric, Allocation, Deployment, DeploymentId, Evaluation, Job, JobType, NodeId,
    PlanAnnotations, Str, TaskGroup, Time,
};
use songline_projections::State;

use super::older::{Older, Version};
use super::stack::{Options, Selected, Stack};
use super::tasks_updated;
use super::update::in_place;
use crate::attempts::Decision;
use crate::planning;
use crate::rank::exhaust_resources;
use crate::reconcile::{self, Placement, Reconciled, Reconciler, Stop, Update};
use crate::reschedule;
use crate::seed::Seed;

/// Branches of the attempt's seed: order of the nodes, ids.
const SEED_OF_NODES: u64 = 1;
const SEED_OF_IDS: u64 = 2;

/// One attempt: compares the job with its allocations in `view`.
pub(crate) fn run(view: &State, job: Option<&Arc<Job>>, eval: &Evaluation, seed: &Seed, now: Time) -> Decision {
    let live = job.filter(|job| !job.stop);
    let batch = matches!(eval.kind, JobType::Batch | JobType::SysBatch);
    // Only service jobs have deployments; the reconciler gets none for other jobs.
    let deployment = if batch { None } else { view.latest_deployment(&eval.namespace, &eval.job_id) };
    let allocs: Vec<Arc<Allocation>> = view.allocs_of_job(&eval.namespace, &eval.job_id).cloned().collect();
    let tainted = reconcile::tainted(&allocs, |id| view.node(id));
    let stack = live.map(|job| Stack::new(view, job, seed.branch(SEED_OF_NODES)));
    let versions = if deployment.is_some() { view.job_versions(&eval.namespace, &eval.job_id) } else { Vec::new() };
    let mut attempt = Attempt {
        eval,
        job,
        stack,
        older: Older::new(view, &versions, seed),
        deployment: None,
        decision: Decision { plan: planning::plan(view, job, eval), ..Decision::default() },
        failed_versions: BTreeSet::new(),
        now,
        seed: seed.branch(SEED_OF_IDS),
    };
    for stop in planning::unreachable(&allocs, &tainted) {
        attempt.stop(&stop);
    }
    let reconciler = Reconciler {
        job,
        eval,
        batch,
        deployment: deployment.map(Arc::as_ref),
        allocs,
        tainted: &tainted,
        // All servers of Songline support disconnected clients.
        disconnects: true,
        now,
    };
    let found = attempt.reconcile(reconciler);
    attempt.carry_out(found, deployment.map(Arc::as_ref));
    attempt.finish()
}

struct Attempt<'a> {
    eval: &'a Evaluation,
    job: Option<&'a Arc<Job>>,
    /// `None`: the job is stopped or purged, so nothing is placed.
    stack: Option<Stack<'a>>,
    older: Older<'a>,
    /// The deployment of new allocations; `None` without one, or when this plan ends it.
    deployment: Option<Deployment>,
    decision: Decision,
    /// Groups without a node for an allocation, by the version of the job.
    failed_versions: BTreeSet<(Str, u64)>,
    now: Time,
    seed: Seed,
}

impl<'a> Attempt<'a> {
    fn reconcile(&mut self, reconciler: Reconciler<'_>) -> Reconciled {
        let (job, stack, eval) = (self.job, &mut self.stack, self.eval);
        let mut update_of = |alloc: &Arc<Allocation>, group: &TaskGroup| match (job, stack.as_mut()) {
            (Some(job), Some(stack)) => update_of(alloc, job, group, stack, eval),
            _ => Update::Ignore,
        };
        reconciler.run(&mut update_of, &mut self.seed)
    }

    fn carry_out(&mut self, mut found: Reconciled, latest: Option<&Deployment>) {
        let ended: BTreeSet<_> = found
            .deployment_updates
            .iter()
            .filter(|update| !update.status.is_active())
            .map(|u| u.deployment_id)
            .collect();
        // A deployment that this plan ends takes no more allocations.
        let current = found.deployment.as_ref().or_else(|| latest.filter(|latest| !ended.contains(&latest.id)));
        self.decision.deployment_id = current.or(latest).map(|deployment| deployment.id);
        self.deployment = current.cloned();
        for stop in &found.stop {
            self.stop(stop);
        }
        let rows = [&mut found.disconnect_updates, &mut found.reconnect_updates, &mut found.attribute_updates];
        for row in rows.into_iter().flat_map(std::mem::take).map(|(_, row)| row) {
            self.write(row);
        }
        for mut row in std::mem::take(&mut found.in_place) {
            let of = self.deployment.as_ref().map(|deployment| deployment.id);
            if row.deployment_id != of {
                row.deployment_id = of;
                row.deployment_status = None;
            }
            if let Some(stack) = self.stack.as_mut() {
                stack.keep(&row);
            }
            self.write(row);
        }
        let plan = &mut self.decision.plan;
        plan.deployment = found.deployment.take();
        plan.deployment_updates = std::mem::take(&mut found.deployment_updates);
        if self.eval.annotate_plan {
            plan.annotations = Some(PlanAnnotations { desired_tg_updates: std::mem::take(&mut found.desired) });
        }
        self.decision.followups = std::mem::take(&mut found.followups);

        let Some(job) = self.job else { return };
        if found.place.is_empty() && found.destructive.is_empty() {
            self.decision.queued = job.groups().map(|group| (group.name.clone(), 0)).collect();
            return;
        }
        // Destructive updates come before other placements: they need the room that they free themselves.
        let mut names = found.names;
        for placement in found.destructive.into_iter().chain(found.place) {
            *self.decision.queued.entry(placement.group.clone()).or_insert(0) += 1;
            let Some(group) = job.group(&placement.group) else { continue };
            self.place(job, group, placement, &mut names);
        }
    }

    fn place(
        &mut self,
        job: &'a Arc<Job>,
        group: &'a TaskGroup,
        placement: Placement,
        names: &mut BTreeMap<Str, reconcile::NameIndex>,
    ) {
        let current = Version { job, deployment_id: self.active_deployment() };
        let older = placement.older.and_then(|least| self.older.version(job, &group.name, least));
        let version = older.unwrap_or(current);
        let group = version.job.group(&group.name).unwrap_or(group);
        if self.has_failed(&version, group) {
            return;
        }
        let mut selected = match self.select(&version, group, &placement) {
            Ok(selected) => selected,
            Err(metric) => return self.fail(&version, group, *metric),
        };
        if let (Some(previous), Some(description)) = (&placement.previous, placement.stop_previous) {
            // The client status stays as the node reported it.
            let client_status = None;
            self.plan_stop(&Stop { alloc: previous.clone(), description, client_status, followup: None });
        }
        let name = match names.get_mut(&group.name) {
            // A canary and the allocation that it will replace have the same name.
            Some(names) if !placement.canary && placement.older.is_none() => {
                names.unique(&placement.name, number_of(&placement.name))
            }
            Some(_) | None => placement.name.clone(),
        };
        let victims = std::mem::take(&mut selected.victims);
        let mut alloc = self.new_alloc(&version, group, &placement, name, selected);
        planning::preempt(&mut self.decision.plan, &mut alloc, &victims, self.now);
        self.decision.placed.insert(alloc.id, group.name.clone());
        self.write(alloc);
    }

    /// Whether a node was searched in vain for an allocation of this group and version, which then counts in the metric
    /// of that search.
    fn has_failed(&mut self, version: &Version<'_>, group: &TaskGroup) -> bool {
        let failed = self.failed_versions.contains(&(group.name.clone(), version.job.version));
        if failed && let Some(metric) = self.decision.failed.get_mut(&group.name) {
            metric.coalesced_failures += 1;
            exhaust_resources(metric, group);
        }
        failed
    }

    /// Notes that no node was found. The metric of the group's first search is kept.
    fn fail(&mut self, version: &Version<'_>, group: &TaskGroup, mut metric: AllocMetric) {
        self.failed_versions.insert((group.name.clone(), version.job.version));
        match self.decision.failed.get_mut(&group.name) {
            Some(first) => {
                first.coalesced_failures += 1;
                exhaust_resources(first, group);
            }
            None => {
                exhaust_resources(&mut metric, group);
                self.decision.failed.insert(group.name.clone(), metric);
            }
        }
    }

    /// Finds a node in the room that the plan leaves, which the replaced allocation gives up, and takes its room.
    fn select(
        &mut self,
        version: &Version<'a>,
        group: &TaskGroup,
        placement: &Placement,
    ) -> Result<Selected, Box<AllocMetric>> {
        let Some(current) = self.stack.as_mut() else { return Err(Box::default()) };
        let is_current = self.job.is_some_and(|job| Arc::ptr_eq(job, version.job));
        if is_current {
            select(current, group, placement)
        } else {
            self.older.with_stack(version.job, current, |stack| select(stack, group, placement))
        }
    }

    fn active_deployment(&self) -> Option<DeploymentId> {
        self.deployment.as_ref().filter(|deployment| deployment.is_active()).map(|deployment| deployment.id)
    }

    fn new_alloc(
        &mut self,
        version: &Version<'_>,
        group: &TaskGroup,
        placement: &Placement,
        name: Str,
        selected: Selected,
    ) -> Allocation {
        let previous = placement.previous.as_deref();
        let tracker = previous.filter(|_| placement.rescheduling).map(|previous| {
            let policy = reschedule::policy(previous);
            Arc::new(reschedule::next_tracker(previous, policy, self.now))
        });
        let new = planning::New { id: self.seed.alloc_id(), group: group.name.clone(), name, previous };
        Allocation {
            // Left out by `planning::write` when it is the plan's job, which is attached when the plan is applied.
            job: Some(version.job.clone()),
            deployment_id: version.deployment_id,
            deployment_status: placement
                .canary
                .then(|| Arc::new(AllocDeploymentStatus { canary: true, ..AllocDeploymentStatus::default() })),
            reschedule_tracker: tracker,
            ..planning::new_alloc(new, version.job, self.eval, selected, self.now)
        }
    }

    fn stop(&mut self, stop: &Stop) {
        if let Some(stack) = self.stack.as_mut() {
            stack.stop(&stop.alloc);
        }
        self.plan_stop(stop);
    }

    fn plan_stop(&mut self, stop: &Stop) {
        planning::stop(&mut self.decision.plan, stop, self.now);
    }

    fn write(&mut self, alloc: Allocation) {
        planning::write(&mut self.decision.plan, alloc, self.now);
    }

    fn finish(mut self) -> Decision {
        self.decision.note_quota(self.stack.as_ref().map(Stack::quota_name).unwrap_or_default());
        let mut escaped = false;
        for found in self.stack.iter().map(|stack| &stack.eligibility).chain(self.older.eligibilities()) {
            escaped |= found.has_escaped();
            for (class, eligible) in found.classes() {
                *self.decision.classes.entry(class).or_insert(false) |= eligible;
            }
        }
        self.decision.class_eligibility = (!escaped).then(|| self.decision.classes.clone());
        self.decision
    }
}

/// Finds a node for a placement. The room of the replaced allocation counts as free, and stays so if a node is found.
fn select(stack: &mut Stack<'_>, group: &TaskGroup, placement: &Placement) -> Result<Selected, Box<AllocMetric>> {
    let previous = placement.previous.as_ref();
    let gives_way = previous.filter(|_| placement.stop_previous.is_some());
    if let Some(previous) = gives_way {
        stack.stop(previous);
    }
    let penalties = previous.map(|previous| reschedule::penalty_nodes(previous)).unwrap_or_default();
    let preferred = kept_disk(group, previous.map(|alloc| &**alloc));
    let mut options = Options { name: &placement.name, penalties: &penalties, preferred, preempt: false };
    let mut selected = stack.select(group, &options);
    // Allocations give way only when no node has free room, and that is of use only if a node lacks nothing else.
    if selected.as_ref().is_err_and(|metric| metric.nodes_exhausted > 0) && stack.preempts {
        options.preempt = true;
        selected = stack.select(group, &options);
    }
    match (&selected, gives_way) {
        (Ok(selected), _) => stack.place(group, selected),
        (Err(_), Some(previous)) => stack.resume(previous),
        (Err(_), None) => {}
    }
    selected
}

/// Update that an allocation needs to run its group of the new job.
fn update_of(
    alloc: &Arc<Allocation>,
    job: &Arc<Job>,
    group: &TaskGroup,
    stack: &mut Stack<'_>,
    eval: &Evaluation,
) -> Update {
    let Some(own) = &alloc.job else { return Update::Destructive };
    if own.job_modify_index == job.job_modify_index {
        return Update::Ignore;
    }
    if tasks_updated(own, job, &group.name) {
        return Update::Destructive;
    }
    if alloc.terminal() {
        return Update::Ignore;
    }
    match in_place(alloc, group, stack, eval.id) {
        Some(changed) => Update::InPlace(Box::new(changed)),
        None => Update::Destructive,
    }
}

/// Node of the previous allocation, if the group wants its disk there again.
fn kept_disk(group: &TaskGroup, previous: Option<&Allocation>) -> Option<NodeId> {
    let keeps = group.ephemeral_disk.as_ref().is_some_and(|disk| disk.sticky || disk.migrate);
    previous.filter(|_| keeps)?.node_id
}

/// The number in the brackets of an allocation's name.
fn number_of(name: &str) -> u64 {
    let inside = name.rsplit_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
    inside.and_then(|number| number.parse().ok()).unwrap_or(0)
}
