//! A node that is killed (SIGKILL) at random moments while jobs of all kinds come and go: while it starts, restores,
//! sets tasks up and ends them. Its next agent finds every task that ran as the same process, starts none twice, and
//! in the end nothing of any allocation is left on the machine.
//!
//! `KILLS` is the number of kills (10), `SONGLINE_KILL_SEED` repeats a run as far as timing permits. Needs root, an
//! engine, CNI plugins and the Python of the CSI plugin.

mod instances;
mod kinds;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agent::{Agent, Starting};
use crate::http::Request;
use crate::process::Process;
use crate::story::{WITHIN, texts};
use crate::{Chance, csi, from_env, say, seed_of_now};
use kinds::Kind;
use machine::Machine;

const KILLS: u64 = 10;
/// Number of kills of one node. Then nothing may be left of it, and another one is started.
const KILLS_OF_ONE_NODE: u64 = 100;
/// Jobs that run at the same time, at most.
const JOBS_MAX: usize = 8;
/// Longest random time between two steps, in milliseconds.
const PAUSE_MAX_MS: u64 = 1500;
/// Lines of the agents' output that a failure shows.
const LINES_MAX: usize = 60;
/// Kills between two moments at which everything has to run.
const KILLS_UNTIL_ALL_RUN: u64 = 5;

#[test]
fn killed_node_finds_its_tasks_again_and_leaves_nothing_of_those_that_ended() -> Result<()> {
    let seed = from_env("SONGLINE_KILL_SEED").unwrap_or_else(seed_of_now);
    let kills = from_env("KILLS").unwrap_or(KILLS);
    say(&format!("nodes: seed {seed}, {kills} kills"));
    let (begun, mut done, mut started) = (Instant::now(), 0, 0);
    while done < kills {
        let more = KILLS_OF_ONE_NODE.min(kills - done);
        let Some(tasks) = kill_again_and_again(more, seed.wrapping_add(done))? else { return Ok(()) };
        (done, started) = (done + more, started + tasks);
    }
    let took = begun.elapsed().as_secs();
    say(&format!("nodes: {kills} kills in all, {started} tasks started, none twice, nothing is left; {took} s"));
    Ok(())
}

/// Kills one node, with all jobs that come and go meanwhile. Returns the number of started tasks; `None`, with a
/// message, on a machine that cannot run them.
fn kill_again_and_again(kills: u64, seed: u64) -> Result<Option<usize>> {
    let machine = match Machine::available()? {
        Ok(machine) => machine,
        Err(missing) => {
            say(&format!("nodes: skipped: {missing}"));
            return Ok(None);
        }
    };
    let begun = Instant::now();
    let mut run = Run::start(&machine, seed)?;
    for kill in 1..=kills {
        run.kill_once()
            .and_then(|()| run.check(kill % KILLS_UNTIL_ALL_RUN == 0))
            .with_context(|| format!("at kill {kill} of seed {seed}; the agent: {}", run.last_lines()))?;
        if kill % 10 == 0 {
            let (jobs, took) = (run.next_job, begun.elapsed().as_secs());
            say(&format!("nodes: {kill} kills, {jobs} jobs, {} of their tasks started; {took} s", run.starts().len()));
        }
    }
    run.finish().with_context(|| format!("in the end, seed {seed}"))?;
    Ok(Some(run.starts().len()))
}

struct Run<'m> {
    machine: &'m Machine,
    config: Value,
    chance: Chance,
    /// `None` while the node is dead.
    agent: Option<Agent>,
    /// Output of the agent before.
    before: String,
    next_job: u64,
    /// Jobs that are registered and not stopped, the oldest first.
    jobs: Vec<(String, Kind)>,
    /// All allocations of jobs of this run.
    allocs: BTreeSet<String>,
    /// Tasks that the servers knew to run, of jobs that are not stopped, with their processes.
    settled: BTreeMap<String, Process>,
}

impl<'m> Run<'m> {
    /// Starts the node and the CSI plugins, and creates the volume.
    fn start(machine: &'m Machine, seed: u64) -> Result<Run<'m>> {
        let config = machine.node()?;
        let agent = Some(Agent::start_as(&config)?);
        csi::run(machine.server.http(), &machine.plugin.program())?;
        let capability = json!({"AccessMode": "multi-node-multi-writer", "AttachmentMode": "file-system"});
        let volume = json!({
            "ID": kinds::VOLUME, "Name": kinds::VOLUME, "PluginID": "vt-mono", "RequestedCapabilities": [capability],
        });
        machine.server.put("/v1/volume/csi/shared/create", &json!({"Volumes": [volume]}))?;
        Ok(Run {
            machine,
            config,
            chance: Chance(seed | 1),
            agent,
            before: String::new(),
            next_job: 0,
            jobs: Vec::new(),
            allocs: BTreeSet::new(),
            settled: BTreeMap::new(),
        })
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.chance.next() >> 11) % bound
    }

