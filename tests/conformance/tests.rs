//! Tests of the replayer: tokens, comparison, lists, and whole cases replayed against a server of canned answers.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::case::{self, Case, Path};
use crate::compare::{Judge, Leniency};
use crate::exchange::Server;
use crate::lists;
use crate::player::{Until, play};
use crate::token::Bindings;

/// Compares and shows the differences, then the learned values.
fn check(want: Value, got: Value, ignore: &[&str], unordered: &[&str], expected: Expect) {
    let paths = |texts: &[&str]| -> Vec<Path> { texts.iter().map(|t| Path::parse(t)).collect() };
    let mut judge = Judge::default();
    let lenient = Leniency { ignore: &paths(ignore), unordered: &paths(unordered) };
    judge.compare(&want, &got, &mut Vec::new(), lenient);
    let mut shown: Vec<String> = judge.differences;
    for (name, value) in judge.bindings.learned {
        shown.push(format!("{name} = {value}"));
    }
    expected.assert_eq(&shown.join("\n"));
}

const A: &str = "11111111-2222-3333-4444-555555555555";
const B: &str = "66666666-2222-3333-4444-555555555555";

#[test]
fn an_object_must_have_exactly_the_expected_keys() {
    check(
        json!({"a": 1, "b": null, "c": {"d": true}}),
        json!({"a": 1.0, "c": {"d": false, "e": 2}}),
        &[],
        &[],
        expect![[r#"
            $.b: expected null, got "(missing)"
            $.c.e: expected "(no such key)", got 2
            $.c.d: expected true, got false"#]],
    );
}

#[test]
fn null_false_zero_and_empty_are_four_things() {
    check(
        json!([null, false, 0, "", [], {}]),
        json!([false, 0, "", [], {}, null]),
        &[],
        &[],
        expect![[r#"
            $[0]: expected null, got false
            $[1]: expected false, got 0
            $[2]: expected 0, got ""
            $[3]: expected "", got []
            $[4]: expected [], got {}
            $[5]: expected {}, got null"#]],
    );
}

#[test]
fn big_integers_are_compared_exactly() {
    check(
        json!(1152921504606846976u64),
        json!(1152921504606846977u64),
        &[],
        &[],
        expect!["$: expected 1152921504606846976, got 1152921504606846977"],
    );
}

#[test]
fn a_uuid_is_the_same_all_through_a_case() {
    check(
        json!(["<uuid:1>", "<uuid:2>", "<uuid:1>", "deployment <uuid:2> of <uuid:1>", "<uuid:2>"]),
        json!([A, B, A, format!("deployment {B} of {A}"), A]),
        &[],
        &[],
        expect![[r#"
            $[4]: expected "<uuid:2>", got "11111111-2222-3333-4444-555555555555"
            uuid:1 = 11111111-2222-3333-4444-555555555555
            uuid:2 = 66666666-2222-3333-4444-555555555555"#]],
    );
}

#[test]
fn an_integer_is_learned_from_numbers_and_texts_alike() {
    check(
        json!({"a": "<int:1>", "b": "index <int:1>", "c": "<int:1>"}),
        json!({"a": 12, "b": "index 12", "c": 13}),
        &[],
        &[],
        expect![[r#"
            $.c: expected "<int:1>", got 13
            int:1 = 12"#]],
    );
}

#[test]
fn placeholder_shapes_match_only_their_kind_of_value() {
    check(
        json!({
            "times": ["<time>", "<time>", "<time>", "at <time>!"],
            "numbers": ["<index>", "<index>", "<port>", "<port>", "<num>", "<num>"],
            "texts": ["<text>", "<text>", "<any>", "<any>", "<ip>:<port>", "<ip>"],
        }),
        json!({
            "times": ["2026-01-02T03:04:05.678Z", 1, 0, "at 2026-01-02T03:04:05+01:00!"],
            "numbers": [7, 0, 65535, 65536, -1.5, "-1.5"],
            "texts": ["x", "", null, "", "127.0.0.1:80", "host"],
        }),
        &[],
        &[],
        expect![[r#"
            $.times[2]: expected "<time>", got 0
            $.numbers[1]: expected "<index>", got 0
            $.numbers[3]: expected "<port>", got 65536
            $.texts[1]: expected "<text>", got ""
            $.texts[5]: expected "<ip>", got "host""#]],
    );
}

#[test]
fn text_placeholder_takes_the_shortest_match_and_may_repeat() {
    check(
        json!("<str:1>-<str:2>/<str:1>"),
        json!("a-b-c/a"),
        &[],
        &[],
        expect![[r#"
            str:1 = a
            str:2 = b-c"#]],
    );
}

#[test]
fn unordered_lists_learn_placeholders_only_from_matching_elements() {
    check(
        json!([{"id": "<uuid:1>", "n": 1}, {"id": "<uuid:2>", "n": 2}]),
        json!([{"id": B, "n": 2}, {"id": A, "n": 1}]),
        &[],
        &["$"],
        expect![[r#"
            uuid:1 = 11111111-2222-3333-4444-555555555555
            uuid:2 = 66666666-2222-3333-4444-555555555555"#]],
    );
}

#[test]
fn placeholder_keys_are_paired_by_their_values() {
    check(
        json!({"<uuid:1>": {"n": 1}, "<uuid:2>": {"n": 2}, "plain": 3}),
        json!({"plain": 3, B: {"n": 2}, A: {"n": 1}}),
        &[],
        &[],
        expect![[r#"
            uuid:1 = 11111111-2222-3333-4444-555555555555
            uuid:2 = 66666666-2222-3333-4444-555555555555"#]],
    );
}

#[test]
fn ignored_values_may_be_anything_or_missing() {
    check(
        json!([{"a": 1, "dotted.key": {"b": 2}}]),
        json!([{"dotted.key": {"b": 3}, "extra": 4}]),
        &["$[*].a", "$[0]['dotted.key'].b", "$[*].extra"],
        &[],
        expect![""],
    );
}

#[test]
fn requests_are_filled_with_learned_placeholders() {
    let mut bindings = Bindings::default();
    bindings.learned.insert("int:1".into(), "7".into());
    bindings.learned.insert("uuid:1".into(), A.into());
    bindings.env.insert("TOKEN".into(), "secret".into());
    let filled = bindings.fill(&json!({
        "<uuid:1>": ["<int:1>", "at <int:1>", "<uuid:2>", "<env:TOKEN>", "<x:3>"],
    }));
    assert_eq!(filled, json!({A: [7, "at 7", "<uuid:2>", "secret", "xxx"]}));
}

#[test]
fn every_case_can_be_read() -> anyhow::Result<()> {
    let cases = case::load(&crate::folder().join("cases"))?;
    assert_eq!(cases.len(), 587);
    Ok(())
}

#[test]
fn known_list_complains_of_unlisted_failures_and_listed_passes() -> anyhow::Result<()> {
    let known = lists::parse("# comment\n\njobs/a: no route\njobs/b: not replayed yet\njobs/gone: x\n")?;
    let failed = BTreeMap::from([
        ("jobs/b".to_string(), vec!["step 0: one".to_string()]),
        ("jobs/c".to_string(), vec!["step 1: two".to_string()]),
    ]);
    let passed = ["jobs/a".to_string()];
    expect![[r#"
        jobs/c differs:
            step 1: two
        jobs/a passes now: remove its line from known.txt
        jobs/gone is listed, but there is no such case"#]]
    .assert_eq(&lists::complaints(&known, &failed, &passed, &["a/a", "a/b", "a/c"]).join("\n"));
    let updated = lists::parse(&lists::updated(&known, &failed))?;
    assert_eq!(updated["jobs/b"], "step 0: one");
    assert_eq!(updated["jobs/c"], "step 1: two");
    assert_eq!(updated.len(), 2);
    Ok(())
}

#[test]
fn more_than_three_cases_that_pass_only_at_their_second_try_fail_the_run() {
    let complaints = lists::complaints(&BTreeMap::new(), &BTreeMap::new(), &[], &["a/a", "a/b", "a/c", "a/d"]);
    expect!["4 cases passed only at their second try: a/a, a/b, a/c, a/d"].assert_eq(&complaints.join("\n"));
}

#[test]
fn a_mask_names_steps_of_a_case_that_exists() {
    let cases = || -> Vec<Case> {
        let step = json!({"req": {}, "res": {"status": 200}});
        vec![
            serde_json::from_value(json!({"name": "a/b", "about": "", "profile": "dev", "steps": [step, step, step]}))
                .expect("a case"),
        ]
    };
    let check = |list: &str| {
        let mut cases = cases();
        let masked = lists::parse_masks(list).and_then(|masks| lists::mask(&mut cases, &masks));
        let shown: Vec<String> =
            cases[0].steps.iter().map(|step| format!("{} {}", step.masked, step.ignore.len())).collect();
        masked.map(|masked| format!("{masked}: {}", shown.join(", "))).unwrap_or_else(|error| format!("{error:#}"))
    };
    assert_eq!(check("a/b 0,2: both"), "2: true 0, false 0, true 0");
    assert_eq!(check("a/b 1-2 $.x $.y: fields"), "2: false 0, false 2, false 2");
    assert_eq!(check("a/b 1 $.x: one\na/b 0-1 $.y: more"), "2: false 1, false 2, false 0");
    assert_eq!(check("a/b 3: too far"), "a/b has no step 3 to be masked");
    assert_eq!(check("a/c 0: none"), "a/c is to be masked, but there is no such case");
    assert_eq!(check("a/b: no steps"), "a line of the list is not `case steps [fields]: reason`: a/b");
    assert_eq!(check("a/b 2-1: backwards"), "a/b 2-1: 2-1 is no range");
}

/// Answers each connection with the next of `answers`, each character as one byte; repeats the last one for all
/// further connections.
fn canned(answers: &[&str]) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let mut answers: Vec<String> = answers.iter().map(|a| a.to_string()).collect();
    answers.reverse();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = if answers.len() > 1 { answers.pop() } else { answers.last().cloned() };
            let answer = answer.unwrap_or_default();
            thread::spawn(move || serve(stream, &answer));
        }
    });
    Ok(address)
}

/// Reads one request and sends the answer. If the answer contains `HOLD`, keeps the connection open until the client
/// disconnects.
fn serve(stream: TcpStream, answer: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut size = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            size = value.trim().parse().unwrap_or_default();
        }
    }
    reader.read_exact(&mut vec![0; size])?;
    let (answer, hold) = match answer.strip_suffix("HOLD") {
        Some(answer) => (answer, true),
        None => (answer, false),
    };
    let bytes: Vec<u8> = answer.chars().map(|c| u8::try_from(c).expect("an answer is made of bytes")).collect();
    (&stream).write_all(&bytes)?;
    if hold {
        reader.read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

/// Replays steps against canned answers and shows the differences.
fn check_play(steps: Value, answers: &[&str], expected: Expect) {
    check_masked(steps, "", answers, expected);
}

/// Like `check_play`, with masks on some of the steps.
fn check_masked(steps: Value, masks: &str, answers: &[&str], expected: Expect) {
    let case = json!({"name": "x/y", "about": "", "profile": "dev", "steps": steps});
    let mut cases: Vec<Case> = vec![serde_json::from_value(case).expect("the case of a test is well formed")];
    lists::parse_masks(masks).and_then(|masks| lists::mask(&mut cases, &masks)).expect("the masks of a test fit");
    let case = &cases[0];
    let server = Server {
        http: canned(answers).expect("a port of this machine"),
        deadline: Instant::now() + Duration::from_secs(30),
    };
    let outcome = play(case, server, &BTreeMap::new(), Until::End);
    // The measured time differs from run to run.
    let took = regex::Regex::new(r"got it after [0-9.]+ s").expect("a pattern");
    expected.assert_eq(&took.replace_all(&outcome.differences.join("\n"), "got it sooner"));
}

#[test]
fn status_headers_and_body_are_compared() {
    check_play(
        json!([{
            "req": {"method": "GET", "path": "/v1/jobs", "query": {"a b": ["1", true]}},
            "res": {"status": 200, "headers": {"X-Nomad-Index": "<index>", "X-None": null, "X-Gone": "a"}, "body": {"a": 1}},
        }]),
        &["HTTP/1.1 404 Not Found\r\nX-Nomad-Index: 5\r\nX-None: x\r\nContent-Length: 9\r\n\r\nnot found"],
        expect![[r#"
            step 0 GET /v1/jobs $: expected status 200, got 404: "not found"
            step 0 GET /v1/jobs $ header X-Gone: expected "a", got none
            step 0 GET /v1/jobs $ header X-None: expected none, got "x"
            step 0 GET /v1/jobs $: expected {"a": 1}, got "not found""#]],
    );
}

#[test]
fn masked_step_teaches_placeholders_but_is_not_compared() {
    let step = |status: u16, body: Value| json!({"req": {"method": "GET", "path": "/v1/a"}, "res": {"status": status, "body": body}});
    check_masked(
        json!([
            step(404, json!({"id": "<int:1>", "n": 2})),
            step(200, json!({"id": "<int:1>", "n": 2})),
            step(200, json!({"id": "<int:1>", "n": 3})),
        ]),
        "x/y 0: the status and a field\nx/y 1 $.n: a field",
        &["HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n{\"id\":7,\"n\":1}"],
        expect!["step 2 GET /v1/a $.n: expected 3, got 1"],
    );
}

#[test]
fn until_step_repeats_its_request_and_then_compares() {
    check_play(
        json!([{
            "req": {"method": "GET", "path": "/v1/evaluation/x"},
            "until": [["$.Status", "complete"]],
            "res": {"status": 200, "body": {"Status": "complete"}},
        }]),
        &[
            "HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx",
            "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"Status\":\"pending\"}",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"Sta\r\n10\r\ntus\":\"complete\"}\r\n0\r\n\r\n",
        ],
        expect![""],
    );
}

#[test]
fn stream_step_counts_only_matching_frames_and_reads_the_tail() {
    let frames = concat!(
        "{}\n",
        "{\"Index\":7,\"Events\":[{\"Topic\":\"Node\",\"Type\":\"a\"}]}\n",
        "{\"Index\":8,\"Events\":[{\"Topic\":\"Job\",\"Type\":\"b\"}]}\n",
        "{\"Index\":9,\"Events\":[{\"Topic\":\"Job\",\"Type\":\"c\"}]}\n",
        "the end",
    );
    check_play(
        json!([{
            "req": {"method": "GET", "path": "/v1/event/stream"},
            "stream": {"topics": ["Job"], "where": [["$.Type", "c"]], "tail": "the end"},
            "res": {"status": 200, "body": [{"Index": "<index>", "Events": [{"Topic": "Job", "Type": "c"}]}]},
        }]),
        &[&format!("HTTP/1.1 200 OK\r\n\r\n{frames}")],
        expect![""],
    );
}

#[test]
fn quiet_stream_step_fails_on_another_frame() {
    check_play(
        json!([{
            "req": {"method": "GET", "path": "/v1/event/stream"},
            "stream": {"topics": [], "raw": true, "quiet": 0.2},
            "res": {"status": 200, "body": [{}]},
        }]),
        &["HTTP/1.1 200 OK\r\n\r\n{}\n{\"Index\":1}\nHOLD"],
        expect![[
            r#"step 0 GET /v1/event/stream $: expected "1 elements: [{}]", got "2 elements: [{}, {\"Index\": 1}]""#
        ]],
    );
}

#[test]
fn stream_step_without_a_matching_frame_times_out() {
    check_play(
        json!([{
            "req": {"method": "GET", "path": "/v1/event/stream"},
            "stream": {"topics": ["Job"]},
            "within": 0.2,
            "res": {"status": 200, "body": [{}]},
        }]),
        &["HTTP/1.1 200 OK\r\n\r\n{}\nHOLD"],
        expect![[r#"step 0 GET /v1/event/stream $: expected "1 elements: [{}]", got "0 elements: []""#]],
    );
}

#[test]
fn frames_step_reads_until_enough_bytes_arrived() {
    check_play(
        json!([{
            "req": {"method": "GET", "path": "/v1/client/fs/logs/x"},
            "frames": {"bytes": 3},
            "res": {"status": 200, "body": [{"Data": "YQ=="}, {"Data": "YmM="}]},
        }]),
        &["HTTP/1.1 200 OK\r\n\r\n{\"Data\":\"YQ==\"}{}{\"Data\":\"YmM=\"}HOLD"],
        expect![""],
    );
}

#[test]
fn a_started_request_is_compared_where_it_is_joined() {
    check_play(
        json!([
            {"req": {"method": "GET", "path": "/v1/a"}, "start": "s"},
            {"req": {"method": "GET", "path": "/v1/a"}, "join": "s", "took": [0, 5],
             "res": {"status": 200, "text": "[1, \"\\u00e9\"]"}},
            {"req": {"method": "GET", "path": "/v1/a"}, "took": [5, 6], "res": {"status": 200, "text": "x"}},
        ]),
        &["HTTP/1.1 200 OK\r\n\r\n[1,\"Ã©\"]", "HTTP/1.1 200 OK\r\n\r\nx"],
        expect!["step 2 GET /v1/a $: expected an answer after 5 to 6 s, got it sooner"],
    );
}

#[test]
fn websocket_step_reads_until_the_close() {
    let output = r#"{"stdout":{"data":"aGk=","close":true}}"#;
    let (start, rest) = output.split_at(9);
    let frame = |first: char, payload: &str| {
        let size = u8::try_from(payload.chars().count()).expect("messages of tests are short");
        format!("{first}{}{payload}", char::from(size))
    };
    let answer = [
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_string(),
        // One message in two frames, with a ping between them.
        frame('\u{1}', start),
        frame('\u{89}', ""),
        frame('\u{80}', rest),
        frame('\u{81}', r#"{"exited":true}"#),
        frame('\u{88}', "\u{3}\u{e8}bye"),
    ];
    check_play(
        json!([{
            "req": {"method": "GET", "path": "/v1/client/allocation/x/exec"},
            "ws": {"send": [{"stdin": {"close": true}}]},
            "res": {"status": 101, "body": {
                "stdout": "hi", "stderr": "", "closed": ["stdout"], "other": [{"exited": true}], "close": [1000, "bye"],
            }},
        }]),
        &[&answer.concat()],
        expect![""],
    );
}

#[test]
fn a_dead_server_is_a_difference() {
    let address =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port of this machine");
    let case = json!({"name": "x/y", "about": "", "profile": "dev", "steps": [
        {"req": {"method": "GET", "path": "/v1/jobs"}, "res": {"status": 200}},
    ]});
    let case: Case = serde_json::from_value(case).expect("the case of a test is well formed");
    let server = Server { http: address, deadline: Instant::now() + Duration::from_secs(5) };
    let outcome = play(&case, server, &BTreeMap::new(), Until::End);
    assert_eq!(outcome.differences.len(), 1);
    assert!(!outcome.changed_something);
}
