//! TLS between whole agents: three servers and a node, and strangers with certificates of another CA. The tests of
//! the port itself cover handshakes.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::Request;
use crate::story::{Story, WITHIN, texts};

/// An agent's certificate, and the CA that it trusts.
#[derive(Clone, Copy)]
struct Papers {
    certificate: &'static str,
    authority: &'static str,
}

const SERVER: Papers = Papers { certificate: "server", authority: "ca" };
const CLIENT: Papers = Papers { certificate: "client", authority: "ca" };
/// The certificate names a server of the region, but is signed by another CA.
const STRANGER: Papers = Papers { certificate: "stranger", authority: "other-ca" };

fn tls(papers: Papers) -> Value {
    let file = |name: &str| -> PathBuf { Path::new(env!("CARGO_MANIFEST_DIR")).join("rpc/tests/tls").join(name) };
    json!({
        "rpc": true,
        "verify_server_hostname": true,
        "ca_file": file(&format!("{}.pem", papers.authority)),
        "cert_file": file(&format!("{}.pem", papers.certificate)),
        "key_file": file(&format!("{}.key.pem", papers.certificate)),
    })
}

fn server(dir: &Path, rpc: &[u16], own: usize, expect: usize, papers: Papers) -> Result<Story> {
    let others: Vec<String> = rpc.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let content = json!({
        "data_dir": dir.join(format!("server-{own}")),
        "name": format!("server-{own}"),
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0, "rpc": rpc[own], "serf": 0},
        "server": {"enabled": true, "bootstrap_expect": expect, "server_join": {"retry_join": others}},
        "tls": tls(papers),
    });
    Ok(Story { agent: Agent::start_as(&content)? })
}

fn node(dir: &Path, name: &str, rpc: &[u16], papers: Papers) -> Result<Story> {
    let servers: Vec<String> = rpc.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let content = json!({
        "data_dir": dir.join(name),
        "name": name,
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0},
        "client": {"enabled": true, "servers": servers, "gc_disk_usage_threshold": 100},
        "plugin": {"raw_exec": {"config": {"enabled": true}}},
        "tls": tls(papers),
    });
    Ok(Story { agent: Agent::start_as(&content)? })
}

fn ports(count: usize) -> Result<Vec<u16>> {
    let listeners = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<Vec<_>>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

fn job() -> Value {
    json!({"Job": {
        "ID": "safe", "Name": "safe", "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{
            "Name": "g", "Count": 1,
            "Tasks": [{
                "Name": "t", "Driver": "raw_exec",
                "Config": {"command": "/bin/sh", "args": ["-c", "echo ready; exec sleep 86400"]},
                "Resources": {"CPU": 10, "MemoryMB": 10},
            }],
        }],
    }})
}

/// Waits until an agent knows the leader.
fn wait_for_leader(agent: &Story) -> Result<()> {
    let deadline = Instant::now() + WITHIN;
    while agent.get("/v1/status/leader")? == "" {
        ensure!(Instant::now() < deadline, "nobody leads: {}", agent.agent.last_lines());
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    Ok(())
}

/// Waits until an agent has logged a line that has all of these words.
fn wait_for_line(agent: &Story, words: &[&str]) -> Result<()> {
    let deadline = Instant::now() + WITHIN;
    loop {
        let log = String::from_utf8_lossy(&agent.agent.log()?).into_owned();
        if log.lines().any(|line| words.iter().all(|word| line.contains(word))) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "no line with {words:?} in the log:\n{log}");
        std::thread::park_timeout(std::time::Duration::from_millis(100));
    }
}

#[test]
fn cluster_with_certificates_works_and_strangers_are_refused() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let rpc = ports(4)?;
    let servers: Vec<Story> = (0..3).map(|own| server(dir.path(), &rpc[..3], own, 3, SERVER)).collect::<Result<_>>()?;
    servers.iter().try_for_each(wait_for_leader)?;
    let node = node(dir.path(), "inside", &rpc[..1], CLIENT)?;

    servers[0].wait("/v1/nodes", |nodes| texts(nodes, "Status") == ["ready"])?;
    // Written through a server, run by the node, and its log read through every server and the node itself.
    servers[1].put("/v1/jobs", &job())?;
    let allocs = servers[2].wait_for_running("safe", 1, 0)?;
    let alloc = allocs[0]["ID"].as_str().context("an id")?;
    for agent in servers.iter().chain([&node]) {
        let target = format!("/v1/client/fs/logs/{alloc}?task=t&type=stdout&plain=true");
        let log = agent.call(&Request::new("GET", &target))?.text();
        ensure!(log == "ready\n", "the log through {}: {log:?}", agent.http());
    }
    let peers = servers[0].get("/v1/status/peers")?;
    ensure!(peers.as_array().is_some_and(|peers| peers.len() == 3), "{peers}");

    // A server and a node with certificates of another CA can connect to none, and both sides log the reason.
    let outsiders =
        [server(dir.path(), &rpc, 3, 3, STRANGER)?, self::node(dir.path(), "outside", &rpc[..1], STRANGER)?];
    for outsider in &outsiders {
        wait_for_line(outsider, &["invalid peer certificate: UnknownIssuer"])?;
    }
    wait_for_line(&servers[0], &["a handshake of TLS", "received fatal alert"])?;
    ensure!(texts(&servers[0].get("/v1/nodes")?, "Name") == ["inside"], "a stranger got in");
    let members = servers[0].get("/v1/agent/members")?;
    ensure!(members["Members"].as_array().is_some_and(|members| members.len() == 3), "{members}");
    Ok(())
}

#[test]
fn agent_without_tls_cannot_register_with_a_tls_server() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let rpc = ports(1)?;
    let server = server(dir.path(), &rpc, 0, 1, SERVER)?;
    let content = json!({
        "data_dir": dir.path().join("plain"),
        "name": "plain",
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0},
        "client": {"enabled": true, "servers": [format!("127.0.0.1:{}", rpc[0])]},
    });
    let plain = Story { agent: Agent::start_as(&content)? };
    wait_for_line(&server, &["a connection without TLS"])?;
    wait_for_line(&plain, &["registering the node"])?;
    ensure!(texts(&server.get("/v1/nodes")?, "Name").is_empty(), "a node without a certificate got in");
    Ok(())
}
