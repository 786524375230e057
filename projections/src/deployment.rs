//! Deployments: their rows, their counters of allocs, and their end. The leader's deployment watcher decides when to
//! end one.

mod promote;
mod rollback;

use std::sync::Arc;

use songline_commands::{DeleteDeployments, SetDeploymentAllocHealth, UpdateDeploymentStatus};
use songline_model::{
    AllocDeploymentStatus, AllocId, Allocation, Deployment, DeploymentId, DeploymentState, DeploymentStatus,
    DeploymentStatusUpdate, Dur, Evaluation, Job, JobKey,
};

use crate::prefix::IdPrefix;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;
use crate::{alloc, eval, job};

pub(crate) use promote::promote;
pub use rollback::Rollback;

fn job_key(row: &Deployment) -> JobKey {
    JobKey { namespace: row.namespace.clone(), id: row.job_id.clone() }
}

impl Rules<DeploymentId, Deployment> for tables::Deployment {
    fn key(row: &Deployment) -> DeploymentId {
        row.id
    }

    #[cfg(test)]
    fn in_story(row: &Deployment) -> String {
        format!("deployment:{}", crate::story::name(row.id.as_bytes()))
    }

    fn reindex(state: &mut State, before: Option<&Arc<Deployment>>, after: Option<&Arc<Deployment>>) {
        let created = |row: &Arc<Deployment>| (row.create_index, row.id);
        crate::index::move_key(&mut state.by.deployments_by_create, before.map(created), after.map(created));
        let of_job = |row: &Arc<Deployment>| (job_key(row), row.create_index, row.id);
        crate::index::move_key(&mut state.by.deployments_by_job, before.map(of_job), after.map(of_job));
    }
}

impl State {
    /// The deployment with this id.
    pub fn deployment(&self, id: DeploymentId) -> Option<&Arc<Deployment>> {
        self.tables.deployment.get(&id)
    }

    /// All deployments, oldest first.
    pub fn deployments(&self) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.by.deployments_by_create.iter().filter_map(|(_, id)| self.deployment(*id))
    }

    /// Deployments in a range of (create index, id), oldest first.
    pub fn deployments_in(
        &self,
        range: impl std::ops::RangeBounds<(u64, DeploymentId)>,
    ) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        self.by.deployments_by_create.range(range).filter_map(|(_, id)| self.deployment(*id))
    }

    /// The deployments of a job, oldest first. They outlive a purged job.
    pub fn deployments_of_job(&self, namespace: &str, id: &str) -> impl DoubleEndedIterator<Item = &Arc<Deployment>> {
        let key = JobKey::new(namespace, id);
        let range = (key.clone(), 0, DeploymentId::NIL)..=(key, u64::MAX, DeploymentId::from_bytes([0xff; 16]));
        self.by.deployments_by_job.range(range).filter_map(|(_, _, id)| self.deployment(*id))
    }

    /// The newest deployment of a job.
    pub fn latest_deployment(&self, namespace: &str, id: &str) -> Option<&Arc<Deployment>> {
        self.deployments_of_job(namespace, id).next_back()
    }

    /// The deployments whose id has this prefix, by id.
    pub fn deployments_with_prefix<'s>(
        &'s self,
        prefix: &IdPrefix,
    ) -> impl DoubleEndedIterator<Item = &'s Arc<Deployment>> + use<'s> {
        let (low, high) = prefix.bounds();
        self.tables.deployment.range(DeploymentId::from_bytes(low)..=DeploymentId::from_bytes(high))
    }
}

/// Creates or replaces a deployment. A successful deployment marks its job version stable, as a target for later
/// rollbacks.
pub(crate) fn upsert(tx: &mut Tx<'_>, mut row: Deployment) -> Result<(), Rejected> {
    row.create_index = tx.deployment(row.id).map_or(tx.index(), |stored| stored.create_index);
    row.modify_index = tx.index();
    let stable = (row.status == DeploymentStatus::Successful).then(|| (job_key(&row), row.job_version));
    tx.put::<tables::Deployment>(row);
    if let Some((key, version)) = stable {
        job::mark_stable(tx, &key, version, true);
    }
    Ok(())
}

/// Sets the status of a deployment that is not terminal.
pub(crate) fn set_status(tx: &mut Tx<'_>, update: &DeploymentStatusUpdate) -> Result<(), Rejected> {
    let stored = active(tx, update.deployment_id)?;
    let (status, status_description) = (update.status, update.status_description.clone());
    upsert(tx, Deployment { status, status_description, ..Deployment::clone(&stored) })
}

fn active(tx: &Tx<'_>, id: DeploymentId) -> Result<Arc<Deployment>, Rejected> {
    let stored = tx.deployment(id).ok_or(Rejected::DeploymentNotFound(id))?;
    if stored.is_active() {
        Ok(Arc::clone(stored))
    } else {
        Err(Rejected::DeploymentTerminal { id, status: stored.status })
    }
}

pub(crate) fn update_status(tx: &mut Tx<'_>, cmd: &UpdateDeploymentStatus) -> Result<(), Rejected> {
    set_status(tx, &cmd.update)?;
    follow_up(tx, cmd.job.as_deref(), cmd.eval.as_ref(), cmd.versions_max)
}

