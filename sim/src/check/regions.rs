//! Jobs of several regions: a version is the same in all of them, no region starts it before all have it, no more than
//! `max_parallel` regions roll it out at once, and a region fails, waits and ends as the others and the strategy say.
//!
//! [`Rollouts`] judges each step as it is made. [`all_have_ended`] judges regions at rest.

use std::collections::BTreeMap;

use songline_model::{DeploymentStatus, OnFailure};

/// A registration of a job, as one region has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Identifies the registration: what its user wrote.
    pub id: String,
    /// Names of the job's regions, in order.
    pub regions: Vec<String>,
    /// Number of regions that may roll out at a time; `None`: all of them.
    pub max_parallel: Option<usize>,
    /// Effect of a region's failure on the others.
    pub on_failure: OnFailure,
}

/// A new status of a region's deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The region.
    pub region: String,
    /// The job.
    pub job: String,
    /// The version of the job that it rolls out.
    pub version: u64,
    /// The status.
    pub status: DeploymentStatus,
    /// Reason of a failure.
    pub why: Why,
}

/// Reason why a region's deployment failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Why {
    /// It did not fail, or by itself.
    #[default]
    Own,
    /// Another region failed.
    Peer,
    /// Another region does not have the version.
    Incomplete,
}

/// A region's part of a job at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The newest version in the region.
    pub version: u64,
    /// Whether the job is stopped there.
    pub is_stopped: bool,
    /// Status of the newest deployment of that version, if it has one.
    pub status: Option<DeploymentStatus>,
    /// Reason of its failure.
    pub why: Why,
}

/// A job of several regions at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobAtRest {
    /// The job.
    pub job: String,
    /// The registration of the newest version.
    pub registration: Registration,
    /// The parts of the job's regions; `None`: the region does not have the job.
    pub parts: BTreeMap<String, Option<Part>>,
}

/// A fault in the roll-outs of jobs of several regions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegionsError {
    /// Two regions have different jobs under one version.
    #[error("version {version} of {job} is {one} in one region and {other} in {region}")]
    TwoJobs {
        /// The job.
        job: String,
        /// The version.
        version: u64,
        /// A registration.
        one: String,
        /// Another one.
        other: String,
        /// The region that has the other one.
        region: String,
    },
    /// A region rolls out a version that another region does not have.
    #[error("{region} starts version {version} of {job}, and {other} does not have it")]
    StartedAlone {
        /// The region.
        region: String,
        /// The job.
        job: String,
        /// The version.
        version: u64,
        /// The region without the version.
        other: String,
    },
    /// More regions than permitted roll out a version.
    #[error("{regions:?} roll out version {version} of {job} at once, and {max_parallel} may")]
    TooManyRegions {
        /// The regions.
        regions: Vec<String>,
        /// The job.
        job: String,
        /// The version.
        version: u64,
        /// Permitted number.
        max_parallel: usize,
    },
    /// A region failed with another one, and the strategy does not say so or none has failed.
    #[error("{region} fails version {version} of {job} because of a peer, and {why}")]
    FailedInVain {
        /// The region.
        region: String,
        /// The job.
        job: String,
        /// The version.
        version: u64,
        /// The reason why it must not.
        why: &'static str,
    },
    /// A region gave a version up that all regions have.
    #[error("{region} gives version {version} of {job} up, and all regions have it")]
    GaveUpInVain {
        /// The region.
        region: String,
        /// The job.
        job: String,
        /// The version.
        version: u64,
    },
    /// A region ends successfully and others are not complete.
    #[error("{region} finishes version {version} of {job} while {other} is {status}")]
    FinishedEarly {
        /// The region.
        region: String,
        /// The job.
        job: String,
        /// The version.
        version: u64,
        /// A region that is not complete.
        other: String,
        /// Its status.
        status: DeploymentStatus,
    },
    /// Regions at rest have different versions of a job.
    #[error("{job} is not the same in all of its regions: {parts}")]
    Torn {
        /// The job.
        job: String,
        /// The versions.
        parts: String,
    },
    /// A region's deployment does not end.
    #[error("the deployment of {job} in {region} is still {status}: {parts}")]
    Stuck {
        /// The job.
        job: String,
        /// The region.
        region: String,
        /// Its status.
        status: DeploymentStatus,
        /// All parts.
        parts: String,
    },
    /// A region ended in another way than the failure of another one demands.
    #[error("the deployment of {job} in {region} is {status} although its strategy is {on_failure:?}: {parts}")]
    WrongEnd {
        /// The job.
        job: String,
        /// The region.
        region: String,
        /// Its status.
        status: DeploymentStatus,
        /// The strategy.
        on_failure: OnFailure,
        /// All parts.
        parts: String,
    },
}

/// A version of a job in its regions.
#[derive(Debug, Clone)]
struct Version {
    registration: Registration,
    /// Regions that have the version, with the status of its deployment there, if there is one.
    statuses: BTreeMap<String, Option<DeploymentStatus>>,
}

/// Newest version of a job in a region.
#[derive(Debug, Clone, Copy)]
struct Newest {
    version: u64,
    is_stopped: bool,
}

