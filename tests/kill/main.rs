//! Kills the agent under load, repeatedly, and checks what it kept.
//!
//! Each round starts the agent on the same data, lets 64 connections write, and kills it (SIGKILL) once a random
//! number of writes was acknowledged. After that every acknowledged write must be there; the event stream must
//! continue after the last index seen without a gap or a repeat; and the process of a running task must be the same
//! one, neither lost nor duplicated. `container` has the same for tasks in containers, and their output; `nodes` kills
//! a node under jobs of all kinds, and looks for what is left of them.
//! `SONGLINE_KILL_ROUNDS` is the number of rounds (5), `SONGLINE_KILL_SEED` repeats a run as far as timing permits.
//! Not here: damage to the files themselves, which `log` tests.

#[path = "../support/agent.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod agent;
mod container;
#[path = "../conformance/csi.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod csi;
#[path = "../support/engine.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod engine;
mod follower;
#[path = "../support/http.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod http;
mod nodes;
#[path = "../support/process.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod process;
#[path = "../http/story.rs"]
#[allow(dead_code, reason = "each test of the whole uses its part")]
mod story;
mod task;
mod writers;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use agent::{Agent, Setup};
use follower::{Follower, PoolEvent};
use http::Request;
use task::Task;
use writers::{Acknowledged, Writers};

const ROUNDS: u64 = 5;
/// Least and largest number of acknowledged writes before a kill.
const WRITES: (u64, u64) = (100, 3000);
/// Timeout of every wait.
const WITHIN: Duration = Duration::from_secs(60);

#[test]
fn killed_agent_loses_no_acknowledged_writes() -> Result<()> {
    let rounds = from_env("SONGLINE_KILL_ROUNDS").unwrap_or(ROUNDS);
    let seed = from_env("SONGLINE_KILL_SEED").unwrap_or_else(seed_of_now);
    say(&format!("seed {seed}, {rounds} rounds"));
    let mut chance = Chance(seed | 1);
    let data = tempfile::tempdir()?;
    let setup = Setup { data_dir: Some(data.path().to_path_buf()), ..Setup::dev() };

    let mut agent = Agent::start(&setup)?;
    let task = Task::start(agent.http, seed)?;
    let mut written = Written::default();
    let mut seen: Vec<PoolEvent> = Vec::new();
    for round in 0..rounds {
        let follower = Follower::start(agent.http, seen.last().map_or(0, |event| event.index))?;
        let writers = Writers::start(agent.http, round)?;
        let target = WRITES.0 + chance.next() % (WRITES.1 - WRITES.0);
        let acknowledged = writers.until(target, WITHIN, || agent.kill())?;
        seen.extend(follower.finish()?);
        let count = acknowledged.len();
        written.add(acknowledged);

        agent = Agent::start(&setup).context("starting again after a kill")?;
        written.check_namespaces(agent.http)?;
        task.check(agent.http).with_context(|| format!("the task after round {round}"))?;
        say(&format!("round {round}: killed after {count} writes, {} events seen in all", seen.len()));
    }

    // One more write, so that both readings of the stream have an end.
    let last = write_last(agent.http)?;
    let from = seen.last().map_or(0, |event| event.index);
    seen.extend(Follower::start(agent.http, from)?.until(last, WITHIN)?);
    written.check_events(&seen)?;
    let again = Follower::start(agent.http, 0)?.until(last, WITHIN)?;
    let differ: Vec<_> = seen
        .iter()
        .filter(|event| !again.contains(event))
        .chain(again.iter().filter(|event| !seen.contains(event)))
        .collect();
    ensure!(
        again == seen,
        "the stream read in one piece has {} events, the pieces had {}: {differ:?}",
        again.len(),
        seen.len()
    );
    task.stop(agent.http)?;
    say(&format!(
        "{rounds} kills: {} namespaces and {} node pool writes acknowledged, none missing; {} events without hole or repeat; one task, one process",
        written.namespaces.len(),
        written.pools.len(),
        seen.len()
    ));
    agent.interrupt()
}

/// All acknowledged writes of all rounds.
#[derive(Default)]
struct Written {
    /// Index of the write by name.
    namespaces: BTreeMap<String, u64>,
    /// Node pool and description by index.
    pools: BTreeMap<u64, (String, String)>,
}

impl Written {
    fn add(&mut self, acknowledged: Vec<Acknowledged>) {
        for write in acknowledged {
            match write {
                Acknowledged::Namespace { name, index } => {
                    self.namespaces.insert(name, index);
                }
                Acknowledged::Pool { name, description, index } => {
                    self.pools.insert(index, (name, description));
                }
            }
        }
    }

    fn check_namespaces(&self, http: SocketAddr) -> Result<()> {
        let answer = http::call(http, &Request::new("GET", "/v1/namespaces"), Instant::now() + WITHIN)?;
        let list = answer.json().context("the list of namespaces")?;
        let there: BTreeMap<&str, u64> = list
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|row| Some((row["Name"].as_str()?, row["CreateIndex"].as_u64()?)))
            .collect();
        let missing: Vec<String> = self
            .namespaces
            .iter()
            .filter(|(name, index)| there.get(name.as_str()) != Some(*index))
            .map(|(name, index)| format!("{name} of {index}: {:?}", there.get(name.as_str())))
            .collect();
        ensure!(
            missing.is_empty(),
            "{} acknowledged namespaces are missing or differ: {}",
            missing.len(),
            missing.join(", ")
        );
        Ok(())
    }

    /// Checks that every acknowledged write is in the stream, at its index, and that every other write in the stream
    /// was attempted.
    fn check_events(&self, seen: &[PoolEvent]) -> Result<()> {
        let by_index: BTreeMap<u64, &PoolEvent> = seen.iter().map(|event| (event.index, event)).collect();
        ensure!(by_index.len() == seen.len(), "an index came twice");
        for (index, (name, description)) in &self.pools {
            let event = by_index.get(index).with_context(|| format!("no event of the acknowledged write {index}"))?;
            ensure!(
                event.name == *name && event.description == *description,
                "the event of {index} is {event:?}, but {name} {description} was written"
            );
        }
        let mut writes: Vec<(&str, &str)> = seen.iter().map(|e| (e.name.as_str(), e.description.as_str())).collect();
        writes.sort_unstable();
        writes.dedup();
        ensure!(writes.len() == seen.len(), "a write was applied twice");
        Ok(())
    }
}

/// Writes a node pool that belongs to no writer, and returns the index.
fn write_last(http: SocketAddr) -> Result<u64> {
    let body = serde_json::json!({"Name": "kill-last"});
    let request = Request::new("PUT", "/v1/node/pools").json(&body);
    let answer = http::call(http, &request, Instant::now() + WITHIN)?;
    answer.index().with_context(|| format!("the last write: {}", answer.text()))
}

/// A list from the agent's answer to a GET, and its index.
fn get(http: SocketAddr, target: &str) -> Result<(u64, Value)> {
    let answer = http::call(http, &Request::new("GET", target), Instant::now() + WITHIN)?;
    ensure!(answer.head.status == 200, "GET {target}: {} {}", answer.head.status, answer.text());
    let body = answer.json().with_context(|| format!("GET {target}"))?;
    Ok((answer.index().unwrap_or_default(), body))
}

/// Pseudo-random numbers, reproducible from a seed (xorshift).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seed_of_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| u64::from(since.subsec_nanos()))
}

/// Prints past the test harness, which captures the output of passing tests.
fn say(text: &str) {
    let _unheard = writeln!(std::io::stderr(), "kill: {text}");
}
