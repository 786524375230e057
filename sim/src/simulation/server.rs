//! A simulated server: a machine with a disk and a clock, and in each of its lives the server that users run
//! (`songline_server::Core`), with the simulated world around it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_api::{AclSettings, AgentInfo, Answer};
use songline_commands::{Actor, Command, Envelope, Idempotency};
use songline_events::hub::HubConfig;
use songline_events::{Folder, MemoryFolder};
use songline_log::{Log, OpenError, Retention, StoreConfig, Timing};
use songline_model::{Dur, Secret, Time, with_sources};
use songline_projections::State;
use songline_rpc::port::{Dialer, PortLimits, ServerTrust, Unproven};
use songline_scheduler::leader::heartbeats::HeartbeatLimits;
use songline_server::config::ServerConfig;
use songline_server::{Core, Keeping, Machine, NoProviders, Ports, Setup, StartError, Surroundings};

use super::callers::MANAGEMENT;
use super::clock::Clock;
use super::disk::{Platter, SharedPlatter, SimDisk, Troubles};
use super::ending::Ending;
use super::network::{Network, Reachable, SimTransport, Tcp};
use super::observer::Watcher;
use super::plan::Sabotage;
use super::record::{Record, Violation};
use super::world::SimWorld;

/// Delay after which a server that could not start tries again, as its supervisor would.
const RESTART_WAIT: Duration = Duration::from_secs(2);
/// Time within which the restart of a dead machine begins. No message of the machine arrives meanwhile.
const DEATH_NOTICED_WITHIN: Duration = Duration::from_millis(100);
/// Heartbeat TTLs: shorter than real ones, so that more happens in ten minutes.
const HEARTBEATS: HeartbeatLimits = HeartbeatLimits {
    min_ttl: Dur::from_secs(5),
    per_second_max: 50,
    grace: Dur::from_secs(8),
    failover_ttl: Dur::from_secs(20),
};
/// Number of entries in a hub's memory: few, so that subscribers read from the history.
const TAIL_BATCHES_MAX: usize = 20;
/// Number of versions that are kept of a job.
const JOB_VERSIONS_MAX: u64 = 6;

/// Settings that all servers of a cluster share.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Region.
    pub region: &'static str,
    /// Authoritative region.
    pub authoritative: &'static str,
    /// Number of its first machine.
    pub first: u64,
    /// Number of servers that found it.
    pub founders: usize,
    /// Number of scheduler workers of each server.
    pub schedulers: usize,
    /// Whether ACLs are enabled.
    pub acl: bool,
    /// Addresses of servers of other regions, which its servers join.
    pub joins: Vec<String>,
}

impl Cluster {
    /// The only cluster of a simulation.
    pub fn alone(founders: usize, schedulers: usize, acl: bool) -> Self {
        Self { region: "global", authoritative: "global", first: 1, founders, schedulers, acl, joins: Vec::new() }
    }

    /// Numbers of the machines of the servers that found it.
    fn founding(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.founders as u64
    }
}

/// One machine.
pub struct Host {
    /// Machine number, from 1: its address, whichever server is on it.
    machine: u64,
    /// Addresses of the servers that found the cluster, which every server looks for.
    founders: Vec<String>,
    cluster: Cluster,
    /// Id of its server in the cluster, which a new disk changes; 0 before its first start.
    id: AtomicU64,
    platter: SharedPlatter,
    /// Folders of the event history and of the record of objects, which are on its disk, too.
    folders: [MemoryFolder; 2],
    clock: Clock,
    network: Arc<Network>,
    record: Arc<Record>,
    rng: Mutex<SmallRng>,
    life: Mutex<Option<Life>>,
    /// Whether a server is wanted on it.
    wanted: AtomicBool,
    /// Whether bits of its disk were flipped since its server last started.
    damaged: AtomicBool,
    /// Whether its server refuses to start because of that damage.
    refuses: AtomicBool,
}

/// A running server.
#[derive(Clone)]
pub struct Life {
    /// The server.
    pub core: Arc<Core>,
    /// Its HTTP interface.
    pub api: Arc<dyn Answer>,
    ending: Arc<Ending>,
    disk: SimDisk,
}

