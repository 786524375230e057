//! Every route, asked by callers with nothing, with too little, and with each single capability, against a table of what each route needs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::StatusCode;
use songline_api::{Server, routes_text};
use songline_commands::{ApplyPlan, RegisterNode, UpsertAclPolicies, UpsertAclTokens};
use songline_lang::acl::NamespaceCapability;
use songline_model::{
    AccessorId, AclPolicy, AclToken, AclTokenKind, AllocId, Allocation, CsiInfo, CsiNodeInfo, Deployment, DeploymentId, Node, NodeId,
    Secret, SecretId, Str, Time,
};
use uuid::Uuid;

use crate::server::{Memory, answer, text};

/// The table, in which a person can look a route up.
const TABLE: &str = include_str!("../capabilities.txt");
const MANAGEMENT: Uuid = Uuid::from_bytes([0xee; 16]);
const OF_NODE: Uuid = Uuid::from_bytes([0xdd; 16]);
const UNKNOWN: Uuid = Uuid::from_bytes([0xcc; 16]);
const ALLOC: AllocId = AllocId::from_bytes([2; 16]);
const NODE: NodeId = NodeId::from_bytes([1; 16]);
const DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([3; 16]);
const JOB: &str = r#"{"ID": "web", "Datacenters": ["dc1"], "TaskGroups": [{"Name": "g", "Count": 1, "Scaling": {"Enabled": true, "Min": 1, "Max": 3}, "Tasks": [{"Name": "t", "Driver": "d"}]}]}"#;
const VOLUME: &str = r#"{"ID": "v", "Name": "v", "PluginID": "p", "RequestedCapabilities": [{"AccessMode": "multi-node-multi-writer", "AttachmentMode": "file-system"}]}"#;

/// What is not a capability of namespaces.
const OTHERS: [&str; 18] = [
    "node:read",
    "node:write",
    "agent:read",
    "agent:write",
    "operator:read",
    "operator:write",
    "quota:read",
    "quota:write",
    "plugin:list",
    "plugin:read",
    "pool:read",
    "pool:write",
    "pool:delete",
    "host_volume:mount-readwrite",
    "variables:list",
    "variables:read",
    "variables:write",
    "variables:destroy",
];

/// A line of the table.
struct Row<'a> {
    route: &'a str,
    needs: Vec<BTreeSet<&'a str>>,
    request: &'a str,
    hidden: bool,
}

impl<'a> Row<'a> {
    fn parse(line: &'a str) -> Self {
        let mut parts = line.splitn(3, " = ");
        let mut part = || parts.next().expect("a row has three parts");
        let (route, needs, request) = (part(), part(), part());
        let (request, hidden) = request.strip_suffix(" hidden").map_or((request, false), |request| (request, true));
        let needs = needs.split(", ").map(|all| all.split('+').collect()).collect();
        Self { route, needs, request, hidden }
    }

    fn all() -> Vec<Self> {
        TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(Self::parse).collect()
    }

    fn needs(&self, word: &str) -> bool {
        self.needs.iter().any(|all| all.contains(word))
    }

    /// Whether the caller is to be let in; `None`: the table does not say.
    fn admits(&self, caller: &Caller) -> Option<bool> {
        if self.needs("anyone") {
            return Some(true);
        }
        match caller {
            Caller::Unknown if self.needs("own") => None,
            Caller::Unknown => Some(self.needs("unknown")),
            Caller::Node if self.needs("known") || self.needs("own") => None,
            Caller::Node => Some(self.needs("node")),
            Caller::Management => Some(true),
            _ if self.needs("known") => Some(true),
            _ if self.needs("own") => None,
            Caller::Nobody | Caller::Powerless => Some(false),
            Caller::Having(words) => Some(self.needs.iter().any(|all| all.iter().all(|need| have(words, need)))),
        }
    }
}

