//! Automatic promotion of canaries, progress deadlines, and failures of several groups.

use std::sync::Arc;

use songline_commands::{
    Actor, ApplyPlan, Command, Envelope, PromoteDeployment, RegisterJob, SetDeploymentAllocHealth,
    UpdateDeploymentStatus,
};
use songline_model::{
    AllocDeploymentStatus, AllocId, Allocation, Deployment, DeploymentId, DeploymentState, DeploymentStatus,
    DeploymentStatusUpdate, Dur, Job, JobType, NodeId, Str, TaskGroup, Time, UpdateStrategy,
};
use songline_projections::{State, apply};

use super::{Deployments, Effect};

const DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([4; 16]);

fn id(n: u8) -> AllocId {
    AllocId::from_bytes([n; 16])
}

struct Rollout(State);

impl Rollout {
    /// A job with two groups: `a` wants two canaries, `b` `canaries_of_b` and reverts the job when it fails. All
    /// canaries are placed.
    fn new(auto_promote: [bool; 2], canaries_of_b: i64) -> Self {
        let state = |auto_promote, desired_canaries| DeploymentState {
            auto_promote,
            desired_canaries,
            desired_total: 3,
            ..DeploymentState::default()
        };
        let b = DeploymentState { auto_revert: true, ..state(auto_promote[1], canaries_of_b) };
        Self::of([state(auto_promote[0], 2), b])
    }

    /// A job with the groups `a` and `b`, whose deployment begins with these states. All canaries are placed, and one
    /// allocation of a group without canaries. Allocations are numbered from 1.
    fn of(states: [DeploymentState; 2]) -> Self {
        let groups = ["a", "b"].into_iter().zip(&states).map(|(name, state)| TaskGroup {
            name: name.into(),
            count: state.desired_total,
            update: Some(UpdateStrategy { auto_revert: state.auto_revert, ..UpdateStrategy::default() }),
            ..TaskGroup::default()
        });
        let job = Arc::new(Job {
            namespace: "default".into(),
            id: "web".into(),
            kind: JobType::Service,
            task_groups: Some(groups.collect()),
            create_index: 1,
            ..Job::default()
        });
        let mut rollout = Self(State::new());
        rollout.apply(RegisterJob { job: Arc::clone(&job), ..RegisterJob::default() });
        let placed = |(n, (group, canary)): (u8, (&str, bool))| {
            Arc::new(Allocation {
                id: id(n),
                namespace: "default".into(),
                job_id: "web".into(),
                task_group: group.into(),
                node_id: Some(NodeId::from_bytes([1; 16])),
                deployment_id: Some(DEPLOYMENT),
                deployment_status: Some(Arc::new(AllocDeploymentStatus { canary, ..AllocDeploymentStatus::default() })),
                ..Allocation::default()
            })
        };
        let allocs_of = |(name, state): (&'static str, &DeploymentState)| {
            let canaries = usize::try_from(state.desired_canaries).expect("few canaries");
            std::iter::repeat_n((name, canaries > 0), canaries.max(1))
        };
        let updated = (1..).zip(["a", "b"].into_iter().zip(&states).flat_map(allocs_of)).map(placed).collect();
        let [a, b] = states;
        let deployment = Deployment {
            id: DEPLOYMENT,
            namespace: "default".into(),
            job_id: "web".into(),
            task_groups: Some([(Str::new("a"), a), (Str::new("b"), b)].into()),
            ..Deployment::default()
        };
        let job = rollout.0.job("default", "web").cloned();
        rollout.apply(ApplyPlan { job, updated, deployment: Some(deployment), ..ApplyPlan::default() });
        rollout
    }

    fn apply(&mut self, command: impl Into<Command>) {
        self.apply_at(1, command);
    }

    fn apply_at(&mut self, secs: i64, command: impl Into<Command>) {
        let index = self.0.raft_index() + 1;
        let applied = apply(&mut self.0, index, &Envelope::new(Time::from_secs(secs), Actor::Anonymous, command));
        applied.result.expect("is not refused");
    }

    fn healthy(mut self, canaries: &[u8]) -> Self {
        let healthy = canaries.iter().map(|n| id(*n)).collect();
        self.apply(SetDeploymentAllocHealth {
            deployment_id: DEPLOYMENT,
            healthy,
            timestamp: Time::from_nanos(5),
            ..SetDeploymentAllocHealth::default()
        });
        self
    }

    fn unhealthy(mut self, canaries: &[u8]) -> Self {
        let unhealthy = canaries.iter().map(|n| id(*n)).collect();
        self.apply(SetDeploymentAllocHealth {
            deployment_id: DEPLOYMENT,
            unhealthy,
            timestamp: Time::from_nanos(5),
            ..SetDeploymentAllocHealth::default()
        });
        self
    }

    /// Effects of a new leader, nine seconds after the start.
    fn effects(&self) -> Vec<Effect> {
        self.effects_at(9)
    }

    fn effects_at(&self, secs: i64) -> Vec<Effect> {
        let mut machine = Deployments::new();
        machine.restore(&self.0, Time::from_secs(secs));
        machine.on_time(&self.0, Time::from_secs(secs))
    }

    fn promotes(&self) -> bool {
        self.effects().iter().any(|effect| matches!(effect, Effect::Promote { .. }))
    }

    fn failure(&self) -> Option<String> {
        self.failure_at(9)
    }

    fn failure_at(&self, secs: i64) -> Option<String> {
        self.effects_at(secs).iter().find_map(|effect| match effect {
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

/// A group of one allocation, or of two if it has a canary, with this progress deadline.
fn due_after(secs: i64, desired_canaries: i64, auto_revert: bool) -> DeploymentState {
    DeploymentState {
        progress_deadline: Dur::from_secs(secs),
        desired_canaries,
        desired_total: 1 + desired_canaries,
        auto_revert,
        ..DeploymentState::default()
    }
}

const MISSED: &str = "Failed due to progress deadline";

#[test]
fn passed_progress_deadline_of_one_group_fails_all_groups_that_lack_health() {
    let rollout = || Rollout::of([due_after(8, 0, false), due_after(600, 0, true)]);
    let reverted = format!("{MISSED} - no stable job version to auto revert to");
    assert_eq!(rollout().failure_at(7), None);
    assert_eq!(rollout().failure(), Some(reverted), "the group whose own deadline is later reverts the job");
    assert_eq!(rollout().healthy(&[2]).failure().as_deref(), Some(MISSED), "a healthy group reverts nothing");
    assert_eq!(rollout().healthy(&[1]).failure(), None, "the deadline of a group that is done does not count");
}

#[test]
fn passed_progress_deadline_of_a_group_that_waits_for_promotion_counts_for_the_others() {
    let rollout = || Rollout::of([due_after(8, 1, false), due_after(600, 0, false)]);
    assert_eq!(rollout().healthy(&[1]).failure().as_deref(), Some(MISSED));
    assert_eq!(rollout().healthy(&[1, 2]).failure(), None, "the promotion itself has no deadline");
}

#[test]
fn promoted_group_has_until_its_own_progress_deadline() {
    let mut rollout = Rollout::of([due_after(8, 1, false), due_after(8, 1, false)]).healthy(&[1, 2]);
    assert_eq!(rollout.failure_at(20), None);
    let groups = vec!["b".into()];
    rollout.apply_at(20, PromoteDeployment { deployment_id: DEPLOYMENT, groups, ..PromoteDeployment::default() });
    assert_eq!(rollout.failure_at(27), None);
    assert_eq!(rollout.failure_at(28).as_deref(), Some(MISSED));
}
