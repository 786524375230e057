//! A quota on a running agent: jobs wait for it and run again, and `songline quota ..` as users type it. Not here: the
//! routes and their refusals.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use expect_test::expect;
use serde_json::{Value, json};

use crate::story::Story;

fn job(id: &str, count: u64) -> Value {
    json!({"Job": {
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{
            "Name": "g", "Count": count,
            "Tasks": [{
                "Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1h"},
                "Resources": {"CPU": 100, "MemoryMB": 16},
            }],
        }],
    }})
}

fn quota(cpu: i64) -> Value {
    json!({"Name": "gold", "Limits": [{"Region": "global", "RegionLimit": {"CPU": cpu}}]})
}

/// Runs a command in a folder and returns its output.
fn songline(story: &Story, folder: &std::path::Path, words: &[&str]) -> Result<String> {
    let done = Command::new(env!("CARGO_BIN_EXE_songline"))
        .args(words)
        .current_dir(folder)
        .env("NOMAD_ADDR", format!("http://{}", story.http()))
        .output()
        .context("running the command line")?;
    Ok(String::from_utf8(done.stdout)? + &String::from_utf8(done.stderr)?)
}

#[test]
fn job_over_its_quota_waits_and_runs_when_the_limit_is_raised_or_another_job_ends() -> Result<()> {
    let story = Story::begin()?;
    story.put("/v1/quota", &quota(250))?;
    story.put("/v1/namespace", &json!({"Name": "default", "Quota": "gold"}))?;
    story.put("/v1/jobs", &job("first", 3))?;
    story.wait_for_running("first", 2, 0)?;
    let blocked = |evals: &Value| evals.as_array().is_some_and(|all| all.iter().any(|one| one["Status"] == "blocked"));
    let evals = story.wait("/v1/job/first/evaluations", blocked)?;
    let eval = evals.as_array().into_iter().flatten().find(|eval| eval["Status"] == "blocked").context("it waits")?;
    ensure!(eval["QuotaLimitReached"] == "gold", "{eval}");
    let told = &eval["FailedTGAllocs"]["g"]["QuotaExhausted"];
    ensure!(*told == json!(["cpu exhausted (300 needed > 250 limit)"]), "{eval}");

    story.put("/v1/quota/gold", &quota(300))?;
    story.wait_for_running("first", 3, 0)?;
    story.put("/v1/jobs", &job("second", 1))?;
    story.wait("/v1/job/second/evaluations", blocked)?;
    let usage = story.get("/v1/quota/usage/gold")?;
    let used = usage["Used"].as_object().and_then(|used| used.values().next()).context("a limit of this region")?;
    ensure!(used["RegionLimit"]["CPU"] == 300 && used["AllocationsLimit"] == 3, "{usage}");

    story.put("/v1/jobs", &job("first", 2))?;
    story.wait_for_running("second", 1, 0)?;
    Ok(())
}

#[test]
fn quotas_are_made_shown_and_deleted_on_the_command_line() -> Result<()> {
    let story = Story::begin()?;
    let folder = tempfile::tempdir()?;
    let mut out = String::new();
    for words in [
        &["quota", "list"][..],
        &["quota", "init"],
        &["quota", "init"],
        &["quota", "init", "-json"],
        &["quota", "apply", "spec.hcl"],
        &["quota", "apply", "-json", "spec.json"],
        &["quota", "list"],
        &["quota", "status", "def"],
        &["quota", "status", "none"],
        &["quota", "list", "-t", "{{range .}}{{.Name}}{{end}}"],
        &["quota", "status", "-t", "{{.Description}}", "def"],
        &["quota", "inspect", "-t", "{{.Spec.Name}}", "def"],
        &["quota", "inspect", "-json", "-t", "{{.}}", "def"],
        &["quota", "delete", "default-quota"],
        &["quota", "delete", "default-quota"],
    ] {
        out.push_str(&format!("$ {}\n{}", words.join(" "), songline(&story, folder.path(), words)?));
    }
    expect![[r#"
        $ quota list
        No quotas found
        $ quota init
        Example quota specification written to spec.hcl
        $ quota init
        Quota specification "spec.hcl" already exists
        $ quota init -json
        Example quota specification written to spec.json
        $ quota apply spec.hcl
        Successfully applied quota specification "default-quota"!
        $ quota apply -json spec.json
        Successfully applied quota specification "default-quota"!
        $ quota list
        Name           Description
        default-quota  Limits of the default namespace
        $ quota status def
        Name        = default-quota
        Description = Limits of the default namespace
        Limits      = 1

        Quota Limits
        Region  CPU Usage  Cores    Memory Usage  Memory Max Usage  Allocations  Variables (MiB)
        global  0 / 2500   0 / inf  0 / 1000      0 / 1000          0 / inf      0 / 1000

        Devices
        Region  Name               Usage
        global  nvidia/gpu/1080ti  0 / 1
        $ quota status none
        Error retrieving quota: Quota "none" matched no quotas
        $ quota list -t {{range .}}{{.Name}}{{end}}
        default-quota
        $ quota status -t {{.Description}} def
        Limits of the default namespace
        $ quota inspect -t {{.Spec.Name}} def
        default-quota
        $ quota inspect -json -t {{.}} def
        Both json and template formatting are not allowed
        $ quota delete default-quota
        Successfully deleted quota "default-quota"!
        $ quota delete default-quota
        Error deleting quota: Unexpected response code: 404 (quota "default-quota" not found)
    "#]]
    .assert_eq(&out);
    Ok(())
}

#[test]
fn quotas_as_json_have_sorted_keys_and_four_spaces() -> Result<()> {
    let story = Story::begin()?;
    let folder = tempfile::tempdir()?;
    story.put("/v1/quota", &quota(250))?;
    let commands: [(&[&str], &str); 4] = [
        (&["quota", "list", "-json"], "[\n    {\n        \"CreateIndex\": "),
        (&["quota", "status", "-json", "gold"], "{\n    \"CreateIndex\": "),
        (&["quota", "inspect", "gold"], "{\n    \"Spec\": {\n        \"CreateIndex\": "),
        (&["quota", "inspect", "-json", "gold"], "{\n    \"Spec\": {\n        \"CreateIndex\": "),
    ];
    for (words, begin) in commands {
        let shown = songline(&story, folder.path(), words)?;
        ensure!(shown.starts_with(begin), "{words:?}: {shown}");
    }
    Ok(())
}
