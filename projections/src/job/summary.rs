//! Job summaries: numbers of allocs by group and status, and of a parent's children by status. Derived, but stored as
//! rows, because `complete` and `failed` also count allocs that were collected.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_commands::ReconcileSummaries;
use songline_model::{
    AllocClientStatus, Allocation, Job, JobChildrenSummary, JobKey, JobStatus, JobSummary, Str, TaskGroupSummary,
};

use crate::csi;
use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<JobKey, JobSummary> for tables::JobSummary {
    fn key(row: &JobSummary) -> JobKey {
        JobKey { namespace: row.namespace.clone(), id: row.job_id.clone() }
    }

    #[cfg(test)]
    fn in_story(row: &JobSummary) -> String {
        format!("summary:{}", row.job_id)
    }
}

impl State {
    /// The summary of a job.
    pub fn job_summary(&self, namespace: &str, id: &str) -> Option<&Arc<JobSummary>> {
        self.tables.job_summary.get(&JobKey::new(namespace, id))
    }

    /// All summaries, by namespace and job.
    pub fn job_summaries(&self) -> impl DoubleEndedIterator<Item = &Arc<JobSummary>> {
        self.tables.job_summary.iter()
    }
}

/// Creates the summary, or adds the groups of the new version. Groups that the version lacks stay. Call before the
/// job's own row is written.
pub(crate) fn register(tx: &mut Tx<'_>, job: &Job, is_new: bool) {
    let key = job.key();
    let stored = tx.tables.job_summary.get(&key).map(|row| JobSummary::clone(row));
    let is_known = stored.is_some();
    let mut row = stored.unwrap_or_else(|| JobSummary {
        job_id: key.id,
        namespace: key.namespace,
        summary: Some(BTreeMap::new()),
        children: Some(JobChildrenSummary::default()),
        create_index: job.create_index,
        modify_index: 0,
    });
    let groups = row.summary.get_or_insert_default();
    let known = groups.len();
    for group in job.groups() {
        groups.entry(group.name.clone()).or_default();
    }
    if !is_known || groups.len() != known {
        row.modify_index = tx.index();
        tx.put::<tables::JobSummary>(row);
    }
    if is_new {
        child_moved(tx, job, None, job.status);
    }
}

/// Counts an alloc; `before` is its previous row. Call before the new row is stored. Fails if the summary or the group
/// is missing.
pub(crate) fn count_alloc(tx: &mut Tx<'_>, alloc: &Allocation, before: Option<&Allocation>) -> Result<(), Rejected> {
    let Some(job) = &alloc.job else {
        return Ok(());
    };
    let key = alloc.job_key();
    let Some(stored) = tx.tables.job_summary.get(&key) else {
        // Allocs outlive a purged job.
        if tx.job_by_key(&key).is_none() {
            return Ok(());
        }
        return Err(Rejected::JobSummaryMissing { job: key.id, namespace: key.namespace });
    };
    // The alloc belongs to a purged job of the same id, so it is not counted.
    if stored.create_index != job.create_index {
        return Ok(());
    }
    let moved = before.map(|before| before.client_status) != Some(alloc.client_status);
    if !moved || (before.is_none() && alloc.client_status != AllocClientStatus::Pending) {
        return if group_of(stored, &alloc.task_group).is_some() {
            Ok(())
        } else {
            Err(Rejected::JobSummaryGroupMissing(alloc.task_group.clone()))
        };
    }
    let mut row = JobSummary::clone(stored);
    let Some(group) = row.summary.as_mut().and_then(|groups| groups.get_mut(&alloc.task_group)) else {
        return Err(Rejected::JobSummaryGroupMissing(alloc.task_group.clone()));
    };
    match before {
        None => {
            group.starting += 1;
            group.queued = (group.queued - 1).max(0);
        }
        Some(before) => {
            let to = bucket(group, alloc.client_status);
            *to += 1;
            match before.client_status {
                // Failed and complete allocs stay counted.
                AllocClientStatus::Failed | AllocClientStatus::Complete => {}
                left @ (AllocClientStatus::Pending
                | AllocClientStatus::Running
                | AllocClientStatus::Lost
                | AllocClientStatus::Unknown) => {
                    let from = bucket(group, left);
                    *from = (*from - 1).max(0);
                }
            }
        }
    }
    row.modify_index = tx.index();
    tx.put::<tables::JobSummary>(row);
    Ok(())
}

fn group_of<'a>(row: &'a JobSummary, group: &str) -> Option<&'a TaskGroupSummary> {
    row.summary.as_ref()?.get(group)
}

fn bucket(group: &mut TaskGroupSummary, status: AllocClientStatus) -> &mut i64 {
    match status {
        AllocClientStatus::Pending => &mut group.starting,
        AllocClientStatus::Running => &mut group.running,
        AllocClientStatus::Complete => &mut group.complete,
        AllocClientStatus::Failed => &mut group.failed,
        AllocClientStatus::Lost => &mut group.lost,
        AllocClientStatus::Unknown => &mut group.unknown,
    }
}

