//! Stories of subscribers that move from one server to another: the entries are the same, the progress of the servers
//! differs.

use std::sync::Arc;

use songline_commands::Kind;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{everything, open, pool, read_until, settled};
use crate::hub::{Dialect, EventHub, Format, HubConfig, Start};

/// A server that has applied entries up to `last`.
fn server(folder: &tempfile::TempDir, last: u64) -> Arc<EventHub> {
    let hub = EventHub::start(HubConfig::default(), Some(open(folder)), 2).expect("starts");
    (2..=last).for_each(|index| hub.publish(index, Kind::NodePoolUpsert, pool("a")));
    hub
}

#[tokio::test]
async fn subscriber_continues_at_another_server_without_gap_or_repeat() {
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let (first, second) = (server(&folders[0], 6), server(&folders[1], 9));
    settled(&first, 6).await;
    assert_eq!(read_until(&first, Start::After(1), "CaughtUp").await, r#"{} 2 3 4 5 6 {"Index":6,"CaughtUp":true}"#);
    drop(first);
    settled(&second, 9).await;
    assert_eq!(read_until(&second, Start::After(6), "CaughtUp").await, r#"{} 7 8 9 {"Index":9,"CaughtUp":true}"#);
}

#[tokio::test]
async fn server_behind_a_subscribers_cursor_sends_no_events_until_it_catches_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let behind = server(&folder, 3);
    settled(&behind, 3).await;
    let subscription = behind.subscribe(everything(), Format::Json, Dialect::Ours, Start::After(6));
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let mut next = async || {
        let piece = stream.next().await.expect("goes on").expect("a piece");
        let first = String::from_utf8_lossy(&piece).lines().next().unwrap_or_default().to_owned();
        let frame: serde_json::Value = serde_json::from_str(&first).expect("JSON");
        frame.get("Events").map_or_else(|| frame.to_string(), |_| frame["Index"].to_string())
    };
    assert_eq!(next().await, "{}");
    for index in 4..=8 {
        behind.publish(index, Kind::NodePoolUpsert, pool("a"));
    }
    // Between two entries this server may reach the subscriber's cursor, and then sends a caught-up mark.
    let mut said = next().await;
    while said.contains("CaughtUp") {
        said = next().await;
    }
    assert_eq!(said, "7", "what the reader has seen elsewhere is not told again");
}

#[tokio::test]
async fn state_received_from_another_server_ends_streams_and_leaves_a_gap() {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = server(&folder, 3);
    settled(&hub, 3).await;
    let subscription = hub.subscribe(everything(), Format::Json, Dialect::Ours, Start::After(3));
    hub.begin_after(50);
    let pieces: Vec<_> = subscription.into_stream(CancellationToken::new()).collect().await;
    let last = String::from_utf8_lossy(pieces.last().expect("an end").as_ref().expect("a piece")).into_owned();
    assert!(last.starts_with(r#"{"Index":3,"Closed":"#), "{last}");
    hub.publish(51, Kind::NodePoolUpsert, pool("a"));
    settled(&hub, 51).await;
    assert_eq!(
        read_until(&hub, Start::After(3), "CaughtUp").await,
        r#"{} {"Index":0,"Gap":{"Oldest":51}} 51 {"Index":51,"CaughtUp":true}"#
    );
}

/// The clock stands still until every task waits, then moves to the next timer: a wake-up that is missed shows as a
/// checkpoint mark before the caught-up mark.
#[tokio::test(start_paused = true)]
async fn subscriber_ahead_of_its_server_is_woken_by_an_entry_without_events() {
    let hub = EventHub::start(HubConfig::default(), None, 2).expect("starts");
    let subscription = hub.subscribe(everything(), Format::Json, Dialect::Ours, Start::After(3));
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let first = stream.next().await.expect("goes on").expect("a piece");
    assert_eq!(&first[..], b"{}\n");
    let reader = async { stream.next().await.expect("goes on").expect("a piece") };
    let server = async {
        while hub.shared.ahead.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        // By now the reader has looked again and waits.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        hub.pass(3);
    };
    let (said, ()) = tokio::join!(reader, server);
    assert_eq!(String::from_utf8_lossy(&said), "{\"Index\":3,\"CaughtUp\":true}\n");
}
