//! Announcements of jobs, their versions, summaries and source texts.

use songline_commands::Kind;
use songline_model::{Job, JobKey, JobStatus, JobSubmission, JobSummary, Str};
use songline_projections::tables;

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

    fn step(kind: Kind, before: Option<&Job>, after: Option<&Job>) -> u8 {
        u8::from(before.zip(after).is_some_and(|(before, after)| is_revived(kind, before, after)))
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

/// Whether an entry writes a dead job together with an evaluation that makes it pending.
pub(crate) fn is_revived(kind: Kind, before: &Job, after: &Job) -> bool {
    matches!(kind, Kind::JobRegister | Kind::JobDeregister)
        && before.status == JobStatus::Dead
        && after.status == JobStatus::Pending
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
