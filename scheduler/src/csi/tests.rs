//! Stories of claims: taken, abandoned, released step by step.

use std::sync::Arc;

use expect_test::{Expect, expect};
use songline_commands::{
    Actor, ApplyPlan, ClaimCsiVolume, ClientAlloc, Command, DeregisterCsiVolumes, DeregisterNodes, Envelope, ReapEvals,
    RegisterCsiVolumes, RegisterJob, RegisterNode, UpdateAllocsFromClient, UpdateNodeStatus,
};
use songline_model::*;
use songline_projections::{State, apply};

use super::{Detach, Step, begin, controllers, external_node, next, of_node, reached};

/// Nodes `a` and `b` with an instance of plugin `p`, volume `v`, and allocs that a line names by a digit.
struct Cluster {
    state: State,
}

fn node_id(name: &str) -> NodeId {
    NodeId::from_bytes([name.as_bytes()[0]; 16])
}

fn alloc_id(name: &str) -> AllocId {
    AllocId::from_bytes([name.parse().expect("allocs are digits"); 16])
}

fn volume() -> CsiVolumeKey {
    CsiVolumeKey::new("default", "v")
}

impl Cluster {
    /// `controller`: whether the plugin has a controller, and whether it attaches volumes.
    fn new(access: &str, controller: Option<bool>) -> Self {
        let mut cluster = Self { state: State::new() };
        for name in ["a", "b"] {
            cluster.node(name, controller, true);
        }
        let capability =
            CsiVolumeCapability { access_mode: access.into(), attachment_mode: CsiAttachmentMode::FileSystem };
        let volume = CsiVolume {
            id: "v".into(),
            namespace: "default".into(),
            plugin_id: "p".into(),
            requested_capabilities: Some(vec![capability]),
            ..CsiVolume::default()
        };
        cluster.run(RegisterCsiVolumes { volumes: vec![volume] }).expect("is registered");
        let group = TaskGroup { name: "g".into(), count: 9, ..TaskGroup::default() };
        let job = Job { id: "j".into(), namespace: "default".into(), task_groups: Some(vec![group]), ..Job::default() };
        cluster.run(RegisterJob { job: Arc::new(job), ..RegisterJob::default() }).expect("is registered");
        cluster
    }

    fn node(&mut self, name: &str, controller: Option<bool>, healthy: bool) {
        let info = CsiInfo {
            plugin_id: "p".into(),
            healthy,
            requires_controller_plugin: controller.is_some(),
            ..CsiInfo::default()
        };
        let mounts = CsiNodeInfo { id: format!("ext-{name}").into(), ..CsiNodeInfo::default() };
        let can = |attach| CsiControllerInfo { supports_attach_detach: attach, ..CsiControllerInfo::default() };
        let of_controller = controller.map(|attach| CsiInfo { controller_info: Some(can(attach)), ..info.clone() });
        let node = Node {
            id: node_id(name),
            status: NodeStatus::Ready,
            csi_node_plugins: Some([("p".into(), CsiInfo { node_info: Some(mounts), ..info })].into()),
            csi_controller_plugins: of_controller.map(|info| [("p".into(), info)].into()),
            ..Node::default()
        };
        self.run(RegisterNode { node, create_node_pool: true }).expect("is registered");
        let status = UpdateNodeStatus {
            node_id: node_id(name),
            status: NodeStatus::Ready,
            event: None,
            updated_at: UnixSecs(1),
        };
        self.run(status).expect("is ready");
    }

    fn run(&mut self, command: impl Into<Command>) -> Result<(), String> {
        let index = self.state.raft_index() + 1;
        let envelope = Envelope::new(Time::from_secs(index.cast_signed()), Actor::Anonymous, command.into());
        apply(&mut self.state, index, &envelope).result.map(drop).map_err(|refused| refused.to_string())
    }

    fn claim(&mut self, alloc: &str, node: &str, mode: CsiClaimMode) -> Result<(), String> {
        if self.state.alloc(alloc_id(alloc)).is_none() {
            let row = Allocation {
                id: alloc_id(alloc),
                namespace: "default".into(),
                job_id: "j".into(),
                task_group: "g".into(),
                node_id: Some(node_id(node)),
                ..Allocation::default()
            };
            let job = self.state.job("default", "j").cloned();
            self.run(ApplyPlan { job, updated: vec![Arc::new(row)], ..ApplyPlan::default() })?;
        }
        let offered = self.state.csi_volume("default", "v").and_then(|row| row.requested_capabilities.clone());
        let access_mode = offered.into_iter().flatten().next().map(|one| one.access_mode).unwrap_or_default();
        let claim = CsiVolumeClaim {
            allocation_id: alloc_id(alloc),
            node_id: node_id(node),
            mode,
            access_mode,
            attachment_mode: CsiAttachmentMode::FileSystem,
            ..CsiVolumeClaim::default()
        };
        self.run(ClaimCsiVolume { volume: volume(), claim })
    }

