//! A simulated node: a machine with simulated processes, and on it a node agent with the real agent's state machines
//! (`songline_client::core`). It registers, sends heartbeats, fetches its allocations, runs them, and reports their
//! status. The real agent's drivers, directories and API are left out.

mod allocs;
mod processes;
mod runner;
mod script;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_client::NetServers;
use songline_client::core::{AllocSync, Heartbeats, Jitter, NextCall, TaskRecord};
use songline_model::{
    AllocClientStatus, AllocDeploymentStatus, AllocId, Allocation, DriverInfo, Dur, Node, NodeDevice,
    NodeDeviceResource, NodeId, NodeNetworkAddress, NodeNetworkResource, NodeResources, NodeStatus, Secret, Str, Time,
};
use songline_rpc::port::Dialer;
use songline_rpc::{AllocReport, NodeAuth, RpcError, Servers};
use tokio::sync::{Notify, mpsc};

use super::clock::Clock;
use super::ending::Ending;
use super::jobs::FAST_CLASS;
use super::network::{Network, Tcp, number_of};
use super::plan::Sabotage;
use super::record::Record;
use super::world::SimWorld;
use processes::Processes;
use runner::Runner;

/// Time for which one call is retried while there is no leader.
const RPC_HOLD: Dur = Dur::from_secs(5);
/// Capacity of a node in MHz, for tasks of 100 to 250 MHz.
const CPU_SHARES: i64 = 1200;
/// Number of its cores.
const CORES: u64 = 4;
/// Number of devices of a node that has any.
const DEVICES: usize = 2;

/// An agent's durable state of an allocation. It counts as written when the write is reported.
#[derive(Clone)]
struct Left {
    alloc: Arc<Allocation>,
    tasks: BTreeMap<Str, TaskRecord>,
    health: Option<AllocDeploymentStatus>,
    acknowledged: Option<AllocReport>,
}

