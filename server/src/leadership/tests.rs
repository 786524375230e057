//! Three servers in one process, each with its own ports and directory: work begun under one leader is finished,
//! once, under the next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use songline_api::Reads as _;
use songline_api::keyring::Keyring as _;
use songline_model::{
    DriverInfo, Node, NodeCpuResources, NodeDiskResources, NodeId, NodeMemoryResources, NodeResources, NodeStatus,
    Secret, Str,
};
use songline_rpc::{NodeAuth, Servers as _};

use crate::Core;
use crate::config::ServerConfig;
use crate::event_sinks::Receivers;
use crate::testing::{Settings, TestServer, http_client};

/// Timeout of every step; the machine may be busy.
const WITHIN: Duration = Duration::from_secs(90);

/// Three servers of one cluster.
pub(crate) struct Cluster {
    pub servers: BTreeMap<usize, TestServer>,
    _dirs: Vec<tempfile::TempDir>,
    http: reqwest::Client,
}

fn config(
    dir: &std::path::Path,
    at: usize,
    join: Option<String>,
    event_receivers: Option<Arc<dyn Receivers>>,
) -> Settings {
    let mut server =
        ServerConfig { bootstrap_expect: Some(3), num_schedulers: 2, event_receivers, ..ServerConfig::default() };
    server.join.retry_join = join.into_iter().collect();
    Settings { name: format!("server-{at}"), data_dir: Some(dir.to_owned()), server, ..Settings::default() }
}

impl Cluster {
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    /// Starts servers that deliver to event sinks.
    pub async fn start_with(receivers: Option<Arc<dyn Receivers>>) -> Self {
        let mut cluster = Self { servers: BTreeMap::new(), _dirs: Vec::new(), http: http_client() };
        let mut first = None;
        for at in 0..3 {
            let dir = tempfile::tempdir().expect("a directory can be made");
            let server = TestServer::start(config(dir.path(), at, first.clone(), receivers.clone()))
                .await
                .expect("a server starts without a leader");
            first.get_or_insert_with(|| server.core.cluster().address().to_owned());
            cluster.servers.insert(at, server);
            cluster._dirs.push(dir);
        }
        cluster
    }

    pub fn cores(&self) -> impl Iterator<Item = (usize, &Arc<Core>)> {
        self.servers.iter().map(|(at, server)| (*at, &server.core))
    }

