//! One simulated node: registers, sends heartbeats, fetches its allocations and reports them at once as running.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use songline::model::{
    AllocClientStatus, AllocDeploymentStatus, AllocId, Allocation, DriverInfo, Dur, Node, NodeCpuResources,
    NodeDiskResources, NodeId, NodeMemoryResources, NodeResources, NodeStatus, Secret, Str, TaskRunState, TaskState,
    Time,
};
use songline::rpc::{AllocReport, BlockingQuery, NodeAuth, RpcError, Servers};
use tokio_util::sync::CancellationToken;

/// Delay after an error.
const RETRY: Duration = Duration::from_millis(500);

/// A node without processes.
pub struct SimNode<S> {
    servers: Arc<S>,
    auth: NodeAuth,
    name: Str,
    stop: CancellationToken,
    /// Its allocations: the servers' index when each was fetched, and whether it still "runs".
    allocs: BTreeMap<AllocId, (u64, bool)>,
}

impl<S: Servers> SimNode<S> {
    /// Creates node number `n`.
    pub fn new(servers: Arc<S>, n: usize, stop: CancellationToken) -> Self {
        let auth =
            NodeAuth { id: NodeId::from(uuid::Uuid::new_v4()), secret: Secret::new(uuid::Uuid::new_v4().to_string()) };
        Self { servers, auth, name: Str::from(format!("sim-{n}")), stop, allocs: BTreeMap::new() }
    }

    /// Registers the node and reports it as ready.
    pub async fn join(&self) -> Result<(), RpcError> {
        self.servers.node_register(self.describe()).await?;
        self.servers.node_update_status(&self.auth, NodeStatus::Ready).await?;
        Ok(())
    }

    /// Runs until the node is stopped.
    pub async fn run(mut self) {
        let heart = tokio::spawn(beat(Arc::clone(&self.servers), self.auth.clone(), self.stop.clone()));
        let mut index = 0;
        while !self.stop.is_cancelled() {
            let poll = self
                .servers
                .node_get_client_allocs(&self.auth, BlockingQuery { min_index: index, max_wait: Dur::ZERO });
            let answer = tokio::select! {
                answer = poll => answer,
                () = self.stop.cancelled() => break,
            };
            let step = match answer {
                Ok(answer) => {
                    index = answer.index;
                    self.follow(&answer.allocs).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                tracing::debug!(node = %self.auth.id, %error, "a simulated node's call failed");
                tokio::time::sleep(RETRY).await;
            }
        }
        heart.abort();
    }

    async fn follow(&mut self, wanted: &BTreeMap<AllocId, u64>) -> Result<(), RpcError> {
        self.allocs.retain(|id, _| wanted.contains_key(id));
        let news: Vec<_> = wanted
            .iter()
            .filter(|(id, index)| self.allocs.get(*id).is_none_or(|(known, _)| known < *index))
            .map(|(id, _)| *id)
            .collect();
        if news.is_empty() {
            return Ok(());
        }
        let mut updates = Vec::new();
        for alloc in self.servers.alloc_get_allocs(&self.auth, news).await? {
            let running = self.allocs.get(&alloc.id).is_some_and(|(_, running)| *running);
            let wants_run = !alloc.server_terminal() && !alloc.client_terminal();
            let changed = running != wants_run && (running || !alloc.client_terminal());
            if changed {
                updates.push(say(&alloc, wants_run));
            }
            self.allocs.insert(alloc.id, (alloc.alloc_modify_index, wants_run));
        }
        if !updates.is_empty() {
            self.servers.node_update_alloc(&self.auth, updates).await?;
        }
        Ok(())
    }

    fn describe(&self) -> Node {
        let attributes = [
            ("kernel.name", "linux"),
            ("arch", "x86_64"),
            ("nomad.version", "1.6.5"),
            ("driver.mock_driver", "1"),
            ("driver.raw_exec", "1"),
            ("os.name", "simulated"),
        ];
        let driver =
            DriverInfo { detected: true, healthy: true, health_description: "Healthy".into(), ..DriverInfo::default() };
        let resources = NodeResources {
            cpu: NodeCpuResources { cpu_shares: 100_000, total_cpu_cores: 32, ..NodeCpuResources::default() },
            memory: NodeMemoryResources { memory_mb: 262_144 },
            disk: NodeDiskResources { disk_mb: 1_000_000 },
            min_dynamic_port: 20_000,
            max_dynamic_port: 32_000,
            ..NodeResources::default()
        };
        Node {
            id: self.auth.id,
            secret_id: self.auth.secret.clone(),
            datacenter: "dc1".into(),
            name: self.name.clone(),
            http_addr: "127.0.0.1:0".into(),
            attributes: Some(Arc::new(
                attributes.iter().map(|(key, value)| (Str::new(key), Str::new(value))).collect(),
            )),
            node_resources: Some(Arc::new(resources)),
            drivers: Some([(Str::new("mock_driver"), driver.clone()), (Str::new("raw_exec"), driver)].into()),
            status: NodeStatus::Initializing,
            ..Node::default()
        }
    }
}

async fn beat<S: Servers>(servers: Arc<S>, auth: NodeAuth, stop: CancellationToken) {
    loop {
        let wait = match servers.node_update_status(&auth, NodeStatus::Ready).await {
            Ok(answer) if answer.heartbeat_ttl > Dur::ZERO => answer.heartbeat_ttl.to_std(),
            Ok(_) => RETRY,
            Err(error) => {
                tracing::debug!(node = %auth.id, %error, "a simulated node's heartbeat failed");
                RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// A node's update for an allocation that starts, or that has stopped.
fn say(alloc: &Allocation, running: bool) -> AllocReport {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Time::from_nanos(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
    let state = if running { TaskRunState::Running } else { TaskRunState::Dead };
    let task =
        TaskState { state, started_at: Some(now), finished_at: (!running).then_some(now), ..TaskState::default() };
    let tasks = alloc.group().into_iter().flat_map(|group| group.tasks.iter().flatten());
    let healthy = running && alloc.deployment_id.is_some();
    AllocReport {
        id: alloc.id,
        client_status: if running { AllocClientStatus::Running } else { AllocClientStatus::Complete },
        client_description: if running { "Tasks are running" } else { "All tasks have completed" }.into(),
        task_states: Some(Arc::new(tasks.map(|spec| (spec.name.clone(), task.clone())).collect())),
        deployment_status: healthy.then(|| AllocDeploymentStatus {
            healthy: Some(true),
            timestamp: Some(now),
            ..AllocDeploymentStatus::default()
        }),
        ..AllocReport::default()
    }
}
