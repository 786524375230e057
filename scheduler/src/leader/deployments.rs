//! Moves deployments on: checks the health of their allocations, asks for the next evaluation, promotes
//! canaries of groups with `auto_promote`, and fails deployments at their deadlines.
//!
//! The scheduler creates deployments and marks them successful. Manual promotion is an API call.

use std::collections::{BTreeMap, BTreeSet};

use songline_commands::{Cause, Command, Kind, PromoteDeployment, SetDesiredTransitions, UpdateDeploymentStatus};
use songline_model::{
    AllocId, Allocation, Deployment, DeploymentId, DeploymentState, DeploymentStatus, DeploymentStatusUpdate,
    DesiredTransition, Dur, EvalId, EvalStatus, EvalTrigger, Evaluation, Job, Str, Time,
};
use songline_projections::{Change, Rollback, State};
use std::sync::Arc;

/// Time for which changes of one deployment are gathered before it is checked. Longer saves log entries and slows
/// rollouts by as much.
const LOOK_WAIT: Dur = Dur::from_millis(200);

/// A decision to be proposed.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The scheduler has to run for the job, and may replace these allocations.
    Advance {
        /// The deployment.
        deployment: Arc<Deployment>,
        /// Unhealthy allocations that may be rescheduled.
        transitions: BTreeMap<AllocId, DesiredTransition>,
    },
    /// The canaries of all groups are healthy and the groups have `auto_promote`: promote them.
    Promote {
        /// The deployment.
        deployment: Arc<Deployment>,
    },
    /// The deployment has failed.
    Fail {
        /// The new status, with its description.
        update: DeploymentStatusUpdate,
        /// The failed deployment, for its evaluation.
        deployment: Arc<Deployment>,
        /// The stable job version to roll back to, if any.
        rollback: Option<Arc<Job>>,
    },
    /// The deployment of a multiregion job goes on, because of the other regions.
    Move {
        /// The new status, with its description.
        update: DeploymentStatusUpdate,
        /// The deployment, for its evaluation.
        deployment: Arc<Deployment>,
    },
}

impl Effect {
    /// The deployment that the effect is about.
    pub fn deployment(&self) -> &Deployment {
        match self {
            Self::Advance { deployment, .. }
            | Self::Promote { deployment }
            | Self::Fail { deployment, .. }
            | Self::Move { deployment, .. } => deployment,
        }
    }
}

/// Watches the active deployments.
#[derive(Debug, Default)]
pub struct Deployments {
    /// Time of the next check of each deployment.
    due: BTreeMap<DeploymentId, Time>,
}

impl Deployments {
    /// A watcher without deployments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every active deployment due at once. A new leader calls this.
    pub fn restore(&mut self, view: &State, now: Time) {
        self.due = view
            .deployments()
            .filter(|deployment| deployment.is_active())
            .map(|deployment| (deployment.id, now))
            .collect();
    }

    /// Notes the deployments that the changes concern.
    pub fn on_changes(&mut self, changes: &[Change], now: Time) {
        for change in changes {
            match change {
                Change::Deployment { after: Some(deployment), .. } if deployment.is_active() => {
                    self.look(deployment.id, now)
                }
                Change::Deployment { before: Some(deployment), .. } => {
                    self.due.remove(&deployment.id);
                }
                Change::Alloc { before, after: Some(alloc) } => {
                    let news = before.as_ref().is_none_or(|before| {
                        before.health() != alloc.health() || before.client_status != alloc.client_status
                    });
                    if let Some(id) = alloc.deployment_id.filter(|_| news) {
                        self.look(id, now);
                    }
                }
                _ => {}
            }
        }
    }

    /// Makes a deployment due now, because a decision about it was put off.
    pub fn look_again(&mut self, id: DeploymentId, now: Time) {
        self.due.insert(id, now);
    }

    /// The next time at which [`Self::on_time`] has work; `None`: no deployment is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.due.values().min().copied()
    }

    /// Checks the deployments that are due.
    pub fn on_time(&mut self, view: &State, now: Time) -> Vec<Effect> {
        let ids: BTreeSet<_> = self.due.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        let mut effects = Vec::new();
        for id in ids {
            self.due.remove(&id);
            let Some(deployment) = view.deployment(id).filter(|deployment| deployment.is_active()) else { continue };
            if let Some(deadline) = next_progress_deadline(deployment, now) {
                self.due.insert(id, deadline);
            }
            effects.extend(step(view, deployment, now));
        }
        effects
    }

    fn look(&mut self, id: DeploymentId, now: Time) {
        let soon = now.plus(LOOK_WAIT);
        let at = self.due.entry(id).or_insert(soon);
        *at = (*at).min(soon);
    }
}

