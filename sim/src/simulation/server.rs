//! A simulated server: a machine with a disk and a clock, and in each of its lives a log over them with the tables as its state. It makes
//! checkpoints, drops old entries, and as leader compares digests. Placing work is not here.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use songline_commands::{Actor, CheckDigest, Command, Envelope};
use songline_log::{Config, Failure, Log, NodeId, OpenError, Retention, Start, StoreConfig};
use songline_model::{Blob, Time};
use songline_projections::{SCHEMA, State};

use super::clock::Clock;
use super::disk::{Platter, SharedPlatter, SimDisk, Troubles};
use super::machine::{Seen, SimMachine, locked};
use super::network::{Network, Reachable, SimTransport};
use super::record::{Record, Violation};

/// How long a server that could not start waits before it tries again, as its supervisor would.
const RESTART_WAIT: Duration = Duration::from_secs(2);
/// How soon a machine that died begins to be started again. Nothing it does reaches anybody meanwhile.
const DEATH_NOTICED_WITHIN: Duration = Duration::from_millis(100);
/// How soon a server whose disk has failed tries whether it works again; twice as long after every failure, up to the second.
const COME_BACK_WAIT: Duration = Duration::from_secs(1);
const COME_BACK_WAIT_MAX: Duration = Duration::from_secs(30);
/// How often the leader has the digests compared, in entries.
const DIGEST_EVERY: u64 = 500;

/// One machine.
pub struct Host {
    /// The number of its server.
    pub id: NodeId,
    platter: SharedPlatter,
    clock: Clock,
    network: Arc<Network>,
    record: Arc<Record>,
    rng: Mutex<SmallRng>,
    life: Mutex<Option<Life>>,
}

/// A running server.
#[derive(Clone)]
pub struct Life {
    /// Its log.
    pub log: Log<SimMachine>,
    /// Its state.
    pub seen: Arc<Seen>,
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
    pub fn new(id: NodeId, seed: u64, network: &Arc<Network>, record: &Arc<Record>) -> Arc<Self> {
        let mut rng = SmallRng::seed_from_u64(seed);
        let skew = rng.random_range(-500..=500);
        Arc::new(Self {
            id,
            platter: Platter::new(rng.random()),
            clock: Clock::new(record.started(), skew),
            network: Arc::clone(network),
            record: Arc::clone(record),
            rng: Mutex::new(rng),
            life: Mutex::new(None),
        })
    }

    /// The address that others know it by.
    pub fn address(&self) -> String {
        format!("server-{}", self.id)
    }

    /// Its server, if it runs.
    pub fn life(&self) -> Option<Life> {
        locked(&self.life).clone().filter(Life::lives)
    }

    /// The wall time of this machine.
    pub fn now(&self) -> Time {
        Time::from_nanos(i64::try_from(self.clock.now_ms() * 1_000_000).unwrap_or(i64::MAX))
    }

    /// Somebody sets its clock.
    pub fn set_clock(&self, skew_ms: i64) {
        self.clock.set_skew(skew_ms);
    }

    /// Runs the server, again and again, until the simulation is over.
    pub async fn run(self: Arc<Self>) {
        loop {
            match self.start().await {
                Ok(life) => self.live(life).await,
                Err(error) => self.could_not_start(&error),
            }
            let pause = locked(&self.rng).random_range(0..3000);
            tokio::time::sleep(RESTART_WAIT + Duration::from_millis(pause)).await;
        }
    }

    fn could_not_start(&self, error: &OpenError) {
        self.record.note(&format!("server {} cannot start: {error}", self.id));
        let well = locked(&self.platter).is_well();
        if well {
            self.record.found(Violation::Failed { server: self.id, why: format!("it cannot start: {}", chain(error)) });
        }
    }

    async fn start(&self) -> Result<Life, OpenError> {
        let delay = Duration::from_millis(locked(&self.rng).random_range(1..=3));
        let disk = SimDisk::new(&self.platter, self.clock.clone(), delay);
        let config = Config {
            disk: Arc::new(disk.clone()),
            node_id: self.id,
            address: self.address(),
            start: Start::Wait,
            store: StoreConfig { segment_bytes: 64 << 10, cache_bytes: 32 << 10, ..StoreConfig::default() },
            retention: Retention { age: Duration::from_secs(120), bytes_max: 256 << 10, entries_min: 100 },
            ..Config::new(PathBuf::from("/data"))
        };
        let (machine, seen) = SimMachine::new(self.id, &self.record);
        let transport = SimTransport { from: self.id, disk: disk.clone(), network: Arc::clone(&self.network) };
        let log = Log::open(config, machine, Arc::new(transport)).await?;
        self.record.note(&format!("server {} runs; it has {:?}", self.id, log.applied()));
        let life = Life { log, seen, disk };
        *locked(&self.life) = Some(life.clone());
        self.network.plug(self.id, Some(Reachable { log: life.log.clone(), disk: life.disk.clone() }));
        Ok(life)
    }

