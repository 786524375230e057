//! The agent's own log over HTTP, and other information about an agent: its workers and threads. Not here: invalid
//! parameters, which recorded conversations test.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::http::{Connection, Request};
use crate::story::{Story, WITHIN};

/// Reads a stream until the text satisfies a condition.
fn read_until(connection: &mut Connection, enough: impl Fn(&str) -> bool) -> Result<String> {
    let deadline = Instant::now() + WITHIN;
    let mut read = Vec::new();
    while !enough(&String::from_utf8_lossy(&read)) {
        read.extend(connection.read_some(deadline)?.context("the stream ended")?);
    }
    Ok(String::from_utf8_lossy(&read).into_owned())
}

fn open(story: &Story, target: &str) -> Result<Connection> {
    let mut connection = Connection::open(story.http(), Instant::now() + WITHIN)?;
    let head = connection.send(&Request::new("GET", target), Instant::now() + WITHIN)?;
    ensure!(head.status == 200, "{target}: {}", head.status);
    Ok(connection)
}

/// Makes the agent log a line: registers a job whose task cannot start.
fn say_something(story: &Story, job: &str) -> Result<()> {
    let task = json!({"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"}});
    let group = json!({"Name": "g", "Tasks": [task]});
    story.put("/v1/jobs", &json!({"Job": {"ID": job, "Datacenters": ["*"], "TaskGroups": [group]}}))?;
    story.wait_for_running(job, 1, 0)?;
    Ok(())
}

#[test]
fn agent_log_is_streamed_as_text_json_and_frames() -> Result<()> {
    let story = Story::begin()?;
    let mut plain = open(&story, "/v1/agent/monitor?log_level=trace&plain=true")?;
    let mut objects =
        open(&story, "/v1/agent/monitor?log_level=trace&plain=true&log_json=true&log_include_location=true")?;
    let mut frames = open(&story, "/v1/agent/monitor?log_level=trace&node_id=")?;
    say_something(&story, "talk")?;
    let text = read_until(&mut plain, |text| text.lines().count() >= 2)?;
    let line = text.lines().next().context("a line")?;
    ensure!(["[TRACE]", "[DEBUG]", "[INFO]", "[WARN]"].iter().any(|level| line.contains(level)), "{line}");
    ensure!(line.contains(" songline"), "{line}");
    let text = read_until(&mut objects, |text| text.contains('\n'))?;
    let object: Value = serde_json::from_str(text.lines().next().context("a line")?)?;
    ensure!(object["@module"].as_str().is_some_and(|module| module.starts_with("songline")), "{object}");
    ensure!(object["@caller"].as_str().is_some_and(|place| place.contains(".rs:")), "{object}");
    // Heartbeat frames are sent while there are no lines.
    let text = read_until(&mut frames, |text| text.contains("{}") && text.contains("Data"))?;
    let mut parts = serde_json::Deserializer::from_str(&text).into_iter::<Value>().filter_map(Result::ok);
    let frame = parts.find(|part| part["FileEvent"] == "log").context("a frame of the log")?;
    let data = String::from_utf8(STANDARD.decode(frame["Data"].as_str().context("its data")?)?)?;
    ensure!(data.ends_with('\n') && data.contains("songline"), "{data}");
    Ok(())
}

#[test]
fn scheduler_workers_are_listed_and_can_be_reconfigured() -> Result<()> {
    let story = Story::begin()?;
    let shown = story.get("/v1/agent/schedulers")?;
    let workers = shown["schedulers"].as_array().context("workers")?.len();
    ensure!(workers > 0 && shown["schedulers"][0]["status"] == "Started", "{shown}");
    let config = story.get("/v1/agent/schedulers/config")?;
    ensure!(config["num_schedulers"] == workers, "{config}");

    let mut fewer = config.clone();
    fewer["num_schedulers"] = json!(1);
    ensure!(story.put("/v1/agent/schedulers/config", &fewer)? == fewer);
    // The one new worker replaces the earlier ones and processes evaluations.
    let shown = story.get("/v1/agent/schedulers")?;
    ensure!(shown["schedulers"].as_array().map(Vec::len) == Some(1), "{shown}");
    say_something(&story, "after")?;
    for refused in [
        json!({"num_schedulers": -1, "enabled_schedulers": ["_core"]}),
        json!({"num_schedulers": 1, "enabled_schedulers": ["x"]}),
    ] {
        let answer = story.ask(&Request::new("PUT", "/v1/agent/schedulers/config").json(&refused))?;
        ensure!(answer.head.status == 400 && answer.text() == "Invalid request", "{}", answer.text());
    }
    ensure!(story.get("/v1/agent/schedulers/config")? == fewer);
    Ok(())
}

