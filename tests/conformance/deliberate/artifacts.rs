//! Artifacts of tasks.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{World, script};

/// Runs a task with an artifact of this mode, from a server that answers one request. Returns the agent and the lines
/// of the request's head.
fn fetched(mode: &str, status: &str) -> Result<(World, String, Option<Vec<String>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let source = format!("http://{}/plain.txt", listener.local_addr()?);
    let world = World::start(false)?;
    let mut task = script("cat local/plain.txt");
    task["Artifacts"] = json!([{"GetterSource": source, "GetterMode": mode}]);
    let once = json!({"RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0}});
    world.run("fetches", "batch", once, task)?;
    // A file in mode `dir` is refused before anything is asked for.
    let head = (mode != "dir").then(|| answer_one(&listener)).transpose()?;
    let alloc = world.alloc("fetches", status)?;
    Ok((world, alloc, head))
}

/// Answers one request with a small file. Returns the lines of its head.
fn answer_one(listener: &TcpListener) -> Result<Vec<String>> {
    let (mut connection, _) = listener.accept()?;
    let lines = BufReader::new(connection.try_clone()?).lines();
    let head = lines.take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty())).collect::<Result<_, _>>()?;
    connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes")?;
    Ok(head)
}

#[test]
fn artifacts_headers() -> Result<()> {
    let (world, alloc, head) = fetched("any", "complete")?;
    let mut head = head.context("a request")?;
    head.retain(|line| !line.starts_with("Host: "));
    head.sort();
    ensure!(
        head == ["Accept-Encoding: gzip", "Accept: */*", "Connection: close", "GET /plain.txt HTTP/1.1"],
        "{head:?}"
    );
    let logs = world.done(&format!("GET /v1/client/fs/logs/{alloc}?task=t&type=stdout&plain=true"), Value::Null)?;
    ensure!(logs == "yes", "{logs}");
    Ok(())
}

#[test]
fn artifacts_modes() -> Result<()> {
    let (world, alloc, _) = fetched("dir", "failed")?;
    let state = &world.done(&format!("GET /v1/allocation/{alloc}"), Value::Null)?["TaskStates"]["t"];
    let events: Vec<&Value> = state["Events"].as_array().into_iter().flatten().collect();
    let failed = events.iter().find(|event| event["Type"] == "Failed Artifact Download").context("the event")?;
    let text = failed["DisplayMessage"].as_str().unwrap_or_default();
    ensure!(text.ends_with(": source is a file, and a directory is wanted"), "{text}");
    ensure!(state["Failed"] == true && state["StartedAt"].is_null(), "{state}");
    Ok(())
}
