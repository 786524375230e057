//! Plan results: allocs placed, stopped and preempted in one entry, with their deployment. The plan applier checks
//! before proposing that the allocs fit on their nodes; apply does not check again. Quotas are checked here, too.

use std::collections::BTreeSet;
use std::sync::Arc;

use songline_commands::ApplyPlan;
use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocDesiredStatus, AllocatedResources, Allocation, Job, JobKey,
    PreemptAlloc, StopAlloc, Time,
};

use crate::job::status::{self, After};
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Table, tables};
use crate::tx::{Stamp, Tx};
use crate::{alloc, deployment, eval, node, quota};

pub(crate) fn apply(tx: &mut Tx<'_>, cmd: &ApplyPlan) -> Result<(), Rejected> {
    for id in &cmd.ineligible_nodes {
        node::refuse_work(tx, *id, cmd.updated_at)?;
    }
    if let Some(row) = &cmd.deployment {
        deployment::upsert(tx, row.clone())?;
    }
    for update in &cmd.deployment_updates {
        // Another entry may have ended the deployment since the plan was made. Its status is final, and the plan is
        // applied anyway.
        if tx.deployment(update.deployment_id).is_some_and(|row| row.is_active()) {
            deployment::set_status(tx, update)?;
        }
    }
    if !cmd.eval_id.is_nil() {
        eval::touch(tx, cmd.eval_id)?;
    }
    let mut jobs = BTreeSet::new();
    for stop in &cmd.stopped {
        jobs.insert(stop_alloc(tx, stop)?);
    }
    let keeps_transitions = cmd.keeps_transitions;
    let mut shared = SharedParts { plan: cmd.job.as_ref(), keeps_transitions, job: None, resources: None };
    for placed in &cmd.updated {
        jobs.insert(upsert_alloc(tx, placed, &mut shared)?);
    }
    for preempt in &cmd.preempted {
        jobs.insert(preempt_alloc(tx, preempt)?);
    }
    if !(cmd.stopped.is_empty() && cmd.updated.is_empty() && cmd.preempted.is_empty()) {
        tx.bump(Table::Allocs);
    }
    status::refresh(tx, jobs, After::Anything);
    eval::upsert_rows(tx, &cmd.preemption_evals);
    quota::check(tx)
}

/// Applies to a fork what the entry would do at the next index. The fork's applied index stays, and its digests become
/// invalid.
pub fn apply_optimistically(state: &mut State, plan: &ApplyPlan, at: Time) -> Result<(), Rejected> {
    let stamp = Stamp {
        raft_index: state.raft_index() + 1,
        index: state.applied_index() + 1,
        at,
        actor: songline_commands::Actor::Anonymous,
    };
    let mut tx = Tx::new(state, stamp);
    match apply(&mut tx, plan) {
        Ok(()) => {
            quota::follow(&mut tx);
            tx.commit_to_fork();
            Ok(())
        }
        Err(rejected) => {
            tx.take_back();
            Err(rejected)
        }
    }
}

fn stop_alloc(tx: &mut Tx<'_>, stop: &StopAlloc) -> Result<JobKey, Rejected> {
    let stored = tx.alloc(stop.id).cloned().ok_or(Rejected::AllocNotFound(stop.id))?;
    let mut row = Allocation::clone(&stored);
    row.desired_status = AllocDesiredStatus::Stop;
    row.desired_description = stop.desired_description.clone();
    // Only where the servers decide for a lost or disconnected node; otherwise the node reports the client status.
    if let Some(spoken @ (AllocClientStatus::Lost | AllocClientStatus::Unknown)) = stop.client_status {
        row.client_status = spoken;
    }
    if stop.followup_eval_id.is_some() {
        row.followup_eval_id = stop.followup_eval_id;
    }
    // An empty value would end a reconnect that was not processed yet.
    if let Some(state) = stop.append_state.as_ref().filter(|state| !state.value.is_empty()) {
        row.alloc_states.get_or_insert_default().push(state.clone());
    }
    if stop.modify_time != Time::default() {
        row.modify_time = stop.modify_time;
    }
    rewrite(tx, row, &stored)
}

fn preempt_alloc(tx: &mut Tx<'_>, preempt: &PreemptAlloc) -> Result<JobKey, Rejected> {
    let stored = tx.alloc(preempt.id).cloned().ok_or(Rejected::AllocNotFound(preempt.id))?;
    let mut row = Allocation::clone(&stored);
    row.desired_status = AllocDesiredStatus::Evict;
    row.desired_description = format!("Preempted by alloc ID {}", preempt.preempted_by).into();
    row.preempted_by_allocation = Some(preempt.preempted_by);
    if preempt.modify_time != Time::default() {
        row.modify_time = preempt.modify_time;
    }
    rewrite(tx, row, &stored)
}

