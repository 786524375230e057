//! Calls every method of the node RPC as every kind of caller, and compares with the table of rights, `methods.txt`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use songline_commands::{Actor, ApplyPlan, RegisterNode, UpsertAclPolicies, UpsertAclTokens};
use songline_lang::acl::NamespaceCapability;
use songline_model::{
    AccessorId, AclPolicy, AclToken, AclTokenKind, AllocId, Allocation, Job, Node, NodeId, Secret, SecretId, Time,
};
use songline_rpc::message::{EventStream, StreamCall, StreamErrWrapper};
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_rpc::net::{self, Channel, Dispatch, OnSession, Pool, PoolLimits, Refusal};
use uuid::Uuid;

use super::super::methods::{By, CALLS, STREAMS};
use super::super::routes;
use super::{pool, start_with_key};
use crate::Core;
use crate::testing::TestServer;

const TABLE: &str = include_str!("methods.txt");
const NODE: NodeId = NodeId::from_bytes([1; 16]);
const ANOTHER_NODE: NodeId = NodeId::from_bytes([2; 16]);
const ALLOC: AllocId = AllocId::from_bytes([3; 16]);
const NODE_SECRET: Uuid = Uuid::from_bytes([0xdd; 16]);
const ANOTHER_SECRET: Uuid = Uuid::from_bytes([0xde; 16]);
const MANAGEMENT: Uuid = Uuid::from_bytes([0xee; 16]);
const UNKNOWN: Uuid = Uuid::from_bytes([0xcc; 16]);
const JOB: &str = r#"{"ID": "web", "Name": "web", "Type": "service", "Datacenters": ["dc1"],
    "TaskGroups": [{"Name": "g", "Count": 0, "Tasks": [{"Name": "t", "Driver": "raw_exec"}]}]}"#;
/// Rights that are not capabilities of namespaces.
const OTHERS: [&str; 12] = [
    "node:read",
    "node:write",
    "agent:read",
    "agent:write",
    "operator:read",
    "operator:write",
    "quota:write",
    "plugin:read",
    "variables:list",
    "variables:read",
    "variables:write",
    "variables:destroy",
];
/// Timeout of a stream's first frame. A stream that sends nothing in this time counts as accepted.
const BEGINS_WITHIN: Duration = Duration::from_millis(200);

struct Row<'a> {
    method: &'a str,
    needs: Vec<BTreeSet<&'a str>>,
    body: &'a str,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Self {
        let mut parts = line.splitn(3, " = ");
        let mut part = || parts.next().expect("a row has three parts");
        let (method, needs, body) = (part(), part(), part());
        Self { method, needs: needs.split(", ").map(|all| all.split('+').collect()).collect(), body }
    }

    fn all() -> Vec<Self> {
        TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(Self::parse).collect()
    }

    fn needs(&self, word: &str) -> bool {
        self.needs.iter().any(|all| all.contains(word))
    }

    /// Whether the caller is to be accepted.
    fn admits(&self, caller: &Caller) -> bool {
        if self.needs("anyone") {
            return true;
        }
        match caller {
            Caller::ThisNode => self.needs("this-node") || self.needs("node") || self.needs("known"),
            Caller::AnotherNode => self.needs("node") || self.needs("known"),
            Caller::Server => self.needs("server") || self.needs("known"),
            Caller::Nobody | Caller::CallsItselfServer => self.needs("known"),
            // An unknown secret is refused even where no secret is needed.
            Caller::Unknown => false,
            // Calls that only nodes, tasks or servers may make are refused to every token.
            Caller::Management => self
                .needs
                .iter()
                .any(|all| !all.iter().all(|need| ["this-node", "node", "workload", "server"].contains(need))),
            Caller::Having(words) => {
                self.needs("known")
                    || self.needs.iter().any(|all| all.iter().all(|need| words.iter().any(|word| includes(word, need))))
            }
        }
    }
}

