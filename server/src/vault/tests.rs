//! Vault tokens for the tasks of allocations, with a Vault that records what it is asked.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use songline_commands::{Actor, ApplyPlan, ClientAlloc, Command, RegisterNode, UpdateAllocsFromClient};
use songline_model::{
    AllocClientStatus, AllocDesiredStatus, AllocId, Allocation, Dur, Job, Node, NodeId, Secret, Task, TaskGroup,
};
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_scheduler::leader::heartbeats::HeartbeatLimits;

use super::{Created, TaskToken, Vault, VaultError};
use crate::config::ServerConfig;
use crate::rpc::tests::pool;
use crate::testing::{Settings, TestServer, http_client};

const NODE: NodeId = NodeId::from_bytes([1; 16]);
const SECRET: &str = "5d1e0000-0000-0000-0000-00000000000a";
const ALLOC: AllocId = AllocId::from_bytes([3; 16]);
const ENDED: AllocId = AllocId::from_bytes([4; 16]);

#[derive(Debug, Default)]
struct Recording {
    asked: Mutex<Vec<TaskToken>>,
    fails: Mutex<Option<VaultError>>,
}

impl Vault for Recording {
    fn create_token(&self, wanted: TaskToken) -> Created<'_> {
        let outcome = match self.fails.lock().take() {
            Some(error) => Err(error),
            None => Ok(Secret::new(format!("for {}", wanted.display_name))),
        };
        self.asked.lock().push(wanted);
        Box::pin(async move { outcome })
    }
}

/// An allocation whose tasks `web` and `log` have `vault` blocks, and `plain` has none.
fn alloc(id: AllocId, client_status: AllocClientStatus) -> Allocation {
    let task = |name: &str, policies: Option<&str>| Task {
        name: name.into(),
        vault: policies.map(|policy| songline_model::Vault {
            policies: Some(vec![policy.into()]),
            ..songline_model::Vault::default()
        }),
        ..Task::default()
    };
    let tasks = vec![task("web", Some("db")), task("log", Some("logs")), task("plain", None)];
    let group = TaskGroup { name: "g".into(), tasks: Some(tasks), ..TaskGroup::default() };
    Allocation {
        id,
        namespace: "default".into(),
        node_id: Some(NODE),
        job_id: "j".into(),
        task_group: "g".into(),
        client_status,
        job: Some(Arc::new(Job {
            id: "j".into(),
            namespace: "default".into(),
            task_groups: Some(vec![group]),
            ..Job::default()
        })),
        ..Allocation::default()
    }
}

async fn begin(dir: &std::path::Path, vault: Option<Arc<Recording>>) -> TestServer {
    let vault = vault.map(|vault| vault as Arc<dyn Vault>);
    // The node sends no heartbeats; it must not count as lost while a slow machine runs a test.
    let heartbeats = HeartbeatLimits { min_ttl: Dur::from_hours(1), ..HeartbeatLimits::default() };
    let server = ServerConfig { vault, heartbeats, ..ServerConfig::default() };
    let settings = Settings { server, data_dir: Some(dir.to_owned()), ..Settings::default() };
    let server = TestServer::start(settings).await.expect("a server");
    let node = Node { id: NODE, secret_id: Secret::new(SECRET), datacenter: "dc1".into(), ..Node::default() };
    let running = alloc(ALLOC, AllocClientStatus::Running);
    let job = running.job.clone();
    let updated = vec![running.into(), alloc(ENDED, AllocClientStatus::Complete).into()];
    write(&server, RegisterNode { node, create_node_pool: true }).await;
    write(&server, ApplyPlan { job, updated, ..ApplyPlan::default() }).await;
    // Without an evaluation: the scheduler would stop both allocations, as their job has no row.
    let ended = ClientAlloc { id: ENDED, client_status: AllocClientStatus::Complete, ..ClientAlloc::default() };
    write(&server, UpdateAllocsFromClient { allocs: vec![ended], evals: Vec::new() }).await;
    server
}

async fn write(server: &TestServer, command: impl Into<Command>) {
    server.core.propose_as(Actor::Anonymous, None, command).await.expect("is written");
}

