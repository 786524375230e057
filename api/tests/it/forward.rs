//! Any server answers any request: three servers in memory share one log, and one of them leads.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use expect_test::{Expect, expect};
use songline_api::http::{AnsweredBy, Api};
use songline_api::{Leader, Reads, routes};
use tokio::time::Instant;

use crate::place::Fault;
use crate::server::{Memory, request, text};

struct Three(Vec<(&'static str, Arc<Memory>)>);

impl Three {
    fn new() -> Self {
        let a = Memory::new();
        let all = Self(vec![("b", a.sibling()), ("c", a.sibling()), ("a", a)]);
        for (_, one) in &all.0 {
            all.0.iter().for_each(|(name, other)| one.place.knows(name, other));
        }
        all.leads("a");
        all
    }

    fn named(&self, wanted: &str) -> &Arc<Memory> {
        self.0.iter().find(|(name, _)| *name == wanted).map(|(_, server)| server).expect("one of the three")
    }

    fn leads(&self, leader: &str) {
        for (name, server) in &self.0 {
            server.place.follow(match leader {
                "nobody" => Leader::Unknown,
                leader if leader == *name => Leader::Here,
                leader => Leader::At(leader.into()),
            });
        }
    }

    fn fails(&self, name: &str, fault: &str) {
        self.named(name).place.fails(match fault {
            "refused" => Fault::Refused,
            "cut-before" => Fault::CutBefore,
            "cut-after" => Fault::CutAfter,
            "hangs" => Fault::Hangs,
            "lost-before" => Fault::LostBefore,
            "lost-after" => Fault::LostAfter,
            other => panic!("no such fault: {other}"),
        });
    }
}

/// Lines are `NAME leads`, `NAME fails FAULT`, `NAME leads after MS`, and `NAME: METHOD PATH [HEADER] BODY`, a
/// request to that server. The output has the answer and duration in seconds of each request, and the entries of the
/// log at its end.
async fn check(story: &str, expected: Expect) {
    expected.assert_eq(&play(story).await);
}

/// Checks the outcome of the second write of a configuration, through `b`, when `troubles` come after the first.
async fn check_passed_on(troubles: &str, expected: Expect) {
    let second = format!("b: PUT /v1/operator/scheduler/configuration?cas=2 {CONFIG}");
    let told = play(&format!("a: PUT /v1/operator/scheduler/configuration {CONFIG}\n{troubles}\n{second}")).await;
    let (_, told) = told.split_once(&second).expect("it is asked");
    let told: Vec<&str> = told.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    expected.assert_eq(&format!("{}\n", told.join("\n")));
}

async fn play(story: &str) -> String {
    let three = Arc::new(Three::new());
    let first = three.named("a").view().applied_index();
    let mut out = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            [name, "leads"] => three.leads(name),
            [name, "fails", fault] => three.fails(name, fault),
            [name, "heard", "ago", ms] => {
                three.named(name).place.last_heard(Duration::from_millis(ms.parse().expect("a number")))
            }
            [name, "leads", "after", ms] => {
                let (three, name, after) =
                    (Arc::clone(&three), name.to_owned(), Duration::from_millis(ms.parse().expect("a number")));
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    three.leads(&name);
                });
            }
            _ => {
                let (name, line) = line.split_once(": ").expect("a request");
                let began = Instant::now();
                let response = Api::new(Arc::clone(three.named(name))).answer(request(line)).await;
                let status = response.status().as_u16();
                let headers = response.headers();
                let header = |name: &str| headers.get(name).map(|value| value.to_str().expect("text").to_owned());
                let index = header("x-nomad-index").map(|index| format!(" @{index}")).unwrap_or_default();
                let known = header("x-nomad-knownleader").map(|known| format!(" known={known}")).unwrap_or_default();
                let contact = header("x-nomad-lastcontact").map(|ms| format!(" heard={ms}")).unwrap_or_default();
                assert!(!headers.keys().any(|name| name.as_str().starts_with("x-songline")), "{headers:?}");
                let body = text(response).await;
                let body: String = body.chars().take(90).collect();
                let seconds = began.elapsed().as_secs();
                writeln!(
                    out,
                    "{name}: {line}\n    {status}{index}{known}{contact} after {seconds} s {}",
                    body.trim_end()
                )
                .expect("writes");
            }
        }
    }
    let view = three.named("a").view();
    writeln!(out, "entries: {}", view.applied_index() - first).expect("writes");
    out
}

