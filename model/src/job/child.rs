//! Child jobs: launches of periodic jobs, dispatches of parameterized jobs. Times and payloads are set by the callers.

use crate::{Job, JobId, JobStatus, PeriodicLaunch, Str, Time};

impl Job {
    /// The child that this periodic job launches for the launch time `at`, in whole Unix seconds. Created at `now`.
    pub fn periodic_child(&self, at: Time, now: Time) -> Self {
        Self { periodic: None, ..self.child(PeriodicLaunch::child_id(&self.id, at), now) }
    }

    /// A child of this job, created at `now`. Every field that servers maintain is reset.
    pub fn child(&self, id: JobId, now: Time) -> Self {
        Self {
            name: id.0.clone(),
            id,
            parent_id: self.id.clone(),
            status: JobStatus::Pending,
            status_description: Str::default(),
            submit_time: now,
            version: 0,
            create_index: 0,
            modify_index: 0,
            job_modify_index: 0,
            stable: false,
            ..self.clone()
        }
    }
}
