//! The next step of one region's deployment of a multiregion job, from the deployments of all its regions.
//!
//! Every region decides for its own deployment alone, by the same rules, so no two leaders write one row. What a region
//! knows of the others may be old. The rules allow for that: a region counts every region before it that is not known
//! to be complete, so that there are never more than `max_parallel` at a time.

use songline_model::{DeploymentStatus, Multiregion, OnFailure};

/// One region's part of a roll-out: its deployment of one version of the job, as another region sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The region has not answered yet.
    Unheard,
    /// The region does not have this version of the job, or the job, and had no newer version.
    Unregistered,
    /// The region's deployment of the version has this status.
    Deployment(DeploymentStatus),
    /// The region has the version and no deployment of it: the deployment is garbage-collected, or none was needed.
    Done,
    /// The region has left the version for a newer one.
    Superseded,
    /// The region has been without the version for longer than any registration takes.
    Absent,
    /// The region's job is stopped or gone.
    Stopped,
}

/// A version of a region's job, as far as its part of a roll-out depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// The newest version.
    pub version: u64,
    /// Whether the job is stopped.
    pub stop: bool,
}

/// A step of a region's deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// From `pending` to `running`.
    Run,
    /// From `blocked` to `unblocking`: all regions are complete, and this one is the last in order.
    Unblock,
    /// To `successful`.
    Finish,
    /// To `failed`, because another region failed.
    Fail,
    /// To `failed`, because another region does not have the version, and does not get it any more.
    GiveUp,
}

impl Part {
    /// The part of a region in the roll-out of `version`. `deployment` is the status of its newest deployment of the
    /// version, `job` its job.
    pub fn of(version: u64, deployment: Option<DeploymentStatus>, job: Option<Registered>) -> Self {
        let Some(status) = deployment else {
            return match job {
                None => Self::Unregistered,
                Some(job) if job.version < version => Self::Unregistered,
                Some(job) if job.stop => Self::Stopped,
                Some(job) if job.version == version => Self::Done,
                Some(_) => Self::Superseded,
            };
        };
        match (status, job) {
            (DeploymentStatus::Cancelled, Some(job)) if job.version > version && !job.stop => Self::Superseded,
            (DeploymentStatus::Cancelled, _) => Self::Stopped,
            (status, _) => Self::Deployment(status),
        }
    }

    /// Whether the region has failed.
    fn has_failed(self) -> bool {
        self == Self::Deployment(DeploymentStatus::Failed)
    }

    /// Whether the region's allocations are not all placed and healthy yet.
    fn is_rolling_out(self) -> bool {
        match self {
            Self::Deployment(status) => match status {
                DeploymentStatus::Initializing
                | DeploymentStatus::Pending
                | DeploymentStatus::Running
                | DeploymentStatus::Paused => true,
                DeploymentStatus::Blocked
                | DeploymentStatus::Unblocking
                | DeploymentStatus::Successful
                | DeploymentStatus::Failed
                | DeploymentStatus::Cancelled => false,
            },
            Self::Unheard | Self::Unregistered | Self::Done | Self::Superseded | Self::Absent | Self::Stopped => false,
        }
    }

    /// Whether the region does not have the version, so that no other may start it.
    pub fn lacks_version(self) -> bool {
        match self {
            Self::Unregistered | Self::Superseded | Self::Absent => true,
            Self::Unheard | Self::Deployment(_) | Self::Done | Self::Stopped => false,
        }
    }

    /// Whether the region is complete and waits for others.
    fn is_waiting(self) -> bool {
        matches!(self, Self::Deployment(DeploymentStatus::Blocked | DeploymentStatus::Unblocking))
    }

    /// Whether the end of the roll-out depends on the region. One that failed, stopped, or left the version for another
    /// does not hold the others.
    fn takes_part(self) -> bool {
        match self {
            Self::Deployment(DeploymentStatus::Failed | DeploymentStatus::Cancelled) => false,
            Self::Deployment(_) | Self::Unheard | Self::Done => true,
            Self::Unregistered | Self::Superseded | Self::Absent | Self::Stopped => false,
        }
    }
}

/// The next step of the region at place `own` among `parts`, which are in the order of the multiregion block. `None`:
/// the deployment has to wait, or goes on without the others.
pub fn decide(multiregion: &Multiregion, own: usize, parts: &[Part]) -> Option<Step> {
    let Some(Part::Deployment(status)) = parts.get(own).copied() else { return None };
    let on_failure = multiregion.on_failure();
    let failed = others(own, parts).any(|(_, part)| part.has_failed());
    match status {
        // The scheduler makes it `pending` when its groups are stored.
        DeploymentStatus::Initializing => None,
        DeploymentStatus::Pending if failed && on_failure != OnFailure::FailLocal => Some(Step::Fail),
        DeploymentStatus::Pending if others(own, parts).any(|(_, part)| part == Part::Absent) => Some(Step::GiveUp),
        DeploymentStatus::Pending => may_start(multiregion, own, parts).then_some(Step::Run),
        DeploymentStatus::Running
        | DeploymentStatus::Paused
        | DeploymentStatus::Blocked
        | DeploymentStatus::Unblocking
            if failed && on_failure == OnFailure::FailAll =>
        {
            Some(Step::Fail)
        }
        // The scheduler makes it `blocked` when it is complete.
        DeploymentStatus::Running | DeploymentStatus::Paused => None,
        DeploymentStatus::Blocked | DeploymentStatus::Unblocking
            if failed && on_failure == OnFailure::FailFollowing =>
        {
            None
        }
        DeploymentStatus::Blocked => end(own, parts),
        // Announced already: what remains is its own end.
        DeploymentStatus::Unblocking => end(own, parts).filter(|step| *step == Step::Finish),
        DeploymentStatus::Successful | DeploymentStatus::Failed | DeploymentStatus::Cancelled => None,
    }
}

fn others(own: usize, parts: &[Part]) -> impl Iterator<Item = (usize, Part)> {
    parts.iter().copied().enumerate().filter(move |(place, _)| *place != own)
}

/// Whether every region has accepted the version, and there is room for this one.
fn may_start(multiregion: &Multiregion, own: usize, parts: &[Part]) -> bool {
    let accepted = others(own, parts).all(|(_, part)| part != Part::Unheard && !part.lacks_version());
    let before = parts.iter().take(own).filter(|part| part.is_rolling_out()).count();
    accepted && multiregion.max_parallel().is_none_or(|max| before < max)
}

/// The step of a complete region. The last region in order announces the end when all are complete, the others finish
/// upon that, and then the last one does.
fn end(own: usize, parts: &[Part]) -> Option<Step> {
    if others(own, parts).any(|(_, part)| part == Part::Unheard || part.is_rolling_out()) {
        return None;
    }
    let last = others(own, parts).filter(|(_, part)| part.takes_part()).last().filter(|(place, _)| *place > own);
    match last {
        Some((_, Part::Deployment(DeploymentStatus::Blocked))) => None,
        Some(_) => Some(Step::Finish),
        None if others(own, parts).any(|(_, part)| part.is_waiting()) => Some(Step::Unblock),
        None => Some(Step::Finish),
    }
}

#[cfg(test)]
mod tests;
