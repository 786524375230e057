//! An agent and its signals, beside stopping at once: it reads its configuration again on SIGHUP, and drains its node
//! before it ends where the configuration asks for that.

use std::net::TcpListener;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::Request;
use crate::story::{Story, WITHIN, texts};

fn dev(rack: &str, level: &str) -> Value {
    json!({
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0, "rpc": 0, "serf": 0},
        "log_level": level,
        "client": {"meta": {"rack": rack, "same": "x"}},
        "plugin": {"docker": {"config": {"endpoint": "unix:///no/engine"}}},
    })
}

#[test]
fn configuration_is_read_again_on_sighup_and_a_bad_one_changes_nothing() -> Result<()> {
    let story = Story { agent: Agent::start_as(&dev("r1", "WARN"))? };
    let nodes = story.wait("/v1/nodes", |nodes| texts(nodes, "Status") == ["ready"])?;
    let node = format!("/v1/node/{}", nodes[0]["ID"].as_str().context("an id")?);
    // Metadata that was set at run time stays, over the configured one.
    story.call(&Request::new("POST", "/v1/client/metadata").json(&json!({"Meta": {"own": "1"}})))?;
    story.agent.reconfigure(&dev("r2", "INFO").to_string())?;
    let changed = story.wait(&node, |node| node["Meta"]["rack"] == "r2")?;
    ensure!(changed["Meta"]["own"] == "1" && changed["Meta"]["same"] == "x", "{}", changed["Meta"]);
    // Only the new level shows this line.
    until_said(&story.agent, "the configuration is read again")?;

    story.agent.reconfigure(r#"{"client": {"nope": 1}}"#)?;
    until_said(&story.agent, "client unexpected keys nope")?;
    ensure!(story.get(&node)?["Meta"]["rack"] == "r2");
    story.agent.reconfigure(&dev("r3", "INFO").to_string())?;
    story.wait(&node, |node| node["Meta"]["rack"] == "r3")?;
    Ok(())
}

/// Waits until the agent's log has a text.
fn until_said(agent: &Agent, text: &str) -> Result<()> {
    let deadline = Instant::now() + WITHIN;
    while !String::from_utf8_lossy(&agent.log()?).contains(text) {
        ensure!(Instant::now() < deadline, "the log never had {text:?}");
        std::thread::yield_now();
    }
    Ok(())
}

fn job() -> Value {
    json!({"Job": {
        "ID": "moves", "Name": "moves", "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{"Name": "g", "Count": 1, "Tasks": [{
            "Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/sleep", "args": ["86400"]},
            "Resources": {"CPU": 10, "MemoryMB": 10},
        }]}],
    }})
}

#[test]
fn node_is_drained_before_its_agent_stops_where_that_is_configured() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let rpc = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let servers = Story {
        agent: Agent::start_as(&json!({
            "data_dir": dir.path().join("server"),
            "bind_addr": "127.0.0.1",
            "ports": {"http": 0, "rpc": rpc, "serf": 0},
            "server": {"enabled": true, "bootstrap_expect": 1},
        }))?,
    };
    let node = Agent::start_as(&json!({
        "data_dir": dir.path().join("node"),
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0},
        "leave_on_interrupt": true,
        "client": {
            "enabled": true,
            "servers": [format!("127.0.0.1:{rpc}")],
            "gc_disk_usage_threshold": 100,
            "drain_on_shutdown": {"deadline": "30s"},
        },
        "plugin": {"raw_exec": {"config": {"enabled": true}}},
    }))?;
    let nodes = servers.wait("/v1/nodes", |nodes| texts(nodes, "Status") == ["ready"])?;
    servers.put("/v1/jobs", &job())?;
    servers.wait_for_running("moves", 1, 0)?;
    node.interrupt_within(WITHIN)?;
    let id = nodes[0]["ID"].as_str().context("an id")?;
    let drained = servers.get(&format!("/v1/node/{id}"))?;
    ensure!(drained["DrainStrategy"].is_null() && drained["SchedulingEligibility"] == "ineligible", "{drained}");
    ensure!(drained["LastDrain"]["Status"] == "complete", "{}", drained["LastDrain"]);
    ensure!(drained["LastDrain"]["Meta"]["message"] == "shutting down", "{}", drained["LastDrain"]);
    let allocs = servers.get("/v1/job/moves/allocations")?;
    ensure!(texts(&allocs, "ClientStatus").contains(&"complete"), "{allocs}");
    Ok(())
}
