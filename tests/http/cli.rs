//! The command line beside the recorded sessions: files of a stopped agent, output that nobody reads any more, reports
//! about configuration files, pages for the manual.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::{Agent, Setup};
use crate::http::Request;
use crate::process;
use crate::story::{Story, WITHIN};

/// Output and exit code of the program.
fn songline(args: &[&str]) -> Result<Output> {
    Command::new(env!("CARGO_BIN_EXE_songline"))
        .args(args)
        .output()
        .with_context(|| format!("running songline {args:?}"))
}

/// Output of the program, which must succeed.
fn output(args: &[&str]) -> Result<String> {
    let output = songline(args)?;
    ensure!(output.status.success(), "songline {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Paths, lengths and times of all files below a directory.
fn files(dir: &Path) -> Result<Vec<(PathBuf, u64, SystemTime)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        if about.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push((entry.path(), about.len(), about.modified()?));
        }
    }
    found.sort();
    Ok(found)
}

#[test]
fn files_of_a_stopped_agent_are_shown_without_a_write_to_them() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let data_dir = dir.path().join("data");
    let data = data_dir.display().to_string();
    let story = Story { agent: Agent::start(&Setup { data_dir: Some(data_dir.clone()), ..Setup::dev() })? };
    story.wait("/v1/nodes", |nodes| nodes[0]["Status"] == "ready")?;
    story.put("/v1/namespace", &json!({"Name": "one"}))?;
    let task = json!({"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"}});
    story
        .put("/v1/jobs", &json!({"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 1, "Tasks": [task]}]}}))?;
    let alloc = story.wait_for_running("web", 1, 0)?;
    let alloc = alloc[0]["ID"].as_str().context("an allocation has an id")?.to_owned();

    let info = songline(&["operator", "raft", "info", &data])?;
    let warning = String::from_utf8(info.stderr)?;
    ensure!(info.status.success() && warning.contains("A server that runs has the log"), "{warning}");
    let refused = songline(&["operator", "client-state", &data])?;
    let reason = String::from_utf8(refused.stderr)?;
    ensure!(refused.status.code() == Some(1) && reason.contains("stop it first"), "{reason}");

    let archive = dir.path().join("saved.snap");
    std::fs::write(&archive, story.call(&Request::new("GET", "/v1/operator/snapshot"))?.body)?;
    story.agent.interrupt()?;
    let before = files(&data_dir)?;

    let info = output(&["operator", "raft", "info", &data])?;
    let heads: Vec<&str> = info.lines().map(|line| line.split(':').next().unwrap_or_default()).collect();
    ensure!(heads == ["path", "length", "first index", "last index"], "{info}");
    let lines = |args: &[&str]| -> Result<Vec<Value>> {
        let all = [&["operator", "raft", "logs"], args, &[&data]].concat();
        output(&all)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    };
    let entries = lines(&[])?;
    let registered = entries.iter().find(|entry| entry["kind"] == "JobRegister").context("a job was registered")?;
    let index = registered["raft_index"].to_string();
    ensure!(lines(&["-from", &index, "-to", &index])? == [registered.clone()], "{registered}");

    let state: Value = serde_json::from_str(&output(&["operator", "raft", "state", &data])?)?;
    ensure!(state["Tables"]["jobs"][0]["ID"] == "web", "{state}");
    let before_job = registered["raft_index"].as_u64().context("a number")? - 1;
    let last = before_job.to_string();
    let earlier: Value = serde_json::from_str(&output(&["operator", "raft", "state", "-last-index", &last, &data])?)?;
    ensure!(earlier["Tables"]["jobs"] == json!([]) && earlier["RaftIndex"] == before_job, "{earlier}");

    let node: Value = serde_json::from_str(&output(&["operator", "client-state", &data])?)?;
    ensure!(node["Allocations"][&alloc]["Tasks"]["t"]["State"].is_object(), "{node}");
    ensure!(files(&data_dir)? == before, "a command wrote to the data directory");

    let archive = archive.display().to_string();
    let inspected = output(&["operator", "snapshot", "inspect", &archive])?;
    for word in ["ID ", "Size ", "Index ", "Term ", "Version ", "Type ", "jobs ", "Total "] {
        ensure!(inspected.lines().any(|line| line.starts_with(word)), "no line {word:?}:\n{inspected}");
    }
    let filter = r#"Table == "namespaces" and Name == "one""#;
    let some: Value = serde_json::from_str(&output(&["operator", "snapshot", "state", "-filter", filter, &archive])?)?;
    ensure!(some["Tables"]["namespaces"].as_array().is_some_and(|rows| rows.len() == 1), "{some}");
    ensure!(some["Tables"]["jobs"] == json!([]), "{some}");
    Ok(())
}

#[test]
fn commands_end_quietly_when_their_output_is_closed() -> Result<()> {
    let story = Story::begin()?;
    story.wait("/v1/nodes", |nodes| nodes[0]["Status"] == "ready")?;
    let address = format!("http://{}", story.http());
    let commands: &[&[&str]] = &[
        &["-help"],
        &["version"],
        &["completion", "bash"],
        &["node", "status"],
        &["job", "status"],
        &["agent-info", "-json"],
        &["operator", "api", "/v1/nodes"],
        &["event", "follow", "-after-index", "0"],
        &["monitor", "-log-level", "trace"],
    ];
    for args in commands {
        // There is no reader from the start, so that the first write fails.
        let (reader, writer) = std::io::pipe()?;
        drop(reader);
        let mut child = Command::new(env!("CARGO_BIN_EXE_songline"))
            .args(*args)
            .env("NOMAD_ADDR", &address)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()?;
        let ended = process::wait_for_end(i32::try_from(child.id())?, Instant::now() + WITHIN);
        if !ended {
            child.kill()?;
        }
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(ended && output.status.success() && said.is_empty(), "{args:?}: {:?} {said}", output.status);
    }
    Ok(())
}

#[test]
fn full_disk_behind_the_output_is_an_error() -> Result<()> {
    let full = std::fs::File::options().write(true).open("/dev/full")?;
    let output = Command::new(env!("CARGO_BIN_EXE_songline")).arg("version").stdout(full).output()?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1) && said.contains("Error writing standard output"), "{said}");
    Ok(())
}