/// Sets the numbers of queued allocs that an evaluation reports. Groups that the job does not have are skipped.
pub(crate) fn set_queued(tx: &mut Tx<'_>, key: &JobKey, queued: &BTreeMap<Str, i64>) {
    let Some(stored) = tx.tables.job_summary.get(key) else {
        return;
    };
    let mut row = JobSummary::clone(stored);
    let mut changed = false;
    for (name, count) in queued {
        if let Some(group) = row.summary.as_mut().and_then(|groups| groups.get_mut(name))
            && group.queued != *count
        {
            group.queued = *count;
            changed = true;
        }
    }
    if changed {
        row.modify_index = tx.index();
        tx.put::<tables::JobSummary>(row);
        csi::plugin::job_counted(tx, key);
    }
}

/// Moves a child between its parent's counts. `from` is absent for a new child.
pub(crate) fn child_moved(tx: &mut Tx<'_>, child: &Job, from: Option<JobStatus>, to: JobStatus) {
    change_children(tx, child, |children| {
        if let Some(from) = from {
            let count = child_bucket(children, from);
            *count = (*count - 1).max(0);
        }
        *child_bucket(children, to) += 1;
    });
}

/// Counts a purged child as dead.
pub(crate) fn child_purged(tx: &mut Tx<'_>, child: &Job) {
    if child.status != JobStatus::Dead {
        child_moved(tx, child, Some(child.status), JobStatus::Dead);
    }
}

fn change_children(tx: &mut Tx<'_>, child: &Job, change: impl FnOnce(&mut JobChildrenSummary)) {
    if child.parent_id.is_empty() {
        return;
    }
    let parent = JobKey { namespace: child.namespace.clone(), id: child.parent_id.clone() };
    let Some(stored) = tx.tables.job_summary.get(&parent) else {
        return;
    };
    let mut row = JobSummary::clone(stored);
    change(row.children.get_or_insert_default());
    row.modify_index = tx.index();
    tx.put::<tables::JobSummary>(row);
}

fn child_bucket(children: &mut JobChildrenSummary, status: JobStatus) -> &mut i64 {
    match status {
        JobStatus::Pending => &mut children.pending,
        JobStatus::Running => &mut children.running,
        JobStatus::Dead => &mut children.dead,
    }
}

/// Recounts all summaries from the rows that exist. Allocs and children that were collected are no longer counted.
pub(crate) fn reconcile(tx: &mut Tx<'_>, cmd: &ReconcileSummaries) -> Result<(), Rejected> {
    let jobs: Vec<Arc<Job>> = tx.jobs().cloned().collect();
    let mut children: BTreeMap<JobKey, JobChildrenSummary> = BTreeMap::new();
    for job in jobs.iter().filter(|job| !job.parent_id.is_empty()) {
        let parent = JobKey { namespace: job.namespace.clone(), id: job.parent_id.clone() };
        *child_bucket(children.entry(parent).or_default(), job.status) += 1;
    }
    for job in jobs {
        let key = job.key();
        let stored = tx.tables.job_summary.get(&key).map(|row| JobSummary::clone(row)).unwrap_or_default();
        let is_parent = job.is_periodic() || job.is_parameterized();
        let summary = if is_parent { stored.summary } else { Some(recount(tx, &job, cmd.queued.get(&key))) };
        tx.put::<tables::JobSummary>(JobSummary {
            job_id: key.id.clone(),
            namespace: key.namespace.clone(),
            summary,
            children: Some(children.remove(&key).unwrap_or_default()),
            create_index: job.create_index,
            modify_index: tx.index(),
        });
    }
    Ok(())
}

/// The counts of a job's groups from its existing allocs. Cumulative counts of collected allocs are lost.
pub(crate) fn recount(
    state: &State,
    job: &Job,
    queued: Option<&BTreeMap<Str, i64>>,
) -> BTreeMap<Str, TaskGroupSummary> {
    let queued_of = |group: &Str| queued.and_then(|queued| queued.get(group)).copied().unwrap_or(0);
    let mut groups: BTreeMap<Str, TaskGroupSummary> = job
        .groups()
        .map(|group| {
            (group.name.clone(), TaskGroupSummary { queued: queued_of(&group.name), ..TaskGroupSummary::default() })
        })
        .collect();
    for alloc in state.allocs_of_job(&job.namespace, &job.id) {
        if alloc.job.as_ref().is_some_and(|own| own.create_index == job.create_index) {
            *bucket(groups.entry(alloc.task_group.clone()).or_default(), alloc.client_status) += 1;
        }
    }
    groups
}
