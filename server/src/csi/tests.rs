//! Claims over the wire, with a node that plays its plugins: what is asked of them, in which order, and what is left in
//! the tables.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use expect_test::{Expect, expect};
use parking_lot::Mutex;
use serde_json::{Value, json};
use songline_commands::{Actor, ApplyPlan, Command, ReapEvals, RegisterCsiVolumes, RegisterJob, RegisterNode};
use songline_model::*;
use songline_rpc::RpcError;
use songline_rpc::message::ControllerListVolumes;
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_rpc::net::{self, Caller, Channel, Dispatch, OnSession, Pool, PoolLimits, Refusal};
use songline_rpc::port::Dialer;

use crate::testing::{Settings, TestServer, http_client};

const NODE: NodeId = NodeId::from_bytes([1; 16]);
const OTHER: NodeId = NodeId::from_bytes([2; 16]);
const SECRET: &str = "5d1e0000-0000-0000-0000-00000000000a";

/// The plugins of the node.
#[derive(Default)]
struct Plugins {
    asked: Mutex<Vec<String>>,
    /// Methods that are refused.
    refuses: Mutex<BTreeSet<&'static str>>,
}

impl Dispatch for Plugins {
    async fn call(&self, method: &str, body: Bytes, _: &Caller) -> Result<Bytes, Refusal> {
        let request: Value = from_slice(&body)?;
        let text = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
        let node = text("ClientCSINodeID");
        let secrets = request["Secrets"].as_object().map(|_| request["Secrets"].to_string()).unwrap_or_default();
        let asked = format!("{method} {}{} {node} {secrets}", text("VolumeID"), text("ExternalID"));
        self.asked.lock().push(asked.trim().to_owned());
        if self.refuses.lock().contains(method) {
            return Err(RpcError::remote(format!("{method}: rpc error: code = FailedPrecondition desc = busy")).into());
        }
        let answer = match method {
            "CSI.ControllerAttachVolume" => json!({ "PublishContext": { "dev": "/dev/x" } }),
            _ => json!({}),
        };
        Ok(to_vec(&answer).expect("is written").into())
    }

    fn streams(&self, _: &str) -> bool {
        false
    }

    async fn stream(&self, _: &str, _: Channel, _: &Caller) {}
}

/// A server, and the session of a node with a volume's plugins.
struct World {
    server: TestServer,
    plugins: Arc<Plugins>,
    pool: Pool,
}

fn alloc_id(n: u8) -> AllocId {
    AllocId::from_bytes([n; 16])
}

fn node(id: NodeId, secret: &str) -> Node {
    let info = CsiInfo { plugin_id: "p".into(), healthy: true, requires_controller_plugin: true, ..CsiInfo::default() };
    let can = CsiControllerInfo { supports_attach_detach: true, ..CsiControllerInfo::default() };
    let mounts = CsiNodeInfo { id: "ext-node".into(), ..CsiNodeInfo::default() };
    Node {
        id,
        secret_id: Secret::new(secret),
        datacenter: "dc1".into(),
        status: NodeStatus::Ready,
        csi_node_plugins: Some([("p".into(), CsiInfo { node_info: Some(mounts), ..info.clone() })].into()),
        csi_controller_plugins: Some([("p".into(), CsiInfo { controller_info: Some(can), ..info })].into()),
        ..Node::default()
    }
}

impl World {
    async fn new() -> Self {
        let server = TestServer::start(Settings::default()).await.expect("starts");
        let plugins = Arc::new(Plugins::default());
        let (address, dispatch) = (server.core.rpc_addr(), Arc::clone(&plugins));
        let from = address.parse().expect("an address");
        let on_session: OnSession = Arc::new(move |_, session| {
            tokio::spawn(net::serve_session(session, true, Caller::plain(from), Arc::clone(&dispatch)));
        });
        let pool = Pool::new(Dialer::plain(), PoolLimits::default(), Some(on_session));
        let world = Self { server, plugins, pool };
        world.write(RegisterNode { node: node(NODE, SECRET), create_node_pool: true }).await;
        let heartbeat = json!({ "Region": "global", "NodeID": NODE, "AuthToken": SECRET, "Status": "ready" });
        world.pool.call(&address, "Node.UpdateStatus", &to_vec(&heartbeat).unwrap()).await.expect("is ready");
        let capability = CsiVolumeCapability {
            access_mode: CsiAccessMode::SingleNodeWriter,
            attachment_mode: CsiAttachmentMode::FileSystem,
        };
        let volume = CsiVolume {
            id: "v".into(),
            external_id: "ext-v".into(),
            namespace: "default".into(),
            plugin_id: "p".into(),
            secrets: CsiSecrets::new([("s".into(), "t".into())].into()),
            requested_capabilities: Some(vec![capability]),
            ..CsiVolume::default()
        };
        world.write(RegisterCsiVolumes { volumes: vec![volume] }).await;
        let group = TaskGroup { name: "g".into(), count: 0, ..TaskGroup::default() };
        let job = Job { id: "j".into(), namespace: "default".into(), task_groups: Some(vec![group]), ..Job::default() };
        world.write(RegisterJob { job: Arc::new(job), ..RegisterJob::default() }).await;
        let job = world.server.core.view().job("default", "j").cloned();
        let alloc = |n| {
            Arc::new(Allocation {
                id: alloc_id(n),
                namespace: "default".into(),
                job_id: "j".into(),
                task_group: "g".into(),
                node_id: Some(if n == 3 { OTHER } else { NODE }),
                ..Allocation::default()
            })
        };
        let updated = (1..=3).map(alloc).collect();
        world.write(ApplyPlan { job, updated, ..ApplyPlan::default() }).await;
        world
    }

