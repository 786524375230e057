//! A simulated server: a machine with a disk and a clock; in each of its lives a log over them, with the tables as
//! its state, and a shell. It makes checkpoints and drops old entries.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_commands::{Actor, Command, Envelope};
use songline_events::hub::StoredHistory;
use songline_events::{Folder, MemoryFolder};
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

/// Delay after which a server that could not start tries again, as its supervisor would.
const RESTART_WAIT: Duration = Duration::from_secs(2);
/// Time within which the restart of a dead machine begins. No message of the machine arrives meanwhile.
const DEATH_NOTICED_WITHIN: Duration = Duration::from_millis(100);
/// Delay after which a server whose disk has failed probes it; doubled after every failure, up to the second
/// constant.
const COME_BACK_WAIT: Duration = Duration::from_secs(1);
const COME_BACK_WAIT_MAX: Duration = Duration::from_secs(30);

/// One machine.
pub struct Host {
    /// Machine number, from 1: its address, whichever server is on it.
    machine: u64,
    /// Server id in the cluster: a new one after its disk was lost.
    id: AtomicU64,
    platter: SharedPlatter,
    /// The event history, which is on its disk, too.
    history: Mutex<Arc<StoredHistory>>,
    /// Folder of the event history.
    folder: MemoryFolder,
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
    /// Log.
    pub log: Log<SimMachine>,
    /// State.
    pub seen: Arc<Seen>,
    /// Shell around log and state.
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
    /// Creates a machine that was never started.
    pub fn new(machine: u64, wanted: bool, seed: u64, network: &Arc<Network>, record: &Arc<Record>) -> Arc<Self> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let folder = MemoryFolder::default();
        let (skew, rate) = (rng.random_range(-500..=500), rng.random_range(900..=1100));
        Arc::new(Self {
            machine,
            id: AtomicU64::new(machine),
            platter: Platter::new(rng.random()),
            history: Mutex::new(opened(&folder)),
            folder,
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

    /// Id of its server.
    pub fn id(&self) -> NodeId {
        self.id.load(Ordering::Relaxed)
    }

    /// Address at which others reach it.
    pub fn address(&self) -> String {
        format!("machine-{}", self.machine)
    }

    /// Its server, if it runs.
    pub fn life(&self) -> Option<Life> {
        locked(&self.life).clone().filter(Life::lives)
    }

    /// Its event history.
    pub fn history(&self) -> Arc<StoredHistory> {
        Arc::clone(&locked(&self.history))
    }

    /// Record of the simulation.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// A random number from the machine's own generator.
    pub fn random(&self, range: std::ops::Range<u64>) -> u64 {
        locked(&self.rng).random_range(range)
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

    /// Replaces its disk by an empty one, for a new server with this id.
    pub fn renew(&self, id: NodeId) {
        self.crash();
        locked(&self.platter).renew();
        self.folder.clear();
        self.id.store(id, Ordering::Relaxed);
        self.damaged.store(false, Ordering::Relaxed);
        self.refuses.store(false, Ordering::Relaxed);
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Marks its server as not wanted any more.
    pub fn switch_off(&self) {
        self.wanted.store(false, Ordering::Relaxed);
        locked(&self.platter).crash();
    }

    /// Kills the machine, and flips bits on its disk.
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
        // openraft uses tokio's clock, which is one for all machines: on a machine with a fast clock the timeouts are
        // shortened instead.
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
        // Operators may delete the history at any time; this one does so now and then.
        let gone = locked(&self.rng).random_range(0..6) == 0;
        match gone {
            true => self.folder.clear(),
            false => self.folder.crash(),
        }
        let history = opened(&self.folder);
        *locked(&self.history) = Arc::clone(&history);
        let (machine, seen, reactions) = SimMachine::new(id, &history, &self.record);
        let transport = SimTransport { from: id, disk: disk.clone(), network: Arc::clone(&self.network) };
        let log = Log::open(config, machine, Arc::new(transport)).await?;
        self.record.note(&format!("server {id} runs; it has {:?}", log.applied()));
        self.damaged.store(false, Ordering::Relaxed);
        Ok(self.surround(log, seen, reactions, disk))
    }

    /// Starts the shell around a log, and makes the server reachable.
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

    /// Runs until the machine dies or the server gives up.
    async fn live(self: &Arc<Self>, mut life: Life) {
        while self.serve(&life).await {
            match self.come_back(&life).await {
                Some(again) => life = again,
                None => break,
            }
        }
        locked(&self.platter).end(&life.disk);
        // A dead machine cannot send anything any more; this only frees its resources.
        tokio::spawn(async move { life.log.shutdown().await });
    }

    /// Runs until the machine dies, or consensus ends. Returns whether the server may recover without a restart.
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

    /// Makes the server unreachable and stops its shell.
    pub fn let_go(&self) {
        if let Some(life) = locked(&self.life).take() {
            life.shell.stop();
            self.network.plug(life.log.id(), None);
        }
    }

    /// Reports a server that fails although its disk is healthy.
    fn judge(&self, life: &Life, why: &str) {
        if life.lives() && locked(&self.platter).is_well() {
            self.record.found(Violation::Failed { server: life.log.id(), why: why.to_owned() });
        }
    }

    /// Probes the disk repeatedly, and continues with its content once it works. `None` when the machine has died.
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

    /// Kills the machine now.
    pub fn crash(&self) {
        if self.life().is_some() {
            self.record.count(|counts| counts.crashes += 1);
            locked(&self.platter).crash();
        }
    }

    /// Lets the machine die in its next writes, after `after_changes` changes.
    pub fn crash_writing(&self, after_changes: u64) {
        if self.life().is_some() {
            self.record.count(|counts| counts.crashes += 1);
            locked(&self.platter).die_after(after_changes.max(1));
        }
    }

    /// Sets the faults of its disk.
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

fn opened(folder: &MemoryFolder) -> Arc<StoredHistory> {
    Arc::new(StoredHistory::open(Folder::Memory(folder.clone())).expect("a store in memory opens"))
}

/// Encodes an entry.
pub fn encode(at: Time, actor: Actor, command: Command, idempotency: Option<songline_commands::Idempotency>) -> Bytes {
    let mut envelope = Envelope::new(at, actor, command);
    envelope.idempotency = idempotency;
    envelope.encode().expect("what this program makes can be encoded").into()
}
