//! Older versions of a job, which its groups keep until the canaries of the new version are promoted: allocations that
//! are lost or fail meanwhile are replaced in the version that they had.

use std::collections::BTreeMap;
use std::sync::Arc;

use songline_model::{Deployment, DeploymentId, DeploymentState, Job, Str};
use songline_projections::State;

use super::stack::Stack;
use crate::feasible::Eligibility;
use crate::seed::Seed;

/// Branch of an attempt's seed for the order of the nodes of older versions.
const SEED_OF_OLDER: u64 = 4;

/// The stored versions of the attempt's job, with a stack for each one that is placed.
pub(super) struct Older<'a> {
    view: &'a State,
    versions: &'a [Arc<Job>],
    stacks: BTreeMap<u64, Stack<'a>>,
    seed: Seed,
}

/// The version of the job that an allocation runs.
#[derive(Clone)]
pub(super) struct Version<'a> {
    pub job: &'a Arc<Job>,
    /// The deployment that the allocation belongs to.
    pub deployment_id: Option<DeploymentId>,
}

impl<'a> Older<'a> {
    pub fn new(view: &'a State, versions: &'a [Arc<Job>], seed: &Seed) -> Self {
        Self { view, versions, stacks: BTreeMap::new(), seed: seed.branch(SEED_OF_OLDER) }
    }

    /// The version for the replacement of an allocation of the version `least`: that of the newest deployment whose
    /// canaries of the group are promoted, or that had none. Without one, it is the version `least` itself, if it has
    /// no update block. `None`: there is no such version, or it is older than `least` or lacks the group.
    pub fn version(&self, current: &'a Arc<Job>, group: &Str, least: u64) -> Option<Version<'a>> {
        let deployments = self.view.deployments_of_job(&current.namespace, &current.id);
        let newest = deployments
            .filter(|deployment| deployment.job_create_index == current.create_index && settled(deployment, group))
            .max_by_key(|deployment| deployment.job_version);
        let found = match newest {
            Some(deployment) => {
                Version { job: self.stored(deployment.job_version)?, deployment_id: Some(deployment.id) }
            }
            None => {
                let job = self.stored(least).filter(|job| job.update.max_parallel == 0)?;
                Version { job, deployment_id: None }
            }
        };
        (found.job.version >= least && found.job.group(group).is_some()).then_some(found)
    }

    fn stored(&self, version: u64) -> Option<&'a Arc<Job>> {
        self.versions.iter().find(|job| job.version == version)
    }

    /// Runs `place` with the stack of an older version, which sees what the plan has changed so far and adds to it.
    pub fn with_stack<T>(
        &mut self,
        job: &'a Arc<Job>,
        current: &mut Stack<'a>,
        place: impl FnOnce(&mut Stack<'a>) -> T,
    ) -> T {
        let (view, seed) = (self.view, &self.seed);
        let stack = self.stacks.entry(job.version).or_insert_with(|| Stack::new(view, job, seed.branch(job.version)));
        stack.exchange_plan(current);
        let result = place(stack);
        stack.exchange_plan(current);
        result
    }

    /// The class eligibility that each placed version found.
    pub fn eligibilities(&self) -> impl Iterator<Item = &Eligibility> {
        self.stacks.values().map(|stack| &stack.eligibility)
    }
}

/// Whether the deployment's group waits for no promotion.
fn settled(deployment: &Deployment, group: &Str) -> bool {
    let state = deployment.task_groups.as_ref().and_then(|groups| groups.get(group));
    state.is_some_and(|state: &DeploymentState| state.promoted || state.desired_canaries == 0)
}
