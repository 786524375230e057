//! A server in this process, and fake nodes that report what a test wants: for tests in which a node must fall silent
//! at a chosen moment. Not here: processes. The nodes only report their allocations.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use songline::agent::Agent;
use songline::config::AgentConfig;
use songline_model::{
    AllocClientStatus, AllocId, DriverInfo, Dur, Node, NodeCpuResources, NodeDiskResources, NodeId,
    NodeMemoryResources, NodeResources, NodeStatus, Secret, Str, TaskRunState, TaskState, Time,
};
use songline_rpc::{AllocReport, NodeAuth, Servers};
use songline_server::Core;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::http::{self, Answer, Request};
use crate::story::WITHIN;

/// Heartbeat TTL of nodes, and its grace period.
const HEARTBEAT: Dur = Dur::from_millis(400);

/// A server without a node of its own.
pub struct Fleet {
    agent: Option<Agent>,
    pub runtime: Runtime,
    pub server: Arc<Core>,
    http: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Fleet {
    pub fn begin() -> Result<Fleet> {
        let dir = tempfile::tempdir()?;
        let mut config = AgentConfig {
            http_port: 0,
            rpc_port: 0,
            serf_port: 0,
            data_dir: Some(dir.path().to_owned()),
            client: None,
            ..AgentConfig::dev()
        };
        let server = config.server.get_or_insert_default();
        server.heartbeats.min_ttl = HEARTBEAT;
        server.heartbeats.grace = HEARTBEAT;
        let runtime = Runtime::new()?;
        let agent = runtime.block_on(Agent::start(config))?;
        let server = Arc::clone(agent.server().context("the agent has a server")?);
        let http = agent.http_addr().trim_start_matches("http://").parse()?;
        Ok(Fleet { agent: Some(agent), runtime, server, http, _dir: dir })
    }

    /// Adds a node that is ready and sends heartbeats in time, until it is silenced.
    pub fn join(&self, name: &str) -> Result<FakeNode> {
        let auth = NodeAuth { id: NodeId::from(uuid::Uuid::new_v4()), secret: Secret::new("secret") };
        let server = Arc::clone(&self.server);
        self.runtime.block_on(server.node_register(describe(name, &auth)))?;
        self.runtime.block_on(server.node_update_status(&auth, NodeStatus::Ready))?;
        let heart = self.runtime.spawn(beat(server, auth.clone()));
        Ok(FakeNode { auth, heart })
    }

    /// Lets a node report an allocation as running.
    pub fn says_running(&self, node: &FakeNode, alloc: &str) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let started = Time::from_nanos(i64::try_from(now.as_nanos())?);
        let task = TaskState { state: TaskRunState::Running, started_at: Some(started), ..TaskState::default() };
        let update = AllocReport {
            id: AllocId::from(uuid::Uuid::try_parse(alloc)?),
            client_status: AllocClientStatus::Running,
            client_description: "Tasks are running".into(),
            task_states: Some(Arc::new([(Str::new("t"), task)].into())),
            ..AllocReport::default()
        };
        self.runtime.block_on(self.server.node_update_alloc(&node.auth, vec![update]))?;
        Ok(())
    }

    pub fn ask(&self, request: &Request) -> Result<Answer> {
        Ok(http::call(self.http, request, Instant::now() + WITHIN)?)
    }

    pub fn get(&self, target: &str) -> Result<Value> {
        let answer = self.ask(&Request::new("GET", target))?;
        ensure!(answer.head.status == 200, "GET {target}: {} {}", answer.head.status, answer.text());
        Ok(answer.json()?)
    }

    pub fn put(&self, target: &str, body: &Value) -> Result<Answer> {
        let answer = self.ask(&Request::new("PUT", target).json(body))?;
        ensure!(answer.head.status == 200, "PUT {target}: {} {}", answer.head.status, answer.text());
        Ok(answer)
    }

    /// Waits until the answer of `target` satisfies a condition, by blocking queries.
    pub fn wait(&self, target: &str, good: impl Fn(&Value) -> bool) -> Result<Value> {
        let deadline = Instant::now() + WITHIN;
        let (mut index, mut last) = (0, Value::Null);
        while Instant::now() < deadline {
            let answer = self.ask(&Request::new("GET", &format!("{target}?index={index}&wait=2s")))?;
            index = answer.index().context("a blocking query tells its index")?;
            last = answer.json()?;
            if good(&last) {
                return Ok(last);
            }
        }
        anyhow::bail!("{target} did not become as awaited; it is {last}")
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if let Some(agent) = self.agent.take() {
            self.runtime.block_on(agent.stop());
        }
    }
}

/// A node without processes.
pub struct FakeNode {
    auth: NodeAuth,
    heart: JoinHandle<()>,
}

impl FakeNode {
    pub fn id(&self) -> String {
        self.auth.id.to_string()
    }

    /// Stops the node's heartbeats.
    pub fn silence(&self) {
        self.heart.abort();
    }
}

async fn beat(server: Arc<Core>, auth: NodeAuth) {
    while let Ok(answer) = server.node_update_status(&auth, NodeStatus::Ready).await {
        tokio::time::sleep(answer.heartbeat_ttl.to_std() / 2).await;
    }
}

fn describe(name: &str, auth: &NodeAuth) -> Node {
    let attributes =
        [("kernel.name", "linux"), ("arch", "x86_64"), ("nomad.version", "1.6.5"), ("driver.mock_driver", "1")];
    let driver = DriverInfo { detected: true, healthy: true, ..DriverInfo::default() };
    let resources = NodeResources {
        cpu: NodeCpuResources { cpu_shares: 10_000, total_cpu_cores: 4, ..NodeCpuResources::default() },
        memory: NodeMemoryResources { memory_mb: 10_000 },
        disk: NodeDiskResources { disk_mb: 100_000 },
        min_dynamic_port: 20_000,
        max_dynamic_port: 32_000,
        ..NodeResources::default()
    };
    Node {
        id: auth.id,
        secret_id: auth.secret.clone(),
        datacenter: "dc1".into(),
        name: name.into(),
        http_addr: "127.0.0.1:0".into(),
        attributes: Some(Arc::new(attributes.iter().map(|(key, value)| (Str::new(key), Str::new(value))).collect())),
        node_resources: Some(Arc::new(resources)),
        drivers: Some([(Str::new("mock_driver"), driver)].into()),
        status: NodeStatus::Initializing,
        ..Node::default()
    }
}
