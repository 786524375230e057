//! Child jobs: launches of periodic jobs, dispatches of parameterized jobs. Times and payloads are set by the callers.

use crate::{Job, JobId, JobStatus, Str, Time};

impl Job {
    /// A child of this job, created at `now`. Every field that servers maintain is reset.
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