    async fn write(&self, command: impl Into<Command>) {
        self.server.core.propose_as(Actor::Anonymous, None, command).await.expect("is written");
    }

    async fn ask(&self, method: &str, body: Value) -> String {
        let mut body = body;
        body["Region"] = json!("global");
        body["AuthToken"] = json!(SECRET);
        let answer = self.pool.call(&self.server.core.rpc_addr(), method, &to_vec(&body).unwrap()).await;
        match answer {
            Ok(answer) => {
                let answer: Value = from_slice(&answer).expect("is an answer");
                format!("ok {}", answer["PublishContext"]).replace(" null", "")
            }
            Err(error) => error.to_string(),
        }
    }

    async fn claim(&self, n: u8) -> String {
        let body = json!({
            "VolumeID": "v", "AllocationID": alloc_id(n), "NodeID": NODE, "Claim": 1, "State": 0,
            "AccessMode": "single-node-writer", "AttachmentMode": "file-system",
        });
        self.ask("CSIVolume.Claim", body).await
    }

    async fn unpublish(&self, n: u8, access: &str) -> String {
        let claim = json!({ "AllocationID": alloc_id(n), "NodeID": NODE, "Mode": 1, "State": 4, "AccessMode": access });
        self.ask("CSIVolume.Unpublish", json!({ "VolumeID": "v", "Claim": claim })).await
    }

    async fn http(&self, method: reqwest::Method, path: &str) -> String {
        let url = format!("{}{path}", self.server.http_addr());
        let answer = http_client().request(method, url).send().await.expect("answers");
        let status = answer.status().as_u16();
        format!("{status} {}", answer.text().await.expect("is text")).trim().to_owned()
    }

