//! A cluster moves while its nodes keep running: the commands of `docs/moving.md` are typed as they stand there, with
//! simulated nodes that go on with their allocations. Servers of ours are the old cluster, too.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use songline::model::Dur;
use songline::rpc::port::Dialer;
use songline_sim::fleet::{Behaviour, Delay, Fleet, FleetOptions, Lanes, Profile};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::agent::Agent;
use crate::http::{self, Request};

/// Bound of every wait. A debug build on a busy machine is slow.
const WITHIN: Duration = Duration::from_secs(60);
const BETWEEN: Duration = Duration::from_millis(100);
const NODES: usize = 6;
/// Allocations of the job that does not run on every node.
const COUNT: usize = 5;

/// A server of one of the clusters.
struct Server {
    agent: Agent,
    data: PathBuf,
}

impl Server {
    fn start(data: PathBuf) -> Result<Self> {
        let config = json!({
            "bind_addr": "127.0.0.1",
            "data_dir": data,
            "ports": {"http": 0, "rpc": 0, "serf": 0},
            "server": {
                "enabled": true, "bootstrap_expect": 1, "min_heartbeat_ttl": "1s", "heartbeat_grace": "10s", "failover_heartbeat_ttl": "10m",
            },
        });
        Ok(Self { agent: Agent::start_as(&config)?, data })
    }

    fn address(&self) -> String {
        format!("http://{}", self.agent.http)
    }

    fn get(&self, path: &str) -> Result<Value> {
        let answer = http::call(self.agent.http, &Request::new("GET", path), Instant::now() + WITHIN)?;
        ensure!(answer.head.status == 200, "{path}: {} {}", answer.head.status, answer.text());
        Ok(answer.json()?)
    }

    /// Address of the server for nodes.
    fn rpc(&self) -> Result<SocketAddr> {
        let leader = until("a leader", || Ok(self.get("/v1/status/leader")?.as_str().map(str::to_owned)))?;
        Ok(leader.parse()?)
    }

    /// Running allocations: node, time of the start and number of restarts by id.
    fn running(&self) -> Result<BTreeMap<String, String>> {
        let list = self.get("/v1/allocations?task_states=true")?;
        let is_running = |alloc: &&Value| alloc["ClientStatus"] == "running" && alloc["DesiredStatus"] == "run";
        let shown = |alloc: &Value| {
            let task = &alloc["TaskStates"]["t"];
            let facts = format!("{} {} {}", alloc["NodeID"], task["StartedAt"], task["Restarts"]);
            (alloc["ID"].as_str().unwrap_or_default().to_owned(), facts)
        };
        Ok(list.as_array().into_iter().flatten().filter(is_running).map(shown).collect())
    }

    fn ready_nodes(&self) -> Result<usize> {
        let list = self.get("/v1/nodes")?;
        Ok(list.as_array().into_iter().flatten().filter(|node| node["Status"] == "ready").count())
    }
}

/// Waits for a value.
fn until<T>(what: &str, found: impl Fn() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + WITHIN;
    loop {
        if let Some(value) = found()? {
            return Ok(value);
        }
        ensure!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(BETWEEN);
    }
}

/// The name of the servers, whose address changes: connections go to the current one and end when it changes.
struct Name {
    address: SocketAddr,
    points_to: watch::Sender<SocketAddr>,
}

impl Name {
    async fn of(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (points_to, now) = watch::channel(server);
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let mut now = now.clone();
                tokio::spawn(async move {
                    let server = *now.borrow_and_update();
                    let Ok(mut to) = TcpStream::connect(server).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut from, &mut to) => {}
                        _ = now.changed() => {}
                    }
                });
            }
        });
        Ok(Self { address, points_to })
    }
}

/// The commands of a page, in the blocks in which they stand there.
fn blocks(page: &str, heading: &str) -> Result<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).context("the page has the section")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    Ok(section.split("```").skip(1).step_by(2).map(|block| block.trim_start_matches("sh").to_owned()).collect())
}

/// A shell of the operator, in a folder of its own.
struct Shell {
    folder: PathBuf,
    variables: BTreeMap<&'static str, String>,
}

impl Shell {
    fn types(&self, commands: &str) -> Result<String> {
        let output = Command::new("sh")
            .args(["-euc", commands])
            .current_dir(&self.folder)
            .envs(&self.variables)
            .env("PATH", format!("{}:/usr/bin:/bin", self.folder.display()))
            .output()?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if !output.status.success() {
            bail!("{commands}: {text}");
        }
        Ok(text)
    }
}

fn fleet(name: &Name) -> Fleet<Lanes> {
    let start_delay = Delay { min: Dur::from_millis(10), max: Dur::from_millis(100) };
    let behaviour = Behaviour { start_delay, ..Behaviour::real() };
    let profile = Profile { id_seed: Some("moving".to_owned()), ..Profile::default() };
    let lanes = Lanes::any(&[name.address.to_string().into()], 2, "global".into(), &Dialer::plain()).fixed();
    Fleet::over(FleetOptions { count: NODES, start_rate: 0, profile, behaviour }, lanes)
}

