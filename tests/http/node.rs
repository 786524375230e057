//! Servers and nodes in separate processes: a job on a node without a server, its logs and exec sessions through any
//! agent, and the state after one of the processes is killed. Not here: clusters of several servers.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::http::{Connection, Request};
use crate::process;
use crate::story::{Story, texts};

/// Ports of a server, which stay the same across restarts.
struct Ports {
    http: u16,
    rpc: u16,
}

impl Ports {
    fn free() -> Result<Self> {
        let (http, rpc) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
        Ok(Self { http: http.local_addr()?.port(), rpc: rpc.local_addr()?.port() })
    }
}

fn server(dir: &Path, ports: &Ports, acl: bool) -> Result<Story> {
    let content = json!({
        "data_dir": dir.join("server"),
        "bind_addr": "127.0.0.1",
        "ports": {"http": ports.http, "rpc": ports.rpc, "serf": 0},
        "server": {"enabled": true, "bootstrap_expect": 1, "heartbeat_grace": "1s"},
        "acl": {"enabled": acl},
    });
    Ok(Story { agent: Agent::start_as(&content)? })
}

fn node(dir: &Path, name: &str, ports: &Ports, acl: bool) -> Result<Story> {
    let content = json!({
        "data_dir": dir.join(name),
        "name": name,
        "bind_addr": "127.0.0.1",
        "ports": {"http": 0},
        "client": {
            "enabled": true,
            "servers": [format!("127.0.0.1:{}", ports.rpc)],
            "gc_disk_usage_threshold": 100,
        },
        "plugin": {"raw_exec": {"config": {"enabled": true}}},
        "acl": {"enabled": acl},
    });
    Ok(Story { agent: Agent::start_as(&content)? })
}

/// A service that prints a word and sleeps.
fn job(id: &str, count: u64) -> Value {
    json!({"Job": {
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["dc1"],
        "TaskGroups": [{
            "Name": "g", "Count": count,
            "RestartPolicy": {"Attempts": 0, "Mode": "fail", "Interval": 60_000_000_000_u64, "Delay": 1_000_000_000},
            "ReschedulePolicy": {"Unlimited": true, "DelayFunction": "constant", "Delay": 5_000_000_000_u64},
            "Tasks": [{
                "Name": "t", "Driver": "raw_exec",
                "Config": {"command": "/bin/sh", "args": ["-c", "echo ready; exec sleep 86400"]},
                "Resources": {"CPU": 10, "MemoryMB": 10},
            }],
        }],
    }})
}

fn wait_for_ready(servers: &Story, count: usize) -> Result<Vec<String>> {
    let ready = |nodes: &Value| texts(nodes, "Status").iter().filter(|status| **status == "ready").count() == count;
    let nodes = servers.wait("/v1/nodes", ready)?;
    Ok(texts(&nodes, "ID").into_iter().map(str::to_owned).collect())
}

/// Output of a task, once there is some.
fn log_of(agent: &Story, alloc: &str) -> Result<String> {
    let target = format!("/v1/client/fs/logs/{alloc}?task=t&type=stdout&plain=true");
    Ok(agent.call(&Request::new("GET", &target))?.text())
}

