//! Examples about data: host volumes, kept disks, periodic backups and CSI volumes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::csi::Plugin;
use crate::scene::{Scene, example, no_exec, set_mode, skipped};
use crate::story::WITHIN;

/// Directory of PostgreSQL's programs.
const POSTGRES: &str = "/usr/lib/postgresql/15/bin";

#[test]
fn postgres_keeps_its_data_on_the_host_volume() -> Result<()> {
    if let Some(reason) = no_exec() {
        return skipped("postgres.nomad.hcl", reason);
    }
    if !Path::new(POSTGRES).join("postgres").exists() {
        return skipped("postgres.nomad.hcl", "PostgreSQL 15 is not installed");
    }
    let scene = Scene::begin()?;
    let data = scene.volume("postgres");
    give(&data, "postgres")?;
    scene.run("postgres.nomad.hcl", &[])?;
    scene.is_deployed("postgres", 0)?;
    ask(&scene, "create table t as select 42 as n")?;
    scene.command(&["job", "restart", "-yes", "postgres"])?;
    scene.story.wait("/v1/job/postgres/allocations", |allocs| {
        let server = &allocs[0]["TaskStates"]["server"];
        server["Restarts"] == 1 && server["State"] == "running"
    })?;
    let answer = ask(&scene, "select n from t")?;
    ensure!(answer.trim() == "42", "{answer:?}");
    Ok(())
}

/// Sends a statement to the service `postgres`, until the server answers. Returns the answer's values.
fn ask(scene: &Scene, statement: &str) -> Result<String> {
    let services = scene.story.wait("/v1/service/postgres", |services| !services[0]["Port"].is_null())?;
    let port = services[0]["Port"].to_string();
    let args = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-Atc", statement];
    let deadline = Instant::now() + WITHIN;
    loop {
        let asked = Command::new(format!("{POSTGRES}/psql")).args(args).output()?;
        if asked.status.success() {
            return Ok(String::from_utf8(asked.stdout)?);
        }
        // A server that has just started refuses connections, and one that stops ends them.
        let refused = String::from_utf8_lossy(&asked.stderr);
        ensure!(Instant::now() < deadline, "{statement}: {refused}");
    }
}

/// Makes a user the owner of a directory.
fn give(directory: &Path, user: &str) -> Result<()> {
    let owned = Command::new("chown").arg(user).arg(directory).status()?;
    ensure!(owned.success(), "giving {} to {user}", directory.display());
    Ok(())
}

#[test]
fn log_shipper_sends_new_lines_of_the_host() -> Result<()> {
    if let Some(reason) = no_exec() {
        return skipped("log-shipper.nomad.hcl", reason);
    }
    let scene = Scene::begin()?;
    let file = scene.volume("logs").join("messages");
    fs::write(&file, "first\n")?;
    scene.run("log-shipper.nomad.hcl", &[])?;
    let alloc = scene.is_running("log-shipper")?;
    scene.says(&alloc, "ship", ": first\n")?;
    fs::write(&file, "first\nsecond\n")?;
    scene.says(&alloc, "ship", ": second\n")
}

#[test]
fn backup_is_made_when_it_is_forced() -> Result<()> {
    if let Some(reason) = no_exec() {
        return skipped("backup.nomad.hcl", reason);
    }
    let scene = Scene::begin()?;
    give(&scene.volume("backups"), "nobody")?;
    scene.run("backup.nomad.hcl", &[])?;
    scene.command(&["job", "periodic", "force", "-detach", "backup"])?;
    let children = scene.story.wait("/v1/jobs?prefix=backup%2Fperiodic-", |jobs| !jobs[0]["ID"].is_null())?;
    scene.is_complete(children[0]["ID"].as_str().context("children have ids")?)?;
    let names: Vec<_> =
        fs::read_dir(scene.volume("backups"))?.map(|entry| Ok(entry?.file_name())).collect::<Result<_>>()?;
    ensure!(names.len() == 1 && names[0].to_string_lossy().ends_with(".tar.gz"), "{names:?}");
    Ok(())
}

#[test]
fn counter_goes_on_from_the_disk_of_the_allocation_before() -> Result<()> {
    let scene = Scene::begin()?;
    scene.run("counter.nomad.hcl", &[])?;
    scene.is_deployed("counter", 0)?;
    scene.run("counter.nomad.hcl", &["note=again"])?;
    scene.is_deployed("counter", 1)?;
    let allocs = scene.story.wait_for_running("counter", 1, 1)?;
    scene.says(allocs[0]["ID"].as_str().context("an id")?, "count", "start 2\n")
}

#[test]
fn csi_database_writes_to_a_volume_that_was_created_for_it() -> Result<()> {
    let plugin = match Plugin::available()? {
        Ok(plugin) => plugin,
        Err(reason) => return skipped("csi-database.nomad.hcl", &reason),
    };
    let scene = Scene::begin()?;
    let program = plugin.program();
    set_mode(&program, 0o755)?;
    let command = format!("command={}", program.display());
    scene.run("csi-plugin.nomad.hcl", &[&command, r#"args=["--id", "disks"]"#])?;
    let plugins = "/v1/plugin/csi/disks";
    scene.story.wait("/v1/plugins?type=csi", |plugins| plugins[0]["ControllersHealthy"] == 1)?;
    scene.story.wait(plugins, |plugin| plugin["NodesHealthy"] == 1)?;
    scene.command(&["volume", "create", &example("csi-volume.hcl")])?;
    scene.run("csi-database.nomad.hcl", &[])?;
    scene.is_deployed("csi-database", 0)?;
    let alloc = scene.is_running("csi-database")?;
    scene.says(&alloc, "db", "the data are in /data\n")?;
    let volume = scene.story.get("/v1/volume/csi/database")?;
    ensure!(volume["WriteAllocs"].as_object().is_some_and(|claims| claims.contains_key(&alloc)), "{volume}");
    scene.command(&["job", "stop", "-detach", "csi-database"])?;
    scene.story.wait("/v1/volume/csi/database", |volume| {
        volume["WriteAllocs"].as_object().is_some_and(serde_json::Map::is_empty)
    })?;
    Ok(())
}
