//! A task in a container that runs on while the agent is killed, again and again: the same container is found, and no
//! line of its output is lost or written twice. A container that was removed while no agent ran is replaced. When the
//! job is gone, no container is left. The network of an allocation is found again, too. All of it with Docker's engine
//! and with Podman's.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use songline_client::ClientConfig;
use songline_client::driver::docker::Docker;
use songline_client::driver::{AllocNetwork, Driver};
use songline_model::AllocId;

use crate::agent::{Agent, Setup};
use crate::engine::{Engine, Kind};
use crate::http::{self, Request};
use crate::{Chance, WITHIN, from_env, get, say, seed_of_now};

const JOB: &str = "kill-container";
const ROUNDS: u64 = 4;
/// Lines that the task prints between two kills, at least and at most.
const LINES: (usize, u64) = (50, 300);
/// Prints a line to each stream every few milliseconds until told to stop, then runs on without a word.
const SCRIPT: &str = "i=0; while [ ! -e /tmp/stop ]; do i=$((i+1)); echo line $i; echo error $i >&2; usleep 4000; done; \
                      echo the end; echo the end >&2; sleep 600";

#[test]
fn killed_agent_finds_its_containers_and_their_output_again() -> Result<()> {
    kill_again_and_again(Kind::Docker)
}

#[test]
fn killed_agent_finds_its_containers_of_podman_and_their_output_again() -> Result<()> {
    kill_again_and_again(Kind::Podman)
}

fn kill_again_and_again(kind: Kind) -> Result<()> {
    let Some(engine) = engine(kind)? else { return Ok(()) };
    let begun = Instant::now();
    let seed = from_env("SONGLINE_KILL_SEED").unwrap_or_else(seed_of_now);
    let mut chance = Chance(seed | 1);
    // Not in /tmp: the engine has other directories there.
    let data = tempfile::Builder::new().prefix("songline-kill-").tempdir_in("/var/tmp")?;
    let setup = Setup { data_dir: Some(data.path().to_path_buf()), engine: Some(engine.host()), ..Setup::dev() };

    let mut agent = Agent::start(&setup)?;
    let alloc = register(agent.http)?;
    let container = engine.docker(&["ps", "-q", "--no-trunc"])?;
    for round in 0..ROUNDS {
        let wanted = LINES.0 + usize::try_from(chance.next() % LINES.1)?;
        wait_for("output", || Ok(log(agent.http, &alloc, "stdout")?.lines().count() >= (round as usize) + wanted))?;
        agent.kill()?;
        let printed = engine_log(&engine, &container)?.lines().count();
        // The task goes on while no agent is there.
        wait_for("output without an agent", || Ok(engine_log(&engine, &container)?.lines().count() > printed + 20))?;
        agent = Agent::start(&setup).with_context(|| format!("starting again after kill {round}"))?;
        let state = running(agent.http, &alloc, 0)?;
        ensure!(state["Restarts"] == 0, "the task was restarted: {state}");
        ensure!(
            engine.docker(&["ps", "-aq", "--no-trunc"])? == container,
            "it is another container, or another one more"
        );
    }

    exec(agent.http, &alloc, &["touch", "/tmp/stop"])?;
    let mut lines = 0;
    for stream in ["stdout", "stderr"] {
        wait_for("the last line", || Ok(log(agent.http, &alloc, stream)?.ends_with("the end\n")))?;
        let text = log(agent.http, &alloc, stream)?;
        check_whole(&text).with_context(|| format!("{stream} of seed {seed}"))?;
        lines += text.lines().count();
    }

    agent.kill()?;
    engine.docker(&["rm", "-f", container.trim()])?;
    agent = Agent::start(&setup).context("starting again without the container")?;
    running(agent.http, &alloc, 1)?;
    let next = engine.docker(&["ps", "-aq", "--no-trunc"])?;
    ensure!(next.lines().count() == 1 && next != container, "containers after the removal: {next:?}");

    stop(agent.http)?;
    wait_for("no container", || Ok(engine.docker(&["ps", "-aq"])?.is_empty()))?;
    let took = begun.elapsed().as_secs_f64();
    say(&format!(
        "containers: {kind:?}: seed {seed}, {ROUNDS} kills, {lines} lines, none lost or twice; nothing is left; \
         {took:.0} s"
    ));
    agent.interrupt()
}

#[test]
fn network_of_an_allocation_is_made_once_and_removed() -> Result<()> {
    let Some(engine) = engine(Kind::Docker)? else { return Ok(()) };
    let config = config(&engine);
    let alloc: AllocId = "1b5a6a5e-0000-0000-0000-000000000001".parse().context("an id")?;
    let name = format!("nomad_init_{alloc}");
    tokio::runtime::Runtime::new()?.block_on(async {
        let made = Docker::new(&config).create_network(&alloc, "some-host").await.map_err(anyhow::Error::msg)?;
        ensure!(made.path.exists() && made.hostname == "some-host", "{made:?}");
        ensure!(engine.docker(&["inspect", "-f", "{{.Config.Hostname}}", &name])?.trim() == "some-host");
        // As an agent does that was killed meanwhile.
        let driver = Docker::new(&config);
        let found = driver.create_network(&alloc, "some-host").await.map_err(anyhow::Error::msg)?;
        ensure!(found == made, "{found:?} is not {made:?}");
        for _ in 0..2 {
            driver.destroy_network(&alloc, &found).await.map_err(anyhow::Error::msg)?;
        }
        // The engine removes the path itself, some time later.
        ensure!(engine.docker(&["ps", "-aq"])?.is_empty(), "a container is left");
        Ok(())
    })
}

