//! A fleet of simulated nodes against a running server over its port: allocations run, lost ones are replaced on other
//! nodes, and stopped ones end. Conditions are awaited; the server's heartbeat limits are short.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use songline::agent::Agent;
use songline::config::AgentConfig;
use songline::model::{Dur, NodeId};
use songline::rpc::port::Dialer;
use songline_sim::fleet::{Behaviour, Delay, Fleet, FleetOptions, Lanes, Profile};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const NODES: usize = 50;
const COUNT: usize = 200;
const KILLED: usize = 10;
/// Bound of every wait. A passing test takes a fraction of it.
const WITHIN: Duration = Duration::from_secs(60);
const BETWEEN: Duration = Duration::from_millis(100);

/// A server of this process with short heartbeats.
struct Server {
    agent: Agent,
    _dir: tempfile::TempDir,
}

impl Server {
    async fn start() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut config = AgentConfig {
            http_port: 0,
            rpc_port: 0,
            serf_port: 0,
            data_dir: Some(dir.path().to_owned()),
            client: None,
            ..AgentConfig::dev()
        };
        let server = config.server.as_mut().context("an agent for development is a server")?;
        server.heartbeats.min_ttl = Dur::from_millis(500);
        server.heartbeats.grace = Dur::from_secs(1);
        Ok(Self { agent: Agent::start(config).await?, _dir: dir })
    }

    fn fleet(&self, count: usize, behaviour: Behaviour) -> Fleet<Lanes> {
        let address = format!("127.0.0.1:{}", self.agent.config().rpc_port);
        let lanes = Lanes::any(&[address.as_str().into()], 2, "global".into(), &Dialer::plain());
        Fleet::over(FleetOptions { count, start_rate: 0, profile: Profile::default(), behaviour }, lanes)
    }

    /// One request; the answer's body.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let mut stream = TcpStream::connect(self.agent.http_addr().trim_start_matches("http://")).await?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("a head and a body")?;
        ensure!(head.contains(" 200 "), "{method} {path}: {answer}");
        Ok(serde_json::from_str(body)?)
    }

    async fn allocs(&self, job: &str) -> Result<Vec<Alloc>> {
        let list = self.ask("GET", &format!("/v1/job/{job}/allocations?all=true"), &Value::Null).await?;
        Ok(serde_json::from_value(list)?)
    }

    /// Waits until the job's allocations are as wanted.
    async fn until(&self, job: &str, what: &str, holds: impl Fn(&[Alloc]) -> bool) -> Result<Vec<Alloc>> {
        let deadline = tokio::time::Instant::now() + WITHIN;
        loop {
            let allocs = self.allocs(job).await?;
            if holds(&allocs) {
                return Ok(allocs);
            }
            ensure!(tokio::time::Instant::now() < deadline, "{what} did not come: {:?}", statuses(&allocs));
            tokio::time::sleep(BETWEEN).await;
        }
    }

    async fn nodes(&self) -> Result<BTreeMap<String, String>> {
        let list = self.ask("GET", "/v1/nodes", &Value::Null).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(list.as_array().into_iter().flatten().map(|node| (text(&node["ID"]), text(&node["Status"]))).collect())
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Alloc {
    #[serde(rename = "NodeID")]
    node_id: String,
    desired_status: String,
    client_status: String,
    task_states: Option<BTreeMap<String, Value>>,
}

fn statuses(allocs: &[Alloc]) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for alloc in allocs {
        *counts.entry((alloc.desired_status.clone(), alloc.client_status.clone())).or_default() += 1;
    }
    counts
}

fn running(allocs: &[Alloc]) -> impl Iterator<Item = &Alloc> {
    allocs.iter().filter(|alloc| alloc.desired_status == "run" && alloc.client_status == "running")
}

fn job(id: &str, kind: &str, count: usize, meta: &Value) -> Value {
    let update = if kind == "service" { json!({ "MaxParallel": 0 }) } else { Value::Null };
    json!({ "Job": {
        "ID": id, "Name": id, "Type": kind, "Datacenters": ["*"], "Meta": meta,
        "TaskGroups": [{
            "Name": "g", "Count": count, "Update": update, "EphemeralDisk": { "SizeMB": 110 },
            "Tasks": [{ "Name": "t", "Driver": "mock_driver", "Config": { "run_for": "200ms" }, "Resources": { "CPU": 10, "MemoryMB": 10 } }],
        }],
    }})
}