/// The machine, which outlives its agents.
pub struct NodeMachine {
    /// Number of the machine, from 0.
    pub number: usize,
    /// Credentials of the node.
    pub auth: NodeAuth,
    clock: Clock,
    network: Arc<Network>,
    record: Arc<Record>,
    rng: Mutex<SmallRng>,
    /// Processes of the machine.
    pub processes: Processes,
    left: Mutex<BTreeMap<AllocId, Left>>,
    agent: Mutex<Option<Arc<Agent>>>,
    /// Region and addresses of the servers.
    servers: (&'static str, Vec<Str>),
    /// Description of the node as it registers.
    description: Node,
    /// Whether tasks do what their configuration for the mock driver says, and nothing at random.
    scripted: bool,
}

impl NodeMachine {
    /// Creates a machine on which nothing runs yet, for the region and the addresses of its servers. Its tasks fail at
    /// random.
    pub fn new(
        number: usize,
        seed: u64,
        servers: (&'static str, Vec<Str>),
        network: &Arc<Network>,
        record: &Arc<Record>,
    ) -> Arc<Self> {
        Self::with(number, seed, servers, network, record, plain(number), false)
    }

    /// Creates a machine with this description, except for id, secret and status. Its tasks do what they are
    /// configured to do.
    pub fn scripted(
        number: usize,
        seed: u64,
        servers: Vec<Str>,
        network: &Arc<Network>,
        record: &Arc<Record>,
        description: Node,
    ) -> Arc<Self> {
        Self::with(number, seed, ("global", servers), network, record, description, true)
    }

    fn with(
        number: usize,
        seed: u64,
        servers: (&'static str, Vec<Str>),
        network: &Arc<Network>,
        record: &Arc<Record>,
        description: Node,
        scripted: bool,
    ) -> Arc<Self> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let id = NodeId::from(uuid::Builder::from_random_bytes(rng.random()).into_uuid());
        let auth = NodeAuth { id, secret: Secret::new(format!("secret-{number}")) };
        let clock = Clock::new(record.started(), rng.random_range(-500..=500), rng.random_range(900..=1100));
        let secret_id = auth.secret.clone();
        let description = Node { id, secret_id, status: NodeStatus::Initializing, ..description };
        Arc::new(Self {
            number,
            auth,
            clock,
            network: Arc::clone(network),
            record: Arc::clone(record),
            processes: Processes::new(rng.random(), record.is_sabotaged(Sabotage::ProcessesThatStay)),
            rng: Mutex::new(rng),
            left: Mutex::default(),
            agent: Mutex::default(),
            servers,
            description,
            scripted,
        })
    }

    /// Name of the node.
    pub fn name(&self) -> &str {
        &self.description.name
    }

    /// Starts a new agent on the machine, which restores the previous agent's state.
    pub fn start_agent(self: &Arc<Self>) {
        let agent = Agent::start(self);
        if let Some(before) = self.agent.lock().replace(agent) {
            before.life.end();
        }
    }

    /// Kills the agent; the processes keep running.
    pub fn stop_agent(&self) {
        if let Some(agent) = self.agent.lock().take() {
            agent.life.end();
        }
    }

    /// Kills the agent and all processes.
    pub fn die(&self) {
        self.stop_agent();
        self.processes.die();
    }

    fn draw(&self) -> u64 {
        self.rng.lock().random()
    }

    fn jitter(&self) -> Jitter {
        Jitter::new(self.draw())
    }

    fn now(&self) -> Time {
        self.clock.wall()
    }

    async fn until(&self, at: Option<Time>) {
        self.clock.count(at.map(|at| at.since(self.now()))).await;
    }
}

/// Description of a node of a simulation with faults, without id and secret. Every second one is of the fast class,
/// with devices.
fn plain(number: usize) -> Node {
    let is_fast = number % 2 == 1;
    let mut resources = NodeResources::default();
    resources.cpu.cpu_shares = CPU_SHARES;
    resources.cpu.total_cpu_cores = CORES;
    resources.cpu.reservable_cpu_cores = Some((0..CORES).collect());
    resources.devices = is_fast.then(|| vec![device()]);
    resources.memory.memory_mb = 8000;
    resources.disk.disk_mb = 100_000;
    let address =
        NodeNetworkAddress { alias: "default".into(), address: "10.0.0.1".into(), ..NodeNetworkAddress::default() };
    let network =
        NodeNetworkResource { mode: "host".into(), addresses: Some(vec![address]), ..NodeNetworkResource::default() };
    resources.node_networks = Some(vec![network]);
    let driver = DriverInfo { detected: true, healthy: true, ..DriverInfo::default() };
    Node {
        name: format!("node-{number}").into(),
        datacenter: "dc1".into(),
        node_pool: "default".into(),
        node_class: if is_fast { FAST_CLASS.into() } else { "plain".into() },
        attributes: Some(Arc::new([("kernel.name".into(), "linux".into())].into())),
        node_resources: Some(Arc::new(resources)),
        drivers: Some([("mock_driver".into(), driver)].into()),
        ..Node::default()
    }
}

fn device() -> NodeDeviceResource {
    let instance = |number| NodeDevice { id: format!("gpu-{number}").into(), healthy: true, ..NodeDevice::default() };
    NodeDeviceResource {
        vendor: "sim".into(),
        kind: "gpu".into(),
        name: "g1".into(),
        instances: Some((0..DEVICES).map(instance).collect()),
        ..NodeDeviceResource::default()
    }
}

/// One life of an agent.
struct Agent {
    machine: Arc<NodeMachine>,
    life: Arc<Ending>,
    servers: Arc<NetServers>,
    runners: Mutex<BTreeMap<AllocId, Arc<Runner>>>,
    invalid: Mutex<BTreeSet<AllocId>>,
    sync: Mutex<AllocSync>,
    sync_wake: Notify,
    registered: Ending,
    register_again: Notify,
    news: mpsc::UnboundedSender<AllocReport>,
}

impl Agent {
    fn start(machine: &Arc<NodeMachine>) -> Arc<Self> {
        let (news, inbox) = mpsc::unbounded_channel();
        let life = Ending::new();
        let tcp = Tcp::new(number_of(machine.number), &life, &machine.network, &machine.record);
        let world = Arc::new(SimWorld::new(machine.clock.clone(), machine.draw()));
        let dialer = Dialer::over(Arc::new(tcp));
        let (region, servers) = machine.servers.clone();
        let servers = Arc::new(NetServers::new(servers, region.into(), world, dialer, None));
        let agent = Arc::new(Self {
            machine: Arc::clone(machine),
            life,
            servers: Arc::clone(&servers),
            runners: Mutex::default(),
            invalid: Mutex::default(),
            sync: Mutex::new(AllocSync::new(machine.now(), machine.jitter())),
            sync_wake: Notify::new(),
            registered: Ending::default(),
            register_again: Notify::new(),
            news,
        });
        agent.restore();
        agent.life.spawn(Arc::clone(&agent).keep_registered());
        agent.life.spawn(Arc::clone(&agent).gather(inbox));
        agent.life.spawn(Arc::clone(&agent).send_updates());
        agent.life.spawn(Arc::clone(&agent).watch());
        agent.life.spawn(async move { servers.rebalance().await });
        agent
    }

