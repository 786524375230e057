//! Reading applied entries, and retention.

use songline_log::{Payload, ReadError, Reader};

use crate::machine::{open, propose};

#[tokio::test]
async fn log_read_returns_every_applied_command_from_memory_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let (log, diary) = open(dir.path()).await;
    propose(&log, 0..500).await;
    let mut read = Vec::new();
    for (entry, index) in log.read(0..u64::MAX).unwrap().zip(0..) {
        let entry = entry.unwrap();
        assert_eq!(entry.position.index, index);
        match entry.payload {
            Payload::Command(bytes) => read.push(String::from_utf8(bytes.to_vec()).unwrap()),
            Payload::Blank => {}
            Payload::Membership(members) => assert_eq!(members.addresses.len(), 1),
        }
    }
    assert_eq!(read, diary.commands());
}

#[tokio::test]
async fn retention_drops_whole_segments_below_the_older_of_two_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let (log, diary) = open(dir.path()).await;
    propose(&log, 0..300).await;
    assert_eq!(log.retain(0).await.unwrap().segments, 0, "no checkpoint, nothing may go");
    let all: u64 = log.segments().iter().map(|segment| segment.bytes).sum();
    assert_eq!((log.unsaved_bytes(), log.checkpoint_bytes()), (all, 0), "a start would read everything");
    let older = log.checkpoint_now().await.unwrap().unwrap();
    assert!(log.unsaved_bytes() < all && log.checkpoint_bytes() > 0, "a start reads the checkpoint instead");
    assert_eq!(log.retain(0).await.unwrap().segments, 0, "were it damaged, everything would be needed");
    propose(&log, 300..400).await;
    log.checkpoint_now().await.unwrap();

    let dropped = log.retain(0).await.unwrap();
    assert!(dropped.segments > 3 && dropped.below <= older.index + 1, "{dropped:?}");
    while log.oldest_index() < dropped.below {
        tokio::task::yield_now().await;
    }
    assert_eq!(log.oldest_index(), dropped.below);
    let Err(ReadError::BelowOldest { wanted, oldest }) = log.read(3..10) else { panic!("must be refused") };
    assert_eq!((wanted, oldest), (3, dropped.below));
    assert_eq!(log.read(dropped.below..dropped.below + 5).unwrap().count(), 5);

    let before = diary.commands();
    log.shutdown().await;
    assert_eq!(Reader::open(dir.path()).unwrap().oldest_index(), dropped.below);
    let (log, diary) = open(dir.path()).await;
    assert_eq!(diary.commands(), before);
    assert_eq!(log.oldest_index(), dropped.below);
    propose(&log, 400..410).await;
}

#[tokio::test]
async fn reader_opens_a_running_log_and_reads_every_entry() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = open(dir.path()).await;
    propose(&log, 0..100).await;
    let reader = Reader::open(dir.path()).unwrap();
    let applied = log.applied().unwrap();
    assert!(reader.last().next > applied.index);
    let count = reader.entries(0..applied.index + 1).unwrap().inspect(|entry| assert!(entry.is_ok())).count();
    assert_eq!(count as u64, applied.index + 1);
}