/// The steps of all jobs of several regions.
#[derive(Debug, Clone, Default)]
pub struct Rollouts {
    versions: BTreeMap<(String, u64), Version>,
    newest: BTreeMap<(String, String), Newest>,
}

impl Rollouts {
    /// Records that a region has a version of a job. An error when another region has something else under it.
    pub fn registered(
        &mut self,
        region: &str,
        job: &str,
        version: u64,
        registration: Registration,
    ) -> Result<(), RegionsError> {
        self.newest.insert((job.to_owned(), region.to_owned()), Newest { version, is_stopped: false });
        let entry = self.versions.entry((job.to_owned(), version));
        let known = entry.or_insert_with(|| Version { registration: registration.clone(), statuses: BTreeMap::new() });
        known.statuses.entry(region.to_owned()).or_default();
        if known.registration == registration {
            return Ok(());
        }
        Err(RegionsError::TwoJobs {
            job: job.to_owned(),
            version,
            one: known.registration.id.clone(),
            other: registration.id,
            region: region.to_owned(),
        })
    }

    /// Records that a region's job is stopped, which gives it another version.
    pub fn stopped(&mut self, region: &str, job: &str, version: u64) {
        self.newest.insert((job.to_owned(), region.to_owned()), Newest { version, is_stopped: true });
    }

    /// Records a region's step. An error when the other regions do not permit it.
    pub fn moved(&mut self, step: &Step) -> Result<(), RegionsError> {
        let Step { region, job, version, .. } = step;
        let Some(rollout) = self.versions.get_mut(&(job.clone(), *version)) else { return Ok(()) };
        let before = rollout.statuses.insert(region.clone(), Some(step.status)).flatten();
        // A deployment that the scheduler makes by itself, after a change of the count, waits for no region.
        let waited = matches!(before, Some(DeploymentStatus::Initializing | DeploymentStatus::Pending));
        match step.status {
            DeploymentStatus::Running if waited => self.may_start(step),
            DeploymentStatus::Failed if before != Some(step.status) => match step.why {
                Why::Own => Ok(()),
                Why::Peer => self.may_fail(step, before),
                Why::Incomplete => self.may_give_up(step),
            },
            DeploymentStatus::Successful if before != Some(step.status) => self.may_finish(step),
            DeploymentStatus::Initializing
            | DeploymentStatus::Pending
            | DeploymentStatus::Running
            | DeploymentStatus::Paused
            | DeploymentStatus::Blocked
            | DeploymentStatus::Unblocking
            | DeploymentStatus::Failed
            | DeploymentStatus::Successful
            | DeploymentStatus::Cancelled => Ok(()),
        }
    }

