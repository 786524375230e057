//! Carries out a plan: one thread, one virtual clock, one source of randomness.

mod at_rest;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use songline_model::Str;
use tokio::time::Instant;

use super::agent::NodeMachine;
use super::callers::Callers;
use super::client::Client;
use super::disk::Troubles;
use super::federation::Federation;
use super::jobs::User;
use super::network::{Network, Weather, number_of};
use super::operator::Operator;
use super::plan::{Fault, Plan, What, Whom};
use super::record::{Counts, Record, Violation};
use super::server::{Cluster as Shared, Host};
use super::stream;

/// Time within which the cluster has to be healthy after the last fault.
pub(super) const QUIET_AT_LAST: Duration = Duration::from_secs(60);
/// Time within which jobs have to run as they should: an evaluation that was given up is retried after up to six
/// minutes.
pub(super) const REST_WITHIN: Duration = Duration::from_secs(900);
/// The same for a run with an injected defect, which is there on purpose.
pub(super) const SABOTAGED_REST_WITHIN: Duration = Duration::from_secs(150);

/// Interval at which a run looks whether a checker found something.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Number of scheduler workers of a server.
pub(super) const SCHEDULERS: usize = 2;
/// Difference between the seed of the network and that of the plan.
pub(super) const NETWORK_SEED: u64 = 0x6e65_7477_6f72_6b00;

/// Result of a simulation.
#[derive(Debug, Clone)]
pub struct Report {
    /// Digest of everything that happened.
    pub digest: String,
    /// Counts of what happened.
    pub counts: Counts,
    /// Elapsed virtual time.
    pub simulated: Duration,
    /// The first finding of a checker, and its time.
    pub violation: Option<(Duration, Violation)>,
    /// The last lines of the story.
    pub lines: Vec<String>,
}

/// Runs a plan. The same plan gives the same report.
pub fn run(plan: &Plan) -> Report {
    simulate(plan, |_| ())
}

fn simulate(plan: &Plan, begun: impl FnOnce(&Cluster)) -> Report {
    if plan.regions > 1 {
        return on_virtual_time(plan.seed, async { Federation::new(plan).run(plan).await });
    }
    on_virtual_time(plan.seed, async {
        let cluster = Cluster::new(plan);
        begun(&cluster);
        cluster.run(plan).await
    })
}

/// Runs a future in this thread, on a virtual clock and with the randomness of `seed`.
pub fn on_virtual_time<T>(seed: u64, work: impl Future<Output = T>) -> T {
    songline_log::seed_this_thread(Some(seed));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    // tokio decides with random numbers which of several branches that are ready it takes. Without the build's flag
    // (`.cargo/config.toml`) a run is as good, and cannot be repeated.
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    let runtime = builder.build().expect("a runtime without IO needs nothing of the system");
    let done = runtime.block_on(work);
    drop(runtime);
    songline_log::seed_this_thread(None);
    done
}

/// The machines of one region.
pub(super) struct Cluster {
    pub(super) network: Arc<Network>,
    /// Machines for servers; the last one has no server at first.
    pub(super) hosts: Vec<Arc<Host>>,
    pub(super) nodes: Vec<Arc<NodeMachine>>,
    operator: Arc<Operator>,
    pub(super) record: Arc<Record>,
}

impl Cluster {
    fn new(plan: &Plan) -> Self {
        let record = Arc::new(Record::new(plan.sabotage));
        let network = Network::new(plan.seed ^ NETWORK_SEED);
        Self::of(&Shared::alone(plan.servers, SCHEDULERS, true), plan, &network, record)
    }

    /// The machines of a region with these settings. None of them runs.
    pub(super) fn of(shared: &Shared, plan: &Plan, network: &Arc<Network>, record: Arc<Record>) -> Self {
        let machines = shared.first..=shared.first + plan.servers as u64;
        let seed = |machine: u64| plan.seed.wrapping_mul(31).wrapping_add(machine);
        let host = |machine| Host::new(machine, shared, seed(machine), network, &record);
        let hosts: Vec<_> = machines.map(host).collect();
        let addresses: Vec<Str> = hosts.iter().take(plan.servers).map(|host| host.address().into()).collect();
        let node = |number: u64| {
            let servers = (shared.region, addresses.clone());
            NodeMachine::new(number as usize, seed(7000 + number), servers, network, &record)
        };
        let first = shared.first - 1;
        let nodes = (first..first + plan.nodes as u64).map(node).collect();
        let operator = Operator::new(&hosts, &record);
        Self { network: Arc::clone(network), hosts, nodes, operator, record }
    }

    async fn run(self, plan: &Plan) -> Report {
        let ended = tokio::time::timeout(plan.length + QUIET_AT_LAST * 5 + REST_WITHIN, self.play(plan)).await;
        if ended.is_err() {
            self.record.found(Violation::Stuck("the simulation does not come to its end".to_owned()));
        }
        self.record.judge();
        self.let_go();
        Report {
            digest: self.record.digest(),
            counts: self.record.counts(),
            simulated: self.record.started().elapsed(),
            violation: self.record.violation(),
            lines: self.record.lines(),
        }
    }

