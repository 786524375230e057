//! Several logs in one process, connected by direct calls: elections, cut connections, added and removed members, sent
//! checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use songline_log::{
    Config, Disk, Log, NodeId, OpenError, RealDisk, Start, Timing, Transport, TransportError, stand_alone,
};

use crate::machine::{Diary, config};

/// Connections between the members.
#[derive(Default)]
struct Switch {
    logs: Mutex<BTreeMap<NodeId, Log<Diary>>>,
    /// Cut connections, as (from, to): messages that way are lost.
    cut: Mutex<BTreeSet<(NodeId, NodeId)>>,
}

struct Line {
    from: NodeId,
    switch: Weak<Switch>,
}

impl Transport for Line {
    fn send<'a>(
        &'a self,
        to: NodeId,
        _: &'a str,
        message: Bytes,
        _: Duration,
    ) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        Box::pin(async move {
            let switch = self.switch.upgrade().ok_or_else(|| TransportError::Unreachable("over".to_owned()))?;
            let is_cut = |from, to| switch.cut.lock().contains(&(from, to));
            let log = switch.logs.lock().get(&to).cloned();
            let Some(log) = log.filter(|_| !is_cut(self.from, to)) else {
                return Err(TransportError::Unreachable(format!("{to} is away")));
            };
            let answer = log.receive(message).await;
            if is_cut(to, self.from) { Err(TransportError::Lost("cut".to_owned())) } else { Ok(answer) }
        })
    }
}

pub struct Cluster {
    switch: Arc<Switch>,
    dirs: BTreeMap<NodeId, tempfile::TempDir>,
    diaries: BTreeMap<NodeId, Diary>,
    /// Disks of members that are started from now on; other members use the machine's.
    pub disks: BTreeMap<NodeId, Arc<dyn Disk>>,
}

fn member(id: NodeId, dir: &Path) -> Config {
    let timing = Timing {
        heartbeat: Duration::from_millis(50),
        election_min: Duration::from_millis(150),
        election_max: Duration::from_millis(300),
    };
    Config { node_id: id, address: format!("server-{id}"), start: Start::Wait, timing, ..config(dir) }
}

impl Cluster {
    /// A cluster of members 1 to `count`.
    pub async fn founded(count: u64) -> Self {
        Self::founded_on(count, BTreeMap::new()).await
    }

    /// Like `founded`, with some members on other disks than the machine's.
    pub async fn founded_on(count: u64, disks: BTreeMap<NodeId, Arc<dyn Disk>>) -> Self {
        let mut cluster = Self { switch: Arc::default(), dirs: BTreeMap::new(), diaries: BTreeMap::new(), disks };
        for id in 1..=count {
            cluster.start(id).await;
        }
        let members = (1..=count).map(|id| (id, format!("server-{id}"))).collect();
        cluster.log(1).found(&members).await.unwrap();
        cluster
    }

    /// Starts a server from its directory.
    async fn start(&mut self, id: NodeId) {
        let dir = self.dirs.entry(id).or_insert_with(|| tempfile::tempdir().unwrap());
        let diary = Diary::default();
        let line = Line { from: id, switch: Arc::downgrade(&self.switch) };
        let disk = self.disks.get(&id).cloned().unwrap_or_else(|| Arc::new(RealDisk));
        let config = Config { disk, ..member(id, dir.path()) };
        let log = Log::open(config, diary.clone(), Arc::new(line)).await.unwrap();
        self.diaries.insert(id, diary);
        self.switch.logs.lock().insert(id, log);
    }

    /// Reopens the log of a server whose disk failed, with an empty diary.
    pub async fn reopen(&mut self, id: NodeId) -> Result<(), OpenError> {
        let diary = Diary::default();
        self.log(id).reopen(diary.clone()).await?;
        self.diaries.insert(id, diary);
        Ok(())
    }

    async fn stop(&mut self, id: NodeId) {
        let log = self.switch.logs.lock().remove(&id).unwrap();
        log.shutdown().await;
    }

    pub fn log(&self, id: NodeId) -> Log<Diary> {
        self.switch.logs.lock()[&id].clone()
    }

    pub fn ids(&self) -> Vec<NodeId> {
        self.switch.logs.lock().keys().copied().collect()
    }

    /// Cuts a server off from all others.
    fn isolate(&self, id: NodeId) {
        let mut cut = self.switch.cut.lock();
        cut.extend((1..=9).flat_map(|other| [(id, other), (other, id)]));
    }

