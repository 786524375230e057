//! A cluster at rest: evaluations and deployments are over, and each job has what it asks for, or waits for room that
//! there is not.

/// An evaluation that is neither over nor blocked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenEval {
    /// Its id.
    pub id: String,
    /// Its job.
    pub job: String,
    /// Its status.
    pub status: String,
}

/// The scheduler's decision for a job with the present tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlook {
    /// The job.
    pub job: String,
    /// Number of allocations that it would place, stop, change or preempt now.
    pub changes: usize,
    /// Groups for which it would find no room.
    pub without_room: Vec<String>,
    /// Whether an evaluation of the job is blocked.
    pub is_blocked: bool,
    /// Groups for which the job's evaluations name why there was no room.
    pub explained: Vec<String>,
}

/// The open ends of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenEnds {
    /// Evaluations that are neither over nor blocked.
    pub evals: Vec<OpenEval>,
    /// Deployments that are not over: the job and the status of each.
    pub deployments: Vec<(String, String)>,
    /// All jobs.
    pub jobs: Vec<Outlook>,
}

/// A reason why a cluster is not settled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsettledError {
    /// An evaluation was forgotten.
    #[error("evaluation {} of {} is still {}", .0.id, .0.job, .0.status)]
    Eval(OpenEval),
    /// A deployment does not end.
    #[error("the deployment of {job} is still {status}")]
    Deployment {
        /// Its job.
        job: String,
        /// Its status.
        status: String,
    },
    /// A blocked evaluation was not woken although there is room now.
    #[error("an evaluation of {job} is blocked, and the scheduler would make {changes} changes now")]
    LostWakeUp {
        /// The job.
        job: String,
        /// Number of changes.
        changes: usize,
    },
    /// No evaluation looks at a job for which there is work.
    #[error("no evaluation waits for {job}, and the scheduler would make {changes} changes now")]
    Forgotten {
        /// The job.
        job: String,
        /// Number of changes.
        changes: usize,
    },
    /// A group has no room and no evaluation waits for it.
    #[error("{group} of {job} has no room, and no evaluation waits for it")]
    NotBlocked {
        /// The job.
        job: String,
        /// The group.
        group: String,
    },
    /// A group has no room and no evaluation says why.
    #[error("{group} of {job} has no room, and no evaluation names why")]
    Unexplained {
        /// The job.
        job: String,
        /// The group.
        group: String,
    },
}

/// Checks that nothing is left to be done.
pub fn all_is_settled(open: &OpenEnds) -> Result<(), UnsettledError> {
    if let Some(eval) = open.evals.first() {
        return Err(UnsettledError::Eval(eval.clone()));
    }
    if let Some((job, status)) = open.deployments.first().cloned() {
        return Err(UnsettledError::Deployment { job, status });
    }
    open.jobs.iter().try_for_each(job_is_settled)
}

fn job_is_settled(outlook: &Outlook) -> Result<(), UnsettledError> {
    let Outlook { changes, is_blocked, .. } = *outlook;
    let job = outlook.job.clone();
    if changes > 0 {
        return Err(match is_blocked {
            true => UnsettledError::LostWakeUp { job, changes },
            false => UnsettledError::Forgotten { job, changes },
        });
    }
    for group in outlook.without_room.clone() {
        if !is_blocked {
            return Err(UnsettledError::NotBlocked { job, group });
        }
        if !outlook.explained.contains(&group) {
            return Err(UnsettledError::Unexplained { job, group });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
