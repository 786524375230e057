//! Stories of streams that are refused at any moment: the index of the closing mark is never beyond the frames that
//! were sent, so that a subscriber which resumes with it misses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use songline_commands::Kind;
use songline_projections::State;
use tokio_stream::StreamExt;
use tokio_util::sync::CancellationToken;

use super::{everything, open, pool, settled};
use crate::hub::{Dialect, EventHub, Format, HubConfig, Permit, Start, Subscription};

/// A permit that refuses after this many checks.
struct Checks(AtomicU32);

impl Permit for Checks {
    fn refusal(&self) -> Option<String> {
        let used_up = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)).is_err();
        used_up.then(|| "ACL token expired".to_owned())
    }
}

/// A stream in JSON and our dialect from `start` on, whose permit refuses after `checks` checks.
fn subscribe(hub: &Arc<EventHub>, start: Start, checks: u32) -> Subscription {
    hub.subscribe(everything(), Format::Json, Dialect::Ours, start)
        .permitted_by(Arc::new(Checks(AtomicU32::new(checks))))
}

/// Frames of a stream until it is closed or has caught up.
async fn frames(subscription: Subscription) -> Vec<serde_json::Value> {
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let mut out: Vec<serde_json::Value> = Vec::new();
    while out.last().is_none_or(|last| last["CaughtUp"] != true) {
        let Some(piece) = stream.next().await else { break };
        for line in String::from_utf8_lossy(&piece.expect("a piece")).lines() {
            out.push(serde_json::from_str(line).expect("JSON"));
        }
    }
    out
}

/// Same as [`frames`], as text: the index of frames with events, and marks as JSON.
async fn brief(subscription: Subscription) -> String {
    let frames = frames(subscription).await;
    let word = |frame: &serde_json::Value| {
        if frame["Events"].is_array() { frame["Index"].to_string() } else { frame.to_string() }
    };
    let words = frames.iter().map(word);
    words.collect::<Vec<_>>().join(" ")
}

/// Reads the entries 2 to `last` with permits that refuse after 0, 1, 2, .. checks, until one lets the stream catch
/// up. Returns the different indexes of the closing marks.
async fn refuse_everywhere(hub: &Arc<EventHub>, last: u64) -> Vec<u64> {
    let mut closed_at = Vec::new();
    for checks in 0.. {
        let mut told = frames(subscribe(hub, Start::After(1), checks)).await;
        let end = told.pop().expect("a stream says why it ends");
        let sent: Vec<u64> = told
            .iter()
            .filter(|frame| frame["Events"].is_array())
            .filter_map(|frame| frame["Index"].as_u64())
            .collect();
        let reached = sent.last().copied().unwrap_or(1);
        assert_eq!(sent, (2..=reached).collect::<Vec<_>>(), "after {checks} checks");
        if end["CaughtUp"] == true {
            assert_eq!(reached, last);
            break;
        }
        assert_eq!(end["Index"], reached, "after {checks} checks: {end}");
        closed_at.push(reached);
    }
    closed_at.dedup();
    closed_at
}

#[tokio::test]
async fn stream_from_memory_that_is_refused_before_a_frame_is_closed_before_it() {
    let hub = EventHub::start(HubConfig::default(), None, 2).expect("starts");
    for index in 2..=200 {
        hub.publish(index, Kind::NodePoolUpsert, pool("a"));
    }
    settled(&hub, 200).await;
    // The tail is read in pieces of 64 entries.
    assert_eq!(refuse_everywhere(&hub, 200).await, [1, 65, 129, 193, 200]);
}

#[tokio::test]
async fn stream_from_the_history_that_is_refused_before_a_frame_is_closed_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = HubConfig { tail_batches_max: 4, ..HubConfig::default() };
    let hub = EventHub::start(config, Some(open(&folder)), 2).expect("starts");
    for index in 2..=1000 {
        hub.publish(index, Kind::NodePoolUpsert, pool("a"));
    }
    settled(&hub, 1000).await;
    assert!(hub.write_through(1000, Duration::from_secs(60)).expect("is written"));
    let closed_at = refuse_everywhere(&hub, 1000).await;
    assert!(closed_at.first() == Some(&1) && closed_at.last() == Some(&1000), "{closed_at:?}");
}

