//! The event stream over HTTP.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use expect_test::expect;
use http_body_util::BodyExt;
use songline_api::{Agent, Reads};
use songline_commands::{UpdateEvals, UpsertNamespaces, UpsertNodePools};
use songline_model::{EvalId, EvalStatus, Evaluation, Namespace, NodePool};

use crate::server::{Memory, answer};

fn pool(name: &str) -> UpsertNodePools {
    UpsertNodePools { node_pools: vec![NodePool { name: name.into(), ..NodePool::default() }] }
}

pub(crate) fn eval(job: &str, namespace: &str) -> UpdateEvals {
    let id = EvalId::from_bytes([job.len() as u8; 16]);
    UpdateEvals {
        evals: vec![Evaluation { id, job_id: job.into(), namespace: namespace.into(), ..Evaluation::default() }],
    }
}

/// Reads a stream piece by piece.
pub(crate) struct Reader {
    body: Body,
    read: Vec<u8>,
}

impl Reader {
    pub(crate) fn new(response: Response<Body>) -> Self {
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), read: Vec::new() }
    }

    /// The next line; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            match self.body.frame().await {
                Some(frame) => self.read.extend_from_slice(&frame.expect("a frame").into_data().expect("data")),
                None if self.read.is_empty() => return None,
                None => return Some(String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()),
            }
        }
    }

    async fn lines(&mut self, count: usize) -> String {
        let mut out = String::new();
        for _ in 0..count {
            out.push_str(&brief(&self.line().await.expect("a line")));
            out.push('\n');
        }
        out
    }
}

/// A frame without payloads.
fn brief(line: &str) -> String {
    let Ok(mut frame) = serde_json::from_str::<serde_json::Value>(line) else {
        return line.to_owned();
    };
    for event in frame.get_mut("Events").and_then(|events| events.as_array_mut()).into_iter().flatten() {
        event.as_object_mut().expect("an object").shift_remove("Payload");
    }
    frame.to_string()
}

async fn subscribe(server: &Arc<Memory>, query: &str) -> Reader {
    Reader::new(answer(server, &format!("GET /v1/event/stream{query}")).await)
}

