//! Histories whose disk fails: they are reopened, and no subscriber misses an entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use songline_commands::Kind;

use super::super::{Batch, Block, EventHub, History, HistoryError, HubConfig, Start, StoredHistory};
use super::{pool, read_until, settled};

/// A history that fails like a store after one failed write: until it is reopened.
struct Broken {
    inner: StoredHistory,
    /// The disk does not work.
    failing: AtomicBool,
    /// The store writes nothing any more.
    poisoned: AtomicBool,
}

impl Broken {
    fn check(&self) -> Result<(), HistoryError> {
        let failing = self.failing.load(Ordering::SeqCst);
        if failing || self.poisoned.load(Ordering::SeqCst) {
            self.poisoned.store(true, Ordering::SeqCst);
            return Err(HistoryError::Closed);
        }
        Ok(())
    }
}

impl History for Broken {
    fn append(&self, batches: &[Arc<Batch>], through: u64) -> Result<(), HistoryError> {
        self.check()?;
        self.inner.append(batches, through)
    }

    fn read(&self, after: u64, bytes_max: usize) -> Result<Vec<Block>, HistoryError> {
        self.inner.read(after, bytes_max)
    }

    fn oldest(&self) -> u64 {
        self.inner.oldest()
    }

    fn last(&self) -> u64 {
        self.inner.last()
    }

    fn sync(&self) -> Result<(), HistoryError> {
        self.check()?;
        self.inner.sync()
    }

    fn reset(&self, first_index: u64) -> Result<(), HistoryError> {
        self.check()?;
        self.inner.reset(first_index)
    }

    fn forget_before(&self, index: u64) -> Result<(), HistoryError> {
        self.check()?;
        self.inner.forget_before(index)
    }

    fn reopen(&self) -> Result<(), HistoryError> {
        if self.failing.load(Ordering::SeqCst) {
            return Err(HistoryError::Closed);
        }
        self.poisoned.store(false, Ordering::SeqCst);
        self.inner.reopen()
    }
}

#[tokio::test]
async fn unwritten_history_is_written_after_the_disk_recovers() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = StoredHistory::open(folder.path()).expect("opens");
    let history = Arc::new(Broken { inner, failing: AtomicBool::new(false), poisoned: AtomicBool::new(false) });
    let given: Arc<dyn History> = Arc::clone(&history) as Arc<dyn History>;
    let hub =
        EventHub::start(HubConfig { tail_batches_max: 4, ..HubConfig::default() }, Some(given), 1).expect("starts");
    for index in 1..5 {
        hub.publish(index, Kind::NodePoolUpsert, pool("a"));
    }
    assert!(hub.write_through(4, std::time::Duration::from_secs(60)).expect("is written"));
    history.failing.store(true, Ordering::SeqCst);
    for index in 5..20 {
        hub.publish(index, Kind::NodePoolUpsert, pool("b"));
    }
    settled(&hub, 19).await;
    while !history.poisoned.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
    }
    assert_eq!(hub.history_last(), 4);
    history.failing.store(false, Ordering::SeqCst);
    assert!(hub.write_through(19, std::time::Duration::from_secs(60)).expect("is written"));
    let whole: Vec<String> = (1..20).map(|index| index.to_string()).collect();
    assert_eq!(read_until(&hub, Start::After(0), r#""Index":19"#).await, format!("{{}} {}", whole.join(" ")));
}

#[tokio::test]
async fn reopened_history_store_keeps_its_entries() {
    let folder = tempfile::tempdir().expect("a folder");
    let history: Arc<dyn History> = Arc::new(StoredHistory::open(folder.path()).expect("opens"));
    let hub = EventHub::start(HubConfig::default(), Some(Arc::clone(&history)), 1).expect("starts");
    for index in 1..9 {
        hub.publish(index, Kind::NodePoolUpsert, pool("a"));
    }
    assert!(hub.write_through(8, std::time::Duration::from_secs(60)).expect("is written"));
    let indexes = || -> Vec<u64> {
        history.read(0, usize::MAX).expect("reads").iter().flat_map(|block| block.indexes()).collect()
    };
    let before = indexes();
    history.reopen().expect("opens again");
    assert_eq!(indexes(), before);
    assert_eq!((history.oldest(), history.last()), (1, 8));
}
