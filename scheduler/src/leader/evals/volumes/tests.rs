//! Stories of evaluations that wait for a CSI volume.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_commands::{
    Actor, ApplyPlan, ClaimCsiVolume, Command, Envelope, RegisterCsiVolumes, RegisterJob, RegisterNode, UpdateEvals,
};
use songline_model::*;
use songline_projections::{State, apply};

use crate::leader::evals::EvalQueues;

const NODE: NodeId = NodeId::from_bytes([1; 16]);
const HOLDER: AllocId = AllocId::from_bytes([2; 16]);

/// Job `web` asks for volume `v`, job `plain` for none. Both have a blocked evaluation.
struct Cluster {
    state: State,
    queues: EvalQueues,
}

impl Cluster {
    fn new() -> Self {
        let mut cluster = Self { state: State::new(), queues: EvalQueues::new() };
        cluster.queues.set_enabled(true, &cluster.state, Time::from_secs(1));
        cluster.node(true);
        for (n, id, kind) in [(1, "web", "csi"), (2, "plain", "host")] {
            let request = VolumeRequest { kind: kind.into(), source: "v".into(), ..VolumeRequest::default() };
            let group = TaskGroup {
                name: "g".into(),
                count: 1,
                volumes: Some([("v".into(), request)].into()),
                ..TaskGroup::default()
            };
            let job =
                Job { id: id.into(), namespace: "default".into(), task_groups: Some(vec![group]), ..Job::default() };
            cluster.run(RegisterJob { job: Arc::new(job), ..RegisterJob::default() });
            cluster.block(n, id);
        }
        cluster
    }

    fn run(&mut self, command: impl Into<Command>) {
        let index = self.state.raft_index() + 1;
        let now = Time::from_secs(index.cast_signed());
        let applied = apply(&mut self.state, index, &Envelope::new(now, Actor::Anonymous, command.into()));
        applied.result.expect("is applied");
        self.queues.on_changes(&self.state, index, &applied.changes, now);
    }

    fn block(&mut self, n: u8, job: &str) {
        let eval = Evaluation {
            id: EvalId::from_bytes([n; 16]),
            namespace: "default".into(),
            job_id: job.into(),
            kind: JobType::Service,
            status: EvalStatus::Blocked,
            // It found no class that could take it.
            class_eligibility: Some(Arc::new([("".into(), false)].into())),
            snapshot_index: self.state.applied_index(),
            ..Evaluation::default()
        };
        self.run(UpdateEvals { evals: vec![eval] });
    }

    fn node(&mut self, healthy: bool) {
        let node_info = Some(CsiNodeInfo::default());
        let info = CsiInfo { plugin_id: "p".into(), healthy, node_info, ..CsiInfo::default() };
        let node = Node { id: NODE, csi_node_plugins: Some([("p".into(), info)].into()), ..Node::default() };
        self.run(RegisterNode { node, create_node_pool: true });
    }

    fn claim(&mut self, state: CsiClaimState) {
        let claim = CsiVolumeClaim {
            allocation_id: HOLDER,
            node_id: NODE,
            mode: CsiClaimMode::Write,
            access_mode: CsiAccessMode::SingleNodeWriter,
            state,
            ..CsiVolumeClaim::default()
        };
        self.run(ClaimCsiVolume { volume: CsiVolumeKey::new("default", "v"), claim });
    }

    fn line(&mut self, line: &str) {
        match line {
            "register" => {
                let capability = CsiVolumeCapability {
                    access_mode: CsiAccessMode::SingleNodeWriter,
                    attachment_mode: CsiAttachmentMode::FileSystem,
                };
                let volume = CsiVolume {
                    id: "v".into(),
                    namespace: "default".into(),
                    plugin_id: "p".into(),
                    requested_capabilities: Some(vec![capability]),
                    ..CsiVolume::default()
                };
                self.run(RegisterCsiVolumes { volumes: vec![volume] });
            }
            "block" => self.block(1, "web"),
            "claim" => {
                let alloc = Allocation {
                    id: HOLDER,
                    namespace: "default".into(),
                    job_id: "plain".into(),
                    task_group: "g".into(),
                    node_id: Some(NODE),
                    ..Allocation::default()
                };
                let job = self.state.job("default", "plain").cloned();
                self.run(ApplyPlan { job, updated: vec![Arc::new(alloc)], ..ApplyPlan::default() });
                self.claim(CsiClaimState::Taken);
            }
            "unmounted" => self.claim(CsiClaimState::NodeDetached),
            "freed" => self.claim(CsiClaimState::ReadyToFree),
            "plugin down" => self.node(false),
            "plugin up" => self.node(true),
            _ => panic!("no such line: {line}"),
        }
    }
}

fn check(story: &str, expected: Expect) {
    let mut cluster = Cluster::new();
    let mut said = String::new();
    for line in story.lines().map(str::trim) {
        cluster.line(line);
        let waiting = cluster.state.blocked_evals_of_job("default", "web").count();
        let (blocked, _) = cluster.queues.blocked.stats();
        said.push_str(&format!("{line}: {blocked} of {} wait\n", waiting + 1));
    }
    expected.assert_eq(&said);
}

#[test]
fn volume_wakes_the_evaluations_that_wait_for_it_when_it_can_be_used() {
    check(
        "register
         block
         claim
         block
         unmounted
         freed
         block
         plugin down
         plugin up",
        expect![[r#"
            register: 1 of 2 wait
            block: 2 of 2 wait
            claim: 2 of 2 wait
            block: 2 of 2 wait
            unmounted: 2 of 2 wait
            freed: 1 of 2 wait
            block: 2 of 2 wait
            plugin down: 2 of 2 wait
            plugin up: 1 of 2 wait
        "#]],
    );
}