    /// The job's other regions with the statuses of their deployments.
    fn others<'a>(&'a self, step: &'a Step) -> impl Iterator<Item = (&'a String, Option<DeploymentStatus>)> {
        let rollout = self.versions.get(&(step.job.clone(), step.version));
        let names = rollout.into_iter().flat_map(|rollout| &rollout.registration.regions);
        let others = names.filter(|name| **name != step.region);
        others.map(move |name| (name, rollout.and_then(|rollout| rollout.statuses.get(name).copied().flatten())))
    }

    fn may_start(&self, step: &Step) -> Result<(), RegionsError> {
        let (job, version) = (&step.job, step.version);
        let Some(rollout) = self.versions.get(&(job.clone(), version)) else { return Ok(()) };
        let newest = |name: &String| self.newest.get(&(job.clone(), name.clone()));
        let is_stopped = |name: &String| newest(name).is_some_and(|it| it.is_stopped && it.version >= version);
        let lacks = self.others(step).find(|(name, _)| !rollout.statuses.contains_key(*name) && !is_stopped(name));
        if let Some((other, _)) = lacks {
            return Err(RegionsError::StartedAlone {
                region: step.region.clone(),
                job: job.clone(),
                version,
                other: other.clone(),
            });
        }
        let rolls_out = |status| matches!(status, Some(DeploymentStatus::Running | DeploymentStatus::Paused));
        let regions = rollout.statuses.iter().filter(|(_, status)| rolls_out(**status));
        let regions: Vec<String> = regions.map(|(name, _)| name.clone()).collect();
        match rollout.registration.max_parallel {
            Some(max_parallel) if regions.len() > max_parallel => {
                Err(RegionsError::TooManyRegions { regions, job: job.clone(), version, max_parallel })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn may_fail(&self, step: &Step, before: Option<DeploymentStatus>) -> Result<(), RegionsError> {
        let Some(rollout) = self.versions.get(&(step.job.clone(), step.version)) else { return Ok(()) };
        let had_started = !matches!(before, Some(DeploymentStatus::Initializing | DeploymentStatus::Pending) | None);
        let none_failed = self.others(step).all(|(_, status)| status != Some(DeploymentStatus::Failed));
        let why = match rollout.registration.on_failure {
            _ if none_failed => "none has failed",
            OnFailure::FailLocal => "its strategy lets it go on",
            OnFailure::FailFollowing if had_started => "it had started",
            OnFailure::FailFollowing | OnFailure::FailAll => return Ok(()),
        };
        let (region, job, version) = (step.region.clone(), step.job.clone(), step.version);
        Err(RegionsError::FailedInVain { region, job, version, why })
    }

    fn may_give_up(&self, step: &Step) -> Result<(), RegionsError> {
        let Step { region, job, version, .. } = step.clone();
        let has = |name: &String| {
            let newest = self.newest.get(&(job.clone(), name.clone()));
            newest.is_some_and(|it| it.version == version)
        };
        match self.others(step).all(|(name, _)| has(name)) {
            true => Err(RegionsError::GaveUpInVain { region, job, version }),
            false => Ok(()),
        }
    }

    fn may_finish(&self, step: &Step) -> Result<(), RegionsError> {
        let newest = |name: &String| self.newest.get(&(step.job.clone(), name.clone()));
        let rolls_out = |(name, status): (&String, Option<DeploymentStatus>)| {
            let status = status?;
            let is_over = newest(name).is_none_or(|it| it.is_stopped || it.version != step.version);
            let counts = matches!(
                status,
                DeploymentStatus::Initializing
                    | DeploymentStatus::Pending
                    | DeploymentStatus::Running
                    | DeploymentStatus::Paused
            );
            (counts && !is_over).then(|| (name.clone(), status))
        };
        match self.others(step).find_map(rolls_out) {
            None => Ok(()),
            Some((other, status)) => Err(RegionsError::FinishedEarly {
                region: step.region.clone(),
                job: step.job.clone(),
                version: step.version,
                other,
                status,
            }),
        }
    }
}

impl JobAtRest {
    /// The parts as text.
    fn told(&self) -> String {
        let part = |(name, part): (&String, &Option<Part>)| match part {
            None => format!("{name} has none"),
            Some(Part { version, is_stopped: true, .. }) => format!("{name} v{version} stopped"),
            Some(Part { version, status, why, .. }) => {
                let status = status.map_or_else(|| "without a deployment".to_owned(), |status| status.to_string());
                let with = match why {
                    Why::Own => "",
                    Why::Peer => " with a peer",
                    Why::Incomplete => " as incomplete",
                };
                format!("{name} v{version} {status}{with}")
            }
        };
        self.parts.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

/// Checks that the jobs of several regions are the same in all regions, and that no region waits for another.
///
/// # Errors
/// The first job that is not at its end, with all of its parts.
pub fn all_have_ended(jobs: &[JobAtRest]) -> Result<(), RegionsError> {
    jobs.iter().try_for_each(has_ended)
}

fn has_ended(job: &JobAtRest) -> Result<(), RegionsError> {
    if job.parts.values().all(|part| part.as_ref().is_none_or(|part| part.is_stopped)) {
        return Ok(());
    }
    let mut versions = job.parts.values().map(|part| part.as_ref().map(|part| (part.version, part.is_stopped)));
    let first = versions.next();
    if versions.any(|other| Some(other) != first) {
        return match is_given_up(job) {
            true => Ok(()),
            false => Err(RegionsError::Torn { job: job.job.clone(), parts: job.told() }),
        };
    }
    let parts: Vec<(&String, DeploymentStatus, Why)> = job
        .parts
        .iter()
        .filter_map(|(name, part)| part.as_ref().map(|part| (name, part)))
        .filter_map(|(name, part)| Some((name, part.status?, part.why)))
        .collect();
    let on_failure = job.registration.on_failure;
    let by_itself = parts.iter().any(|(_, status, why)| *status == DeploymentStatus::Failed && *why != Why::Peer);
    for (region, status, _) in parts.iter().copied() {
        let is_right = match (on_failure, by_itself) {
            (_, false) => status == DeploymentStatus::Successful,
            (OnFailure::FailAll, true) => status == DeploymentStatus::Failed,
            (OnFailure::FailLocal, true) => {
                matches!(status, DeploymentStatus::Failed | DeploymentStatus::Successful)
            }
            (OnFailure::FailFollowing, true) => matches!(status, DeploymentStatus::Failed | DeploymentStatus::Blocked),
        };
        if is_right {
            continue;
        }
        let (job, region, parts) = (job.job.clone(), region.clone(), job.told());
        return Err(match status.is_active() {
            true => RegionsError::Stuck { job, region, status, parts },
            false => RegionsError::WrongEnd { job, region, status, on_failure, parts },
        });
    }
    Ok(())
}

/// Whether the newest version, which some regions do not have, has failed where it is, and nothing waits for it.
fn is_given_up(job: &JobAtRest) -> bool {
    let parts = || job.parts.values().flatten();
    let newest = parts().map(|part| part.version).max();
    let has_failed = |part: &Part| part.status == Some(DeploymentStatus::Failed) && part.why != Why::Own;
    parts().all(|part| match Some(part.version) == newest && !part.is_stopped {
        true => has_failed(part),
        false => part.status.is_none_or(|status| !status.is_active()),
    })
}

#[cfg(test)]
mod tests;
