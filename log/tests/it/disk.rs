//! Disks that fail and work again: the log stops with its disk, reports the failure, and resumes from the entries on
//! the disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use songline_log::{Config, Disk, Failure, Log, NoTransport, NodeId, OpenError, ProposeError, StoreConfig};

use crate::cluster::Cluster;
use crate::machine::{Diary, config, open, propose};
use crate::moody::Moody;

/// Time limit of every wait in these tests.
const WITHIN: Duration = Duration::from_secs(30);

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(WITHIN, work).await.unwrap_or_else(|_| panic!("waited too long until {what}"))
}

async fn open_on(dir: &Path, disk: &Moody) -> (Log<Diary>, Diary) {
    open_with(Config { disk: Arc::new(disk.clone()), ..config(dir) }).await
}

/// A log that writes nothing by itself, so that a command is the first to notice a failing disk.
async fn open_unmarked(dir: &Path, disk: &Moody) -> (Log<Diary>, Diary) {
    let config = config(dir);
    let store = StoreConfig { mark_after_idle: Duration::from_hours(1), ..config.store };
    open_with(Config { disk: Arc::new(disk.clone()), store, ..config }).await
}

async fn open_with(config: Config) -> (Log<Diary>, Diary) {
    let diary = Diary::default();
    (Log::open(config, diary.clone(), Arc::new(NoTransport)).await.unwrap(), diary)
}

