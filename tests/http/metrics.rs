//! `/v1/metrics` of a running agent: valid text, the reference's JSON form, and numbers that match the requests made.
//! Not here: intervals and gauges, which `server/src/metrics/tests.rs` tests.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use serde_json::{Value, json};

use crate::agent::{Agent, Setup};
use crate::exposition::Exposition;
use crate::http::Request;
use crate::story::{Story, WITHIN};

/// Poll interval of metrics.
const LOOK: Duration = Duration::from_millis(200);

fn scrape(story: &Story) -> Result<Exposition> {
    let answer = story.call(&Request::new("GET", "/v1/metrics?format=prometheus"))?;
    Exposition::read(&answer.text())
}

/// Waits until the JSON form satisfies a condition.
fn wait_for_json(story: &Story, what: &str, good: impl Fn(&Value) -> bool) -> Result<Value> {
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        let told = story.get("/v1/metrics")?;
        if good(&told) {
            return Ok(told);
        }
        thread::sleep(LOOK);
    }
    bail!("metrics never told {what}")
}

fn row<'v>(told: &'v Value, list: &str, name: &str) -> Option<&'v Value> {
    told[list].as_array()?.iter().find(|row| row["Name"] == name)
}

/// A pattern for the families in the tables of `docs/metrics.md`; `<..>` in the tables stands for any words.
fn documented() -> Result<Regex> {
    let page = include_str!("../../docs/metrics.md");
    let names = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let part = Regex::new("<[^>]*>")?;
    let patterns: Vec<_> = names.map(|name| part.replace_all(&name.replace('.', "_"), ".+").into_owned()).collect();
    Ok(Regex::new(&format!("^(?:{})$", patterns.join("|")))?)
}

fn sleeper(id: &str) -> Value {
    json!({"Job": {
        "ID": id, "Type": "service", "Datacenters": ["*"],
        "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{
            "Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/sleep", "args": ["1000"]},
            "Resources": {"CPU": 20, "MemoryMB": 20},
        }]}],
    }})
}