    fn ended(&mut self, alloc: &str) -> Result<(), String> {
        let row = self.state.alloc(alloc_id(alloc)).cloned().expect("is placed");
        let said = ClientAlloc {
            id: row.id,
            node_id: row.node_id.expect("is on a node"),
            client_status: AllocClientStatus::Complete,
            ..ClientAlloc::default()
        };
        self.run(UpdateAllocsFromClient { allocs: vec![said], evals: Vec::new() })
    }

    /// The first record of a release, as a node (`mode` empty) or an operator asks for it.
    fn begin(&mut self, alloc: &str, access: &str) -> Result<(), String> {
        let held = CsiVolumeClaim {
            allocation_id: alloc_id(alloc),
            access_mode: access.into(),
            state: CsiClaimState::Unpublishing,
            ..CsiVolumeClaim::default()
        };
        let command = begin(&self.state, &volume(), &held).ok_or("holds no claim")?;
        self.run(command)
    }

    /// Makes the next step of a release: its call succeeds.
    fn step(&mut self, alloc: &str) -> Result<String, String> {
        let (said, claim, state) =
            match next(&self.state, &volume(), alloc_id(alloc)).map_err(|error| error.to_string())? {
                Step::Done => return Ok("done".into()),
                Step::DetachNode(Detach { claim, .. }) => {
                    let node = char::from(claim.node_id.as_bytes()[0]);
                    (format!("node {node} unmounts"), claim, CsiClaimState::NodeDetached)
                }
                Step::DetachController(Detach { claim, .. }, external) => {
                    (format!("controller detaches from {external}"), claim, CsiClaimState::ReadyToFree)
                }
                Step::Record(claim, state) => (format!("{state:?}"), claim, state),
            };
        self.run(reached(&volume(), claim, state))?;
        Ok(said)
    }

    fn line(&mut self, line: &str) -> String {
        let words: Vec<_> = line.split(' ').collect();
        let done = match words[..] {
            ["write", alloc, node] => self.claim(alloc, node, CsiClaimMode::Write),
            ["read", alloc, node] => self.claim(alloc, node, CsiClaimMode::Read),
            ["end", alloc] => self.ended(alloc),
            ["collect", alloc] => self.run(ReapEvals { allocs: vec![alloc_id(alloc)], ..ReapEvals::default() }),
            ["unmounted", alloc] => self.begin(alloc, ""),
            ["release", alloc] => self.begin(alloc, "single-node-writer"),
            ["down", node] => self.run(UpdateNodeStatus {
                node_id: node_id(node),
                status: NodeStatus::Down,
                event: None,
                updated_at: UnixSecs(2),
            }),
            ["gone", node] => self.run(DeregisterNodes { node_ids: vec![node_id(node)] }),
            ["unhealthy", node] => {
                self.node(node, Some(true), false);
                Ok(())
            }
            ["deregister"] => {
                self.run(DeregisterCsiVolumes { namespace: "default".into(), ids: vec!["v".into()], force: true })
            }
            ["step", alloc] => return self.step(alloc).unwrap_or_else(|refused| refused),
            ["controllers", plugin] => {
                return match controllers(&self.state, plugin) {
                    Ok(nodes) => nodes.iter().map(|node| char::from(node.as_bytes()[0])).collect(),
                    Err(error) => error.to_string(),
                };
            }
            ["detachable", node] => {
                let claims = of_node(&self.state, &volume(), node_id(node));
                return format!(
                    "{:?}",
                    claims.iter().map(|claim| claim.allocation_id.as_bytes()[0]).collect::<Vec<_>>()
                );
            }
            ["external", node] => {
                let row = self.state.csi_volume("default", "v").expect("is registered");
                return external_node(&self.state, row, node_id(node))
                    .map_or_else(|error| error.to_string(), |id| id.to_string());
            }
            _ => panic!("no such line: {line}"),
        };
        done.map_or_else(|refused| refused, |()| "ok".into())
    }
}

fn check(mut cluster: Cluster, story: &str, expected: Expect) {
    let mut said = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let answer = cluster.line(line);
        said.push_str(&format!("{line}: {answer}\n"));
    }
    expected.assert_eq(&said);
}

const WRITER: &str = "single-node-writer";

