//! Examples whose tasks need no storage of their own: services, roll-outs, batch, system and parameterized jobs.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::engine::{Engine, Kind};
use crate::http::{self, Request};
use crate::scene::{Scene, example, no_exec, skipped};
use crate::story::WITHIN;

#[test]
fn web_rolls_out_in_containers_behind_checks() -> Result<()> {
    if !std::path::Path::new("/usr/lib/cni/bridge").exists() {
        return skipped("web.nomad.hcl", "the CNI plugins are not installed");
    }
    let engine = match Engine::available(Kind::Docker)? {
        Ok(engine) => engine,
        Err(reason) => return skipped("web.nomad.hcl", &reason),
    };
    let scene = Scene::begin_with(Some(&engine.host()))?;
    scene.run("web.nomad.hcl", &["image=local/busybox:1"])?;
    scene.is_deployed("web", 0)?;
    scene.run("web.nomad.hcl", &["image=local/busybox:1", "greeting=good day"])?;
    scene.is_deployed("web", 1)?;
    let services = scene.story.get("/v1/service/web")?;
    let service = &services[0];
    let address = format!("{}:{}", service["Address"].as_str().context("an address")?, service["Port"]);
    let server: SocketAddr = address.parse().with_context(|| format!("the service is at {address}"))?;
    let page = http::call(server, &Request::new("GET", "/index.html"), Instant::now() + WITHIN)?;
    ensure!(page.text().contains("good day from web.web["), "{}", page.text());
    Ok(())
}

#[test]
fn green_takes_over_when_it_is_promoted() -> Result<()> {
    let scene = Scene::begin()?;
    scene.run("blue-green.nomad.hcl", &[])?;
    scene.is_deployed("colours", 0)?;
    scene.run("blue-green.nomad.hcl", &["version=green"])?;
    let waiting = scene.story.wait("/v1/job/colours/deployment", |deployment| {
        let group = &deployment["TaskGroups"]["app"];
        deployment["JobVersion"] == 1 && group["HealthyAllocs"] == 2 && group["Promoted"] == false
    })?;
    ensure!(waiting["StatusDescription"] == "Deployment is running but requires manual promotion", "{waiting}");
    let tags = |services: &Value| -> Vec<String> {
        services.as_array().into_iter().flatten().map(|service| service["Tags"][0].to_string()).collect()
    };
    let services = scene.story.get("/v1/service/colours")?;
    let next = tags(&services).iter().filter(|tag| *tag == "\"next\"").count();
    ensure!(next == 2, "{services}");
    scene.command(&["deployment", "promote", "-detach", waiting["ID"].as_str().context("an id")?])?;
    scene.is_deployed("colours", 1)?;
    scene.story.wait_for_running("colours", 2, 1)?;
    scene.story.wait("/v1/service/colours", |services| tags(services) == ["\"live\"", "\"live\""])?;
    Ok(())
}

#[test]
fn report_sums_the_numbers_of_an_artifact() -> Result<()> {
    if let Some(reason) = no_exec() {
        return skipped("report.nomad.hcl", reason);
    }
    let files = tempfile::tempdir()?;
    std::fs::write(files.path().join("numbers.txt"), "1\n2\n39\n")?;
    let archive = files.path().join("data.tar.gz");
    let packed =
        Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(files.path()).arg("numbers.txt").status()?;
    ensure!(packed.success(), "packing the numbers");
    let server = serve(std::fs::read(archive)?)?;
    let scene = Scene::begin()?;
    scene.run("report.nomad.hcl", &[&format!("source=http://{server}/data.tar.gz")])?;
    let alloc = scene.is_complete("report")?;
    let report = scene.command(&["alloc", "fs", &alloc, "alloc/data/report.txt"])?;
    ensure!(report == "SUM OF NUMBERS: 42\n", "{report:?}");
    Ok(())
}