fn brisk() -> Behaviour {
    let start_delay = Delay { min: Dur::from_millis(10), max: Dur::from_millis(100) };
    Behaviour { start_delay, ..Behaviour::real() }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_nodes_are_replaced_and_a_stopped_job_completes() -> Result<()> {
    let server = Server::start().await?;
    let fleet = server.fleet(NODES, brisk());
    fleet.all_ready(WITHIN).await?;

    server.ask("PUT", "/v1/jobs", &job("web", "service", COUNT, &Value::Null)).await?;
    let allocs = server.until("web", "200 running", |allocs| running(allocs).count() == COUNT).await?;
    assert_eq!(fleet.counts().running, COUNT as i64);
    for alloc in &allocs {
        let state = alloc.task_states.as_ref().and_then(|states| states.get("t")).context("the task's state")?;
        let events: Vec<_> = state["Events"].as_array().into_iter().flatten().map(|event| &event["Type"]).collect();
        assert_eq!(events, ["Received", "Task Setup", "Started"]);
        assert!(state["StartedAt"].is_string(), "{state}");
    }

    let ids = fleet.ids();
    let numbers = fleet.kill(KILLED);
    let killed: Vec<String> = numbers.iter().map(|n| NodeId::to_string(&ids[*n])).collect();
    assert_eq!(killed.len(), KILLED);
    let replaced = |allocs: &[Alloc]| {
        running(allocs).count() == COUNT && running(allocs).all(|alloc| !killed.contains(&alloc.node_id))
    };
    server.until("web", "200 running on nodes that live", replaced).await?;

    fleet.revive(&numbers);
    fleet.all_ready(WITHIN).await?;
    let deadline = tokio::time::Instant::now() + WITHIN;
    while server.nodes().await?.values().any(|status| status != "ready") {
        assert!(tokio::time::Instant::now() < deadline, "not all are ready: {:?}", server.nodes().await?);
        tokio::time::sleep(BETWEEN).await;
    }

    server.ask("DELETE", "/v1/job/web", &Value::Null).await?;
    let ended = |allocs: &[Alloc]| allocs.iter().all(|alloc| ["complete", "lost"].contains(&&*alloc.client_status));
    let allocs = server.until("web", "the end of all", ended).await?;
    let completed = allocs.iter().filter(|alloc| alloc.client_status == "complete").count();
    assert!(completed >= COUNT, "{:?}", statuses(&allocs));
    assert_eq!(fleet.counts().running, 0);
    fleet.stop();
    server.agent.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_allocations_end_by_themselves_or_fail_by_their_meta() -> Result<()> {
    let server = Server::start().await?;
    let fleet = server.fleet(5, brisk());
    fleet.all_ready(WITHIN).await?;
    server.ask("PUT", "/v1/jobs", &job("sound", "batch", 20, &Value::Null)).await?;
    let complete = |allocs: &[Alloc]| allocs.iter().filter(|alloc| alloc.client_status == "complete").count();
    server.until("sound", "20 complete", |allocs| complete(allocs) == 20).await?;

    let meta = json!({ "sim_fail_ratio": "1", "sim_run_for": "10ms..50ms" });
    server.ask("PUT", "/v1/jobs", &job("broken", "batch", 3, &meta)).await?;
    let failed = |allocs: &[Alloc]| allocs.iter().filter(|alloc| alloc.client_status == "failed").count();
    let allocs = server.until("broken", "3 failed", |allocs| failed(allocs) >= 3).await?;
    assert_eq!(complete(&allocs), 0);
    assert!(fleet.counts().failed >= 3);

    assert_eq!(fleet.leave().await, 5);
    let nodes = server.nodes().await?;
    assert!(nodes.values().all(|status| status == "down"), "{nodes:?}");
    server.agent.stop().await;
    Ok(())
}
