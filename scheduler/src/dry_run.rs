//! Dry run: the scheduler's decision for a job registration that is not written. The textual difference between two
//! versions of a job is made elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocMetric, Allocation, EvalStatus, EvalTrigger, Evaluation, Job, PlanAnnotations, Str, Time};
use songline_projections::State;

use crate::attempts::{Scheduler, Step};
use crate::seed::Seed;

/// Index that a job gets in a dry run when it does not exist yet.
const NEW_JOB_INDEX: u64 = 100;

/// Result of a dry run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DryRun {
    /// Changes to each group's allocations.
    pub annotations: PlanAnnotations,
    /// Allocations of other jobs that would be preempted, as they are now.
    pub preempted: Vec<Arc<Allocation>>,
    /// Groups that would not be placed completely.
    pub failed: BTreeMap<Str, AllocMetric>,
    /// Allocations per group that would still wait for a node.
    pub queued: BTreeMap<Str, i64>,
    /// Evaluations that the registration would create.
    pub created_evals: Vec<Evaluation>,
    /// Index to check a registration against: the job modify index of the current job, 0 without one.
    pub job_modify_index: u64,
    /// Time of the earliest follow-up evaluation, if there is one.
    pub next_look: Option<Time>,
}

/// Runs the scheduler for `job`, which must have passed admission.
pub fn dry_run(view: &State, job: Job, seed: u64, now: Time) -> DryRun {
    let existing = view.job(&job.namespace, &job.id);
    let (job, changed_index) = as_registered(existing, job);
    let eval = Evaluation {
        id: Seed::new(seed).eval_id(),
        namespace: job.namespace.clone(),
        priority: job.priority,
        kind: job.kind.clone(),
        triggered_by: EvalTrigger::JobRegister,
        job_id: job.id.clone(),
        job_modify_index: changed_index,
        status: EvalStatus::Pending,
        annotate_plan: true,
        create_time: now,
        modify_time: now,
        ..Evaluation::default()
    };
    let mut scheduler = Scheduler::new(eval, seed).with_job(job);
    let mut dry = DryRun { job_modify_index: existing.map_or(0, |job| job.job_modify_index), ..DryRun::default() };
    match scheduler.step(view, now, None) {
        Step::Submit { mut create, plan } => {
            // These evaluations are never written, so they belong to no snapshot.
            create.iter_mut().for_each(|eval| eval.snapshot_index = 0);
            dry.next_look = create.iter().filter_map(|eval| eval.wait_until).min();
            dry.created_evals = create;
            let preempted = plan.node_preemptions.values().flatten();
            dry.preempted = preempted.filter_map(|preempt| view.alloc(preempt.id)).cloned().collect();
            dry.annotations = plan.annotations.unwrap_or_default();
        }
        Step::Done { create, .. } => dry.created_evals = create,
    }
    if let Some(decision) = scheduler.decision() {
        dry.failed = decision.failed.clone();
        dry.queued = decision.queued.clone();
        for group in decision.placed.values() {
            dry.queued.entry(group.clone()).and_modify(|waiting| *waiting -= 1);
        }
    }
    dry
}

/// Number of allocations per group that stay unplaced after placing all that fit; a job summary counts them as queued.
pub fn queued(view: &State, job: &Arc<Job>, seed: u64, now: Time) -> BTreeMap<Str, i64> {
    dry_run(view, Job::clone(job), seed, now).queued
}

/// The job as a registration would store it, and its new job modify index; 0 for a new job or one that does not change.
fn as_registered(existing: Option<&Arc<Job>>, mut job: Job) -> (Arc<Job>, u64) {
    let Some(existing) = existing else {
        job.create_index = NEW_JOB_INDEX;
        job.modify_index = NEW_JOB_INDEX;
        job.job_modify_index = NEW_JOB_INDEX;
        return (Arc::new(job), 0);
    };
    if !existing.spec_changed(&job) {
        return (existing.clone(), 0);
    }
    let index = existing.job_modify_index + 1;
    job.create_index = existing.create_index;
    job.modify_index = index;
    job.job_modify_index = index;
    job.version = existing.version + 1;
    (Arc::new(job), index)
}

#[cfg(test)]
mod tests;