#[test]
fn encoder_encodes_each_payload() -> Result<()> {
    if let Some(reason) = no_exec() {
        return skipped("encoder.nomad.hcl", reason);
    }
    let scene = Scene::begin()?;
    scene.run("encoder.nomad.hcl", &[])?;
    let mut dispatch = Command::new(env!("CARGO_BIN_EXE_songline"))
        .args(["job", "dispatch", "-detach", "-meta", "format=base64", "encoder", "-"])
        .env("NOMAD_ADDR", format!("http://{}", scene.story.http()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    dispatch.stdin.take().context("its input is a pipe")?.write_all(b"a line of text\n")?;
    let output = String::from_utf8(dispatch.wait_with_output()?.stdout)?;
    let child = output.split_whitespace().find(|word| word.starts_with("encoder/dispatch-"));
    let alloc = scene.is_complete(child.with_context(|| output.clone())?)?;
    let encoded = scene.said(&alloc, "encode")?;
    ensure!(encoded == "YSBsaW5lIG9mIHRleHQK\n", "{encoded:?}");
    Ok(())
}

#[test]
fn sidecar_prints_what_the_main_task_writes() -> Result<()> {
    if let Some(reason) = no_exec() {
        return skipped("sidecar.nomad.hcl", reason);
    }
    let scene = Scene::begin()?;
    scene.run("sidecar.nomad.hcl", &[])?;
    scene.is_deployed("sidecar", 0)?;
    let alloc = scene.is_running("sidecar")?;
    scene.says(&alloc, "follow", "prepared\nworking\n")?;
    scene.command(&["job", "stop", "-detach", "sidecar"])?;
    scene.is_complete("sidecar")?;
    let farewell = scene.said(&alloc, "farewell")?;
    ensure!(farewell == "working\n", "{farewell:?}");
    Ok(())
}

#[test]
fn settings_are_rendered_again_when_their_variable_changes() -> Result<()> {
    if let Some(reason) = no_exec() {
        return skipped("settings.nomad.hcl", reason);
    }
    let scene = Scene::begin()?;
    scene.command(&["var", "put", "nomad/jobs/settings", "level=info"])?;
    scene.run("settings.nomad.hcl", &[])?;
    scene.is_deployed("settings", 0)?;
    let alloc = scene.is_running("settings")?;
    scene.says(&alloc, "app", "level is info\n")?;
    scene.command(&["var", "put", "-force", "nomad/jobs/settings", "level=debug"])?;
    scene.says(&alloc, "app", "level is debug\n")
}

#[test]
fn front_learns_of_a_backend_that_scaling_adds() -> Result<()> {
    let scene = Scene::begin()?;
    scene.run("discovery.nomad.hcl", &[])?;
    scene.is_deployed("discovery", 0)?;
    scene.command(&["job", "scale", "-detach", "discovery", "backend", "3"])?;
    scene.story.wait("/v1/service/backend", |services| services.as_array().is_some_and(|all| all.len() == 3))?;
    let allocs = scene.story.get("/v1/job/discovery/allocations")?;
    let front = allocs.as_array().into_iter().flatten().find(|alloc| alloc["TaskGroup"] == "front");
    let front = front.and_then(|alloc| alloc["ID"].as_str()).context("the front has an allocation")?;
    // Rendering follows the change of the service.
    let deadline = Instant::now() + WITHIN;
    loop {
        let list = scene.command(&["alloc", "fs", front, "front/local/backends"])?;
        if list.matches("server 127.0.0.1:").count() == 3 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{list}");
    }
}

#[test]
fn prune_runs_once_on_every_node() -> Result<()> {
    let scene = Scene::begin()?;
    let old = tempfile::Builder::new().prefix("prune-me-").tempfile_in("/var/tmp")?;
    let week = std::time::SystemTime::now() - std::time::Duration::from_secs(7 * 24 * 60 * 60);
    old.as_file().set_modified(week)?;
    scene.run("prune.nomad.hcl", &["days=5"])?;
    let alloc = scene.is_complete("prune")?;
    let removed = scene.said(&alloc, "prune")?;
    ensure!(removed.contains(&old.path().display().to_string()) && !old.path().exists(), "{removed:?}");
    // The file is gone; there is none to remove on drop.
    let _gone = old.into_temp_path().keep();
    Ok(())
}

#[test]
fn spread_places_by_rack() -> Result<()> {
    let scene = Scene::begin()?;
    scene.run("spread.nomad.hcl", &[])?;
    scene.is_deployed("spread", 0)?;
    let alloc = scene.is_running("spread")?;
    let metrics = scene.story.get(&format!("/v1/allocation/{alloc}"))?["Metrics"]["ScoreMetaData"].clone();
    let scores = &metrics[0]["Scores"];
    ensure!(scores["allocation-spread"].is_number() && scores["node-affinity"].is_number(), "{metrics}");
    Ok(())
}

#[test]
fn every_example_has_a_test_and_a_section_of_the_documentation() -> Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/examples.md"))?;
    let tests = [include_str!("catalogue.rs"), include_str!("storage.rs")].concat();
    let files = std::fs::read_dir(example(""))?.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
    for file in files.collect::<Result<Vec<String>>>()? {
        ensure!(page.contains(&format!("examples/jobs/{file}")), "docs/examples.md has no link to {file}");
        ensure!(tests.contains(&format!("\"{file}\"")), "no test runs {file}");
    }
    Ok(())
}

/// Answers every request with these bytes, until the test ends.
fn serve(body: Vec<u8>) -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that goes away is its own matter.
            let _gone = answer(stream, &body);
        }
    });
    Ok(address)
}

fn answer(mut stream: std::net::TcpStream, body: &[u8]) -> std::io::Result<()> {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        std::io::Read::read_exact(&mut stream, &mut byte)?;
        asked.extend(byte);
    }
    let head_only = asked.starts_with(b"HEAD");
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len())?;
    if head_only { Ok(()) } else { stream.write_all(body) }
}
