//! What would happen if a job were registered: the scheduler's decision, and nothing of it is kept. The difference between two versions
//! of a job, as text, is not made here.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{AllocMetric, EvalStatus, EvalTrigger, Evaluation, Job, PlanAnnotations, Str, Time};
use songline_projections::State;

use crate::generic::{Scheduler, Step};
use crate::seed::Seed;

/// The index that a job gets which is not there yet.
const NEW_JOB_INDEX: u64 = 100;

/// What a registration would do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DryRun {
    /// What would happen to each group's allocations.
    pub annotations: PlanAnnotations,
    /// Groups that would not be placed completely.
    pub failed: BTreeMap<Str, AllocMetric>,
    /// Allocations per group that would still wait for a node.
    pub queued: BTreeMap<Str, i64>,
    /// Evaluations that would come of it.
    pub created_evals: Vec<Evaluation>,
    /// The index to check a registration against: that of the job as it is, 0 when there is none.
    pub job_modify_index: u64,
    /// The evaluation would look again at this time, if at all.
    pub next_look: Option<Time>,
}

/// Tries `job`, which must have passed admission.
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
        create_time: now.nanos(),
        modify_time: now.nanos(),
        ..Evaluation::default()
    };
    let mut scheduler = Scheduler::new(eval, seed).with_job(job);
    let mut dry = DryRun { job_modify_index: existing.map_or(0, |job| job.job_modify_index), ..DryRun::default() };
    match scheduler.step(view, now, None) {
        Step::Submit { mut create, plan } => {
            // They were never written, so they belong to no snapshot.
            create.iter_mut().for_each(|eval| eval.snapshot_index = 0);
            dry.next_look = create.iter().filter_map(|eval| eval.wait_until).min();
            dry.created_evals = create;
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

/// How many allocations of each group would still wait when all was placed that can be: what a summary counts as queued.
pub fn queued(view: &State, job: &Arc<Job>, seed: u64, now: Time) -> BTreeMap<Str, i64> {
    dry_run(view, Job::clone(job), seed, now).queued
}

/// The job as a registration would store it, and the index it would get when that changes anything.
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
