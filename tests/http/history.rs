//! Past states, the history of one object, explanations of placements, the actors of changes, and writes that take
//! effect once.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use expect_test::{Expect, expect};
use regex::Regex;
use serde_json::{Value, json};
use songline_events::past::Past;

use crate::agent::{Agent, Setup};
use crate::fleet::Fleet;
use crate::http::Request;
use crate::story::{Story, texts};

fn job(id: &str, count: u64) -> Value {
    let task = json!({"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"}, "Resources": {"CPU": 100, "MemoryMB": 64}});
    json!({"Job": {"ID": id, "Type": "service", "TaskGroups": [{"Name": "g", "Count": count, "Tasks": [task]}]}})
}

/// Replaces ids by names, and removes times and indexes.
fn tidied(sentences: &Value, names: &BTreeMap<String, &str>) -> Result<String> {
    let lines: Vec<&str> = sentences.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut text = lines.join("\n") + "\n";
    for (id, name) in names {
        text = text.replace(&id[..8], name);
    }
    text = Regex::new(r"(?m)^[0-9T:.Z-]+ \(index \d+\): ")?.replace_all(&text, "").into_owned();
    Ok(Regex::new(r"\b[0-9a-f]{8}\b")?.replace_all(&text, "ID").into_owned())
}

fn check(sentences: &Value, names: &BTreeMap<String, &str>, expected: Expect) -> Result<()> {
    expected.assert_eq(&tidied(sentences, names)?);
    Ok(())
}

