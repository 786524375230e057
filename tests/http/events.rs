//! The event stream over HTTP: results and refusals of its parameters, in JSON and in msgpack.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::http::{self, Connection, Request};
use crate::job::{line, pack};
use crate::story::{Story, WITHIN};

/// The frames of a stream up to one that `is_last`.
fn frames(story: &Story, query: &str, msgpack: bool, is_last: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
    let accept = if msgpack { "application/msgpack" } else { "application/json" };
    let mut stream = story.subscribe(query, accept)?;
    frames_of(&mut stream, msgpack, is_last)
}

fn frames_of(stream: &mut Connection, msgpack: bool, is_last: impl Fn(&Value) -> bool) -> Result<Vec<Value>> {
    let (mut bytes, mut found) = (Vec::new(), Vec::new());
    let deadline = Instant::now() + WITHIN;
    loop {
        bytes.extend_from_slice(&stream.read_some(deadline)?.context("the stream ended")?);
        let mut used = 0;
        while let Some((frame, length)) = if msgpack { pack(&bytes[used..])? } else { line(&bytes[used..])? } {
            used += length;
            let last = is_last(&frame);
            found.push(frame);
            if last {
                return Ok(found);
            }
        }
        bytes.drain(..used);
    }
}

fn has_caught_up(frame: &Value) -> bool {
    frame["CaughtUp"] == true
}

/// Topic, type and key of all events.
fn told(frames: &[Value]) -> Vec<String> {
    let events = frames.iter().flat_map(|frame| frame["Events"].as_array().into_iter().flatten());
    events.map(|event| format!("{} {} {}", event["Topic"], event["Type"], event["Key"]).replace('"', "")).collect()
}

fn check_refused(story: &Story, query: &str, expected: Expect) -> Result<()> {
    let request = Request::new("GET", &format!("/v1/event/stream?{query}"));
    let mut connection = Connection::open(story.http(), Instant::now() + WITHIN)?;
    let head = connection.send(&request, Instant::now() + WITHIN)?;
    let mut text = format!("{} ", head.status);
    if head.status != 200 {
        let answer = http::call(story.http(), &request, Instant::now() + WITHIN)?;
        text.push_str(&answer.text());
    }
    expected.assert_eq(&text);
    Ok(())
}

#[test]
fn event_stream_honours_its_parameters() -> Result<()> {
    let story = Story::begin()?;
    story.wait("/v1/nodes", |nodes| nodes[0]["Status"] == "ready")?;
    story.put("/v1/namespace", &json!({"Name": "team"}))?;
    story.put("/v1/node/pools", &json!({"Name": "gpu", "Description": "fast \"ones\"\n"}))?;
    story.put("/v1/node/pools", &json!({"Name": "slow"}))?;

    // Both formats hold the same tree, and the plain events are a prefix of the full ones.
    for query in ["after_index=0&namespace=*", "after_index=0&namespace=*&full=true"] {
        // An event between two reads is in one of them only, so the reads before and after must agree.
        let (as_json, as_msgpack) = loop {
            let before = frames(&story, query, false, has_caught_up)?;
            let as_msgpack = frames(&story, query, true, has_caught_up)?;
            if told(&before) == told(&frames(&story, query, false, has_caught_up)?) {
                break (before, as_msgpack);
            }
        };
        ensure!(
            told(&as_json) == told(&as_msgpack) && as_json[..as_json.len() - 1] == as_msgpack[..as_json.len() - 1],
            "{query}"
        );
        let namespaces = told(&as_json).iter().filter(|text| *text == "Namespace NamespaceUpserted team").count();
        ensure!(namespaces == usize::from(query.contains("full")), "{query}: {:?}", told(&as_json));
    }

    let filtered = frames(&story, "after_index=0&filter=Payload.NodePool.Name%20%3D%3D%20gpu", false, has_caught_up)?;
    ensure!(told(&filtered) == ["NodePool NodePoolUpserted gpu"], "{:?}", told(&filtered));

    // A snapshot, and the events after it.
    let mut stream = story.subscribe("snapshot=true&topic=NodePool&topic=Namespace&full=true", "application/json")?;
    let snapshot = frames_of(&mut stream, false, has_caught_up)?;
    let expected = ["all", "default", "gpu", "slow"].map(|name| format!("NodePool Snapshot {name}"));
    let expected =
        [expected.as_slice(), &["default", "team"].map(|name| format!("Namespace Snapshot {name}"))].concat();
    ensure!(told(&snapshot) == expected, "{:?}", told(&snapshot));
    let mut indexes: Vec<&Value> =
        snapshot.iter().filter(|frame| frame["Events"].is_array()).map(|frame| &frame["Index"]).collect();
    indexes.dedup();
    ensure!(indexes.len() == 1, "{indexes:?}");
    story.call(&Request::new("DELETE", "/v1/node/pool/slow"))?;
    let live = frames_of(&mut stream, false, |frame| frame["Events"].is_array())?;
    ensure!(
        told(&live) == ["NodePool NodePoolDeleted slow"] && live[0]["Events"][0]["Payload"]["Deleted"] == true,
        "{live:?}"
    );

    for (query, expected) in [
        ("from=xyz", expect!["400 Expect `now` for `from` query string parameter, got xyz"]),
        (
            "snapshot=maybe",
            expect![[r#"400 Expect `true` or `false` for `snapshot` query string parameter, got "maybe""#]],
        ),
        ("full=2", expect![[r#"400 Expect `true` or `false` for `full` query string parameter, got "2""#]]),
        (
            "after_index=x",
            expect![[
                r#"400 Expect a number from 0 to 18446744073709551615 for `after_index` query string parameter, got "x""#
            ]],
        ),
        (
            "filter=Topic%20%3D%3D",
            expect![[
                r#"400 failed to read filter expression: 1:9 (8): no match found, expected: "-", "0", "\"", "`", [ \t\r\n], [1-9] or [a-zA-Z]"#
            ]],
        ),
        (
            "filter=Colour%20%3D%3D%20red",
            expect![[
                r#"400 failed to read filter expression: 1:1 (0): events have no field "Colour"; they have Topic, Type, Key, Namespace, Index, FilterKeys, Payload"#
            ]],
        ),
        (
            "filter=Key%20matches%20%22(%22",
            expect![[
                r#"400 failed to read filter expression: 1:14 (13): regular expression "(" does not compile: error parsing regexp: missing closing ): `(`"#
            ]],
        ),
        (
            "snapshot=true&after_index=4",
            expect!["400 after_index and snapshot both say where the stream begins: give one of them"],
        ),
        ("snapshot=true&from=now", expect!["200 "]),
        ("full=false", expect!["200 "]),
    ] {
        check_refused(&story, query, expected)?;
    }
    Ok(())
}
