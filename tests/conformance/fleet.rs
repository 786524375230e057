//! The agents that the cases are replayed against: several at once, each with its share of the cases, one case after
//! another. After a failed case that changed something, the agent is replaced, so that no other case sees the
//! changes. Not here: the meaning of a failed case for the test.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::agent::{Agent, Setup};
use crate::case::{Case, Profile};
use crate::csi::{self, Plugin};
use crate::exchange::Server;
use crate::http::{self, Request};
use crate::player::{Outcome, Until, play};

/// The management token that cases of profile `acl` expect.
pub const TOKEN: &str = "2b778dd9-f5f1-6f29-b4b4-9a5fa948757a";
/// Timeout of one whole case; the longest recorded one takes about a minute.
const CASE_WITHIN: Duration = Duration::from_secs(240);
/// Longest time from an agent's first answer until its node is ready.
const NODE_READY_WITHIN: Duration = Duration::from_secs(30);
/// Number of consecutive failed starts of an agent after which its cases are given up.
const STARTS_MAX: u32 = 2;
/// Number of further tries of a case that runs containers: engines list a container's mounts in an order that differs
/// from one time to the next (docker/labels), and the recorded one comes in three of four.
const ENGINE_TRIES: u32 = 3;

/// Result of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// Passed only on a new agent, after one failure with these differences.
    PassedAtSecondTry(Vec<String>),
    Failed(Vec<String>),
}

/// Parameters of the replay.
pub struct Plan<'p> {
    pub until: Until,
    /// Whether a failed case is tried again.
    pub again: &'p (dyn Fn(&Case) -> bool + Sync),
    pub parts: Parts<'p>,
}

/// Parts that agents use beside themselves.
#[derive(Clone)]
pub struct Parts<'p> {
    /// `DOCKER_HOST` of the container engine, if one runs.
    pub engine: Option<String>,
    /// The CSI plugin, if this machine can run it.
    pub plugin: Option<&'p Plugin>,
}

/// Replays all cases; those of one agent in their order.
pub fn run(cases: &[Case], plan: &Plan<'_>) -> BTreeMap<String, Verdict> {
    let verdicts = Mutex::new(BTreeMap::new());
    let queue = |of: &dyn Fn(&Case) -> bool| -> Mutex<VecDeque<&Case>> {
        Mutex::new(cases.iter().filter(|case| of(case)).collect())
    };
    let queue_of = |profile: Profile| queue(&|case: &Case| case.profile == profile && !case.needs_engine());
    let cores = thread::available_parallelism().map_or(2, NonZero::get);
    let shares = [
        // A replay mostly waits, so there may be more agents than processors. With three for each, cases about delays of a
        // second needed a second try.
        (Profile::Dev, cores * 2, queue_of(Profile::Dev)),
        // Its cases share directories of the machine, so they are replayed one after another. Those that run containers
        // use other ports and directories than the rest.
        (Profile::Agent, 1, queue_of(Profile::Agent)),
        (Profile::Agent, 1, queue(&Case::needs_engine)),
        // Its agents run the same plugins.
        (Profile::Csi, 1, queue_of(Profile::Csi)),
        (Profile::Acl, 1, queue_of(Profile::Acl)),
        (Profile::Server, 1, queue_of(Profile::Server)),
    ];
    thread::scope(|scope| {
        for (profile, agents, queue) in &shares {
            for _ in 0..*agents {
                scope.spawn(|| {
                    let mut seat = Seat::new(*profile, plan.parts.clone());
                    loop {
                        let next = queue.lock().pop_front();
                        let Some(case) = next else { break };
                        let verdict = seat.judge(case, plan);
                        verdicts.lock().insert(case.name.clone(), verdict);
                    }
                });
            }
        }
    });
    verdicts.into_inner()
}

/// One sequence of agents, of which one runs at a time.
struct Seat<'p> {
    profile: Profile,
    agent: Option<Agent>,
    /// Data folder of the agent of profile `server`.
    data: Option<tempfile::TempDir>,
    parts: Parts<'p>,
    failed_starts: u32,
    /// Reason why no further agent is started.
    given_up: Option<String>,
}

impl<'p> Seat<'p> {
    fn new(profile: Profile, parts: Parts<'p>) -> Self {
        Seat { profile, agent: None, data: None, parts, failed_starts: 0, given_up: None }
    }

    fn judge(&mut self, case: &Case, plan: &Plan<'_>) -> Verdict {
        let first = self.play(case, plan.until);
        if first.is_empty() {
            return Verdict::Passed;
        }
        let again = if case.needs_engine() { ENGINE_TRIES } else { 1 };
        for _ in 0..again {
            if self.given_up.is_some() || !(plan.again)(case) {
                break;
            }
            self.agent = None;
            if self.play(case, plan.until).is_empty() {
                return Verdict::PassedAtSecondTry(first);
            }
        }
        Verdict::Failed(first)
    }

    /// Replays a case. Returns the differences.
    fn play(&mut self, case: &Case, until: Until) -> Vec<String> {
        let apart = case.wants_own_agent();
        if apart {
            self.agent = None;
        }
        let http = match self.seated(!apart) {
            Ok(http) => http,
            Err(reason) => return vec![reason],
        };
        let server = Server { http, deadline: Instant::now() + CASE_WITHIN };
        let Outcome { mut differences, changed_something } = play(case, server, &env(self.parts.plugin), until);
        if let Some(agent) = &mut self.agent {
            if !agent.is_running() {
                differences.push(format!("the agent died, {}", agent.last_lines()));
                self.agent = None;
            } else if apart || changed_something && !differences.is_empty() || !answers(http) {
                self.agent = None;
            }
        }
        differences
    }

