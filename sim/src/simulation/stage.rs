//! A small cluster on which nothing goes wrong by itself: one server with one scheduler worker, and nodes whose tasks
//! do what they are configured to do. A test speaks to it over HTTP. Not here: faults and checkers, which `run` has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_model::{Node, NodeId, NodeStatus};
use songline_projections::State;

use super::Sabotage;
use super::agent::NodeMachine;
use super::http::{self, Answer};
use super::network::Network;
use super::record::Record;
use super::run::on_virtual_time;
use super::server::{Cluster, Host};

/// Interval at which the state is looked at while something is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The cluster.
pub struct Stage {
    seed: u64,
    network: Arc<Network>,
    record: Arc<Record>,
    host: Arc<Host>,
    /// Machines of nodes by the names of these.
    nodes: Mutex<BTreeMap<String, Arc<NodeMachine>>>,
}

/// Starts a cluster without nodes, and lets `act` work with it on virtual time. The same seed gives the same run.
pub fn on_stage<T>(seed: u64, act: impl AsyncFnOnce(&Stage) -> T) -> T {
    on_virtual_time(seed, async {
        let stage = Stage::new(seed);
        tokio::spawn(Arc::clone(&stage.host).run());
        stage.until(|view| view.active_root_key().is_some()).await;
        let result = act(&stage).await;
        stage.let_go();
        result
    })
}

impl Stage {
    fn new(seed: u64) -> Self {
        const NO_SABOTAGE: Option<Sabotage> = None;
        let record = Arc::new(Record::new(NO_SABOTAGE));
        let network = Network::new(seed ^ 0x7374_6167_6500_0000);
        let host = Host::new(1, &Cluster::alone(1, 1, false), seed, &network, &record);
        Self { seed, network, record, host, nodes: Mutex::default() }
    }

    /// Asks the server over HTTP. `None`: no answer came.
    pub async fn ask(&self, method: &str, path: &str, body: String) -> Option<Answer> {
        http::ask(&self.network, &self.host, None, (method, path), body).await
    }

    /// Newest applied state. `None`: the server does not run.
    pub fn view(&self) -> Option<Arc<State>> {
        self.host.life().map(|life| life.view())
    }

    /// Waits until the state satisfies a condition, for as long as it takes.
    pub async fn until(&self, holds: impl Fn(&State) -> bool) {
        while !self.view().is_some_and(|view| holds(&view)) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Adds a machine for a node with each description, and waits until these nodes are ready. Returns their ids,
    /// which the seed decides.
    pub async fn add_nodes(&self, descriptions: impl IntoIterator<Item = Node>) -> Vec<NodeId> {
        let ids: Vec<NodeId> = descriptions.into_iter().map(|description| self.start_node(description)).collect();
        let ready = |view: &State, id: &NodeId| view.node(*id).is_some_and(|node| node.status == NodeStatus::Ready);
        self.until(|view| ids.iter().all(|id| ready(view, id))).await;
        ids
    }

    fn start_node(&self, description: Node) -> NodeId {
        let mut nodes = self.nodes.lock();
        let (number, name) = (nodes.len(), description.name.to_string());
        let seed = self.seed.wrapping_mul(31).wrapping_add(7000 + number as u64);
        let servers = vec![self.host.address().into()];
        let machine = NodeMachine::scripted(number, seed, servers, &self.network, &self.record, description);
        machine.start_agent();
        let id = machine.auth.id;
        nodes.insert(name, machine);
        id
    }

    /// Id of a node that was added, also after its machine is gone.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.lock().get(name).map(|machine| machine.auth.id)
    }

    /// Kills the machine of a node, with everything that runs on it.
    pub fn kill_node(&self, name: &str) {
        if let Some(machine) = self.nodes.lock().get(name) {
            machine.die();
        }
    }

    /// Breaks the reference cycles between the machines and the network.
    fn let_go(&self) {
        self.host.let_go();
        self.nodes.lock().values().for_each(|machine| machine.stop_agent());
    }
}