/// Runs a command in a task through the command line.
fn exec(agent: SocketAddr, alloc: &str, command: &[&str]) -> Result<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_songline"))
        .args(["alloc", "exec", "-address", &format!("http://{agent}"), "-i=false", "-t=false", "-task", "t", alloc])
        .args(command)
        .output()
        .context("running the command line")?;
    ensure!(output.status.success(), "exec: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn job_on_a_client_only_agent_is_reachable_through_every_agent() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ports = Ports::free()?;
    let servers = server(dir.path(), &ports, false)?;
    let node = node(dir.path(), "alone", &ports, false)?;
    let ids = wait_for_ready(&servers, 1)?;

    // Written through the node, which forwards the request.
    node.put("/v1/jobs", &job("seen", 1))?;
    let allocs = servers.wait_for_running("seen", 1, 0)?;
    let alloc = allocs[0]["ID"].as_str().context("an id")?.to_owned();
    ensure!(allocs[0]["NodeID"] == ids[0], "it runs on the node: {}", allocs[0]);

    for agent in [&servers, &node] {
        ensure!(log_of(agent, &alloc)? == "ready\n", "the log through {}", agent.http());
        let files = agent.get(&format!("/v1/client/fs/ls/{alloc}?path=/"))?;
        ensure!(texts(&files, "Name").contains(&"alloc"), "{files}");
        ensure!(exec(agent.http(), &alloc, &["echo", "hello"])? == "hello\n", "exec through {}", agent.http());
        let stats = agent.get(&format!("/v1/client/allocation/{alloc}/stats"))?;
        ensure!(stats["Tasks"]["t"].is_object(), "{stats}");
        let host = agent.get(&format!("/v1/client/stats?node_id={}", ids[0]))?;
        ensure!(host["Memory"].is_object(), "{host}");
    }

    // Requests about the agent are answered by the agent itself.
    ensure!(node.get("/v1/agent/health")? == json!({"client": {"ok": true, "message": "ok"}}));
    let own = node.get("/v1/agent/self")?;
    ensure!(own["stats"]["client"]["node_id"] == ids[0], "{own}");
    let known = node.get("/v1/agent/servers")?;
    ensure!(known == json!([format!("127.0.0.1:{}", ports.rpc)]), "{known}");
    let none = node.ask(&Request::new("PUT", "/v1/agent/servers?address=127.0.0.1:1"))?;
    ensure!(none.head.status == 400 && none.text().contains("127.0.0.1:1 failed ping"), "{}", none.text());
    let same = node.ask(&Request::new("PUT", &format!("/v1/agent/servers?address=127.0.0.1:{}", ports.rpc)))?;
    ensure!(same.head.status == 200, "{}", same.text());
    let join = node.ask(&Request::new("PUT", "/v1/agent/join?address=x"))?;
    ensure!((join.head.status, join.text().as_str()) == (501, "Invalid method"), "{}", join.text());
    ensure!(node.get("/v1/client/stats")?["Memory"].is_object(), "the node's own statistics need no id");

    servers.call(&Request::new("DELETE", "/v1/job/seen"))?;
    servers.wait("/v1/job/seen/allocations", |list| texts(list, "ClientStatus") == ["complete"])?;
    Ok(())
}

#[test]
fn killed_server_regains_its_node_after_a_restart_and_the_task_keeps_running() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ports = Ports::free()?;
    let servers = server(dir.path(), &ports, false)?;
    let node = node(dir.path(), "steady", &ports, false)?;
    wait_for_ready(&servers, 1)?;
    servers.put("/v1/jobs", &job("steady", 1))?;
    let before = servers.wait_for_running("steady", 1, 0)?;

    servers.agent.kill()?;
    let away = node.ask(&Request::new("GET", "/v1/jobs"))?;
    ensure!(
        away.head.status == 500 && away.text().contains("failed to get conn"),
        "{} {}",
        away.head.status,
        away.text()
    );
    ensure!(node.get("/v1/agent/health")?["client"]["ok"] == true);

    let servers = server(dir.path(), &ports, false)?;
    wait_for_ready(&servers, 1)?;
    // The node runs a new job, so it has reconnected to the server.
    servers.put("/v1/jobs", &job("later", 1))?;
    servers.wait_for_running("later", 1, 0)?;
    let after = servers.wait_for_running("steady", 1, 0)?;
    ensure!(after[0]["ID"] == before[0]["ID"], "another allocation: {}", after[0]);
    let (then, now) = (&before[0]["TaskStates"]["t"], &after[0]["TaskStates"]["t"]);
    ensure!(now["StartedAt"] == then["StartedAt"] && now["Restarts"] == 0, "the task was started anew: {now}");
    let alloc = after[0]["ID"].as_str().context("an id")?;
    ensure!(exec(servers.http(), alloc, &["echo", "still"])? == "still\n");

    for job in ["steady", "later"] {
        servers.call(&Request::new("DELETE", &format!("/v1/job/{job}")))?;
        servers.wait(&format!("/v1/job/{job}/allocations"), |list| texts(list, "ClientStatus") == ["complete"])?;
    }
    Ok(())
}

