//! The socket in a task's secrets directory: authorization of its callers, with and without ACLs.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::agent::{Agent, Setup};
use crate::http::Request;
use crate::story::Story;

/// Sends a request over the socket; returns the status code and the body.
fn ask(socket: &Path, target: &str, token: &str) -> Result<(u16, String)> {
    let mut stream = UnixStream::connect(socket).with_context(|| format!("connecting to {}", socket.display()))?;
    let shown = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    write!(stream, "GET {target} HTTP/1.1\r\nHost: task\r\n{shown}Connection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let code = answer.split(' ').nth(1).context("an answer has a status")?.parse()?;
    Ok((code, answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned())))
}

fn play(acl: bool) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data_dir = dir.path().join("d");
    let story = Story { agent: Agent::start(&Setup { acl, data_dir: Some(data_dir.clone()), ..Setup::dev() })? };
    let secret = if acl {
        let first = story.call(&Request::new("POST", "/v1/acl/bootstrap"))?.json()?;
        first["SecretID"].as_str().context("a secret")?.to_owned()
    } else {
        String::new()
    };
    let asked = |method: &str, target: &str| Request::new(method, target).header("X-Nomad-Token", &secret);
    let task = json!({
        "Name": "t", "Driver": "raw_exec", "Identity": {"File": true}, "Config": {"command": "/bin/sleep", "args": ["600"]},
    });
    let job = json!({"Job": {"ID": "web", "Type": "batch", "Datacenters": ["*"], "TaskGroups": [{"Name": "g", "Tasks": [task]}]}});
    story.call(&asked("PUT", "/v1/jobs").json(&job))?;
    let mut index = 0;
    let alloc = loop {
        let answer = story.call(&asked("GET", &format!("/v1/job/web/allocations?index={index}&wait=2s")))?;
        index = answer.index().context("a list has an index")?;
        let allocs = answer.json()?;
        if allocs[0]["ClientStatus"] == "running" {
            break allocs[0]["ID"].as_str().context("an alloc has an id")?.to_owned();
        }
    };
    let secrets = data_dir.join("client/alloc").join(alloc).join("t/secrets");
    let socket = secrets.join("api.sock");
    let identity = std::fs::read_to_string(secrets.join("nomad_token"))?;

    let at = |token: &str, target: &str| ask(&socket, target, token);
    ensure!(at("", "/v1/status/leader")? == (401, "Unauthorized".to_owned()), "without a token nothing is answered");
    ensure!(at(&identity, "/v1/status/leader")?.0 == 200, "a task is answered");
    ensure!(
        at(&identity, "/v1/jobs?prefix=%zz")? == (400, "Bad Request".to_owned()),
        "a broken query is refused before the request is routed"
    );
    ensure!(
        at("", "/v1/jobs?prefix=%zz")? == (401, "Unauthorized".to_owned()),
        "a missing token is told before a broken query"
    );
    let unknown = at("5f7d9a52-0000-4000-8000-00000000dead", "/v1/status/leader")?;
    ensure!(unknown == (403, "Forbidden".to_owned()), "a secret of nobody is refused: {unknown:?}");
    let wrong = at("no.such.token", "/v1/status/leader")?;
    let jobs = at(&identity, "/v1/jobs")?.0;
    if acl {
        ensure!(wrong == (500, "Server error authenticating request\n".to_owned()), "{wrong:?}");
        ensure!(at(&secret, "/v1/jobs")?.0 == 200, "so may people with their tokens");
        // An identity has the same rights here as at the agent's port.
        let port = story.ask(&Request::new("GET", "/v1/jobs").header("X-Nomad-Token", &identity))?.head.status;
        ensure!(jobs == port, "{jobs} here, {port} at the port");
    } else {
        ensure!(wrong == (403, "Forbidden".to_owned()), "{wrong:?}");
        ensure!(jobs == 200, "without ACLs a task may everything");
    }
    story.call(&asked("DELETE", "/v1/job/web"))?;
    let end = std::time::Instant::now() + crate::story::WITHIN;
    while ask(&socket, "/v1/status/leader", &identity).is_ok_and(|(code, _)| code == 200) {
        ensure!(std::time::Instant::now() < end, "the socket goes with its task");
        // The job's list of allocations changes when the task has ended.
        let answer = story.call(&asked("GET", &format!("/v1/job/web/allocations?index={index}&wait=1s")))?;
        index = answer.index().context("a list has an index")?;
    }
    Ok(())
}

#[test]
fn task_api_socket_answers_only_requests_with_a_valid_token() -> Result<()> {
    play(true)
}

#[test]
fn task_api_socket_requires_a_token_even_without_acls() -> Result<()> {
    play(false)
}