#[tokio::test]
async fn refused_gap_mark_leaves_the_cursor_before_the_gap() {
    let hub = EventHub::start(HubConfig::default(), None, 100).expect("starts");
    hub.publish(100, Kind::NodePoolUpsert, pool("a"));
    settled(&hub, 100).await;
    for (checks, expected) in [
        (0, r#"{"Index":3,"Closed":"ACL token expired"}"#),
        (1, r#"{} {"Index":3,"Closed":"ACL token expired"}"#),
        (2, r#"{} {"Index":0,"Gap":{"Oldest":100}} {"Index":99,"Closed":"ACL token expired"}"#),
        (3, r#"{} {"Index":0,"Gap":{"Oldest":100}} {"Index":99,"Closed":"ACL token expired"}"#),
        (4, r#"{} {"Index":0,"Gap":{"Oldest":100}} 100 {"Index":100,"Closed":"ACL token expired"}"#),
    ] {
        assert_eq!(brief(subscribe(&hub, Start::After(3), checks)).await, expected, "after {checks} checks");
    }
}

#[tokio::test]
async fn refused_snapshot_has_no_cursor_until_its_last_row_was_sent() {
    let hub = EventHub::start(HubConfig::default(), None, 2).expect("starts");
    let mut view = State::new();
    songline_projections::pass(&mut view, 2);
    hub.pass(2);
    hub.publish(3, Kind::NodePoolUpsert, pool("b"));
    settled(&hub, 3).await;
    let view = Arc::new(view);
    let mut told = Vec::new();
    for checks in 0..100 {
        let said = brief(subscribe(&hub, Start::Now, checks).beginning_with(Arc::clone(&view))).await;
        if told.last() != Some(&said) {
            told.push(said);
        }
    }
    assert_eq!(
        told,
        [
            r#"{"Index":0,"Closed":"ACL token expired"}"#,
            r#"{} {"Index":0,"Closed":"ACL token expired"}"#,
            r#"{} 2 {"Index":0,"Closed":"ACL token expired"}"#,
            r#"{} 2 {"Index":2,"Closed":"ACL token expired"}"#,
            r#"{} 2 3 {"Index":3,"Closed":"ACL token expired"}"#,
            r#"{} 2 3 {"Index":3,"CaughtUp":true}"#,
        ]
    );
}

#[tokio::test]
async fn msgpack_stream_of_the_plain_dialect_ends_with_a_map() {
    let hub = EventHub::start(HubConfig::default(), None, 2).expect("starts");
    hub.publish(2, Kind::NodePoolUpsert, pool("a"));
    settled(&hub, 2).await;
    // One check at the beginning, one before the frame, one after it.
    let subscription = hub
        .subscribe(everything(), Format::Msgpack, Dialect::Plain, Start::After(1))
        .permitted_by(Arc::new(Checks(AtomicU32::new(2))));
    let pieces: Vec<_> = subscription.into_stream(CancellationToken::new()).collect().await;
    let bytes: Vec<u8> = pieces.into_iter().flat_map(|piece| piece.expect("a piece")).collect();
    let (mut rest, mut frames) = (&bytes[..], Vec::<serde_json::Value>::new());
    while !rest.is_empty() {
        frames.push(rmp_serde::from_read(&mut rest).expect("msgpack"));
    }
    assert_eq!(frames.len(), 3, "{frames:?}");
    assert_eq!(frames[0], serde_json::json!({}));
    assert_eq!(frames[1]["Index"], 2);
    assert_eq!(frames[2], serde_json::json!({"Index": 2, "Closed": "ACL token expired"}));
}