    /// One kill: jobs come and go, the agent dies, more jobs come and go, and an agent starts, or dies once more before
    /// it is ready.
    fn kill_once(&mut self) -> Result<()> {
        self.change_jobs()?;
        self.pause()?;
        self.settle()?;
        if let Some(agent) = self.agent.take() {
            self.before = String::from_utf8_lossy(&agent.log()?).into_owned();
            agent.kill()?;
        }
        if self.below(2) == 0 {
            self.change_jobs()?;
        }
        if self.below(4) == 0 {
            let starting = Starting::begin_as(&self.config)?;
            self.pause()?;
            drop(starting);
        }
        self.agent = Some(Agent::start_as(&self.config).context("starting again after a kill")?);
        Ok(())
    }

    /// Registers one or two jobs, and stops old ones.
    fn change_jobs(&mut self) -> Result<()> {
        for _ in 0..=self.below(2) {
            let kind = Kind::ALL[usize::try_from(self.below(4))?];
            let id = format!("{}-{}", format!("{kind:?}").to_lowercase(), self.next_job);
            self.next_job += 1;
            self.machine.server.put("/v1/jobs", &kind.job(&id, &self.machine.told()))?;
            self.jobs.push((id, kind));
        }
        while self.jobs.len() > JOBS_MAX || !self.jobs.is_empty() && self.below(4) == 0 {
            let (oldest, _) = self.jobs.remove(0);
            self.stop(&oldest)?;
        }
        self.look()?;
        Ok(())
    }

    fn stop(&mut self, job: &str) -> Result<()> {
        let allocs = self.machine.server.get(&format!("/v1/job/{job}/allocations"))?;
        for id in texts(&allocs, "ID") {
            self.settled.remove(id);
        }
        let purge = if self.below(2) == 0 { "?purge=true" } else { "" };
        self.machine.server.call(&Request::new("DELETE", &format!("/v1/job/{job}{purge}"))).map(drop)
    }

