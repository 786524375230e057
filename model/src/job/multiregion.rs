//! Jobs of several regions: what one region runs of such a job, and how `unblock` moves its part of a roll-out on. The
//! order in which regions start and finish is decided in the scheduler.

use crate::{Deployment, DeploymentStatus, Job, JobType, Multiregion, Str};

/// Beginning of the description of a deployment that failed because its version of the job did not reach every region.
pub const INCOMPLETE: &str = "Failed because a peer region does not have this version of the job";

/// Effect of a region's failed deployment on the deployments of the other regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailure {
    /// The empty word: regions that have not started fail, too; the others stay blocked until an operator unblocks
    /// them.
    #[default]
    FailFollowing,
    /// `fail_all`: all regions fail.
    FailAll,
    /// `fail_local`: no other region fails.
    FailLocal,
}

impl OnFailure {
    /// The meaning of a word of the `strategy` block; `None` for an unknown word.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "" => Some(Self::FailFollowing),
            "fail_all" => Some(Self::FailAll),
            "fail_local" => Some(Self::FailLocal),
            _ => None,
        }
    }
}

impl Multiregion {
    /// Names of the regions, in order.
    pub fn names(&self) -> impl Iterator<Item = &Str> {
        self.regions.iter().flatten().map(|region| &region.name)
    }

    /// Number of regions that may roll out at a time; `None`: all of them.
    pub fn max_parallel(&self) -> Option<usize> {
        let max = self.strategy.as_ref().map_or(0, |strategy| strategy.max_parallel);
        usize::try_from(max).ok().filter(|max| *max > 0)
    }

    /// Effect of a region's failure. Admission refuses unknown words; an older row with one counts as without.
    pub fn on_failure(&self) -> OnFailure {
        let word = self.strategy.as_ref().map_or("", |strategy| strategy.on_failure.as_str());
        OnFailure::of(word).unwrap_or_default()
    }
}

impl Job {
    /// Names of the job's regions, in order; none for a job without a multiregion block.
    pub fn region_names(&self) -> impl Iterator<Item = &Str> {
        self.multiregion.iter().flat_map(Multiregion::names)
    }

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
    /// Whether it failed because its version of the job did not reach every region.
    pub fn is_incomplete(&self) -> bool {
        self.status == DeploymentStatus::Failed && self.status_description.starts_with(INCOMPLETE)
    }

    /// The status to which an operator's `unblock` moves a multiregion deployment, with its description, whatever the
    /// other regions do; `None` if it waits for nothing. An `initializing` deployment has to become `pending` first, so
    /// that its groups are stored before it starts.
    pub fn unblocked(&self) -> Option<(DeploymentStatus, &'static str)> {
        let ended = (DeploymentStatus::Successful, "Deployment completed successfully");
        match self.status {
            _ if !self.is_multiregion => None,
            DeploymentStatus::Pending => Some((DeploymentStatus::Running, "Deployment is running")),
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
        use DeploymentStatus::*;
        let deployment = |status| Deployment { status, is_multiregion: true, ..Deployment::default() };
        let next = |status| deployment(status).unblocked().map(|(status, _)| status);
        assert_eq!(next(Initializing), None);
        assert_eq!(next(Pending), Some(Running));
        assert_eq!(next(Running), None);
        assert_eq!(next(Blocked), Some(Successful));
        assert_eq!(next(Unblocking), Some(Successful));
        let single = Deployment { status: Pending, ..Deployment::default() };
        assert_eq!(single.unblocked(), None);
    }
}