    fn heal(&self) {
        self.switch.cut.lock().clear();
    }

    /// Writes through the current leader until a write is acknowledged, and returns the leader. Each attempt has a name
    /// of its own, because a failed one may still be applied.
    pub async fn write(&self, text: &str) -> NodeId {
        let written = async {
            for attempt in 0.. {
                for id in self.ids() {
                    let log = self.log(id);
                    if log.is_leader() && log.propose(Bytes::from(format!("{text}.{attempt}"))).await.is_ok() {
                        return id;
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            unreachable!("it is tried for ever");
        };
        tokio::time::timeout(Duration::from_secs(60), written).await.expect("somebody leads in time")
    }

    pub async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let met = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), met)
            .await
            .unwrap_or_else(|_| panic!("waited too long until {what}"));
    }

    pub async fn until_all_agree(&self) {
        self.until("all have the same", |it| {
            let all: Vec<_> = it.ids().iter().map(|id| it.diaries[id].commands()).collect();
            all.windows(2).all(|pair| pair[0] == pair[1])
        })
        .await;
    }

    pub fn has(&self, id: NodeId, text: &str) -> bool {
        self.diaries[&id].commands().iter().any(|command| command.split('.').next() == Some(text))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_agree_and_outlive_their_leader() {
    let mut cluster = Cluster::founded(3).await;
    let first = cluster.write("a").await;
    cluster.until_all_agree().await;
    cluster.stop(first).await;
    let second = cluster.write("b").await;
    assert_ne!(first, second);
    cluster.start(first).await;
    cluster.write("c").await;
    cluster.until("the first has all again", |it| it.has(first, "a") && it.has(first, "b") && it.has(first, "c")).await;
    cluster.until_all_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_neither_acknowledges_nor_leads() {
    let cluster = Cluster::founded(3).await;
    let old = cluster.write("a").await;
    cluster.isolate(old);
    let lonely = cluster.log(old).propose(Bytes::from_static(b"lonely")).await;
    assert!(lonely.is_err(), "{lonely:?}");
    cluster
        .until("it knows", |it| !it.log(old).is_leader() && it.log(old).leadership().borrow().leader.is_none())
        .await;
    assert!(cluster.log(old).read_barrier().await.is_err());
    let new = cluster.write("b").await;
    assert_ne!(old, new);
    cluster.heal();
    cluster.until_all_agree().await;
    assert!(!cluster.has(old, "lonely"));
    assert!(cluster.has(old, "b"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_server_is_filled_by_a_checkpoint_and_gets_a_vote() {
    let mut cluster = Cluster::founded(1).await;
    for n in 0..200 {
        cluster.write(&format!("old-{n}")).await;
    }
    let log = cluster.log(1);
    log.checkpoint_now().await.unwrap();
    for n in 0..200 {
        cluster.write(&format!("new-{n}")).await;
    }
    log.checkpoint_now().await.unwrap();
    log.retain(u64::MAX).await.unwrap();
    cluster.until("the oldest entries are gone", |it| it.log(1).oldest_index() > 100).await;

    cluster.start(2).await;
    log.add_learner(2, "server-2").await.unwrap();
    cluster.write("after").await;
    cluster.until("the new one has all", |it| it.has(2, "old-0") && it.has(2, "after")).await;
    log.promote(2).await.unwrap();
    assert_eq!(log.members().borrow().voters, [BTreeSet::from([1, 2])]);
    cluster.until_all_agree().await;
    assert!(log.peers()[&2].matched.is_some());

    // The checkpoint that it received is on its own disk: it starts without the other server.
    cluster.stop(2).await;
    cluster.start(2).await;
    cluster.write("again").await;
    cluster.until_all_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_transferred_on_request_and_members_can_be_removed() {
    let mut cluster = Cluster::founded(3).await;
    let old = cluster.write("a").await;
    let to = if old == 1 { 2 } else { 1 };
    cluster.until("it has all", |it| it.has(to, "a")).await;
    cluster.log(old).transfer_leadership(Some(to)).await.unwrap();
    cluster.until("it leads", |it| it.log(to).is_leader()).await;
    cluster.log(to).read_barrier().await.unwrap();
    cluster.log(to).remove(old).await.unwrap();
    assert!(!cluster.log(to).members().borrow().addresses.contains_key(&old));
    cluster.stop(old).await;
    let by = cluster.write("b").await;
    assert_ne!(by, old);
    cluster.until_all_agree().await;
    let refused = cluster.log(by).transfer_leadership(Some(old)).await.unwrap_err();
    assert_eq!(refused.to_string(), format!("server {old} has no vote"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_transfer_to_an_isolated_server_fails() {
    let cluster = Cluster::founded(3).await;
    let old = cluster.write("a").await;
    let silent = if old == 1 { 2 } else { 1 };
    cluster.until_all_agree().await;
    cluster.isolate(silent);
    let refused = cluster.log(old).transfer_leadership(Some(silent)).await.unwrap_err().to_string();
    assert!(refused.contains("take over") || refused.contains("took over, not"), "{refused}");
    let by = cluster.write("b").await;
    assert_ne!(by, silent);
    cluster.heal();
    cluster.until_all_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_server_of_three_leads_alone_after_go_alone() {
    let mut cluster = Cluster::founded(3).await;
    cluster.write("before").await;
    cluster.until_all_agree().await;
    for id in 1..=3 {
        cluster.stop(id).await;
    }
    let dir = cluster.dirs[&2].path().to_owned();
    let alone = stand_alone(&dir, 2, "server-2").unwrap();
    assert_eq!(Some(alone.written.index - 1), alone.last.map(|last| last.index));
    assert!(Some(alone.written.term) > alone.last.map(|last| last.term));
    cluster.start(2).await;
    assert!(cluster.has(2, "before"));
    assert_eq!(cluster.write("after").await, 2);
    assert_eq!(cluster.log(2).members().borrow().addresses.keys().copied().collect::<Vec<_>>(), [2]);
    // Other servers start with empty directories and are added to the cluster.
    cluster.start(4).await;
    cluster.log(2).add_learner(4, "server-4").await.unwrap();
    cluster.until("the new one has everything", |it| it.has(4, "before") && it.has(4, "after")).await;
    assert!(stand_alone(&dir, 2, "server-2").is_err(), "nobody does that to a log in use");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_lost_its_log_does_not_stop_the_others() {
    let mut cluster = Cluster::founded(3).await;
    let leader = cluster.write("a").await;
    cluster.until_all_agree().await;
    let lost = if leader == 1 { 2 } else { 1 };
    cluster.stop(lost).await;
    cluster.dirs.insert(lost, tempfile::tempdir().unwrap());
    cluster.start(lost).await;
    // The leader tells a server that lost entries apart from one that is merely behind, and goes on with the others.
    for n in 0..20 {
        cluster.write(&format!("b-{n}")).await;
    }
    assert!(
        cluster.ids().iter().all(|id| *id == lost
            || cluster.has(*id, "b-19")
            || cluster.log(*id).leadership().borrow().leader.is_some())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_ignores_messages_for_another_server_at_its_address() {
    let mut cluster = Cluster::founded(3).await;
    let leader = cluster.write("a").await;
    cluster.until_all_agree().await;
    let gone = if leader == 1 { 2 } else { 1 };
    cluster.stop(gone).await;
    cluster.start(4).await;
    // Server 4 now has the address of the removed server.
    let new = cluster.log(4);
    cluster.switch.logs.lock().insert(gone, new.clone());
    for n in 0..20 {
        cluster.write(&format!("b-{n}")).await;
    }
    assert_eq!(new.applied(), None);
    assert!(new.members().borrow().addresses.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_leader_does_not_lead_without_an_election() {
    let mut cluster = Cluster::founded(3).await;
    let leader = cluster.write("a").await;
    cluster.until_all_agree().await;
    let term = cluster.log(leader).leadership().borrow().term;
    for id in 1..=3 {
        cluster.stop(id).await;
    }
    cluster.start(leader).await;
    assert!(!cluster.log(leader).is_leader());
    assert!(cluster.log(leader).lease_barrier().await.is_err());
    // With one more server there is a majority. A read that the barrier then lets through sees the acknowledged
    // entries.
    let other = if leader == 1 { 2 } else { 1 };
    cluster.start(other).await;
    cluster.until("somebody leads", |it| it.ids().iter().any(|id| it.log(*id).is_leader())).await;
    let leads = cluster.ids().into_iter().find(|id| cluster.log(*id).is_leader()).unwrap();
    cluster.log(leads).read_barrier().await.unwrap();
    assert!(cluster.has(leads, "a"));
    assert!(cluster.log(leads).leadership().borrow().term > term);
}
