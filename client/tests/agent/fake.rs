//! Fake servers, and an agent that uses them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use songline_client::{Client, ClientConfig};
use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocId, AllocatedCpuResources, AllocatedMemoryResources,
    AllocatedResources, AllocatedTaskResources, Allocation, CsiVolumeClaim, CsiVolumeKey, DrainStrategy, Dur, Job,
    JobType, NamespaceName, Node, NodeEvent, NodeId, NodeStatus, RestartPolicy, Secret, ServiceRegistration, Str, Task,
    TaskGroup, TaskRunState, TaskState,
};
use songline_rpc::{
    AllocReport, BlockingQuery, ClaimedVolume, ClientAllocs, NoVaultToken, NodeAgent, NodeAuth, NodeUpdateResponse,
    Origin, ReadLogs, RpcError, Servers, WrappedTokens,
};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::vault_api::VaultApi;

/// Timeout of a test's conditions.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// State of the fake servers.
#[derive(Default)]
struct Known {
    index: u64,
    node: Option<Node>,
    heartbeats: u64,
    fetched: usize,
    allocs: BTreeMap<AllocId, Arc<Allocation>>,
    updates: Vec<AllocReport>,
    services: BTreeMap<Str, ServiceRegistration>,
    /// Announced and withdrawn services, in order, by name.
    service_calls: Vec<String>,
    /// Allocations of another node, and that node.
    elsewhere: BTreeMap<AllocId, Arc<Allocation>>,
    other_node: Option<Node>,
    migrate_tokens: BTreeMap<AllocId, Str>,
    /// Number of queries for allocations of other nodes.
    asked_elsewhere: usize,
    vault: Option<VaultApi>,
}

/// Fake servers.
pub struct Fake {
    known: Mutex<Known>,
    changed: watch::Sender<u64>,
}

impl Fake {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { known: Mutex::new(Known { index: 1, ..Known::default() }), changed: watch::Sender::new(1) })
    }

    fn change<T>(&self, act: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.known.lock();
        known.index += 1;
        let result = act(&mut known);
        self.changed.send_replace(known.index);
        result
    }

    fn look<T>(&self, act: impl FnOnce(&Known) -> T) -> T {
        act(&self.known.lock())
    }

    pub fn node(&self) -> Option<Node> {
        self.look(|known| known.node.clone())
    }

    pub fn heartbeats(&self) -> u64 {
        self.look(|known| known.heartbeats)
    }

    /// Announced and withdrawn services so far, in order, by name.
    pub fn service_calls(&self) -> Vec<String> {
        self.look(|known| known.service_calls.clone())
    }

    /// Currently announced services.
    pub fn services(&self) -> Vec<ServiceRegistration> {
        self.look(|known| known.services.values().cloned().collect())
    }

    /// Number of allocations that the agent has fetched so far.
    pub fn fetched(&self) -> usize {
        self.look(|known| known.fetched)
    }

    pub fn updates_of(&self, id: AllocId) -> Vec<AllocReport> {
        self.look(|known| known.updates.iter().filter(|update| update.id == id).cloned().collect())
    }

    pub fn place(&self, mut alloc: Allocation) -> AllocId {
        self.change(|known| {
            if alloc.id.is_nil() {
                alloc.id = fresh_id();
            }
            alloc.alloc_modify_index = known.index;
            alloc.modify_index = known.index;
            let id = alloc.id;
            known.allocs.insert(id, Arc::new(alloc));
            id
        })
    }

    pub fn edit(&self, id: AllocId, edit: impl FnOnce(&mut Allocation)) {
        self.change(|known| {
            let mut alloc = Allocation::clone(&known.allocs[&id]);
            edit(&mut alloc);
            alloc.alloc_modify_index = known.index;
            known.allocs.insert(id, Arc::new(alloc));
        });
    }

    /// Changes an allocation as the restore of an archive does in which it runs, with these states of its tasks.
    pub fn want_again(&self, id: AllocId, then: &AllocReport) {
        self.edit(id, |alloc| {
            alloc.desired_status = AllocDesiredStatus::Run;
            alloc.client_status = AllocClientStatus::Running;
            alloc.task_states.clone_from(&then.task_states);
        });
    }

    pub fn stop(&self, id: AllocId) {
        self.edit(id, |alloc| alloc.desired_status = AllocDesiredStatus::Stop);
    }

    /// Places an allocation whose predecessor is on another node.
    pub fn place_after(&self, previous: Allocation, node: Node, token: &str, next: Allocation) -> AllocId {
        self.change(|known| {
            known.elsewhere.insert(previous.id, Arc::new(Allocation { node_id: Some(node.id), ..previous }));
            known.other_node = Some(node);
        });
        let next = Allocation { id: fresh_id(), ..next };
        self.change(|known| known.migrate_tokens.insert(next.id, token.into()));
        self.place(next)
    }

    /// Ends an allocation of another node.
    pub fn end_elsewhere(&self, id: AllocId) {
        self.change(|known| {
            let alloc = known.elsewhere.get_mut(&id).expect("is placed");
            Arc::make_mut(alloc).client_status = AllocClientStatus::Complete;
        });
    }

    /// The Vault in which the servers create tokens.
    pub fn use_vault(&self, vault: &VaultApi) {
        self.known.lock().vault = Some(vault.clone());
    }

    /// Number of queries for allocations of other nodes.
    pub fn asked_elsewhere(&self) -> usize {
        self.look(|known| known.asked_elsewhere)
    }

    pub fn forget(&self, id: AllocId) {
        self.change(|known| known.allocs.remove(&id));
    }
}