    /// A random time, also spent waiting for the servers.
    fn pause(&mut self) -> Result<()> {
        let until = Instant::now() + Duration::from_millis(self.below(PAUSE_MAX_MS));
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| left.as_millis() > 0) {
            let target = format!("/v1/regions?wait={}ms", left.as_millis());
            self.machine.server.get(&target)?;
        }
        Ok(())
    }

    /// All allocations of the run's jobs that the servers know.
    fn look(&mut self) -> Result<Vec<Value>> {
        let allocs = self.machine.server.get("/v1/allocations")?;
        let of_run = |alloc: &&Value| alloc["JobID"].as_str().is_some_and(|job| !job.starts_with("plugin-"));
        let allocs: Vec<Value> = allocs.as_array().into_iter().flatten().filter(of_run).cloned().collect();
        self.allocs.extend(allocs.iter().filter_map(|alloc| alloc["ID"].as_str()).map(str::to_owned));
        Ok(allocs)
    }

    /// Notes the tasks that the servers know to run, with their processes.
    fn settle(&mut self) -> Result<()> {
        let allocs = self.look()?;
        let found = instances::all(&self.allocs);
        for alloc in allocs.iter().filter(|alloc| alloc["DesiredStatus"] == "run") {
            let id = alloc["ID"].as_str().context("allocations have ids")?;
            if alloc["ClientStatus"] != "running" || !self.is_wanted(alloc) {
                continue;
            }
            let of = found.get(id).map(Vec::as_slice).unwrap_or_default();
            let [process] = of else { bail!("{} runs, with the processes {of:?}: {alloc}", alloc["JobID"]) };
            self.settled.entry(id.to_owned()).or_insert_with(|| process.clone());
        }
        Ok(())
    }

    fn is_wanted(&self, alloc: &Value) -> bool {
        self.jobs.iter().any(|(job, _)| alloc["JobID"] == *job)
    }

    fn starts(&self) -> BTreeMap<String, usize> {
        instances::starts(&self.machine.told())
    }

    /// Checks that the new agent has the tasks of the killed one, and that no task was started twice. With `all_run`
    /// waits until all jobs run.
    fn check(&mut self, all_run: bool) -> Result<()> {
        for (id, process) in self.settled.clone() {
            self.is_supervised(&id).with_context(|| format!("the task of {id}, process {process:?}"))?;
        }
        if all_run {
            for (job, kind) in self.jobs.clone() {
                let target = format!("/v1/job/{job}/allocations");
                let allocs = self.machine.server.wait(&target, |allocs| {
                    texts(allocs, "ClientStatus").iter().all(|status| *status == "running")
                        && !texts(allocs, "ID").is_empty()
                });
                let allocs = allocs.with_context(|| format!("{job} does not run"))?;
                if kind == Kind::Bridge {
                    self.answers(allocs[0]["ID"].as_str().context("an id")?)?;
                }
            }
            self.settle()?;
        }
        for alloc in self.look()? {
            ensure!(alloc["ClientStatus"] != "failed" && alloc["ClientStatus"] != "lost", "it failed: {alloc}");
        }
        let found = instances::all(&self.allocs);
        for (id, process) in &self.settled {
            let of = found.get(id).map(Vec::as_slice).unwrap_or_default();
            ensure!(of == std::slice::from_ref(process), "the task of {id} was {process:?} and is {of:?}");
        }
        for (id, of) in found {
            ensure!(of.len() <= 1, "{id} runs as {of:?}");
        }
        let twice: Vec<_> = self.starts().into_iter().filter(|(_, starts)| *starts > 1).collect();
        ensure!(twice.is_empty(), "started more than once: {twice:?}");
        Ok(())
    }

    /// Waits until the agent has the task: it reads its usage.
    fn is_supervised(&self, id: &str) -> Result<()> {
        let node = self.agent.as_ref().context("a node")?.http;
        let request = Request::new("GET", &format!("/v1/client/allocation/{id}/stats?task=task"));
        let deadline = Instant::now() + WITHIN;
        loop {
            let answer = crate::http::call(node, &request, deadline)?;
            let known = answer.head.status == 200 && answer.text().contains("\"task\"");
            if known {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "its usage is {} {}", answer.head.status, answer.text());
        }
    }

    /// Waits until the server behind a mapped port accepts a connection.
    fn answers(&self, id: &str) -> Result<()> {
        let alloc = self.machine.server.get(&format!("/v1/allocation/{id}"))?;
        let port = &alloc["AllocatedResources"]["Shared"]["Ports"][0];
        let at = format!("{}:{}", port["HostIP"].as_str().context("an address")?, port["Value"]);
        let at: SocketAddr = at.parse().with_context(|| at.clone())?;
        let deadline = Instant::now() + WITHIN;
        loop {
            match TcpStream::connect_timeout(&at, Duration::from_secs(1)) {
                Ok(_) => return Ok(()),
                Err(error) => ensure!(Instant::now() < deadline, "{id} at {at}: {error}"),
            }
        }
    }

    /// Stops all jobs, with one kill more, and waits until nothing is left.
    fn finish(&mut self) -> Result<()> {
        for (job, _) in std::mem::take(&mut self.jobs) {
            self.stop(&job)?;
        }
        self.kill_in_the_end()?;
        let ended = |list: &Value| texts(list, "ClientStatus").iter().all(|status| *status == "complete");
        self.machine.server.wait("/v1/allocations?filter=JobID+not+matches+%22%5Eplugin%22", ended)?;
        self.machine.server.wait("/v1/volume/csi/shared", |volume| {
            volume["WriteAllocs"].as_object().is_some_and(serde_json::Map::is_empty)
        })?;
        self.machine.server.wait("/v1/plugin/csi/vt-mono", |plugin| plugin["ControllersHealthy"] == 1)?;
        self.machine.server.call(&Request::new("DELETE", "/v1/volume/csi/shared/delete"))?;
        for job in ["plugin-vt-mono", "plugin-vt-node"] {
            self.machine.server.call(&Request::new("DELETE", &format!("/v1/job/{job}")))?;
        }
        self.machine.server.wait("/v1/allocations", ended)?;
        let deadline = Instant::now() + 2 * WITHIN;
        loop {
            self.machine.server.put("/v1/system/gc", &Value::Null)?;
            let left = self.machine.left_over(&self.allocs)?;
            if left.is_empty() {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "left of {} allocations: {left:#?}; the agent: {}",
                self.allocs.len(),
                self.last_lines()
            );
        }
    }

    fn kill_in_the_end(&mut self) -> Result<()> {
        self.pause()?;
        if let Some(agent) = self.agent.take() {
            agent.kill()?;
        }
        self.agent = Some(Agent::start_as(&self.config)?);
        Ok(())
    }

    /// Output of the agent, and of the one before.
    fn last_lines(&self) -> String {
        let now = self.agent.as_ref().and_then(|agent| agent.log().ok()).unwrap_or_default();
        let text = format!("{}\n-- killed --\n{}", self.before, String::from_utf8_lossy(&now));
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES_MAX)..].join("\n")
    }
}