fn write(log: &Log<Diary>, text: &str) -> impl Future<Output = Result<usize, ProposeError>> + use<> {
    let (log, text) = (log.clone(), Bytes::from(text.to_owned()));
    async move { log.propose(text).await.map(|accepted| accepted.reply) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_with_a_failed_disk_refuses_writes_and_reopens_with_all_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Moody::default();
    let (log, diary) = open_unmarked(dir.path(), &disk).await;
    propose(&log, 0..100).await;
    let acknowledged = diary.commands();

    disk.fails(true);
    assert!(matches!(write(&log, "under way").await, Err(ProposeError::Stopped(_))), "its outcome is not known");
    let failure = in_time("the failure is told", log.failed()).await;
    assert!(matches!(failure, Failure::Disk { .. }), "{failure:?}");
    let where_it_is = dir.path().join("log").display().to_string();
    assert!(failure.to_string().starts_with(&format!("the disk that holds {where_it_is} has failed: ")), "{failure}");
    assert!(!log.is_leader());
    assert_eq!(log.leadership().borrow().leader, None);
    assert_eq!(write(&log, "refused").await, Err(ProposeError::Disk(failure.clone())));
    assert_eq!(log.lease_barrier().await, Err(ProposeError::Disk(failure.clone())));
    let first =
        log.read(0..u64::MAX).unwrap_or_else(|error| panic!("what is there is read on: {error}")).next().unwrap();
    assert!(first.is_ok());

    let early = Diary::default();
    assert!(matches!(log.reopen(early).await, Err(OpenError::Io { .. })), "it does not work yet");
    assert_eq!(log.failure(), Some(failure));

    disk.fails(false);
    let again = Diary::default();
    log.reopen(again.clone()).await.unwrap();
    assert!(log.is_leader());
    assert_eq!(log.failure(), None);
    let mut found = again.commands();
    found.retain(|command| command != "under way");
    assert_eq!(found, acknowledged);
    propose(&log, 100..120).await;
    assert!(again.commands().contains(&"command-119".to_owned()));
    assert!(!again.commands().contains(&"refused".to_owned()));
    let before = again.commands();
    log.shutdown().await;
    let (log, after) = open(dir.path()).await;
    assert_eq!(after.commands(), before);
    assert_eq!(log.recovery().torn, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reopened_log_makes_entries_of_a_failed_sync_durable_first() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Moody::default();
    let (log, _) = open_unmarked(dir.path(), &disk).await;
    propose(&log, 0..10).await;
    disk.fails(true);
    write(&log, "under way").await.unwrap_err();
    in_time("the failure is told", log.failed()).await;
    disk.fails(false);
    let again = Diary::default();
    log.reopen(again.clone()).await.unwrap();
    assert!(again.commands().contains(&"under way".to_owned()), "it reads as if it was there");
    propose(&log, 10..20).await;
    let acknowledged = again.commands();
    log.shutdown().await;
    disk.power_cut();
    let (_log, found) = open(dir.path()).await;
    assert_eq!(found.commands(), acknowledged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_failure_of_an_idle_log_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Moody::default();
    let (log, _) = open_on(dir.path(), &disk).await;
    propose(&log, 0..5).await;
    // The high-water mark is written a moment later.
    disk.fails(true);
    in_time("the failure is told", log.failed()).await;
    in_time("it does not lead", async { log.leadership().wait_for(|now| !now.is_leader).await.map(|_| ()) })
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_the_log_when_it_needs_another_file_and_not_before() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Moody::default();
    let (log, diary) = open_on(dir.path(), &disk).await;
    disk.fills(true);
    let mut acknowledged = Vec::new();
    for n in 0.. {
        let text = format!("full-{n}");
        match write(&log, &text).await {
            Ok(_) => acknowledged.push(text),
            Err(_) => break,
        }
    }
    assert!(acknowledged.len() > 5, "what was reserved is used");
    in_time("the failure is told", log.failed()).await;
    assert_eq!(diary.commands(), acknowledged);
    disk.fills(false);
    let again = Diary::default();
    log.reopen(again.clone()).await.unwrap();
    assert!(again.commands().starts_with(&acknowledged));
    write(&log, "after").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn working_or_closed_log_cannot_be_reopened() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path()).await;
    assert!(matches!(log.reopen(Diary::default()).await, Err(OpenError::Start(_))));
    log.shutdown().await;
    assert!(matches!(log.reopen(Diary::default()).await, Err(OpenError::Start(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_whose_disk_failed_does_not_stop_the_others_and_catches_up() {
    let disks: BTreeMap<NodeId, Moody> = (1..=3).map(|id| (id, Moody::default())).collect();
    let given = disks.iter().map(|(id, disk)| (*id, Arc::new(disk.clone()) as Arc<dyn Disk>)).collect();
    let mut cluster = Cluster::founded_on(3, given).await;
    for round in 0..4 {
        let leader = cluster.write(&format!("before-{round}")).await;
        // The victim is the leader in even rounds, a follower in odd ones.
        let victim = if round % 2 == 0 { leader } else { leader % 3 + 1 };
        disks[&victim].fails(true);
        let during = format!("during-{round}");
        // A leader whose disk has just failed may acknowledge this write, because both others have it.
        cluster.write(&during).await;
        let failure = in_time("it has noticed", cluster.log(victim).failed()).await;
        assert!(matches!(failure, Failure::Disk { .. }), "{failure:?}");
        assert!(!cluster.log(victim).is_leader());
        assert_ne!(cluster.write(&format!("without-{round}")).await, victim);
        cluster.reopen(victim).await.unwrap_err();
        disks[&victim].fails(false);
        cluster.reopen(victim).await.unwrap();
        cluster.until("it has what it missed", |it| it.has(victim, &during)).await;
        cluster.write(&format!("after-{round}")).await;
    }
    cluster.until_all_agree().await;
}

/// Acknowledgements as in ADR 15: they need a majority of disks, and the leader's disk counts like any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_acknowledges_an_entry_that_only_both_followers_have_on_disk() {
    let disks: BTreeMap<NodeId, Moody> = (1..=3).map(|id| (id, Moody::default())).collect();
    let given = disks.iter().map(|(id, disk)| (*id, Arc::new(disk.clone()) as Arc<dyn Disk>)).collect();
    let mut cluster = Cluster::founded_on(3, given).await;
    let leader = cluster.write("before").await;
    cluster.until_all_agree().await;

    disks[&leader].holds(true);
    in_time("both others have it", write(&cluster.log(leader), "held")).await.unwrap();
    disks[&leader].fails(true);
    disks[&leader].holds(false);
    in_time("it has noticed", cluster.log(leader).failed()).await;
    assert!(!cluster.log(leader).is_leader());

    // The entry is not lost with the leader's disk: the next leader has it.
    let next = cluster.write("after").await;
    assert_ne!(next, leader);
    assert!(cluster.has(next, "held"));
    disks[&leader].fails(false);
    cluster.reopen(leader).await.unwrap();
    cluster.until("it has what it acknowledged", |it| it.has(leader, "held") && it.has(leader, "after")).await;
    cluster.until_all_agree().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_with_a_hung_disk_needs_both_followers_to_acknowledge() {
    let disks: BTreeMap<NodeId, Moody> = (1..=3).map(|id| (id, Moody::default())).collect();
    let given = disks.iter().map(|(id, disk)| (*id, Arc::new(disk.clone()) as Arc<dyn Disk>)).collect();
    let cluster = Cluster::founded_on(3, given).await;
    let leader = cluster.write("before").await;
    cluster.until_all_agree().await;

    let (slow, other) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let log = cluster.log(leader);
    // Only the leader knows the progress of other servers, so `None` means that leadership was lost.
    let matched = || log.peers().get(&other).map(|peer| peer.matched);
    let before = matched();
    disks[&leader].holds(true);
    disks[&slow].holds(true);
    let held = tokio::spawn(write(&log, "held"));
    cluster
        .until("the other has it, or another server leads", |_| matched().is_none_or(|now| Some(now) > before))
        .await;
    let early = held.is_finished();
    disks[&leader].holds(false);
    disks[&slow].holds(false);
    // The next leader decides whether the held write is acknowledged in the end.
    let outcome = in_time("it is known", held).await.unwrap();
    assert!(!early || outcome.is_err(), "one disk of three is no majority");
    cluster.until_all_agree().await;
}
