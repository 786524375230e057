//! Automatic promotion of canaries, and failures of several groups.

use std::sync::Arc;

use songline_commands::{
    Actor, ApplyPlan, Command, Envelope, PromoteDeployment, RegisterJob, SetDeploymentAllocHealth,
    UpdateDeploymentStatus,
};
use songline_model::{
    AllocDeploymentStatus, AllocId, Allocation, Deployment, DeploymentId, DeploymentState, DeploymentStatus,
    DeploymentStatusUpdate, Job, JobType, NodeId, Str, TaskGroup, Time,
};
use songline_projections::{State, apply};

use super::{Deployments, Effect};

const DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([4; 16]);

fn canary(n: u8) -> AllocId {
    AllocId::from_bytes([n; 16])
}

struct Rollout(State);

impl Rollout {
    /// A job with two groups: `a` wants two canaries, `b` `canaries_of_b` and reverts the job when it fails. All
    /// canaries are placed.
    fn new(auto_promote: [bool; 2], canaries_of_b: i64) -> Self {
        let groups = ["a", "b"].map(|name| TaskGroup { name: name.into(), count: 3, ..TaskGroup::default() });
        let job = Arc::new(Job {
            namespace: "default".into(),
            id: "web".into(),
            kind: JobType::Service,
            task_groups: Some(groups.into()),
            create_index: 1,
            ..Job::default()
        });
        let mut rollout = Self(State::new());
        rollout.apply(RegisterJob { job: Arc::clone(&job), ..RegisterJob::default() });
        let state = |auto_promote, desired_canaries| DeploymentState {
            auto_promote,
            desired_canaries,
            desired_total: 3,
            ..DeploymentState::default()
        };
        let b = DeploymentState { auto_revert: true, ..state(auto_promote[1], canaries_of_b) };
        let states = [(Str::new("a"), state(auto_promote[0], 2)), (Str::new("b"), b)];
        let placed = |(n, group): (u8, &str)| {
            Arc::new(Allocation {
                id: canary(n),
                namespace: "default".into(),
                job_id: "web".into(),
                task_group: group.into(),
                node_id: Some(NodeId::from_bytes([1; 16])),
                deployment_id: Some(DEPLOYMENT),
                deployment_status: Some(Arc::new(AllocDeploymentStatus {
                    canary: true,
                    ..AllocDeploymentStatus::default()
                })),
                ..Allocation::default()
            })
        };
        let count_of_b = u8::try_from(canaries_of_b).expect("few canaries");
        let updated =
            [(1, "a"), (2, "a")].into_iter().chain((3..3 + count_of_b).map(|n| (n, "b"))).map(placed).collect();
        let deployment = Deployment {
            id: DEPLOYMENT,
            namespace: "default".into(),
            job_id: "web".into(),
            task_groups: Some(states.into()),
            ..Deployment::default()
        };
        let job = rollout.0.job("default", "web").cloned();
        rollout.apply(ApplyPlan { job, updated, deployment: Some(deployment), ..ApplyPlan::default() });
        rollout
    }

    fn apply(&mut self, command: impl Into<Command>) {
        let index = self.0.raft_index() + 1;
        let applied = apply(&mut self.0, index, &Envelope::new(Time::from_secs(1), Actor::Anonymous, command));
        applied.result.expect("is not refused");
    }

    fn healthy(mut self, canaries: &[u8]) -> Self {
        let healthy = canaries.iter().map(|n| canary(*n)).collect();
        self.apply(SetDeploymentAllocHealth {
            deployment_id: DEPLOYMENT,
            healthy,
            timestamp: Time::from_nanos(5),
            ..SetDeploymentAllocHealth::default()
        });
        self
    }

    fn unhealthy(mut self, canaries: &[u8]) -> Self {
        let unhealthy = canaries.iter().map(|n| canary(*n)).collect();
        self.apply(SetDeploymentAllocHealth {
            deployment_id: DEPLOYMENT,
            unhealthy,
            timestamp: Time::from_nanos(5),
            ..SetDeploymentAllocHealth::default()
        });
        self
    }

    fn effects(&self) -> Vec<Effect> {
        let mut machine = Deployments::new();
        machine.restore(&self.0, Time::from_secs(9));
        machine.on_time(&self.0, Time::from_secs(9))
    }

    fn promotes(&self) -> bool {
        self.effects().iter().any(|effect| matches!(effect, Effect::Promote { .. }))
    }

    fn failure(&self) -> Option<String> {
        self.effects().iter().find_map(|effect| match effect {
            Effect::Fail { update, .. } => Some(update.status_description.to_string()),
            Effect::Promote { .. } | Effect::Advance { .. } | Effect::Move { .. } => None,
        })
    }
}

#[test]
fn canaries_are_auto_promoted_when_all_are_healthy() {
    assert!(!Rollout::new([true, true], 1).promotes());
    assert!(!Rollout::new([true, true], 1).healthy(&[1, 2]).promotes(), "the other group waits");
    assert!(!Rollout::new([true, true], 1).healthy(&[1, 3]).promotes(), "one of two is too few");
    assert!(Rollout::new([true, true], 1).healthy(&[1, 2, 3]).promotes());
}

#[test]
fn auto_promotion_needs_auto_promote_in_every_group_with_canaries() {
    assert!(!Rollout::new([true, false], 1).healthy(&[1, 2, 3]).promotes());
    assert!(Rollout::new([true, false], 0).healthy(&[1, 2]).promotes(), "a group without canaries has no say");
}

#[test]
fn promoted_or_paused_deployment_is_not_auto_promoted() {
    let mut promoted = Rollout::new([true, true], 0).healthy(&[1, 2]);
    promoted.apply(PromoteDeployment { deployment_id: DEPLOYMENT, all: true, ..PromoteDeployment::default() });
    assert!(!promoted.promotes());
    let mut paused = Rollout::new([true, true], 0).healthy(&[1, 2]);
    let update = DeploymentStatusUpdate {
        deployment_id: DEPLOYMENT,
        status: DeploymentStatus::Paused,
        ..DeploymentStatusUpdate::default()
    };
    paused.apply(UpdateDeploymentStatus { update, ..UpdateDeploymentStatus::default() });
    assert!(!paused.promotes());
}

#[test]
fn one_failing_group_with_auto_revert_reverts_the_job() {
    let base = "Failed due to unhealthy allocations";
    assert_eq!(Rollout::new([true, true], 1).unhealthy(&[1]).failure().as_deref(), Some(base));
    let reverted = format!("{base} - no stable job version to auto revert to");
    assert_eq!(Rollout::new([true, true], 1).unhealthy(&[3]).failure(), Some(reverted.clone()));
    assert_eq!(Rollout::new([true, true], 1).unhealthy(&[1, 3]).failure(), Some(reverted), "of two failing groups");
}
