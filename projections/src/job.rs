//! Jobs: registering, stopping, purging, and the stable version. Admission (defaults, validation, detection of
//! changes) comes before; the leader launches the children of periodic jobs.

pub(crate) mod status;
pub(crate) mod submission;
pub(crate) mod summary;
pub(crate) mod version;

use std::sync::Arc;

use songline_commands::{DeregisterJob, DeregisterJobs, RegisterJob, SetJobStability};
use songline_model::{
    DEFAULT_NODE_POOL, Deployment, DeploymentStatus, DesiredTransition, Evaluation, Job, JobId, JobKey, JobSubmission,
    JobType, NamespaceName, Time,
};

use crate::rejected::Rejected;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;
use crate::{alloc, csi, deployment, eval, periodic, scaling};

impl Rules<JobKey, Job> for tables::Jobs {
    fn key(row: &Job) -> JobKey {
        row.key()
    }

    #[cfg(test)]
    fn in_story(row: &Job) -> String {
        format!("job:{}", row.id)
    }

    fn job(row: &Arc<Job>) -> Option<&Arc<Job>> {
        Some(row)
    }

    fn store(_row: &Job, _out: &mut Vec<u8>) {}

    fn load(_stored: &[u8], job: Option<Arc<Job>>) -> Result<Arc<Job>, rmp_serde::decode::Error> {
        job.ok_or_else(no_job)
    }

    fn reindex(state: &mut State, before: Option<&Arc<Job>>, after: Option<&Arc<Job>>) {
        let key =
            |job: Option<&Arc<Job>>| job.filter(|job| job.kind == JobType::System && !job.stop).map(|job| job.key());
        crate::index::move_key(&mut state.by.system_jobs, key(before), key(after));
    }
}

impl State {
    /// The current version of a job.
    pub fn job(&self, namespace: &str, id: &str) -> Option<&Arc<Job>> {
        self.tables.jobs.get(&JobKey::new(namespace, id))
    }

    /// The current version of the job with this key.
    pub fn job_by_key(&self, key: &JobKey) -> Option<&Arc<Job>> {
        self.tables.jobs.get(key)
    }

    /// All jobs, by namespace and id.
    pub fn jobs(&self) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.tables.jobs.iter()
    }

    /// The system jobs that are not stopped, by namespace and id.
    pub fn system_jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.by.system_jobs.iter().filter_map(|key| self.job_by_key(key))
    }

    /// The jobs of a namespace, by id.
    pub fn jobs_in(&self, namespace: &str) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.tables.jobs.range(namespace_range(namespace))
    }

    /// The jobs of a namespace whose id has this prefix, by id.
    pub fn jobs_with_prefix<'a>(&'a self, namespace: &str, prefix: &'a str) -> impl Iterator<Item = &'a Arc<Job>> {
        let end = JobKey::new(format!("{namespace}\0"), "");
        self.tables.jobs.range(JobKey::new(namespace, prefix)..end).take_while(move |job| job.id.starts_with(prefix))
    }
}

/// The key range of one namespace: in key order, nothing lies between a name and the same name followed by NUL.
pub(crate) fn namespace_range(namespace: &str) -> std::ops::Range<JobKey> {
    let start = JobKey { namespace: NamespaceName::from(namespace), id: JobId::default() };
    start..JobKey { namespace: NamespaceName::from(format!("{namespace}\0")), id: JobId::default() }
}

/// Error for a stored row that consists of its job but has none.
pub(crate) fn no_job() -> rmp_serde::decode::Error {
    serde::de::Error::custom("the row names no job")
}

/// Options of an upsert.
pub(crate) struct Upsert<'a> {
    /// Source text of the job, if the caller has it.
    pub(crate) submission: Option<&'a JobSubmission>,
    /// Number of job versions to keep.
    pub(crate) versions_max: u64,
}