#[test]
fn page_on_the_terminal_is_refused_without_a_terminal() -> Result<()> {
    let output = songline(&["top"])?;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1) && said.starts_with("top needs a terminal"), "{said}");
    Ok(())
}

#[test]
fn prefixes_list_their_subcommands_only_and_messages_have_the_name_of_the_program() -> Result<()> {
    let prefixes: [(&[&str], &str); 3] = [
        (&["operator", "root"], "keyring"),
        (&["operator", "gossip"], "keyring"),
        (&["system", "reconcile"], "summaries"),
    ];
    for (words, below) in prefixes {
        let listed = songline(words)?;
        let shown = String::from_utf8(listed.stdout)?;
        ensure!(listed.status.code() == Some(1), "{words:?}: {:?}", listed.status);
        let expected = format!("Subcommands:\n    {below} ");
        ensure!(shown.starts_with(&expected) && shown.lines().count() == 2, "{words:?}: {shown}");
        ensure!(output(&[words, &["-h"]].concat())? == shown, "{words:?} -h");
    }
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("notes.txt");
    std::fs::write(&file, "")?;
    let refused = songline(&["fmt", &file.display().to_string()])?;
    let said = String::from_utf8(refused.stderr)?;
    ensure!(refused.status.code() == Some(1) && said.contains("using songline fmt"), "{said}");
    Ok(())
}

#[test]
fn configuration_check_names_each_setting_with_its_effect() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("agent.hcl");
    let data = dir.path().display().to_string();
    std::fs::write(&file, format!("data_dir = \"{data}\"\nserver {{\n  enabled = true\n  raft_multiplier = 5\n}}\n"))?;
    let name = file.display().to_string();
    let checked = output(&["config", "check", &name])?;
    let rows: Vec<Vec<&str>> = checked.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    ensure!(
        rows == [
            ["1", "works", "data_dir"],
            ["3", "works", "server.enabled"],
            ["4", "ignored", "server.raft_multiplier"]
        ],
        "{checked}"
    );
    std::fs::write(&file, "client {\n  enabled = true\n  gc_max_allocs = -1\n}\n")?;
    let refused = songline(&["config", "check", "-json", &name])?;
    let report: Value = serde_json::from_slice(&refused.stdout)?;
    let setting = &report[0]["Settings"][1];
    ensure!(refused.status.code() == Some(1) && setting["Effect"] == "refused" && setting["Line"] == 3, "{report}");
    ensure!(
        setting["Reason"].as_str().is_some_and(|reason| reason.starts_with("gc_max_allocs must not be negative")),
        "{report}"
    );
    Ok(())
}

#[test]
fn manual_has_a_page_for_each_command() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let pages = dir.path().join("man1");
    output(&["man", &pages.display().to_string()])?;
    for name in ["songline", "songline-agent", "songline-job-run", "songline-log-verify", "songline-operator-raft-info"]
    {
        ensure!(pages.join(format!("{name}.1")).is_file(), "no page {name}");
    }
    Ok(())
}
