//! Stories of the volume watcher: when it looks, what it has released, when it settles.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_commands::{
    Actor, ApplyPlan, ClaimCsiVolume, Command, DeregisterCsiVolumes, Envelope, ReapEvals, RegisterCsiVolumes,
    RegisterJob, RegisterNode,
};
use songline_model::*;
use songline_projections::{State, apply};

use super::{Release, Volumes};

const NODE: NodeId = NodeId::from_bytes([1; 16]);

struct Cluster {
    state: State,
    watcher: Volumes,
    now: Time,
    running: Vec<Release>,
}

fn alloc_id(n: &str) -> AllocId {
    AllocId::from_bytes([n.parse().expect("allocs are numbers"); 16])
}

fn volume(alloc: &str) -> CsiVolumeKey {
    CsiVolumeKey::new("default", format!("v{alloc}"))
}

impl Cluster {
    fn new() -> Self {
        let (state, watcher) = (State::new(), Volumes::new());
        let mut cluster = Self { state, watcher, now: Time::from_secs(1000), running: Vec::new() };
        let node_info = Some(CsiNodeInfo::default());
        let info = CsiInfo { plugin_id: "p".into(), healthy: true, node_info, ..CsiInfo::default() };
        let node = Node { id: NODE, csi_node_plugins: Some([("p".into(), info)].into()), ..Node::default() };
        cluster.run(RegisterNode { node, create_node_pool: true });
        let group = TaskGroup { name: "g".into(), count: 9, ..TaskGroup::default() };
        let job = Job { id: "j".into(), namespace: "default".into(), task_groups: Some(vec![group]), ..Job::default() };
        cluster.run(RegisterJob { job: Arc::new(job), ..RegisterJob::default() });
        cluster
    }

    fn run(&mut self, command: impl Into<Command>) {
        let index = self.state.raft_index() + 1;
        let applied = apply(&mut self.state, index, &Envelope::new(self.now, Actor::Anonymous, command.into()));
        applied.result.expect("is applied");
        self.watcher.on_changes(&applied.changes);
    }

    /// Volume `vN` with a claim of alloc `N`.
    fn held(&mut self, alloc: &str) {
        let capability = CsiVolumeCapability {
            access_mode: CsiAccessMode::SingleNodeWriter,
            attachment_mode: CsiAttachmentMode::FileSystem,
        };
        let row = CsiVolume {
            id: volume(alloc).id,
            namespace: "default".into(),
            plugin_id: "p".into(),
            requested_capabilities: Some(vec![capability]),
            ..CsiVolume::default()
        };
        self.run(RegisterCsiVolumes { volumes: vec![row] });
        let row = Allocation {
            id: alloc_id(alloc),
            namespace: "default".into(),
            job_id: "j".into(),
            task_group: "g".into(),
            node_id: Some(NODE),
            ..Allocation::default()
        };
        let job = self.state.job("default", "j").cloned();
        self.run(ApplyPlan { job, updated: vec![Arc::new(row)], ..ApplyPlan::default() });
        self.claim(alloc, CsiClaimState::Taken);
    }

    fn claim(&mut self, alloc: &str, state: CsiClaimState) {
        let claim = CsiVolumeClaim {
            allocation_id: alloc_id(alloc),
            node_id: NODE,
            mode: CsiClaimMode::Write,
            access_mode: CsiAccessMode::SingleNodeWriter,
            state,
            ..CsiVolumeClaim::default()
        };
        self.run(ClaimCsiVolume { volume: volume(alloc), claim });
    }

    fn over(&mut self, alloc: &str, is_freed: bool) {
        let at = self.running.iter().position(|release| release.alloc == alloc_id(alloc)).expect("is under way");
        let release = self.running.remove(at);
        self.watcher.on_outcome(&release, is_freed, self.now);
    }