/// Whether these words include another.
fn have(words: &BTreeSet<&str>, need: &str) -> bool {
    let includes = |word: &&str| match (*word, need) {
        (word, need) if word == need => true,
        (word, "any-of-namespace") => !word.contains(':'),
        ("plugin:read", "plugin:list") | ("variables:read", "variables:list") => true,
        (word, need) => {
            word.strip_suffix(":write").zip(need.strip_suffix(":read")).is_some_and(|(a, b)| a == b && !["pool", "variables"].contains(&a))
        }
    };
    words.iter().any(includes)
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Caller {
    /// Shows nothing.
    Nobody,
    /// Has a token for another namespace.
    Powerless,
    /// Shows a secret that is nobody's.
    Unknown,
    /// Shows the secret of a node.
    Node,
    Management,
    /// Has a token with these.
    Having(BTreeSet<&'static str>),
}

fn one(word: &'static str) -> Caller {
    Caller::Having([word].into())
}

/// The policy that gives a word.
fn rules(word: &str) -> String {
    match word.split_once(':') {
        None => format!("namespace \"default\" {{ capabilities = [\"{word}\"] }}"),
        Some(("pool", word)) => format!("node_pool \"*\" {{ capabilities = [\"{word}\"] }}"),
        Some(("host_volume", word)) => format!("host_volume \"*\" {{ capabilities = [\"{word}\"] }}"),
        Some(("variables", word)) => {
            format!("namespace \"default\" {{ variables {{ path \"*\" {{ capabilities = [\"{word}\"] }} }} }}")
        }
        Some((block, word)) => format!("{block} {{ policy = \"{word}\" }}"),
    }
}

/// A server with one of everything, and the secret of each caller.
async fn world(callers: &BTreeSet<Caller>) -> (Arc<Memory>, BTreeMap<Caller, String>) {
    let server = Memory::guarded();
    token(&server, MANAGEMENT, AclTokenKind::Management, &[]);
    let mut secrets = BTreeMap::new();
    for (nth, caller) in callers.iter().enumerate() {
        let nth = u128::try_from(nth).expect("few callers") + 1;
        let words: Vec<&str> = match caller {
            Caller::Nobody => vec![],
            Caller::Unknown => vec![],
            Caller::Node => vec![],
            Caller::Management => vec![],
            Caller::Powerless => vec!["elsewhere"],
            Caller::Having(words) => words.iter().copied().collect(),
        };
        let secret = match caller {
            Caller::Nobody => String::new(),
            Caller::Unknown => UNKNOWN.to_string(),
            Caller::Node => OF_NODE.to_string(),
            Caller::Management => MANAGEMENT.to_string(),
            Caller::Powerless | Caller::Having(_) => {
                for word in &words {
                    let rules =
                        if *word == "elsewhere" { "namespace \"elsewhere\" { policy = \"write\" }".to_owned() } else { rules(word) };
                    policy(&server, word, &rules);
                }
                let id = Uuid::from_u128(nth << 64 | 0x4000_8000_0000_0000_0000);
                token(&server, id, AclTokenKind::Client, &words);
                id.to_string()
            }
        };
        secrets.insert(caller.clone(), secret);
    }
    let plugin = CsiInfo {
        plugin_id: "p".into(),
        alloc_id: ALLOC.to_string().into(),
        healthy: true,
        provider: "org.x".into(),
        node_info: Some(CsiNodeInfo::default()),
        ..CsiInfo::default()
    };
    let node = Node {
        id: NODE,
        secret_id: Secret::new(OF_NODE.to_string()),
        datacenter: "dc1".into(),
        csi_node_plugins: Some(BTreeMap::from([(Str::new("p"), plugin)])),
        ..Node::default()
    };
    server.run(RegisterNode { node, create_node_pool: true });
    let all = MANAGEMENT.to_string();
    for line in [
        format!("PUT /v1/jobs {{\"Job\": {JOB}}}"),
        "PUT /v1/operator/keyring/rotate".to_owned(),
        "PUT /v1/var/a {\"Items\": {\"k\": \"v\"}}".to_owned(),
        format!("PUT /v1/volumes {{\"Volumes\": [{VOLUME}]}}"),
    ] {
        let response = ask(&server, &all, &line).await;
        assert!(response.0.is_success(), "{line}: {response:?}");
    }
    let view = server.view();
    let job = view.job("default", "web").cloned();
    let of_job = |id| Allocation { id, namespace: "default".into(), job_id: "web".into(), task_group: "g".into(), ..Allocation::default() };
    let alloc = Allocation { name: "web.g[0]".into(), node_id: Some(NODE), ..of_job(ALLOC) };
    let deployment = Deployment {
        id: DEPLOYMENT,
        namespace: "default".into(),
        job_id: "web".into(),
        status: songline_model::DeploymentStatus::Running,
        ..Deployment::default()
    };
    server.run(ApplyPlan { job, updated: vec![alloc.into()], deployment: Some(deployment), ..ApplyPlan::default() });
    (server, secrets)
}

fn policy(server: &Memory, name: &str, rules: &str) {
    let mut policy = AclPolicy { name: name.replace([':', '_'], "-").into(), rules: rules.into(), ..AclPolicy::default() };
    policy.hash = Some(policy.compute_hash());
    server.run(UpsertAclPolicies { policies: vec![policy] });
}

fn token(server: &Memory, id: Uuid, kind: AclTokenKind, policies: &[&str]) {
    let mut token = AclToken {
        accessor_id: AccessorId::from(id),
        secret_id: SecretId::from(id),
        kind,
        policies: Some(policies.iter().map(|name| name.replace([':', '_'], "-").into()).collect()),
        create_time: Time::from_secs(1),
        ..AclToken::default()
    };
    token.hash = Some(token.compute_hash());
    server.run(UpsertAclTokens { tokens: vec![token] });
}

async fn ask(server: &Arc<Memory>, secret: &str, line: &str) -> (StatusCode, String) {
    let mut words = line.splitn(3, ' ');
    let mut word = || words.next().unwrap_or_default();
    let (method, path, body) = (word(), word(), word());
    let token = if secret.is_empty() { String::new() } else { format!("[x-nomad-token: {secret}] ") };
    let response = answer(server, &format!("{method} {path} {token}{body}")).await;
    let status = response.status();
    // What is a success may stream for ever.
    let body = if status.is_success() { String::new() } else { text(response).await };
    (status, body)
}

/// The served routes as the table writes them.
fn served() -> BTreeSet<String> {
    let of_line = |line: &str| line.splitn(3, ' ').take(2).collect::<Vec<_>>().join(" ");
    routes_text::<Memory>().lines().map(of_line).collect()
}

#[test]
fn the_table_has_every_route() {
    let rows: BTreeSet<String> = Row::all().iter().map(|row| row.route.to_owned()).collect();
    let missing: Vec<_> = served().into_iter().filter(|route| !rows.contains(route)).collect();
    assert!(missing.is_empty(), "routes without a row in api/tests/capabilities.txt: {missing:#?}");
}

#[tokio::test]
async fn every_route_lets_in_whom_the_table_names_and_nobody_else() {
    let served = served();
    let rows: Vec<Row<'_>> = Row::all().into_iter().filter(|row| served.contains(row.route)).collect();
    let single = NamespaceCapability::ALL.iter().map(|capability| capability.as_str()).chain(OTHERS).map(one);
    let mut callers: BTreeSet<Caller> = single.collect();
    callers.extend([Caller::Nobody, Caller::Powerless, Caller::Unknown, Caller::Node, Caller::Management]);
    // Where several are needed, none of them alone is enough.
    callers.extend(rows.iter().flat_map(|row| &row.needs).filter(|all| all.len() > 1).cloned().map(Caller::Having));
    let (whole, secrets) = world(&callers).await;
    let view = whole.view();
    let eval = view.evals().next().expect("the job has an evaluation").id.to_string();
    let scaling = view.scaling_policies().next().expect("the job has a scaling policy").id.to_string();
    let (mut asked, mut wrong) = (0, Vec::new());
    let mut server = whole.twin();
    for row in &rows {
        let names =
            [("ALLOC", ALLOC.to_string()), ("NODE", NODE.to_string()), ("EVAL", eval.clone()), ("DEPLOYMENT", DEPLOYMENT.to_string())];
        let others = [("SCALING", scaling.clone()), ("JOB", JOB.to_owned()), ("VOLUME", VOLUME.to_owned()), ("/ID", format!("/{UNKNOWN}"))];
        let request = names.iter().chain(&others).fold(row.request.to_owned(), |text, (name, value)| text.replace(name, value));
        for caller in &callers {
            let Some(admitted) = row.admits(caller) else { continue };
            if server.view().applied_index() != view.applied_index() {
                server = whole.twin();
            }
            let (status, body) = ask(&server, &secrets[caller], &request).await;
            let refusal = ["Permission denied", "ACL token not found"].iter().any(|text| body.ends_with(text));
            let hidden = row.hidden && body.starts_with("Unknown allocation");
            let refused = hidden || refusal && status != StatusCode::NOT_FOUND;
            asked += 1;
            if refused == admitted {
                let word = if admitted { "is to be let in" } else { "is to be refused" };
                wrong.push(format!("{}: {caller:?} {word}: {} {}", row.request, status.as_u16(), body.trim_end()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {asked} answers are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(asked > 5000, "all were asked: {asked}");
}
