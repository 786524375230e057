//! Jobs that others start: launches of periodic ones, dispatches of parameterized ones. When, and with what, is not here.

use crate::{Job, JobId, JobStatus, Str, Time};

impl Job {
    /// A job like this one that it starts at `now`, new in all that servers count and say of jobs.
    pub fn child(&self, id: JobId, now: Time) -> Self {
        Self {
            name: id.0.clone(),
            id,
            parent_id: self.id.clone(),
            status: JobStatus::Pending,
            status_description: Str::default(),
            submit_time: now.nanos(),
            version: 0,
            create_index: 0,
            modify_index: 0,
            job_modify_index: 0,
            stable: false,
            ..self.clone()
        }
    }
}
