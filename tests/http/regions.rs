//! Regions that know each other: servers of two regions meet once, and requests for the other region are answered there.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::{self, Request};
use crate::story::{Story, WITHIN};

pub fn region(dir: &Path, name: &str) -> Result<Story> {
    region_with(dir, name, &Value::Null)
}

/// A region of one server and one node, with this `acl` block.
pub fn region_with(dir: &Path, name: &str, acl: &Value) -> Result<Story> {
    let mut content = json!({
        "data_dir": dir.join(name),
        "name": name,
        "region": name,
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0, "rpc": 0, "serf": 0},
        "server": {"enabled": true, "bootstrap_expect": 1},
        "client": {"enabled": true, "gc_disk_usage_threshold": 100, "gc_inode_usage_threshold": 100},
        "plugin": {"raw_exec": {"config": {"enabled": true}}},
    });
    if !acl.is_null() {
        content["acl"] = acl.clone();
    }
    Ok(Story { agent: Agent::start_as(&content)? })
}

/// The membership port of an agent, as its own member entry says.
pub fn serf_address(story: &Story) -> Result<String> {
    let member = &story.get("/v1/agent/self")?["member"];
    let (host, port) = (member["Addr"].as_str().context("an address")?, member["Port"].as_u64().context("a port")?);
    Ok(format!("{host}:{port}"))
}

/// Asks until the answer is good. The routes of agents have no blocking queries.
pub fn until(story: &Story, target: &str, good: impl Fn(&Value) -> bool) -> Result<Value> {
    let deadline = Instant::now() + WITHIN;
    loop {
        let answer = story.get(target)?;
        if good(&answer) {
            return Ok(answer);
        }
        ensure!(Instant::now() < deadline, "{target}: {answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn join(from: &Story, to: &Story) -> Result<()> {
    let joined = from.put(&format!("/v1/agent/join?address={}", serf_address(to)?), &Value::Null)?;
    ensure!(joined["num_joined"] == 1, "{joined}");
    Ok(())
}

fn job(region: &str) -> Value {
    json!({"Job": {
        "ID": "traveller", "Region": region, "Datacenters": ["*"], "Type": "batch",
        "TaskGroups": [{"Name": "group", "Tasks": [{
            "Name": "task", "Driver": "raw_exec",
            "Config": {"command": "/bin/sh", "args": ["-c", "echo here is $NOMAD_REGION"]},
            "Resources": {"CPU": 20, "MemoryMB": 16},
        }]}],
    }})
}

#[test]
fn requests_for_another_region_are_answered_by_its_servers() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (east, west) = (region(dir.path(), "east")?, region(dir.path(), "west")?);
    let refused = east.ask(&Request::new("GET", "/v1/jobs?region=west"))?;
    ensure!(refused.head.status == 500 && refused.text() == "No path to region", "{}", refused.text());

    join(&east, &west)?;
    for (story, expected) in [(&east, ["east.east", "west.west"]), (&west, ["west.west", "east.east"])] {
        until(story, "/v1/regions", |regions| *regions == json!(["east", "west"]))?;
        let members =
            until(story, "/v1/agent/members", |answer| answer["Members"].as_array().is_some_and(|all| all.len() == 2))?;
        let names: Vec<&Value> =
            members["Members"].as_array().into_iter().flatten().map(|member| &member["Name"]).collect();
        ensure!(names == expected, "the server that answers comes first: {names:?}");
    }

    // A job, its allocation and its output, all asked for in the other region.
    east.put("/v1/jobs?region=west", &job("west"))?;
    let allocs =
        east.wait("/v1/job/traveller/allocations?region=west", |allocs| allocs[0]["ClientStatus"] == "complete")?;
    let id = allocs[0]["ID"].as_str().context("an id")?;
    let logs = format!("/v1/client/fs/logs/{id}?task=task&type=stdout&plain=true&region=west");
    let answer = east.call(&Request::new("GET", &logs))?;
    ensure!(answer.text() == "here is west\n", "{}", answer.text());
    ensure!(east.get("/v1/jobs")? == json!([]), "the job is in the wrong region");

    // A stream of events, and its first one.
    let mut events = east.subscribe("topic=Job&index=0&region=west", "application/json")?;
    let deadline = Instant::now() + WITHIN;
    let mut heard = String::new();
    while !heard.contains("traveller") {
        let piece = events.read_some(deadline)?.context("the stream ended")?;
        heard.push_str(&String::from_utf8_lossy(&piece));
    }

    // A restarted server finds the other region again.
    let address = serf_address(&west)?;
    east.agent.interrupt()?;
    let east = region(dir.path(), "east")?;
    until(&east, "/v1/regions", |regions| *regions == json!(["east", "west"]))?;
    ensure!(serf_address(&west)? == address, "the other region was not restarted");

    // A region that is gone is no longer reached, and stays known until an operator removes it.
    let west_http = west.http();
    west.agent.kill()?;
    ensure!(http::call(west_http, &Request::new("GET", "/v1/jobs"), Instant::now() + WITHIN).is_err(), "it lives");
    let lost = east.ask(&Request::new("GET", "/v1/jobs?region=west"))?;
    ensure!(lost.head.status == 500 && lost.text().starts_with("rpc error: failed to get conn: "), "{}", lost.text());
    east.put("/v1/agent/force-leave?node=west.west", &Value::Null)?;
    until(&east, "/v1/regions", |regions| *regions == json!(["east"]))?;
    Ok(())
}

#[test]
fn a_region_that_meets_one_region_meets_those_that_it_knows() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (east, west) = (region(dir.path(), "east")?, region(dir.path(), "west")?);
    join(&east, &west)?;
    until(&west, "/v1/regions", |regions| *regions == json!(["east", "west"]))?;
    let south = region(dir.path(), "south")?;
    join(&south, &west)?;
    for story in [&south, &west, &east] {
        until(story, "/v1/regions", |regions| *regions == json!(["east", "south", "west"]))?;
    }
    south.put("/v1/jobs?region=east", &job("east"))?;
    south.wait("/v1/job/traveller/allocations?region=east", |allocs| allocs[0]["ClientStatus"] == "complete")?;
    Ok(())
}

#[test]
fn a_server_that_expects_none_waits_until_another_joins_it() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let content = json!({
        "data_dir": dir.path().join("waiting"),
        "name": "waiting",
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0, "rpc": 0, "serf": 0},
        "server": {"enabled": true, "bootstrap_expect": 0},
    });
    let waiting = Story { agent: Agent::start_as(&content)? };
    ensure!(waiting.get("/v1/status/leader")? == "", "it leads alone");
    let content = json!({
        "data_dir": dir.path().join("first"),
        "name": "first",
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0, "rpc": 0, "serf": 0},
        "server": {"enabled": true, "bootstrap_expect": 1},
    });
    let first = Story { agent: Agent::start_as(&content)? };
    until(&first, "/v1/status/leader", |leader| *leader != "")?;
    join(&first, &waiting)?;
    let members = first.get("/v1/agent/members")?;
    let names: Vec<&Value> =
        members["Members"].as_array().into_iter().flatten().map(|member| &member["Name"]).collect();
    ensure!(names == ["first.global", "waiting.global"], "{members}");
    until(&waiting, "/v1/status/leader", |leader| *leader != "")?;
    waiting.put("/v1/namespace", &json!({"Name": "through-the-second"}))?;
    first.wait("/v1/namespaces", |all| all.as_array().is_some_and(|all| all.len() == 2))?;
    Ok(())
}