async fn ask(server: &TestServer, secret: &str, alloc: AllocId, tasks: &[&str]) -> String {
    let body = json!({
        "Region": "global", "NodeID": NODE, "SecretID": secret, "AllocID": alloc, "Tasks": tasks,
    });
    let address = server.core.rpc_addr();
    match pool().call(&address, "Node.DeriveVaultToken", &to_vec(&body).expect("is a body")).await {
        Ok(answer) => {
            let answer: Value = from_slice(&answer).expect("is an answer");
            json!([answer["Tasks"], answer["Error"]]).to_string()
        }
        Err(error) => error.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_task_with_a_vault_block_gets_a_wrapped_token_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let vault = Arc::new(Recording::default());
    let server = begin(dir.path(), Some(Arc::clone(&vault))).await;
    let told = ask(&server, SECRET, ALLOC, &["web", "log"]).await;
    assert_eq!(told, format!(r#"[{{"log":"for {ALLOC}-log","web":"for {ALLOC}-web"}},null]"#));
    let asked = vault.asked.lock();
    assert_eq!(asked[0].policies, ["db"]);
    let meta = |key: &str| asked[0].meta[key].as_str();
    assert_eq!((meta("Task"), meta("JobID"), meta("TaskGroup"), meta("Namespace")), ("web", "j", "g", "default"));
    assert_eq!((meta("AllocationID"), meta("NodeID")), (&*ALLOC.to_string(), &*NODE.to_string()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answer_says_why_there_is_no_token_and_whether_to_ask_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let vault = Arc::new(Recording::default());
    let server = begin(dir.path(), Some(Arc::clone(&vault))).await;
    let for_good = |why: &str| format!(r#"[null,{{"Err":{},"Recoverable":false}}]"#, json!(why));
    assert_eq!(ask(&server, SECRET, ALLOC, &["plain"]).await, for_good("task \"plain\" has no vault block"));
    assert_eq!(ask(&server, SECRET, ALLOC, &["none"]).await, for_good("task \"none\" has no vault block"));
    assert_eq!(ask(&server, SECRET, ALLOC, &[]).await, for_good("missing task names"));
    let ended = for_good("can't request Vault token for terminal allocation");
    assert_eq!(ask(&server, SECRET, ENDED, &["web"]).await, ended);
    let elsewhere = AllocId::from_bytes([9; 16]);
    let told = ask(&server, SECRET, elsewhere, &["web"]).await;
    assert_eq!(told, for_good(&format!("allocation \"{elsewhere}\" is not on this node")));
    assert!(ask(&server, "another", ALLOC, &["web"]).await.contains("node secret ID does not match"));
    assert!(vault.asked.lock().is_empty());

    *vault.fails.lock() = Some(VaultError::Away { address: "a".into(), reason: "sealed".into() });
    let told = ask(&server, SECRET, ALLOC, &["web"]).await;
    assert_eq!(told, r#"[null,{"Err":"Vault at a: sealed","Recoverable":true}]"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_a_stopped_alloc_get_tokens_until_the_last_of_them_has_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = begin(dir.path(), Some(Arc::default())).await;
    let stopped = Allocation { desired_status: AllocDesiredStatus::Stop, ..alloc(ALLOC, AllocClientStatus::Running) };
    let (job, updated) = (stopped.job.clone(), vec![stopped.into()]);
    write(&server, ApplyPlan { job, updated, ..ApplyPlan::default() }).await;
    let told = ask(&server, SECRET, ALLOC, &["web"]).await;
    assert_eq!(told, format!(r#"[{{"web":"for {ALLOC}-web"}},null]"#), "a task of the hook poststop may need one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_without_vault_has_no_tokens() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = begin(dir.path(), None).await;
    let told = ask(&server, SECRET, ALLOC, &["web"]).await;
    assert_eq!(told, r#"[null,{"Err":"Vault is not enabled","Recoverable":false}]"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_with_a_vault_block_is_admitted_only_with_vault() {
    let job = json!({ "Job": { "ID": "v", "Name": "v", "Type": "service", "Datacenters": ["dc1"], "TaskGroups": [{
        "Name": "g", "Count": 0, "Tasks": [{ "Name": "t", "Driver": "raw_exec", "Vault": { "Policies": ["db"] } }],
    }] } });
    for vault in [None, Some(Arc::new(Recording::default()))] {
        let (dir, enabled) = (tempfile::tempdir().expect("a directory"), vault.is_some());
        let server = begin(dir.path(), vault).await;
        let request = http_client().post(format!("{}/v1/jobs", server.http_addr())).body(job.to_string());
        let answer = request.send().await.expect("an answer");
        let (admitted, text) = (answer.status().is_success(), answer.text().await.expect("a text"));
        assert_eq!(admitted, enabled, "{text}");
        if !enabled {
            assert!(text.contains("Vault not enabled but used in the job"), "{text}");
            continue;
        }
        let view = server.core.view();
        let constraints = view.job("default", "v").and_then(|job| job.group("g")?.constraints.clone());
        let told: Vec<String> = constraints
            .iter()
            .flatten()
            .map(|constraint| format!("{} {} {}", constraint.l_target, constraint.operand, constraint.r_target))
            .collect();
        assert_eq!(told, ["${attr.vault.version} semver >= 0.6.1"]);
    }
}
