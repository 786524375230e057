//! Configurations that decide which servers an agent accepts: configurations that do not start, and refused
//! connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::{Agent, Setup};
use crate::http::{self, Request};
use crate::story::WITHIN;

fn songline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_songline"))
}

/// Configuration of a server that joins servers on other machines.
fn elsewhere(dir: &Path, more: Value) -> Value {
    let mut server = json!({"enabled": true, "bootstrap_expect": 3, "server_join": {"retry_join": ["192.0.2.1"]}});
    server.as_object_mut().into_iter().for_each(|server| server.extend(more.as_object().cloned().unwrap_or_default()));
    json!({
        "data_dir": dir.join("data"),
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0, "rpc": 0, "serf": 0},
        "server": server,
    })
}

fn started(dir: &Path, content: &Value) -> Result<Output> {
    let config = dir.join("agent.json");
    std::fs::write(&config, content.to_string())?;
    Ok(songline().arg("agent").arg("-config").arg(&config).output()?)
}

/// Everything that a port sends to a connection that begins with `said`, until it closes the connection.
fn answer(agent: &Agent, port: u64, said: &[u8]) -> Result<Vec<u8>> {
    let mut conn = TcpStream::connect((agent.http.ip(), u16::try_from(port)?))?;
    conn.set_read_timeout(Some(Duration::from_secs(20)))?;
    conn.write_all(said)?;
    let mut answer = Vec::new();
    conn.read_to_end(&mut answer)?;
    Ok(answer)
}

fn rpc_port(agent: &Agent) -> Result<u64> {
    let own = http::call(agent.http, &Request::new("GET", "/v1/agent/self"), Instant::now() + WITHIN)?.json()?;
    own["config"]["Ports"]["RPC"].as_u64().context("the agent says where its servers' port is")
}

#[test]
fn server_without_peer_authentication_exits_with_advice_to_make_a_key() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let output = started(dir.path(), &elsewhere(dir.path(), json!({})))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success(), "it runs on: {said}");
    let message: Vec<_> =
        said.lines().filter(|line| line.contains("192.0.2.1:4647 is not an address of this machine")).collect();
    ensure!(message.len() == 1, "{said}");
    for word in
        ["songline operator gossip keyring generate", "encrypt", "server.global.nomad", "allow_unauthenticated_peers"]
    {
        ensure!(message[0].contains(word), "{word}: {said}");
    }

    let key = songline().args(["operator", "gossip", "keyring", "generate"]).output()?;
    let key = String::from_utf8(key.stdout)?.trim().to_owned();
    drop(Agent::start_as(&elsewhere(dir.path(), json!({"encrypt": key})))?);
    let open = Agent::start_as(&elsewhere(dir.path(), json!({"allow_unauthenticated_peers": true})))?;
    let log = String::from_utf8_lossy(&open.log()?).into_owned();
    ensure!(
        log.lines().any(|line| line.contains("WARN") && line.contains("allow_unauthenticated_peers is on")),
        "{log}"
    );
    Ok(())
}

#[test]
fn dev_agent_refuses_server_connections_and_logs_them() -> Result<()> {
    let agent = Agent::start(&Setup::dev())?;
    let port = rpc_port(&agent)?;
    for first in [0x10, 0x11, 0x13] {
        // Version 1 of the greeting, without a key: the answer is the code of a refusal, and nothing else.
        ensure!(answer(&agent, port, &[first, 1, 0])? == [4], "first byte {first:#x}");
    }
    // A refusal is answered before it is logged.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let log = String::from_utf8_lossy(&agent.log()?).into_owned();
        let refusals = log
            .lines()
            .filter(|line| line.contains("a connection of a server was refused") && line.contains("127.0.0.1:"));
        match refusals.count() {
            3 => break,
            _ => ensure!(Instant::now() < deadline, "{log}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // A request that a node's agent forwards is answered as that of any caller.
    let plain = answer(&agent, port, b"\x12GET /v1/status/leader HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    ensure!(plain.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&plain));
    Ok(())
}
