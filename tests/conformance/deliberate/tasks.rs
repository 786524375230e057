//! Jobs that run, and the rights of their tasks.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{World, script};

#[test]
fn jobs_stop() -> Result<()> {
    let world = World::start(false)?;
    let update = json!({"HealthCheck": "task_states", "MinHealthyTime": 10_000_000, "HealthyDeadline": 60_000_000_000u64,
        "ProgressDeadline": 120_000_000_000u64});
    world.run(
        "stops",
        "service",
        json!({ "Update": update }),
        json!({"Driver": "mock_driver", "Config": {"run_for": "300s"}}),
    )?;
    // The recording stops the job earlier, because the reference reports health later.
    world.until("/v1/job/stops/deployment", |deployment| (deployment["Status"] == "successful").then_some(()))?;
    world.until("/v1/job/stops", |job| (job["Stable"] == true).then_some(()))?;
    world.done("DELETE /v1/job/stops", Value::Null)?;
    let stopped = world.until("/v1/job/stops", |job| (job["Status"] == "dead").then(|| job.clone()))?;
    ensure!(stopped["Version"] == 1 && stopped["Stop"] == true, "{stopped}");
    ensure!(stopped["Stable"] == true, "the version that a stop makes is as stable as the one before it");
    Ok(())
}

/// Runs a job whose task prints its identity. Returns the identity.
fn with_identity(world: &World, id: &str) -> Result<String> {
    let mut task = script("echo \"$NOMAD_TOKEN\"; exec sleep 600");
    task["Identity"] = json!({"Env": true});
    world.run(id, "service", json!({}), task)?;
    let alloc = world.alloc(id, "running")?;
    let deadline = std::time::Instant::now() + super::WITHIN;
    loop {
        // Poll the log: the line is written a moment after the task starts.
        let target = format!("GET /v1/client/fs/logs/{alloc}?task=t&type=stdout&plain=true");
        let said = world.done(&target, Value::Null)?;
        if let Some(token) = said.as_str().and_then(|text| text.strip_suffix('\n')) {
            return Ok(token.to_owned());
        }
        ensure!(std::time::Instant::now() < deadline, "the task never showed its identity");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn attach(world: &World, job_acl: Value) -> Result<()> {
    let policy = json!({"Name": "nodes", "Rules": "node { policy = \"read\" }", "JobACL": job_acl});
    world.done("PUT /v1/acl/policy/nodes", policy).map(drop)
}

#[test]
fn acl_enforce_workload_policy() -> Result<()> {
    let world = World::start(true)?;
    let token = with_identity(&world, "ex")?;
    let may = || world.ask(&token, "GET /v1/nodes", Value::Null).map(|(status, _, _)| status);
    attach(&world, json!({"Namespace": "default", "JobID": "example"}))?;
    ensure!(may()? == 403, "a policy of job `example` is none of job `ex`");
    attach(&world, json!({"Namespace": "default", "JobID": "ex"}))?;
    ensure!(may()? == 200, "its own is");
    Ok(())
}

#[test]
fn acl_policy_job_acl() -> Result<()> {
    let world = World::start(true)?;
    world.done("PUT /v1/namespace", json!({"Name": "dev"}))?;
    let token = with_identity(&world, "any")?;
    let may = || world.ask(&token, "GET /v1/nodes", Value::Null).map(|(status, _, _)| status);
    attach(&world, json!({"Namespace": "dev"}))?;
    ensure!(may()? == 403, "a policy of another namespace");
    attach(&world, json!({"Namespace": "default"}))?;
    ensure!(may()? == 200, "a policy of a namespace is one of all its workloads");
    let read = world.done("GET /v1/acl/policy/nodes", Value::Null)?;
    ensure!(read["JobACL"] == json!({"Namespace": "default", "JobID": "", "Group": "", "Task": ""}), "{read}");
    Ok(())
}