#[test]
fn second_writer_waits_until_node_and_controller_have_let_go() {
    check(
        Cluster::new(WRITER, Some(true)),
        "write 1 a
         step 1
         end 1
         write 2 b
         step 1
         write 2 b
         step 1
         write 2 b
         step 1",
        expect![[r#"
            write 1 a: ok
            step 1: done
            end 1: ok
            write 2 b: volume max claims reached
            step 1: node a unmounts
            write 2 b: volume max claims reached
            step 1: controller detaches from ext-a
            write 2 b: ok
            step 1: done
        "#]],
    );
}

#[test]
fn node_that_has_unmounted_is_not_asked_to() {
    check(
        Cluster::new(WRITER, Some(true)),
        "write 1 a
         unmounted 1
         unmounted 2
         step 1
         unmounted 1
         write 2 b",
        expect![[r#"
            write 1 a: ok
            unmounted 1: ok
            unmounted 2: holds no claim
            step 1: controller detaches from ext-a
            unmounted 1: holds no claim
            write 2 b: ok
        "#]],
    );
}

#[test]
fn controller_that_does_not_attach_is_not_asked_to_detach() {
    let story = "write 1 a
         collect 1
         step 1
         step 1
         step 1";
    check(
        Cluster::new(WRITER, None),
        story,
        expect![[r#"
            write 1 a: ok
            collect 1: ok
            step 1: node a unmounts
            step 1: ReadyToFree
            step 1: done
        "#]],
    );
    check(
        Cluster::new(WRITER, Some(false)),
        story,
        expect![[r#"
            write 1 a: ok
            collect 1: ok
            step 1: node a unmounts
            step 1: ReadyToFree
            step 1: done
        "#]],
    );
}

#[test]
fn node_that_is_down_or_gone_counts_as_unmounted() {
    check(
        Cluster::new("multi-node-multi-writer", Some(true)),
        "write 1 a
         write 2 b
         down a
         collect 1
         step 1
         step 1
         step 1
         collect 2
         step 2
         gone b
         step 2",
        expect![[r#"
            write 1 a: ok
            write 2 b: ok
            down a: ok
            collect 1: ok
            step 1: NodeDetached
            step 1: controller detaches from ext-a
            step 1: done
            collect 2: ok
            step 2: node b unmounts
            gone b: ok
            step 2: missing external node ID: failed to find storage provider info for client "62626262-6262-6262-6262-626262626262", node plugin "p" is not running or has not fingerprinted on this client
        "#]],
    );
}

#[test]
fn last_alloc_of_a_node_has_the_controller_detach() {
    check(
        Cluster::new("multi-node-multi-writer", Some(true)),
        "write 1 a
         write 2 a
         write 3 b
         end 1
         end 2
         step 1
         step 1
         step 2
         step 2
         step 2
         detachable a
         detachable b",
        expect![[r#"
            write 1 a: ok
            write 2 a: ok
            write 3 b: ok
            end 1: ok
            end 2: ok
            step 1: node a unmounts
            step 1: ReadyToFree
            step 2: node a unmounts
            step 2: controller detaches from ext-a
            step 2: done
            detachable a: []
            detachable b: [3]
        "#]],
    );
}

#[test]
fn late_request_does_not_undo_a_step_and_a_deregistered_volume_ends_its_releases() {
    check(
        Cluster::new(WRITER, Some(true)),
        "write 1 a
         release 1
         step 1
         release 1
         end 1
         deregister
         step 1
         release 1",
        expect![[r#"
            write 1 a: ok
            release 1: ok
            step 1: node a unmounts
            release 1: ok
            end 1: ok
            deregister: ok
            step 1: done
            release 1: holds no claim
        "#]],
    );
}

#[test]
fn controllers_are_healthy_and_on_ready_nodes() {
    check(
        Cluster::new(WRITER, Some(true)),
        "controllers p
         controllers q
         external a
         external c
         down a
         controllers p
         unhealthy b
         controllers p
         gone a
         gone b
         controllers p",
        expect![[r#"
            controllers p: ab
            controllers q: plugin missing: q
            external a: ext-a
            external c: missing external node ID: failed to find storage provider info for client "63636363-6363-6363-6363-636363636363", node plugin "p" is not running or has not fingerprinted on this client
            down a: ok
            controllers p: b
            unhealthy b: ok
            controllers p: failed to find clients running controller plugin "p": node 61616161-6161-6161-6161-616161616161 is down, controller on node 62626262-6262-6262-6262-626262626262 is unhealthy
            gone a: ok
            gone b: ok
            controllers p: plugin missing: p
        "#]],
    );
}
