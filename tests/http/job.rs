//! A job's whole life: registered, running, scaled, changed, stopped, purged; and its events in both formats. Not
//! here: lost nodes.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::http::{Connection, Request};
use crate::process;
use crate::story::{Story, WITHIN, texts};

const JOB: &str = "life";

/// A service of `count` shells that print `word` and then wait.
fn job(count: u32, word: &str) -> Value {
    json!({"Job": {
        "ID": JOB,
        "Name": JOB,
        "Type": "service",
        "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group",
            "Count": count,
            "Update": {
                "MaxParallel": 5,
                "HealthCheck": "task_states",
                "MinHealthyTime": 100_000_000,
                "HealthyDeadline": 30_000_000_000u64,
                "ProgressDeadline": 60_000_000_000u64,
            },
            "Tasks": [{
                "Name": "task",
                "Driver": "raw_exec",
                "Config": {"command": "/bin/sh", "args": ["-c", format!("echo {word}; exec sleep 86400")]},
                "KillTimeout": 1_000_000_000,
                "Resources": {"CPU": 20, "MemoryMB": 16},
            }],
        }],
    }})
}

#[test]
fn job_runs_scales_up_is_updated_stopped_and_purged() -> Result<()> {
    let story = Story::begin()?;
    let mut lines = story.subscribe("after_index=0", "application/json")?;
    let mut packed = story.subscribe("after_index=0", "application/msgpack")?;

    let registered = story.put("/v1/jobs", &job(3, "first"))?;
    let eval = registered["EvalID"].as_str().context("an evaluation's id")?;
    story.wait(&format!("/v1/evaluation/{eval}"), |e| e["Status"] == "complete")?;
    let allocs = story.wait_for_running(JOB, 3, 0)?;
    for alloc in &allocs {
        let id = alloc["ID"].as_str().context("an alloc's id")?;
        let logs = format!("/v1/client/fs/logs/{id}?task=task&type=stdout&plain=true");
        ensure!(story.call(&Request::new("GET", &logs))?.text() == "first\n");
    }
    wait_for_deployment(&story, 0)?;

    story.put("/v1/jobs", &job(5, "first"))?;
    let grown = story.wait_for_running(JOB, 5, 1)?;
    let ids: Vec<&Value> = grown.iter().map(|alloc| &alloc["ID"]).collect();
    ensure!(allocs.iter().all(|alloc| ids.contains(&&alloc["ID"])), "a new count replaced allocs that could stay");
    wait_for_deployment(&story, 1)?;

    story.put("/v1/jobs", &job(5, "second"))?;
    let replaced = story.wait_for_running(JOB, 5, 2)?;
    ensure!(replaced.iter().all(|alloc| !ids.contains(&&alloc["ID"])), "a new command needs new allocs");
    wait_for_deployment(&story, 2)?;
    let versions = story.get(&format!("/v1/job/{JOB}/versions"))?;
    ensure!(versions["Versions"].as_array().map(Vec::len) == Some(3));

    let tasks = process::descendants(story.agent.pid());
    story.call(&Request::new("DELETE", &format!("/v1/job/{JOB}")))?;
    story.wait_for_running(JOB, 0, 2)?;
    ensure!(!tasks.is_empty(), "the job ran no process");
    for task in &tasks {
        ensure!(task.ends_before(Instant::now() + WITHIN), "{task:?} outlived its job");
    }
    let purged = story.call(&Request::new("DELETE", &format!("/v1/job/{JOB}?purge=true")))?;
    let end = purged.index().context("a write tells its index")?;
    ensure!(texts(&story.get("/v1/jobs")?, "ID").is_empty());

    // The purge writes an evaluation, whose event is the last that both streams must have.
    let lines = events_until(&mut lines, end, line)?;
    let packed = events_until(&mut packed, end, pack)?;
    ensure!(lines == packed, "{} events as lines and {} as msgpack", lines.len(), packed.len());
    for topic in ["Job", "Evaluation", "Allocation", "Deployment"] {
        ensure!(lines.iter().any(|event| event["Topic"] == topic), "no event of topic {topic}");
    }
    Ok(())
}

fn wait_for_deployment(story: &Story, version: u64) -> Result<()> {
    let target = format!("/v1/job/{JOB}/deployment");
    let done = |d: &Value| d["JobVersion"] == version && d["Status"] == "successful";
    story.wait(&target, done).map(drop)
}

/// The events of all frames up to and with that of entry `end`.
fn events_until(
    stream: &mut Connection,
    end: u64,
    next: impl Fn(&[u8]) -> Result<Option<(Value, usize)>>,
) -> Result<Vec<Value>> {
    let deadline = Instant::now() + WITHIN;
    let (mut rest, mut events) = (Vec::new(), Vec::new());
    loop {
        while let Some((frame, size)) = next(&rest)? {
            rest.drain(..size);
            let index = frame["Index"].as_u64().unwrap_or_default();
            if let Some(more) = frame["Events"].as_array() {
                events.extend(more.iter().cloned());
                if index >= end {
                    return Ok(events);
                }
            }
        }
        let part = stream.read_some(deadline)?;
        rest.extend(part.context("the stream ended early")?);
    }
}

/// A frame of JSON lines at the start of `bytes`, and its size.
pub fn line(bytes: &[u8]) -> Result<Option<(Value, usize)>> {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => Ok(Some((serde_json::from_slice(&bytes[..end])?, end + 1))),
        None => Ok(None),
    }
}

/// A msgpack frame at the start of `bytes`, and its size.
pub fn pack(bytes: &[u8]) -> Result<Option<(Value, usize)>> {
    let mut rest = bytes;
    match rmpv::decode::read_value(&mut rest) {
        Ok(value) => Ok(Some((plain(value)?, bytes.len() - rest.len()))),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Converts a msgpack value to JSON.
fn plain(value: rmpv::Value) -> Result<Value> {
    Ok(match value {
        rmpv::Value::Nil => Value::Null,
        rmpv::Value::Boolean(b) => b.into(),
        rmpv::Value::Integer(i) => match (i.as_u64(), i.as_i64()) {
            (Some(u), _) => u.into(),
            (None, Some(i)) => i.into(),
            (None, None) => anyhow::bail!("the integer {i}"),
        },
        rmpv::Value::F32(f) => f64::from(f).into(),
        rmpv::Value::F64(f) => f.into(),
        rmpv::Value::String(s) => s.into_str().context("a text that is not UTF-8")?.into(),
        rmpv::Value::Array(list) => list.into_iter().map(plain).collect::<Result<Value>>()?,
        rmpv::Value::Map(pairs) => {
            let mut map = serde_json::Map::new();
            for (key, value) in pairs {
                let key = key.as_str().context("a key that is no text")?.to_string();
                map.insert(key, plain(value)?);
            }
            Value::Object(map)
        }
        other => anyhow::bail!("JSON has nothing like {other}"),
    })
}