impl Servers for Fake {
    async fn node_register(&self, node: Node) -> Result<NodeUpdateResponse, RpcError> {
        self.look(|known| match &known.node {
            Some(before) if before.id != node.id || before.secret_id != node.secret_id => {
                Err(RpcError::remote("node secret ID does not match. Not registering node."))
            }
            _ => Ok(()),
        })?;
        let index = self.change(|known| {
            known.node = Some(node);
            known.index
        });
        Ok(NodeUpdateResponse {
            heartbeat_ttl: Dur::from_millis(500),
            index,
            nodes: 1,
            ..NodeUpdateResponse::default()
        })
    }

    async fn node_update_status(&self, _from: &NodeAuth, status: NodeStatus) -> Result<NodeUpdateResponse, RpcError> {
        assert_eq!(status, NodeStatus::Ready);
        let mut known = self.known.lock();
        known.heartbeats += 1;
        Ok(NodeUpdateResponse { heartbeat_ttl: Dur::from_millis(500), nodes: 1, ..NodeUpdateResponse::default() })
    }

    async fn node_get_client_allocs(&self, _from: &NodeAuth, query: BlockingQuery) -> Result<ClientAllocs, RpcError> {
        let mut changed = self.changed.subscribe();
        let _ = changed.wait_for(|index| *index > query.min_index).await;
        Ok(self.look(|known| ClientAllocs {
            allocs: known.allocs.values().map(|alloc| (alloc.id, alloc.alloc_modify_index)).collect(),
            index: known.index,
            migrate_tokens: known.migrate_tokens.clone(),
        }))
    }

    async fn alloc_get_allocs(&self, _from: &NodeAuth, ids: Vec<AllocId>) -> Result<Vec<Arc<Allocation>>, RpcError> {
        let mut known = self.known.lock();
        known.fetched += ids.len();
        Ok(ids.iter().filter_map(|id| known.allocs.get(id).cloned()).collect())
    }

    async fn alloc_get_alloc(
        &self,
        _from: &NodeAuth,
        id: AllocId,
        query: BlockingQuery,
    ) -> Result<(Option<Arc<Allocation>>, u64), RpcError> {
        self.known.lock().asked_elsewhere += 1;
        let mut changed = self.changed.subscribe();
        let _ = changed.wait_for(|index| *index > query.min_index).await;
        Ok(self.look(|known| (known.elsewhere.get(&id).cloned(), known.index)))
    }

    async fn node_get_node(&self, _from: &NodeAuth, id: NodeId) -> Result<Option<Node>, RpcError> {
        Ok(self.look(|known| known.other_node.clone().filter(|node| node.id == id)))
    }

    async fn node_update_alloc(&self, _from: &NodeAuth, allocs: Vec<AllocReport>) -> Result<u64, RpcError> {
        Ok(self.change(|known| {
            for update in allocs {
                if let Some(alloc) = known.allocs.get(&update.id) {
                    let mut alloc = Allocation::clone(alloc);
                    alloc.client_status = update.client_status;
                    alloc.task_states.clone_from(&update.task_states);
                    known.allocs.insert(update.id, Arc::new(alloc));
                }
                known.updates.push(update);
            }
            known.index
        }))
    }

    async fn service_registration_upsert(
        &self,
        from: &NodeAuth,
        services: Vec<ServiceRegistration>,
    ) -> Result<u64, RpcError> {
        Ok(self.change(|known| {
            for service in services {
                assert_eq!(service.node_id, from.id);
                known.service_calls.push(format!("+{}", service.service_name));
                known.services.insert(service.id.clone(), service);
            }
            known.index
        }))
    }

    async fn service_registration_delete_by_id(
        &self,
        _from: &NodeAuth,
        _namespace: NamespaceName,
        id: Str,
    ) -> Result<u64, RpcError> {
        self.change(|known| {
            let service =
                known.services.remove(&id).ok_or_else(|| RpcError::remote("service registration not found"))?;
            known.service_calls.push(format!("-{}", service.service_name));
            Ok(known.index)
        })
    }

