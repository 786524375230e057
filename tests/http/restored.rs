//! A node runs the allocations of a restored archive, and no others.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::http::Request;
use crate::process::Process;
use crate::story::{Story, WITHIN};

/// An agent, and a directory in which each job writes the id of its process.
struct Scene {
    story: Story,
    dir: tempfile::TempDir,
}

impl Scene {
    fn begin() -> Result<Scene> {
        Ok(Scene { story: Story::begin()?, dir: tempfile::tempdir()? })
    }

    fn file(&self, job: &str) -> PathBuf {
        self.dir.path().join(job)
    }

    /// Runs a job, and returns its process.
    fn run(&self, job: &str) -> Result<Process> {
        let script = format!("echo $$ > {}; exec sleep 600", self.file(job).display());
        let task = json!({"Name": "t", "Driver": "raw_exec", "Config": {"command": "/bin/sh", "args": ["-c", script]}});
        let groups = json!([{"Name": "g", "Tasks": [task]}]);
        self.story.put(
            "/v1/jobs",
            &json!({"Job": {"ID": job, "Type": "service", "Datacenters": ["*"], "TaskGroups": groups}}),
        )?;
        self.story.wait_for_running(job, 1, 0)?;
        self.other_process(job, None)
    }

    /// The process of a job, once it is another one than `before`.
    fn other_process(&self, job: &str, before: Option<&Process>) -> Result<Process> {
        let file = self.file(job);
        until(&format!("a process of {job}"), || process_in(&file).filter(|process| Some(process) != before))
    }

    fn save(&self) -> Result<Vec<u8>> {
        Ok(self.story.call(&Request::new("GET", "/v1/operator/snapshot"))?.body)
    }

    fn restore(&self, archive: Vec<u8>) -> Result<()> {
        let mut request = Request::new("PUT", "/v1/operator/snapshot");
        request.body = Some(archive);
        self.story.call(&request).map(drop)
    }
}

fn process_in(file: &Path) -> Option<Process> {
    Process::find(std::fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok()?)
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        if let Some(found) = look() {
            return Ok(found);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    bail!("waited too long for {what}")
}

#[test]
fn a_job_that_was_stopped_after_the_archive_was_saved_runs_again() -> Result<()> {
    let scene = Scene::begin()?;
    let first = scene.run("job1")?;
    let archive = scene.save()?;
    scene.story.call(&Request::new("DELETE", "/v1/job/job1"))?;
    ensure!(first.ends_before(Instant::now() + WITHIN), "the stopped job runs on");
    let ended = |list: &Value| list.as_array().is_some_and(|list| list.iter().all(|a| a["ClientStatus"] == "complete"));
    scene.story.wait("/v1/job/job1/allocations", ended)?;
    scene.restore(archive)?;
    let second = scene.other_process("job1", Some(&first))?;
    scene.story.wait_for_running("job1", 1, 0)?;
    ensure!(second.is_running(), "its process has ended");
    Ok(())
}

#[test]
fn a_purged_job_of_the_archive_runs_again_and_a_later_job_ends() -> Result<()> {
    let scene = Scene::begin()?;
    let first = scene.run("x")?;
    let archive = scene.save()?;
    scene.story.call(&Request::new("DELETE", "/v1/job/x?purge=true"))?;
    scene.story.call(&Request::new("PUT", "/v1/system/gc"))?;
    ensure!(first.ends_before(Instant::now() + WITHIN), "the purged job runs on");
    let later = scene.run("y")?;
    scene.restore(archive)?;
    ensure!(later.ends_before(Instant::now() + WITHIN), "a job that the archive does not have runs on");
    let second = scene.other_process("x", Some(&first))?;
    scene.story.wait_for_running("x", 1, 0)?;
    ensure!(second.is_running(), "its process has ended");
    let jobs = scene.story.get("/v1/jobs")?;
    let names: Vec<_> = jobs.as_array().context("a list")?.iter().filter_map(|job| job["ID"].as_str()).collect();
    ensure!(names == ["x"], "{names:?}");
    Ok(())
}
