//! The operator of a simulated cluster, who changes its membership: demotes and promotes servers, lets servers join
//! and leave, and replaces disks that servers refuse to start with, as docs/operations.md says. At most one server's
//! data is lost at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use songline_log::{MemberError, NodeId};
use tokio::sync::{Mutex, MutexGuard};

use super::record::Record;
use super::server::{Host, Life};

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Delay between two checks or attempts.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Largest number of missing entries with which a server may become a voter.
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
    /// Serializes operations: each is completed before the next begins.
    busy: Mutex<()>,
    next_id: AtomicU64,
}

impl Operator {
    /// Creates the operator of a cluster on these machines.
    pub fn new(hosts: &[Arc<Host>], record: &Arc<Record>) -> Arc<Self> {
        let next_id = AtomicU64::new(hosts.len() as u64 + 1);
        Arc::new(Self { hosts: hosts.to_vec(), record: Arc::clone(record), busy: Mutex::default(), next_id })
    }

    /// Returns when no operation is in progress.
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

    /// Demotes a server for some time.
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

    /// Flips bits on a machine's disk while it is down. Its server starts nevertheless, or reports the damage and is
    /// replaced.
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

    /// Loses a machine's disk.
    pub async fn lose(&self, host: &Host, joins_first: bool) {
        let Some(_busy) = self.free() else { return };
        if self.is_whole() && host.is_wanted() {
            self.record.count(|counts| counts.crashes += 1);
            self.renew(host, joins_first).await;
        }
    }

    /// Lets a server join on a machine without one, and another one leave after some time.
    pub async fn exchange(&self, leaves: &Host, lasts: Duration) {
        let Some(_busy) = self.free() else { return };
        let Some(spare) = self.hosts.iter().find(|host| !host.is_wanted()).filter(|_| self.is_whole()) else { return };
        spare.renew(self.next_id());
        self.join(spare).await;
        tokio::time::sleep(lasts).await;
        // The chosen server may have been removed meanwhile: then the first one leaves.
        let leaves = if leaves.is_wanted() { leaves } else { &self.hosts[0] };
        self.insist(Change::Remove(leaves.id())).await;
        self.record.note(&format!("server {} has left", leaves.id()));
        leaves.switch_off();
    }

    /// Puts an empty disk into a machine, whose server then has a new id. The former server is removed before or
    /// after that.
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

    /// Whether exactly the wanted servers are voters.
    pub fn is_whole(&self) -> bool {
        let Some(life) = self.leader() else { return false };
        let members = life.log.members().borrow().clone();
        let wanted: std::collections::BTreeSet<NodeId> = self.hosts.iter().filter(|host| host.is_wanted()).map(|host| host.id()).collect();
        members.voters == [wanted.clone()] && members.addresses.keys().copied().eq(wanted)
    }

    /// Retries a change until it succeeds.
    async fn insist(&self, change: Change) {
        while self.ask(change.clone()).await.is_err() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.record.count(|counts| counts.memberships += 1);
    }

    /// Lets the current leader change the membership.
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

/// Removes a server; a server that is not a member counts as removed.
async fn remove(life: &Life, id: NodeId) -> Result<(), MemberError> {
    if life.log.members().borrow().addresses.contains_key(&id) { life.log.remove(id).await } else { Ok(()) }
}

fn reached(life: &Life) -> u64 {
    life.log.applied().map_or(0, |position| position.index)
}