    fn now(&self) -> Time {
        self.machine.now()
    }

    /// Waits for `span` by this machine's clock.
    async fn rest(&self, span: Dur) {
        self.machine.clock.count(Some(span)).await;
    }

    /// Makes a call, and repeats it while there is no leader, for at most `RPC_HOLD`.
    async fn call<T, F: Future<Output = Result<T, RpcError>>>(
        &self,
        mut make: impl FnMut() -> F,
    ) -> Result<T, RpcError> {
        let until = self.now().plus(RPC_HOLD);
        loop {
            match make().await {
                Err(RpcError::NoLeader) if self.now() < until => {
                    let wait = self.machine.jitter().below(Dur(RPC_HOLD.nanos() / 16));
                    self.rest(wait).await;
                }
                answer => return answer,
            }
        }
    }

    async fn keep_registered(self: Arc<Self>) {
        let mut beats = Heartbeats::new(self.now(), false, self.machine.jitter());
        loop {
            let (call, at) = beats.next();
            tokio::select! {
                biased;
                () = self.register_again.notified() => { beats.register_again(self.now()); continue }
                () = self.machine.until(Some(at)) => {}
            }
            match call {
                NextCall::Register => self.register(&mut beats).await,
                NextCall::Heartbeat => self.heartbeat(&mut beats).await,
            }
        }
    }

    async fn register(&self, beats: &mut Heartbeats) {
        let node = self.machine.description.clone();
        match self.call(|| self.servers.node_register(node.clone())).await {
            Ok(answer) => {
                beats.on_registered(self.now(), answer.heartbeat_ttl);
                self.registered.end();
                self.machine.record.note(&format!("{} is registered", self.machine.name()));
            }
            Err(error) => {
                let away =
                    matches!(error, RpcError::NoLeader | RpcError::Lost(_)) || error.to_string().contains("no servers");
                beats.on_register_failed(self.now(), away);
            }
        }
    }

    async fn heartbeat(&self, beats: &mut Heartbeats) {
        match self.call(|| self.servers.node_update_status(&self.machine.auth, NodeStatus::Ready)).await {
            Ok(answer) => {
                if answer.index != 0 {
                    self.machine.record.note(&format!("{} is back", self.machine.name()));
                    self.machine.record.count(|counts| counts.reconnects += 1);
                    self.say_again();
                }
                beats.on_heartbeat(self.now(), answer.heartbeat_ttl);
            }
            Err(error) if error.to_string().contains("node not found") => beats.register_again(self.now()),
            Err(error) => beats.on_heartbeat_failed(self.now(), error == RpcError::NoLeader),
        }
    }

    /// Reports all running allocations again: the servers may know their status, but requested it.
    fn say_again(&self) {
        let runs = |update: &AllocReport| update.client_status == AllocClientStatus::Running;
        let known: Vec<AllocReport> =
            self.runners.lock().values().map(|runner| runner.view().update).filter(runs).collect();
        self.sync.lock().say_again(self.now(), known);
        self.sync_wake.notify_one();
    }

    /// Collects the runners' messages.
    async fn gather(self: Arc<Self>, mut inbox: mpsc::UnboundedReceiver<AllocReport>) {
        while let Some(update) = inbox.recv().await {
            // An allocation that the servers have dropped has nothing to report.
            if self.runners.lock().contains_key(&update.id) {
                self.sync.lock().put(self.now(), update);
                self.sync_wake.notify_one();
            }
        }
    }

    async fn send_updates(self: Arc<Self>) {
        self.registered.over().await;
        loop {
            let deadline = self.sync.lock().next_deadline(self.now());
            tokio::select! {
                biased;
                () = self.sync_wake.notified() => continue,
                () = self.machine.until(deadline) => {}
            }
            let Some(batch) = self.sync.lock().on_time(self.now()) else { continue };
            let sent = self.call(|| self.servers.node_update_alloc(&self.machine.auth, batch.clone())).await;
            let acknowledged = self.sync.lock().on_sent(self.now(), sent.is_ok());
            for update in acknowledged {
                if let Some(left) = self.machine.left.lock().get_mut(&update.id) {
                    left.acknowledged = Some(update);
                }
            }
        }
    }
}
