//! Two agents without a server run jobs while the servers are killed one after another and the network fails. Their
//! tasks keep running undisturbed, and logs and exec work through any remaining server.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cluster::{Cluster, WITHIN};
use crate::http::Request;
use crate::switch::Faults;
use crate::wait::until;
use crate::{Run, say};

const SERVERS: usize = 3;
const NODES: usize = 2;
/// Text that each task prints once.
const WORDS: &str = "the task was here";

#[test]
fn nodes_continue_with_another_server_when_theirs_is_killed() -> Result<()> {
    let Some(run) = Run::begin("nodes") else { return Ok(()) };
    let mut cluster = Cluster::start_with(SERVERS, NODES, run.seed, &json!({}), |_| Ok(()))?;
    wait(&cluster, "both nodes are ready", |cluster| {
        let (_, nodes) = cluster.servers[0].get("/v1/nodes")?;
        Ok(count(&nodes, "Status", "ready") == NODES)
    })?;
    register(&cluster, 0, "steady")?;
    let allocs = running(&cluster, 0, "steady")?;
    everything_through(&cluster, &allocs, 0..SERVERS)?;

    for victim in 0..SERVERS {
        cluster.servers[victim].kill()?;
        let left = cluster.others(victim);
        // Nodes that were connected to the killed server have moved to another one: a new job is placed and runs.
        let job = format!("without-{victim}");
        register(&cluster, left[0], &job)?;
        running(&cluster, left[1], &job)?;
        everything_through(&cluster, &allocs, left.iter().copied())
            .with_context(|| format!("without {}", cluster.servers[victim].name))?;
        cluster.start_again(victim)?;
        cluster.leader()?;
    }

    // A partition in which a node reaches one server only.
    let node = SERVERS;
    let cut = [0, 1].into_iter().flat_map(|server| [(server, node), (node, server)]).collect();
    cluster.set(Faults { cut, ..Faults::default() });
    register(&cluster, 0, "cut-off")?;
    running(&cluster, 1, "cut-off")?;
    cluster.set(Faults::default());
    everything_through(&cluster, &allocs, 0..SERVERS)?;

    let still = running(&cluster, 2, "steady")?;
    ensure!(ids(&still) == ids(&allocs), "other allocs run now: {:?} and not {:?}", ids(&still), ids(&allocs));
    let restarts: Vec<&Value> = still.iter().map(|alloc| &alloc["TaskStates"]["talker"]["Restarts"]).collect();
    ensure!(restarts.iter().all(|restarts| **restarts == 0), "tasks were restarted: {restarts:?}");
    say(
        "nodes: 2 nodes ran their tasks through the death of each of 3 servers; logs and commands through every server",
    );
    // Tasks have to end before their namespaces are removed.
    for job in ["steady", "without-0", "without-1", "without-2", "cut-off"] {
        cluster.servers[0].call(&Request::new("DELETE", &format!("/v1/job/{job}")))?;
    }
    wait(&cluster, "all tasks have ended", |cluster| {
        let (_, allocs) = cluster.servers[0].get("/v1/allocations")?;
        Ok(count(&allocs, "ClientStatus", "running") == 0)
    })
}

/// Registers a job of one task on each node.
fn register(cluster: &Cluster, through: usize, id: &str) -> Result<()> {
    let job = json!({"Job": {
        "ID": id,
        "Name": id,
        "Type": "service",
        "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group",
            "Count": NODES,
            "Constraints": [{"Operand": "distinct_hosts", "RTarget": "true"}],
            "Tasks": [{
                "Name": "talker",
                "Driver": "raw_exec",
                "Config": {"command": "/bin/sh", "args": ["-c", format!("echo {WORDS}; exec sleep 3600")]},
                "Resources": {"CPU": 20, "MemoryMB": 16},
            }],
        }],
    }});
    let request = Request::new("PUT", "/v1/jobs").json(&job).header("Idempotency-Key", id);
    let mut last = String::new();
    // The leader may just have been killed.
    let registered = until(Instant::now() + WITHIN, || match cluster.servers[through].call(&request) {
        Ok(answer) => {
            last = format!("{} {}", answer.head.status, answer.text());
            answer.head.status == 200
        }
        Err(error) => {
            last = format!("{error:#}");
            false
        }
    });
    ensure!(registered, "registering {id}: {last}");
    Ok(())
}

/// Waits until a job has a running task on each node, and returns the allocs.
fn running(cluster: &Cluster, through: usize, job: &str) -> Result<Vec<Value>> {
    let mut allocs = Value::Null;
    wait(cluster, &format!("{job} runs on both nodes"), |cluster| {
        allocs = cluster.servers[through].get(&format!("/v1/job/{job}/allocations"))?.1;
        Ok(count(&allocs, "ClientStatus", "running") == NODES)
    })?;
    allocs.as_array().cloned().context("a list of allocs")
}

/// Reads the logs of every alloc and runs a command in it, through each of these servers.
fn everything_through(cluster: &Cluster, allocs: &[Value], servers: impl Iterator<Item = usize>) -> Result<()> {
    for server in servers {
        let name = &cluster.servers[server].name;
        for id in ids(allocs) {
            let target = format!("/v1/client/fs/logs/{id}?task=talker&type=stdout&plain=true");
            wait(cluster, &format!("the logs of {id} through {name}"), |cluster| {
                let answer = cluster.servers[server].call(&Request::new("GET", &target))?;
                ensure!(answer.head.status == 200, "{} {}", answer.head.status, answer.text());
                Ok(answer.text().contains(WORDS))
            })?;
            wait(cluster, &format!("a command in {id} through {name}"), |cluster| {
                let out = Command::new(env!("CARGO_BIN_EXE_songline"))
                    .args([
                        "alloc",
                        "exec",
                        "-i=false",
                        "-t=false",
                        "-address",
                        &format!("http://{}", cluster.servers[server].http),
                        &id,
                    ])
                    .args(["/bin/echo", "heard"])
                    .output()
                    .context("running alloc exec")?;
                ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
                Ok(String::from_utf8_lossy(&out.stdout).trim() == "heard")
            })?;
        }
    }
    Ok(())
}

/// Polls until the condition holds. Errors are reported only if it never does.
fn wait(cluster: &Cluster, what: &str, mut is_so: impl FnMut(&Cluster) -> Result<bool>) -> Result<()> {
    let mut last = String::from("it is not so");
    let became = until(Instant::now() + WITHIN, || match is_so(cluster) {
        Ok(is_so) => is_so,
        Err(error) => {
            last = format!("{error:#}");
            false
        }
    });
    let nodes: Vec<String> = cluster.nodes.iter().map(|node| format!("{}: {}", node.name, node.last_lines())).collect();
    ensure!(became, "{what}: {last}; {}; {}", cluster.last_words(), nodes.join("; "));
    Ok(())
}

fn ids(allocs: &[Value]) -> Vec<String> {
    let mut ids: Vec<String> = allocs.iter().filter_map(|alloc| alloc["ID"].as_str().map(str::to_owned)).collect();
    ids.sort();
    ids
}

fn count(rows: &Value, field: &str, value: &str) -> usize {
    rows.as_array().into_iter().flatten().filter(|row| row[field] == value).count()
}
