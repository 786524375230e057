//! Follows the deployments of multiregion jobs: which parts of other regions the shell has to read, and the steps of
//! this region's deployments that follow from them. A step is decided in `decision`; the outbox writes it.

mod decision;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use songline_model::{
    Deployment, DeploymentId, DeploymentStatus, DeploymentStatusUpdate, INCOMPLETE, Job, JobKey, Str,
};
use songline_projections::{Change, State};

pub use decision::{Part, Registered, Step, decide};

use super::deployments::{Effect, fail};
use crate::reconcile::running;

const UNBLOCKING: &str = "Deployment is unblocking remaining regions";
const SUCCESSFUL: &str = "Deployment completed successfully";
const PEER_FAILED: &str = "Failed because of an error in peer region";

/// Part of another region that the shell has to follow: its deployment of the same version of the same job. Its news go
/// to [`Multiregion::on_heard`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// This region's deployment.
    pub deployment: DeploymentId,
    /// Name of the other region.
    pub region: Str,
    /// The job, in both regions.
    pub job: JobKey,
    /// Version of the job, in both regions.
    pub version: u64,
}

/// This region's active deployments of multiregion jobs, and what the other regions have said about theirs.
#[derive(Debug, Default)]
pub struct Multiregion {
    heard: BTreeMap<DeploymentId, BTreeMap<Str, Part>>,
    /// Deployments to decide about.
    due: BTreeSet<DeploymentId>,
}

impl Multiregion {
    /// A machine without deployments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes up the active deployments of the tables; every other region is unheard. A new leader calls this.
    pub fn restore(&mut self, view: &State) {
        let active = view.deployments().filter(|row| is_followed(row)).map(|row| row.id);
        self.heard = active.map(|id| (id, BTreeMap::new())).collect();
        self.due = self.heard.keys().copied().collect();
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes changed deployments. Returns whether the parts to follow may have changed.
    pub fn on_changes(&mut self, changes: &[Change]) -> bool {
        let mut changed = false;
        for change in changes {
            match change {
                Change::Deployment { after: Some(row), .. } if is_followed(row) => {
                    self.due.insert(row.id);
                    self.heard.entry(row.id).or_insert_with(|| {
                        changed = true;
                        BTreeMap::new()
                    });
                }
                Change::Deployment { before: Some(row), .. } => {
                    self.due.remove(&row.id);
                    changed |= self.heard.remove(&row.id).is_some();
                }
                _ => {}
            }
        }
        changed
    }

    /// Takes what another region has said. Returns whether it is news.
    pub fn on_heard(&mut self, peer: &Peer, part: Part) -> bool {
        let Some(heard) = self.heard.get_mut(&peer.deployment) else { return false };
        let is_news = heard.insert(peer.region.clone(), part) != Some(part);
        if is_news {
            self.due.insert(peer.deployment);
        }
        is_news
    }

    /// Makes a deployment due, because a decision about it was put off.
    pub fn look_again(&mut self, id: DeploymentId) {
        if self.heard.contains_key(&id) {
            self.due.insert(id);
        }
    }

    /// The parts to follow from the region `own`.
    pub fn peers(&self, view: &State, own: &str) -> BTreeSet<Peer> {
        let mut peers = BTreeSet::new();
        for row in self.heard.keys().filter_map(|id| view.deployment(*id)) {
            let Some(job) = job_of(view, row) else { continue };
            let others = job.region_names().filter(|name| **name != own);
            peers.extend(others.map(|region| Peer {
                deployment: row.id,
                region: region.clone(),
                job: job.key(),
                version: row.job_version,
            }));
        }
        peers
    }

    /// The steps that the deployments of the region `own` have to take now.
    pub fn take_due(&mut self, view: &State, own: &str) -> Vec<Effect> {
        let due = std::mem::take(&mut self.due);
        due.into_iter().filter_map(|id| self.step(view, id, own)).collect()
    }

    fn step(&self, view: &State, id: DeploymentId, own: &str) -> Option<Effect> {
        let row = view.deployment(id)?;
        let multiregion = job_of(view, row)?.multiregion.as_ref()?;
        let heard = self.heard.get(&id)?;
        let part = |name: &Str| match name == own {
            true => Part::Deployment(row.status),
            false => heard.get(name).copied().unwrap_or(Part::Unheard),
        };
        let parts: Vec<Part> = multiregion.names().map(part).collect();
        let place = multiregion.names().position(|name| name == own)?;
        Some(effect(view, row, decide(multiregion, place, &parts)?))
    }
}

fn is_followed(row: &Deployment) -> bool {
    row.is_multiregion && row.is_active()
}

/// The version of the job that a deployment rolls out.
fn job_of<'v>(view: &'v State, row: &Deployment) -> Option<&'v Arc<Job>> {
    view.job_version(&row.namespace, &row.job_id, row.job_version)
}

fn effect(view: &State, row: &Arc<Deployment>, step: Step) -> Effect {
    let reverts = || row.task_groups.iter().flatten().any(|(_, group)| group.auto_revert);
    let (status, description) = match step {
        Step::Run => (DeploymentStatus::Running, running(row)),
        Step::Unblock => (DeploymentStatus::Unblocking, UNBLOCKING),
        Step::Finish => (DeploymentStatus::Successful, SUCCESSFUL),
        Step::Fail => return fail(view, row, PEER_FAILED, reverts()),
        Step::GiveUp => return fail(view, row, INCOMPLETE, reverts()),
    };
    let update = DeploymentStatusUpdate { deployment_id: row.id, status, status_description: description.into() };
    Effect::Move { update, deployment: Arc::clone(row) }
}

#[cfg(test)]
mod tests;