    async fn csi_volume_claim(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<ClaimedVolume, RpcError> {
        assert_eq!(claim.node_id, from.id);
        Err(RpcError::remote(format!("volume not found: {}", volume.id)))
    }

    async fn csi_volume_unpublish(
        &self,
        from: &NodeAuth,
        volume: CsiVolumeKey,
        claim: CsiVolumeClaim,
    ) -> Result<u64, RpcError> {
        assert_eq!(claim.node_id, from.id);
        Err(RpcError::remote(format!("volume not found: {}", volume.id)))
    }

    async fn node_update_drain(
        &self,
        _from: &NodeAuth,
        _strategy: DrainStrategy,
        _meta: BTreeMap<Str, Str>,
    ) -> Result<u64, RpcError> {
        Err(RpcError::remote("these servers drain no nodes"))
    }

    async fn node_derive_vault_token(
        &self,
        _from: &NodeAuth,
        alloc: AllocId,
        tasks: Vec<Str>,
    ) -> Result<Result<WrappedTokens, NoVaultToken>, RpcError> {
        let (vault, alloc) = self.look(|known| (known.vault.clone(), known.allocs.get(&alloc).cloned()));
        let no = |why: &str| Ok(Err(NoVaultToken { why: why.into(), recoverable: false }));
        let Some(vault) = vault else { return no("Vault is not enabled") };
        let Some(alloc) = alloc else { return no("the allocation is not on this node") };
        let wrapped = tasks.into_iter().map(|task| {
            let policies = alloc.group().and_then(|group| group.task(&task)?.vault.as_ref()?.policies.clone());
            let policies = policies.iter().flatten().map(ToString::to_string).collect();
            let away = || NoVaultToken { why: "Vault: status 503: Vault is sealed".into(), recoverable: true };
            Ok((task, Secret::new(vault.wrap(policies).ok_or_else(away)?)))
        });
        Ok(wrapped.collect())
    }

    async fn node_emit_events(&self, _from: &NodeAuth, _events: Vec<NodeEvent>) -> Result<u64, RpcError> {
        Ok(1)
    }
}

/// An id that no other allocation of this machine has: cgroups are named by it.
fn fresh_id() -> AllocId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = u128::from(std::process::id()) << 64 | u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
    AllocId::from_bytes(id.to_be_bytes())
}

/// An agent, its servers, and its directory, which outlives it.
pub struct Stage {
    pub servers: Arc<Fake>,
    pub client: Client<Fake>,
    dir: Kept,
    change: Change,
}

/// Changes the configuration of an agent before it starts.
type Change = Arc<dyn Fn(&mut ClientConfig) + Send + Sync>;

/// A directory that on drop kills all processes that were started for it, also when a test fails.
struct Kept(TempDir);

impl Drop for Kept {
    fn drop(&mut self) {
        let started = walk(&self.0.path().join("state/runs"));
        let started =
            started.iter().filter(|path| path.ends_with("started.json")).filter_map(|path| std::fs::read(path).ok());
        for started in started.filter_map(|text| serde_json::from_slice::<Value>(&text).ok()) {
            for (key, ticks) in [("executor", "executor_start"), ("task", "task_start")] {
                let pid = started[key].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
                if start_ticks(pid) == started[ticks].as_u64()
                    && let Some(pid) = rustix::process::Pid::from_raw(pid)
                {
                    let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
                }
            }
        }
    }
}

fn start_ticks(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.split_whitespace().nth(19)?.parse().ok()
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        found.extend(if path.is_dir() { walk(&path) } else { vec![path] });
    }
    found
}

impl Stage {
    pub async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// Starts an agent with a changed configuration.
    pub async fn with(change: impl Fn(&mut ClientConfig) + Send + Sync + 'static) -> Self {
        let dir = Kept(tempfile::tempdir().expect("a directory"));
        let servers = Fake::new();
        let change: Change = Arc::new(change);
        let client = start(dir.0.path(), &servers, &change).await;
        Self { servers, client, dir, change }
    }

    /// Stops the agent without stopping its tasks, and starts another with the same directory.
    pub async fn restart(self) -> Self {
        self.client.shutdown(false).await;
        self.start_again().await
    }

    /// Drops the agent as if it were killed, and starts another.
    pub async fn crash(self) -> Self {
        drop(self.client);
        let client = start(self.dir.0.path(), &self.servers, &self.change).await;
        Self { servers: self.servers, client, dir: self.dir, change: self.change }
    }

    pub async fn start_again(self) -> Self {
        let client = start(self.dir.0.path(), &self.servers, &self.change).await;
        Self { servers: self.servers, client, dir: self.dir, change: self.change }
    }

    pub fn alloc_dir(&self, id: AllocId) -> PathBuf {
        self.dir.0.path().join("alloc").join(id.to_string())
    }