pub(crate) fn register(tx: &mut Tx<'_>, cmd: &RegisterJob) -> Result<(), Rejected> {
    let key = cmd.job.key();
    let stored = tx.job_by_key(&key).cloned();
    if cmd.enforce_index {
        enforce_index(stored.as_deref(), cmd.job_modify_index)?;
    }
    let mut job = Job::clone(&cmd.job);
    if cmd.preserve_counts
        && let Some(stored) = &stored
    {
        preserve_counts(&mut job, stored);
    }
    let job = upsert(tx, job, &Upsert { submission: cmd.submission.as_ref(), versions_max: cmd.versions_max })?;
    periodic::registered(tx, &job)?;
    if let Some(deployment) = &cmd.deployment {
        replace_deployment(tx, &job, deployment)?;
    }
    if let Some(eval) = &cmd.eval {
        let mut eval = Evaluation { job_modify_index: tx.index(), ..eval.clone() };
        if let Some(deployment) = &cmd.deployment {
            eval.deployment_id = Some(deployment.id);
        }
        eval::upsert_all(tx, std::slice::from_ref(&eval))?;
    }
    Ok(())
}

/// Checks the expected job modify index. Done here and not only before proposing, because two callers may have read
/// the same version.
fn enforce_index(stored: Option<&Job>, wanted: u64) -> Result<(), Rejected> {
    match stored {
        Some(_) if wanted == 0 => Err(Rejected::JobExists),
        Some(job) if job.job_modify_index != wanted => {
            Err(Rejected::JobModifyIndexConflict { wanted, stored: job.job_modify_index })
        }
        None if wanted != 0 => Err(Rejected::JobGone(wanted)),
        Some(_) | None => Ok(()),
    }
}

fn preserve_counts(job: &mut Job, stored: &Job) {
    for group in job.task_groups.iter_mut().flatten() {
        if let Some(known) = stored.group(&group.name) {
            group.count = known.count;
        }
    }
}

/// Creates the deployment that comes with a registration; it cancels the job's active one.
fn replace_deployment(tx: &mut Tx<'_>, job: &Job, deployment: &Deployment) -> Result<(), Rejected> {
    let latest = tx.latest_deployment(&job.namespace, &job.id).filter(|latest| latest.is_active()).cloned();
    if let Some(latest) = latest {
        let cancelled = Deployment {
            status: DeploymentStatus::Cancelled,
            status_description: "Cancelled due to newer version of job".into(),
            ..Deployment::clone(&latest)
        };
        deployment::upsert(tx, cancelled)?;
    }
    deployment::upsert(
        tx,
        Deployment {
            job_create_index: job.create_index,
            job_modify_index: job.modify_index,
            job_spec_modify_index: job.job_modify_index,
            job_version: job.version,
            ..deployment.clone()
        },
    )
}

/// Creates the job, or its next version. Returns the row.
pub(crate) fn upsert(tx: &mut Tx<'_>, mut job: Job, how: &Upsert<'_>) -> Result<Arc<Job>, Rejected> {
    let index = tx.index();
    let key = job.key();
    if tx.namespace(&job.namespace).is_none() {
        return Err(Rejected::JobNamespaceUnknown { job: job.id, namespace: job.namespace });
    }
    if job.node_pool.is_empty() {
        job.node_pool = DEFAULT_NODE_POOL.into();
    }
    if tx.node_pool(&job.node_pool).is_none() {
        return Err(Rejected::JobNodePoolUnknown { job: job.id, node_pool: job.node_pool });
    }
    let written_as = job.version;
    let stored = tx.job_by_key(&key).cloned();
    job.create_index = stored.as_ref().map_or(index, |stored| stored.create_index);
    job.modify_index = index;
    job.job_modify_index = index;
    if let Some(stored) = &stored
        && job.version <= stored.version
    {
        job.version = stored.version + 1;
    }
    job.status = status::derive(tx, &job, status::After::Anything);
    scaling::follow_job(tx, &mut job);
    let job = Arc::new(job);
    summary::register(tx, &job, stored.is_none());
    csi::plugin::job_registered(tx, stored.as_deref(), &job);
    submission::register(tx, &job, how.submission, written_as, how.versions_max);
    tx.put::<tables::Jobs>(Arc::clone(&job));
    version::keep(tx, &job, how.versions_max);
    Ok(job)
}

