//! One real node with many sleeping tasks: the time from placement to running, then what the node agent takes while
//! nothing happens. Server and node are processes of this machine; with root for `exec`, and an engine for `docker`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::cluster::free_ports;
use crate::http::Connection;
use crate::report::Latencies;

/// Poll interval.
const BETWEEN: Duration = Duration::from_millis(50);
/// Longest time until the agents answer, and until all tasks run or are gone.
const WITHIN: Duration = Duration::from_secs(300);
/// Clock ticks of a second in `/proc`, the same on all of Linux' architectures.
const TICKS: f64 = 100.0;
const JOB: &str = "rest";

#[derive(Args)]
pub struct Options {
    /// The `songline` program. Without it, the one beside this tool.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Directory of the data; a temporary one in /var/tmp if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// How many allocations.
    #[arg(long, default_value_t = 50)]
    count: usize,
    /// Drivers, one after the other.
    #[arg(long, value_delimiter = ',', default_value = "raw_exec,exec")]
    drivers: Vec<String>,
    /// How long the node rests.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// `DOCKER_HOST` of the engine for `docker`.
    #[arg(long, default_value = "unix:///var/run/docker.sock")]
    engine: String,
    /// Image for `docker`, with a `sleep`.
    #[arg(long, default_value = "busybox:1")]
    image: String,
}

pub async fn run(options: Options) -> anyhow::Result<()> {
    let program = match &options.binary {
        Some(binary) => binary.clone(),
        None => std::env::current_exe().context("where this tool is")?.with_file_name("songline"),
    };
    for driver in &options.drivers {
        rest(&program, &options, driver).await.with_context(|| format!("driver {driver}"))?;
    }
    Ok(())
}

async fn rest(program: &Path, options: &Options, driver: &str) -> anyhow::Result<()> {
    let temporary = tempfile::Builder::new().prefix("slr").rand_bytes(4).tempdir_in("/var/tmp")?;
    let dir = options.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    let ports = free_ports(4)?;
    let _server = Agent::start(
        program,
        &dir.join("server"),
        json!({
            "ports": {"http": ports[0], "rpc": ports[1], "serf": ports[2]},
            "server": {"enabled": true, "bootstrap_expect": 1},
        }),
    )?;
    let node = Agent::start(
        program,
        &dir.join("node"),
        json!({
            "ports": {"http": ports[3]},
            "client": {
                "enabled": true, "servers": [format!("127.0.0.1:{}", ports[1])], "gc_disk_usage_threshold": 100,
                "gc_inode_usage_threshold": 100, "gc_max_allocs": 1000,
            },
            "plugin": {
                "raw_exec": {"config": {"enabled": true}},
                "docker": {"config": {"endpoint": options.engine, "gc": {"image": false}}},
            },
        }),
    )?;
    let http = format!("http://127.0.0.1:{}", ports[0]);
    until(&http, "/v1/nodes", "a ready node", |nodes| nodes[0]["Status"] == "ready").await?;
    let empty = node.usage()?;

    let started = Instant::now();
    let body = json!({"Job": job(driver, options)}).to_string();
    Connection::open(&http).await?.ok("PUT", "/v1/jobs", body.as_bytes()).await?;
    let running = |allocs: &Value| {
        let all = allocs.as_array().into_iter().flatten();
        all.filter(|alloc| alloc["ClientStatus"] == "running").count() == options.count
    };
    let allocs = until(&http, &format!("/v1/job/{JOB}/allocations"), "running tasks", running).await?;
    let took = started.elapsed();
    let mut latencies = Latencies::new();
    for alloc in allocs.as_array().into_iter().flatten() {
        latencies.record(until_running(alloc)?);
    }
    latencies.print(&format!("{driver}: from placement to running, all at once"), took);

    let before = node.usage()?;
    tokio::time::sleep(Duration::from_secs(options.seconds)).await;
    let after = node.usage()?;
    let cpu = after.cpu_seconds - before.cpu_seconds;
    let supervisors = supervisors(&dir)?;
    println!(
        "{driver}: {} allocations at rest for {} s: agent {} MiB ({} without allocations), {cpu:.2} s of CPU ({:.2} % of a core), {} threads; \
         supervisors: {} of {} KiB each",
        options.count,
        options.seconds,
        after.resident_kib >> 10,
        empty.resident_kib >> 10,
        cpu / options.seconds as f64 * 100.0,
        after.threads,
        supervisors.0,
        supervisors.1,
    );

    Connection::open(&http).await?.ok("DELETE", &format!("/v1/job/{JOB}"), &[]).await?;
    let over =
        |allocs: &Value| allocs.as_array().into_iter().flatten().all(|alloc| alloc["ClientStatus"] == "complete");
    until(&http, &format!("/v1/job/{JOB}/allocations"), "the end of all tasks", over).await?;
    Connection::open(&http).await?.ok("PUT", &format!("/v1/client/gc?node_id={}", node_id(&allocs)?), &[]).await?;
    Ok(())
}