fn includes(word: &str, need: &str) -> bool {
    let writes =
        || word.strip_suffix(":write").zip(need.strip_suffix(":read")).is_some_and(|(a, b)| a == b && a != "variables");
    word == need || writes()
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Caller {
    /// Shows no secret.
    Nobody,
    /// Shows no secret, and sets `Forwarded` as a server does.
    CallsItselfServer,
    /// Shows a secret that does not exist.
    Unknown,
    /// The node that requests are about.
    ThisNode,
    AnotherNode,
    /// A server that forwards a request without a token.
    Server,
    Management,
    /// Has a token with these rights.
    Having(BTreeSet<&'static str>),
}

impl Caller {
    fn one(word: &'static str) -> Self {
        Self::Having([word].into())
    }

    fn all(rows: &[Row<'static>]) -> BTreeSet<Self> {
        let words = NamespaceCapability::ALL.iter().map(|capability| capability.as_str()).chain(OTHERS);
        let mut callers: BTreeSet<Self> = words.map(Self::one).collect();
        callers.extend([Self::Nobody, Self::CallsItselfServer, Self::Unknown]);
        callers.extend([Self::ThisNode, Self::AnotherNode, Self::Server, Self::Management]);
        // If several rights are needed, none of them alone suffices.
        callers.extend(rows.iter().flat_map(|row| &row.needs).filter(|all| all.len() > 1).cloned().map(Self::Having));
        callers
    }
}

/// The rules of a policy that gives a right.
fn rules(word: &str) -> String {
    match word.split_once(':') {
        None => format!("namespace \"default\" {{ capabilities = [\"{word}\"] }}"),
        Some(("variables", word)) => {
            format!("namespace \"default\" {{ variables {{ path \"*\" {{ capabilities = [\"{word}\"] }} }} }}")
        }
        Some((block, word)) => format!("{block} {{ policy = \"{word}\" }}"),
    }
}

/// The node's side of its session: answers every call and stream with success.
struct HasAll;

impl Dispatch for HasAll {
    async fn call(&self, _: &str, _: Bytes, _: &net::Caller) -> Result<Bytes, Refusal> {
        Ok(Bytes::from_static(&[0x80]))
    }

    fn streams(&self, _: &str) -> bool {
        true
    }

    async fn stream(&self, _: &str, mut channel: Channel, _: &net::Caller) {
        let _ = channel.send(&to_vec(&StreamErrWrapper::default()).unwrap()).await;
    }
}

/// A server with two nodes, a job, an allocation and a variable, and the connections to it.
struct World {
    server: TestServer,
    address: String,
    anybody: Pool,
    of_servers: Pool,
    of_node: Pool,
    secrets: BTreeMap<Caller, String>,
    _dir: tempfile::TempDir,
}

impl World {
    async fn begin(callers: &BTreeSet<Caller>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = start_with_key(dir.path()).await;
        server.core.signer().await.unwrap();
        let address = server.core.rpc_addr();
        let from = address.parse().unwrap();
        let on_session: OnSession = Arc::new(move |_, session| {
            tokio::spawn(net::serve_session(session, true, net::Caller::plain(from), Arc::new(HasAll)));
        });
        let of_servers = PoolLimits { of_server: true, ..PoolLimits::default() };
        let mut world = Self {
            anybody: pool(),
            of_servers: Pool::new(server.core.dialer().clone(), of_servers, None),
            of_node: Pool::new(songline_rpc::port::Dialer::plain(), PoolLimits::default(), Some(on_session)),
            secrets: BTreeMap::new(),
            address,
            server,
            _dir: dir,
        };
        for (nth, caller) in callers.iter().enumerate() {
            let secret = world.secret_of(caller, nth).await;
            world.secrets.insert(caller.clone(), secret);
        }
        for (id, secret) in [(NODE, NODE_SECRET), (ANOTHER_NODE, ANOTHER_SECRET)] {
            let node =
                Node { id, secret_id: Secret::new(secret.to_string()), datacenter: "dc1".into(), ..Node::default() };
            world.write(RegisterNode { node, create_node_pool: true }).await;
        }
        let management = MANAGEMENT.to_string();
        for method in ["Job.Register", "Variables.Apply"] {
            let row = Row::all().into_iter().find(|row| row.method == method).expect("the table has it");
            world.ask(&Caller::Management, &management, &row).await.expect("a management token may everything");
        }
        let job: Option<Arc<Job>> = world.core().view().job("default", "web").cloned();
        let alloc = Allocation {
            id: ALLOC,
            namespace: "default".into(),
            job_id: "web".into(),
            task_group: "g".into(),
            name: "web.g[0]".into(),
            node_id: Some(NODE),
            ..Allocation::default()
        };
        world.write(ApplyPlan { job, updated: vec![alloc.into()], ..ApplyPlan::default() }).await;
        // The node authenticates over the session that the server calls it back over.
        let shown =
            json!({ "Region": "global", "NodeID": NODE, "AuthToken": NODE_SECRET.to_string(), "Status": "ready" });
        world.of_node.call(&world.address, "Node.UpdateStatus", &to_vec(&shown).unwrap()).await.unwrap();
        world
    }

    fn core(&self) -> &Arc<Core> {
        &self.server.core
    }

    async fn write(&self, command: impl Into<songline_commands::Command>) {
        self.core().propose_as(Actor::Anonymous, None, command).await.unwrap();
    }

    async fn secret_of(&self, caller: &Caller, nth: usize) -> String {
        match caller {
            Caller::Nobody | Caller::CallsItselfServer | Caller::Server => String::new(),
            Caller::Unknown => UNKNOWN.to_string(),
            Caller::ThisNode => NODE_SECRET.to_string(),
            Caller::AnotherNode => ANOTHER_SECRET.to_string(),
            Caller::Management => {
                self.token(MANAGEMENT, AclTokenKind::Management, Vec::new()).await;
                MANAGEMENT.to_string()
            }
            Caller::Having(words) => {
                let mut names = Vec::new();
                for word in words {
                    let name = word.replace([':', '_'], "-");
                    let mut policy =
                        AclPolicy { name: name.as_str().into(), rules: rules(word).into(), ..AclPolicy::default() };
                    policy.hash = Some(policy.compute_hash());
                    self.write(UpsertAclPolicies { policies: vec![policy] }).await;
                    names.push(name);
                }
                let id = Uuid::from_u128((nth as u128 + 1) << 64 | 0x4000_8000_0000_0000_0000);
                self.token(id, AclTokenKind::Client, names).await;
                id.to_string()
            }
        }
    }

    async fn token(&self, id: Uuid, kind: AclTokenKind, policies: Vec<String>) {
        let mut token = AclToken {
            accessor_id: AccessorId::from(id),
            secret_id: SecretId::from(id),
            kind,
            policies: Some(policies.into_iter().map(Into::into).collect()),
            create_time: Time::from_secs(1),
            ..AclToken::default()
        };
        token.hash = Some(token.compute_hash());
        self.write(UpsertAclTokens { tokens: vec![token] }).await;
    }

    /// Calls a row's method. A caller that is accepted may still get an error: see `is_refusal`.
    async fn ask(&self, caller: &Caller, secret: &str, row: &Row<'_>) -> Result<(), String> {
        let names = [
            ("NODE", NODE.to_string()),
            ("ALLOC", ALLOC.to_string()),
            ("SECRET", secret.to_owned()),
            ("UNKNOWN", UNKNOWN.to_string()),
        ];
        let body = names
            .iter()
            .chain(&[("JOB", JOB.to_owned())])
            .fold(row.body.to_owned(), |body, (name, value)| body.replace(name, value));
        let mut body: Value = serde_json::from_str(&body).expect("a row's body is JSON");
        body["Region"] = json!("global");
        body["AuthToken"] = json!(secret);
        body["Forwarded"] = json!(matches!(caller, Caller::Server | Caller::CallsItselfServer));
        let body = to_vec(&body).unwrap();
        let pool = if *caller == Caller::Server { &self.of_servers } else { &self.anybody };
        if !is_stream(row.method) {
            return pool.call(&self.address, row.method, &body).await.map(drop).map_err(|error| error.to_string());
        }
        let mut channel = pool.stream(&self.address, row.method, &body).await.map_err(|error| error.to_string())?;
        let Ok(first) = tokio::time::timeout(BEGINS_WITHIN, channel.next()).await else { return Ok(()) };
        let first = first.map_err(|error| error.to_string())?.ok_or("it ended at once")?;
        let said: Value = from_slice(&first).map_err(|error| error.on_wire(0))?;
        match &said["Error"] {
            Value::Null => Ok(()),
            error => Err(error["Message"].as_str().unwrap_or_default().to_owned()),
        }
    }
}

fn is_stream(method: &str) -> bool {
    method == EventStream::METHOD || STREAMS.iter().any(|(name, _)| *name == method)
}

/// Whether an error is a refusal for lack of rights.
fn is_refusal(error: &str) -> bool {
    let texts = [
        "Permission denied",
        "ACL token not found",
        "node secret ID does not match",
        "missing node secret ID",
        "missing node secret",
        "missing secret",
        "Unknown allocation",
        "service registration of another node",
    ];
    texts.iter().any(|text| error.contains(text))
}

/// Whether a method is served that is in neither list of `methods`. Methods of `routes` need the rights of their
/// routes, which are listed in `routes.txt`; the table has some of them.
fn is_elsewhere(method: &str) -> bool {
    method == EventStream::METHOD || routes::find(method).is_some()
}

#[test]
fn rpc_table_has_every_method() {
    let rows: Vec<_> = Row::all().iter().map(|row| row.method.to_owned()).collect();
    let served: BTreeSet<_> =
        CALLS.iter().map(|(name, _)| *name).chain(STREAMS.iter().map(|(name, _)| *name)).collect();
    let missing: Vec<_> =
        served.iter().chain(&[EventStream::METHOD]).filter(|name| !rows.iter().any(|row| row == *name)).collect();
    assert!(missing.is_empty(), "methods without a row in server/src/rpc/tests/methods.txt: {missing:?}");
    let unknown: Vec<_> =
        rows.iter().filter(|row| !served.contains(row.as_str()) && !is_elsewhere(row.as_str())).collect();
    assert!(unknown.is_empty(), "rows of methods that are not served: {unknown:?}");
    // Rights to call a node are checked once, at the first server, so a forwarding server may make each of these
    // calls.
    assert!(CALLS.iter().all(|(name, by)| !matches!(by, By::Node(_))
        || Row::all().iter().any(|row| row.method == *name && row.needs("server"))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rpc_method_admits_exactly_the_callers_of_the_table() {
    let rows = Row::all();
    let callers = Caller::all(&rows);
    let world = World::begin(&callers).await;
    let (mut asked, mut wrong) = (0, Vec::new());
    for row in &rows {
        for caller in &callers {
            let answer = world.ask(caller, &world.secrets[caller], row).await;
            let refused = answer.as_ref().is_err_and(|error| is_refusal(error));
            asked += 1;
            if refused == row.admits(caller) {
                let word = if refused { "is to be let in" } else { "is to be refused" };
                wrong.push(format!("{}: {caller:?} {word}: {answer:?}", row.method));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked > 1500, "all were asked: {asked}");
    for pool in [&world.anybody, &world.of_servers, &world.of_node] {
        pool.close();
    }
    world.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_rpc_method_refuses_another_region_and_most_need_a_region() {
    let world = World::begin(&[Caller::Management].into()).await;
    // Methods that every server answers by itself need no region, and a ping ignores it.
    let without =
        ["Status.Ping", "Status.Leader", "Status.Peers", "Status.Members", "Status.HasNodeConn", "Status.RaftStats"];
    let mut wrong = Vec::new();
    for row in Row::all() {
        for (region, expected) in [("mars", "No path to region"), ("", "missing region for target RPC")] {
            if (region.is_empty() && without.contains(&row.method)) || row.method == "Status.Ping" {
                continue;
            }
            let mut body = json!({ "Region": region, "AuthToken": MANAGEMENT.to_string() });
            body["NodeID"] = json!(NODE);
            body["AllocID"] = json!(ALLOC);
            let body = to_vec(&body).unwrap();
            let answer = if is_stream(row.method) {
                let mut channel = world.anybody.stream(&world.address, row.method, &body).await.unwrap();
                let said: Value = from_slice(&channel.next().await.unwrap().unwrap()).unwrap();
                said["Error"]["Message"].as_str().unwrap_or_default().to_owned()
            } else {
                world.anybody.call(&world.address, row.method, &body).await.map(drop).unwrap_err().to_string()
            };
            if !answer.ends_with(expected) {
                wrong.push(format!("{} in {region:?}: {answer}", row.method));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    world.anybody.close();
    world.server.stop().await;
}