#[test]
fn explanation_of_a_lost_alloc_covers_its_down_node_and_the_time_before() -> Result<()> {
    let fleet = Fleet::begin()?;
    let first = fleet.join("n1")?;
    fleet.put("/v1/jobs", &job("web", 1))?;
    let allocs = fleet.wait("/v1/job/web/allocations", |allocs| allocs[0].is_object())?;
    let old = allocs[0]["ID"].as_str().context("an id")?.to_owned();
    fleet.says_running(&first, &old)?;
    let before = fleet.get(&format!("/v1/explain/allocation/{old}"))?;
    let before_time = before["Time"].as_str().context("a time")?.to_owned();

    let second = fleet.join("n2")?;
    first.silence();
    fleet.wait(&format!("/v1/node/{}", first.id()), |node| node["Status"] == "down")?;
    let allocs =
        fleet.wait("/v1/job/web/allocations", |allocs| allocs.as_array().is_some_and(|list| list.len() == 2))?;
    let new = texts(&allocs, "ID").into_iter().find(|id| *id != old).context("a replacement")?.to_owned();
    fleet.says_running(&second, &new)?;

    let names = BTreeMap::from([(old.clone(), "OLD"), (new.clone(), "NEW"), (first.id(), "N1"), (second.id(), "N2")]);
    let told = fleet.get(&format!("/v1/explain/allocation/{old}"))?;
    check(
        &json!([told["Summary"]]),
        &names,
        expect![[r#"
        alloc OLD (web.g[0]) of job web was stopped (alloc is lost since its node is down) and is lost on node n1; alloc NEW replaces it.
    "#]],
    )?;
    check(
        &told["Sentences"],
        &names,
        expect![[r#"
            somebody without a token registered job web in namespace default.
            evaluation ID (job-register) of job web was made because the job was registered.
            the plan of evaluation ID placed alloc OLD (web.g[0]) on node n1 (N1).
            node N1 reported that alloc OLD (web.g[0]) is running (Tasks are running).
            node n1 (N1) missed its heartbeat and was marked down.
            evaluation ID (node-update) of job web was made because a node changed.
            the plan of evaluation ID stopped alloc OLD (web.g[0]) and took it for lost (alloc is lost since its node is down); placed alloc NEW (web.g[0]) on node n2 (N2) in the place of alloc OLD (web.g[0]).
        "#]],
    )?;
    let missed = told["Steps"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|step| step["About"] == "node")
        .context("a step of the node")?;
    ensure!(missed["ID"] == first.id() && missed["Actor"] == "leader:heartbeats", "{missed}");

    let of_new = fleet.get(&format!("/v1/explain/allocation/{new}"))?;
    check(
        &of_new["Sentences"],
        &names,
        expect![[r#"
            node n1 (N1) missed its heartbeat and was marked down.
            evaluation ID (node-update) of job web was made because a node changed.
            the plan of evaluation ID stopped alloc OLD (web.g[0]) and took it for lost (alloc is lost since its node is down); placed alloc NEW (web.g[0]) on node n2 (N2) in the place of alloc OLD (web.g[0]).
            node N2 reported that alloc NEW (web.g[0]) is running (Tasks are running).
        "#]],
    )?;

    let then = fleet.get(&format!("/v1/explain/allocation/{old}?at_time={before_time}"))?;
    ensure!(then == before, "then {then}, at that time {before}");
    ensure!(then["ClientStatus"] == "running" && then["NodeName"] == "n1", "{then}");
    let row = fleet.get(&format!("/v1/allocation/{old}?at_time={before_time}"))?;
    ensure!(row["ClientStatus"] == "running", "{row}");

    let changes = fleet.get(&format!("/v1/history/allocation/{old}?order=oldest"))?;
    ensure!(texts(&changes, "Change").first() == Some(&"created"), "{changes}");
    let lost = changes.as_array().and_then(|changes| changes.last()).context("a change")?;
    let fields: Vec<_> = texts(&lost["Diff"], "Path");
    ensure!(lost["Command"] == "ApplyPlanResults" && fields.contains(&"ClientStatus"), "{lost}");
    ensure!(lost["Actor"] == "leader:plans" && lost["Cause"]["Command"] == "EvalUpdate", "{lost}");
    Ok(())
}

/// Routes that read the state, and the bodies of those with POST.
const READS: [(&str, Option<&str>); 19] = [
    ("/v1/jobs", None),
    ("/v1/jobs?meta=true&prefix=w", None),
    ("/v1/job/web", None),
    ("/v1/job/web/versions?diffs=true", None),
    ("/v1/job/web/summary", None),
    ("/v1/job/web/submission?version=0", None),
    ("/v1/job/web/allocations", None),
    ("/v1/job/web/evaluations", None),
    ("/v1/job/web/deployments", None),
    ("/v1/job/web/scale", None),
    ("/v1/allocations?resources=true", None),
    ("/v1/evaluations", None),
    ("/v1/evaluations/count?filter=Status==complete", None),
    ("/v1/nodes?os=true", None),
    ("/v1/node/pools", None),
    ("/v1/namespaces", None),
    ("/v1/operator/scheduler/configuration", None),
    ("/v1/search", Some(r#"{"Prefix": "", "Context": "jobs"}"#)),
    ("/v1/node/pool/default/nodes", None),
];

fn read(story: &Story, (target, body): (&str, Option<&str>), when: &str) -> Result<(u16, String)> {
    let joint = if target.contains('?') { '&' } else { '?' };
    let target = if when.is_empty() { target.to_owned() } else { format!("{target}{joint}{when}") };
    let mut request = Request::new(if body.is_some() { "POST" } else { "GET" }, &target);
    request.body = body.map(|body| body.as_bytes().to_vec());
    let answer = crate::http::call(story.http(), &request, std::time::Instant::now() + crate::story::WITHIN)?;
    // Metadata of a query differs: in a past state the index is the state's own.
    let text = Regex::new(r#""(Index|LastContact)":\d+"#)?.replace_all(&answer.text(), "").into_owned();
    Ok((answer.head.status, text))
}

fn applied(story: &Story) -> Result<u64> {
    let stats = story.get("/v1/agent/self")?;
    stats["stats"]["raft"]["applied_index"].as_str().context("an index")?.parse().context("a number")
}

/// All reads at one index, and that index. Begins again if the index changes meanwhile.
fn read_all(story: &Story) -> Result<(u64, Vec<(u16, String)>)> {
    loop {
        let index = applied(story)?;
        let answers = READS.iter().map(|asked| read(story, *asked, "")).collect::<Result<Vec<_>>>()?;
        if applied(story)? == index {
            return Ok((index, answers));
        }
    }
}

#[test]
fn past_state_read_equals_the_answer_given_at_that_index() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let setup = Setup { data_dir: Some(dir.path().join("data")), ..Setup::dev() };
    let story = Story { agent: Agent::start(&setup)? };
    story.wait("/v1/nodes", |nodes| nodes[0]["Status"] == "ready")?;
    let mut moments = vec![read_all(&story)?];
    story.put("/v1/namespace", &json!({"Name": "one"}))?;
    story.put("/v1/node/pools", &json!({"Name": "gpu"}))?;
    story.put("/v1/jobs", &job("web", 1))?;
    moments.push(read_all(&story)?);
    story.wait_for_running("web", 1, 0)?;
    moments.push(read_all(&story)?);
    story.put("/v1/jobs", &job("web", 2))?;
    story.put("/v1/operator/scheduler/configuration", &json!({"SchedulerAlgorithm": "spread"}))?;
    story.wait_for_running("web", 2, 1)?;
    moments.push(read_all(&story)?);
    story.call(&Request::new("DELETE", "/v1/job/web?purge=true"))?;
    story.wait("/v1/jobs", |jobs| jobs == &json!([]))?;
    moments.push(read_all(&story)?);

    let compare = |story: &Story| -> Result<()> {
        for (index, then) in &moments {
            for (asked, then) in READS.iter().zip(then) {
                let now = read(story, *asked, &format!("at_index={index}"))?;
                ensure!(now == *then, "{} at {index}: then {then:?}, now {now:?}", asked.0);
            }
        }
        Ok(())
    };
    compare(&story)?;
    story.agent.interrupt()?;
    compare(&Story { agent: Agent::start(&setup)? })
}

#[test]
fn routes_without_past_reads_are_exactly_the_listed_ones() -> Result<()> {
    let fleet = Fleet::begin()?;
    let node = fleet.join("n1")?;
    fleet.put("/v1/jobs", &job("web", 1))?;
    let allocs = fleet.wait("/v1/job/web/allocations", |allocs| allocs[0].is_object())?;
    let alloc = &allocs[0];
    let id = |field: &str| alloc[field].as_str().unwrap_or_default().to_owned();
    let index = fleet.server.view().applied_index();
    let mut without = String::new();
    for line in songline_api::routes_text::<songline_server::Core>().lines() {
        let mut words = line.split(' ');
        let (Some(path), Some(methods)) = (words.next(), words.next()) else { continue };
        if !matches!(methods, "GET" | "*") {
            continue;
        }
        let known = [
            ("/v1/allocation/", id("ID")),
            ("/v1/history/allocation/", id("ID")),
            ("/v1/explain/allocation/", id("ID")),
            ("/v1/evaluation/", id("EvalID")),
            ("/v1/history/evaluation/", id("EvalID")),
            ("/v1/node/pool/", "default".to_owned()),
            ("/v1/node/", node.id()),
            ("/v1/history/node/", node.id()),
            ("/v1/namespace/", "default".to_owned()),
        ];
        let name = known.iter().find(|(root, _)| path.starts_with(root)).map_or("web", |(_, id)| id);
        let target = path.replace("{}", name);
        let answer = fleet.ask(&Request::new("GET", &format!("{target}?at_index={index}&version=0&type=csi")))?;
        if answer.text().contains("this request is none") {
            without.push_str(&format!("{path}\n"));
        } else if answer.head.status == 200 {
            ensure!(answer.index() == Some(index), "{target} shows index {:?} for {index}", answer.index());
        }
    }
    expect![[r#"
        /ui/{}
        /v1/agent/health
        /v1/agent/host
        /v1/agent/keyring/install{}
        /v1/agent/keyring/list{}
        /v1/agent/keyring/remove{}
        /v1/agent/keyring/use{}
        /v1/agent/keyring/{}
        /v1/agent/members
        /v1/agent/monitor
        /v1/agent/pprof/{}
        /v1/agent/schedulers
        /v1/agent/schedulers/config
        /v1/agent/self
        /v1/agent/servers
        /v1/client/allocation/{}
        /v1/client/allocation/{}/checks
        /v1/client/allocation/{}/exec
        /v1/client/allocation/{}/gc
        /v1/client/allocation/{}/restart
        /v1/client/allocation/{}/snapshot
        /v1/client/allocation/{}/stats
        /v1/client/fs/cat/{}
        /v1/client/fs/logs/{}
        /v1/client/fs/ls/{}
        /v1/client/fs/readat/{}
        /v1/client/fs/stat/{}
        /v1/client/fs/stream/{}
        /v1/client/fs/{}
        /v1/client/gc
        /v1/client/metadata
        /v1/client/stats
        /v1/event/stream
        /v1/metrics
        /v1/openapi.json
        /v1/operator/autopilot/health
        /v1/operator/autopilot/health
        /v1/operator/license
        /v1/operator/raft/configuration{}
        /v1/operator/raft/peer{}
        /v1/operator/raft/transfer-leadership{}
        /v1/operator/raft/{}
        /v1/operator/snapshot
        /v1/regions
        /v1/status/leader
        /v1/status/peers
    "#]]
    .assert_eq(&without);
    Ok(())
}

#[test]
fn rebuilt_past_state_has_its_original_digest() -> Result<()> {
    let fleet = Fleet::begin()?;
    let mut digests = BTreeMap::new();
    for n in 0..60 {
        if n % 20 == 10 {
            fleet.runtime.block_on(fleet.server.log().checkpoint_now())?;
        }
        fleet.put("/v1/namespace", &json!({"Name": format!("n{}", n % 7), "Description": n.to_string()}))?;
        let view = fleet.server.view();
        digests.insert(view.applied_index(), view.digest());
    }
    // From new to old no state can be derived from the previous one; from old to new all but the first can.
    for (index, digest) in digests.iter().rev().chain(digests.iter()) {
        let state = fleet.runtime.block_on(fleet.server.state_at(*index))?;
        ensure!((state.applied_index(), state.digest()) == (*index, *digest), "the state at {index}");
    }
    Ok(())
}

fn refusal(fleet: &Fleet, method: &str, target: &str) -> Result<String> {
    let answer = fleet.ask(&Request::new(method, target))?;
    Ok(format!("{method} {target}: {} {}\n", answer.head.status, answer.text()))
}

#[test]
fn invalid_and_dropped_past_reads_are_refused_with_a_reason() -> Result<()> {
    let fleet = Fleet::begin()?;
    fleet.put("/v1/namespace", &json!({"Name": "one"}))?;
    let ask = |method: &str, target: &str| refusal(&fleet, method, target);
    let told = [
        ask("GET", "/v1/jobs?at_index=nine")?,
        ask("GET", "/v1/jobs?at_time=yesterday")?,
        ask("GET", "/v1/jobs?at_index=1&at_time=1700000000")?,
        ask("GET", "/v1/jobs?at_index=1&index=5")?,
        ask("GET", "/v1/jobs?at_index=1000000")?,
        ask("GET", "/v1/jobs?at_time=9000000000")?,
        ask("PUT", "/v1/namespace?at_index=1")?,
        ask("GET", "/v1/agent/self?at_index=1")?,
        ask("GET", "/v1/regions?at_index=1")?,
        ask("GET", "/v1/event/stream?at_index=1")?,
        ask("GET", "/v1/job/none?at_index=2")?,
        ask("GET", "/v1/history/job/none")?,
        ask("GET", "/v1/history/node/n1")?,
        ask("GET", "/v1/history/job/none?order=sideways")?,
    ];
    let text = Regex::new(r"applied index \d+")?.replace_all(&told.concat(), "applied index N").into_owned();
    expect![[r#"
        GET /v1/jobs?at_index=nine: 400 Unable to parse at_index: "nine"
        GET /v1/jobs?at_time=yesterday: 400 Unable to parse at_time: "yesterday" is no RFC 3339 time and no number of seconds or nanoseconds
        GET /v1/jobs?at_index=1&at_time=1700000000: 400 at_index and at_time cannot be combined
        GET /v1/jobs?at_index=1&index=5: 400 a past state does not change: index cannot be combined with at_index or at_time
        GET /v1/jobs?at_index=1000000: 404 index 1000000 is above the newest applied index N
        GET /v1/jobs?at_time=9000000000: 404 2255-03-14T16:00:00Z has not come yet
        PUT /v1/namespace?at_index=1: 400 at_index and at_time are for reads of the state, and this request is none
        GET /v1/agent/self?at_index=1: 400 at_index and at_time are for reads of the state, and this request is none
        GET /v1/regions?at_index=1: 400 at_index and at_time are for reads of the state, and this request is none
        GET /v1/event/stream?at_index=1: 400 at_index and at_time are for reads of the state, and this request is none
        GET /v1/job/none?at_index=2: 404 job not found
        GET /v1/history/job/none: 404 no change of job "none" is known: changes are kept from index 1 on
        GET /v1/history/node/n1: 400 UUID must be 36 characters
        GET /v1/history/job/none?order=sideways: 400 Expect `newest` or `oldest` for order, got "sideways"
    "#]]
    .assert_eq(&text);

    let saved = fleet.ask(&Request::new("GET", "/v1/operator/snapshot"))?.body;
    let mut restore = Request::new("PUT", "/v1/operator/snapshot");
    restore.body = Some(saved);
    ensure!(fleet.ask(&restore)?.head.status == 200);
    let oldest = fleet.server.view().applied_index();
    let told = ask("GET", "/v1/namespaces?at_index=2")?;
    let expected = format!("GET /v1/namespaces?at_index=2: 410 index 2 is below the oldest retained index {oldest}\n");
    ensure!(told == expected, "{told}");
    ensure!(texts(&fleet.get(&format!("/v1/namespaces?at_index={oldest}"))?, "Name") == ["default", "one"]);
    Ok(())
}

#[test]
fn keyed_write_runs_once_and_its_retry_gets_the_first_answer() -> Result<()> {
    let fleet = Fleet::begin()?;
    let mut only_new = job("web", 1);
    only_new["EnforceIndex"] = json!(true);
    only_new["JobModifyIndex"] = json!(0);
    let send = |body: &Value| fleet.ask(&Request::new("PUT", "/v1/jobs").json(body).header("Idempotency-Key", "k1"));
    let first = send(&only_new)?;
    ensure!(first.head.status == 200, "{}", first.text());
    let again = send(&only_new)?;
    ensure!((again.head.status, again.text()) == (200, first.text()), "{} {}", again.head.status, again.text());
    ensure!(fleet.get("/v1/job/web/versions")?["Versions"].as_array().is_some_and(|versions| versions.len() == 1));

    only_new["Job"]["Priority"] = json!(70);
    let other = send(&only_new)?;
    ensure!(other.head.status == 409, "{} {}", other.head.status, other.text());
    let elsewhere = fleet.ask(&Request::new("DELETE", "/v1/job/web").header("Idempotency-Key", "k1"))?;
    ensure!(elsewhere.head.status == 409, "{} {}", elsewhere.head.status, elsewhere.text());

    let purge = Request::new("DELETE", "/v1/job/web?purge=true").header("Idempotency-Key", "k2");
    let first = fleet.ask(&purge)?;
    ensure!(fleet.ask(&purge)?.text() == first.text());
    // A repeated refused write stays refused, also when its obstacle is gone.
    fleet.put("/v1/namespace", &json!({"Name": "busy"}))?;
    fleet.put("/v1/var/there?namespace=busy", &json!({"Items": {"a": "b"}}))?;
    let refused = Request::new("DELETE", "/v1/namespace/busy").header("Idempotency-Key", "k3");
    let first = fleet.ask(&refused)?;
    ensure!(first.head.status == 500, "{}", first.text());
    fleet.ask(&Request::new("DELETE", "/v1/var/there?namespace=busy"))?;
    let again = fleet.ask(&refused)?;
    ensure!((again.head.status, again.text()) == (500, first.text()), "{} {}", again.head.status, again.text());
    ensure!(fleet.ask(&Request::new("DELETE", "/v1/namespace/busy"))?.head.status == 200);
    Ok(())
}

#[test]
fn keyed_garbage_collection_and_summary_reconciliation_run_once() -> Result<()> {
    let fleet = Fleet::begin()?;
    let is_done =
        |evals: &Value| evals.as_array().is_some_and(|evals| evals.iter().all(|eval| eval["Status"] == "complete"));
    let stopped = |id: &str| -> Result<()> {
        fleet.put("/v1/jobs", &job(id, 0))?;
        fleet.ask(&Request::new("DELETE", &format!("/v1/job/{id}")))?;
        fleet.wait("/v1/evaluations", is_done)?;
        Ok(())
    };
    let jobs = || -> Result<usize> { Ok(fleet.get("/v1/jobs")?.as_array().map_or(0, Vec::len)) };
    let collect = Request::new("PUT", "/v1/system/gc").header("Idempotency-Key", "gc");
    stopped("one")?;
    ensure!(fleet.ask(&collect)?.head.status == 200);
    ensure!(jobs()? == 0, "the first one collects");
    stopped("two")?;
    ensure!(fleet.ask(&collect)?.head.status == 200);
    ensure!(jobs()? == 1, "a repeat collects nothing");
    ensure!(fleet.ask(&Request::new("PUT", "/v1/system/gc"))?.head.status == 200);
    ensure!(jobs()? == 0, "another one does");

    let reconcile = Request::new("PUT", "/v1/system/reconcile/summaries").header("Idempotency-Key", "rs");
    ensure!(fleet.ask(&reconcile)?.head.status == 200);
    ensure!(fleet.ask(&reconcile)?.head.status == 200);
    let other = fleet.ask(&Request::new("PUT", "/v1/system/gc").header("Idempotency-Key", "rs"))?;
    ensure!(other.head.status == 409, "{} {}", other.head.status, other.text());
    let told = fleet.get("/v1/audit?filter=Command%20==%20ReconcileJobSummaries")?;
    let results: Vec<String> = texts(&told, "Result").iter().map(|text| text.chars().take(7).collect()).collect();
    ensure!(results == ["repeats", "done"], "{told}");
    Ok(())
}

#[test]
fn audit_records_actor_request_and_result() -> Result<()> {
    let fleet = Fleet::begin()?;
    fleet.put("/v1/namespace", &json!({"Name": "one"}))?;
    let keyed = || Request::new("PUT", "/v1/namespace").json(&json!({"Name": "two"})).header("Idempotency-Key", "k");
    fleet.ask(&keyed())?;
    fleet.ask(&keyed())?;
    let refused = fleet.ask(&Request::new("PUT", "/v1/namespace").json(&json!({"Name": "three", "Quota": "none"})))?;
    ensure!(refused.head.status == 500, "{}", refused.text());
    let node = fleet.join("n1")?;

    let show = |query: &str| -> Result<String> {
        let rows = fleet.get(&format!("/v1/audit?{query}"))?;
        let lines = rows.as_array().into_iter().flatten().map(|row| {
            let names: Vec<_> = texts(&row["Request"]["namespaces"], "Name");
            let actor = row["Actor"].as_str().unwrap_or_default().replace(&node.id(), "N1");
            let result = row["Result"].as_str().unwrap_or("unknown");
            format!("{} by {actor}: {result} {}", row["Command"].as_str().unwrap_or_default(), names.join(" "))
                .trim_end()
                .to_owned()
                + "\n"
        });
        let text: String = lines.collect();
        Ok(Regex::new(r"index \d+")?.replace_all(&text, "index N").into_owned())
    };
    expect![[r#"
        NamespaceUpsert by anonymous: namespace "three" using non-existent quota "none" three
        NamespaceUpsert by anonymous: repeats the write at index N two
        NamespaceUpsert by anonymous: done two
        NamespaceUpsert by anonymous: done one
    "#]]
    .assert_eq(&show("filter=Command==NamespaceUpsert")?);
    expect![[r#"
        NamespaceUpsert by anonymous: namespace "three" using non-existent quota "none" three
    "#]]
    .assert_eq(&show("filter=Refused==true")?);
    expect![[r#"
        NodeRegister by node:N1: done
    "#]]
    .assert_eq(&show("filter=Command==NodeRegister&order=oldest")?);
    let all = fleet.get("/v1/audit?order=oldest")?;
    let (mut token, mut paged) = (String::new(), Vec::new());
    loop {
        let answer = fleet.ask(&Request::new("GET", &format!("/v1/audit?order=oldest&per_page=2&{token}")))?;
        paged.extend(answer.json()?.as_array().cloned().unwrap_or_default());
        let Some(next) = answer.head.header("X-Nomad-NextToken") else { break };
        token = format!("next_token={next}");
    }
    let common = all.as_array().context("a list")?;
    ensure!(paged.len() >= common.len() && paged[..common.len()] == common[..], "paged {paged:?}, at once {all}");
    ensure!(!all.to_string().contains("\"secret\""), "no secret is shown");
    Ok(())
}