#[test]
fn alloc_of_a_killed_node_is_lost_and_replaced_on_another_node() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ports = Ports::free()?;
    let servers = server(dir.path(), &ports, false)?;
    let mut nodes = vec![node(dir.path(), "one", &ports, false)?, node(dir.path(), "two", &ports, false)?];
    wait_for_ready(&servers, 2)?;
    servers.put("/v1/jobs", &job("moves", 1))?;
    let before = servers.wait_for_running("moves", 1, 0)?.remove(0);
    let name = before["NodeName"].as_str().context("a name")?;

    let unlucky = nodes.remove(usize::from(name == "two"));
    let left = process::descendants(unlucky.agent.pid());
    unlucky.agent.kill()?;
    let target = "/v1/job/moves/allocations";
    let list = servers.wait(target, |list| {
        let mut statuses = texts(list, "ClientStatus");
        statuses.sort_unstable();
        statuses == ["lost", "running"]
    });
    // The task of the dead agent keeps running: no agent can stop it, so the test has to.
    left.iter().for_each(process::Process::kill);
    let list = list?;
    let runs =
        list.as_array().into_iter().flatten().find(|alloc| alloc["ClientStatus"] == "running").context("one runs")?;
    let id = runs["ID"].as_str().context("an id")?;
    let runs = servers.get(&format!("/v1/allocation/{id}"))?;
    ensure!(runs["NodeName"] != before["NodeName"] && runs["PreviousAllocation"] == before["ID"], "{runs}");
    ensure!(log_of(&servers, id)? == "ready\n");
    let down = servers.wait("/v1/nodes", |nodes| texts(nodes, "Status").contains(&"down"))?;
    ensure!(texts(&down, "Status").contains(&"ready"), "{down}");

    servers.call(&Request::new("DELETE", "/v1/job/moves"))?;
    servers.wait(target, |list| !texts(list, "ClientStatus").contains(&"running"))?;
    Ok(())
}

#[test]
fn node_agent_authorizes_by_the_policies_of_the_servers() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ports = Ports::free()?;
    let servers = server(dir.path(), &ports, true)?;
    let node = node(dir.path(), "strict", &ports, true)?;
    let bootstrap = servers.put("/v1/acl/bootstrap", &json!({}))?;
    let management = bootstrap["SecretID"].as_str().context("a secret")?.to_owned();
    let with = |method: &str, target: &str, token: &str| Request::new(method, target).header("X-Nomad-Token", token);

    let policy = json!({"Name": "looker", "Rules": "agent { policy = \"read\" }"});
    servers.call(&with("PUT", "/v1/acl/policy/looker", &management).json(&policy))?;
    let token = json!({"Name": "looker", "Type": "client", "Policies": ["looker"]});
    let token = servers.call(&with("PUT", "/v1/acl/token", &management).json(&token))?.json()?;
    let looker = token["SecretID"].as_str().context("a secret")?.to_owned();

    let status = |request: Request| anyhow::Ok(node.ask(&request)?.head.status);
    let change = format!("/v1/agent/servers?address=127.0.0.1:{}", ports.rpc);
    ensure!(status(with("GET", "/v1/agent/self", &management))? == 200);
    ensure!(status(with("GET", "/v1/agent/self", &looker))? == 200);
    ensure!(status(Request::new("GET", "/v1/agent/self"))? == 403);
    ensure!(status(with("PUT", &change, &looker))? == 403);
    ensure!(status(with("PUT", &change, &management))? == 200);
    ensure!(status(Request::new("GET", "/v1/agent/health"))? == 200);
    // Authorized by the server to which the request is forwarded.
    ensure!(status(with("GET", "/v1/jobs", &looker))? == 403);
    ensure!(status(with("GET", "/v1/jobs", &management))? == 200);
    Ok(())
}