fn rewrite(tx: &mut Tx<'_>, mut row: Allocation, stored: &Allocation) -> Result<JobKey, Rejected> {
    row.modify_index = tx.index();
    row.alloc_modify_index = tx.index();
    let key = row.job_key();
    alloc::write(tx, row, Some(stored))?;
    Ok(key)
}

/// Context of the allocations of a plan, and the parts of which they share one copy: millions of them are kept.
struct SharedParts<'a> {
    plan: Option<&'a Arc<Job>>,
    keeps_transitions: bool,
    /// The plan's job version as stored in its own row.
    job: Option<Arc<Job>>,
    /// Resources of the allocation before. Those of a group are mostly equal.
    resources: Option<Arc<AllocatedResources>>,
}

impl SharedParts<'_> {
    fn share_resources(&mut self, row: &mut Allocation) {
        match (&self.resources, &row.allocated_resources) {
            (Some(known), Some(own)) if known == own => row.allocated_resources = Some(Arc::clone(known)),
            _ => self.resources.clone_from(&row.allocated_resources),
        }
    }

    fn share_job(&mut self, tx: &Tx<'_>, job: &Arc<Job>) -> Arc<Job> {
        let same = |row: &&Arc<Job>| {
            (row.create_index, row.job_modify_index, row.version)
                == (job.create_index, job.job_modify_index, job.version)
        };
        if let Some(known) =
            self.job.as_ref().filter(|known| same(known) && known.id == job.id && known.namespace == job.namespace)
        {
            return Arc::clone(known);
        }
        let row = tx.tables.job_version.get(&(job.key(), job.version)).filter(same).unwrap_or(job);
        self.job = Some(Arc::clone(row));
        Arc::clone(row)
    }
}

fn upsert_alloc(tx: &mut Tx<'_>, placed: &Allocation, shared: &mut SharedParts<'_>) -> Result<JobKey, Rejected> {
    let mut row = placed.clone();
    if row.job.is_none() && !row.terminal() {
        row.job = shared.plan.cloned();
    }
    let stored = tx.alloc(row.id).cloned();
    if row.job.is_none() {
        row.job = stored.as_ref().and_then(|stored| stored.job.clone());
    }
    let job = row.job.take().ok_or(Rejected::AllocWithoutJob(row.id))?;
    row.job = Some(shared.share_job(tx, &job));
    shared.share_resources(&mut row);
    row.modify_index = tx.index();
    row.alloc_modify_index = tx.index();
    match &stored {
        None => {
            row.create_index = tx.index();
            if let Some(status) = &mut row.deployment_status {
                *status = Arc::new(AllocDeploymentStatus {
                    modify_index: tx.index(),
                    ..AllocDeploymentStatus::clone(status)
                });
            }
        }
        Some(stored) => {
            keep_what_others_own(&mut row, stored);
            if shared.keeps_transitions {
                row.desired_transition = stored.desired_transition.clone();
            }
        }
    }
    let (key, id, previous) = (row.job_key(), row.id, row.previous_allocation);
    alloc::write(tx, row, stored.as_deref())?;
    if let Some(previous) = previous.and_then(|id| tx.alloc(id)).filter(|previous| previous.next_allocation != Some(id))
    {
        let replaced =
            Allocation { next_allocation: Some(id), modify_index: tx.index(), ..Allocation::clone(previous) };
        tx.put::<tables::Allocs>(replaced);
    }
    Ok(key)
}

/// Keeps what nodes and other entries wrote since the scheduler copied the row.
fn keep_what_others_own(row: &mut Allocation, stored: &Allocation) {
    row.create_index = stored.create_index;
    row.task_states.clone_from(&stored.task_states);
    if !matches!(row.client_status, AllocClientStatus::Lost | AllocClientStatus::Unknown) {
        row.client_status = stored.client_status;
        row.client_description = stored.client_description.clone();
    }
    if stored.network_status.is_some() {
        row.network_status.clone_from(&stored.network_status);
    }
    if row.next_allocation.is_none() {
        row.next_allocation = stored.next_allocation;
    }
    // The history only grows: a copy that does not extend the stored history is outdated, and adds nothing.
    let known = stored.alloc_states.as_deref().unwrap_or_default();
    if !row.alloc_states.as_deref().unwrap_or_default().starts_with(known) {
        row.alloc_states.clone_from(&stored.alloc_states);
    }
    // Health belongs to one deployment, so it is reset with another one.
    if row.deployment_id == stored.deployment_id
        && let Some(known) = stored.deployment_status.as_ref().filter(|known| known.healthy.is_some())
    {
        let canary = row.deployment_status.as_ref().map_or(known.canary, |status| status.canary);
        row.deployment_status = Some(Arc::new(AllocDeploymentStatus { canary, ..AllocDeploymentStatus::clone(known) }));
    }
}

#[cfg(test)]
mod tests;