/// The entry that carries an effect out, and its cause. `eval` is the id of the evaluation that follows from the
/// effect.
pub fn entry(view: &State, effect: Effect, eval: EvalId, now: Time, job_versions_max: u64) -> (Cause, Command) {
    match effect {
        Effect::Advance { deployment, transitions } => {
            let evals = evaluation(view, &deployment, eval, now).into_iter().collect();
            let cause = Cause::new(deployment.modify_index, Kind::AllocClientUpdate);
            (cause, SetDesiredTransitions { allocs: transitions, evals }.into())
        }
        Effect::Promote { deployment } => {
            let eval = evaluation(view, &deployment, eval, now);
            let cause = Cause::new(deployment.modify_index, Kind::AllocClientUpdate);
            (cause, PromoteDeployment { deployment_id: deployment.id, all: true, groups: Vec::new(), eval }.into())
        }
        Effect::Fail { update, deployment, rollback } => {
            let eval = evaluation(view, &deployment, eval, now);
            let cause = Cause::new(deployment.modify_index, Kind::DeploymentStatusUpdate);
            (cause, UpdateDeploymentStatus { update, eval, job: rollback, versions_max: job_versions_max }.into())
        }
        Effect::Move { update, deployment } => {
            let eval = evaluation(view, &deployment, eval, now);
            let cause = Cause::new(deployment.modify_index, Kind::DeploymentStatusUpdate);
            (cause, UpdateDeploymentStatus { update, eval, job: None, versions_max: job_versions_max }.into())
        }
    }
}

/// The evaluation that follows from a step of a deployment.
pub fn evaluation(view: &State, deployment: &Deployment, id: EvalId, now: Time) -> Option<Evaluation> {
    let job = view.job(&deployment.namespace, &deployment.job_id)?;
    let priority = if deployment.eval_priority > 0 { deployment.eval_priority } else { job.priority };
    Some(Evaluation {
        id,
        namespace: deployment.namespace.clone(),
        priority,
        kind: job.kind.clone(),
        triggered_by: EvalTrigger::DeploymentWatcher,
        job_id: job.id.clone(),
        deployment_id: Some(deployment.id),
        status: EvalStatus::Pending,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    })
}

fn step(view: &State, deployment: &Arc<Deployment>, now: Time) -> Vec<Effect> {
    let Some(groups) = deployment.task_groups.as_ref().filter(|_| deployment.status != DeploymentStatus::Paused) else {
        return Vec::new();
    };
    let failure = missed_deadlines(view, deployment, groups, now).or_else(|| failed_allocs(view, deployment, now));
    if let Some(Failure { base, reverts }) = failure {
        return vec![fail(view, deployment, base, reverts)];
    }
    let latest = latest_eval_index(view, deployment);
    let (mut advance, mut transitions) = (false, BTreeMap::new());
    for alloc in of_groups(view, deployment).map(|(alloc, _)| alloc) {
        match alloc.health() {
            Some(false) if !alloc.desired_transition.should_reschedule() && !alloc.server_terminal() => {
                transitions
                    .insert(alloc.id, DesiredTransition { reschedule: Some(true), ..DesiredTransition::default() });
            }
            Some(true) => {
                advance |= alloc.deployment_status.as_ref().is_some_and(|status| status.modify_index > latest)
            }
            Some(false) | None => {}
        }
    }
    let mut effects = Vec::new();
    if promotes_itself(view, deployment) {
        effects.push(Effect::Promote { deployment: Arc::clone(deployment) });
        // A promotion brings its own evaluation, so none is asked for.
        advance = false;
    }
    if advance || !transitions.is_empty() {
        effects.push(Effect::Advance { deployment: Arc::clone(deployment), transitions });
    }
    effects
}

/// The allocations of the deployment, each with the state of its group. Allocations of other groups do not count.
fn of_groups<'v>(
    view: &'v State,
    deployment: &'v Deployment,
) -> impl Iterator<Item = (&'v Arc<Allocation>, &'v DeploymentState)> {
    let groups = deployment.task_groups.as_ref();
    view.allocs_of_deployment(deployment.id).filter_map(move |alloc| Some((alloc, groups?.get(&alloc.task_group)?)))
}

/// Why a deployment fails, and whether one of the failing groups reverts the job then.
struct Failure {
    base: &'static str,
    reverts: bool,
}

impl Failure {
    /// The failure of these groups, each with whether it reverts the job. `None` without groups.
    fn of(base: &'static str, groups: impl Iterator<Item = bool>) -> Option<Self> {
        groups.reduce(|reverts, also| reverts || also).map(|reverts| Self { base, reverts })
    }
}