    /// Breaks reference cycles between machines, network and operator: otherwise a sweep would keep every simulated
    /// cluster in memory.
    pub(super) fn let_go(&self) {
        self.hosts.iter().for_each(|host| host.let_go());
        self.nodes.iter().for_each(|node| node.stop_agent());
    }

    /// Starts the servers, and waits until they have founded their cluster.
    pub(super) async fn begin_servers(&self) {
        for host in &self.hosts {
            tokio::spawn(Arc::clone(host).run());
        }
        self.found().await;
    }

    /// Starts the agents of the nodes.
    pub(super) fn begin_nodes(&self) {
        self.record.count(|counts| counts.nodes += self.nodes.len() as u64);
        self.nodes.iter().for_each(NodeMachine::start_agent);
    }

    async fn play(&self, plan: &Plan) {
        self.begin_servers().await;
        let seed = |number: u64| plan.seed.wrapping_mul(1009).wrapping_add(number);
        let mut clients = Vec::new();
        for number in 1..=plan.clients {
            let client = Client::new(number, seed(number), &self.hosts, &self.network, &self.record);
            clients.push((client.enough(), tokio::spawn(client.run())));
        }
        for number in 1..=2 {
            tokio::spawn(stream::follow(number, seed(500 + number), self.hosts.clone(), Arc::clone(&self.record)));
        }
        tokio::spawn(Callers::new(seed(600), &self.hosts, &self.network, &self.record).run());
        self.begin_nodes();
        let user = |number| {
            let ids = self.nodes.iter().map(|node| node.auth.id).collect();
            User::new(seed(number), &self.hosts, ids, &self.network, &self.record)
        };
        let promoter = user(701);
        let user = user(700);
        let (user_enough, user) = (user.enough(), tokio::spawn(user.run()));
        for fault in &plan.faults {
            if self.found_before(fault.at).await {
                return;
            }
            self.begin(fault);
        }
        if self.found_before(plan.length).await {
            return;
        }
        self.record.note("all is well from here on");
        self.heal();
        tokio::time::sleep(Duration::from_secs(25)).await;
        self.launches_go_on().await;
        user_enough.store(true, Ordering::Relaxed);
        if tokio::time::timeout(QUIET_AT_LAST * 2, user).await.is_err() {
            self.record.found(Violation::Stuck("the user of jobs gets no answer".to_owned()));
        }
        let promoting = (promoter.enough(), tokio::spawn(promoter.promote()));
        self.membership_comes_to_rest().await;
        self.quiesce(seed(900)).await;
        for (enough, client) in clients {
            enough.store(true, Ordering::Relaxed);
            if tokio::time::timeout(QUIET_AT_LAST, client).await.is_err() {
                self.record.found(Violation::Stuck("a client's last operation does not end".to_owned()));
            }
        }
        self.come_to_rest().await;
        self.jobs_come_to_rest().await;
        promoting.0.store(true, Ordering::Relaxed);
        promoting.1.abort();
    }

    /// Waits until this time of the run. True: a checker found something before.
    pub(super) async fn found_before(&self, at: Duration) -> bool {
        let until = self.record.started() + at;
        while self.record.violation().is_none() && Instant::now() < until {
            tokio::time::sleep_until(until.min(Instant::now() + LOOK_EVERY)).await;
        }
        self.record.violation().is_some()
    }

