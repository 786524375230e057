//! Job submissions: the source texts of job versions, for people to read.

use std::sync::Arc;

use songline_model::{Job, JobKey, JobSubmission};

use crate::job::version;
use crate::state::State;
use crate::table::{Rules, tables};
use crate::tx::Tx;

impl Rules<(JobKey, u64), JobSubmission> for tables::JobSubmission {
    fn key(row: &JobSubmission) -> (JobKey, u64) {
        (JobKey { namespace: row.namespace.clone(), id: row.job_id.clone() }, row.version)
    }

    #[cfg(test)]
    fn in_story(row: &JobSubmission) -> String {
        format!("source:{}.{}", row.job_id, row.version)
    }
}

impl State {
    /// The source of one version of a job.
    pub fn job_submission(&self, namespace: &str, id: &str, version: u64) -> Option<&Arc<JobSubmission>> {
        self.tables.job_submission.get(&(JobKey::new(namespace, id), version))
    }
}

fn submissions_of(state: &State, key: &JobKey) -> Vec<Arc<JobSubmission>> {
    state.tables.job_submission.range((key.clone(), 0)..=(key.clone(), u64::MAX)).cloned().collect()
}

/// Stores the source of a new version. Without a submission, the source of version `written_as`, the target of the
/// rollback, is copied. A version that has a source keeps it. Then drops the oldest sources beyond `versions_max`.
pub(crate) fn register(
    tx: &mut Tx<'_>,
    job: &Job,
    submission: Option<&JobSubmission>,
    written_as: u64,
    versions_max: u64,
) {
    let key = job.key();
    let source = submission
        .cloned()
        .or_else(|| tx.tables.job_submission.get(&(key.clone(), written_as)).map(|row| JobSubmission::clone(row)));
    let Some(source) = source else {
        return;
    };
    if tx.tables.job_submission.get(&(key.clone(), job.version)).is_some() {
        return;
    }
    tx.put::<tables::JobSubmission>(JobSubmission {
        namespace: key.namespace.clone(),
        job_id: key.id.clone(),
        version: job.version,
        job_modify_index: job.job_modify_index,
        ..source
    });
    let mut rows = submissions_of(tx, &key);
    rows.sort_by_key(|row| std::cmp::Reverse((row.job_modify_index, row.version)));
    for row in rows.iter().skip(version::limit(versions_max)) {
        tx.delete::<tables::JobSubmission>(&(key.clone(), row.version));
    }
}

pub(crate) fn drop_all(tx: &mut Tx<'_>, key: &JobKey) {
    for row in submissions_of(tx, key) {
        tx.delete::<tables::JobSubmission>(&(key.clone(), row.version));
    }
}
