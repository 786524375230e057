//! The operator of a simulated cluster: demotes servers, adds and removes machines, and replaces disks that servers
//! refuse to start with, as docs/operations.md says. The servers themselves join, promote and remove each other. At
//! most one server's data is lost at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use super::record::Record;
use super::server::{Host, Life};

/// Timeout of an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Delay between two checks or attempts.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval at which an operation that takes long is noted.
const TELL_EVERY: Duration = Duration::from_secs(30);

/// The operator.
pub struct Operator {
    hosts: Vec<Arc<Host>>,
    record: Arc<Record>,
    /// Serializes operations: each is completed before the next begins.
    busy: Mutex<()>,
}

impl Operator {
    /// Creates the operator of a cluster on these machines.
    pub fn new(hosts: &[Arc<Host>], record: &Arc<Record>) -> Arc<Self> {
        Arc::new(Self { hosts: hosts.to_vec(), record: Arc::clone(record), busy: Mutex::default() })
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

    /// Takes a server's vote for some time, and gives it back.
    pub async fn demote(&self, host: &Host, lasts: Duration) {
        let Some(_busy) = self.free() else { return };
        if !self.is_whole() || !host.is_wanted() {
            return;
        }
        let Some(life) = self.leader() else { return };
        let demoted = tokio::time::timeout(ANSWER_WITHIN, life.log().demote(host.id())).await;
        self.record.note(&format!("server {} is demoted: {}", host.machine(), matches!(demoted, Ok(Ok(())))));
        self.record.count(|counts| counts.memberships += 1);
        tokio::time::sleep(lasts).await;
        self.until_whole(Some(host)).await;
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
                return self.renew(host).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Loses a machine's disk.
    pub async fn lose(&self, host: &Host) {
        let Some(_busy) = self.free() else { return };
        if self.is_whole() && host.is_wanted() {
            self.record.count(|counts| counts.crashes += 1);
            self.renew(host).await;
        }
    }

    /// Lets a server join on a machine without one, and another one leave after some time.
    pub async fn exchange(&self, leaves: &Host, lasts: Duration) {
        let Some(_busy) = self.free() else { return };
        let Some(spare) = self.hosts.iter().find(|host| !host.is_wanted()).filter(|_| self.is_whole()) else { return };
        self.renew(spare).await;
        tokio::time::sleep(lasts).await;
        // The chosen server may have been removed meanwhile: then the first one leaves.
        let leaves = if leaves.is_wanted() { leaves } else { &self.hosts[0] };
        loop {
            match leaves.life() {
                Some(life) => {
                    life.core.leave().await;
                    if self
                        .leader()
                        .is_some_and(|life| !life.log().members().borrow().addresses.contains_key(&leaves.id()))
                    {
                        break;
                    }
                }
                None => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
        self.record.count(|counts| counts.memberships += 1);
        self.record.note(&format!("server {} has left", leaves.machine()));
        leaves.switch_off();
    }

    /// Puts an empty disk into a machine, and waits until its new server has taken its place.
    async fn renew(&self, host: &Host) {
        host.renew();
        self.until_whole(None).await;
        self.record.count(|counts| counts.joins += 1);
        self.record.note(&format!("server {} has joined", host.machine()));
    }

    /// Waits until exactly the wanted servers are voters. Gives a demoted server its vote back.
    async fn until_whole(&self, demoted: Option<&Host>) {
        let since = tokio::time::Instant::now();
        let mut told = since;
        while !self.is_whole() {
            if let (Some(host), Some(life)) = (demoted, self.leader()) {
                // Repeated until the server is a voter, so the outcome of one attempt does not matter.
                let _ = tokio::time::timeout(ANSWER_WITHIN, life.log().promote(host.id())).await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
            if told.elapsed() >= TELL_EVERY {
                told = tokio::time::Instant::now();
                self.record.note(&format!(
                    "after {} s the operator still waits: {}",
                    since.elapsed().as_secs(),
                    self.shown()
                ));
            }
        }
        self.record.count(|counts| counts.memberships += 1);
    }

    /// The membership as it is and as it should be.
    fn shown(&self) -> String {
        let members = self.leader().map(|life| life.log().members().borrow().clone());
        let wanted: Vec<_> =
            self.hosts.iter().filter(|host| host.is_wanted()).map(|host| (host.machine(), host.id())).collect();
        format!("{members:?}, wanted are {wanted:?}")
    }

    fn leader(&self) -> Option<Life> {
        self.hosts.iter().find_map(|host| host.life().filter(|life| life.log().is_leader()))
    }

    /// Whether exactly the wanted servers are voters.
    pub fn is_whole(&self) -> bool {
        let Some(life) = self.leader() else { return false };
        let members = life.log().members().borrow().clone();
        let wanted: BTreeSet<u64> = self.hosts.iter().filter(|host| host.is_wanted()).map(|host| host.id()).collect();
        members.voters == [wanted.clone()] && members.addresses.keys().copied().eq(wanted)
    }
}
