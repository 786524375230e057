//! Tasks in containers as users meet them: Podman's service and Docker's engine do the same. Not here:
//! what recorded conversations show.

use std::net::SocketAddr;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::engine::{Engine, Kind};
use crate::http::{self, Request};
use crate::story::{Story, WITHIN};

const JOB: &str = "container";
/// Serves a page, says what signals it gets, and says goodbye.
const SCRIPT: &str = "trap 'echo again' HUP; trap 'echo bye; exit 0' TERM; echo page > /local/index.html; \
                      httpd -p 8080 -h /local; echo ready; while true; do usleep 20000; done";

#[test]
fn task_is_reached_asked_signalled_and_stopped_with_docker() -> Result<()> {
    task_is_reached_asked_signalled_and_stopped(Kind::Docker)
}

#[test]
fn task_is_reached_asked_signalled_and_stopped_with_podman() -> Result<()> {
    task_is_reached_asked_signalled_and_stopped(Kind::Podman)
}

fn task_is_reached_asked_signalled_and_stopped(kind: Kind) -> Result<()> {
    let Some(engine) = engine(kind)? else { return Ok(()) };
    let node = Node::begin(&engine, &json!({}))?;
    let alloc = node.runs(&json!({"args": ["-c", SCRIPT], "ports": ["http"]}))?;
    node.says(&alloc, "ready\n")?;

    let found = node.story.get(&format!("/v1/allocation/{alloc}"))?;
    let port = &found["AllocatedResources"]["Shared"]["Ports"][0];
    let address = format!("{}:{}", port["HostIP"].as_str().context("an address")?, port["Value"]);
    let server: SocketAddr = address.parse().with_context(|| address.clone())?;
    let page = http::call(server, &Request::new("GET", "/index.html"), Instant::now() + WITHIN)?;
    ensure!(page.text() == "page\n", "{}", page.text());

    let ended = node.exec(&alloc, &["sh", "-c", "echo out; echo err >&2; exit 4"])?;
    let said = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    ensure!(ended.status.code() == Some(4), "the command ended with {}: {said:?}", ended.status);
    ensure!(said.0 == "out\n" && said.1.contains("err\n"), "{said:?}");

    let usage = node.story.get(&format!("/v1/client/allocation/{alloc}/stats"))?;
    let memory = &usage["Tasks"]["t"]["ResourceUsage"]["MemoryStats"];
    ensure!(memory["RSS"].as_u64() > Some(0) && memory["Usage"].as_u64() > Some(0), "{memory}");
    node.story.put(&format!("/v1/client/allocation/{alloc}/signal"), &json!({"Signal": "SIGHUP", "Task": "t"}))?;
    node.says(&alloc, "again\n")?;

    node.story.call(&Request::new("DELETE", &format!("/v1/job/{JOB}")))?;
    node.has_status(&alloc, "complete")?;
    node.says(&alloc, "bye\n")?;
    node.story.call(&Request::new("DELETE", &format!("/v1/job/{JOB}?purge=true")))?;
    node.story.put("/v1/system/gc", &Value::Null)?;
    wait_for("no container", || Ok(engine.docker(&["ps", "-aq"])?.is_empty()))
}

#[test]
fn container_without_a_run_is_removed_with_docker() -> Result<()> {
    container_without_a_run_is_removed(Kind::Docker)
}

#[test]
fn container_without_a_run_is_removed_with_podman() -> Result<()> {
    container_without_a_run_is_removed(Kind::Podman)
}

fn container_without_a_run_is_removed(kind: Kind) -> Result<()> {
    let Some(engine) = engine(kind)? else { return Ok(()) };
    // A container of a task may take longer to start, so there are none here.
    let node = Node::begin(&engine, &json!({"period": "500ms", "creation_grace": "1s"}))?;
    let own = node.data.path().join("client/alloc/gone");
    std::fs::create_dir_all(&own)?;
    let label = ["--label", "com.hashicorp.nomad.alloc_id=gone"];
    let bind = format!("{}:/x", own.display());
    let start = ["run", "-d", "--network", "none"];
    let left = [&start[..], &label, &["-v", bind.as_str(), "local/pause:1"]].concat();
    let other = [&start[..], &label, &["-v", "/srv:/x", "local/pause:1"]].concat();
    let (left, other) = (engine.docker(&left)?, engine.docker(&other)?);
    let running = || engine.docker(&["ps", "-aq", "--no-trunc"]);
    wait_for("the removal", || Ok(!running()?.contains(left.trim())))?;
    ensure!(running()?.contains(other.trim()), "a container that is not the agent's was removed");
    Ok(())
}

