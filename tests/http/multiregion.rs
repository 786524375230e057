//! Jobs of several regions: one registration reaches all of them, and their deployments wait for each other.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::http::Request;
use crate::regions::{join, region, until};
use crate::story::Story;

/// A service job of these regions. Its allocations become healthy when the test says so.
fn job(regions: &[&str], strategy: &Value) -> Value {
    let regions: Vec<Value> = regions
        .iter()
        .map(|name| json!({"Name": name, "Count": 1, "Datacenters": ["dc1"], "Meta": {"zone": format!("{name}-zone")}}))
        .collect();
    json!({"Job": {
        "ID": "traveller", "Datacenters": ["*"], "Type": "service",
        "Multiregion": {"Strategy": strategy, "Regions": regions},
        "Update": {"MaxParallel": 1, "HealthCheck": "manual", "ProgressDeadline": 0},
        "TaskGroups": [{"Name": "group", "Count": 0, "Tasks": [{
            "Name": "task", "Driver": "raw_exec",
            "Config": {"command": "/bin/sleep", "args": ["600"]},
            "Resources": {"CPU": 20, "MemoryMB": 16},
        }]}],
    }})
}

fn federation(dir: &Path) -> Result<(Story, Story)> {
    let (east, west) = (region(dir, "east")?, region(dir, "west")?);
    join(&east, &west)?;
    for story in [&east, &west] {
        until(story, "/v1/regions", |regions| *regions == json!(["east", "west"]))?;
    }
    Ok((east, west))
}

const DEPLOYMENT: &str = "/v1/job/traveller/deployment";

/// Waits until a region's newest deployment of the job has a status, and returns the deployment.
fn becomes(story: &Story, status: &str) -> Result<Value> {
    story.wait(DEPLOYMENT, |deployment| deployment["Status"] == status).with_context(|| format!("for {status}"))
}

fn id_of(deployment: &Value) -> Result<&str> {
    deployment["ID"].as_str().context("a deployment has an id")
}

/// Sets the health of the only allocation of a region's deployment, once it is placed.
fn set_health(story: &Story, deployment: &Value, key: &str) -> Result<()> {
    let id = id_of(deployment)?;
    let allocs = story.wait(&format!("/v1/deployment/allocations/{id}"), |allocs| allocs[0]["ID"].is_string())?;
    story.put(
        &format!("/v1/deployment/allocation-health/{id}"),
        &json!({"DeploymentID": id, key: [allocs[0]["ID"].clone()]}),
    )?;
    Ok(())
}

fn be_healthy(story: &Story, deployment: &Value) -> Result<()> {
    set_health(story, deployment, "HealthyAllocationIDs")
}

#[test]
fn regions_roll_out_one_after_the_other_and_finish_together() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (east, west) = federation(dir.path())?;
    let registered = west.put("/v1/jobs", &job(&["east", "west"], &json!({"MaxParallel": 1})))?;
    ensure!(registered["EvalID"].as_str().is_some_and(|id| !id.is_empty()), "{registered}");

    // Each region has its own part of the same version.
    for (story, name) in [(&east, "east"), (&west, "west")] {
        let stored = story.get("/v1/job/traveller")?;
        let seen = [&stored["Region"], &stored["Version"], &stored["TaskGroups"][0]["Count"], &stored["Meta"]["zone"]];
        ensure!(json!(seen) == json!([name, 0, 1, format!("{name}-zone")]), "{name}: {seen:?}");
    }

    // The second region waits for the first one, which waits for the second one to be complete.
    let first = becomes(&east, "running")?;
    let second = becomes(&west, "pending")?;
    ensure!(second["StatusDescription"] == "Deployment is pending, waiting for peer region", "{second}");
    be_healthy(&east, &first)?;
    let blocked = becomes(&east, "blocked")?;
    ensure!(blocked["StatusDescription"] == "Deployment is complete but waiting for peer region", "{blocked}");
    let second = becomes(&west, "running")?;
    be_healthy(&west, &second)?;
    for story in [&east, &west] {
        let ended = becomes(story, "successful")?;
        ensure!(ended["StatusDescription"] == "Deployment completed successfully", "{ended}");
    }

    // A stop of all regions.
    east.call(&Request::new("DELETE", "/v1/job/traveller?global=true"))?;
    for story in [&east, &west] {
        story.wait("/v1/job/traveller", |job| job["Stop"] == true)?;
    }
    Ok(())
}
