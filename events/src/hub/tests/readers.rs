//! Stories of single subscribers: filters, full streams, snapshots, marks, permits, and subscribers that pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use expect_test::{Expect, expect};
use songline_commands::Kind;
use songline_model::{Job, JobStatus, Namespace, Node, NodeId, NodePool};
use songline_projections::{Change, State};
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::{everything, open, pool, settled};
use crate::entry::{AppliedEntry, Ending};
use crate::hub::tail::Tail;
use crate::hub::{Batch, Dialect, EventHub, Expression, Format, HubConfig, Interest, Permit, Start, Subscription};
use crate::refill::{Reached, Refill as _};

fn namespace(name: &str, gone: bool) -> Arc<Vec<Change>> {
    let row = Some(Arc::new(Namespace { name: name.into(), ..Namespace::default() }));
    Arc::new(vec![if gone {
        Change::Namespace { before: row, after: None }
    } else {
        Change::Namespace { before: None, after: row }
    }])
}

fn job(id: &str, priority: i64) -> Arc<Job> {
    Arc::new(Job { id: id.into(), namespace: "default".into(), priority, status: JobStatus::Running, ..Job::default() })
}

/// A hub that begins at index 2, without a history.
fn hub() -> Arc<EventHub> {
    EventHub::start(HubConfig::default(), None, 2).expect("starts")
}

/// Checks what a subscriber in our dialects gets until it has caught up. An event shows as its index, type and key, a
/// mark as its JSON.
async fn check(subscription: Subscription, expected: Expect) {
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let mut out = String::new();
    while !out.contains("CaughtUp") && !out.contains("Closed") {
        let piece = stream.next().await.expect("the stream goes on").expect("a piece");
        out.push_str(&lines(&piece));
    }
    expected.assert_eq(&out);
}

fn lines(piece: &[u8]) -> String {
    let frames = String::from_utf8_lossy(piece).into_owned();
    let frames = frames.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let line = |frame: serde_json::Value| match frame["Events"].as_array() {
        None => format!("{frame}\n"),
        Some(events) => {
            let told = events.iter().map(|event| {
                let gone = if event["Payload"]["Deleted"] == true { " gone" } else { "" };
                format!("{} {} {}{gone}", event["Topic"], event["Type"], event["Key"]).replace('"', "")
            });
            format!("{}: {}\n", frame["Index"], told.collect::<Vec<_>>().join(", "))
        }
    };
    frames.map(line).collect()
}

async fn a_mixed_past() -> Arc<EventHub> {
    let hub = hub();
    hub.publish(2, Kind::NodePoolUpsert, pool("a"));
    hub.publish(3, Kind::NamespaceUpsert, namespace("n", false));
    let node = Some(Arc::new(Node { id: NodeId::from_bytes([7; 16]), ..Node::default() }));
    hub.publish(
        4,
        Kind::NodeUpdateEligibility,
        Arc::new(vec![Change::Node { before: node.clone(), after: node.clone() }]),
    );
    let (before, after) = (Some(job("web", 50)), Some(job("web", 70)));
    hub.publish(5, Kind::JobRegister, Arc::new(vec![Change::Job { before: before.clone(), after: after.clone() }]));
    hub.publish(6, Kind::JobStability, Arc::new(vec![Change::Job { before, after: after.clone() }]));
    hub.publish(7, Kind::JobDeregister, Arc::new(vec![Change::Job { before: after, after: None }]));
    hub.publish(8, Kind::NodeBatchDeregister, Arc::new(vec![Change::Node { before: node, after: None }]));
    hub.publish(9, Kind::NamespaceDelete, namespace("n", true));
    settled(&hub, 9).await;
    hub
}

