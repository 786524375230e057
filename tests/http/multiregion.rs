//! Jobs of several regions: one registration reaches all of them, and their deployments wait for each other.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::Request;
use crate::regions::{join, region, region_with, serf_address, until};
use crate::story::{Story, WITHIN};

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

/// Standard output of the command line against an agent.
fn cli(story: &Story, args: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_songline"))
        .args(args)
        .env("NOMAD_ADDR", format!("http://{}", story.http()))
        .output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    Ok(text(&output.stdout))
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

    // Both regions, as the command line of either one shows them.
    let (ids, status) = ([id_of(&first)?, id_of(&second)?], cli(&west, &["deployment", "status", id_of(&second)?])?);
    let table = status.split("\n\n").find(|part| part.starts_with("Multiregion Deployment")).context("a table")?;
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let short = ids.map(|id| id.get(..8).unwrap_or(id));
    ensure!(
        rows == [["Region", "ID", "Status"], ["east", short[0], "blocked"], ["west", short[1], "running"]],
        "{status}"
    );

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

/// The members of a region: three servers, and a node of its own agent, so that the loss of a server takes no task.
fn region_of_three(dir: &Path, name: &str) -> Result<(Vec<Story>, Agent)> {
    let start = |member: &str, part: Value| {
        let mut content = json!({
            "data_dir": dir.join(format!("{name}-{member}")),
            "name": member,
            "region": name,
            "bind_addr": "127.0.0.1",
            "ports": {"http": 0, "rpc": 0, "serf": 0},
            "plugin": {"raw_exec": {"config": {"enabled": true}}},
        });
        let all = content.as_object_mut().context("an object")?;
        all.extend(part.as_object().cloned().unwrap_or_default());
        Agent::start_as(&content)
    };
    let server = |join: &[String]| json!({"enabled": true, "bootstrap_expect": 3, "server_join": {"retry_join": join}});
    let mut servers = vec![Story { agent: start("first", json!({"server": server(&[])}))? }];
    let first = serf_address(&servers[0])?;
    for member in ["second", "third"] {
        servers.push(Story { agent: start(member, json!({"server": server(std::slice::from_ref(&first))}))? });
    }
    let addresses = servers.iter().map(|server| {
        let tags = server.get("/v1/agent/self")?["member"]["Tags"].clone();
        Ok(format!("127.0.0.1:{}", tags["port"].as_str().context("a port")?))
    });
    let addresses = addresses.collect::<Result<Vec<String>>>()?;
    until(&servers[0], "/v1/status/leader", |leader| leader.as_str().is_some_and(|leader| !leader.is_empty()))?;
    let client = json!({
        "enabled": true, "servers": addresses, "gc_disk_usage_threshold": 100, "gc_inode_usage_threshold": 100,
    });
    Ok((servers, start("node", json!({"client": client}))?))
}

/// Kills the leader of a region. The others are left.
fn kill_leader(servers: &mut Vec<Story>) -> Result<()> {
    let deadline = Instant::now() + WITHIN;
    loop {
        let leads = |server: &Story| Ok(server.get("/v1/agent/self")?["stats"]["nomad"]["leader"] == "true");
        let found = servers.iter().map(leads).collect::<Result<Vec<bool>>>()?;
        if let Some(at) = found.iter().position(|leads| *leads) {
            return servers.remove(at).agent.kill();
        }
        ensure!(Instant::now() < deadline, "no server leads");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn two_regions_of_three_servers_go_on_when_each_loses_its_leader() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ((mut east, _east_node), (mut west, _west_node)) =
        (region_of_three(dir.path(), "east")?, region_of_three(dir.path(), "west")?);
    join(&west[1], &east[2])?;
    for server in east.iter().chain(&west) {
        until(server, "/v1/regions", |regions| *regions == json!(["east", "west"]))?;
    }
    west[0].put("/v1/jobs", &job(&["east", "west"], &json!({"MaxParallel": 1})))?;
    let first = becomes(&east[0], "running")?;
    becomes(&west[0], "pending")?;

    // The next leader of the first region says that it is complete, the next one of the second that it may go on.
    kill_leader(&mut east)?;
    be_healthy(&east[0], &first)?;
    becomes(&east[0], "blocked")?;
    kill_leader(&mut west)?;
    let second = becomes(&west[0], "running")?;
    be_healthy(&west[0], &second)?;
    for server in [&east[0], &west[0]] {
        becomes(server, "successful")?;
    }
    Ok(())
}

#[test]
fn region_that_fails_fails_all_regions_if_the_job_says_so() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (east, west) = federation(dir.path())?;
    east.put("/v1/jobs", &job(&["east", "west"], &json!({"MaxParallel": 1, "OnFailure": "fail_all"})))?;
    be_healthy(&east, &becomes(&east, "running")?)?;
    becomes(&east, "blocked")?;
    set_health(&west, &becomes(&west, "running")?, "UnhealthyAllocationIDs")?;
    becomes(&west, "failed")?;
    let failed = becomes(&east, "failed")?;
    ensure!(failed["StatusDescription"] == "Failed because of an error in peer region", "{failed}");

    // A region that nobody knows: nothing of the next version is written.
    let beyond = job(&["east", "west", "north"], &json!({}));
    let refused = west.ask(&Request::new("PUT", "/v1/jobs").json(&beyond))?;
    ensure!(refused.head.status == 500, "{}", refused.text());
    ensure!(refused.text().starts_with("No path to region \"north\" of job \"traveller\""), "{}", refused.text());
    for story in [&east, &west] {
        ensure!(story.get("/v1/job/traveller")?["Version"] == 0, "a part of the job was written");
    }
    Ok(())
}

#[test]
fn region_that_fails_fails_those_after_it_and_leaves_those_before_it_blocked() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (east, west) = federation(dir.path())?;
    let north = region(dir.path(), "north")?;
    // Regions hear of each other from their own servers alone.
    join(&north, &east)?;
    join(&north, &west)?;
    for story in [&east, &north, &west] {
        until(story, "/v1/regions", |regions| *regions == json!(["east", "north", "west"]))?;
    }
    // A region that has no part of the job passes it on to the first one.
    north.put("/v1/jobs", &job(&["east", "west"], &json!({"MaxParallel": 1})))?;
    ensure!(north.get("/v1/jobs")? == json!([]), "the job is in the wrong region");
    north.put("/v1/jobs", &job(&["east", "north", "west"], &json!({"MaxParallel": 1})))?;
    for story in [&east, &north, &west] {
        ensure!(story.get("/v1/job/traveller")?["Version"] == 1, "the regions have different versions");
    }
    let first = becomes(&east, "running")?;
    ensure!(first["JobVersion"] == 1, "{first}");
    be_healthy(&east, &first)?;
    becomes(&east, "blocked")?;
    set_health(&north, &becomes(&north, "running")?, "UnhealthyAllocationIDs")?;
    becomes(&north, "failed")?;
    let last = becomes(&west, "failed")?;
    ensure!(last["StatusDescription"] == "Failed because of an error in peer region", "{last}");

    // An operator decides about the region that is complete.
    let first = becomes(&east, "blocked")?;
    cli(&east, &["deployment", "unblock", "-detach", id_of(&first)?])?;
    becomes(&east, "successful")?;
    Ok(())
}

