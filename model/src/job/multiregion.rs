//! Jobs of several regions: what one region runs of such a job, and when its part of a roll-out moves on. Telling the
//! other regions is not here.

use crate::{Deployment, DeploymentStatus, Job, JobType};

/// The other regions of a multiregion job, as far as one region knows them.
pub trait Peers {
    /// Whether regions that come after this one still wait for it to let them finish.
    fn wait_for_this_region(&self, deployment: &Deployment) -> bool;
}

/// No other region can be reached: each one's part of a roll-out is moved on by hand.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPeers;

impl Peers for NoPeers {
    fn wait_for_this_region(&self, _: &Deployment) -> bool {
        false
    }
}

impl Job {
    /// Gives the job what its multiregion block says for a region: count of groups without one, datacenters, node pool
    /// and meta. False: the job has a multiregion block that does not name the region.
    pub fn localize(&mut self, region: &str) -> bool {
        if !self.is_multiregion() {
            return true;
        }
        let regions = self.multiregion.iter().flat_map(|multiregion| multiregion.regions.iter().flatten());
        let Some(own) = regions.into_iter().find(|own| own.name == *region).cloned() else { return false };
        for group in self.task_groups.iter_mut().flatten().filter(|group| group.count == 0) {
            group.count = own.count;
        }
        if own.datacenters.as_ref().is_some_and(|datacenters| !datacenters.is_empty()) {
            self.datacenters = own.datacenters;
        }
        if !own.node_pool.is_empty() {
            self.node_pool = own.node_pool.into();
        }
        if let Some(meta) = own.meta.filter(|meta| !meta.is_empty()) {
            self.meta.get_or_insert_default().extend(meta);
        }
        true
    }

    /// Whether the registration of the job creates its deployment, which waits until the other regions let it start.
    /// Jobs of types without deployments do not wait.
    pub fn waits_for_regions(&self) -> bool {
        let has_updates =
            |group: &crate::TaskGroup| group.update.as_ref().is_some_and(|update| update.max_parallel > 0);
        self.is_multiregion() && self.kind == JobType::Service && self.groups().any(has_updates)
    }
}

impl Deployment {
    /// The status to which `unblock` moves a multiregion deployment, with its description; `None` if it waits for
    /// nothing. An `initializing` deployment has to become `pending` first, so that its groups are stored before it starts.
    pub fn unblocked(&self, peers: &dyn Peers) -> Option<(DeploymentStatus, &'static str)> {
        let ended = (DeploymentStatus::Successful, "Deployment completed successfully");
        match self.status {
            _ if !self.is_multiregion => None,
            DeploymentStatus::Pending => Some((DeploymentStatus::Running, "Deployment is running")),
            DeploymentStatus::Blocked if peers.wait_for_this_region(self) => {
                Some((DeploymentStatus::Unblocking, "Deployment is unblocking remaining regions"))
            }
            DeploymentStatus::Blocked | DeploymentStatus::Unblocking => Some(ended),
            DeploymentStatus::Initializing
            | DeploymentStatus::Running
            | DeploymentStatus::Paused
            | DeploymentStatus::Successful
            | DeploymentStatus::Failed
            | DeploymentStatus::Cancelled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Multiregion, MultiregionRegion, TaskGroup};

    fn job() -> Job {
        let region = |name: &str, count, datacenter: &str| MultiregionRegion {
            name: name.into(),
            count,
            datacenters: Some(vec![datacenter.into()]),
            meta: Some([("zone".into(), name.into())].into()),
            ..MultiregionRegion::default()
        };
        let group = |name: &str, count| TaskGroup { name: name.into(), count, ..TaskGroup::default() };
        Job {
            datacenters: Some(vec!["*".into()]),
            meta: Some([("team".into(), "a".into())].into()),
            task_groups: Some(vec![group("web", 0), group("api", 4)]),
            multiregion: Some(Multiregion {
                regions: Some(vec![region("west", 2, "west-1"), region("east", 3, "east-1")]),
                strategy: None,
            }),
            ..Job::default()
        }
    }

    #[test]
    fn region_gives_its_count_datacenters_and_meta_to_the_job() {
        let mut east = job();
        assert!(east.localize("east"));
        let counts: Vec<_> = east.groups().map(|group| group.count).collect();
        assert_eq!(counts, [3, 4], "a group's own count stands");
        assert_eq!(east.datacenters, Some(vec!["east-1".into()]));
        assert_eq!(east.meta, Some([("team".into(), "a".into()), ("zone".into(), "east".into())].into()));
    }

    #[test]
    fn job_of_other_regions_is_not_for_this_one() {
        assert!(!job().localize("north"));
        assert!(Job::default().localize("north"), "a job without regions is for every one");
    }

    #[test]
    fn unblock_moves_a_waiting_deployment_on_and_no_other() {
        struct Waiting;
        impl Peers for Waiting {
            fn wait_for_this_region(&self, _: &Deployment) -> bool {
                true
            }
        }
        use DeploymentStatus::*;
        let deployment = |status| Deployment { status, is_multiregion: true, ..Deployment::default() };
        let next = |status, peers: &dyn Peers| deployment(status).unblocked(peers).map(|(status, _)| status);
        assert_eq!(next(Initializing, &NoPeers), None);
        assert_eq!(next(Pending, &NoPeers), Some(Running));
        assert_eq!(next(Running, &NoPeers), None);
        assert_eq!(next(Blocked, &NoPeers), Some(Successful));
        assert_eq!(next(Blocked, &Waiting), Some(Unblocking));
        assert_eq!(next(Unblocking, &Waiting), Some(Successful));
        let single = Deployment { status: Pending, ..Deployment::default() };
        assert_eq!(single.unblocked(&NoPeers), None);
    }
}