#[tokio::test]
async fn full_stream_shows_events_that_the_reference_omits() {
    let hub = a_mixed_past().await;
    check(
        hub.subscribe(everything(), Format::Json, Dialect::Full, Start::After(1)),
        expect![[r#"
            {}
            2: NodePool NodePoolUpserted a
            3: Namespace NamespaceUpserted n
            4: Node NodeEligibility 07070707-0707-0707-0707-070707070707
            5: Job JobRegistered web
            6: Job JobStability web
            7: Job JobDeregistered web gone
            8: Node NodeDeregistration 07070707-0707-0707-0707-070707070707 gone
            9: Namespace NamespaceDeleted n gone
            {"Index":9,"CaughtUp":true}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn stream_without_full_shows_only_events_of_the_reference() {
    let hub = a_mixed_past().await;
    check(
        hub.subscribe(everything(), Format::Json, Dialect::Ours, Start::After(1)),
        expect![[r#"
            {}
            2: NodePool NodePoolUpserted a
            4: Node NodeDrain 07070707-0707-0707-0707-070707070707
            5: Job JobRegistered web
            {"Index":9,"CaughtUp":true}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn plain_backlog_counts_only_entries_with_plain_events() {
    let hub = a_mixed_past().await;
    let subscription = hub.subscribe(everything(), Format::Json, Dialect::Plain, Start::Plain(99));
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    stream.next().await;
    let piece = stream.next().await.expect("goes on").expect("a piece");
    expect![[r#"
        5: Job JobRegistered web
    "#]]
    .assert_eq(&lines(&piece));
}

#[tokio::test]
async fn stream_from_the_oldest_entry_in_memory_begins_before_the_backlog_of_plain_streams() {
    let hub = EventHub::start(HubConfig { backlog_frames: 1, ..HubConfig::default() }, None, 2).expect("starts");
    hub.publish(2, Kind::NamespaceUpsert, namespace("n", false));
    hub.publish(3, Kind::NodePoolUpsert, pool("a"));
    hub.publish(4, Kind::NodePoolUpsert, pool("b"));
    settled(&hub, 4).await;
    check(
        hub.subscribe(everything(), Format::Json, Dialect::Full, Start::Oldest),
        expect![[r#"
            {}
            2: Namespace NamespaceUpserted n
            3: NodePool NodePoolUpserted a
            4: NodePool NodePoolUpserted b
            {"Index":4,"CaughtUp":true}
        "#]],
    )
    .await;
    let subscription = hub.subscribe(everything(), Format::Json, Dialect::Plain, Start::Plain(0));
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    assert_eq!(next_text(&mut stream).await, "{}\n");
    assert_eq!(lines(next_text(&mut stream).await.as_bytes()), "4: NodePool NodePoolUpserted b\n");
}

#[tokio::test]
async fn history_gives_the_same_frames_as_the_tail() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = HubConfig { tail_batches_max: 1, ..HubConfig::default() };
    let hub = EventHub::start(config, Some(open(&folder)), 2).expect("starts");
    let live = a_mixed_past().await;
    hub.publish(2, Kind::NodePoolUpsert, pool("a"));
    hub.publish(3, Kind::NamespaceUpsert, namespace("n", false));
    let node = Some(Arc::new(Node { id: NodeId::from_bytes([7; 16]), ..Node::default() }));
    hub.publish(
        4,
        Kind::NodeUpdateEligibility,
        Arc::new(vec![Change::Node { before: node.clone(), after: node.clone() }]),
    );
    hub.publish(
        5,
        Kind::JobRegister,
        Arc::new(vec![Change::Job { before: Some(job("web", 50)), after: Some(job("web", 70)) }]),
    );
    assert!(hub.write_through(5, Duration::from_secs(60)).expect("writes"));
    for format in [Format::Json, Format::Msgpack] {
        for dialect in [Dialect::Plain, Dialect::Ours, Dialect::Full] {
            let from_history = first_frames(&hub, format, dialect).await;
            let from_tail = first_frames(&live, format, dialect).await;
            assert_eq!(from_history, from_tail, "{format:?} {dialect:?}");
        }
    }
}

#[test]
fn frames_of_an_entry_stay_the_same_once_they_are_no_longer_shared() {
    let wide = NodePool { name: "a".into(), description: "b".repeat(3 << 20).into(), ..NodePool::default() };
    let change = |index| {
        let changes = [Change::NodePool { before: None, after: Some(Arc::new(wide.clone())) }];
        Arc::new(Batch::encode(index, Kind::NodePoolUpsert, &changes))
    };
    let told = |batch: &Batch| {
        let all = [Format::Json, Format::Msgpack].map(|format| batch.frames(format, Dialect::Ours));
        let filtered = batch.shared_frames(1, || batch.frames_of(Format::Json, Dialect::Ours, |_| true));
        (all, filtered)
    };
    let mut tail = Tail::new(0);
    let oldest = change(1);
    let before = told(&oldest);
    tail.push(Arc::clone(&oldest), &HubConfig::default());
    assert!(oldest.is_shared());
    // With the third one the newest entries have more bytes than those for which frames are kept.
    for index in 2..=3 {
        tail.push(change(index), &HubConfig::default());
    }
    assert!(!oldest.is_shared());
    assert_eq!(told(&oldest), before);
    assert!(!oldest.is_shared());
    // An entry that the tail drops while it is new.
    let one = HubConfig { tail_batches_max: 1, ..HubConfig::default() };
    for index in 4..=9 {
        tail.push(change(index), &one);
    }
    assert_eq!(tail.complete_after(), 8);
}

/// The bytes of the entries 2 to 5.
async fn first_frames(hub: &Arc<EventHub>, format: Format, dialect: Dialect) -> Vec<u8> {
    let subscription = hub.subscribe(everything(), format, dialect, Start::After(1));
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    stream.next().await;
    let end: &[u8] = match format {
        Format::Json => b"\"Index\":5}\n",
        Format::Msgpack => b"\xa5Index\xcf\0\0\0\0\0\0\0\x05",
    };
    let mut out = Vec::new();
    loop {
        if let Some(at) = out.windows(end.len()).position(|window| window == end) {
            out.truncate(at + end.len());
            return out;
        }
        out.extend_from_slice(&stream.next().await.expect("goes on").expect("a piece"));
    }
}

#[tokio::test]
async fn event_filter_can_test_every_part_of_an_event() {
    let hub = a_mixed_past().await;
    for (text, expected) in [
        (
            "Topic == Job and Payload.Job.Priority == 70",
            expect![[r#"
            {}
            5: Job JobRegistered web
            6: Job JobStability web
            7: Job JobDeregistered web gone
            {"Index":9,"CaughtUp":true}
        "#]],
        ),
        (
            r#"Type matches "^Namespace" or Index == 4"#,
            expect![[r#"
            {}
            3: Namespace NamespaceUpserted n
            4: Node NodeEligibility 07070707-0707-0707-0707-070707070707
            9: Namespace NamespaceDeleted n gone
            {"Index":9,"CaughtUp":true}
        "#]],
        ),
        (
            "Payload.Job.Status != dead",
            expect![[r#"
            {}
            5: Job JobRegistered web
            6: Job JobStability web
            7: Job JobDeregistered web gone
            {"Index":9,"CaughtUp":true}
        "#]],
        ),
        (
            "Payload.Deleted == true and Namespace == default",
            expect![[r#"
            {}
            7: Job JobDeregistered web gone
            {"Index":9,"CaughtUp":true}
        "#]],
        ),
    ] {
        let expression = Some(Expression::parse(text).expect("compiles"));
        let interest = everything().with_expression(expression);
        check(hub.subscribe(interest, Format::Json, Dialect::Full, Start::After(1)), expected).await;
    }
}

#[test]
fn invalid_event_filter_is_refused_with_its_position() {
    for (text, expected) in [
        (
            "Topic == ",
            expect![[r#"1:10 (9): no match found, expected: "-", "0", "\"", "`", [ \t\r\n], [1-9] or [a-zA-Z]"#]],
        ),
        (
            "Topic == Job and\n  Colour == red",
            expect![[
                r#"2:3 (19): events have no field "Colour"; they have Topic, Type, Key, Namespace, Index, FilterKeys, Payload"#
            ]],
        ),
        (
            r#"Key matches "(""#,
            expect![[
                r#"1:14 (13): regular expression "(" does not compile: error parsing regexp: missing closing ): `(`"#
            ]],
        ),
    ] {
        expected.assert_eq(&Expression::parse(text).expect_err("does not compile").to_string());
    }
}

#[tokio::test]
async fn snapshot_events_precede_later_events() {
    let hub = hub();
    hub.publish(2, Kind::NodePoolUpsert, pool("a"));
    let mut view = State::new();
    // The view already holds the change at index 2.
    songline_projections::pass(&mut view, 2);
    hub.publish(3, Kind::NodePoolUpsert, pool("b"));
    settled(&hub, 3).await;
    let view = Arc::new(view);
    for (topic, dialect, expected) in [
        (
            "NodePool",
            Dialect::Ours,
            expect![[r#"
            {}
            2: NodePool Snapshot all, NodePool Snapshot default
            3: NodePool NodePoolUpserted b
            {"Index":3,"CaughtUp":true}
        "#]],
        ),
        (
            "NodePool:default",
            Dialect::Ours,
            expect![[r#"
            {}
            2: NodePool Snapshot default
            {"Index":3,"CaughtUp":true}
        "#]],
        ),
        (
            "Namespace",
            Dialect::Ours,
            expect![[r#"
            {}
            {"Index":3,"CaughtUp":true}
        "#]],
        ),
        (
            "*",
            Dialect::Full,
            expect![[r#"
            {}
            2: NodePool Snapshot all, NodePool Snapshot default, Namespace Snapshot default
            3: NodePool NodePoolUpserted b
            {"Index":3,"CaughtUp":true}
        "#]],
        ),
    ] {
        let interest = Interest::parse("*", [topic.into()].into_iter()).expect("is valid");
        check(hub.subscribe(interest, Format::Json, dialect, Start::Now).beginning_with(Arc::clone(&view)), expected)
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn event_stream_without_matches_sends_checkpoints() {
    let hub = hub();
    let interest = Interest::parse("default", ["Job".into()].into_iter()).expect("is valid");
    let subscription = hub.subscribe(interest, Format::Json, Dialect::Ours, Start::Now);
    let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
    let mut seen = String::new();
    for _ in 0..2 {
        seen.push_str(&lines(&stream.next().await.expect("goes on").expect("a piece")));
    }
    for index in 2..40 {
        hub.publish(index, Kind::NodePoolUpsert, pool("a"));
        settled(&hub, index).await;
        tokio::time::advance(Duration::from_secs(1)).await;
        // Waits only briefly: this stream shows no event of a node pool.
        if let Ok(Some(piece)) = tokio::time::timeout(Duration::from_millis(1), stream.next()).await {
            seen.push_str(&lines(&piece.expect("a piece")));
        }
    }
    let checkpoints: Vec<u64> = seen
        .lines()
        .filter_map(|line| {
            serde_json::from_str::<serde_json::Value>(line).ok().filter(|mark| mark["Checkpoint"] == true)
        })
        .filter_map(|mark| mark["Index"].as_u64())
        .collect();
    assert_eq!(checkpoints.len(), 3, "{seen}");
    assert!(checkpoints.is_sorted() && checkpoints[0] > 1, "{seen}");
}

struct Lapsing(AtomicBool);

impl Permit for Lapsing {
    fn refusal(&self) -> Option<String> {
        self.0.load(Ordering::Acquire).then(|| "ACL token expired".to_owned())
    }
}

#[tokio::test]
async fn lapsed_permit_ends_the_stream_before_the_next_event() {
    for (dialect, expected) in
        [(Dialect::Plain, "ACL token expired"), (Dialect::Ours, "{\"Index\":2,\"Closed\":\"ACL token expired\"}\n")]
    {
        let hub = hub();
        let permit = Arc::new(Lapsing(AtomicBool::new(false)));
        let subscription = hub
            .subscribe(everything(), Format::Json, dialect, Start::After(1))
            .permitted_by(Arc::clone(&permit) as Arc<dyn Permit>);
        let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
        hub.publish(2, Kind::NodePoolUpsert, pool("a"));
        settled(&hub, 2).await;
        let mut seen = next_text(&mut stream).await;
        seen.push_str(&next_text(&mut stream).await);
        assert!(seen.contains("\"Index\":2"), "{seen}");
        permit.0.store(true, Ordering::Release);
        hub.publish(3, Kind::NodePoolUpsert, pool("b"));
        assert_eq!(next_text(&mut stream).await, expected);
        assert!(stream.next().await.is_none());
    }
}

async fn next_text(stream: &mut (impl Stream<Item = Result<bytes::Bytes, std::io::Error>> + Unpin)) -> String {
    String::from_utf8_lossy(&stream.next().await.expect("goes on").expect("a piece")).into_owned()
}

#[tokio::test]
async fn paused_subscriber_catches_up_from_the_history_and_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = HubConfig { tail_batches_max: 8, ..HubConfig::default() };
    let hub = EventHub::start(config, Some(open(&folder)), 1).expect("starts");
    for format in [Format::Json, Format::Msgpack] {
        let begin = hub.settled();
        let subscription = hub.subscribe(everything(), format, Dialect::Ours, Start::Now);
        let mut stream = std::pin::pin!(subscription.into_stream(CancellationToken::new()));
        let (mut bytes, mut last) = (Vec::new(), begin);
        // Ten times the subscriber keeps up for a while, then sleeps while more entries come than the tail holds.
        for round in 0..10_u64 {
            for index in last + 1..=last + 5 {
                hub.publish(index, Kind::NodePoolUpsert, pool("live"));
                settled(&hub, index).await;
                read_up_to(&mut stream, &mut bytes, format, index).await;
            }
            last += 5;
            let many = 20 + round * 40;
            for index in last + 1..=last + many {
                hub.publish(index, Kind::NodePoolUpsert, pool("missed"));
            }
            last += many;
            settled(&hub, last).await;
            read_up_to(&mut stream, &mut bytes, format, last).await;
        }
        let indexes = indexes_of(&bytes, format);
        assert_eq!(indexes, (begin + 1..=last).collect::<Vec<_>>(), "{format:?}");
    }
}

async fn read_up_to(
    stream: &mut (impl Stream<Item = Result<bytes::Bytes, std::io::Error>> + Unpin),
    bytes: &mut Vec<u8>,
    format: Format,
    index: u64,
) {
    while indexes_of(bytes, format).last().is_none_or(|last| *last < index) {
        bytes.extend_from_slice(&stream.next().await.expect("goes on").expect("a piece"));
    }
}

/// Indexes of the frames that have events.
fn indexes_of(bytes: &[u8], format: Format) -> Vec<u64> {
    let mut frames: Vec<serde_json::Value> = Vec::new();
    match format {
        Format::Json => {
            frames.extend(bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()))
        }
        Format::Msgpack => {
            let mut rest = bytes;
            while !rest.is_empty() {
                frames.push(rmp_serde::from_read(&mut rest).expect("msgpack"));
            }
        }
    }
    frames.iter().filter(|frame| frame["Events"].is_array()).filter_map(|frame| frame["Index"].as_u64()).collect()
}

#[tokio::test]
async fn refilled_history_is_read_from_its_new_oldest_entry() {
    let folder = tempfile::tempdir().expect("a folder");
    let history = Arc::new(crate::hub::StoredHistory::open(folder.path()).expect("opens"));
    let hub = EventHub::start(HubConfig::default(), Some(Arc::clone(&history) as Arc<dyn crate::hub::History>), 100)
        .expect("starts");
    hub.publish(100, Kind::NodePoolUpsert, pool("a"));
    settled(&hub, 100).await;
    let mut filling = history.filling().expect("is told");
    history.begin_at(&mut filling, 2).expect("begins");
    for index in 2..100 {
        let (at, changes) = (songline_model::Time::from_secs(1), pool("old"));
        let entry = AppliedEntry { index, at, kind: Kind::NodePoolUpsert, ending: Ending::Done, changes };
        assert!(history.fill(&mut filling, &[entry], Reached { index, raft_index: index }).expect("fills"));
    }
    assert!(super::read_until(&hub, Start::After(1), "\"Index\":100").await.contains(r#"{"Oldest":100}"#));
    assert!(history.end(&filling).expect("is told"));
    let expected: String = (2..=100).map(|index| format!(" {index}")).collect();
    assert_eq!(super::read_until(&hub, Start::After(1), "\"Index\":100").await, format!("{{}}{expected}"));
}
