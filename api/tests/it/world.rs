//! A server with ACLs and objects of every kind in two namespaces, and the tokens and policies of tests' callers.
//!
//! Objects of the namespace `other` contain the text `zebra`, or an id of [`MARKS`], so that answers can be searched
//! for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use songline_api::Reads;
use songline_commands::{
    ApplyPlan, ClientAlloc, DeleteDeployments, ReapEvals, RegisterNode, UpdateAllocsFromClient, UpdateEvals,
    UpsertAclPolicies, UpsertAclTokens, UpsertNamespaces, UpsertServiceRegistrations,
};
use songline_model::{
    AccessorId, AclPolicy, AclToken, AclTokenKind, AllocClientStatus, AllocId, Allocation, CsiInfo, CsiNodeInfo,
    Deployment, DeploymentId, DeploymentStatus, EvalId, Evaluation, JobAcl, Namespace, Node, NodeId, Secret, SecretId,
    ServiceRegistration, Str, Time,
};
use uuid::Uuid;

use crate::server::{Memory, answer, shown, text};

pub const MANAGEMENT: Uuid = Uuid::from_bytes([0xee; 16]);
pub const OF_NODE: Uuid = Uuid::from_bytes([0xdd; 16]);
/// A secret that belongs to no token.
pub const UNKNOWN: Uuid = Uuid::from_bytes([0xcc; 16]);
pub const NODE: NodeId = NodeId::from_bytes([1; 16]);
/// A running alloc of the job `web` in `default`, with a driver that does not isolate.
pub const ALLOC: AllocId = AllocId::from_bytes([2; 16]);
pub const DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([3; 16]);
/// A running alloc of the job `api` in `default`, with a driver that isolates.
pub const OF_API: AllocId = AllocId::from_bytes([4; 16]);
/// An alloc of the job `web` in `default` that is complete.
pub const OVER: AllocId = AllocId::from_bytes([5; 16]);
/// An alloc of the job `web` in `other`. Its evaluation and its deployment are deleted.
pub const OTHER_ALLOC: AllocId = AllocId::from_bytes([0xa2; 16]);
pub const OTHER_DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([0xa3; 16]);
pub const GONE_EVAL: EvalId = EvalId::from_bytes([0xa4; 16]);
pub const GONE_DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([0xa5; 16]);
/// Texts that only answers about `other` may contain.
pub const MARKS: [&str; 3] = ["zebra", "a2a2a2a2-a2a2-a2a2-a2a2-a2a2a2a2a2a2", "a3a3a3a3-a3a3-a3a3-a3a3-a3a3a3a3a3a3"];

const GROUP: &str = r#"{"Name": "g", "Count": 1, "Scaling": {"Enabled": true, "Min": 1, "Max": 3}, "Tasks": [{"Name": "t", "Driver": "DRIVER"}]}"#;
pub const VOLUME: &str = r#"{"ID": "v", "Name": "v", "PluginID": "p", "RequestedCapabilities": [{"AccessMode": "multi-node-multi-writer", "AttachmentMode": "file-system"}]}"#;

/// A job with one task.
pub fn job(id: &str, name: &str, driver: &str) -> String {
    format!(
        r#"{{"ID": "{id}", "Name": "{name}", "Datacenters": ["dc1"], "TaskGroups": [{}]}}"#,
        GROUP.replace("DRIVER", driver)
    )
}

/// Rules of a policy that grants a right in a namespace.
pub fn rules(word: &str, namespace: &str) -> String {
    match word.split_once(':') {
        None => format!("namespace \"{namespace}\" {{ capabilities = [\"{word}\"] }}"),
        Some(("pool", word)) => format!("node_pool \"*\" {{ capabilities = [\"{word}\"] }}"),
        Some(("host_volume", word)) => format!("host_volume \"*\" {{ capabilities = [\"{word}\"] }}"),
        Some(("variables", word)) => {
            format!("namespace \"{namespace}\" {{ variables {{ path \"*\" {{ capabilities = [\"{word}\"] }} }} }}")
        }
        Some((block, word)) => format!("{block} {{ policy = \"{word}\" }}"),
    }
}