#[test]
fn prometheus_text_is_valid_and_has_the_dashboard_metrics() -> Result<()> {
    let story = Story::begin()?;
    story.put("/v1/jobs", &sleeper("sleeper"))?;
    story.wait_for_running("sleeper", 2, 0)?;
    let names = "nomad_nomad_broker_total_ready nomad_nomad_broker_total_unacked nomad_nomad_broker_total_pending
        nomad_nomad_broker_total_waiting nomad_nomad_broker_service_ready nomad_nomad_broker_service_unacked
        nomad_nomad_broker_process_time nomad_nomad_blocked_evals_total_blocked nomad_nomad_blocked_evals_total_escaped
        nomad_nomad_plan_queue_depth nomad_nomad_plan_apply nomad_nomad_plan_evaluate nomad_nomad_plan_submit
        nomad_nomad_plan_wait_for_index nomad_nomad_plan_node_rejected nomad_nomad_worker_dequeue_eval
        nomad_nomad_worker_invoke_scheduler_service nomad_nomad_worker_submit_plan nomad_nomad_worker_wait_for_index
        nomad_nomad_worker_update_eval nomad_nomad_worker_send_ack nomad_nomad_heartbeat_active nomad_nomad_job_summary_queued
        nomad_nomad_job_summary_complete nomad_nomad_job_summary_failed nomad_nomad_job_summary_running
        nomad_nomad_job_summary_starting nomad_nomad_job_summary_lost nomad_nomad_job_summary_unknown nomad_nomad_job_status_pending
        nomad_nomad_job_status_running nomad_nomad_job_status_dead nomad_client_allocations_pending
        nomad_client_allocations_running nomad_client_allocations_terminal nomad_raft_apply nomad_raft_commitTime
        nomad_raft_fsm_apply nomad_raft_appliedIndex nomad_raft_lastIndex nomad_raft_peers nomad_raft_leader_lastContact
        nomad_nomad_fsm_apply_plan_results nomad_nomad_fsm_register_job nomad_nomad_fsm_register_node nomad_nomad_fsm_update_eval
        nomad_nomad_leader_barrier nomad_nomad_autopilot_healthy nomad_nomad_autopilot_failure_tolerance nomad_state_snapshotIndex
        nomad_nomad_rpc_request nomad_nomad_rpc_query nomad_nomad_rpc_request_error nomad_nomad_rpc_accept_conn
        nomad_nomad_rpc_job_write nomad_nomad_rpc_node_write nomad_nomad_rpc_plan_write nomad_nomad_client_register
        nomad_nomad_client_update_alloc nomad_nomad_client_get_client_allocs nomad_nomad_job_register nomad_nomad_eval_ack
        nomad_nomad_eval_dequeue songline_events_subscribers songline_events_frames songline_http_request songline_leader
        songline_state_rows process_resident_memory_bytes process_cpu_seconds_total process_open_fds process_max_fds";
    // A call is counted when it ends, which may be after its write is visible.
    let since = Instant::now();
    let told = loop {
        let told = scrape(&story)?;
        let missing: Vec<_> = names.split_whitespace().filter(|name| !told.families.contains_key(*name)).collect();
        if missing.is_empty() {
            break told;
        }
        ensure!(since.elapsed() < WITHIN, "{missing:?} are not told");
        thread::sleep(Duration::from_millis(20));
    };
    let value =
        |name: &str, labels: &[(&str, &str)]| told.value(name, labels).with_context(|| format!("{name} {labels:?}"));
    let group = [("job", "sleeper"), ("task_group", "g"), ("namespace", "default")];
    assert_eq!(value("nomad_nomad_job_summary_running", &group)?, 2.0);
    assert_eq!(value("nomad_nomad_job_summary_queued", &group)?, 0.0);
    assert_eq!(value("nomad_nomad_job_status_running", &[])?, 1.0);
    assert_eq!(value("songline_state_rows", &[("table", "allocs")])?, 2.0);
    assert_eq!(value("songline_leader", &[])?, 1.0);
    assert_eq!(value("nomad_nomad_heartbeat_active", &[])?, 1.0);
    assert_eq!(value("nomad_nomad_job_register_count", &[])?, 1.0);
    assert_eq!(value("nomad_nomad_rpc_job_write", &[])?, 1.0);
    assert_eq!(value("nomad_nomad_fsm_register_job_count", &[])?, 1.0);
    assert_eq!(value("songline_http_request_count", &[("route", "/v1/jobs"), ("methods", "PUT,POST")])?, 1.0);
    let documented = documented()?;
    let undocumented: Vec<_> = told.families.keys().filter(|name| !documented.is_match(name)).collect();
    ensure!(undocumented.is_empty(), "docs/metrics.md does not have {undocumented:?}");
    let running: f64 =
        told.samples.iter().filter(|((name, _), _)| name == "nomad_client_allocations_running").map(|(_, n)| n).sum();
    assert_eq!(running, 2.0);
    Ok(())
}