/// A group of sleepers.
fn job(driver: &str, options: &Options) -> Value {
    let mut config = json!({"command": "/bin/sleep", "args": ["86400"]});
    if driver == "docker" {
        config["image"] = json!(options.image);
        config["command"] = json!("sleep");
    }
    json!({
        "ID": JOB, "Name": JOB, "Type": "service", "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "g", "Count": options.count, "EphemeralDisk": {"SizeMB": 110},
            "Tasks": [{
                "Name": "t", "Driver": driver, "Config": config, "KillTimeout": 100_000_000,
                "Resources": {"CPU": 10, "MemoryMB": 10},
            }],
        }],
    })
}

/// Time from the placement of an allocation until its task ran.
fn until_running(alloc: &Value) -> anyhow::Result<Duration> {
    let events = alloc["TaskStates"]["t"]["Events"].as_array().into_iter().flatten();
    let started = events.filter(|event| event["Type"] == "Started").find_map(|event| event["Time"].as_u64());
    let placed = alloc["CreateTime"].as_u64().context("a time of the placement")?;
    Ok(Duration::from_nanos(started.context("a task that has started")?.saturating_sub(placed)))
}

fn node_id(allocs: &Value) -> anyhow::Result<&str> {
    allocs[0]["NodeID"].as_str().context("the node of an allocation")
}

/// Waits until an answer is as wanted.
async fn until(http: &str, path: &str, what: &str, good: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
    let deadline = Instant::now() + WITHIN;
    loop {
        let answer = async {
            let body = Connection::open(http).await?.ok("GET", path, &[]).await?;
            anyhow::Ok(serde_json::from_slice::<Value>(&body)?)
        };
        match answer.await {
            Ok(value) if good(&value) => return Ok(value),
            last if Instant::now() > deadline => bail!("no {what}: {last:?}"),
            _ => tokio::time::sleep(BETWEEN).await,
        }
    }
}

/// An agent as a process, killed on drop.
struct Agent(Child);

/// Resources that a process has taken.
struct Usage {
    cpu_seconds: f64,
    resident_kib: u64,
    threads: u64,
}

impl Agent {
    fn start(program: &Path, dir: &Path, more: Value) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        let mut config = json!({
            "bind_addr": "127.0.0.1", "data_dir": std::path::absolute(dir.join("data"))?, "log_level": "WARN",
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let path = dir.join("agent.json");
        std::fs::write(&path, config.to_string()).with_context(|| format!("writing {}", path.display()))?;
        let mut command = Command::new(program);
        command.args(["agent", "-config"]).arg(&path).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Self(command.spawn().with_context(|| format!("starting {}", program.display()))?))
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        usage_of(self.0.id())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _dead = self.0.kill();
        let _status = self.0.wait();
    }
}

fn usage_of(pid: u32) -> anyhow::Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name of the program is in parentheses and may hold any characters.
    let fields: Vec<&str> = stat.rsplit_once(") ").context("a name")?.1.split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok()).with_context(|| name.to_owned())
    };
    Ok(Usage {
        cpu_seconds: (ticks(11) + ticks(12)) / TICKS,
        resident_kib: number("VmRSS:")?,
        threads: number("Threads:")?,
    })
}

/// Number of the processes that supervise tasks of this run, and the proportional memory of one in KiB.
fn supervisors(dir: &Path) -> anyhow::Result<(u64, u64)> {
    let (mut count, mut kib) = (0, 0);
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let line = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if !line.contains("executor\0run\0") || !line.contains(&dir.display().to_string()) {
            continue;
        }
        let shares = std::fs::read_to_string(entry.path().join("smaps_rollup")).unwrap_or_default();
        let share = shares.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap_or_default();
        count += 1;
        kib += share.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
    }
    ensure!(kib > 0 || count == 0, "no memory of supervisors");
    Ok((count, kib.checked_div(count).unwrap_or(0)))
}