/// Stops or purges a job. The evaluation is written even when the job is gone, to stop the allocs that still run.
pub(crate) fn deregister(tx: &mut Tx<'_>, cmd: &DeregisterJob) -> Result<(), Rejected> {
    let evals: Vec<Evaluation> =
        cmd.eval.iter().map(|eval| Evaluation { job_modify_index: tx.index(), ..eval.clone() }).collect();
    if tx.job_by_key(&cmd.job).is_none() {
        eval::upsert_all(tx, &evals)?;
        tx.keep_though_refused();
        return Err(gone(&cmd.job, cmd.purge));
    }
    if cmd.no_shutdown_delay {
        let skip = DesiredTransition { no_shutdown_delay: Some(true), ..DesiredTransition::default() };
        alloc::set_transition_of_job(tx, &cmd.job, &skip);
    }
    stop_or_purge(tx, &cmd.job, cmd.purge, cmd.submit_time, cmd.versions_max)?;
    eval::upsert_all(tx, &evals)
}

pub(crate) fn deregister_batch(tx: &mut Tx<'_>, cmd: &DeregisterJobs) -> Result<(), Rejected> {
    for (key, purge) in &cmd.jobs {
        stop_or_purge(tx, key, *purge, cmd.submit_time, cmd.versions_max)?;
    }
    let evals: Vec<Evaluation> =
        cmd.evals.iter().map(|eval| Evaluation { job_modify_index: tx.index(), ..eval.clone() }).collect();
    eval::upsert_all(tx, &evals)
}

fn gone(key: &JobKey, purge: bool) -> Rejected {
    if purge {
        Rejected::JobNotFound
    } else {
        Rejected::JobNotDeregisterable { job: key.id.clone(), namespace: key.namespace.clone() }
    }
}

fn stop_or_purge(
    tx: &mut Tx<'_>,
    key: &JobKey,
    purge_row: bool,
    submit_time: Time,
    versions_max: u64,
) -> Result<(), Rejected> {
    let stored = tx.job_by_key(key).cloned().ok_or_else(|| gone(key, purge_row))?;
    if purge_row {
        purge(tx, &stored);
        return Ok(());
    }
    let mut job = Job::clone(&stored);
    job.stop = true;
    if submit_time != Time::default() {
        job.submit_time = submit_time;
    }
    upsert(tx, job, &Upsert { submission: None, versions_max }).map(|_| ())
}

/// Deletes the job with its versions, summary and submissions. Its allocs, evals and deployments stay until they are
/// collected.
fn purge(tx: &mut Tx<'_>, job: &Job) {
    let key = job.key();
    summary::child_purged(tx, job);
    tx.delete::<tables::Jobs>(&key);
    version::drop_all(tx, &key);
    csi::plugin::job_purged(tx, job);
    submission::drop_all(tx, &key);
    tx.delete::<tables::JobSummary>(&key);
    periodic::purged(tx, &key);
    scaling::drop_all(tx, &key);
}

/// Marks one version stable or unstable. The current row changes only when it is that version, so that an old version
/// does not become current. The rewritten version takes over its job's current status.
pub(crate) fn set_stability(tx: &mut Tx<'_>, cmd: &SetJobStability) -> Result<(), Rejected> {
    mark_stable(tx, &cmd.job, cmd.version, cmd.stable);
    Ok(())
}

pub(crate) fn mark_stable(tx: &mut Tx<'_>, key: &JobKey, version: u64, stable: bool) {
    let Some(row) = tx.tables.job_version.get(&(key.clone(), version)).filter(|row| row.stable != stable) else {
        return;
    };
    let current = tx.job_by_key(key).cloned();
    let status = current.as_ref().map_or(row.status, |job| job.status);
    let marked = Job { stable, status, modify_index: tx.index(), ..Job::clone(row) };
    tx.put::<tables::JobVersion>(marked);
    if let Some(current) = current.filter(|job| job.version == version) {
        let marked = Job { stable, modify_index: tx.index(), ..Job::clone(&current) };
        tx.put::<tables::Jobs>(marked);
    }
}

#[cfg(test)]
mod tests;