impl Life {
    /// Whether its machine still runs.
    pub fn lives(&self) -> bool {
        !self.disk.is_dead()
    }

    /// Its log.
    pub fn log(&self) -> &Log<Machine> {
        self.core.log()
    }

    /// Newest applied state.
    pub fn view(&self) -> Arc<State> {
        self.core.view()
    }
}

impl Host {
    /// Creates a machine that was never started.
    pub fn new(machine: u64, cluster: &Cluster, seed: u64, network: &Arc<Network>, record: &Arc<Record>) -> Arc<Self> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (skew, rate) = (rng.random_range(-500..=500), rng.random_range(900..=1100));
        Arc::new(Self {
            machine,
            founders: cluster.founding().map(address_of).collect(),
            id: AtomicU64::new(0),
            platter: Platter::new(rng.random()),
            folders: Default::default(),
            clock: Clock::new(record.started(), skew, rate),
            network: Arc::clone(network),
            record: Arc::clone(record),
            rng: Mutex::new(rng),
            life: Mutex::new(None),
            wanted: AtomicBool::new(cluster.founding().contains(&machine)),
            cluster: cluster.clone(),
            damaged: AtomicBool::default(),
            refuses: AtomicBool::default(),
        })
    }

    /// Number of the machine.
    pub fn machine(&self) -> u64 {
        self.machine
    }

    /// Id of its server; 0 before its first start with the present disk.
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Address at which others reach it.
    pub fn address(&self) -> String {
        address_of(self.machine)
    }

    /// Its server, if it runs.
    pub fn life(&self) -> Option<Life> {
        self.life.lock().clone().filter(Life::lives)
    }

    /// Whether this defect is injected.
    pub fn is_sabotaged(&self, how: Sabotage) -> bool {
        self.record.is_sabotaged(how)
    }

    /// Whether a server is wanted on it.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether its server refuses to start with its disk.
    pub fn refuses(&self) -> bool {
        self.refuses.load(Ordering::Relaxed)
    }

    /// Replaces its disk by an empty one, for a new server.
    pub fn renew(&self) {
        self.crash();
        self.platter.lock().renew();
        self.folders.iter().for_each(MemoryFolder::clear);
        self.id.store(0, Ordering::Relaxed);
        self.damaged.store(false, Ordering::Relaxed);
        self.refuses.store(false, Ordering::Relaxed);
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Marks its server as not wanted any more.
    pub fn switch_off(&self) {
        self.wanted.store(false, Ordering::Relaxed);
        self.platter.lock().crash();
    }

    /// Kills the machine, and flips bits on its disk.
    pub fn damage(&self, bits: u32) {
        self.record.count(|counts| counts.crashes += 1);
        let mut platter = self.platter.lock();
        platter.crash();
        for flip in platter.flip(bits) {
            self.record.count(|counts| counts.flips += 1);
            self.record.note(&format!("machine {}: {flip}", self.machine));
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    /// Wall-clock time of this machine.
    pub fn now(&self) -> Time {
        self.clock.wall()
    }

    /// Sets its wall clock.
    pub fn set_clock(&self, skew_ms: i64) {
        self.clock.set_skew(skew_ms);
    }

    /// Runs the server, with restarts, until the simulation is over.
    pub async fn run(self: Arc<Self>) {
        loop {
            if self.is_wanted() {
                match self.start().await {
                    Ok(life) => self.serve(life).await,
                    Err(error) => self.could_not_start(&error),
                }
            }
            let pause = self.rng.lock().random_range(0..3000);
            tokio::time::sleep(RESTART_WAIT + Duration::from_millis(pause)).await;
        }
    }

    fn could_not_start(&self, error: &StartError) {
        let machine = self.machine;
        self.record.note(&format!("server {machine} cannot start: {}", with_sources(error)));
        let damaged = match error {
            StartError::Log { source: OpenError::Damaged { .. }, .. } => true,
            // The id is in a file of its own.
            StartError::Directory { source, .. } => source.kind() == std::io::ErrorKind::InvalidData,
            _ => false,
        };
        if damaged && self.damaged.load(Ordering::Relaxed) {
            if !self.refuses.swap(true, Ordering::Relaxed) {
                self.record.count(|counts| counts.refusals += 1);
            }
            return;
        }
        if self.platter.lock().is_well() {
            self.record
                .found(Violation::Failed { server: machine, why: format!("it cannot start: {}", with_sources(error)) });
        }
    }

    async fn start(&self) -> Result<Life, StartError> {
        let (delay, seed) = {
            let mut rng = self.rng.lock();
            // Operators may delete what can be computed again at any time; these do so now and then.
            for folder in &self.folders {
                match rng.random_range(0..6) {
                    0 => folder.clear(),
                    _ => folder.crash(),
                }
            }
            (Duration::from_millis(rng.random_range(1..=3)), rng.random())
        };
        let disk = SimDisk::new(&self.platter, self.clock.clone(), delay);
        let ending = Ending::new();
        let core = Core::start(self.setup(&disk, &ending, seed)).await?;
        let log = core.log().clone();
        self.record.note(&format!("server {} runs; it has {:?}", self.machine, log.applied()));
        self.id.store(core.cluster().id(), Ordering::Relaxed);
        self.damaged.store(false, Ordering::Relaxed);
        let life = Life { api: core.http_api(), core, ending, disk: disk.clone() };
        *self.life.lock() = Some(life.clone());
        self.network.plug(self.machine, Some(Reachable { log, disk }));
        Ok(life)
    }

    fn setup(&self, disk: &SimDisk, ending: &Arc<Ending>, seed: u64) -> Setup {
        let tcp = Tcp::new(self.machine, ending, &self.network, &self.record);
        let trust = ServerTrust::new(self.cluster.region, false, None, Unproven::Anybody);
        let mut config = ServerConfig {
            num_schedulers: self.cluster.schedulers,
            heartbeats: HEARTBEATS,
            bootstrap_expect: Some(self.founders.len()),
            job_tracked_versions: JOB_VERSIONS_MAX,
            authoritative_region: Some(self.cluster.authoritative.to_owned()),
            replication_token: Secret::new(MANAGEMENT),
            ..ServerConfig::default()
        };
        config.join.retry_join = self.founders.iter().chain(&self.cluster.joins).cloned().collect();
        let ports = Ports {
            listeners: vec![Box::new(tcp.listen(&self.address()))],
            limits: PortLimits { servers: Some(trust.clone()), ..PortLimits::default() },
            advertised: self.address(),
            dialer: Dialer::over(Arc::new(tcp)).of_server(trust.clone()),
            trust,
            verify_names: false,
        };
        Setup {
            info: info(self.machine, &self.cluster, &config),
            config,
            dir: PathBuf::from("/data"),
            agent_config: serde_json::Value::Null,
            ports,
            disk: Arc::new(disk.clone()),
            outgoing: Arc::new(NoProviders),
            surroundings: self.surroundings(disk, seed),
        }
    }

    fn surroundings(&self, disk: &SimDisk, seed: u64) -> Surroundings {
        // openraft uses tokio's clock, which is one for all machines: on a machine with a fast clock the timeouts are
        // shortened instead.
        let Timing { heartbeat, election_min, election_max } = Timing::default();
        let really = |counted| self.clock.really(counted);
        let skips: Option<fn(u64) -> bool> =
            self.is_sabotaged(Sabotage::SkippedFrames).then_some(|index| index.is_multiple_of(100));
        let [history, object_history] = self.folders.clone().map(Folder::Memory);
        Surroundings {
            world: Arc::new(SimWorld::new(self.clock.clone(), seed)),
            history: Some(history),
            object_history: Some(object_history),
            transport: Some(Arc::new(SimTransport {
                from: self.machine,
                disk: disk.clone(),
                network: Arc::clone(&self.network),
            })),
            timing: Timing {
                heartbeat: really(heartbeat),
                election_min: really(election_min),
                election_max: really(election_max),
            },
            store: StoreConfig { segment_bytes: 64 << 10, cache_bytes: 32 << 10, ..StoreConfig::default() },
            retention: Some(Retention { age: Duration::from_secs(120), bytes_max: 256 << 10, entries_min: 100 }),
            keeping: Keeping {
                look_every: Duration::from_secs(9),
                entries_max: 100,
                age_max: Duration::from_secs(15),
                ..Keeping::default()
            },
            hub: HubConfig { tail_batches_max: TAIL_BATCHES_MAX, skips, ..HubConfig::default() },
            observer: Some(Arc::new(Watcher::new(self.machine, &self.record))),
        }
    }

    /// Runs until the machine dies, or the server gives up.
    async fn serve(&self, life: Life) {
        let machine = self.machine;
        let died = async {
            while life.lives() {
                tokio::time::sleep(DEATH_NOTICED_WITHIN).await;
            }
        };
        tokio::select! {
            biased;
            () = died => self.record.note(&format!("server {machine} is dead")),
            why = life.core.failed() => {
                self.record.note(&format!("server {machine} stops: {why}"));
                if life.lives() && self.platter.lock().is_well() {
                    self.record.found(Violation::Failed { server: machine, why });
                }
            }
            () = self.follow_leadership(&life) => {}
        }
        self.let_go();
        self.platter.lock().end(&life.disk);
        self.folders.iter().for_each(MemoryFolder::crash);
        // A dead machine cannot send or write anything any more; this only frees its resources.
        tokio::spawn(async move { life.core.stop().await });
    }

    /// Records when the server begins to lead, also when it regains its majority within a term.
    async fn follow_leadership(&self, life: &Life) {
        let mut leadership = life.log().leadership();
        while let Ok(term) = leadership.wait_for(|now| now.is_leader).await.map(|now| now.term) {
            self.record.leads(term, self.machine);
            if leadership.wait_for(|now| !now.is_leader || now.term != term).await.is_err() {
                break;
            }
        }
        std::future::pending().await
    }

    /// Breaks the server's connections.
    pub fn let_go(&self) {
        if let Some(life) = self.life.lock().take() {
            life.ending.end();
            life.core.shutdown_now();
            self.network.plug(self.machine, None);
        }
    }

    /// Kills the machine now.
    pub fn crash(&self) {
        if self.life().is_some() {
            self.record.count(|counts| counts.crashes += 1);
            self.platter.lock().crash();
        }
    }

    /// Lets the machine die in its next writes, after `after_changes` changes.
    pub fn crash_writing(&self, after_changes: u64) {
        if self.life().is_some() {
            self.record.count(|counts| counts.crashes += 1);
            self.platter.lock().die_after(after_changes.max(1));
        }
    }

    /// Sets the faults of its disk.
    pub fn trouble(&self, troubles: Troubles) {
        self.folders.iter().for_each(|folder| folder.set_broken(troubles.failing));
        self.platter.lock().trouble(troubles);
    }
}

/// Address of the machine with this number.
pub fn address_of(machine: u64) -> String {
    format!("machine-{machine}:4647")
}

fn info(machine: u64, cluster: &Cluster, config: &ServerConfig) -> AgentInfo {
    AgentInfo {
        version: "1.6.5".into(),
        name: format!("server-{machine}.{}", cluster.region),
        region: cluster.region.into(),
        authoritative_region: cluster.authoritative.into(),
        datacenter: "dc1".into(),
        server_ip: format!("10.0.0.{machine}"),
        serf_port: 4648,
        enable_debug: false,
        enable_event_broker: true,
        acl: AclSettings { enabled: cluster.acl, ..AclSettings::default() },
        rpc_rate_labels: false,
        dispatched_metrics: false,
        prometheus_metrics: false,
        job_max_source_bytes: config.job_max_source_bytes,
        job_max_priority: config.job_max_priority,
        vault_enabled: false,
        job_tracked_versions: config.job_tracked_versions,
        default_scheduler_config: config.default_scheduler_config.clone(),
        response_headers: Vec::new(),
        ui: songline_api::UiSettings::default(),
    }
}

/// Encodes an entry.
pub fn encode(at: Time, actor: Actor, command: Command, idempotency: Option<Idempotency>) -> Bytes {
    let mut envelope = Envelope::new(at, actor, command);
    envelope.idempotency = idempotency;
    envelope.encode().expect("what this program makes can be encoded").into()
}
