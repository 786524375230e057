//! The machine on tables: what it follows, and the commands of its steps.

use std::sync::Arc;

use songline_commands::{Actor, Command, Envelope, RegisterJob, SetJobStability, UpdateDeploymentStatus};
use songline_model::{
    Deployment, DeploymentId, DeploymentState, DeploymentStatus, DeploymentStatusUpdate, EvalId, Job, JobType,
    MultiregionRegion, Time,
};
use songline_projections::{State, apply};

use super::{Multiregion, Part, Peer};
use crate::leader::deployments;

const DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([4; 16]);

/// The region `east` of a job of three regions.
struct East {
    state: State,
    machine: Multiregion,
}

impl East {
    fn begin() -> Self {
        let region = |name: &str| MultiregionRegion { name: name.into(), ..MultiregionRegion::default() };
        let job = Job {
            namespace: "default".into(),
            id: "web".into(),
            kind: JobType::Service,
            multiregion: Some(songline_model::Multiregion {
                strategy: None,
                regions: Some(["east", "north", "west"].map(region).into()),
            }),
            ..Job::default()
        };
        let deployment = Deployment {
            id: DEPLOYMENT,
            namespace: "default".into(),
            job_id: "web".into(),
            is_multiregion: true,
            status: DeploymentStatus::Initializing,
            ..Deployment::default()
        };
        let mut east = Self { state: State::new(), machine: Multiregion::new() };
        let command = RegisterJob { job: Arc::new(job), deployment: Some(deployment), ..RegisterJob::default() };
        assert!(east.apply(command), "the new deployment has to be followed");
        east
    }

    /// Applies a command. Returns whether the parts to follow may have changed.
    fn apply(&mut self, command: impl Into<Command>) -> bool {
        let index = self.state.raft_index() + 1;
        let applied = apply(&mut self.state, index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command));
        applied.result.expect("is applied");
        self.machine.on_changes(&applied.changes)
    }

    fn set(&mut self, status: DeploymentStatus) -> bool {
        let update = DeploymentStatusUpdate { deployment_id: DEPLOYMENT, status, status_description: "".into() };
        self.apply(UpdateDeploymentStatus { update, ..UpdateDeploymentStatus::default() })
    }

    fn hear(&mut self, region: &str, status: DeploymentStatus) {
        let peer = Peer { deployment: DEPLOYMENT, region: region.into(), job: self.key(), version: 0 };
        self.machine.on_heard(&peer, Part::Deployment(status));
    }

    fn key(&self) -> songline_model::JobKey {
        self.state.job("default", "web").expect("is registered").key()
    }

    /// Applies the steps that are due, and returns the status.
    fn go_on(&mut self) -> String {
        for step in self.machine.take_due(&self.state, "east") {
            let eval = EvalId::from_bytes([7; 16]);
            let (_, command) = deployments::entry(&self.state, step, eval, Time::from_secs(2), 6);
            self.apply(command);
        }
        let row = self.state.deployment(DEPLOYMENT).expect("is there");
        format!("{} {:?}", row.status, row.status_description)
    }
}

#[test]
fn deployment_follows_the_other_regions_from_its_registration_to_its_end() {
    use DeploymentStatus::{Blocked, Initializing, Pending, Unblocking};
    let mut east = East::begin();
    let regions: Vec<_> = east.machine.peers(&east.state, "east").into_iter().map(|peer| peer.region).collect();
    assert_eq!(regions, ["north", "west"]);
    assert!(!east.set(Pending));
    east.hear("north", Initializing);
    assert_eq!(east.go_on(), "pending \"\"", "west has not been heard of");
    east.hear("west", Initializing);
    assert_eq!(east.go_on(), "running \"Deployment is running\"");
    east.set(Blocked);
    east.hear("north", Blocked);
    east.hear("west", Blocked);
    assert_eq!(east.go_on(), "blocked \"\"", "the last region begins to unblock");
    // A new leader has heard nothing yet.
    east.machine = Multiregion::new();
    east.machine.restore(&east.state);
    assert_eq!(east.machine.peers(&east.state, "east").len(), 2);
    east.hear("west", Unblocking);
    assert_eq!(east.go_on(), "blocked \"\"");
    east.hear("north", Blocked);
    assert_eq!(east.go_on(), "successful \"Deployment completed successfully\"");
    assert_eq!(east.machine.peers(&east.state, "east").len(), 0, "it is over");
}

#[test]
fn deployment_that_fails_with_another_region_reverts_the_job() {
    let mut east = East::begin();
    let job = Job::clone(east.state.job("default", "web").expect("is registered"));
    east.apply(SetJobStability { job: job.key(), version: 0, stable: true });
    let group = DeploymentState { auto_revert: true, ..DeploymentState::default() };
    let deployment = Deployment {
        id: DEPLOYMENT,
        namespace: "default".into(),
        job_id: "web".into(),
        is_multiregion: true,
        status: DeploymentStatus::Pending,
        task_groups: Some([("group".into(), group)].into()),
        ..Deployment::default()
    };
    let next = Job { priority: 70, ..job };
    east.apply(RegisterJob { job: Arc::new(next), deployment: Some(deployment), ..RegisterJob::default() });
    east.hear("west", DeploymentStatus::Failed);
    assert_eq!(east.go_on(), "failed \"Failed because of an error in peer region - rolling back to job version 0\"");
    let job = east.state.job("default", "web").map(|job| (job.version, job.priority));
    assert_eq!(job, Some((2, 0)), "the specification of the stable version is the newest one");
}

#[test]
fn deployment_that_has_not_started_fails_with_another_region() {
    let mut east = East::begin();
    east.set(DeploymentStatus::Pending);
    east.hear("west", DeploymentStatus::Failed);
    assert_eq!(east.go_on(), "failed \"Failed because of an error in peer region\"");
}