#[tokio::test(start_paused = true)]
async fn forwarded_request_is_counted_once_at_the_server_that_answers() {
    let three = Three::new();
    for line in
        ["GET /v1/jobs", "PUT /v1/namespace {\"Name\":\"dev\"}", "GET /v1/namespace/dev?stale", "GET /v1/status/leader"]
    {
        Api::new(Arc::clone(three.named("b"))).answer(request(line)).await;
    }
    assert_eq!(three.named("a").served(), ["job.list ", "namespace.write "]);
    assert_eq!(three.named("a").answered(), ["GET /v1/jobs", "PUT,POST /v1/namespace"]);
    assert_eq!(three.named("b").served(), ["namespace.read ", "status.read "]);
    assert_eq!(three.named("b").answered(), ["GET /v1/namespace/{}", "GET /v1/status/leader"]);
}

const CONFIG: &str = r#"{"SchedulerAlgorithm":"spread"}"#;

#[tokio::test(start_paused = true)]
async fn hop_key_and_from_headers_of_a_caller_are_ignored() {
    check(
        r#"b: PUT /v1/namespace [x-songline-hop: server] [x-songline-key: k] [x-songline-from: 10.0.0.1] {"Name":"dev"}
           b: PUT /v1/namespace [x-songline-hop: server] [x-songline-key: k] [x-songline-from: 10.0.0.1] {"Name":"prod"}
           a: PUT /v1/namespace [x-songline-hop: server] [x-songline-key: k] [x-songline-from: 10.0.0.1] {"Name":"test"}"#,
        expect![[r#"
            b: PUT /v1/namespace [x-songline-hop: server] [x-songline-key: k] [x-songline-from: 10.0.0.1] {"Name":"dev"}
                200 @2 after 0 s 
            b: PUT /v1/namespace [x-songline-hop: server] [x-songline-key: k] [x-songline-from: 10.0.0.1] {"Name":"prod"}
                200 @3 after 0 s 
            a: PUT /v1/namespace [x-songline-hop: server] [x-songline-key: k] [x-songline-from: 10.0.0.1] {"Name":"test"}
                200 @4 after 0 s 
            entries: 3
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn any_server_forwards_requests_to_the_leader() {
    check(
        r#"b: PUT /v1/namespace {"Name":"dev"}
           c: GET /v1/namespace/dev
           a: GET /v1/namespace/dev
           b: GET /v1/namespace/dev?stale
           b: GET /v1/namespace/none
           b: GET /v1/regions
           b: GET /v1/namespaces?region=other
           b: POST /v1/search {"Prefix":"de","Context":"namespaces"}"#,
        expect![[r#"
            b: PUT /v1/namespace {"Name":"dev"}
                200 @2 after 0 s 
            c: GET /v1/namespace/dev
                200 @2 known=true heard=0 after 0 s {"Name":"dev","Description":"","Quota":"","Capabilities":null,"NodePoolConfiguration":null
            a: GET /v1/namespace/dev
                200 @2 known=true heard=0 after 0 s {"Name":"dev","Description":"","Quota":"","Capabilities":null,"NodePoolConfiguration":null
            b: GET /v1/namespace/dev?stale
                200 @2 known=true heard=0 after 0 s {"Name":"dev","Description":"","Quota":"","Capabilities":null,"NodePoolConfiguration":null
            b: GET /v1/namespace/none
                404 @2 known=true heard=0 after 0 s Namespace not found
            b: GET /v1/regions
                200 after 0 s ["global"]
            b: GET /v1/namespaces?region=other
                500 after 0 s No path to region
            b: POST /v1/search {"Prefix":"de","Context":"namespaces"}
                200 @2 known=true heard=0 after 0 s {"Matches":{"namespaces":["default","dev"]},"Truncations":{"namespaces":false},"Index":2,"
            entries: 1
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn server_without_a_leader_answers_only_stale_reads_and_its_health() {
    check(
        r#"a: PUT /v1/namespace {"Name":"dev"}
           nobody leads
           b heard ago 1234
           b: GET /v1/namespace/dev
           b: PUT /v1/namespace {"Name":"prod"}
           b: GET /v1/namespace/dev?stale
           b: GET /v1/namespace/dev?stale&max_stale=1s
           b: GET /v1/namespace/dev?stale&max_stale=2s
           b: GET /v1/namespace/dev?stale&max_stale=x
           b: GET /v1/agent/health"#,
        expect![[r#"
            a: PUT /v1/namespace {"Name":"dev"}
                200 @2 after 0 s 
            b: GET /v1/namespace/dev
                500 after 5 s No cluster leader
            b: PUT /v1/namespace {"Name":"prod"}
                500 after 5 s No cluster leader
            b: GET /v1/namespace/dev?stale
                200 @2 known=false heard=1234 after 0 s {"Name":"dev","Description":"","Quota":"","Capabilities":null,"NodePoolConfiguration":null
            b: GET /v1/namespace/dev?stale&max_stale=1s
                500 after 5 s No cluster leader
            b: GET /v1/namespace/dev?stale&max_stale=2s
                200 @2 known=false heard=1234 after 0 s {"Name":"dev","Description":"","Quota":"","Capabilities":null,"NodePoolConfiguration":null
            b: GET /v1/namespace/dev?stale&max_stale=x
                400 after 0 s Invalid max_stale
            b: GET /v1/agent/health
                200 after 0 s {"server":{"ok":true,"message":"ok"}}
            entries: 1
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn request_waits_up_to_five_seconds_for_a_leader() {
    check(
        r#"nobody leads
           c leads after 3000
           b: PUT /v1/namespace {"Name":"dev"}
           nobody leads
           a leads after 4000
           b: GET /v1/namespace/dev
           b fails refused
           b: GET /v1/namespace/dev"#,
        expect![[r#"
            b: PUT /v1/namespace {"Name":"dev"}
                200 @2 after 3 s 
            b: GET /v1/namespace/dev
                200 @2 known=true heard=0 after 4 s {"Name":"dev","Description":"","Quota":"","Capabilities":null,"NodePoolConfiguration":null
            b: GET /v1/namespace/dev
                200 @2 known=true heard=0 after 0 s {"Name":"dev","Description":"","Quota":"","Capabilities":null,"NodePoolConfiguration":null
            entries: 1
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn forwarded_write_with_a_lost_answer_runs_once() {
    check(
        &format!(
            r#"a: PUT /v1/operator/scheduler/configuration {CONFIG}
               b fails cut-after
               b: PUT /v1/operator/scheduler/configuration?cas=2 {CONFIG}
               b fails cut-before
               b: PUT /v1/operator/scheduler/configuration?cas=3 {CONFIG}
               b fails cut-after
               b fails cut-after
               b fails cut-after
               b: PUT /v1/operator/scheduler/configuration?cas=5 {CONFIG}"#
        ),
        expect![[r#"
            a: PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm":"spread"}
                200 @2 after 0 s {"Updated":true,"Index":2}
            b: PUT /v1/operator/scheduler/configuration?cas=2 {"SchedulerAlgorithm":"spread"}
                200 @3 after 0 s {"Updated":true,"Index":3}
            b: PUT /v1/operator/scheduler/configuration?cas=3 {"SchedulerAlgorithm":"spread"}
                200 @5 after 0 s {"Updated":true,"Index":5}
            b: PUT /v1/operator/scheduler/configuration?cas=5 {"SchedulerAlgorithm":"spread"}
                200 @6 after 0 s {"Updated":true,"Index":6}
            entries: 8
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn forwarded_write_runs_once_when_the_leader_changes_meanwhile() {
    check(
        &format!(
            r#"a: PUT /v1/operator/scheduler/configuration {CONFIG}
               a fails lost-after
               c leads after 700
               b: PUT /v1/operator/scheduler/configuration?cas=2 {CONFIG}
               c fails lost-before
               a leads after 700
               b: PUT /v1/operator/scheduler/configuration?cas=3 {CONFIG}
               b fails hangs
               c leads after 700
               b: PUT /v1/operator/scheduler/configuration?cas=5 {CONFIG}
               b fails hangs
               nobody leads after 100
               b: PUT /v1/operator/scheduler/configuration?cas=6 {CONFIG}"#
        ),
        expect![[r#"
            a: PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm":"spread"}
                200 @2 after 0 s {"Updated":true,"Index":2}
            b: PUT /v1/operator/scheduler/configuration?cas=2 {"SchedulerAlgorithm":"spread"}
                200 @3 after 0 s {"Updated":true,"Index":3}
            b: PUT /v1/operator/scheduler/configuration?cas=3 {"SchedulerAlgorithm":"spread"}
                200 @5 after 0 s {"Updated":true,"Index":5}
            b: PUT /v1/operator/scheduler/configuration?cas=5 {"SchedulerAlgorithm":"spread"}
                200 @6 after 0 s {"Updated":true,"Index":6}
            b: PUT /v1/operator/scheduler/configuration?cas=6 {"SchedulerAlgorithm":"spread"}
                500 after 5 s leadership was lost before the outcome was known
            entries: 5
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn server_that_becomes_leader_does_not_rerun_a_write_it_forwarded() {
    check_passed_on(
        "a fails lost-after
         b leads after 700",
        expect![[r#"
            200 @3 after 0 s {"Updated":true,"Index":3}
            entries: 3
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn forwarded_write_is_retried_when_the_leader_hangs() {
    check_passed_on(
        "b fails hangs",
        expect![[r#"
            200 @3 after 30 s {"Updated":true,"Index":3}
            entries: 2
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn write_at_a_deposed_leader_has_an_unknown_outcome_unless_it_is_keyed() {
    check(
        &format!(
            r#"a: PUT /v1/operator/scheduler/configuration {CONFIG}
               a fails lost-after
               a: PUT /v1/operator/scheduler/configuration?cas=2 {CONFIG}
               a leads
               a fails lost-after
               c leads after 700
               a: PUT /v1/operator/scheduler/configuration?cas=3 [Idempotency-Key: mine] {CONFIG}
               b fails cut-after
               b: PUT /v1/operator/scheduler/configuration?cas=4 [Idempotency-Key: other] {CONFIG}
               b: PUT /v1/operator/scheduler/configuration?cas=4 [Idempotency-Key: other] {CONFIG}"#
        ),
        expect![[r#"
            a: PUT /v1/operator/scheduler/configuration {"SchedulerAlgorithm":"spread"}
                200 @2 after 0 s {"Updated":true,"Index":2}
            a: PUT /v1/operator/scheduler/configuration?cas=2 {"SchedulerAlgorithm":"spread"}
                500 after 0 s leadership was lost before the outcome was known
            a: PUT /v1/operator/scheduler/configuration?cas=3 [Idempotency-Key: mine] {"SchedulerAlgorithm":"spread"}
                200 @4 after 0 s {"Updated":true,"Index":4}
            b: PUT /v1/operator/scheduler/configuration?cas=4 [Idempotency-Key: other] {"SchedulerAlgorithm":"spread"}
                200 @6 after 0 s {"Updated":true,"Index":6}
            b: PUT /v1/operator/scheduler/configuration?cas=4 [Idempotency-Key: other] {"SchedulerAlgorithm":"spread"}
                200 @6 after 0 s {"Updated":true,"Index":6}
            entries: 7
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn servers_that_take_each_other_for_the_leader_do_not_forward_in_a_loop() {
    let three = Three::new();
    three.named("a").place.follow(Leader::At("b".into()));
    three.named("b").place.follow(Leader::At("a".into()));
    let response = Api::new(Arc::clone(three.named("a"))).answer(request("GET /v1/namespaces")).await;
    assert_eq!(response.status(), 500);
    assert_eq!(text(response).await, "No cluster leader");
    assert_eq!(*three.named("b").place.passed.lock(), 0);
}

#[tokio::test(start_paused = true)]
async fn hop_and_key_headers_of_a_caller_are_ignored() {
    check(
        r#"b: PUT /v1/namespace [X-Songline-Hop: server] [X-Songline-Key: k] {"Name":"dev"}
           b: PUT /v1/namespace [X-Songline-Hop: server] [X-Songline-Key: k] {"Name":"prod"}
           a: PUT /v1/namespace [X-Songline-Key: k] {"Name":"dev"}
           a: PUT /v1/namespace [X-Songline-Key: k] {"Name":"prod"}"#,
        expect![[r#"
            b: PUT /v1/namespace [X-Songline-Hop: server] [X-Songline-Key: k] {"Name":"dev"}
                200 @2 after 0 s 
            b: PUT /v1/namespace [X-Songline-Hop: server] [X-Songline-Key: k] {"Name":"prod"}
                200 @3 after 0 s 
            a: PUT /v1/namespace [X-Songline-Key: k] {"Name":"dev"}
                200 @4 after 0 s 
            a: PUT /v1/namespace [X-Songline-Key: k] {"Name":"prod"}
                200 @5 after 0 s 
            entries: 4
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn blocking_read_continues_at_the_next_leader() {
    let three = Three::new();
    let dev = |at: &str| {
        Request::put("/v1/namespace")
            .body(format!("{{\"Name\":\"dev\",\"Description\":\"{at}\"}}").into())
            .expect("a request")
    };
    let write = Api::new(Arc::clone(three.named("a"))).answer(dev("first")).await;
    let index = write.headers()["x-nomad-index"].to_str().expect("text").to_owned();
    let waiting = |name: &str| {
        let api = Api::new(Arc::clone(three.named(name)));
        let line = format!("GET /v1/namespace/dev?index={index}");
        tokio::spawn(async move { text(api.answer(request(&line)).await).await })
    };
    let (of_leader, of_other) = (waiting("a"), waiting("b"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    three.leads("c");
    tokio::time::sleep(Duration::from_secs(60)).await;
    Api::new(Arc::clone(three.named("c"))).answer(dev("second")).await;
    for answer in [of_leader, of_other] {
        let answer = answer.await.expect("answers");
        assert!(answer.contains("second"), "{answer}");
    }
}

#[tokio::test]
async fn body_too_long_to_buffer_is_streamed_to_the_leader_and_not_sent_twice() {
    let three = Three::new();
    let long = "x".repeat(3 << 20);
    let body = format!(r#"{{"Name":"dev","Meta":{{"long":"{long}"}}}}"#);
    let response = Api::new(Arc::clone(three.named("b"))).answer(request(&format!("PUT /v1/namespace {body}"))).await;
    assert_eq!(response.status(), 200);
    three.named("b").place.fails(Fault::CutAfter);
    let response = Api::new(Arc::clone(three.named("b"))).answer(request(&format!("PUT /v1/namespace {body}"))).await;
    assert_eq!(text(response).await, "leadership was lost before the outcome was known");
    three.named("b").place.fails(Fault::Refused);
    let response = Api::new(Arc::clone(three.named("b"))).answer(request(&format!("PUT /v1/namespace {body}"))).await;
    assert_eq!(response.status(), 200, "what was not sent is sent again");
}

#[test]
fn routes_answered_by_the_asked_server_are_listed() {
    let asked = routes::<Memory>().into_iter().filter(|route| route.answered_by == AnsweredBy::Asked);
    let text: String = asked.map(|route| format!("{} {}\n", route.path, route.methods.as_str())).collect();
    expect![[r#"
        /debug/pprof/{} GET
        /ui/{} *
        /v1/agent/health GET
        /v1/agent/host GET
        /v1/agent/join PUT,POST
        /v1/agent/keyring/install{} *
        /v1/agent/keyring/list{} *
        /v1/agent/keyring/remove{} *
        /v1/agent/keyring/use{} *
        /v1/agent/keyring/{} *
        /v1/agent/members GET
        /v1/agent/monitor *
        /v1/agent/pprof/{} *
        /v1/agent/schedulers GET
        /v1/agent/schedulers/config GET
        /v1/agent/schedulers/config PUT,POST
        /v1/agent/self GET
        /v1/agent/servers GET
        /v1/agent/servers PUT,POST
        /v1/client/allocation/{} *
        /v1/client/allocation/{}/checks *
        /v1/client/allocation/{}/exec *
        /v1/client/allocation/{}/gc *
        /v1/client/allocation/{}/restart *
        /v1/client/allocation/{}/signal PUT,POST
        /v1/client/allocation/{}/snapshot *
        /v1/client/allocation/{}/stats *
        /v1/client/fs/cat/{} *
        /v1/client/fs/logs/{} *
        /v1/client/fs/ls/{} *
        /v1/client/fs/readat/{} *
        /v1/client/fs/stat/{} *
        /v1/client/fs/stream/{} *
        /v1/client/fs/{} *
        /v1/client/gc *
        /v1/client/metadata GET
        /v1/client/metadata POST
        /v1/client/stats *
        /v1/event/stream GET
        /v1/jobs/parse PUT,POST
        /v1/jwks.json GET
        /v1/metrics GET
        /v1/openapi.json GET
        /v1/operator/license GET
        /v1/operator/license PUT
        /v1/recommendation *
        /v1/recommendation/{} *
        /v1/recommendations *
        /v1/recommendations/apply *
        /v1/regions GET
        /v1/sentinel/policies *
        /v1/sentinel/policy/{} *
        /v1/status/leader GET
        /v1/status/peers GET
    "#]]
    .assert_eq(&text);
}