#[test]
fn node_without_a_server_reports_its_machine_and_its_tasks() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let server = Story {
        agent: Agent::start_as(&json!({
            "data_dir": dir.path().join("server"), "bind_addr": "127.0.0.1", "ports": {"http": 0, "rpc": 0, "serf": 0},
            "server": {"enabled": true, "bootstrap_expect": 1},
        }))?,
    };
    let rpc = server.get("/v1/status/leader")?;
    let node = Story {
        agent: Agent::start_as(&json!({
            "data_dir": dir.path().join("node"), "bind_addr": "127.0.0.1", "ports": {"http": 0},
            "client": {
                "enabled": true, "servers": [rpc], "node_class": "small",
                "gc_disk_usage_threshold": 100, "gc_inode_usage_threshold": 100,
            },
            "plugin": {"raw_exec": {"config": {"enabled": true}}},
            "telemetry": {
                "prometheus_metrics": true, "publish_node_metrics": true, "publish_allocation_metrics": true,
                "collection_interval": "100ms",
            },
        }))?,
    };
    server.put("/v1/jobs", &sleeper("sleeper"))?;
    let since = Instant::now();
    let told = loop {
        let told = scrape(&node)?;
        let tasks = told.samples.keys().filter(|(name, _)| name == "nomad_client_allocs_memory_rss");
        if tasks.filter(|(_, labels)| labels.get("task").is_some_and(|task| task == "t")).count() == 2 {
            break told;
        }
        ensure!(since.elapsed() < WITHIN, "no tasks in {:?}", told.families.keys());
        thread::sleep(LOOK);
    };
    let sum = |name: &str| -> f64 {
        let all = told.samples.iter().filter(|((of, _), _)| of == name);
        all.map(|(_, value)| value).sum()
    };
    ensure!(sum("nomad_client_allocs_memory_rss") > 0.0, "tasks without memory");
    assert_eq!(sum("nomad_client_allocs_cpu_allocated"), 40.0);
    assert_eq!(sum("nomad_client_allocs_memory_allocated"), 40.0 * 1_048_576.0);
    assert_eq!(sum("nomad_client_allocated_cpu"), 40.0);
    assert_eq!(sum("nomad_client_allocated_memory"), 40.0);
    ensure!(sum("nomad_client_unallocated_cpu") > 0.0 && sum("nomad_client_host_memory_total") > 0.0, "no machine");
    ensure!(sum("nomad_client_uptime") > 0.0, "no uptime");
    let classes = told.samples.keys().filter(|(name, _)| name == "nomad_client_allocated_disk");
    ensure!(classes.into_iter().all(|(_, labels)| labels.get("node_class").is_some_and(|class| class == "small")));
    let shown = row(&node.get("/v1/metrics")?, "Gauges", "nomad.client.host.memory.total").cloned();
    ensure!(shown.is_some_and(|gauge| gauge["Value"].as_f64().is_some_and(|value| value > 0.0)), "not in JSON");
    Ok(())
}