    fn line(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["held", alloc] => self.held(alloc),
            ["collect", alloc] => self.run(ReapEvals { allocs: vec![alloc_id(alloc)], ..ReapEvals::default() }),
            ["gc"] => self.watcher.look_at_all(&self.state, u64::MAX),
            ["gc", "old"] => self.watcher.look_at_all(&self.state, 0),
            ["lead"] => self.watcher.restore(&self.state),
            ["step", alloc] => self.claim(alloc, CsiClaimState::NodeDetached),
            ["freed", alloc] => {
                self.claim(alloc, CsiClaimState::ReadyToFree);
                self.over(alloc, true);
            }
            ["fails", alloc] => self.over(alloc, false),
            ["deregister", alloc] => {
                self.run(DeregisterCsiVolumes { namespace: "default".into(), ids: vec![volume(alloc).id], force: true })
            }
            ["pass", seconds] => {
                self.now = self.now.plus(Dur::from_secs(seconds.parse().expect("seconds are a number")));
            }
            _ => panic!("no such line: {line}"),
        }
    }
}

fn check(story: &str, expected: Expect) {
    let mut cluster = Cluster::new();
    let mut said = String::new();
    for line in story.lines().map(str::trim) {
        cluster.line(line);
        let releases = cluster.watcher.on_time(&cluster.state, cluster.now);
        let names: Vec<_> = releases.iter().map(|release| format!("release {}", release.volume.id)).collect();
        cluster.running.extend(releases);
        let wait =
            cluster.watcher.next_deadline().map(|at| format!("again in {:?} s", at.since(cluster.now).as_secs_f64()));
        let rest = if cluster.watcher.is_empty() { "settled".into() } else { wait.unwrap_or("waits".into()) };
        said.push_str(&format!("{line}: {}\n", names.into_iter().chain([rest]).collect::<Vec<_>>().join(", ")));
    }
    expected.assert_eq(&said);
}

#[test]
fn abandoned_claim_is_released_once_at_garbage_collection() {
    check(
        "held 1
         collect 1
         gc old
         gc
         step 1
         gc
         freed 1
         gc",
        expect![[r#"
            held 1: settled
            collect 1: settled
            gc old: settled
            gc: release v1, waits
            step 1: waits
            gc: waits
            freed 1: settled
            gc: settled
        "#]],
    );
}

#[test]
fn new_leader_continues_interrupted_releases() {
    check(
        "held 1
         collect 1
         gc
         step 1
         lead
         freed 1",
        expect![[r#"
            held 1: settled
            collect 1: settled
            gc: release v1, waits
            step 1: waits
            lead: release v1, waits
            freed 1: settled
        "#]],
    );
}

#[test]
fn failed_release_is_tried_again_later_and_later() {
    check(
        "held 1
         collect 1
         gc
         fails 1
         gc
         pass 4
         pass 1
         fails 1
         pass 10
         fails 1
         deregister 1
         pass 20",
        expect![[r#"
            held 1: settled
            collect 1: settled
            gc: release v1, waits
            fails 1: again in 5.0 s
            gc: again in 5.0 s
            pass 4: again in 1.0 s
            pass 1: release v1, waits
            fails 1: again in 10.0 s
            pass 10: release v1, waits
            fails 1: again in 20.0 s
            deregister 1: again in 20.0 s
            pass 20: settled
        "#]],
    );
}

#[test]
fn releases_at_a_time_are_bounded() {
    let mut cluster = Cluster::new();
    let names: Vec<String> = (1..=40).map(|n: u8| n.to_string()).collect();
    for name in &names {
        cluster.held(name);
        cluster.run(ReapEvals { allocs: vec![alloc_id(name)], ..ReapEvals::default() });
    }
    cluster.watcher.restore(&cluster.state);
    let first = cluster.watcher.on_time(&cluster.state, cluster.now);
    assert_eq!(first.len(), super::RELEASES_MAX);
    assert_eq!(cluster.watcher.next_deadline(), None, "an outcome comes first");
    assert!(cluster.watcher.on_time(&cluster.state, cluster.now).is_empty());
    for release in &first[..3] {
        cluster.watcher.on_outcome(release, false, cluster.now);
    }
    assert_eq!(cluster.watcher.on_time(&cluster.state, cluster.now).len(), 3);
}