    /// Waits until the servers have founded their cluster, and it has a root key.
    async fn found(&self) {
        let ready = |life: super::server::Life| life.view().active_root_key().is_some();
        while !self.hosts.iter().any(|host| host.life().is_some_and(ready)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn host(&self, whom: Whom) -> &Arc<Host> {
        let leads = |host: &&Arc<Host>| host.life().is_some_and(|life| life.log().is_leader());
        match whom {
            Whom::Server(at) => &self.hosts[at % self.hosts.len()],
            Whom::Leader => self.hosts.iter().find(leads).unwrap_or(&self.hosts[0]),
        }
    }

    /// Begins a fault, and ends it in time.
    pub(super) fn begin(&self, fault: &Fault) {
        self.record.note(&format!("FAULT for {} ms: {:?}", fault.lasts.as_millis(), fault.what));
        match &fault.what {
            What::Crash(whom) => self.host(*whom).crash(),
            What::CrashWriting(whom, after) => self.host(*whom).crash_writing(*after),
            What::Blackout => self.hosts.iter().for_each(|host| host.crash()),
            What::Isolate(whom) => self.cut(fault.lasts, self.host(*whom).machine(), true, true),
            What::Mute(whom) => self.cut(fault.lasts, self.host(*whom).machine(), true, false),
            What::Deaf(whom) => self.cut(fault.lasts, self.host(*whom).machine(), false, true),
            What::OneWay(from, to) => {
                self.cut_directions(fault.lasts, vec![(self.hosts[*from].machine(), self.hosts[*to].machine())])
            }
            What::Storm { delay_ms, lost_of_1000, doubled_of_1000 } => {
                self.network.weather(Weather {
                    delay_ms: *delay_ms,
                    lost_of_1000: *lost_of_1000,
                    doubled_of_1000: *doubled_of_1000,
                });
                let network = Arc::clone(&self.network);
                later(fault.lasts, move || network.weather(Weather::default()));
            }
            What::Full(whom) => self.trouble(*whom, fault.lasts, Troubles { full: true, failing: false }),
            What::Failing(whom) => self.trouble(*whom, fault.lasts, Troubles { full: false, failing: true }),
            What::Transfer => {
                let (host, record) = (Arc::clone(self.host(Whom::Leader)), Arc::clone(&self.record));
                tokio::spawn(async move {
                    if let Some(life) = host.life() {
                        let moved = life.log().transfer_leadership(None).await;
                        record.note(&format!("server {} was asked to let another lead: {moved:?}", host.machine()));
                    }
                });
            }
            What::Clock(whom, skew_ms) => self.host(*whom).set_clock(*skew_ms),
            What::Demote(at) => {
                let lasts = fault.lasts;
                self.operate(
                    Whom::Server(*at),
                    move |operator, host| async move { operator.demote(&host, lasts).await },
                );
            }
            What::Flip(whom, bits) => {
                let bits = *bits;
                self.operate(*whom, move |operator, host| async move { operator.damage(&host, bits).await });
            }
            What::Lose(whom) => {
                self.operate(*whom, move |operator, host| async move { operator.lose(&host).await });
            }
            What::Exchange(whom) => {
                let lasts = fault.lasts;
                self.operate(*whom, move |operator, host| async move { operator.exchange(&host, lasts).await });
            }
            What::CutNode(node) => self.cut_nodes(fault.lasts, &[*node], &self.hosts),
            What::CutNodeFrom(node, whom) => {
                self.cut_nodes(fault.lasts, &[*node], std::slice::from_ref(self.host(*whom)))
            }
            What::CutNodesFrom(whom) => {
                let nodes: Vec<usize> = (0..self.nodes.len()).collect();
                self.cut_nodes(fault.lasts, &nodes, std::slice::from_ref(self.host(*whom)));
            }
            What::StopAgent(node) => {
                self.nodes[*node].stop_agent();
                self.restart_agent(*node, fault.lasts);
            }
            What::KillNode(node) => {
                self.nodes[*node].die();
                self.restart_agent(*node, fault.lasts);
            }
            // Between clusters: `federation` begins them.
            What::CutRegions(_) | What::MuteRegion(_) | What::IsolateRegion => {}
        }
    }

    /// Lets the operator perform an operation on a server, which takes time.
    fn operate<F, Fut>(&self, whom: Whom, act: F)
    where
        F: FnOnce(Arc<Operator>, Arc<Host>) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        tokio::spawn(act(Arc::clone(&self.operator), Arc::clone(self.host(whom))));
    }

    fn cut_nodes(&self, lasts: Duration, nodes: &[usize], hosts: &[Arc<Host>]) {
        let number = |node: &usize| number_of(self.nodes[*node].number);
        let pairs = nodes.iter().flat_map(|node| hosts.iter().map(move |host| (number(node), host.machine())));
        self.cut_directions(lasts, pairs.flat_map(|(node, server)| [(node, server), (server, node)]).collect());
    }

    fn restart_agent(&self, node: usize, after: Duration) {
        let node = Arc::clone(&self.nodes[node]);
        later(after, move || node.start_agent());
    }

    fn cut(&self, lasts: Duration, server: u64, from_it: bool, to_it: bool) {
        let others = self.hosts.iter().map(|host| host.machine()).filter(|machine| *machine != server);
        let directions = others.flat_map(|other| [(server, other, from_it), (other, server, to_it)]);
        self.cut_directions(lasts, directions.filter(|(_, _, cut)| *cut).map(|(from, to, _)| (from, to)).collect());
    }

    pub(super) fn cut_directions(&self, lasts: Duration, directions: Vec<(u64, u64)>) {
        self.record.count(|counts| counts.partitions += 1);
        self.network.cut(&directions);
        let network = Arc::clone(&self.network);
        later(lasts, move || network.mend(&directions));
    }

    fn trouble(&self, whom: Whom, lasts: Duration, troubles: Troubles) {
        let host = Arc::clone(self.host(whom));
        host.trouble(troubles);
        later(lasts, move || host.trouble(Troubles::default()));
    }

    pub(super) fn heal(&self) {
        self.network.mend_all();
        for host in &self.hosts {
            host.trouble(Troubles::default());
            host.set_clock(0);
        }
        for node in &self.nodes {
            node.processes.spare();
        }
    }
}

fn later(after: Duration, act: impl FnOnce() + Send + 'static) {
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        act();
    });
}

#[cfg(test)]
mod tests;