#[test]
fn ends_and_restarts_of_tasks_are_counted() -> Result<()> {
    let story = Story::begin()?;
    for (id, script) in [("ends", "exit 0"), ("fails", "exit 3")] {
        let job = json!({"Job": {
            "ID": id, "Type": "batch", "Datacenters": ["*"],
            "TaskGroups": [{
                "Name": "g",
                "RestartPolicy": {"Attempts": 2, "Interval": 600_000_000_000_u64, "Delay": 1_000_000, "Mode": "fail"},
                "ReschedulePolicy": {"Attempts": 0, "Interval": 0, "Unlimited": false},
                "Tasks": [{
                    "Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/sh", "args": ["-c", script]},
                    "Resources": {"CPU": 20, "MemoryMB": 20},
                }],
            }],
        }});
        story.put("/v1/jobs", &job)?;
    }
    for (id, status) in [("ends", "complete"), ("fails", "failed")] {
        story.wait(&format!("/v1/job/{id}/allocations"), |allocs| allocs[0]["ClientStatus"] == status)?;
    }
    let told = scrape(&story)?;
    let of = |name: &str, job: &str| -> f64 {
        let of_job =
            |labels: &std::collections::BTreeMap<String, String>| labels.get("job").is_some_and(|of| of == job);
        let all = told.samples.iter().filter(|((of, labels), _)| of == name && of_job(labels));
        all.map(|(_, value)| value).sum()
    };
    let counts = |job: &str| {
        ["complete", "failed", "restart", "oom_killed"].map(|what| of(&format!("nomad_client_allocs_{what}"), job))
    };
    assert_eq!(counts("ends"), [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(counts("fails"), [0.0, 1.0, 2.0, 0.0]);
    let shown =
        wait_for_json(&story, "the restarts", |told| row(told, "Counters", "nomad.client.allocs.restart").is_some())?;
    let restarts = row(&shown, "Counters", "nomad.client.allocs.restart").context("it is there")?;
    assert_eq!((&restarts["Count"], &restarts["Labels"]["task"]), (&json!(2), &json!("t")));
    Ok(())
}

#[test]
fn metrics_json_shows_the_last_interval_only() -> Result<()> {
    let story = Story::begin()?;
    for _ in 0..7 {
        story.get("/v1/jobs")?;
    }
    let told =
        wait_for_json(&story, "the requests", |told| row(told, "Counters", "nomad.nomad.rpc.job.list").is_some())?;
    let counter = row(&told, "Counters", "nomad.nomad.rpc.job.list").context("it is there")?;
    ensure!(counter["Count"] == 7 && counter["Sum"] == 7.0, "{counter}");
    ensure!(counter["Rate"].as_f64().context("a number")? > 0.0, "{counter}");
    let sample = row(&told, "Samples", "nomad.nomad.job.list").context("its time is there")?;
    let [min, mean, max] = ["Min", "Mean", "Max"].map(|field| sample[field].as_f64().unwrap_or_default());
    ensure!(sample["Count"] == 7 && 0.0 < min && min <= mean && mean <= max, "{sample}");
    wait_for_json(&story, "an interval without such requests", |told| {
        told["Timestamp"].as_str().is_some_and(|at| at.ends_with("0 +0000 UTC"))
            && row(told, "Counters", "nomad.nomad.rpc.job.list").is_none()
    })?;
    let total = scrape(&story)?.value("nomad_nomad_rpc_job_list", &[]);
    assert_eq!(total, Some(7.0), "totals are since the start");
    Ok(())
}

#[test]
fn request_metrics_are_labelled_by_caller_unless_disabled() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let start = |name: &str, telemetry: Value| -> Result<(Story, String)> {
        let content = json!({
            "data_dir": dir.path().join(name),
            "bind_addr": "127.0.0.1",
            "ports": {"http": 0, "rpc": 0, "serf": 0},
            "server": {"enabled": true, "bootstrap_expect": 1},
            "acl": {"enabled": true},
            "telemetry": telemetry,
        });
        let story = Story { agent: Agent::start_as(&content)? };
        let token = story.put("/v1/acl/bootstrap", &Value::Null)?;
        let secret = token["SecretID"].as_str().context("a secret")?;
        story.call(&Request::new("GET", "/v1/jobs").header("X-Nomad-Token", secret))?;
        story.ask(&Request::new("GET", "/v1/jobs"))?;
        Ok((story, format!("token:{}", token["AccessorID"].as_str().context("an accessor")?)))
    };
    let (story, management) = start("labelled", json!({"prometheus_metrics": true}))?;
    let told = scrape(&story)?;
    assert_eq!(told.value("nomad_nomad_rpc_job_list", &[("identity", &management)]), Some(1.0));
    assert_eq!(told.value("nomad_nomad_rpc_job_list", &[("identity", "token:anonymous")]), Some(1.0));
    assert_eq!(told.value("nomad_nomad_rpc_job_list", &[]), None);
    let (story, _) = start("plain", json!({"prometheus_metrics": true, "disable_rpc_rate_metrics_labels": true}))?;
    let told = scrape(&story)?;
    assert_eq!(told.value("nomad_nomad_rpc_job_list", &[]), Some(2.0));
    ensure!(told.samples.keys().all(|(_, labels)| !labels.contains_key("identity")), "somebody is named");
    Ok(())
}

#[test]
fn prometheus_format_is_refused_unless_enabled() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let agent = Agent::start(&Setup { data_dir: Some(dir.path().to_owned()), ..Setup::dev() })?;
    let story = Story { agent };
    let answer = story.ask(&Request::new("GET", "/v1/metrics?format=prometheus"))?;
    assert_eq!((answer.head.status, &*answer.text()), (415, "Prometheus is not enabled"));
    assert_eq!(story.get("/v1/metrics?format=json")?["Points"], json!([]));
    Ok(())
}
