//! A simulated server: a machine with a disk and a clock, and in each of its lives a log over them with the tables as its state, and a shell
//! around it. It makes checkpoints and drops old entries.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_api::event::MemoryHistory;
use songline_commands::{Actor, Command, Envelope};
use songline_log::{Config, Failure, Log, NodeId, OpenError, Retention, Start, StoreConfig, Timing};
use songline_model::{Time, with_sources};

use super::clock::{Clock, Paced};
use super::disk::{Platter, SharedPlatter, SimDisk, Troubles};
use super::machine::{Reactions, Seen, SimMachine, locked};
use super::network::{Network, Reachable, SimTransport};
use super::plan::Sabotage;
use super::record::{Record, Violation};
use super::shell::{Setup, Shell};
use super::stream;

/// How long a server that could not start waits before it tries again, as its supervisor would.
const RESTART_WAIT: Duration = Duration::from_secs(2);
/// How soon a machine that died begins to be started again. Nothing it does reaches anybody meanwhile.
const DEATH_NOTICED_WITHIN: Duration = Duration::from_millis(100);
/// How soon a server whose disk has failed tries whether it works again; twice as long after every failure, up to the second.
const COME_BACK_WAIT: Duration = Duration::from_secs(1);
const COME_BACK_WAIT_MAX: Duration = Duration::from_secs(30);

/// One machine.
pub struct Host {
    /// Its number, from 1: its address, whichever server is on it.
    machine: u64,
    /// The number of its server in the cluster: another one after its disk was lost.
    id: AtomicU64,
    platter: SharedPlatter,
    /// The event history, which is on its disk, too.
    history: Mutex<Arc<MemoryHistory>>,
    clock: Clock,
    network: Arc<Network>,
    record: Arc<Record>,
    rng: Mutex<SmallRng>,
    life: Mutex<Option<Life>>,
    /// Whether anybody wants a server on it.
    wanted: AtomicBool,
    /// Whether bits of its disk were flipped since its server last started.
    damaged: AtomicBool,
    /// Whether its server refuses to start because of that.
    refuses: AtomicBool,
}

/// A running server.
#[derive(Clone)]
pub struct Life {
    /// Its log.
    pub log: Log<SimMachine>,
    /// Its state.
    pub seen: Arc<Seen>,
    /// What is around them.
    pub shell: Arc<Shell>,
    disk: SimDisk,
}

impl Life {
    /// Whether its machine still runs.
    pub fn lives(&self) -> bool {
        !self.disk.is_dead()
    }
}