#[test]
fn region_that_was_away_goes_on_with_its_part() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (east, west) = federation(dir.path())?;
    east.put("/v1/jobs", &job(&["east", "west"], &json!({"MaxParallel": 1})))?;
    let first = becomes(&east, "running")?;
    becomes(&west, "pending")?;
    // The second region misses that the first one is complete.
    west.agent.interrupt()?;
    be_healthy(&east, &first)?;
    becomes(&east, "blocked")?;
    let west = region(dir.path(), "west")?;
    let second = becomes(&west, "running")?;
    be_healthy(&west, &second)?;
    becomes(&west, "successful")?;
    becomes(&east, "successful")?;
    Ok(())
}

#[test]
fn with_acls_the_token_of_the_caller_registers_and_the_replication_token_follows() -> Result<()> {
    const SECRET: &str = "5a1e0d5e-1f2b-4c3d-8e4f-0a1b2c3d4e5f";
    let dir = tempfile::tempdir()?;
    let acl = json!({"enabled": true, "replication_token": SECRET});
    let (east, west) = (region_with(dir.path(), "east", &acl)?, region_with(dir.path(), "west", &acl)?);
    for story in [&east, &west] {
        story.put("/v1/acl/bootstrap", &json!({"BootstrapSecret": SECRET}))?;
    }
    let signed = |request: Request| request.header("X-Nomad-Token", SECRET);
    let own: Value = west.call(&signed(Request::new("GET", "/v1/agent/self")))?.json()?;
    let member = &own["member"];
    let serf = format!("{}:{}", member["Addr"].as_str().context("an address")?, member["Port"]);
    east.call(&signed(Request::new("PUT", &format!("/v1/agent/join?address={serf}"))))?;
    until(&west, "/v1/regions", |regions| *regions == json!(["east", "west"]))?;

    let body = job(&["east", "west"], &json!({}));
    let refused = east.ask(&Request::new("PUT", "/v1/jobs").json(&body))?;
    ensure!(refused.head.status == 403, "{}", refused.text());
    east.call(&signed(Request::new("PUT", "/v1/jobs").json(&body)))?;
    for story in [&east, &west] {
        let mut index = 0;
        loop {
            let answer = story.call(&signed(Request::new("GET", &format!("{DEPLOYMENT}?index={index}&wait=60s"))))?;
            let deployment: Value = answer.json()?;
            if deployment["Status"] == "running" {
                break;
            }
            let next = answer.index().context("a blocking query tells its index")?;
            ensure!(next > index, "the deployment does not start: {deployment}");
            index = next;
        }
    }
    Ok(())
}
