//! Announcements of jobs, their versions, summaries and source texts.

use songline_commands::Kind;
use songline_model::{Job, JobKey, JobStatus, JobSubmission, JobSummary, Str};
use songline_projections::{Change, tables};

use super::Announce;
use crate::event::{Right, Topic};
use crate::object_history::Object;
use crate::watch::WatchKey;

impl Announce for tables::Jobs {
    const TOPIC: Option<Topic> = Some(Topic::of_nomad("Job").needs(Right::ReadJob));

    fn key(row: &Job) -> Str {
        row.id.0.clone()
    }

    fn namespace(row: &Job) -> Str {
        row.namespace.0.clone()
    }

    fn object(row: &Job) -> Option<Object> {
        Some(Object::job(&row.namespace, &row.id))
    }

    fn written_at(row: &Job) -> u64 {
        row.modify_index
    }

    fn watch_keys(row: &Job, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::Job(row.key()));
    }
}

/// Whether an entry leaves a job dead in its first step, and its evaluation makes the job pending in the second.
pub(crate) fn is_revived(kind: Kind, before: Option<&Job>, after: &Job, changes: &[Change]) -> bool {
    // Evaluations of a purged job of the same id have ended. The version's row keeps the status of the first step.
    let is_dead_version = |change: &Change| {
        matches!(change, Change::JobVersion { after: Some(version), .. }
            if version.id == after.id && version.namespace == after.namespace && version.status == JobStatus::Dead)
    };
    let is_new_eval = |change: &Change| {
        matches!(change, Change::Eval { before: None, after: Some(eval) }
            if eval.job_id == after.id && eval.namespace == after.namespace)
    };
    let was = before.map(|before| before.status);
    if after.status != JobStatus::Pending {
        return false;
    }
    match was {
        Some(JobStatus::Dead) => matches!(kind, Kind::JobRegister | Kind::JobDeregister),
        None => kind == Kind::JobRegister && changes.iter().any(is_dead_version),
        // The last live allocation has ended. An older evaluation that still waits would have kept the job pending in
        // the first step, too: the changes do not tell that, and it is rare.
        Some(JobStatus::Running) => kind == Kind::AllocClientUpdate && changes.iter().any(is_new_eval),
        Some(JobStatus::Pending) => false,
    }
}

// The events and the history are those of the job.
impl Announce for tables::JobVersion {
    fn watch_keys(row: &Job, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::Job(row.key()));
    }
}

// Derived from jobs and allocations.
impl Announce for tables::JobSummary {
    fn watch_keys(row: &JobSummary, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::JobSummary(JobKey { namespace: row.namespace.clone(), id: row.job_id.clone() }));
    }
}

// Written together with the job's version. Streams do not repeat the source text.
impl Announce for tables::JobSubmission {
    fn watch_keys(row: &JobSubmission, watch: &mut impl FnMut(WatchKey)) {
        watch(WatchKey::Job(JobKey { namespace: row.namespace.clone(), id: row.job_id.clone() }));
    }
}