    /// Address of the running agent, which is started if needed.
    fn seated(&mut self, ready: bool) -> Result<std::net::SocketAddr, String> {
        loop {
            if let Some(reason) = &self.given_up {
                return Err(reason.clone());
            }
            if let Some(agent) = &self.agent {
                return Ok(agent.http);
            }
            match self.start(ready) {
                Ok(()) => self.failed_starts = 0,
                Err(error) => {
                    self.agent = None;
                    self.failed_starts += 1;
                    if self.failed_starts >= STARTS_MAX {
                        self.given_up = Some(format!("no agent: {error:#}"));
                    }
                }
            }
        }
    }

    fn start(&mut self, ready: bool) -> Result<()> {
        let mut setup = Setup::dev();
        setup.acl = self.profile == Profile::Acl;
        setup.two_volumes = matches!(self.profile, Profile::Agent | Profile::Csi);
        setup.engine = self.parts.engine.clone().filter(|_| self.profile == Profile::Agent);
        if self.profile == Profile::Server {
            let data = tempfile::tempdir()?;
            setup.data_dir = Some(data.path().to_path_buf());
            self.data = Some(data);
        }
        let agent = self.agent.insert(Agent::start(&setup)?);
        if ready {
            if setup.acl {
                bootstrap(agent.http)?;
            }
            wait_for_node(agent.http);
            run_something(agent.http);
        }
        if let Some(plugin) = self.parts.plugin.filter(|_| self.profile == Profile::Csi) {
            csi::run(agent.http, &plugin.program())?;
        }
        Ok(())
    }
}

/// An agent of profile `dev`, or with ACLs of profile `acl`, for a single test: bootstrapped, with a ready node.
pub fn agent(acl: bool) -> Result<Agent> {
    let agent = Agent::start(&Setup { acl, ..Setup::dev() })?;
    if acl {
        bootstrap(agent.http)?;
    }
    wait_for_node(agent.http);
    Ok(agent)
}

/// Values of `<env:NAME>`: the management token, the program of the CSI plugin and its folder.
fn env(plugin: Option<&Plugin>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([("TOKEN".to_owned(), TOKEN.to_owned())]);
    if let Some(plugin) = plugin {
        env.insert("CSI_PLUGIN".to_owned(), plugin.program().display().to_string());
        env.insert("CSI_HOME".to_owned(), plugin.home().display().to_string());
    }
    env
}

fn bootstrap(http: std::net::SocketAddr) -> Result<()> {
    let request = Request::new("POST", "/v1/acl/bootstrap").json(&json!({"BootstrapSecret": TOKEN}));
    let answer = http::call(http, &request, Instant::now() + Duration::from_secs(10))?;
    ensure!(answer.head.status == 200, "the ACL bootstrap was answered {}: {}", answer.head.status, answer.text());
    Ok(())
}

/// Waits until the agent's node is ready. On a timeout or an error the cases themselves find out.
fn wait_for_node(http: std::net::SocketAddr) {
    let deadline = Instant::now() + NODE_READY_WITHIN;
    let mut index = 0;
    while Instant::now() < deadline {
        let request = Request::new("GET", &format!("/v1/nodes?index={index}&wait=1s")).header("X-Nomad-Token", TOKEN);
        let Ok(answer) = http::call(http, &request, deadline) else {
            return;
        };
        let Ok(Value::Array(nodes)) = answer.json() else {
            return;
        };
        if nodes.iter().any(|node| node["Status"] == "ready") {
            return;
        }
        // Without an index a blocking query is not possible.
        let Some(at) = answer.index() else { return };
        index = at;
    }
}

/// Lets the node run one short job and purges it. The recordings come from a node that had run jobs before: its row
/// has the index of its last alloc update. Without this, the result of a case would depend on the cases that its
/// agent replayed before.
fn run_something(http: std::net::SocketAddr) {
    let deadline = Instant::now() + NODE_READY_WITHIN;
    let call = |request: Request| http::call(http, &request.header("X-Nomad-Token", TOKEN), deadline).ok();
    let task = json!({"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "1ms"}});
    let job = json!({"Job": {"ID": "run-before", "Type": "batch", "TaskGroups": [{"Name": "g", "Tasks": [task]}]}});
    let mut index = call(Request::new("PUT", "/v1/jobs").json(&job)).and_then(|answer| answer.index());
    while let Some(at) = index {
        let Some(answer) = call(Request::new("GET", &format!("/v1/job/run-before?index={at}&wait=1s"))) else { break };
        if answer.json().is_ok_and(|job| job["Status"] == "dead") {
            break;
        }
        index = answer.index().filter(|_| Instant::now() < deadline);
    }
    for last in [Request::new("DELETE", "/v1/job/run-before?purge=true"), Request::new("PUT", "/v1/system/gc")] {
        let _nothing_to_say = call(last);
    }
}

/// Whether the agent still answers.
fn answers(http: std::net::SocketAddr) -> bool {
    let request = Request::new("GET", "/v1/status/leader");
    http::call(http, &request, Instant::now() + Duration::from_secs(10)).is_ok()
}
