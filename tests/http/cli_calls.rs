//! Commands that pass on what they are given: bytes that are no text, whole URLs; and why a request has failed.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::story::Story;

/// Address at which nothing listens.
const NOWHERE: &str = "http://127.0.0.1:1";
/// Bytes that are not UTF-8.
const BYTES: &[u8] = b"\xff\x00\xfe payload \x80";

/// Output of the program with an address in its environment.
fn songline(address: &str, words: &[&str], stdin: Stdio) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_songline"));
    command.args(words).env("NOMAD_ADDR", address).stdin(stdin);
    command.output().with_context(|| format!("running songline {words:?}"))
}

#[test]
fn bytes_are_payloads_and_bodies() -> Result<()> {
    let story = Story::begin()?;
    let address = format!("http://{}", story.http());
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("payload.bin");
    std::fs::write(&file, BYTES)?;
    let task = json!({"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1s"}});
    story.put(
        "/v1/jobs",
        &json!({"Job": {
            "ID": "par", "Type": "batch", "Datacenters": ["dc1"], "ParameterizedJob": {"Payload": "required"},
            "TaskGroups": [{"Name": "g", "Count": 1, "Tasks": [task]}],
        }}),
    )?;
    let name = file.display().to_string();
    for (payload, stdin) in [(name.as_str(), Stdio::null()), ("-", Stdio::from(File::open(&file)?))] {
        let output = songline(&address, &["job", "dispatch", "-detach", "par", payload], stdin)?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "{payload}: {}", String::from_utf8_lossy(&output.stderr));
        let child = said.split_whitespace().find(|word| word.starts_with("par/dispatch-"));
        let child = story.get(&format!("/v1/job/{}", child.with_context(|| said.clone())?))?;
        let stored = STANDARD.decode(child["Payload"].as_str().context("a child has its payload")?)?;
        ensure!(stored.ends_with(BYTES), "{payload}: {stored:?}");
    }
    let body = Stdio::from(File::open(&file)?);
    let output = songline(&address, &["operator", "api", "-X", "PUT", "/v1/jobs"], body)?;
    ensure!(output.status.success() && output.stderr.is_empty() && !output.stdout.is_empty(), "{output:?}");
    Ok(())
}

#[test]
fn whole_url_goes_before_the_address() -> Result<()> {
    let story = Story::begin()?;
    let url = format!("http://{}/v1/regions", story.http());
    let output = songline(NOWHERE, &["operator", "api", &url], Stdio::null())?;
    ensure!(output.status.success() && output.stdout == b"[\"global\"]", "{output:?}");
    Ok(())
}

#[test]
fn failed_connection_has_its_reason() -> Result<()> {
    let job = format!("{NOWHERE}/x.nomad");
    for words in [&["operator", "api", "/v1/regions"] as &[&str], &["job", "run", &job], &["job", "status"]] {
        let output = songline(NOWHERE, words, Stdio::null())?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(1) && said.contains("Connection refused"), "{words:?}: {said}");
    }
    Ok(())
}

#[test]
fn exec_refuses_a_terminal_where_there_is_none() -> Result<()> {
    let output = songline(NOWHERE, &["alloc", "exec", "-t=true", "0123", "/bin/true"], Stdio::null())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(1) && said.contains("standard input to be a terminal"), "{said}");
    Ok(())
}