/// Registers the job to roll back to as a new version, and writes the evaluation.
fn follow_up(tx: &mut Tx<'_>, job: Option<&Job>, eval: Option<&Evaluation>, versions_max: u64) -> Result<(), Rejected> {
    if let Some(job) = job {
        job::upsert(tx, job.clone(), &job::Upsert { submission: None, versions_max })?;
    }
    eval::upsert_rows(tx, eval.map(std::slice::from_ref).unwrap_or_default());
    Ok(())
}

pub(crate) fn set_alloc_health(tx: &mut Tx<'_>, cmd: &SetDeploymentAllocHealth) -> Result<(), Rejected> {
    active(tx, cmd.deployment_id)?;
    let verdicts = cmd.healthy.iter().map(|id| (*id, true)).chain(cmd.unhealthy.iter().map(|id| (*id, false)));
    for (id, healthy) in verdicts {
        let stored = part_of(tx, id, cmd.deployment_id)?;
        alloc::set_health(tx, &stored, healthy, cmd.timestamp)?;
    }
    if let Some(update) = &cmd.update {
        set_status(tx, update)?;
    }
    follow_up(tx, cmd.job.as_deref(), cmd.eval.as_ref(), cmd.versions_max)
}

fn part_of(tx: &Tx<'_>, alloc: AllocId, deployment: DeploymentId) -> Result<Arc<Allocation>, Rejected> {
    let stored = tx.alloc(alloc).ok_or(Rejected::DeploymentAllocUnknown(alloc))?;
    if stored.deployment_id == Some(deployment) {
        Ok(Arc::clone(stored))
    } else {
        Err(Rejected::DeploymentAllocForeign { alloc, deployment })
    }
}

pub(crate) fn delete(tx: &mut Tx<'_>, cmd: &DeleteDeployments) -> Result<(), Rejected> {
    for id in &cmd.ids {
        tx.delete::<tables::Deployment>(id);
    }
    Ok(())
}

/// Change of a group's counters by one write of an alloc.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    placed: i64,
    healthy: i64,
    unhealthy: i64,
}

impl Step {
    fn of(alloc: &Allocation, before: Option<&Allocation>) -> Self {
        let Some(before) = before.filter(|before| before.deployment_id == alloc.deployment_id) else {
            return Self { placed: 1, ..Self::default() };
        };
        match (before.health(), alloc.health()) {
            (None, Some(true)) => Self { healthy: 1, ..Self::default() },
            (None, Some(false)) => Self { unhealthy: 1, ..Self::default() },
            (Some(true), Some(false)) => Self { healthy: -1, unhealthy: 1, ..Self::default() },
            (Some(true), Some(true) | None) | (Some(false), _) | (None, None) => Self::default(),
        }
    }
}

/// Updates the counters of the alloc's deployment; call it before the alloc is written. Sets the modify index of the
/// alloc's deployment status if its health was counted.
pub(crate) fn count_alloc(tx: &mut Tx<'_>, alloc: &mut Allocation, before: Option<&Allocation>) {
    let Some(stored) = alloc.deployment_id.and_then(|id| tx.deployment(id)) else {
        return;
    };
    if !stored.task_groups.as_ref().is_some_and(|groups| groups.contains_key(&alloc.task_group)) {
        return;
    }
    let step = Step::of(alloc, before);
    if step == Step::default() {
        return;
    }
    let mut row = Deployment::clone(stored);
    if step.healthy + step.unhealthy != 0
        && let Some(status) = &mut alloc.deployment_status
    {
        *status = Arc::new(AllocDeploymentStatus { modify_index: tx.index(), ..AllocDeploymentStatus::clone(status) });
    }
    row.modify_index = tx.index();
    if let Some(group) = row.task_groups.as_mut().and_then(|groups| groups.get_mut(&alloc.task_group)) {
        count_step(group, alloc, &step);
    }
    tx.put::<tables::Deployment>(row);
}

fn count_step(group: &mut DeploymentState, alloc: &Allocation, step: &Step) {
    group.placed_allocs += step.placed;
    group.healthy_allocs += step.healthy;
    group.unhealthy_allocs += step.unhealthy;
    if alloc.is_canary() && !group.placed_canaries.iter().flatten().any(|id| *id == alloc.id) {
        group.placed_canaries.get_or_insert_default().push(alloc.id);
    }
    if group.progress_deadline == Dur::ZERO {
        return;
    }
    if step.placed != 0 && group.require_progress_by.is_none() {
        group.require_progress_by = Some(alloc.modify_time.plus(group.progress_deadline));
    } else if step.healthy != 0
        && let Some(at) = alloc.deployment_status.as_ref().and_then(|status| status.timestamp)
    {
        // The deadline for the next progress counts from the node's timestamp, so it depends on the node's clock.
        let by = at.plus(group.progress_deadline);
        group.require_progress_by = Some(group.require_progress_by.map_or(by, |known| known.max(by)));
    }
}

#[cfg(test)]
mod tests;