    /// Until the machine dies or the server gives up.
    async fn live(self: &Arc<Self>, mut life: Life) {
        while self.serve(&life).await {
            match self.come_back(&life).await {
                Some(again) => life = again,
                None => break,
            }
        }
        *locked(&self.life) = None;
        self.network.plug(self.id, None);
        locked(&self.platter).end(&life.disk);
        // The dead cannot reach anything any more; this only frees what they held.
        tokio::spawn(async move { life.log.shutdown().await });
    }

    /// Until the machine dies, or consensus ends: whether the server may come back without a new start.
    async fn serve(self: &Arc<Self>, life: &Life) -> bool {
        let keeping = tokio::spawn(Arc::clone(self).keep_files(life.clone()));
        let leading = tokio::spawn(Arc::clone(self).watch_leadership(life.clone()));
        let failed = life.log.failed();
        let died = async {
            while life.lives() {
                tokio::time::sleep(DEATH_NOTICED_WITHIN).await;
            }
        };
        let comes_back = tokio::select! {
            biased;
            () = died => {
                self.record.note(&format!("server {} is dead", self.id));
                false
            }
            failure = failed => {
                self.record.note(&format!("server {} stops: {failure}", self.id));
                self.judge(life, &failure.to_string());
                matches!(failure, Failure::Disk { .. })
            }
        };
        keeping.abort();
        leading.abort();
        comes_back
    }

    /// A server whose disk is well and that fails all the same is broken.
    fn judge(&self, life: &Life, why: &str) {
        if life.lives() && locked(&self.platter).is_well() {
            self.record.found(Violation::Failed { server: self.id, why: why.to_owned() });
        }
    }

    /// Tries again and again whether the disk works, and goes on with what is on it. `None`: the machine has died.
    async fn come_back(&self, life: &Life) -> Option<Life> {
        let mut wait = COME_BACK_WAIT;
        loop {
            tokio::time::sleep(wait).await;
            if !life.lives() {
                return None;
            }
            let (machine, seen) = SimMachine::new(self.id, &self.record);
            match life.log.reopen(machine).await {
                Ok(()) => {
                    self.record.count(|counts| counts.comebacks += 1);
                    self.record.note(&format!("server {} is back; it has {:?}", self.id, life.log.applied()));
                    let again = Life { seen, ..life.clone() };
                    *locked(&self.life) = Some(again.clone());
                    return Some(again);
                }
                Err(error) => {
                    self.record.note(&format!("server {} cannot come back: {}", self.id, chain(&error)));
                    self.judge(life, &chain(&error));
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
            if life.lives() {
                self.record.note(&format!(
                    "server {} made the checkpoint {}, dropped below {}",
                    self.id,
                    made.map_or_else(|error| error.to_string(), |made| made.map_or_else(|| "none".to_owned(), |made| made.to_string())),
                    retained.map_or(0, |dropped| dropped.below),
                ));
            }
        }
    }

    async fn watch_leadership(self: Arc<Self>, life: Life) {
        let mut leadership = life.log.leadership();
        let mut led = 0;
        let mut compared = 0;
        loop {
            let now = *leadership.borrow_and_update();
            if now.is_leader && now.term != led && life.lives() {
                led = now.term;
                self.record.leads(now.term, self.id);
            }
            let applied = life.log.applied().map_or(0, |position| position.index);
            if now.is_leader && applied / DIGEST_EVERY > compared {
                compared = applied / DIGEST_EVERY;
                let command = self.digest(&life.seen.view());
                if let Err(error) = life.log.propose(encode(self.now(), Actor::Leader("digest".into()), command, None)).await {
                    self.record.note(&format!("server {}: no digest, {error}", self.id));
                }
            }
            let over = matches!(tokio::time::timeout(Duration::from_millis(500), leadership.changed()).await, Ok(Err(_)));
            if over || !life.lives() {
                return;
            }
        }
    }

    fn digest(&self, view: &State) -> Command {
        let tables = view.table_digests();
        let blob = |digest: songline_projections::Digest| Blob(digest.as_bytes().to_vec());
        CheckDigest {
            schema: SCHEMA,
            through: view.applied_index(),
            total: blob(view.digest()),
            tables: tables.into_iter().map(|(table, digest)| (table.name().into(), blob(digest))).collect(),
        }
        .into()
    }
}

/// An entry's bytes.
pub fn encode(at: Time, actor: Actor, command: Command, idempotency: Option<songline_commands::Idempotency>) -> Bytes {
    let mut envelope = Envelope::new(at, actor, command);
    envelope.idempotency = idempotency;
    envelope.encode().expect("what this program makes can be encoded").into()
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}