    /// Waits until nothing holds the volume.
    async fn freed(&self) -> String {
        let core = &self.server.core;
        let freed = async {
            while core.view().csi_volume("default", "v").is_some_and(|volume| volume.in_use()) {
                tokio::task::yield_now().await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(30), freed).await;
        in_time.map_or("still held", |()| "freed").into()
    }

    async fn line(&self, line: &str) -> String {
        let words: Vec<_> = line.split(' ').collect();
        let detach = format!("/v1/volume/csi/v/detach?node={NODE}");
        match words[..] {
            ["claim", n] => self.claim(n.parse().unwrap()).await,
            ["unmounted", n] => self.unpublish(n.parse().unwrap(), "").await,
            ["release", n] => self.unpublish(n.parse().unwrap(), "single-node-writer").await,
            ["detach"] => self.http(reqwest::Method::DELETE, &detach).await,
            ["collect", n] => {
                self.write(ReapEvals { allocs: vec![alloc_id(n.parse().unwrap())], ..ReapEvals::default() }).await;
                String::new()
            }
            ["gc"] => self.http(reqwest::Method::PUT, "/v1/system/gc").await,
            ["freed"] => self.freed().await,
            ["refuse", method] => {
                let method: &'static str = method.to_owned().leak();
                self.plugins.refuses.lock().insert(method);
                String::new()
            }
            ["allow"] => {
                self.plugins.refuses.lock().clear();
                String::new()
            }
            _ => panic!("no such line: {line}"),
        }
    }
}

/// Runs a story and shows the answers, each with the requests to plugins since the last one.
async fn check(story: &str, expected: Expect) {
    let said = answers(story, true).await;
    expected.assert_eq(&said);
}

/// With `asked`, requests to plugins are shown. They are left out where the leader's watcher makes some of its own.
async fn answers(story: &str, asked: bool) -> String {
    let world = World::new().await;
    let mut said = String::new();
    for line in story.lines().map(str::trim) {
        let answer = world.line(line).await;
        said.push_str(format!("{line}: {answer}").trim_end());
        // The releases after a collection are over once the volume is freed.
        if asked && line != "gc" {
            for asked in std::mem::take(&mut *world.plugins.asked.lock()) {
                said.push_str(&format!("\n    {asked}"));
            }
        }
        said.push('\n');
    }
    world.pool.close();
    world.server.stop().await;
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defect_12_claim_is_attached_and_released_with_the_secrets_of_its_volume() {
    check(
        "claim 1
         claim 2
         claim 1
         claim 3
         unmounted 1
         unmounted 1
         claim 2
         release 2",
        expect![[r#"
            claim 1: ok {"dev":"/dev/x"}
                CSI.ControllerAttachVolume ext-v ext-node {"s":"t"}
            claim 2: rpc error: volume max claims reached
            claim 1: ok {"dev":"/dev/x"}
                CSI.ControllerAttachVolume ext-v ext-node {"s":"t"}
            claim 3: rpc error: Permission denied
            unmounted 1: ok
                CSI.ControllerDetachVolume ext-v ext-node {"s":"t"}
            unmounted 1: ok
            claim 2: ok {"dev":"/dev/x"}
                CSI.ControllerAttachVolume ext-v ext-node {"s":"t"}
            release 2: ok
                CSI.NodeDetachVolume vext-v
                CSI.ControllerDetachVolume ext-v ext-node {"s":"t"}
        "#]],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_claim_is_released_by_the_leader_at_garbage_collection() {
    check(
        "claim 1
         collect 1
         gc
         freed",
        expect![[r#"
            claim 1: ok {"dev":"/dev/x"}
                CSI.ControllerAttachVolume ext-v ext-node {"s":"t"}
            collect 1:
            gc: 200
            freed: freed
                CSI.NodeDetachVolume vext-v
                CSI.ControllerDetachVolume ext-v ext-node {"s":"t"}
        "#]],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_step_leaves_the_claim_and_is_made_again() {
    let story = "refuse CSI.ControllerAttachVolume
         claim 1
         allow
         claim 1
         refuse CSI.ControllerDetachVolume
         unmounted 1
         claim 1
         claim 2
         allow
         unmounted 1
         claim 2";
    expect![[r#"
        refuse CSI.ControllerAttachVolume:
        claim 1: rpc error: controller publish: CSI client error (retryable): CSI.ControllerAttachVolume: rpc error: code = FailedPrecondition desc = busy
        allow:
        claim 1: ok {"dev":"/dev/x"}
        refuse CSI.ControllerDetachVolume:
        unmounted 1: rpc error: could not detach from controller: CSI.ControllerDetachVolume: rpc error: code = FailedPrecondition desc = busy
        claim 1: rpc error: volume max claims reached
        claim 2: rpc error: volume max claims reached
        allow:
        unmounted 1: ok
        claim 2: ok {"dev":"/dev/x"}
    "#]]
    .assert_eq(&answers(story, false).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detached_node_unmounts_the_volume_before_its_claims_are_freed() {
    let detach = "claim 1
         detach
         detach
         claim 2
         refuse CSI.NodeDetachVolume
         detach
         claim 1";
    expect![[r#"
        claim 1: ok {"dev":"/dev/x"}
        detach: 200
        detach: 500 Unknown allocation
        claim 2: ok {"dev":"/dev/x"}
        refuse CSI.NodeDetachVolume:
        detach: 500 could not detach from node: CSI.NodeDetachVolume: rpc error: code = FailedPrecondition desc = busy
        claim 1: rpc error: volume max claims reached
    "#]]
    .assert_eq(&answers(detach, false).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_controller_is_asked_when_a_node_cannot_be_reached() {
    let world = World::new().await;
    // The first node in order has no session.
    let first = NodeId::from_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert!(first < NODE);
    world.write(RegisterNode { node: node(first, "s"), create_node_pool: true }).await;
    let answer = world.server.core.ask_controller("p", ControllerListVolumes::default()).await;
    assert_eq!(answer.expect("is answered").next_token, "");
    assert_eq!(*world.plugins.asked.lock(), ["CSI.ControllerListVolumes"]);
    let unknown = world.server.core.ask_controller("q", ControllerListVolumes::default()).await;
    assert_eq!(unknown.expect_err("there is none").to_string(), "plugin missing: q");
    world.pool.close();
    world.server.stop().await;
}