    /// Places a job of one task.
    pub fn run(&self, task: Task) -> AllocId {
        self.servers.place(alloc(JobType::Batch, vec![task]))
    }

    /// Waits until the reported update of an allocation satisfies a condition.
    pub async fn until(&self, what: &str, id: AllocId, is_so: impl Fn(&AllocReport) -> bool) -> AllocReport {
        until(what, || self.servers.updates_of(id).into_iter().next_back().filter(|update| is_so(update))).await
    }

    pub async fn until_status(&self, id: AllocId, status: AllocClientStatus) -> AllocReport {
        self.until(status.as_str(), id, |update| update.client_status == status).await
    }

    /// The current content of a task's log.
    pub async fn logs(&self, id: AllocId, kind: &str, offset: i64, origin: Origin) -> Result<String, RpcError> {
        let read = ReadLogs { alloc: id, task: "web".into(), kind: kind.into(), offset, origin, follow: false };
        let mut frames = self.client.fs_logs(read).await?;
        let mut data = Vec::new();
        while let Some(frame) = frames.recv().await {
            data.extend_from_slice(&frame?.data);
        }
        Ok(String::from_utf8_lossy(&data).into_owned())
    }

    /// Number in a file that a task writes, once the file is complete.
    pub async fn number_in(&self, id: AllocId, file: &str) -> i32 {
        let path = self.alloc_dir(id).join(file);
        until(file, || std::fs::read_to_string(&path).ok()?.strip_suffix('\n')?.trim().parse().ok()).await
    }
}

async fn start(dir: &Path, servers: &Arc<Fake>, change: &Change) -> Client<Fake> {
    let config = || {
        let mut config = ClientConfig::dev(dir.to_owned());
        config.executor = vec![env!("CARGO_BIN_EXE_songline-executor").into()];
        change(&mut config);
        config
    };
    let since = Instant::now();
    loop {
        // The previous agent may still hold the database for a moment.
        match Client::start(config(), Arc::clone(servers)).await {
            Ok(client) => return client,
            Err(error) if since.elapsed() > TIMEOUT => panic!("the agent does not start: {error:?}"),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Polls until there is an answer.
pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < TIMEOUT, "waited too long for: {what}");
        ticks.tick().await;
    }
}

/// An allocation of a group of these tasks.
pub fn alloc(kind: JobType, tasks: Vec<Task>) -> Allocation {
    let resources = |_: &Task| AllocatedTaskResources {
        cpu: AllocatedCpuResources { cpu_shares: 100, reserved_cores: None },
        memory: AllocatedMemoryResources { memory_mb: 64, memory_max_mb: 0 },
        ..AllocatedTaskResources::default()
    };
    let resources = tasks.iter().map(|task| (task.name.clone(), resources(task))).collect();
    let group = TaskGroup {
        name: "group".into(),
        tasks: Some(tasks),
        restart_policy: Some(RestartPolicy { mode: "fail".into(), ..RestartPolicy::default() }),
        ..TaskGroup::default()
    };
    Allocation {
        name: "job.group[0]".into(),
        namespace: "default".into(),
        job_id: "job".into(),
        task_group: "group".into(),
        job: Some(Arc::new(Job {
            id: "job".into(),
            name: "job".into(),
            kind,
            task_groups: Some(vec![group]),
            ..Job::default()
        })),
        allocated_resources: Some(Arc::new(AllocatedResources {
            tasks: Some(resources),
            ..AllocatedResources::default()
        })),
        ..Allocation::default()
    }
}

/// A task with a `config` block.
pub fn task(driver: &str, config: Value) -> Task {
    let config =
        config.as_object().expect("an object").iter().map(|(key, value)| (Str::new(key), value.clone())).collect();
    Task {
        name: "web".into(),
        driver: driver.into(),
        config: Some(config),
        kill_timeout: Dur::from_secs(5),
        ..Task::default()
    }
}

/// A task that is a shell script.
pub fn shell(script: &str) -> Task {
    task("raw_exec", json!({ "command": "/bin/sh", "args": ["-c", script] }))
}

/// The types of a task's events, in order.
pub fn kinds(update: &AllocReport) -> Vec<String> {
    web(update).events.iter().flatten().map(|event| event.kind.to_string()).collect()
}

/// Display messages of a task's events, in order.
pub fn messages(update: &AllocReport) -> Vec<String> {
    web(update).events.iter().flatten().map(|event| event.display_message.to_string()).collect()
}

/// State of the allocation's only task.
pub fn web(update: &AllocReport) -> &TaskState {
    update.task("web").expect("the task is reported")
}

pub fn is_running(update: &AllocReport) -> bool {
    web(update).state == TaskRunState::Running
}

/// Whether a process runs, and is not merely unreaped.
pub fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}
