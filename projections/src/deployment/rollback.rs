//! Rollback of a failed deployment's job to its stable version. The leader's deployment watcher and the API's calls
//! that fail a deployment decide alike.

use std::sync::Arc;

use songline_model::{Deployment, Job};

use crate::state::State;

/// Target of a failed deployment's rollback.
#[derive(Debug, Clone, PartialEq)]
pub enum Rollback {
    /// The stable version, which differs from the job's current specification.
    To(Arc<Job>),
    /// No rollback: the stable version, of this number, has the job's current specification.
    Same(u64),
    /// No rollback: no version of the job is stable.
    NoStable,
}

impl Rollback {
    /// The job version to go back to, if any, and the status description of the failed deployment. `base` says why it
    /// failed, and is the whole description where no rollback was wanted.
    pub fn outcome(wanted: Option<Self>, base: &str) -> (Option<Arc<Job>>, String) {
        let description = wanted.as_ref().map_or_else(|| base.to_owned(), |rollback| rollback.describe(base));
        match wanted {
            Some(Self::To(job)) => (Some(job), description),
            Some(Self::Same(_) | Self::NoStable) | None => (None, description),
        }
    }

    fn describe(&self, base: &str) -> String {
        match self {
            Self::To(job) => format!("{base} - rolling back to job version {}", job.version),
            Self::Same(version) => format!(
                "{base} - not rolling back to stable job version {version} as current job has same specification"
            ),
            Self::NoStable => format!("{base} - no stable job version to auto revert to"),
        }
    }
}

impl State {
    /// Rollback of the deployment's job to its newest stable version. Whether a group wants one is not asked here.
    pub fn rollback(&self, deployment: &Deployment) -> Rollback {
        let versions = self.job_versions(&deployment.namespace, &deployment.job_id);
        let Some(stable) = versions.into_iter().find(|job| job.stable) else {
            return Rollback::NoStable;
        };
        match self.job(&deployment.namespace, &deployment.job_id) {
            Some(current) if !current.spec_changed(&stable) => Rollback::Same(stable.version),
            Some(_) | None => Rollback::To(stable),
        }
    }
}