/// Stores a policy.
pub fn policy(server: &Memory, name: &str, rules: &str) {
    bound_policy(server, name, rules, None);
}

/// Stores a policy for the tasks of a job.
pub fn bound_policy(server: &Memory, name: &str, rules: &str, job: Option<(&str, &str)>) {
    let job_acl =
        job.map(|(namespace, job)| JobAcl { namespace: namespace.into(), job_id: job.into(), ..JobAcl::default() });
    let mut policy = AclPolicy { name: name.into(), rules: rules.into(), job_acl, ..AclPolicy::default() };
    policy.hash = Some(policy.compute_hash());
    server.run(UpsertAclPolicies { policies: vec![policy] });
}

/// Stores a token, whose secret equals its accessor id, and returns the secret.
pub fn token(server: &Memory, id: Uuid, kind: AclTokenKind, policies: &[String]) -> String {
    let mut token = AclToken {
        accessor_id: AccessorId::from(id),
        secret_id: SecretId::from(id),
        kind,
        policies: Some(policies.iter().map(|name| Str::from(name.clone())).collect()),
        create_time: Time::from_secs(1),
        ..AclToken::default()
    };
    token.hash = Some(token.compute_hash());
    server.run(UpsertAclTokens { tokens: vec![token] });
    id.to_string()
}

/// Stores a client token that has exactly these rights.
pub fn token_with(server: &Memory, nth: u8, rules: &str) -> String {
    let name = format!("of-{nth}");
    policy(server, &name, rules);
    token(server, Uuid::from_bytes([nth; 16]), AclTokenKind::Client, &[name])
}

/// The workload identity of an alloc's task.
pub fn identity(server: &Memory, alloc: AllocId) -> String {
    let view = server.view();
    let claims = view.alloc(alloc).expect("the alloc is there").identity_claims("t");
    serde_json::to_string(&claims).expect("is JSON")
}

/// Sends one request: `METHOD /path [body]`.
pub async fn ask(server: &Arc<Memory>, secret: &str, line: &str) -> (StatusCode, String) {
    let response = answer(server, &shown(secret, line)).await;
    let status = response.status();
    let path = line.split(' ').nth(1).unwrap_or_default();
    // A success of these routes streams without end.
    let streams = ["/v1/event/stream", "/v1/agent/monitor"].iter().any(|root| path.starts_with(root));
    let body = if status.is_success() && streams { String::new() } else { text(response).await };
    (status, body)
}

/// Status and body of the response, as one string.
pub async fn told(server: &Arc<Memory>, secret: &str, line: &str) -> String {
    let (status, body) = ask(server, secret, line).await;
    format!("{} {}", status.as_u16(), body.trim_end())
}