impl Host {
    /// A machine that was never started.
    pub fn new(machine: u64, wanted: bool, seed: u64, network: &Arc<Network>, record: &Arc<Record>) -> Arc<Self> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (skew, rate) = (rng.random_range(-500..=500), rng.random_range(900..=1100));
        Arc::new(Self {
            machine,
            id: AtomicU64::new(machine),
            platter: Platter::new(rng.random()),
            history: Mutex::default(),
            clock: Clock::new(record.started(), skew, rate),
            network: Arc::clone(network),
            record: Arc::clone(record),
            rng: Mutex::new(rng),
            life: Mutex::new(None),
            wanted: AtomicBool::new(wanted),
            damaged: AtomicBool::default(),
            refuses: AtomicBool::default(),
        })
    }

    /// The number of its server.
    pub fn id(&self) -> NodeId {
        self.id.load(Ordering::Relaxed)
    }

    /// The address that others know it by.
    pub fn address(&self) -> String {
        format!("machine-{}", self.machine)
    }

    /// Its server, if it runs.
    pub fn life(&self) -> Option<Life> {
        locked(&self.life).clone().filter(Life::lives)
    }

    /// Its event history.
    pub fn history(&self) -> Arc<MemoryHistory> {
        Arc::clone(&locked(&self.history))
    }

    /// Where everything that happens is recorded.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// A number by its own chance.
    pub fn random(&self, range: std::ops::Range<u64>) -> u64 {
        locked(&self.rng).random_range(range)
    }

    /// Whether this defect is put in.
    pub fn is_sabotaged(&self, how: Sabotage) -> bool {
        self.record.is_sabotaged(how)
    }

    /// Whether anybody wants a server on it.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Whether its server refuses to start with the disk that it has.
    pub fn refuses(&self) -> bool {
        self.refuses.load(Ordering::Relaxed)
    }

    /// There is a new disk in it, and it is to be a new server.
    pub fn renew(&self, id: NodeId) {
        self.crash();
        locked(&self.platter).renew();
        *locked(&self.history) = Arc::default();
        self.id.store(id, Ordering::Relaxed);
        self.damaged.store(false, Ordering::Relaxed);
        self.refuses.store(false, Ordering::Relaxed);
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Nobody wants its server any more.
    pub fn switch_off(&self) {
        self.wanted.store(false, Ordering::Relaxed);
        locked(&self.platter).crash();
    }

    /// The machine dies, and bits on its disk are not what they were.
    pub fn damage(&self, bits: u32) {
        self.record.count(|counts| counts.crashes += 1);
        let mut platter = locked(&self.platter);
        platter.crash();
        for flip in platter.flip(bits) {
            self.record.count(|counts| counts.flips += 1);
            self.record.note(&format!("machine {}: {flip}", self.machine));
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    /// The wall time of this machine.
    pub fn now(&self) -> Time {
        self.clock.wall()
    }

    /// Somebody sets its clock.
    pub fn set_clock(&self, skew_ms: i64) {
        self.clock.set_skew(skew_ms);
    }

    /// Runs the server, again and again, until the simulation is over.
    pub async fn run(self: Arc<Self>) {
        loop {
            if self.is_wanted() {
                match self.start().await {
                    Ok(life) => self.live(life).await,
                    Err(error) => self.could_not_start(&error),
                }
            }
            let pause = locked(&self.rng).random_range(0..3000);
            tokio::time::sleep(RESTART_WAIT + Duration::from_millis(pause)).await;
        }
    }

    fn could_not_start(&self, error: &OpenError) {
        let id = self.id();
        self.record.note(&format!("server {id} cannot start: {error}"));
        if matches!(error, OpenError::Damaged { .. }) && self.damaged.load(Ordering::Relaxed) {
            if !self.refuses.swap(true, Ordering::Relaxed) {
                self.record.count(|counts| counts.refusals += 1);
            }
            return;
        }
        let well = locked(&self.platter).is_well();
        if well {
            self.record.found(Violation::Failed { server: id, why: format!("it cannot start: {}", with_sources(error)) });
        }
    }

    async fn start(&self) -> Result<Life, OpenError> {
        let id = self.id();
        let delay = Duration::from_millis(locked(&self.rng).random_range(1..=3));
        let disk = SimDisk::new(&self.platter, self.clock.clone(), delay);
        // openraft's clock is tokio's, which is one for all: a machine whose clock is fast waits less long instead.
        let Timing { heartbeat, election_min, election_max } = Timing::default();
        let really = |counted| self.clock.really(counted);
        let config = Config {
            disk: Arc::new(disk.clone()),
            node_id: id,
            address: self.address(),
            start: Start::Wait,
            timing: Timing { heartbeat: really(heartbeat), election_min: really(election_min), election_max: really(election_max) },
            store: StoreConfig { segment_bytes: 64 << 10, cache_bytes: 32 << 10, ..StoreConfig::default() },
            retention: Retention { age: Duration::from_secs(120), bytes_max: 256 << 10, entries_min: 100 },
            ..Config::new(PathBuf::from("/data"))
        };
        // Somebody deletes the history now and then, which anybody may.
        let gone = locked(&self.rng).random_range(0..6) == 0;
        let history = self.history();
        history.restart(gone);
        let (machine, seen, reactions) = SimMachine::new(id, &history, &self.record);
        let transport = SimTransport { from: id, disk: disk.clone(), network: Arc::clone(&self.network) };
        let log = Log::open(config, machine, Arc::new(transport)).await?;
        self.record.note(&format!("server {id} runs; it has {:?}", log.applied()));
        self.damaged.store(false, Ordering::Relaxed);
        Ok(self.surround(log, seen, reactions, disk))
    }

    /// Starts what is around a log, and lets others reach it.
    fn surround(&self, log: Log<SimMachine>, seen: Arc<Seen>, reactions: Reactions, disk: SimDisk) -> Life {
        let id = log.id();
        let shell = Shell::start(Setup {
            id,
            log: log.clone(),
            seen: Arc::clone(&seen),
            reactions,
            time: Paced::new(self.clock.clone()),
            rng: SmallRng::seed_from_u64(locked(&self.rng).random()),
            record: Arc::clone(&self.record),
        });
        let life = Life { log: log.clone(), seen, shell: Arc::clone(&shell), disk: disk.clone() };
        *locked(&self.life) = Some(life.clone());
        self.network.plug(id, Some(Reachable { log, disk, shell, address: self.address() }));
        life
    }

    /// Until the machine dies or the server gives up.
    async fn live(self: &Arc<Self>, mut life: Life) {
        while self.serve(&life).await {
            match self.come_back(&life).await {
                Some(again) => life = again,
                None => break,
            }
        }
        locked(&self.platter).end(&life.disk);
        // The dead cannot reach anything any more; this only frees what they held.
        tokio::spawn(async move { life.log.shutdown().await });
    }

    /// Until the machine dies, or consensus ends: whether the server may come back without a new start.
    async fn serve(self: &Arc<Self>, life: &Life) -> bool {
        let id = life.log.id();
        let keeping = tokio::spawn(Arc::clone(self).keep_files(life.clone()));
        let keeping_whole = tokio::spawn(stream::keep_whole(Arc::clone(self), life.clone()));
        let failed = life.log.failed();
        let died = async {
            while life.lives() {
                tokio::time::sleep(DEATH_NOTICED_WITHIN).await;
            }
        };
        let comes_back = tokio::select! {
            biased;
            () = died => {
                self.record.note(&format!("server {id} is dead"));
                false
            }
            failure = failed => {
                self.record.note(&format!("server {id} stops: {failure}"));
                self.judge(life, &failure.to_string());
                matches!(failure, Failure::Disk { .. })
            }
        };
        keeping.abort();
        keeping_whole.abort();
        self.let_go();
        comes_back
    }

    /// Nobody reaches the server any more, and nothing of its shell goes on.
    pub fn let_go(&self) {
        if let Some(life) = locked(&self.life).take() {
            life.shell.stop();
            self.network.plug(life.log.id(), None);
        }
    }

    /// A server whose disk is well and that fails all the same is broken.
    fn judge(&self, life: &Life, why: &str) {
        if life.lives() && locked(&self.platter).is_well() {
            self.record.found(Violation::Failed { server: life.log.id(), why: why.to_owned() });
        }
    }

    /// Tries again and again whether the disk works, and goes on with what is on it. `None`: the machine has died.
    async fn come_back(&self, life: &Life) -> Option<Life> {
        let (id, mut wait) = (life.log.id(), COME_BACK_WAIT);
        loop {
            tokio::time::sleep(wait).await;
            if !life.lives() {
                return None;
            }
            let (machine, seen, reactions) = SimMachine::new(id, &self.history(), &self.record);
            match life.log.reopen(machine).await {
                Ok(()) => {
                    self.record.count(|counts| counts.comebacks += 1);
                    self.record.note(&format!("server {id} is back; it has {:?}", life.log.applied()));
                    return Some(self.surround(life.log.clone(), seen, reactions, life.disk.clone()));
                }
                Err(error) => {
                    self.record.note(&format!("server {id} cannot come back: {}", with_sources(&error)));
                    self.judge(life, &with_sources(&error));
                }
            }
            wait = (wait * 2).min(COME_BACK_WAIT_MAX);
        }
    }

    /// The machine dies, now.
    pub fn crash(&self) {
        if self.life().is_some() {
            self.record.count(|counts| counts.crashes += 1);
            locked(&self.platter).crash();
        }
    }

    /// The machine dies within what it is about to write.
    pub fn crash_writing(&self, after_changes: u64) {
        if self.life().is_some() {
            self.record.count(|counts| counts.crashes += 1);
            locked(&self.platter).die_after(after_changes.max(1));
        }
    }

    /// The disk gets into trouble, or out of it.
    pub fn trouble(&self, troubles: Troubles) {
        locked(&self.platter).trouble(troubles);
    }

    async fn keep_files(self: Arc<Self>, life: Life) {
        loop {
            let pause = locked(&self.rng).random_range(8_000..25_000);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            if !life.lives() {
                return;
            }
            let made = life.log.checkpoint_now().await;
            let retained = life.log.retain(self.clock.now_ms()).await;
            if let Some(hub) = life.seen.hub() {
                hub.forget_before(life.log.oldest_index()).expect("a history in memory does not fail");
            }
            if life.lives() {
                self.record.note(&format!(
                    "server {} made the checkpoint {}, dropped below {}",
                    life.log.id(),
                    made.map_or_else(|error| error.to_string(), |made| made.map_or_else(|| "none".to_owned(), |made| made.to_string())),
                    retained.map_or(0, |dropped| dropped.below),
                ));
            }
        }
    }
}

/// An entry's bytes.
pub fn encode(at: Time, actor: Actor, command: Command, idempotency: Option<songline_commands::Idempotency>) -> Bytes {
    let mut envelope = Envelope::new(at, actor, command);
    envelope.idempotency = idempotency;
    envelope.encode().expect("what this program makes can be encoded").into()
}
