//! The operator of a simulated cluster, who changes its membership: takes votes and gives them back, lets servers join and leave, and puts new
//! disks into machines whose servers refuse the old ones, as docs/operations.md says. At most one server's data is lost at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use songline_log::{MemberError, NodeId};
use tokio::sync::{Mutex, MutexGuard};

use super::record::Record;
use super::server::{Host, Life};

/// How long the operator waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long between two looks, or two attempts.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// A server may vote when it is no more entries behind than this.
const BEHIND_MAX: u64 = 20;

/// A change of the membership.
#[derive(Debug, Clone)]
enum Change {
    Add(NodeId, String),
    Promote(NodeId),
    Demote(NodeId),
    Remove(NodeId),
}

/// The operator.
pub struct Operator {
    hosts: Vec<Arc<Host>>,
    record: Arc<Record>,
    /// One thing after another: what is begun is brought to its end first.
    busy: Mutex<()>,
    next_id: AtomicU64,
}

impl Operator {
    /// Of a cluster on these machines.
    pub fn new(hosts: &[Arc<Host>], record: &Arc<Record>) -> Arc<Self> {
        let next_id = AtomicU64::new(hosts.len() as u64 + 1);
        Arc::new(Self { hosts: hosts.to_vec(), record: Arc::clone(record), busy: Mutex::default(), next_id })
    }

    /// Returns when nothing is under way any more.
    pub async fn at_rest(&self) -> MutexGuard<'_, ()> {
        self.busy.lock().await
    }

    fn free(&self) -> Option<MutexGuard<'_, ()>> {
        let free = self.busy.try_lock().ok();
        if free.is_none() {
            self.record.note("the operator is busy");
        }
        free
    }

    /// A server loses its vote for a while.
    pub async fn demote(&self, host: &Host, lasts: Duration) {
        let Some(_busy) = self.free() else { return };
        if !self.is_whole() || !host.is_wanted() {
            return;
        }
        let id = host.id();
        if self.ask(Change::Demote(id)).await.is_ok() {
            self.record.count(|counts| counts.memberships += 1);
        }
        tokio::time::sleep(lasts).await;
        self.insist(Change::Promote(id)).await;
    }

    /// Bits on a machine's disk flip while it is down. Its server starts nevertheless, or says what is damaged and is replaced.
    pub async fn damage(&self, host: &Host, bits: u32) {
        let Some(_busy) = self.free() else { return };
        if !self.is_whole() || host.life().is_none() {
            return;
        }
        host.damage(bits);
        while host.life().is_none() {
            if host.refuses() {
                return self.renew(host, true).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// A machine's disk is gone.
    pub async fn lose(&self, host: &Host, joins_first: bool) {
        let Some(_busy) = self.free() else { return };
        if self.is_whole() && host.is_wanted() {
            self.record.count(|counts| counts.crashes += 1);
            self.renew(host, joins_first).await;
        }
    }

    /// A server joins on a machine that has none, and after a while another one leaves.
    pub async fn exchange(&self, leaves: &Host, lasts: Duration) {
        let Some(_busy) = self.free() else { return };
        let Some(spare) = self.hosts.iter().find(|host| !host.is_wanted()).filter(|_| self.is_whole()) else { return };
        spare.renew(self.next_id());
        self.join(spare).await;
        tokio::time::sleep(lasts).await;
        // Any of them may be the one, except that there has to be one.
        let leaves = if leaves.is_wanted() { leaves } else { &self.hosts[0] };
        self.insist(Change::Remove(leaves.id())).await;
        self.record.note(&format!("server {} has left", leaves.id()));
        leaves.switch_off();
    }

    /// Puts a new disk into a machine: its server is another one from now on. The former is taken out, before or after.
    async fn renew(&self, host: &Host, joins_first: bool) {
        let former = host.id();
        host.renew(self.next_id());
        if !joins_first {
            self.insist(Change::Remove(former)).await;
        }
        self.join(host).await;
        if joins_first {
            self.insist(Change::Remove(former)).await;
        }
    }

    async fn join(&self, host: &Host) {
        let id = host.id();
        self.insist(Change::Add(id, host.address())).await;
        loop {
            let leader = self.leader().map(|life| reached(&life));
            let own = host.life().map(|life| reached(&life));
            if let Some((leader, own)) = leader.zip(own)
                && own + BEHIND_MAX >= leader
                && own > 0
            {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.insist(Change::Promote(id)).await;
        self.record.count(|counts| counts.joins += 1);
        self.record.note(&format!("server {id} has joined"));
    }

    fn next_id(&self) -> NodeId {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn leader(&self) -> Option<Life> {
        self.hosts.iter().find_map(|host| host.life().filter(|life| life.log.is_leader()))
    }

    /// Whether every server that is wanted votes, and nobody else.
    pub fn is_whole(&self) -> bool {
        let Some(life) = self.leader() else { return false };
        let members = life.log.members().borrow().clone();
        let wanted: std::collections::BTreeSet<NodeId> = self.hosts.iter().filter(|host| host.is_wanted()).map(|host| host.id()).collect();
        members.voters == [wanted.clone()] && members.addresses.keys().copied().eq(wanted)
    }

    /// Asks again and again.
    async fn insist(&self, change: Change) {
        while self.ask(change.clone()).await.is_err() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.record.count(|counts| counts.memberships += 1);
    }

    /// Has whoever leads now change the membership.
    async fn ask(&self, change: Change) -> Result<(), String> {
        let Some(life) = self.leader() else { return Err("nobody leads".to_owned()) };
        let asked = async {
            match &change {
                Change::Add(id, address) => life.log.add_learner(*id, address).await,
                Change::Promote(id) => life.log.promote(*id).await,
                Change::Demote(id) => life.log.demote(*id).await,
                Change::Remove(id) => remove(&life, *id).await,
            }
        };
        let changed = match tokio::time::timeout(PATIENCE, asked).await {
            Ok(result) => result.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer in {} s", PATIENCE.as_secs())),
        };
        self.record.note(&format!("{change:?} of the membership: {changed:?}"));
        changed
    }
}

/// Takes a server out; one that is not in it is out.
async fn remove(life: &Life, id: NodeId) -> Result<(), MemberError> {
    if life.log.members().borrow().addresses.contains_key(&id) { life.log.remove(id).await } else { Ok(()) }
}

fn reached(life: &Life) -> u64 {
    life.log.applied().map_or(0, |position| position.index)
}
