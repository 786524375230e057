//! Stories of the event hub: subscribers that come early, late, slowly, or after a restart.

mod broken;
mod closing;
mod filters;
mod readers;
mod servers;
mod sweeps;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use songline_commands::Kind;
use songline_model::{AllocId, AllocMetric, Allocation, Dur, NodePool};
use songline_projections::Change;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{
    Batch, Block, Dialect, EventHub, Format, History, HistoryError, HubConfig, Interest, Start, StoredHistory,
};

fn pool(name: &str) -> Arc<Vec<Change>> {
    Arc::new(vec![Change::NodePool {
        before: None,
        after: Some(Arc::new(NodePool { name: name.into(), ..NodePool::default() })),
    }])
}

fn open(folder: &tempfile::TempDir) -> Arc<dyn History> {
    Arc::new(StoredHistory::open(folder.path()).expect("opens"))
}

fn everything() -> Interest {
    Interest::parse("*", std::iter::empty()).expect("is valid")
}

/// Waits until everything up to an index can be read.
async fn settled(hub: &EventHub, index: u64) {
    while hub.settled() < index {
        tokio::task::yield_now().await;
    }
}

/// Indexes and marks of a stream in our dialect, up to and including the frame that contains `last`.
async fn read_until(hub: &Arc<EventHub>, start: Start, last: &str) -> String {
    let subscription = hub.subscribe(everything(), Format::Json, Dialect::Ours, start);
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let mut out = String::new();
    while let Some(piece) = stream.next().await {
        for line in String::from_utf8_lossy(&piece.expect("a piece")).lines() {
            let frame: serde_json::Value = serde_json::from_str(line).expect("JSON");
            match frame.get("Events") {
                Some(_) => out.push_str(&format!("{} ", frame["Index"])),
                None => out.push_str(&format!("{frame} ")),
            }
            if line.contains(last) {
                return out.trim_end().to_owned();
            }
        }
    }
    out
}

#[tokio::test]
async fn event_stream_continues_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = EventHub::start(HubConfig::default(), Some(open(&folder)), 2).expect("starts");
    for index in 2..6 {
        hub.publish(index, Kind::NodePoolUpsert, pool("a"));
    }
    hub.publish(6, Kind::NamespaceUpsert, Arc::default());
    drop(hub);
    let hub = EventHub::start(HubConfig::default(), Some(open(&folder)), 7).expect("starts");
    assert_eq!(hub.history_last(), 6);
    hub.publish(7, Kind::NodePoolUpsert, pool("b"));
    settled(&hub, 7).await;
    assert_eq!(read_until(&hub, Start::After(3), r#""Index":7"#).await, "{} 4 5 7");
}

#[tokio::test]
async fn republished_entries_are_written_to_the_history_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let history = open(&folder);
    for first in [2, 2] {
        let hub = EventHub::start(HubConfig::default(), Some(Arc::clone(&history)), first).expect("starts");
        for index in 2..5 {
            hub.publish(index, Kind::NodePoolUpsert, pool("a"));
        }
    }
    let blocks = history.read(0, usize::MAX).expect("reads");
    let indexes: Vec<u64> = blocks.iter().flat_map(|block| block.indexes()).collect();
    assert_eq!(indexes, [2, 3, 4]);
}