#[test]
fn podman_is_named_starts_tasks_with_the_drivers_rights_and_has_no_volume_drivers() -> Result<()> {
    let Some(engine) = engine(Kind::Podman)? else { return Ok(()) };
    let node = Node::begin(&engine, &json!({}))?;
    let nodes = node.story.get("/v1/nodes")?;
    let id = nodes[0]["ID"].as_str().context("an id")?;
    let attributes = node.story.get(&format!("/v1/node/{id}"))?["Attributes"].clone();
    ensure!(attributes["driver.docker.engine"] == "podman", "{attributes}");

    // The engine of the tests would give its containers one capability more.
    let script = "grep CapBnd /proc/self/status; sleep 600";
    let alloc = node.runs(&json!({"args": ["-c", script]}))?;
    node.says(&alloc, "CapBnd:\t00000000a80405fb\n")?;

    let config = json!({"args": ["-c", "sleep 600"], "volumes": ["x:/x"], "volume_driver": "odd"});
    node.story.put("/v1/jobs", &job("refused", &config))?;
    let allocs = node.story.wait("/v1/job/refused/allocations", |allocs| allocs[0]["ClientStatus"] == "failed")?;
    ensure!(allocs.to_string().contains("Podman's service has no volume drivers"), "{allocs}");
    Ok(())
}

/// An engine for a test; `None`, with a message, on a machine that cannot run one.
fn engine(kind: Kind) -> Result<Option<Engine>> {
    let missing = match Engine::available(kind)? {
        Ok(engine) => return Ok(Some(engine)),
        Err(missing) => missing,
    };
    println!("tasks in containers: {kind:?}: skipped: {missing}");
    Ok(None)
}

/// An agent whose tasks run in containers of one engine.
struct Node {
    story: Story,
    data: tempfile::TempDir,
}

impl Node {
    /// Starts the agent with these settings for containers without a run.
    fn begin(engine: &Engine, dangling: &Value) -> Result<Node> {
        // Not in /tmp: the engine has other directories there.
        let data = tempfile::Builder::new().prefix("songline-jobs-").tempdir_in("/var/tmp")?;
        let agent = Agent::start_as(&json!({
            "data_dir": data.path(),
            "bind_addr": "127.0.0.1",
            "ports": {"http": 0, "rpc": 0, "serf": 0},
            "server": {"enabled": true, "bootstrap_expect": 1},
            "client": {"enabled": true, "gc_disk_usage_threshold": 100, "gc_inode_usage_threshold": 100},
            "plugin": {"docker": {"config": {
                "endpoint": engine.host(),
                "volumes": {"enabled": true},
                "gc": {"image": false, "dangling_containers": dangling},
            }}},
        }))?;
        let story = Story { agent };
        story.wait("/v1/nodes", |nodes| nodes[0]["Drivers"]["docker"]["Healthy"] == true)?;
        Ok(Node { story, data })
    }

    /// Runs the job with this configuration of its task. Returns the id of its allocation.
    fn runs(&self, config: &Value) -> Result<String> {
        self.story.put("/v1/jobs", &job(JOB, config))?;
        let allocs = self.story.wait_for_running(JOB, 1, 0)?;
        Ok(allocs[0]["ID"].as_str().context("an id")?.to_owned())
    }

    fn has_status(&self, alloc: &str, status: &str) -> Result<()> {
        self.story.wait(&format!("/v1/allocation/{alloc}"), |alloc| alloc["ClientStatus"] == status).map(drop)
    }

    /// Waits until the task's output ends with a text.
    fn says(&self, alloc: &str, text: &str) -> Result<()> {
        let target = format!("/v1/client/fs/logs/{alloc}?task=t&type=stdout&plain=true");
        wait_for(text, || Ok(self.story.ask(&Request::new("GET", &target))?.text().ends_with(text)))
    }

    fn exec(&self, alloc: &str, argv: &[&str]) -> Result<Output> {
        let address = format!("http://{}", self.story.http());
        let mut command = Command::new(env!("CARGO_BIN_EXE_songline"));
        command.args(["alloc", "exec", "-address", &address, "-i=false", "-t=false", alloc]).args(argv);
        Ok(command.stdin(Stdio::null()).output()?)
    }
}

fn job(id: &str, config: &Value) -> Value {
    let mut config = config.clone();
    config["image"] = json!("local/busybox:1");
    config["command"] = json!("/bin/sh");
    json!({"Job": {"ID": id, "Name": id, "Type": "service", "Datacenters": ["*"], "TaskGroups": [{
        "Name": "g",
        "Count": 1,
        "Networks": [{"Mode": "host", "DynamicPorts": [{"Label": "http", "To": 8080}]}],
        "RestartPolicy": {"Attempts": 0, "Interval": 600_000_000_000_u64, "Delay": 10_000_000, "Mode": "fail"},
        "ReschedulePolicy": {"Attempts": 0, "Interval": 0, "Unlimited": false},
        "Tasks": [{
            "Name": "t",
            "Driver": "docker",
            "Config": config,
            "KillTimeout": 10_000_000_000_u64,
            "Resources": {"CPU": 20, "MemoryMB": 16},
        }],
    }]}})
}

/// Repeats a question until the answer is yes.
fn wait_for(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        if is_so()? {
            return Ok(());
        }
    }
    bail!("{what:?} did not come within {} s", WITHIN.as_secs())
}
