//! Carries out a plan: one thread, one virtual clock, one source of chance.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use songline_commands::{Actor, UpsertRootKey};
use songline_model::{ROOT_KEY_ALGORITHM, RootKeyMeta, RootKeyState, Sealed, WrappedKey};

use super::client::{Client, read_stream, root_key};
use super::disk::Troubles;
use super::network::{Network, Weather};
use super::plan::{Fault, Plan, What, Whom};
use super::record::{Counts, Record, Violation};
use super::server::{Host, encode};

/// How long everything may take to be well again when nothing is wrong any more.
const QUIET_AT_LAST: Duration = Duration::from_secs(60);

/// How a simulation ended.
#[derive(Debug, Clone)]
pub struct Report {
    /// A digest of all that happened.
    pub digest: String,
    /// How much happened.
    pub counts: Counts,
    /// How much virtual time passed.
    pub simulated: Duration,
    /// What a checker found first, and when.
    pub violation: Option<(Duration, Violation)>,
    /// The last lines of the story.
    pub lines: Vec<String>,
}

/// Runs a plan. The same plan gives the same report.
pub fn run(plan: &Plan) -> Report {
    songline_log::seed_this_thread(Some(plan.seed));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without IO needs nothing of the system");
    let report = runtime.block_on(async {
        let cluster = Cluster::new(plan);
        cluster.run(plan).await
    });
    drop(runtime);
    songline_log::seed_this_thread(None);
    report
}

struct Cluster {
    network: Arc<Network>,
    hosts: Vec<Arc<Host>>,
    record: Arc<Record>,
}

impl Cluster {
    fn new(plan: &Plan) -> Self {
        let record = Arc::new(Record::new());
        let network = Network::new(plan.seed ^ 0x6e65_7477_6f72_6b00);
        let ids = 1..=plan.servers as u64;
        let hosts = ids.map(|id| Host::new(id, plan.seed.wrapping_mul(31).wrapping_add(id), &network, &record)).collect();
        Self { network, hosts, record }
    }

    async fn run(self, plan: &Plan) -> Report {
        let ended = tokio::time::timeout(plan.length + QUIET_AT_LAST * 3, self.play(plan)).await;
        if ended.is_err() {
            self.record.found(Violation::Stuck("the simulation does not come to its end".to_owned()));
        }
        self.record.judge();
        Report {
            digest: self.record.digest(),
            counts: self.record.counts(),
            simulated: self.record.started().elapsed(),
            violation: self.record.violation(),
            lines: self.record.lines(),
        }
    }

    async fn play(&self, plan: &Plan) {
        for host in &self.hosts {
            tokio::spawn(Arc::clone(host).run());
        }
        self.found().await;
        let seed = |number: u64| plan.seed.wrapping_mul(1009).wrapping_add(number);
        let mut clients = Vec::new();
        for number in 1..=plan.clients {
            let client = Client::new(number, seed(number), &self.hosts, &self.network, &self.record);
            clients.push((client.enough(), tokio::spawn(client.run())));
        }
        for number in 1..=2 {
            tokio::spawn(read_stream(number, seed(500 + number), self.hosts.clone(), Arc::clone(&self.record)));
        }
        for fault in &plan.faults {
            tokio::time::sleep_until(self.record.started() + fault.at).await;
            if self.record.violation().is_some() {
                return;
            }
            self.begin(fault);
        }
        tokio::time::sleep_until(self.record.started() + plan.length).await;
        self.record.note("all is well from here on");
        self.heal();
        tokio::time::sleep(Duration::from_secs(25)).await;
        self.quiesce(seed(900)).await;
        for (enough, client) in clients {
            enough.store(true, Ordering::Relaxed);
            if tokio::time::timeout(QUIET_AT_LAST, client).await.is_err() {
                self.record.found(Violation::Stuck("a client's last operation does not end".to_owned()));
            }
        }
        self.come_to_rest().await;
    }