#[tokio::test]
async fn event_stream_reports_a_gap_before_the_oldest_history() {
    let folder = tempfile::tempdir().expect("a folder");
    let history = open(&folder);
    let hub = EventHub::start(HubConfig::default(), Some(Arc::clone(&history)), 100).expect("starts");
    hub.publish(100, Kind::NodePoolUpsert, pool("a"));
    settled(&hub, 100).await;
    assert_eq!(read_until(&hub, Start::After(3), r#""Index":100"#).await, r#"{} {"Index":0,"Gap":{"Oldest":100}} 100"#);
    hub.publish(101, Kind::NodePoolUpsert, pool("b"));
    drop(hub);
    history.forget_before(101).expect("forgets");
    let hub = EventHub::start(HubConfig::default(), Some(history), 102).expect("starts");
    assert_eq!(
        read_until(&hub, Start::After(99), "CaughtUp").await,
        r#"{} {"Index":0,"Gap":{"Oldest":101}} 101 {"Index":101,"CaughtUp":true}"#
    );
}

#[tokio::test]
async fn subscriber_older_than_the_tail_reads_the_history_and_misses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = HubConfig { tail_batches_max: 4, ..HubConfig::default() };
    let hub = EventHub::start(config, Some(open(&folder)), 2).expect("starts");
    for index in 2..300 {
        hub.publish(index, Kind::NodePoolUpsert, pool("a"));
    }
    settled(&hub, 299).await;
    let seen = read_until(&hub, Start::After(1), "\"Index\":299").await;
    let expected: String = (2..300).map(|index| format!(" {index}")).collect();
    assert_eq!(seen, format!("{{}}{expected}"));
}

#[tokio::test]
async fn slow_subscriber_gets_a_fell_behind_mark_and_every_event() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = HubConfig { tail_batches_max: 4, ..HubConfig::default() };
    let hub = EventHub::start(config, Some(open(&folder)), 2).expect("starts");
    let subscription = hub.subscribe(everything(), Format::Json, Dialect::Ours, Start::Now);
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let mut text = String::new();
    for _ in 0..2 {
        text.push_str(&String::from_utf8_lossy(&stream.next().await.expect("a piece").expect("a piece")));
    }
    for index in 2..50 {
        hub.publish(index, Kind::NodePoolUpsert, pool("a"));
    }
    while hub.history_last() < 49 {
        tokio::task::yield_now().await;
    }
    while !text.contains("\"Index\":49,\"CaughtUp\"") {
        text.push_str(&String::from_utf8_lossy(&stream.next().await.expect("a piece").expect("a piece")));
    }
    assert!(text.contains(r#"{"Index":1,"FellBehind":true}"#), "{text}");
    assert_eq!(text.matches("\"Events\"").count(), 48);
}

#[tokio::test]
async fn entries_without_events_advance_the_history_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = EventHub::start(HubConfig::default(), Some(open(&folder)), 2).expect("starts");
    hub.publish(2, Kind::NodePoolUpsert, pool("a"));
    hub.publish(3, Kind::NamespaceUpsert, Arc::default());
    assert!(hub.write_through(3, Duration::from_secs(10)).expect("syncs"));
    assert_eq!(hub.history_last(), 3);
}

#[test]
fn json_and_msgpack_events_hold_the_same_numbers() {
    // A quick decimal parser that is not exact loses the last digit of this number.
    let score = -0.388_217_496_636_581_95;
    let metrics = AllocMetric {
        allocation_time: Dur(7),
        scores: Some(Box::new([("binpack".into(), score)].into())),
        ..AllocMetric::default()
    };
    let alloc =
        Allocation { id: AllocId::from_bytes([1; 16]), metrics: Some(Arc::new(metrics)), ..Allocation::default() };
    let batch =
        Batch::encode(7, Kind::ApplyPlanResults, &[Change::Alloc { before: None, after: Some(Arc::new(alloc)) }]);
    let json: serde_json::Value = serde_json::from_slice(&batch.frames(Format::Json, Dialect::Ours)[0]).expect("JSON");
    let msgpack: serde_json::Value =
        rmp_serde::from_slice(&batch.frames(Format::Msgpack, Dialect::Ours)[0]).expect("msgpack");
    assert_eq!(msgpack, json);
    assert_eq!(json["Events"][0]["Payload"]["Allocation"]["Metrics"]["Scores"]["binpack"].as_f64(), Some(score));
}

/// A history that only counts. It is so quick that its writer reads the mark all the time.
#[derive(Default)]
struct Counted(Mutex<(u64, Vec<u64>)>);

impl History for Counted {
    fn append(&self, batches: &[Arc<Batch>], through: u64) -> Result<(), HistoryError> {
        let mut counted = self.0.lock();
        let known = counted.0;
        counted.1.extend(batches.iter().map(|batch| batch.index).filter(|index| *index > known));
        counted.0 = through.max(known);
        Ok(())
    }

    fn sync(&self) -> Result<(), HistoryError> {
        Ok(())
    }

    fn read(&self, _after: u64, _bytes_max: usize) -> Result<Vec<Block>, HistoryError> {
        Ok(Vec::new())
    }

    fn oldest(&self) -> u64 {
        1
    }

    fn last(&self) -> u64 {
        self.0.lock().0
    }

    fn reset(&self, _first_index: u64) -> Result<(), HistoryError> {
        Ok(())
    }

    fn forget_before(&self, _index: u64) -> Result<(), HistoryError> {
        Ok(())
    }
}

#[test]
fn history_misses_no_entry_when_writer_and_encoder_interleave() {
    const ENTRIES: u64 = 100_000;
    let history = Arc::new(Counted::default());
    let hub = EventHub::start(HubConfig::default(), Some(Arc::clone(&history) as Arc<dyn History>), 1).expect("starts");
    for index in 1..=ENTRIES {
        hub.publish(index, Kind::NodePoolUpsert, pool("a"));
        // The publisher never runs far ahead, so the history's thread takes entries one by one and reads the mark
        // between any two.
        while hub.settled() + 2 < index {
            std::hint::spin_loop();
        }
    }
    assert!(hub.write_through(ENTRIES, Duration::from_secs(60)).expect("syncs"));
    hub.close();
    let written = history.0.lock().1.clone();
    let missing: Vec<_> = (1..=ENTRIES).filter(|index| written.binary_search(index).is_err()).collect();
    assert!(missing.is_empty(), "{} are missing: {:?}", missing.len(), &missing[..missing.len().min(10)]);
}

#[tokio::test]
async fn archive_restore_ends_streams_and_restarts_the_event_history() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = EventHub::start(HubConfig::default(), Some(open(&folder)), 2).expect("starts");
    hub.publish(2, Kind::NodePoolUpsert, pool("a"));
    let before = hub.subscribe(everything(), Format::Json, Dialect::Ours, Start::After(1));
    hub.publish(3, Kind::Restore, Arc::new(vec![Change::Restored]));
    let ended: Vec<_> = before.into_stream(CancellationToken::new()).collect().await;
    assert!(ended.len() <= 4, "{ended:?}");
    let last = ended.last().and_then(|piece| piece.as_ref().ok()).expect("a stream says why it ends");
    assert!(String::from_utf8_lossy(last).contains("\"Closed\""), "{ended:?}");
    hub.publish(4, Kind::NodePoolUpsert, pool("b"));
    settled(&hub, 4).await;
    assert_eq!(read_until(&hub, Start::After(1), r#""Index":4"#).await, r#"{} {"Index":0,"Gap":{"Oldest":4}} 4"#);
}