/// The groups that lack health once a progress deadline has passed. The earliest deadline of the groups that are not
/// done counts for all groups. The job's groups of today say whether they revert.
fn missed_deadlines(
    view: &State,
    deployment: &Deployment,
    groups: &BTreeMap<Str, DeploymentState>,
    now: Time,
) -> Option<Failure> {
    let job = view.job(&deployment.namespace, &deployment.job_id)?;
    let passed = progress_deadlines(deployment).min().filter(|by| *by <= now)?;
    let missed = groups.iter().filter(|(_, group)| lacks_health(group) && is_out_of_time(group, passed, now));
    Failure::of("Failed due to progress deadline", missed.map(|(name, _)| job.group(name).is_some_and(auto_revert)))
}

/// The groups with an unhealthy allocation that may not be rescheduled.
fn failed_allocs(view: &State, deployment: &Deployment, now: Time) -> Option<Failure> {
    let failing = of_groups(view, deployment).filter(|(alloc, group)| {
        let gives_up = || group.progress_deadline == Dur::ZERO || !crate::reschedule::may_reschedule(alloc, now);
        alloc.health() == Some(false) && gives_up()
    });
    Failure::of("Failed due to unhealthy allocations", failing.map(|(_, group)| group.auto_revert))
}

/// Whether the canaries are promoted automatically: all groups together or none, because they are one version. Every
/// group with canaries needs `auto_promote` and exactly its desired number of healthy canaries.
fn promotes_itself(view: &State, deployment: &Deployment) -> bool {
    let is_well = |id: &&AllocId| view.alloc(**id).is_some_and(|alloc| alloc.health() == Some(true));
    let is_ready = |group: &DeploymentState| {
        let placed = group.placed_canaries.as_deref().unwrap_or_default();
        let healthy = i64::try_from(placed.iter().filter(is_well).count()).unwrap_or(i64::MAX);
        group.auto_promote && healthy == group.desired_canaries
    };
    let mut groups =
        deployment.task_groups.iter().flatten().map(|(_, group)| group).filter(|group| group.desired_canaries > 0);
    deployment.status == DeploymentStatus::Running && deployment.requires_promotion() && groups.all(is_ready)
}

/// Fails a deployment with the description `base`; with `revert` the job goes back to its stable version.
pub(super) fn fail(view: &State, deployment: &Arc<Deployment>, base: &str, revert: bool) -> Effect {
    let (rollback, description) = Rollback::outcome(revert.then(|| view.rollback(deployment)), base);
    let update = DeploymentStatusUpdate {
        deployment_id: deployment.id,
        status: DeploymentStatus::Failed,
        status_description: description.into(),
    };
    Effect::Fail { update, deployment: Arc::clone(deployment), rollback }
}

fn auto_revert(group: &songline_model::TaskGroup) -> bool {
    group.update.as_ref().is_some_and(|update| update.auto_revert)
}

/// Whether a group is done: as many healthy allocations as it wants, and no canary waits for promotion.
fn is_done(group: &DeploymentState) -> bool {
    (group.desired_canaries == 0 || group.promoted) && group.healthy_allocs >= group.desired_total
}

/// Whether a group has fewer healthy allocations than it needs by its progress deadline. A group that waits for its
/// promotion needs its canaries only.
fn lacks_health(group: &DeploymentState) -> bool {
    let waits_for_promotion = group.desired_canaries > 0 && !group.promoted;
    let wanted = if waits_for_promotion { group.desired_canaries } else { group.desired_total };
    group.healthy_allocs < wanted
}

/// Whether the deadline `passed`, of this or of another group, ends the time of this group. A group that was promoted
/// or had a newly healthy allocation after `passed` has time until its own deadline. Otherwise the deadline of a group
/// that waits for its promotion, which stays in the past, would fail a group that is promoted first.
fn is_out_of_time(group: &DeploymentState, passed: Time, now: Time) -> bool {
    group.require_progress_by.is_none_or(|by| by <= now || by.since(passed) <= group.progress_deadline)
}

/// The progress deadlines of the groups that are not done.
fn progress_deadlines(deployment: &Deployment) -> impl Iterator<Item = Time> {
    let groups = deployment.task_groups.iter().flatten().map(|(_, group)| group);
    groups.filter(|group| !is_done(group)).filter_map(|group| group.require_progress_by)
}

/// The next time at which a group that is not done may miss its deadline. Groups whose deadline has passed are left
/// out: they wait for their promotion.
fn next_progress_deadline(deployment: &Deployment, now: Time) -> Option<Time> {
    progress_deadlines(deployment).filter(|by| *by > now).min()
}

/// Latest snapshot index (or else create index) of the job's evaluations that were not canceled: an evaluation has seen
/// all health changes up to that index.
fn latest_eval_index(view: &State, deployment: &Deployment) -> u64 {
    let evals = view.evals_of_job(&deployment.namespace, &deployment.job_id);
    evals
        .filter(|eval| eval.status != EvalStatus::Canceled)
        .map(|eval| if eval.snapshot_index > 0 { eval.snapshot_index } else { eval.create_index })
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
