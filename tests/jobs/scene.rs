//! The stage of one example: an agent with the host volumes that the catalogue expects, the command line, and waits
//! for what an example promises. Not here: the examples.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::{Connection, Request};
use crate::story::{Story, WITHIN};

/// An agent on which one example runs.
pub struct Scene {
    pub story: Story,
    /// Directories of the host volumes `postgres`, `logs` and `backups`.
    volumes: tempfile::TempDir,
}

impl Scene {
    pub fn begin() -> Result<Scene> {
        Self::begin_with(None)
    }

    /// Starts the agent. `engine` is the `DOCKER_HOST` of the container engine that its tasks use.
    pub fn begin_with(engine: Option<&str>) -> Result<Scene> {
        let volumes = tempfile::Builder::new().prefix("songline-jobs-").tempdir_in("/var/tmp")?;
        // Tasks with users of their own go through it.
        set_mode(volumes.path(), 0o755)?;
        let mut config = json!({
            "bind_addr": "127.0.0.1",
            "ports": {"http": 0, "rpc": 0, "serf": 0},
            "server": {"enabled": true, "bootstrap_expect": 1},
            "client": {
                "enabled": true,
                "meta": {"rack": "r1"},
                "gc_disk_usage_threshold": 100,
                "gc_inode_usage_threshold": 100,
                "cni_path": "/usr/lib/cni",
                "host_volume": {},
            },
            "plugin": {
                "raw_exec": {"config": {"enabled": true}},
                "docker": {"config": {"endpoint": engine.unwrap_or("unix:///no/engine"), "infra_image": "local/pause:1"}},
            },
        });
        for (name, read_only) in [("postgres", false), ("logs", true), ("backups", false)] {
            let path = volumes.path().join(name);
            std::fs::create_dir(&path)?;
            config["client"]["host_volume"][name] = json!({"path": path, "read_only": read_only});
        }
        Ok(Scene { story: Story { agent: Agent::start_as(&config)? }, volumes })
    }

    /// Directory of a host volume.
    pub fn volume(&self, name: &str) -> PathBuf {
        self.volumes.path().join(name)
    }

    /// Runs a file of the catalogue with variables, `name=value` each.
    pub fn run(&self, file: &str, vars: &[&str]) -> Result<()> {
        let file = example(file);
        let vars = vars.iter().flat_map(|var| ["-var", *var]);
        let args: Vec<&str> = ["job", "run", "-detach"].into_iter().chain(vars).chain([file.as_str()]).collect();
        self.command(&args).map(drop)
    }

    /// Runs a command of the program against the agent, and returns its output.
    pub fn command(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(env!("CARGO_BIN_EXE_songline"))
            .args(args)
            .env("NOMAD_ADDR", format!("http://{}", self.story.http()))
            .output()?;
        let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
        ensure!(output.status.success(), "songline {}: {said}", args.join(" "));
        Ok(said)
    }

    /// Waits until the newest deployment of the job has succeeded.
    pub fn is_deployed(&self, job: &str, version: u64) -> Result<()> {
        let target = format!("/v1/job/{job}/deployment");
        let done = |deployment: &Value| deployment["Status"] == "successful" && deployment["JobVersion"] == version;
        self.story.wait(&target, done).map(drop).with_context(|| self.explain(job))
    }

    /// Waits until the job has allocations and all are complete. Returns the id of the first.
    pub fn is_complete(&self, job: &str) -> Result<String> {
        self.have_status(job, "complete")
    }

    /// Waits until the job has allocations and all are running. Returns the id of the first.
    pub fn is_running(&self, job: &str) -> Result<String> {
        self.have_status(job, "running")
    }

    fn have_status(&self, job: &str, status: &str) -> Result<String> {
        let target = format!("/v1/job/{}/allocations", job.replace('/', "%2F"));
        let good = |list: &Value| {
            let allocs = list.as_array().map(Vec::as_slice).unwrap_or_default();
            !allocs.is_empty() && allocs.iter().all(|alloc| alloc["ClientStatus"] == status)
        };
        let list = self.story.wait(&target, good).with_context(|| self.explain(job))?;
        Ok(list[0]["ID"].as_str().context("allocations have ids")?.to_owned())
    }

    /// Waits until a running task's output contains a text.
    pub fn says(&self, alloc: &str, task: &str, text: &str) -> Result<()> {
        let deadline = Instant::now() + WITHIN;
        let target = format!("/v1/client/fs/logs/{alloc}?task={task}&type=stdout&plain=true&follow=true");
        let mut connection = Connection::open(self.story.http(), deadline)?;
        let head = connection.send(&Request::new("GET", &target), deadline)?;
        ensure!(head.status == 200, "the log of {task} was answered {}", head.status);
        let mut said = Vec::new();
        while !String::from_utf8_lossy(&said).contains(text) {
            let part = connection.read_some(deadline);
            let part = part.with_context(|| format!("{task} said {:?}", String::from_utf8_lossy(&said)))?;
            let Some(part) = part else { bail!("{task} said {:?}", String::from_utf8_lossy(&said)) };
            said.extend(part);
        }
        Ok(())
    }

    /// The whole output of a task that has ended.
    pub fn said(&self, alloc: &str, task: &str) -> Result<String> {
        let target = format!("/v1/client/fs/logs/{alloc}?task={task}&type=stdout&plain=true");
        Ok(self.story.call(&Request::new("GET", &target))?.text())
    }

    /// Last events of the job's tasks and the reasons of failed placements, for a failed test.
    fn explain(&self, job: &str) -> String {
        let get = |target: String| self.story.get(&target).unwrap_or_default();
        let mut lines = Vec::new();
        for alloc in get(format!("/v1/job/{job}/allocations")).as_array().into_iter().flatten() {
            for (task, state) in alloc["TaskStates"].as_object().into_iter().flatten() {
                let events = state["Events"].as_array().map(Vec::as_slice).unwrap_or_default();
                let texts: Vec<&str> = events.iter().filter_map(|event| event["DisplayMessage"].as_str()).collect();
                lines.push(format!("{task}: {}", texts.join(" | ")));
            }
        }
        for eval in get(format!("/v1/job/{job}/evaluations")).as_array().into_iter().flatten() {
            if !eval["FailedTGAllocs"].is_null() {
                lines.push(eval["FailedTGAllocs"].to_string());
            }
        }
        lines.join("\n")
    }
}

/// Path of a file of the catalogue.
pub fn example(file: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/jobs").join(file).display().to_string()
}

/// Says that an example is not run on this machine. In CI none may be left out.
pub fn skipped(example: &str, reason: &str) -> Result<()> {
    let in_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    ensure!(!in_ci, "in CI no example may be left out: {example}: {reason}");
    println!("examples/jobs/{example} skipped: {reason}");
    Ok(())
}

/// Why tasks of the driver `exec` cannot run here, if they cannot.
pub fn no_exec() -> Option<&'static str> {
    (!rustix::process::geteuid().is_root()).then_some("the driver exec needs root")
}

pub fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).context("setting a mode")
}
