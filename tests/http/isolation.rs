//! The agent's environment as its tasks see it. Not here: attacks of an isolated task on its host, which are in
//! `client/tests/agent/attacks.rs`.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::Request;
use crate::story::Story;

/// Variables of an agent's environment that no task should see. All have the value `SECRET`.
const SECRETS: &[&str] = &[
    "NOMAD_TOKEN",
    "VAULT_TOKEN",
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "ARM_CLIENT_SECRET",
    "DD_API_KEY",
    "DB_PASSWORD",
];
const SECRET: &str = "hidden-from-tasks";

/// The output of a task of this driver that prints its environment.
fn environment(story: &Story, driver: &str) -> Result<String> {
    let job = format!("env-{driver}");
    let config = match driver {
        // The mock driver has no process: its job file interpolates variables instead.
        "mock_driver" => json!({"run_for": "0s", "stdout_string": "${env[\"PATH\"]}${env[\"VAULT_TOKEN\"]}"}),
        _ => json!({"command": "/usr/bin/env"}),
    };
    let task = json!({"Name": "t", "Driver": driver, "Config": config, "Resources": {"CPU": 20, "MemoryMB": 16}});
    let group = json!({
        "Name": "g",
        "Tasks": [task],
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
        "ReschedulePolicy": {"Attempts": 0, "Unlimited": false},
    });
    story
        .put("/v1/jobs", &json!({"Job": {"ID": job, "Type": "batch", "Datacenters": ["*"], "TaskGroups": [group]}}))?;
    let ended = |list: &Value| ["complete", "failed"].iter().any(|status| list[0]["ClientStatus"] == *status);
    let allocs = story.wait(&format!("/v1/job/{job}/allocations"), ended)?;
    let id = allocs[0]["ID"].as_str().context("an alloc's id")?;
    let logs = story.ask(&Request::new("GET", &format!("/v1/client/fs/logs/{id}?task=t&type=stdout&plain=true")))?;
    Ok(if logs.head.status == 200 { logs.text().to_string() } else { allocs[0]["TaskStates"].to_string() })
}

#[test]
fn attack_environment_of_the_agent_has_no_secrets_in_tasks_of_any_driver() -> Result<()> {
    let mut env: Vec<(&str, &str)> = SECRETS.iter().map(|name| (*name, SECRET)).collect();
    env.extend([("COLOUR", "blue"), ("KEPT_BACK", "by-the-operator")]);
    let options = json!({"env.denylist": "KEPT_BACK", "docker.privileged.enabled": "true"});
    let story = Story { agent: Agent::start_in(&env, &options)? };
    let raw_exec = environment(&story, "raw_exec")?;
    ensure!(raw_exec.contains("COLOUR=blue\n") && raw_exec.contains("NOMAD_ALLOC_ID="), "{raw_exec}");
    ensure!(!raw_exec.contains(SECRET) && !raw_exec.contains("KEPT_BACK"), "{raw_exec}");
    let mock = environment(&story, "mock_driver")?;
    ensure!(!mock.contains(SECRET), "{mock}");
    if rustix::process::geteuid().is_root() {
        let exec = environment(&story, "exec")?;
        ensure!(exec.contains("NOMAD_ALLOC_ID=") && exec.contains("\nPATH=/usr/local/sbin:/usr/local/bin:"), "{exec}");
        ensure!(!exec.contains(SECRET) && !exec.contains("COLOUR"), "{exec}");
    } else {
        ensure!(std::env::var_os("CI").is_none_or(|value| value.is_empty()), "tasks of exec need root");
        eprintln!("skipped: tasks of exec need root");
    }
    let log = String::from_utf8_lossy(&story.agent.log()?).into_owned();
    ensure!(log.contains("docker.privileged.enabled") && !log.contains("option=\"env.denylist\""), "{log}");
    Ok(())
}
