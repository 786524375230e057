//! A simulated node: a machine with simulated processes, and on it a node agent with the real agent's loops
//! (`songline_client::loops`) and state machines (`songline_client::core`). Its runners have simulated processes in place
//! of drivers, and no directories; it has no API.

mod host;
mod processes;
mod runner;
mod script;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_client::loops::{Beginning, Loops, Runners};
use songline_client::{Clock as AgentClock, NetServers};
use songline_model::{
    AllocId, DriverInfo, Node, NodeDevice, NodeDeviceResource, NodeId, NodeNetworkAddress, NodeNetworkResource,
    NodeResources, NodeStatus, Secret, Str,
};
use songline_rpc::NodeAuth;
use songline_rpc::port::Dialer;
use songline_rpc::world::World;
use tokio::sync::mpsc;

use super::clock::Clock;
use super::ending::Ending;
use super::jobs::FAST_CLASS;
use super::network::{Network, Tcp, number_of};
use super::plan::Sabotage;
use super::record::Record;
use super::world::SimWorld;
use host::{SimHost, Site, Stored};
use processes::Processes;

/// Capacity of a node in MHz, for tasks of 100 to 250 MHz.
const CPU_SHARES: i64 = 1200;
/// Number of its cores.
const CORES: u64 = 4;
/// Number of devices of a node that has any.
const DEVICES: usize = 2;

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
    /// Durable state of the agents. It counts as written when the write is reported.
    stored: Mutex<BTreeMap<AllocId, Stored>>,
    /// Durable mark that the servers know the node.
    registered: AtomicBool,
    /// Life of the agent that runs.
    agent: Mutex<Option<Arc<Ending>>>,
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
            stored: Mutex::default(),
            registered: AtomicBool::new(false),
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
        let life = Ending::new();
        let tcp = Tcp::new(number_of(self.number), &life, &self.network, &self.record);
        let world: Arc<dyn World> = Arc::new(SimWorld::new(self.clock.clone(), self.draw()));
        let clock = AgentClock::start(Arc::clone(&world));
        let (region, servers) = self.servers.clone();
        let servers = NetServers::new(servers, region.into(), world, Dialer::over(Arc::new(tcp)), None);
        let servers = Arc::new(servers);
        let (news, mut inbox) = mpsc::unbounded_channel();
        let beginning = Beginning {
            auth: self.auth.clone(),
            clock: clock.clone(),
            dev: false,
            node: Arc::new(Mutex::new(Arc::new(self.description.clone()))),
            runners: Runners::default(),
            registered: self.registered.load(Ordering::Relaxed),
        };
        let runners = Arc::clone(&beginning.runners);
        let site = Site { machine: Arc::clone(self), life: Arc::clone(&life), clock, runners, news };
        let loops = Loops::new(beginning, Arc::clone(&servers), SimHost(Arc::new(site)));
        let stored = self.stored.lock().clone();
        loops.restore(stored.into_values().map(Stored::left));
        loops.all_loops().into_iter().for_each(|work| life.spawn(work));
        life.spawn(async move {
            while let Some(alloc) = inbox.recv().await {
                loops.report(&alloc);
            }
        });
        life.spawn(async move { servers.rebalance().await });
        if let Some(before) = self.agent.lock().replace(life) {
            before.end();
        }
    }

    /// Kills the agent; the processes keep running.
    pub fn stop_agent(&self) {
        if let Some(life) = self.agent.lock().take() {
            life.end();
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
