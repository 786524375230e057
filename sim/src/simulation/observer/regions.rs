//! The changes of an entry in the form of the checker of jobs of several regions.

use std::sync::Arc;

use songline_model::{Deployment, DeploymentStatus, Job};
use songline_projections::Change;

use super::super::record::Record;
use crate::check::{RegionsError, Registration, Rollouts, Step, Why};

/// Beginning of the description of a deployment that failed with another region.
pub const PEER_FAILED: &str = "Failed because of an error in peer region";
/// Beginning of the description of a deployment that failed because its version did not reach every region.
pub const INCOMPLETE: &str = "Failed because a peer region does not have this version of the job";
/// Key of the job's meta that tells one registration from all others.
pub const REGISTRATION: &str = "registration";

/// Hands an entry's changes to the checker, if there are several regions.
pub fn judge(record: &Record, changes: &[Change]) {
    let Some(mut rollouts) = record.rollouts() else { return };
    let verdicts: Vec<_> = changes.iter().filter_map(|change| note(&mut rollouts, record, change).err()).collect();
    drop(rollouts);
    verdicts.into_iter().for_each(|error| record.found(error.into()));
}

fn note(rollouts: &mut Rollouts, record: &Record, change: &Change) -> Result<(), RegionsError> {
    match change {
        Change::Job { before, after: Some(job) } if before.as_ref().is_none_or(|row| row.version != job.version) => {
            noted_job(rollouts, record.region(), job)
        }
        Change::Deployment { before, after: Some(row) } if row.is_multiregion => {
            let was = before.as_ref().map(|before| before.status);
            if was == Some(row.status) {
                return Ok(());
            }
            let finishes = row.status == DeploymentStatus::Successful;
            record.count(|counts| counts.finished += u64::from(finishes));
            record.note(&format!("{} v{} is {}: {}", row.job_id, row.job_version, row.status, row.status_description));
            rollouts.moved(&step(record.region(), row))
        }
        // Other rows are of one region.
        _ => Ok(()),
    }
}

fn noted_job(rollouts: &mut Rollouts, region: &str, job: &Arc<Job>) -> Result<(), RegionsError> {
    let Some(registration) = registration(job) else { return Ok(()) };
    if job.stop {
        rollouts.stopped(region, &job.id, job.version);
        return Ok(());
    }
    rollouts.registered(region, &job.id, job.version, registration)
}

fn step(region: &str, row: &Deployment) -> Step {
    Step {
        region: region.to_owned(),
        job: row.job_id.to_string(),
        version: row.job_version,
        status: row.status,
        why: why(row),
    }
}

/// The reason of a deployment's failure.
pub fn why(row: &Deployment) -> Why {
    match row.status {
        DeploymentStatus::Failed if row.status_description.starts_with(INCOMPLETE) => Why::Incomplete,
        DeploymentStatus::Failed if row.status_description.starts_with(PEER_FAILED) => Why::Peer,
        DeploymentStatus::Failed
        | DeploymentStatus::Initializing
        | DeploymentStatus::Pending
        | DeploymentStatus::Running
        | DeploymentStatus::Paused
        | DeploymentStatus::Blocked
        | DeploymentStatus::Unblocking
        | DeploymentStatus::Successful
        | DeploymentStatus::Cancelled => Why::Own,
    }
}

/// The registration that a job is; `None`: it is of one region.
pub fn registration(job: &Job) -> Option<Registration> {
    let multiregion = job.multiregion.as_ref().filter(|_| job.is_multiregion())?;
    let id = job.meta.as_ref().and_then(|meta| meta.get(REGISTRATION)).map(ToString::to_string);
    Some(Registration {
        id: id.unwrap_or_default(),
        regions: multiregion.names().map(ToString::to_string).collect(),
        max_parallel: multiregion.max_parallel(),
        on_failure: multiregion.on_failure(),
    })
}
