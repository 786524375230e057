//! Variables and keys of a real server: the disk holds no plaintext; and the server's behaviour without the
//! key-encryption key.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::{Agent, Setup};
use crate::http::{self, Request};
use crate::story::{Story, WITHIN};

const PLAIN: &str = "correct-horse-battery-staple";

fn start(data_dir: &Path) -> Result<Story> {
    Ok(Story { agent: Agent::start(&Setup { data_dir: Some(data_dir.to_owned()), ..Setup::dev() })? })
}

/// Status and text of an answer that need not be 200.
fn ask(story: &Story, method: &str, target: &str, body: Option<Value>) -> Result<(u16, String)> {
    let mut request = Request::new(method, target);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let answer = http::call(story.http(), &request, Instant::now() + WITHIN)?;
    Ok((answer.head.status, answer.text().to_string()))
}

/// Whether any file below `dir` contains the text.
fn lies_in(dir: &Path, text: &str) -> Result<bool> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            if lies_in(&path, text)? {
                return Ok(true);
            }
        } else if path.is_file() && std::fs::read(&path)?.windows(text.len()).any(|window| window == text.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn wait_for_key(story: &Story) -> Result<Value> {
    story.wait("/v1/operator/keyring/keys", |keys| {
        keys.as_array().is_some_and(|keys| keys.iter().any(|key| key["State"] == "active"))
    })
}

#[test]
fn variable_survives_a_restart_and_is_never_stored_in_plaintext() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data_dir = dir.path().join("data");
    let story = start(&data_dir)?;
    wait_for_key(&story)?;
    let items = json!({"password": PLAIN});
    story.put("/v1/var/app/db", &json!({"Items": items}))?;
    let saved = story.call(&Request::new("GET", "/v1/operator/snapshot"))?.body;
    story.agent.interrupt()?;
    std::fs::write(data_dir.join("saved.snap"), saved)?;
    ensure!(!lies_in(&data_dir, PLAIN)?, "the secret lies in a file of the server");

    let story = start(&data_dir)?;
    ensure!(story.get("/v1/var/app/db")?["Items"] == items);
    story.agent.interrupt()
}

#[test]
fn server_without_its_key_encryption_key_refuses_variables_until_the_key_is_back() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data_dir = dir.path().join("data");
    let kek = data_dir.join("server/keystore/kek");
    let story = start(&data_dir)?;
    wait_for_key(&story)?;
    story.put("/v1/var/app/db", &json!({"Items": {"password": PLAIN}}))?;
    story.agent.interrupt()?;
    let kept = std::fs::read(&kek).context("reading the key-encryption key")?;
    std::fs::remove_file(&kek)?;

    let story = start(&data_dir)?;
    let (status, text) = ask(&story, "GET", "/v1/var/app/db", None)?;
    ensure!(status == 500 && text.contains("the key-encryption key is missing"), "{status} {text}");
    let (status, text) = ask(&story, "PUT", "/v1/var/app/db", Some(json!({"Items": {"a": "b"}})))?;
    ensure!(status == 500 && text.contains("the key-encryption key is missing"), "{status} {text}");
    let (status, text) = ask(&story, "PUT", "/v1/operator/keyring/rotate", None)?;
    ensure!(status == 500 && text.contains("the key-encryption key is missing"), "{status} {text}");
    ensure!(!kek.exists(), "a lost key is not replaced by itself");
    // Everything else continues to work.
    story.put("/v1/namespace", &json!({"Name": "dev"}))?;
    ensure!(story.get("/v1/vars")?[0]["Path"] == "app/db");

    std::fs::write(&kek, kept)?;
    ensure!(story.get("/v1/var/app/db")?["Items"]["password"] == PLAIN);
    story.agent.interrupt()
}

#[test]
fn full_key_rotation_keeps_all_variables_and_retires_the_old_key() -> Result<()> {
    let story = Story::begin()?;
    let keys = wait_for_key(&story)?;
    let old = keys[0]["KeyID"].clone();
    for n in 0..5 {
        story.put(&format!("/v1/var/v{n}"), &json!({"Items": {"n": n.to_string()}}))?;
    }
    story.put("/v1/operator/keyring/rotate?full", &json!({}))?;
    story.wait("/v1/operator/keyring/keys", |keys| {
        keys.as_array().into_iter().flatten().any(|key| key["KeyID"] == old && key["State"] == "inactive")
    })?;
    let old = old.as_str().context("a key has an id")?;
    let (status, text) = ask(&story, "DELETE", &format!("/v1/operator/keyring/key/{old}"), None)?;
    ensure!(status == 200, "{status} {text}");
    for n in 0..5 {
        ensure!(story.get(&format!("/v1/var/v{n}"))?["Items"]["n"] == n.to_string());
    }
    Ok(())
}

#[test]
fn task_identity_is_shown_in_no_answer_and_no_event() -> Result<()> {
    let story = Story::begin()?;
    story.wait("/v1/nodes", |nodes| nodes[0]["Status"] == "ready")?;
    let task = json!({
        "Name": "t", "Driver": "raw_exec", "Identity": {"Env": true, "File": true},
        "Config": {"command": "/bin/sh", "args": ["-c", "echo $NOMAD_TOKEN"]},
    });
    story.put(
        "/v1/jobs",
        &json!({"Job": {"ID": "who", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [task]}]}}),
    )?;
    let allocs = story.wait("/v1/job/who/allocations", |allocs| allocs[0]["ClientStatus"] == "complete")?;
    let id = allocs[0]["ID"].as_str().context("an alloc has an id")?;
    let (_, printed) = ask(&story, "GET", &format!("/v1/client/fs/logs/{id}?task=t&type=stdout&plain=true"), None)?;
    let token = printed.trim();
    let signature = token.rsplit('.').next().context("a token has parts")?;
    ensure!(token.split('.').count() == 3 && signature.len() > 80, "{token}");
    let shown = story.get(&format!("/v1/allocation/{id}"))?;
    let active = wait_for_key(&story)?[0]["KeyID"].clone();
    ensure!(shown["SigningKeyID"] == active && shown.get("SignedIdentities").is_none(), "{shown}");
    let mut stream = story.subscribe("after_index=0", "application/json")?;
    let mut told = String::new();
    while !told.contains("\"ClientStatus\":\"complete\"") {
        let some = stream.read_some(Instant::now() + WITHIN)?.context("the stream goes on")?;
        told.push_str(&String::from_utf8_lossy(&some));
    }
    ensure!(!told.contains(signature), "an event shows the signature");
    for target in [format!("/v1/allocation/{id}"), "/v1/job/who/allocations".to_owned()] {
        let (_, text) = ask(&story, "GET", &target, None)?;
        ensure!(!text.contains(signature), "{target} shows the signature");
    }
    Ok(())
}