#[test]
fn network_of_an_allocation_with_podman_is_a_namespace_without_a_container() -> Result<()> {
    let Some(engine) = engine(Kind::Podman)? else { return Ok(()) };
    let config = config(&engine);
    let alloc: AllocId = "1b5a6a5e-0000-0000-0000-000000000002".parse().context("an id")?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let driver = Docker::new(&config);
        let made = driver.create_network(&alloc, "some-host").await.map_err(anyhow::Error::msg)?;
        ensure!(made.path.exists() && made.hostname == "some-host" && made.container.is_none(), "{made:?}");
        let found = Docker::new(&config).create_network(&alloc, "some-host").await.map_err(anyhow::Error::msg)?;
        ensure!(found == made, "{found:?} is not {made:?}");
        // As an agent does that was killed before it knew what was made; then once more.
        for network in [&AllocNetwork::default(), &found] {
            driver.destroy_network(&alloc, network).await.map_err(anyhow::Error::msg)?;
            ensure!(!made.path.exists(), "{made:?} is left");
        }
        ensure!(engine.docker(&["ps", "-aq"])?.is_empty(), "there is a container");
        Ok(())
    })
}

/// Configuration of a driver that uses the engine.
fn config(engine: &Engine) -> ClientConfig {
    let options = json!({"endpoint": engine.host(), "infra_image": "local/pause:1"});
    let mut config = ClientConfig { data_dir: "/var/tmp/songline-none".into(), ..ClientConfig::default() };
    config.plugins.insert("docker".into(), options.as_object().cloned().unwrap_or_default());
    config
}

/// An engine for a test; `None`, with a message, on a machine that cannot run one.
fn engine(kind: Kind) -> Result<Option<Engine>> {
    let missing = match Engine::available(kind)? {
        Ok(engine) => return Ok(Some(engine)),
        Err(missing) => missing,
    };
    say(&format!("containers: {kind:?}: skipped: {missing}"));
    Ok(None)
}

/// Registers the job and waits until it runs. Returns the id of its allocation.
fn register(http: SocketAddr) -> Result<String> {
    let job = json!({"Job": {
        "ID": JOB,
        "Name": JOB,
        "Type": "service",
        "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group",
            "Count": 1,
            "RestartPolicy": {"Attempts": 5, "Interval": 600_000_000_000_u64, "Delay": 10_000_000, "Mode": "fail"},
            "Tasks": [{
                "Name": "printer",
                "Driver": "docker",
                "Config": {"image": "local/busybox:1", "command": "/bin/sh", "args": ["-c", SCRIPT]},
                "KillTimeout": 100_000_000,
                "Resources": {"CPU": 20, "MemoryMB": 16},
            }],
        }],
    }});
    send(http, &Request::new("PUT", "/v1/jobs").json(&job))?;
    let mut id = None;
    wait_for("the allocation", || {
        let (_, allocs) = get(http, &format!("/v1/job/{JOB}/allocations"))?;
        let first = allocs.as_array().and_then(|allocs| allocs.first());
        id = first
            .filter(|alloc| alloc["ClientStatus"] == "running")
            .and_then(|alloc| alloc["ID"].as_str())
            .map(Into::into);
        Ok(id.is_some())
    })?;
    id.context("it has an id")
}

/// Waits until the task runs for the time after these many starts. Returns its state.
fn running(http: SocketAddr, alloc: &str, starts: usize) -> Result<Value> {
    let mut last = Value::Null;
    wait_for("the task", || {
        let (_, found) = get(http, &format!("/v1/allocation/{alloc}"))?;
        last = found["TaskStates"]["printer"].clone();
        let events = last["Events"].as_array().into_iter().flatten();
        let started = events.filter(|event| event["Type"] == "Started").count();
        Ok(last["State"] == "running" && started > starts)
    })
    .with_context(|| last.to_string())?;
    Ok(last)
}

fn stop(http: SocketAddr) -> Result<()> {
    send(http, &Request::new("DELETE", &format!("/v1/job/{JOB}?purge=true")))
}

fn send(http: SocketAddr, request: &Request) -> Result<()> {
    let answer = http::call(http, request, Instant::now() + WITHIN)?;
    ensure!(answer.head.status == 200, "{} {}", answer.head.status, answer.text());
    Ok(())
}

/// Whole output as the agent has it; empty while the agent cannot show it.
fn log(http: SocketAddr, alloc: &str, stream: &str) -> Result<String> {
    let target = format!("/v1/client/fs/logs/{alloc}?task=printer&type={stream}&plain=true");
    let answer = http::call(http, &Request::new("GET", &target), Instant::now() + WITHIN)?;
    Ok(if answer.head.status == 200 { answer.text() } else { String::new() })
}

/// Standard output as the engine has it.
fn engine_log(engine: &Engine, container: &str) -> Result<String> {
    engine.docker(&["logs", container.trim()])
}

/// Runs a command in the task.
fn exec(http: SocketAddr, alloc: &str, argv: &[&str]) -> Result<()> {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_songline"))
        .args(["alloc", "exec", "-address", &format!("http://{http}"), "-task", "printer", alloc])
        .args(argv)
        .output()?;
    ensure!(output.status.success(), "exec: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Checks that the lines are numbered from 1 without a gap and without a repeat.
fn check_whole(text: &str) -> Result<()> {
    for (line, wanted) in text.lines().zip(1..) {
        let number = line.split_once(' ').map_or("", |(_, number)| number);
        ensure!(number == wanted.to_string() || line == "the end", "line {wanted} is {line:?}");
    }
    let ends = text.lines().filter(|line| *line == "the end").count();
    ensure!(ends == 1, "{ends} last lines");
    Ok(())
}

/// Repeats a question until the answer is yes.
fn wait_for(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + WITHIN;
    while Instant::now() < deadline {
        if is_so()? {
            return Ok(());
        }
    }
    bail!("{what} did not come within {} s", WITHIN.as_secs())
}
