//! The deployment of a job during reconciliation: continued, created, or finished. Its canaries are in `canaries`.

use std::collections::BTreeMap;

use songline_model::{Deployment, DeploymentState, DeploymentStatus, DeploymentStatusUpdate, Job, TaskGroup};

use super::Run;
use super::canaries::waits_for_promotion;
use super::set::Set;

const CANCELLED_BY_STOP: &str = "Cancelled because job is stopped";
const CANCELLED_BY_NEWER: &str = "Cancelled due to newer version of job";
const RUNNING: &str = "Deployment is running";
const WAITS_FOR_PROMOTION: &str = "Deployment is running but requires manual promotion";
const PROMOTES_ITSELF: &str = "Deployment is running pending automatic promotion";
const SUCCESSFUL: &str = "Deployment completed successfully";
const WAITS_FOR_PEERS: &str = "Deployment is complete but waiting for peer region";
const PENDING: &str = "Deployment is pending, waiting for peer region";

impl Run<'_, '_> {
    /// Continues the stored deployment if it is of the current job version. Cancels it if it is of another version or
    /// the job is stopped.
    pub(super) fn take_up_deployment(&mut self) {
        let Some(stored) = self.input.deployment else { return };
        let Some(job) = self.input.job.filter(|job| !job.stop) else {
            if stored.is_active() {
                self.change_status(stored, DeploymentStatus::Cancelled, CANCELLED_BY_STOP);
            }
            self.old_deployment = Some(stored.clone());
            return;
        };
        if stored.job_create_index != job.create_index || stored.job_version != job.version {
            if stored.is_active() {
                self.change_status(stored, DeploymentStatus::Cancelled, CANCELLED_BY_NEWER);
            }
            self.old_deployment = Some(stored.clone());
            return;
        }
        match stored.status {
            DeploymentStatus::Successful => {
                self.old_deployment = Some(stored.clone());
                return;
            }
            DeploymentStatus::Failed => self.failed = true,
            DeploymentStatus::Paused | DeploymentStatus::Pending => self.paused = true,
            DeploymentStatus::Initializing => self.paused = true,
            DeploymentStatus::Running
            | DeploymentStatus::Blocked
            | DeploymentStatus::Unblocking
            | DeploymentStatus::Cancelled => {}
        }
        self.deployment = Some(stored.clone());
    }

    /// Creates a deployment when the group is new or changes, or adds the group to the current deployment.
    pub(super) fn create_deployment(
        &mut self,
        job: &Job,
        group: &TaskGroup,
        existing: bool,
        state: DeploymentState,
        all: &Set,
        destructive: bool,
    ) {
        let without = group.update.as_ref().is_none_or(|update| update.max_parallel == 0);
        if existing || without || state.desired_total == 0 {
            return;
        }
        let changes = destructive || !self.out.in_place.is_empty();
        let had_running = all.iter().any(|alloc| {
            alloc.job.as_ref().is_some_and(|own| own.version == job.version && own.create_index == job.create_index)
        });
        if had_running && !changes {
            return;
        }
        let is_new = self.deployment.is_none();
        let initializing =
            self.deployment.as_ref().is_some_and(|deployment| deployment.status == DeploymentStatus::Initializing);
        if is_new {
            self.deployment = Some(Deployment {
                id: self.seed.deployment_id(),
                namespace: job.namespace.clone(),
                job_id: job.id.clone(),
                job_version: job.version,
                job_modify_index: job.modify_index,
                job_spec_modify_index: job.job_modify_index,
                job_create_index: job.create_index,
                is_multiregion: job.is_multiregion(),
                task_groups: Some(BTreeMap::new()),
                status: DeploymentStatus::Running,
                status_description: RUNNING.into(),
                eval_priority: self.input.eval.priority,
                create_index: 0,
                modify_index: 0,
            });
        }
        let Some(deployment) = &mut self.deployment else { return };
        deployment.task_groups.get_or_insert_default().insert(group.name.clone(), state);
        // A stored deployment is written again in full only while it is initializing: later, other writers may change
        // it meanwhile.
        if is_new || self.out.deployment.is_some() || initializing {
            self.out.deployment = Some(deployment.clone());
        }
    }

    /// Whether the group has as many healthy allocations as its deployment wants, and its canaries are promoted.
    /// `destructive`: allocations that are still to be replaced.
    pub(super) fn group_is_healthy(&self, group: &str, destructive: &Set) -> bool {
        let Some(deployment) = &self.deployment else { return false };
        let state = deployment.task_groups.as_ref().and_then(|groups| groups.get(group));
        state.is_none_or(|state| {
            state.healthy_allocs >= state.desired_total.max(state.desired_canaries)
                && !waits_for_promotion(state, destructive)
        })
    }

    /// Ends the deployment when all groups are complete.
    pub(super) fn finish_deployment(&mut self, job: &Job, complete: bool) {
        let Some(deployment) = self.deployment.clone() else { return };
        if !deployment.is_active() {
            return;
        }
        if let Some(created) = &mut self.out.deployment
            && created.create_index == 0
            && let Some(description) = promotion(created)
        {
            created.status_description = description.into();
        }
        if complete && job.is_multiregion() {
            if deployment.status != DeploymentStatus::Unblocking {
                self.change_status(&deployment, DeploymentStatus::Blocked, WAITS_FOR_PEERS);
            }
        } else if complete {
            self.change_status(&deployment, DeploymentStatus::Successful, SUCCESSFUL);
        }
        if deployment.status == DeploymentStatus::Initializing {
            // It was created with the job's registration, without its groups: the plan stores it in full before it may
            // start.
            self.out.deployment = Some(deployment.clone());
            self.change_status(&deployment, DeploymentStatus::Pending, PENDING);
        }
    }

    fn change_status(&mut self, deployment: &Deployment, status: DeploymentStatus, description: &'static str) {
        self.out.deployment_updates.push(DeploymentStatusUpdate {
            deployment_id: deployment.id,
            status,
            status_description: description.into(),
        });
    }
}

/// Status description of a deployment that begins to run.
pub(crate) fn running(deployment: &Deployment) -> &'static str {
    promotion(deployment).unwrap_or(RUNNING)
}

/// Status description of a new deployment with canaries; `None` without canaries.
fn promotion(deployment: &Deployment) -> Option<&'static str> {
    let mut canaried = deployment
        .task_groups
        .iter()
        .flat_map(|groups| groups.values())
        .filter(|state| state.desired_canaries > 0)
        .peekable();
    canaried.peek()?;
    Some(if canaried.all(|state| state.auto_promote) { PROMOTES_ITSELF } else { WAITS_FOR_PROMOTION })
}