/// Waits until everything published so far can be read.
pub(crate) async fn settled(server: &Arc<Memory>) {
    let index = server.view().applied_index();
    while server.events().settled() < index {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn plain_event_stream_starts_with_a_heartbeat_and_the_buffered_events() {
    let server = Memory::new();
    server.run(pool("a"));
    server.run(pool("b"));
    settled(&server).await;
    let mut reader = subscribe(&server, "").await;
    let mut seen = reader.lines(3).await;
    server.run(pool("c"));
    seen.push_str(&reader.lines(1).await);
    expect![[r#"
        {}
        {"Events":[{"FilterKeys":null,"Index":2,"Key":"a","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":2}
        {"Events":[{"FilterKeys":null,"Index":3,"Key":"b","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":3}
        {"Events":[{"FilterKeys":null,"Index":4,"Key":"c","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":4}
    "#]]
    .assert_eq(&seen);
}

#[tokio::test]
async fn job_registration_is_two_frames_in_the_plain_dialect_and_one_in_ours() {
    let server = Memory::new();
    let job = r#"{"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "sleep"}}]}]}}"#;
    assert_eq!(answer(&server, &format!("PUT /v1/jobs {job}")).await.status(), 200);
    settled(&server).await;
    let mut seen = subscribe(&server, "").await.lines(3).await;
    seen.push_str(&subscribe(&server, "?after_index=1").await.lines(3).await);
    expect![[r#"
        {}
        {"Events":[{"FilterKeys":null,"Index":2,"Key":"web","Namespace":"default","Topic":"Job","Type":"JobRegistered"}],"Index":2}
        {"Events":[{"FilterKeys":["web",""],"Index":2,"Key":"00000000-0000-0001-8000-000000000001","Namespace":"default","Topic":"Evaluation","Type":"JobRegistered"}],"Index":2}
        {}
        {"Events":[{"FilterKeys":null,"Index":2,"Key":"web","Namespace":"default","Topic":"Job","Type":"JobRegistered"},{"FilterKeys":["web",""],"Index":2,"Key":"00000000-0000-0001-8000-000000000001","Namespace":"default","Topic":"Evaluation","Type":"JobRegistered"}],"Index":2}
        {"Index":2,"CaughtUp":true}
    "#]].assert_eq(&seen);
}

#[tokio::test]
async fn event_stream_filters_by_topic_key_and_namespace() {
    let server = Memory::new();
    server.run(UpsertNamespaces { namespaces: vec![Namespace { name: "dev".into(), ..Namespace::default() }] });
    server.run(pool("a"));
    server.run(eval("web", "default"));
    server.run(eval("batch", "default"));
    server.run(eval("dev-job", "dev"));
    settled(&server).await;
    let mut seen = String::new();
    for query in [
        "topic=Evaluation&after_index=1",
        "topic=Evaluation:web&after_index=1",
        "topic=Evaluation&namespace=dev&after_index=1",
        "topic=Evaluation:web&topic=NodePool&namespace=*&after_index=1",
        "topic=Nothing&after_index=1",
    ] {
        let mut reader = subscribe(&server, &format!("?{query}")).await;
        seen.push_str(&format!("{query}\n"));
        loop {
            let line = brief(&reader.line().await.expect("a line"));
            seen.push_str(&format!("    {line}\n"));
            if line.contains("CaughtUp") {
                break;
            }
        }
    }
    expect![[r#"
        topic=Evaluation&after_index=1
            {}
            {"Events":[{"FilterKeys":["web",""],"Index":4,"Key":"03030303-0303-0303-0303-030303030303","Namespace":"default","Topic":"Evaluation","Type":"EvaluationUpdated"}],"Index":4}
            {"Events":[{"FilterKeys":["batch",""],"Index":5,"Key":"05050505-0505-0505-0505-050505050505","Namespace":"default","Topic":"Evaluation","Type":"EvaluationUpdated"}],"Index":5}
            {"Index":6,"CaughtUp":true}
        topic=Evaluation:web&after_index=1
            {}
            {"Events":[{"FilterKeys":["web",""],"Index":4,"Key":"03030303-0303-0303-0303-030303030303","Namespace":"default","Topic":"Evaluation","Type":"EvaluationUpdated"}],"Index":4}
            {"Index":6,"CaughtUp":true}
        topic=Evaluation&namespace=dev&after_index=1
            {}
            {"Events":[{"FilterKeys":["dev-job",""],"Index":6,"Key":"07070707-0707-0707-0707-070707070707","Namespace":"dev","Topic":"Evaluation","Type":"EvaluationUpdated"}],"Index":6}
            {"Index":6,"CaughtUp":true}
        topic=Evaluation:web&topic=NodePool&namespace=*&after_index=1
            {}
            {"Events":[{"FilterKeys":null,"Index":3,"Key":"a","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":3}
            {"Events":[{"FilterKeys":["web",""],"Index":4,"Key":"03030303-0303-0303-0303-030303030303","Namespace":"default","Topic":"Evaluation","Type":"EvaluationUpdated"}],"Index":4}
            {"Index":6,"CaughtUp":true}
        topic=Nothing&after_index=1
            {}
            {"Index":6,"CaughtUp":true}
    "#]].assert_eq(&seen);
}

#[tokio::test]
async fn invalid_event_stream_parameters_are_refused() {
    let server = Memory::new();
    let mut seen = String::new();
    for query in [
        "topic=Job:a:b",
        "index=x",
        "after_index=x",
        "from=then",
        "region=mars",
        "snapshot=maybe",
        "filter=Nothing == 1",
        "filter=%ZZ",
        "filter=a;b",
        "f%72om=%Z",
        "after_index=1&topic=%ZZ",
        "after_index=",
        "format=xml",
        "format=",
        "index=-1&format=msgpack",
    ] {
        let response = answer(&server, &format!("GET /v1/event/stream?{query}")).await;
        let media = response.headers()["content-type"].to_str().expect("is text").to_owned();
        let status = response.status().as_u16();
        seen.push_str(&format!("{query}: {status} {media}: {}\n", crate::server::text(response).await));
    }
    expect![[r#"
        topic=Job:a:b: 400 text/plain; charset=utf-8: Invalid topic query: error parsing topics: Invalid key value pair for topic, topic: Job:a:b
        index=x: 400 text/plain; charset=utf-8: Unable to parse index: strconv.Atoi: parsing "x": invalid syntax
        after_index=x: 400 application/json: Expect a number from 0 to 18446744073709551615 for `after_index` query string parameter, got "x"
        from=then: 400 application/json: Expect `now` for `from` query string parameter, got then
        region=mars: 500 application/json: No path to region
        snapshot=maybe: 400 application/json: Expect `true` or `false` for `snapshot` query string parameter, got "maybe"
        filter=Nothing == 1: 400 application/json: failed to read filter expression: 1:8 (7): no match found, expected: "!=", ".", "==", "[", [ \t\r\n] or [a-zA-Z0-9_/]
        filter=%ZZ: 400 application/json: Unable to decode query string parameter "filter=%ZZ": write % as %25 and ; as %3B
        filter=a;b: 400 application/json: Unable to decode query string parameter "filter=a;b": write % as %25 and ; as %3B
        f%72om=%Z: 400 application/json: Unable to decode query string parameter "f%72om=%Z": write % as %25 and ; as %3B
        after_index=1&topic=%ZZ: 400 application/json: Unable to decode query string parameter "topic=%ZZ": write % as %25 and ; as %3B
        after_index=: 400 application/json: Expect a number from 0 to 18446744073709551615 for `after_index` query string parameter, got ""
        format=xml: 400 application/json: Expect `json` or `msgpack` for `format` query string parameter, got "xml"
        format=: 400 application/json: Expect `json` or `msgpack` for `format` query string parameter, got ""
        index=-1&format=msgpack: 400 application/json: Invalid index
    "#]]
    .assert_eq(&seen);
}

#[tokio::test]
async fn first_value_of_a_repeated_parameter_counts() {
    let server = Memory::new();
    server.run(pool("a"));
    server.run(pool("b"));
    settled(&server).await;
    let mut seen = String::new();
    // A plain stream ignores a topic that cannot be decoded, as the reference does.
    for (query, count) in [("after_index=2&after_index=x", 3), ("filter=&filter=x", 3), ("topic=%ZZ", 3)] {
        let lines = subscribe(&server, &format!("?{query}")).await.lines(count).await;
        seen.push_str(&format!("{query}\n{lines}"));
    }
    expect![[r#"
        after_index=2&after_index=x
        {}
        {"Events":[{"FilterKeys":null,"Index":3,"Key":"b","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":3}
        {"Index":3,"CaughtUp":true}
        filter=&filter=x
        {}
        {"Events":[{"FilterKeys":null,"Index":2,"Key":"a","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":2}
        {"Events":[{"FilterKeys":null,"Index":3,"Key":"b","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":3}
        topic=%ZZ
        {}
        {"Events":[{"FilterKeys":null,"Index":2,"Key":"a","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":2}
        {"Events":[{"FilterKeys":null,"Index":3,"Key":"b","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":3}
    "#]]
    .assert_eq(&seen);
}

#[tokio::test]
async fn full_stream_without_a_start_begins_with_the_oldest_entry_in_memory() {
    let server = Memory::new();
    server.run(UpsertNamespaces { namespaces: vec![Namespace { name: "dev".into(), ..Namespace::default() }] });
    server.run(pool("a"));
    settled(&server).await;
    let mut seen = subscribe(&server, "?full=true").await.lines(4).await;
    seen.push_str(&subscribe(&server, "").await.lines(2).await);
    expect![[r#"
        {}
        {"Events":[{"FilterKeys":null,"Index":2,"Key":"dev","Namespace":"","Topic":"Namespace","Type":"NamespaceUpserted"}],"Index":2}
        {"Events":[{"FilterKeys":null,"Index":3,"Key":"a","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":3}
        {"Index":3,"CaughtUp":true}
        {}
        {"Events":[{"FilterKeys":null,"Index":3,"Key":"a","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":3}
    "#]]
    .assert_eq(&seen);
}

#[tokio::test]
async fn event_stream_has_the_format_that_the_client_prefers() {
    let server = Memory::new();
    for (accept, expected) in [
        ("application/msgpack", "application/msgpack"),
        ("application/json, application/x-msgpack", "application/msgpack"),
        ("application/json;q=0.5, application/msgpack", "application/msgpack"),
        ("application/json, application/msgpack;q=0", "application/json"),
        ("application/x-msgpack; q=0.000", "application/json"),
        ("application/msgpack;q=0.5, application/json;q=0.9", "application/json"),
        ("text/html, */*", "application/json"),
    ] {
        let response = answer(&server, &format!("GET /v1/event/stream [Accept: {accept}]")).await;
        assert_eq!(response.headers()["content-type"], expected, "{accept}");
    }
}

#[tokio::test]
async fn msgpack_event_frames_equal_the_json_frames() {
    let server = Memory::new();
    server.run(pool("a"));
    settled(&server).await;
    let mut json = subscribe(&server, "?after_index=1").await;
    let response = answer(&server, "GET /v1/event/stream?after_index=1 [Accept: application/msgpack]").await;
    assert_eq!(response.headers()["content-type"], "application/msgpack");
    let mut packed = response.into_body();
    for _ in 0..3 {
        let line: serde_json::Value = serde_json::from_str(&json.line().await.expect("a line")).expect("JSON");
        let bytes = packed.frame().await.expect("a frame").expect("data").into_data().expect("data");
        let frame: serde_json::Value = rmp_serde::from_slice(&bytes).expect("msgpack");
        assert_eq!(frame, line);
    }
}

#[tokio::test]
async fn event_stream_from_now_shows_only_later_events() {
    let server = Memory::new();
    server.run(pool("a"));
    settled(&server).await;
    let mut reader = subscribe(&server, "?from=now").await;
    let mut seen = reader.lines(2).await;
    server.run(pool("b"));
    seen.push_str(&reader.lines(1).await);
    expect![[r#"
        {}
        {"Index":2,"CaughtUp":true}
        {"Events":[{"FilterKeys":null,"Index":3,"Key":"b","Namespace":"","Topic":"NodePool","Type":"NodePoolUpserted"}],"Index":3}
    "#]]
    .assert_eq(&seen);
}

#[tokio::test]
async fn shutdown_ends_event_streams() {
    let server = Memory::new();
    let mut plain = subscribe(&server, "").await;
    let mut ours = subscribe(&server, "?from=now").await;
    plain.lines(1).await;
    ours.lines(2).await;
    server.shutdown().cancel();
    assert_eq!(plain.line().await.as_deref(), Some("subscription closed by server, client should resubscribe"));
    assert_eq!(plain.line().await, None);
    assert_eq!(
        ours.line().await.as_deref(),
        Some(r#"{"Index":1,"Closed":"subscription closed by server, client should resubscribe"}"#)
    );
    assert_eq!(ours.line().await, None);
}

#[tokio::test(start_paused = true)]
async fn idle_event_stream_sends_heartbeats_and_checkpoints_of_filtered_entries() {
    let server = Memory::new();
    let mut reader = subscribe(&server, "?from=now&topic=Job").await;
    let mut seen = reader.lines(2).await;
    server.run(UpsertNamespaces { namespaces: vec![Namespace { name: "dev".into(), ..Namespace::default() }] });
    settled(&server).await;
    seen.push_str(&reader.lines(2).await);
    expect![[r#"
        {}
        {"Index":1,"CaughtUp":true}
        {"Index":2,"Checkpoint":true}
        {}
    "#]]
    .assert_eq(&seen);
}

#[tokio::test]
async fn stopped_dead_job_emits_events_with_status_dead_and_then_pending() {
    let server = Memory::new();
    let job = r#"{"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 0, "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "sleep"}}]}]}}"#;
    answer(&server, &format!("PUT /v1/jobs {job}")).await;
    let eval = server.view().evals().next().expect("an evaluation");
    server.run(UpdateEvals { evals: vec![Evaluation { status: EvalStatus::Complete, ..Evaluation::clone(&eval) }] });
    let index = server.view().applied_index();
    answer(&server, "DELETE /v1/job/web").await;
    settled(&server).await;
    let mut reader = subscribe(&server, &format!("?topic=Job&index={}", index + 1)).await;
    let mut seen = String::new();
    for _ in 0..3 {
        let frame: serde_json::Value = serde_json::from_str(&reader.line().await.expect("a line")).expect("JSON");
        let status = frame["Events"][0]["Payload"]["Job"]["Status"].clone();
        seen.push_str(&format!("{} {} {status}\n", frame["Index"], frame["Events"][0]["Type"]));
    }
    expect![[r#"
        null null null
        4 "JobDeregistered" "dead"
        4 "JobDeregistered" "pending"
    "#]]
    .assert_eq(&seen);
}
