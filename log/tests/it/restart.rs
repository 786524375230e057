//! Restarts: the entries that are kept, and the rebuild of the state.

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use songline_log::{Log, NoTransport, OpenError, ProposeError, Reader};

use crate::machine::{Diary, config, open, propose, propose_at_once};

#[tokio::test]
async fn proposals_are_answered_with_position_and_reply() {
    let dir = tempfile::tempdir().unwrap();
    let (log, diary) = open(dir.path()).await;
    assert!(log.is_leader());
    let first = log.propose(Bytes::from_static(b"a")).await.unwrap();
    let second = log.propose(Bytes::from_static(b"b")).await.unwrap();
    assert_eq!((first.reply, second.reply), (1, 2));
    assert_eq!(second.position.index, first.position.index + 1);
    assert_eq!(log.applied(), Some(second.position));
    assert_eq!(log.unapplied(), 0);
    log.read_barrier().await.unwrap();
    assert_eq!(diary.commands(), ["a", "b"]);
    log.shutdown().await;
    assert!(matches!(log.propose(Bytes::from_static(b"c")).await, Err(ProposeError::Stopped(_))));
}

#[tokio::test]
async fn a_restart_replays_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (log, diary) = open(dir.path()).await;
    propose(&log, 0..300).await;
    let before = diary.commands();
    log.shutdown().await;

    let (log, diary) = open(dir.path()).await;
    assert_eq!(diary.commands(), before);
    assert_eq!(log.recovery().checkpoint, None);
    assert!(log.recovery().replayed >= 300);
    assert_eq!(log.recovery().torn, None);
    log.shutdown().await;

    let reader = Reader::open(dir.path()).unwrap();
    let report = reader.report().unwrap();
    assert_eq!(report.mark, report.last, "a clean close is marked");
    assert_eq!(report.torn, None);
    assert!(report.single_copies.is_empty());
}

#[tokio::test]
async fn a_restart_begins_at_the_newest_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let (log, diary) = open(dir.path()).await;
    propose(&log, 0..100).await;
    let at = log.checkpoint_now().await.unwrap();
    assert_eq!(at, log.applied());
    assert_eq!(log.checkpoint_now().await.unwrap(), at, "nothing new");
    propose(&log, 100..120).await;
    let before = diary.commands();
    log.shutdown().await;

    let (log, diary) = open(dir.path()).await;
    assert_eq!(log.recovery().checkpoint, at);
    assert!(log.recovery().replayed >= 20 && log.recovery().replayed < 100);
    assert_eq!(diary.commands(), before);
    propose(&log, 120..121).await;
    assert_eq!(diary.commands().len(), 121);
}

#[tokio::test]
async fn a_damaged_checkpoint_is_passed_over_for_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let (log, diary) = open(dir.path()).await;
    propose(&log, 0..50).await;
    let older = log.checkpoint_now().await.unwrap();
    propose(&log, 50..100).await;
    let newer = log.checkpoint_now().await.unwrap().unwrap();
    let before = diary.commands();
    log.shutdown().await;

    let path = dir.path().join(format!("checkpoints/checkpoint-{:020}", newer.index));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let (log, diary) = open(dir.path()).await;
    assert_eq!(log.recovery().checkpoint, older);
    assert_eq!(log.recovery().rejected.len(), 1);
    assert_eq!(diary.commands(), before);
}

#[tokio::test]
async fn a_log_that_ends_before_its_checkpoint_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path()).await;
    propose(&log, 0..50).await;
    log.checkpoint_now().await.unwrap();
    log.shutdown().await;
    // Replace the whole log by an empty one.
    fs::remove_dir_all(dir.path().join("log")).unwrap();
    let opened = Log::open(config(dir.path()), Diary::default(), Arc::new(NoTransport)).await;
    let Err(OpenError::Damaged { what, .. }) = opened else { panic!("must be refused") };
    assert!(what.contains("the log ends before"), "{what}");
}

#[tokio::test]
async fn a_panic_while_applying_is_reported_as_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path()).await;
    let proposal = log.propose(Bytes::from_static(b"panic")).await;
    assert!(matches!(proposal, Err(ProposeError::Stopped(_))), "{proposal:?}");
    let failure = log.failed().await;
    assert!(failure.to_string().contains("panicked"), "{failure}");
}

#[tokio::test]
async fn a_command_longer_than_an_entry_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path()).await;
    let long = Bytes::from(vec![0; songline_log::PAYLOAD_BYTES_MAX + 1]);
    assert!(matches!(log.propose(long).await, Err(ProposeError::TooLong { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_state_machine_survives_checkpoints_and_purges() {
    let dir = tempfile::tempdir().unwrap();
    let (log, diary) = open(dir.path()).await;
    let mut next = 0;
    for _ in 0..5 {
        propose(&log, next..next + 200).await;
        next += 200;
        log.checkpoint_now().await.unwrap();
        // Entries are committed but none is applied; checkpoint and purge are requested meanwhile.
        let gate = diary.gate.clone();
        let (held, is_held) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            let _closed = gate.lock();
            held.send(()).unwrap();
            released.recv().unwrap();
        });
        is_held.recv().unwrap();
        let under_way = {
            let log = log.clone();
            tokio::spawn(async move { propose_at_once(&log, next..next + 200).await })
        };
        while log.unapplied() < 100 {
            tokio::task::yield_now().await;
        }
        let checkpoint = {
            let log = log.clone();
            tokio::spawn(async move { log.checkpoint_now().await.unwrap() })
        };
        log.retain(u64::MAX).await.unwrap();
        release.send(()).unwrap();
        holder.join().unwrap();
        under_way.await.unwrap();
        checkpoint.await.unwrap();
        next += 200;
        log.retain(u64::MAX).await.unwrap();
    }
    log.read_barrier().await.unwrap();
    assert_eq!(diary.commands().len(), next as usize);
    log.shutdown().await;
    let (_log, again) = open(dir.path()).await;
    assert_eq!(again.commands(), diary.commands());
}