#[test]
fn supported_pprof_profiles_are_served_and_others_refused() -> Result<()> {
    let story = Story::begin()?;
    let ask = |target: &str| -> Result<(u16, String)> {
        let answer = story.ask(&Request::new("GET", target))?;
        Ok((answer.head.status, answer.text()))
    };
    let (status, text) = ask("/v1/agent/pprof/cmdline")?;
    ensure!(status == 200 && text.contains("songline\0agent"), "{status} {text}");
    let (status, text) = ask("/v1/agent/pprof/goroutine?debug=2")?;
    ensure!(status == 200 && text.contains("tokio"), "{status} {text}");
    let measured = story.ask(&Request::new("GET", "/v1/agent/pprof/profile?seconds=1"))?;
    ensure!(
        measured.head.header("Content-Disposition") == Some("attachment; filename=\"profile\""),
        "{}",
        measured.text()
    );
    ensure!(measured.head.status == 200 && measured.body.starts_with(&[0x1f, 0x8b]), "{}", measured.text());
    ensure!(ask("/debug/pprof/cmdline")?.0 == 200);
    let (status, text) = ask("/v1/agent/pprof/heap?debug=1")?;
    ensure!(status == 200 && text.contains("[stack]"), "{status} {text}");
    let (status, text) = ask("/v1/agent/pprof/trace?seconds=1")?;
    ensure!(status == 200 && text.contains("traceEvents") && text.contains("thread_name"), "{status} {text}");
    ensure!(ask("/v1/agent/pprof/mutex")?.0 == 501);
    ensure!(ask("/v1/agent/pprof/nonsense")?.0 == 404);
    ensure!(ask("/v1/agent/pprof/cmdline?server_id=nobody")? == (500, "unknown Nomad server nobody".to_owned()));
    Ok(())
}

#[test]
fn alloc_snapshot_packs_data_and_omits_secrets() -> Result<()> {
    let story = Story::begin()?;
    let script = "echo shared > $NOMAD_ALLOC_DIR/data/file; echo own > $NOMAD_TASK_DIR/file; exec sleep 86400";
    let task = json!({"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/sh", "args": ["-c", script]}, "KillTimeout": 1_000_000_000});
    let group = json!({"Name": "g", "Tasks": [task]});
    story.put("/v1/jobs", &json!({"Job": {"ID": "data", "Datacenters": ["*"], "TaskGroups": [group]}}))?;
    let allocs = story.wait_for_running("data", 1, 0)?;
    let id = allocs[0]["ID"].as_str().context("an alloc's id")?;
    let deadline = Instant::now() + WITHIN;
    loop {
        let packed = story.call(&Request::new("GET", &format!("/v1/client/allocation/{id}/snapshot")))?;
        let mut archive = tar::Archive::new(packed.body.as_slice());
        let names: Vec<String> =
            archive.entries()?.map(|entry| Ok(entry?.path()?.display().to_string())).collect::<Result<_>>()?;
        if names.iter().any(|name| name == "alloc/data/file") && names.iter().any(|name| name == "t/local/file") {
            ensure!(names.iter().all(|name| !name.contains("secrets")), "{names:?}");
            break;
        }
        ensure!(Instant::now() < deadline, "{names:?}");
    }
    let missing =
        story.ask(&Request::new("GET", "/v1/client/allocation/11111111-2222-3333-4444-555555555555/snapshot"))?;
    ensure!((missing.head.status, missing.text().as_str()) == (500, "allocation not found"));
    Ok(())
}
