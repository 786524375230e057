//! Job status, derived from the job's live allocs and evals; no command sets it.

use std::borrow::Borrow;

use songline_model::{Job, JobKey, JobStatus, JobType};

use crate::job::summary;
use crate::state::State;
use crate::table::tables;
use crate::tx::Tx;

/// Preceding operation. A job without allocs and evals is pending, unless its evals were just deleted: then it is
/// dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Anything,
    EvalsDeleted,
}

/// The status of a job, derived from its allocs and evals.
pub(crate) fn derive(state: &State, job: &Job, after: After) -> JobStatus {
    if job.kind == JobType::System || job.is_parameterized() || job.is_periodic() {
        return if job.stop { JobStatus::Dead } else { JobStatus::Running };
    }
    let counts = state.by.job_counts.get(&job.key()).copied().unwrap_or_default();
    if counts.allocs_live > 0 {
        JobStatus::Running
    } else if counts.evals_live > 0 {
        JobStatus::Pending
    } else if counts.evals > 0 || counts.allocs > 0 || after == After::EvalsDeleted {
        JobStatus::Dead
    } else {
        JobStatus::Pending
    }
}

/// Writes the derived status of each job whose status changed. Job versions keep the status they were registered with.
pub(crate) fn refresh(tx: &mut Tx<'_>, keys: impl IntoIterator<Item = impl Borrow<JobKey>>, after: After) {
    for key in keys {
        let Some(job) = tx.job_by_key(key.borrow()).cloned() else {
            continue;
        };
        let status = derive(tx, &job, after);
        if status != job.status {
            tx.put::<tables::Jobs>(Job { status, modify_index: tx.index(), ..Job::clone(&job) });
            summary::child_moved(tx, &job, Some(job.status), status);
        }
    }
}