    pub async fn until<T>(&self, what: &str, found: impl Fn(&Self) -> Option<T>) -> T {
        let looked = async {
            loop {
                if let Some(found) = found(self) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(WITHIN, looked).await.unwrap_or_else(|_| panic!("waited too long until {what}"))
    }

    /// The server that leads and is ready to lead.
    pub async fn leader(&self) -> (usize, Arc<Core>) {
        self.until("somebody leads", |it| {
            it.cores().find(|(_, core)| core.term().is_some()).map(|(at, core)| (at, Arc::clone(core)))
        })
        .await
    }

    /// Registers a job through a server, and retries until it succeeds.
    pub async fn register(&self, at: usize, n: usize) {
        let job = json!({"Job": {"ID": format!("job-{n}"), "Name": format!("job-{n}"), "Type": "service", "Datacenters": ["*"], "TaskGroups": [{
            "Name": "group", "Count": 2,
            "Tasks": [{"Name": "task", "Driver": "raw_exec", "Config": {"command": "/bin/true"}, "Resources": {"CPU": 20, "MemoryMB": 16}}],
        }]}});
        let registered = async {
            loop {
                let through =
                    if self.servers.contains_key(&at) { at } else { *self.servers.keys().next().expect("one is left") };
                let url = format!("{}/v1/jobs", self.servers[&through].http_addr());
                let sent =
                    self.http.put(url).header("Idempotency-Key", format!("register-{n}")).json(&job).send().await;
                if sent.is_ok_and(|answer| answer.status().is_success()) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(WITHIN, registered).await.unwrap_or_else(|_| panic!("job {n} was not registered in time"));
    }

    async fn get(&self, at: usize, path: &str) -> Value {
        let url = format!("{}{path}", self.servers[&at].http_addr());
        self.http.get(url).send().await.expect("it answers").json().await.expect("it is JSON")
    }

    pub async fn stop(&mut self, at: usize) {
        self.servers.remove(&at).expect("it runs").stop().await;
    }
}

/// Registers a node that is ready and runs nothing.
pub(crate) async fn register_node(core: &Core) {
    let driver = DriverInfo { detected: true, healthy: true, ..DriverInfo::default() };
    let attributes = [("kernel.name", "linux"), ("nomad.version", "1.6.5"), ("driver.raw_exec", "1")];
    let resources = NodeResources {
        cpu: NodeCpuResources { cpu_shares: 100_000, total_cpu_cores: 32, ..NodeCpuResources::default() },
        memory: NodeMemoryResources { memory_mb: 262_144 },
        disk: NodeDiskResources { disk_mb: 1_000_000 },
        min_dynamic_port: 20_000,
        max_dynamic_port: 32_000,
        ..NodeResources::default()
    };
    let id = NodeId::from_bytes([7; 16]);
    let node = Node {
        id,
        secret_id: Secret::new("secret"),
        datacenter: "dc1".into(),
        name: "node".into(),
        attributes: Some(Arc::new(attributes.iter().map(|(key, value)| (Str::new(key), Str::new(value))).collect())),
        node_resources: Some(Arc::new(resources)),
        drivers: Some([(Str::new("raw_exec"), driver)].into()),
        status: NodeStatus::Initializing,
        ..Node::default()
    };
    core.node_register(node).await.expect("the leader takes it");
    let auth = NodeAuth { id, secret: Secret::new("secret") };
    core.node_update_status(&auth, NodeStatus::Ready).await.expect("the leader takes its heartbeat");
}

/// Unexpected state of a job on this server: `None` when its two allocations were placed, once, and no work is
/// pending.
pub(crate) fn fault(core: &Core, n: usize) -> Option<String> {
    let view = core.view();
    let id = format!("job-{n}");
    let evals: Vec<_> = view.evals_of_job("default", &id).map(|eval| eval.status).collect();
    let allocs = view.allocs_of_job("default", &id).count();
    let open = evals.iter().filter(|status| !status.is_terminal()).count();
    (evals.is_empty() || open > 0 || allocs != 2)
        .then(|| format!("job {n}: evaluations {evals:?}, {allocs} allocations"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn jobs_registered_across_leader_changes_are_placed_once() {
    let mut cluster = Cluster::start().await;
    let (first, leader) = cluster.leader().await;
    register_node(&leader).await;
    let follower = (first + 1) % 3;
    assert!(cluster.servers[&follower].core.term().is_none(), "one leads");

    for n in 0..6 {
        cluster.register((first + n) % 3, n).await;
    }
    // Leadership moves while work is in progress ..
    let transferred = cluster.servers[&first].core.hand_over(None).await;
    assert!(transferred.is_ok(), "{transferred:?}");
    for n in 6..12 {
        cluster.register((first + n) % 3, n).await;
    }
    let (second, _) = cluster.leader().await;
    assert_ne!(first, second);
    assert!(
        leader.term().is_none() && leader.queues().broker.stats() == songline_scheduler::broker::BrokerStats::default()
    );
    // .. and its leader stops.
    cluster.stop(second).await;
    for n in 12..18 {
        cluster.register(first, n).await;
    }
    drop(leader);

    let (third, leader) = cluster.leader().await;
    assert_ne!(second, third);
    cluster.until("every job has what it wants", |_| (0..18).all(|n| fault(&leader, n).is_none()).then_some(())).await;
    // All servers have the same state, and can decrypt its keys.
    let index = leader.view().applied_index();
    cluster
        .until("all have applied it", |it| {
            it.cores().all(|(_, core)| core.view().applied_index() >= index).then_some(())
        })
        .await;
    for (at, core) in cluster.cores() {
        let faults: Vec<_> = (0..18).filter_map(|n| fault(core, n)).collect();
        assert!(faults.is_empty(), "server {at}: {faults:?}");
    }
    let sealed = leader.keyring().encrypt(b"plain").expect("the leader encrypts");
    for (at, core) in cluster.cores() {
        let read =
            cluster.until("the key is there", |_| core.keyring().decrypt(sealed.key_id, &sealed.data).ok()).await;
        assert_eq!(read, b"plain", "server {at}");
    }

    // Autopilot reports the dead server and keeps it as a member, since no other server has replaced it.
    let health = cluster.get(third, "/v1/operator/autopilot/health").await;
    assert_eq!(health["Servers"].as_array().map(Vec::len), Some(3), "{health}");
    let peers = cluster.get(third, "/v1/operator/raft/configuration").await;
    let leaders = peers["Servers"].as_array().into_iter().flatten().filter(|server| server["Leader"] == true).count();
    assert_eq!(leaders, 1, "{peers}");
    let members = cluster.get(third, "/v1/agent/members").await;
    assert_eq!(members["Members"].as_array().map(Vec::len), Some(3), "{members}");
    drop(leader);
    let left: Vec<usize> = cluster.servers.keys().copied().collect();
    for at in left {
        cluster.stop(at).await;
    }
}