/// A server with one object of every kind in `default` and in `other`, with a readable past.
pub async fn world() -> Arc<Memory> {
    let server = Memory::guarded().remembering();
    let all = token(&server, MANAGEMENT, AclTokenKind::Management, &[]);
    let other = Namespace { name: "other".into(), description: "zebra".into(), ..Namespace::default() };
    server.run(UpsertNamespaces { namespaces: vec![other] });
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
        name: "stable".into(),
        secret_id: Secret::new(OF_NODE.to_string()),
        datacenter: "dc1".into(),
        csi_node_plugins: Some(BTreeMap::from([(Str::new("p"), plugin)])),
        ..Node::default()
    };
    server.run(RegisterNode { node, create_node_pool: true });
    let of_other = VOLUME.replace("\"Name\": \"v\"", "\"Name\": \"zebra\"");
    for line in [
        format!("PUT /v1/jobs {{\"Job\": {}}}", job("web", "web", "raw_exec")),
        format!("PUT /v1/jobs {{\"Job\": {}}}", job("api", "api", "exec")),
        format!("PUT /v1/jobs?namespace=other {{\"Job\": {}}}", job("web", "zebra", "raw_exec")),
        "PUT /v1/operator/keyring/rotate".to_owned(),
        "PUT /v1/var/a {\"Items\": {\"k\": \"v\"}}".to_owned(),
        "PUT /v1/var/a?namespace=other {\"Items\": {\"k\": \"zebra\"}}".to_owned(),
        "PUT /v1/var/zebra?namespace=other {\"Items\": {\"k\": \"v\"}}".to_owned(),
        format!("PUT /v1/volumes {{\"Volumes\": [{VOLUME}]}}"),
        format!("PUT /v1/volumes?namespace=other {{\"Volumes\": [{of_other}]}}"),
    ] {
        let answer = ask(&server, &all, &line).await;
        assert!(answer.0.is_success(), "{line}: {answer:?}");
    }
    place_all(&server);
    let service = |namespace: &str, id: &str, alloc: AllocId, address: &str| ServiceRegistration {
        id: id.into(),
        service_name: "web".into(),
        namespace: namespace.into(),
        node_id: NODE,
        alloc_id: alloc,
        job_id: "web".into(),
        address: address.into(),
        ..ServiceRegistration::default()
    };
    let services = vec![service("default", "s", ALLOC, "10.0.0.1"), service("other", "zebra-s", OTHER_ALLOC, "zebra")];
    server.run(UpsertServiceRegistrations { services });
    server
}

/// Places the allocs and their deployments, and completes one.
fn place_all(server: &Memory) {
    let view = server.view();
    let eval = |namespace: &str| view.evals_of_job(namespace, "web").next().map(|eval| eval.id);
    let alloc = |id, namespace: &str, job: &str, eval_id| {
        let name = if namespace == "other" { "zebra.g[0]" } else { "web.g[0]" };
        Arc::new(Allocation {
            id,
            name: name.into(),
            namespace: namespace.into(),
            job_id: job.into(),
            job: view.job(namespace, job).cloned(),
            task_group: "g".into(),
            node_id: Some(NODE),
            node_name: "stable".into(),
            eval_id,
            ..Allocation::default()
        })
    };
    let deployment = |id, namespace: &str| Deployment {
        id,
        namespace: namespace.into(),
        job_id: "web".into(),
        status: DeploymentStatus::Running,
        status_description: if namespace == "other" { "zebra".into() } else { Str::default() },
        ..Deployment::default()
    };
    let plan = |allocs: Vec<Arc<Allocation>>, deployment| {
        server.run(ApplyPlan { updated: allocs, deployment, ..ApplyPlan::default() });
    };
    let here = eval("default");
    plan(
        vec![alloc(ALLOC, "default", "web", here), alloc(OVER, "default", "web", here)],
        Some(deployment(DEPLOYMENT, "default")),
    );
    plan(vec![alloc(OF_API, "default", "api", None)], None);
    plan(Vec::new(), Some(deployment(OTHER_DEPLOYMENT, "other")));
    let gone = Evaluation { id: GONE_EVAL, namespace: "other".into(), job_id: "web".into(), ..Evaluation::default() };
    server.run(UpdateEvals { evals: vec![gone] });
    let orphan = Allocation {
        deployment_id: Some(GONE_DEPLOYMENT),
        ..Allocation::clone(&alloc(OTHER_ALLOC, "other", "web", Some(GONE_EVAL)))
    };
    plan(vec![orphan.into()], Some(deployment(GONE_DEPLOYMENT, "other")));
    server.run(ReapEvals { evals: vec![GONE_EVAL], ..ReapEvals::default() });
    server.run(DeleteDeployments { ids: vec![GONE_DEPLOYMENT] });
    let over =
        ClientAlloc { id: OVER, node_id: NODE, client_status: AllocClientStatus::Complete, ..ClientAlloc::default() };
    server.run(UpdateAllocsFromClient { allocs: vec![over], evals: Vec::new() });
}