    /// Makes the cluster and what clients need in it.
    async fn found(&self) {
        let members: BTreeMap<u64, String> = self.hosts.iter().map(|host| (host.id, host.address())).collect();
        loop {
            if let Some(life) = self.hosts.first().and_then(|host| host.life()) {
                if let Err(error) = life.log.found(&members).await {
                    self.record.note(&format!("founding the cluster: {error}"));
                }
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        loop {
            for host in &self.hosts {
                let algorithm = ROOT_KEY_ALGORITHM.into();
                let meta = RootKeyMeta { key_id: root_key(), algorithm, state: RootKeyState::Active, ..RootKeyMeta::default() };
                let wrapped = WrappedKey { material: Sealed(vec![7; 32]), ..WrappedKey::default() };
                let command = UpsertRootKey { meta, wrapped, rekey: false };
                let bytes = encode(host.now(), Actor::Leader("keyring".into()), command.into(), None);
                let Some(life) = host.life() else { continue };
                match life.log.propose(bytes).await {
                    Ok(accepted) if accepted.reply.result.is_ok() => return,
                    Ok(accepted) => self.record.found(Violation::Stuck(format!("no root key: {:?}", accepted.reply.result))),
                    Err(_) => {}
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn host(&self, whom: Whom) -> &Arc<Host> {
        let leads = |host: &&Arc<Host>| host.life().is_some_and(|life| life.log.is_leader());
        match whom {
            Whom::Server(at) => &self.hosts[at % self.hosts.len()],
            Whom::Leader => self.hosts.iter().find(leads).unwrap_or(&self.hosts[0]),
        }
    }

    /// Lets a fault begin, and end in its time.
    fn begin(&self, fault: &Fault) {
        self.record.note(&format!("FAULT for {} ms: {:?}", fault.lasts.as_millis(), fault.what));
        match &fault.what {
            What::Crash(whom) => self.host(*whom).crash(),
            What::CrashWriting(whom, after) => self.host(*whom).crash_writing(*after),
            What::Blackout => self.hosts.iter().for_each(|host| host.crash()),
            What::Isolate(whom) => self.cut(fault.lasts, self.host(*whom).id, true, true),
            What::Mute(whom) => self.cut(fault.lasts, self.host(*whom).id, true, false),
            What::Deaf(whom) => self.cut(fault.lasts, self.host(*whom).id, false, true),
            What::OneWay(from, to) => self.cut_directions(fault.lasts, vec![(self.hosts[*from].id, self.hosts[*to].id)]),
            What::Storm { delay_ms, lost_of_1000, doubled_of_1000 } => {
                self.network.weather(Weather { delay_ms: *delay_ms, lost_of_1000: *lost_of_1000, doubled_of_1000: *doubled_of_1000 });
                let network = Arc::clone(&self.network);
                later(fault.lasts, move || network.weather(Weather::default()));
            }
            What::Full(whom) => self.trouble(*whom, fault.lasts, Troubles { full: true, failing: false }),
            What::Failing(whom) => self.trouble(*whom, fault.lasts, Troubles { full: false, failing: true }),
            What::Transfer => {
                let (host, record) = (Arc::clone(self.host(Whom::Leader)), Arc::clone(&self.record));
                tokio::spawn(async move {
                    if let Some(life) = host.life() {
                        let moved = life.log.transfer_leadership(None).await;
                        record.note(&format!("server {} was asked to let another lead: {moved:?}", host.id));
                    }
                });
            }
            What::Clock(whom, skew_ms) => self.host(*whom).set_clock(*skew_ms),
            What::Demote(at) => self.demote(self.hosts[*at].id, fault.lasts),
        }
    }

    fn cut(&self, lasts: Duration, server: u64, from_it: bool, to_it: bool) {
        let others = self.hosts.iter().map(|host| host.id).filter(|id| *id != server);
        let directions = others.flat_map(|other| [(server, other, from_it), (other, server, to_it)]);
        self.cut_directions(lasts, directions.filter(|(_, _, cut)| *cut).map(|(from, to, _)| (from, to)).collect());
    }

    fn cut_directions(&self, lasts: Duration, directions: Vec<(u64, u64)>) {
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

    fn demote(&self, id: u64, lasts: Duration) {
        let (hosts, record) = (self.hosts.clone(), Arc::clone(&self.record));
        tokio::spawn(async move {
            let changed = ask_leader(&hosts, id, false).await;
            record.note(&format!("server {id} is to lose its vote: {changed:?}"));
            record.count(|counts| counts.memberships += u64::from(changed.is_ok()));
            tokio::time::sleep(lasts).await;
            loop {
                let changed = ask_leader(&hosts, id, true).await;
                record.note(&format!("server {id} is to have a vote: {changed:?}"));
                if changed.is_ok() {
                    break;
                }
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
    }

    fn heal(&self) {
        self.network.mend_all();
        for host in &self.hosts {
            host.trouble(Troubles::default());
            host.set_clock(0);
        }
    }

    /// Something has to go on now.
    async fn quiesce(&self, seed: u64) {
        let mut client = Client::new(999, seed, &self.hosts, &self.network, &self.record);
        let answered = async {
            let mut answered = 0;
            while answered < 5 {
                answered += u32::from(client.operate().await);
            }
        };
        if tokio::time::timeout(QUIET_AT_LAST, answered).await.is_err() {
            self.record.found(Violation::Stuck("nothing is wrong any more, and yet clients get no answers".to_owned()));
        }
    }

    /// All servers have to come to the same end.
    async fn come_to_rest(&self) {
        let same = async {
            loop {
                let last: Vec<_> = self.hosts.iter().map(|host| host.life().and_then(|life| life.log.applied())).collect();
                if last.iter().all(|applied| applied.is_some() && *applied == last[0]) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        if tokio::time::timeout(QUIET_AT_LAST, same).await.is_err() {
            let last: Vec<_> = self.hosts.iter().map(|host| (host.id, host.life().and_then(|life| life.log.applied()))).collect();
            self.record.found(Violation::Stuck(format!("nothing is wrong any more, and yet servers stay behind: {last:?}")));
        }
    }
}

/// Has whoever leads now give a server a vote, or take it.
async fn ask_leader(hosts: &[Arc<Host>], id: u64, vote: bool) -> Result<(), String> {
    let leader = hosts.iter().find_map(|host| host.life().filter(|life| life.log.is_leader()));
    let Some(life) = leader else { return Err("nobody leads".to_owned()) };
    let changed = async { if vote { life.log.promote(id).await } else { life.log.demote(id).await } };
    match tokio::time::timeout(Duration::from_secs(20), changed).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err("no answer in 20 s".to_owned()),
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
