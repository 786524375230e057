//! The log is the state: a replay from its first entry gives the digest of every table that the running server saved.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::{Agent, Setup};
use crate::http::Request;
use crate::story::Story;

#[test]
fn replayed_log_and_restored_archive_give_the_live_state() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data_dir = dir.path().join("data");
    let story = Story { agent: Agent::start(&Setup { data_dir: Some(data_dir.clone()), ..Setup::dev() })? };
    story.wait("/v1/nodes", |nodes| nodes[0]["Status"] == "ready")?;
    story.put("/v1/namespace", &json!({"Name": "one"}))?;
    story.put("/v1/node/pools", &json!({"Name": "gpu"}))?;
    story.put(
        "/v1/jobs",
        &json!({"Job": {
            "ID": "work", "Type": "batch",
            "TaskGroups": [{"Name": "g", "Count": 3, "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "10ms"}}]}],
        }}),
    )?;
    story.wait("/v1/job/work", |job| job["Status"] == "dead")?;
    let saved = story.call(&Request::new("GET", "/v1/operator/snapshot"))?.body;

    let empty = Story::begin()?;
    let mut restore = Request::new("PUT", "/v1/operator/snapshot");
    restore.body = Some(saved.clone());
    empty.call(&restore)?;
    let again = empty.call(&Request::new("GET", "/v1/operator/snapshot"))?.body;
    let (live, restored) = (allocs(&story)?, allocs(&empty)?);
    ensure!(live == restored, "restored: {restored:#}, live: {live:#}");
    story.agent.interrupt()?;

    let of_live = inspect(dir.path(), "live.snap", &saved)?;
    let of_restored = inspect(dir.path(), "restored.snap", &again)?;
    let of_replay = digests(&run(&["log", "verify", "-data-dir", &data_dir.display().to_string()])?);
    ensure!(of_live.len() > 10, "there are digests: {of_live:?}");
    // The restore raises the indexes of tables, which are no rows, and of allocations, which were compared above. Nodes
    // are not compared: the restored state does not know the restoring agent's node, which registers again.
    let comparable = |digests: &[String]| {
        let is_compared = |line: &&String| !line.starts_with("nodes ") && !line.starts_with("allocs ");
        digests.iter().filter(is_compared).cloned().collect::<Vec<_>>()
    };
    ensure!(comparable(&of_live) == comparable(&of_restored), "restored: {of_restored:?}, saved: {of_live:?}");
    ensure!(of_live == of_replay, "replayed: {of_replay:?}, saved: {of_live:?}");
    Ok(())
}

/// The allocations without the index of their last change.
fn allocs(story: &Story) -> Result<Value> {
    let mut rows = story.get("/v1/allocations?resources=true")?;
    for row in rows.as_array_mut().into_iter().flatten() {
        row.as_object_mut().context("an allocation is an object")?.remove("ModifyIndex");
    }
    Ok(rows)
}

fn inspect(dir: &Path, name: &str, archive: &[u8]) -> Result<Vec<String>> {
    let file = dir.join(name);
    std::fs::write(&file, archive).context("writing an archive")?;
    Ok(digests(&run(&["snapshot", "inspect", &file.display().to_string()])?))
}

/// Output of the program.
fn run(args: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_songline"))
        .args(args)
        .output()
        .with_context(|| format!("running songline {args:?}"))?;
    ensure!(output.status.success(), "songline {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// The lines of the table of digests: name, rows, digest.
fn digests(printed: &str) -> Vec<String> {
    let table = printed
        .lines()
        .skip_while(|line| !line.starts_with("Table"))
        .skip(1)
        .take_while(|line| !line.starts_with("total"));
    table.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}
