//! Jobs with a `vault` block on this program's own node, with Vault in the test: placed, given a token, and told of
//! another one. Not here: all that a node does about tokens, which `client/tests/agent/vault.rs` covers.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::Request;
use crate::story::{Story, WITHIN};
use crate::vault_api::{SERVERS_TOKEN, VaultApi};

/// Text of a file in the task's directory, once it has so many lines.
fn lines(story: &Story, alloc: &str, file: &str, count: usize) -> Result<Vec<String>> {
    let since = Instant::now();
    loop {
        let read = story.ask(&Request::new("GET", &format!("/v1/client/fs/cat/{alloc}?path=t/local/{file}")))?;
        let lines: Vec<String> = read.text().lines().map(str::to_owned).collect();
        if read.head.status == 200 && lines.len() >= count {
            return Ok(lines);
        }
        ensure!(since.elapsed() < WITHIN, "{file} has {lines:?}");
        std::thread::yield_now();
    }
}

#[test]
fn job_with_a_vault_block_runs_on_an_own_node_and_its_tokens_are_shown_nowhere() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let vault = runtime.block_on(VaultApi::start());
    vault.put("app/db", json!({ "password": "hidden-password" }));
    vault.set_ttl(2);
    let content = json!({
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0, "rpc": 0, "serf": 0},
        "log_level": "TRACE",
        "server": {"enabled": true, "bootstrap_expect": 1},
        "client": {"enabled": true, "options": {"driver.allowlist": "raw_exec"}},
        "plugin": {"raw_exec": {"config": {"enabled": true}}},
        "vault": {"enabled": true, "address": vault.address(), "token": SERVERS_TOKEN},
    });
    let story = Story { agent: Agent::start_as(&content)? };
    let script = "echo \"$VAULT_TOKEN $(cat secrets/vault_token) $(cat local/db)\" >> local/starts; exec sleep 86400";
    let template = json!({
        "EmbeddedTmpl": "{{ with secret \"secret/data/app/db\" }}{{ .Data.data.password }}{{ end }}",
        "DestPath": "local/db",
    });
    let task = json!({
        "Name": "t",
        "Driver": "raw_exec",
        "Config": {"command": "/bin/sh", "args": ["-c", script]},
        "KillTimeout": 1_000_000_000,
        "Vault": {"Policies": ["db"], "ChangeMode": "restart"},
        "Templates": [template],
    });
    let job = json!({"ID": "v", "Datacenters": ["*"], "TaskGroups": [{"Name": "g", "Tasks": [task]}]});
    story.put("/v1/jobs", &json!({ "Job": job }))?;
    let allocs = story.wait_for_running("v", 1, 0)?;
    let alloc = allocs[0]["ID"].as_str().context("an alloc's id")?.to_owned();
    ensure!(lines(&story, &alloc, "starts", 1)? == ["token-1 token-1 hidden-password"]);

    vault.revoke("token-1");
    ensure!(lines(&story, &alloc, "starts", 2)?[1] == "token-2 token-2 hidden-password");
    let told = story.wait(&format!("/v1/allocation/{alloc}"), |alloc| alloc["TaskStates"]["t"]["Restarts"] == 1)?;
    let events = told["TaskStates"]["t"]["Events"].as_array().context("events")?.clone();
    let shown = |event: &Value| event["DisplayMessage"] == "Vault: new Vault token acquired";
    ensure!(events.iter().any(shown), "{events:?}");

    let secret = story.ask(&Request::new("GET", &format!("/v1/client/fs/cat/{alloc}?path=t/secrets/vault_token")))?;
    ensure!(secret.head.status != 200, "a file with a token is served");
    let log = String::from_utf8_lossy(&story.agent.log()?).into_owned();
    for hidden in ["token-1", "token-2", "wrapping-1", "hidden-password", SERVERS_TOKEN] {
        ensure!(!told.to_string().contains(hidden), "the alloc shows {hidden}");
        let line = log.lines().find(|line| line.contains(hidden));
        ensure!(line.is_none(), "the log shows {hidden}: {line:?}");
    }
    Ok(())
}
