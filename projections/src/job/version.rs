//! The last versions of a job, to compare and to roll back to.

use std::sync::Arc;

use songline_model::{Job, JobKey};

use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

/// Number of versions to keep if a command gives 0.
const VERSIONS_DEFAULT: u64 = 6;

impl Rules<(JobKey, u64), Job> for tables::JobVersion {
    fn key(row: &Job) -> (JobKey, u64) {
        (row.key(), row.version)
    }

    #[cfg(test)]
    fn in_story(row: &Job) -> String {
        format!("version:{}.{}", row.id, row.version)
    }

    fn job(row: &Arc<Job>) -> Option<&Arc<Job>> {
        Some(row)
    }

    fn store(_row: &Job, _out: &mut Vec<u8>) {}

    fn load(_stored: &[u8], job: Option<Arc<Job>>) -> Result<Arc<Job>, rmp_serde::decode::Error> {
        job.ok_or_else(super::no_job)
    }
}

impl State {
    /// One version of a job.
    pub fn job_version(&self, namespace: &str, id: &str, version: u64) -> Option<&Arc<Job>> {
        self.tables.job_version.get(&(JobKey::new(namespace, id), version))
    }

    /// The stored versions of a job, newest first.
    pub fn job_versions(&self, namespace: &str, id: &str) -> Vec<Arc<Job>> {
        versions_of(self, &JobKey::new(namespace, id))
    }

    /// All versions of all jobs, by job and version.
    pub fn all_job_versions(&self) -> impl DoubleEndedIterator<Item = &Arc<Job>> {
        self.tables.job_version.iter()
    }
}

fn versions_of(state: &State, key: &JobKey) -> Vec<Arc<Job>> {
    state.tables.job_version.range((key.clone(), 0)..=(key.clone(), u64::MAX)).rev().cloned().collect()
}

/// Number of rows to keep; 0 stands for the default.
pub(crate) fn limit(versions_max: u64) -> usize {
    let limit = if versions_max == 0 { VERSIONS_DEFAULT } else { versions_max };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Stores the version and deletes at most one old version. If that would be the newest stable one, its newer neighbour
/// is deleted instead.
pub(crate) fn keep(tx: &mut Tx<'_>, job: &Arc<Job>, versions_max: u64) {
    tx.put::<tables::JobVersion>(Arc::clone(job));
    let limit = limit(versions_max);
    let versions = versions_of(tx, &job.key());
    if versions.len() <= limit {
        return;
    }
    let newest_stable = versions.iter().position(|version| version.stable);
    let victim = if newest_stable == Some(limit) { limit - 1 } else { limit };
    let victim = versions[victim].version;
    tx.delete::<tables::JobVersion>(&(job.key(), victim));
}

pub(crate) fn drop_all(tx: &mut Tx<'_>, key: &JobKey) {
    for version in versions_of(tx, key) {
        tx.delete::<tables::JobVersion>(&(key.clone(), version.version));
    }
}