/// A job file, whose deployment ends soon.
fn job(id: &str, kind: &str, count: usize) -> String {
    let update = if kind == "service" { "update { min_healthy_time = \"100ms\" }" } else { "" };
    format!(
        r#"job "{id}" {{
             type = "{kind}"
             {update}
             group "g" {{
               count = {count}
               task "t" {{
                 driver = "mock_driver"
                 config {{ run_for = "10h" }}
                 resources {{
                   cpu = 10
                   memory = 10
                 }}
               }}
             }}
           }}"#
    )
}

#[test]
fn a_cluster_moves_while_its_nodes_keep_running() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("operator");
    std::fs::create_dir(&folder)?;
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_songline"), folder.join("songline"))?;
    let [freeze, import, verify, back] = &blocks("moving.md", "Nodes that keep running")?[..] else {
        bail!("the section has four blocks of commands");
    };
    let runtime = Runtime::new()?;
    let _in_runtime = runtime.enter();

    let old = Server::start(dir.path().join("old"))?;
    let mut shell = Shell { folder: folder.clone(), variables: BTreeMap::new() };
    let (old_data, new_data) = (old.data.display().to_string(), dir.path().join("new"));
    shell.variables.extend([
        ("OLD", old.address()),
        ("OLD_DATA", old_data),
        ("NEW_DATA", new_data.display().to_string()),
    ]);
    let name = runtime.block_on(Name::of(old.rpc()?))?;
    let fleet = fleet(&name);
    runtime.block_on(fleet.all_ready(WITHIN))?;
    std::fs::write(folder.join("web.nomad.hcl"), job("web", "service", COUNT))?;
    std::fs::write(folder.join("everywhere.nomad.hcl"), job("everywhere", "system", 1))?;
    shell.types(
        "export NOMAD_ADDR=$OLD; songline job run -detach web.nomad.hcl; songline job run -detach everywhere.nomad.hcl;
         songline var put app/db password=s3cret",
    )?;
    let all = COUNT + NODES;
    until("the end of the deployment", || {
        Ok((old.get("/v1/job/web/deployment")?["Status"] == "successful").then_some(()))
    })?;
    let before = until("all allocations", || Ok(Some(old.running()?).filter(|found| found.len() == all)))?;

    shell.types(freeze)?;
    let new = Server::start(new_data)?;
    shell.variables.insert("NEW", new.address());
    let said = shell.types(import)?;
    ensure!(said.contains("Snapshot Restored") && said.contains("web") && said.contains("everywhere"), "{said}");
    ensure!(new.running()? == before, "the new servers know the allocations");

    // Repoint: the name of the servers has another address, and the old ones are gone.
    let heard = fleet.counts().heartbeats;
    name.points_to.send_replace(new.rpc()?);
    let Server { agent, data: old_data } = old;
    agent.kill()?;
    until("the nodes at the new servers", || {
        Ok((fleet.counts().heartbeats >= heard + NODES as u64 && new.ready_nodes()? == NODES).then_some(()))
    })?;
    let said = shell.types(verify)?;
    ensure!(said.matches("ready").count() >= NODES && said.contains("s3cret"), "{said}");
    until("the allocations after the broker goes on", || {
        Ok((new.get("/v1/operator/scheduler/configuration")?["SchedulerConfig"]["PauseEvalBroker"] == false)
            .then_some(()))
    })?;

    // The servers decide again: two more are placed, and nothing that ran before was touched.
    shell.types("NOMAD_ADDR=$NEW songline job scale -detach web 7")?;
    let after = until("two more", || Ok(Some(new.running()?).filter(|found| found.len() == all + 2)))?;
    let kept: BTreeMap<_, _> = after.into_iter().filter(|(id, _)| before.contains_key(id)).collect();
    ensure!(kept == before, "no task was restarted or moved: {before:?} became {kept:?}");
    let counts = fleet.counts();
    ensure!(counts.completed == 0 && counts.failed == 0 && counts.running == (all + 2) as i64, "{counts:?}");

    // The way back: an empty cluster gets what is registered.
    drop(fleet);
    std::fs::rename(&old_data, dir.path().join("gone"))?;
    let old = Server::start(old_data)?;
    old.rpc()?;
    shell.variables.insert("OLD", old.address());
    shell.types(back)?;
    let jobs = old.get("/v1/jobs")?;
    let jobs: Vec<&str> = jobs.as_array().into_iter().flatten().filter_map(|job| job["ID"].as_str()).collect();
    ensure!(jobs == ["everywhere", "web"], "{jobs:?}");
    ensure!(old.get("/v1/job/web")?["TaskGroups"][0]["Count"] == 7);
    ensure!(old.get("/v1/var/app/db")?["Items"]["password"] == "s3cret");
    Ok(())
}