#[test]
fn node_data_is_read_through_servers_with_the_token_of_the_user() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ports = Ports::free()?;
    let servers = server(dir.path(), &ports, true)?;
    let node = node(dir.path(), "guarded", &ports, true)?;
    let bootstrap = servers.put("/v1/acl/bootstrap", &json!({}))?;
    let management = bootstrap["SecretID"].as_str().context("a secret")?.to_owned();
    let with = |method: &str, target: &str, token: &str| Request::new(method, target).header("X-Nomad-Token", token);
    let token = |name: &str, rules: &str| -> Result<String> {
        let policy = json!({"Name": name, "Rules": rules});
        servers.call(&with("PUT", &format!("/v1/acl/policy/{name}"), &management).json(&policy))?;
        let token = json!({"Name": name, "Type": "client", "Policies": [name]});
        let token = servers.call(&with("PUT", "/v1/acl/token", &management).json(&token))?.json()?;
        Ok(token["SecretID"].as_str().context("a secret")?.to_owned())
    };
    let reader = token("reader", "namespace \"default\" { capabilities = [\"read-job\", \"read-logs\"] }")?;
    let looker = token("looker", "agent { policy = \"read\" }")?;

    servers.call(&with("PUT", "/v1/jobs", &management).json(&job("guarded", 1)))?;
    let deadline = std::time::Instant::now() + crate::story::WITHIN;
    let alloc = loop {
        let list = servers.call(&with("GET", "/v1/job/guarded/allocations", &management))?.json()?;
        match list.as_array().into_iter().flatten().find(|alloc| alloc["ClientStatus"] == "running") {
            Some(alloc) => break alloc.clone(),
            None => ensure!(std::time::Instant::now() < deadline, "it does not run: {list}"),
        }
        std::thread::park_timeout(std::time::Duration::from_millis(100));
    };
    let (alloc, id) = (alloc["ID"].as_str().context("an id")?, alloc["NodeID"].as_str().context("a node")?.to_owned());
    for agent in [&servers, &node] {
        let log = format!("/v1/client/fs/logs/{alloc}?task=t&type=stdout&plain=true");
        // A refused stream has status 500, as in the reference.
        for (token, status) in [(&management, 200), (&reader, 200), (&looker, 500)] {
            let answer = agent.ask(&with("GET", &log, token))?;
            ensure!(answer.head.status == status, "the log: {} {}", answer.head.status, answer.text());
        }
        let files = format!("/v1/client/fs/ls/{alloc}?path=/");
        ensure!(agent.ask(&with("GET", &files, &reader))?.head.status == 403, "files are not logs");
        // A request about the node's agent, sent to either agent.
        let host = agent.call(&with("GET", &format!("/v1/agent/host?node_id={id}"), &looker))?.json()?;
        ensure!(host["AgentID"] == id.as_str() && host["HostData"]["OS"].is_string(), "{host}");
        let denied = agent.ask(&with("GET", &format!("/v1/agent/host?node_id={id}"), &reader))?;
        ensure!(denied.head.status == 403, "{} {}", denied.head.status, denied.text());
        let profile = agent.call(&with("GET", &format!("/v1/agent/pprof/cmdline?node_id={id}"), &management))?.text();
        ensure!(profile.contains("songline") && profile.contains("agent"), "{profile:?}");
        let monitor = with("GET", &format!("/v1/agent/monitor?node_id={id}&log_level=trace"), &looker);
        let mut connection = Connection::open(agent.http(), deadline)?;
        let head = connection.send(&monitor, deadline)?;
        ensure!(head.status == 200, "the node's log: {}", head.status);
        let piece = connection.read_some(deadline)?.context("a frame or a heartbeat")?;
        ensure!(piece.starts_with(b"{"), "{}", String::from_utf8_lossy(&piece));
    }
    servers.call(&with("DELETE", "/v1/job/guarded", &management))?;
    Ok(())
}
