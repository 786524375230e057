//! Requests that nodes forward for users, and a node's drain of itself: each once accepted and once refused. The
//! tests of HTTP cover its answers to the same requests.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use serde_json::{Value, json};
use songline_api::Api;
use songline_model::{DrainStrategy, Dur, Eligibility, Job, NodeEvent, NodeId, Secret, VariableKey};
use songline_rpc::message::{
    Call, Caller, JobEvaluations, JobEvaluationsAnswer, JobGetJob, JobGetJobAnswer, JobList, JobListAnswer,
    JobRegister, JobRegisterAnswer, NodeRegister, NodeUpdateDrain, NodeUpdateDrainAnswer, Signed, VariableDecrypted,
    VariablesApply, VariablesApplyAnswer,
};
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_rpc::net::Pool;

use super::super::tests::{NODE, SECRET, node, pool, start};
use crate::testing::TestServer;

/// A server with ACLs, a token with all rights, and a token with none.
struct Story {
    server: TestServer,
    pool: Pool,
    address: String,
    root: Secret,
    nobody: Secret,
    _dir: tempfile::TempDir,
}

impl Story {
    async fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = start(dir.path(), true).await;
        let address = server.core.rpc_addr();
        // Variables need the first root key.
        server.core.signer().await.unwrap();
        let mut story =
            Self { address, server, pool: pool(), root: Secret::default(), nobody: Secret::default(), _dir: dir };
        story.root = story.token("/v1/acl/bootstrap", json!({})).await;
        story.nobody =
            story.token("/v1/acl/token", json!({ "Name": "nobody", "Type": "client", "Policies": ["none"] })).await;
        story
    }

    /// Creates a token over HTTP.
    async fn token(&self, path: &str, body: Value) -> Secret {
        let api = Api::new(self.server.core.clone());
        let request = Request::builder().method("PUT").uri(path).header("x-nomad-token", self.root.reveal());
        let response = api.answer(request.body(Body::from(body.to_string())).unwrap()).await;
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let made: Value =
            serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&body)));
        Secret::new(made["SecretID"].as_str().unwrap())
    }

    /// Makes a call with a token. `expected` has to occur in the text that `show` makes of the answer, or in the
    /// refusal.
    async fn check<C: Call + Signed>(&self, who: &str, request: C, show: impl Fn(C::Answer) -> String, expected: &str) {
        let auth_token = match who {
            "root" => self.root.clone(),
            "nobody" => self.nobody.clone(),
            "the node" => Secret::new(SECRET),
            other => Secret::new(other),
        };
        let caller = Caller { region: "global".into(), namespace: "default".into(), auth_token };
        let request = to_vec(&request.signed(&caller)).unwrap();
        let said = match self.pool.call(&self.address, C::METHOD, &request).await {
            Ok(answer) => show(from_slice(&answer).unwrap()),
            Err(error) => format!("error: {error}"),
        };
        assert!(said.contains(expected), "{} of {who:?} says {said:?}, not {expected:?}", C::METHOD);
    }

    /// Like `check`, with a body of the wrong shape.
    async fn garble(&self, method: &str, mut body: Value) {
        body["Region"] = json!("global");
        body["AuthToken"] = json!(self.root.reveal());
        let said = self
            .pool
            .call(&self.address, method, &to_vec(&body).unwrap())
            .await
            .map(|_| "an answer")
            .unwrap_err()
            .to_string();
        assert!(said.contains("decode error"), "{method}: {said}");
    }

    async fn end(self) {
        self.pool.close();
        self.server.stop().await;
    }
}

fn job(id: &str) -> Job {
    let job = json!({
        "ID": id, "Name": id, "Type": "service", "Datacenters": ["dc1"], "Meta": { "color": "green" },
        "TaskGroups": [{ "Name": "g", "Count": 1, "Tasks": [{ "Name": "t", "Driver": "mock_driver", "Config": { "run_for": "1s" } }] }],
    });
    serde_json::from_value(job).unwrap()
}

fn registration(id: &str) -> JobRegister {
    JobRegister { job: Some(job(id)), ..JobRegister::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_registration_over_rpc_is_authorized_as_the_caller() {
    let story = Story::begin().await;
    let show =
        |made: JobRegisterAnswer| if made.eval_id.is_empty() { "no evaluation" } else { "an evaluation" }.to_owned();
    story.check("root", registration("web"), show, "an evaluation").await;
    story.check("nobody", registration("web"), show, "Permission denied").await;
    story.check("5d1e0000-0000-0000-0000-0000000000ff", registration("web"), show, "error: ").await;
    story.check("root", JobRegister::default(), show, "missing job for registration").await;
    let late = JobRegister { enforce_index: true, job_modify_index: 7, ..registration("web") };
    story.check("root", late, show, "job modify index").await;
    let empty = JobRegister { job: Some(Job { task_groups: None, ..job("web") }), ..JobRegister::default() };
    story.check("root", empty, show, "Missing job task groups").await;
    story.garble("Job.Register", json!({ "Job": 7 })).await;
    story.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_reads_over_rpc_are_authorized_as_the_caller() {
    let story = Story::begin().await;
    story.check("root", registration("web"), |_| "done".to_owned(), "done").await;
    let one = |id: &str| JobGetJob { job_id: id.into(), ..JobGetJob::default() };
    let show = |found: JobGetJobAnswer| {
        found.job.map_or("no job".to_owned(), |job| format!("{} version {}", job.id, job.version))
    };
    story.check("root", one("web"), show, "web version 0").await;
    story.check("root", one("gone"), show, "no job").await;
    story.check("nobody", one("web"), show, "Permission denied").await;
    story.garble("Job.GetJob", json!({ "JobID": ["web"] })).await;

    let of = |id: &str| JobEvaluations { job_id: id.into(), ..JobEvaluations::default() };
    let show = |found: JobEvaluationsAnswer| {
        let evals = found.evaluations.unwrap_or_default();
        evals.iter().map(|eval| format!("{} of {}", eval.triggered_by, eval.job_id)).collect::<Vec<_>>().join(", ")
            + "."
    };
    story.check("root", of("web"), show, "job-register of web").await;
    story.check("root", of("gone"), show, ".").await;
    story.check("nobody", of("web"), show, "Permission denied").await;
    story.garble("Job.Evaluations", json!({ "JobID": ["web"] })).await;

    let list = |prefix: &str, meta: bool| {
        let fields = meta.then(|| [("Meta".into(), true)].into());
        JobList { prefix: prefix.into(), fields, ..JobList::default() }
    };
    let show = |found: JobListAnswer| {
        let stubs: Value = found.jobs.read().unwrap();
        let stubs = stubs.as_array().cloned().unwrap_or_default();
        let shown: Vec<String> = stubs.iter().map(|stub| format!("{} {}", stub["ID"], stub["Meta"])).collect();
        format!("{} jobs: {}", shown.len(), shown.join(", "))
    };
    story.check("root", list("", false), show, "1 jobs: \"web\"").await;
    story.check("root", list("we", true), show, "green").await;
    story.check("root", list("x", true), show, "0 jobs").await;
    story.check("root", JobList { filter: "Name ==".into(), ..JobList::default() }, show, "error: ").await;
    story.check("nobody", list("", false), show, "Permission denied").await;
    story.garble("Job.List", json!({ "PerPage": "many" })).await;
    story.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_may_drain_itself_and_no_other() {
    let story = Story::begin().await;
    let node = from_slice(&to_vec(&node()).unwrap()).unwrap();
    story.check("", NodeRegister { node: Some(node), ..NodeRegister::default() }, |_| "done".to_owned(), "done").await;
    let (id, another): (NodeId, NodeId) =
        (NODE.parse().unwrap(), "5d1e0000-0000-0000-0000-000000000002".parse().unwrap());
    let strategy = DrainStrategy { deadline: Dur::from_secs(60), ..DrainStrategy::default() };
    let drain =
        |node_id| NodeUpdateDrain { node_id, drain_strategy: Some(strategy.clone()), ..NodeUpdateDrain::default() };
    let row = || story.server.core.view().node(id).cloned().unwrap();
    let show =
        |done: NodeUpdateDrainAnswer| format!("written: {}", done.index > 0 && done.index == done.node_modify_index);
    story.check("the node", drain(id), show, "written: true").await;
    // The node runs nothing, so its drain may be over by now.
    assert_eq!(row().scheduling_eligibility, Eligibility::Ineligible);
    assert!(row().events.iter().flatten().any(|event| event.message == "Node drain strategy set"));
    story
        .check(
            "root",
            NodeUpdateDrain { drain_strategy: None, mark_eligible: true, ..drain(id) },
            show,
            "written: true",
        )
        .await;
    assert_eq!((row().scheduling_eligibility, row().drain_strategy.is_some()), (Eligibility::Eligible, false));
    story.check("the node", drain(another), show, "Permission denied").await;
    story.check("nobody", drain(id), show, "Permission denied").await;
    story.check("", drain(id), show, "Permission denied").await;
    story.check("root", drain(another), show, "node not found").await;
    let told = NodeUpdateDrain { node_event: Some(NodeEvent::default()), ..drain(id) };
    story.check("root", told, show, "node event must not be set").await;
    story.garble("Node.UpdateDrain", json!({ "NodeID": NODE, "DrainStrategy": "now" })).await;
    story.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variable_cas_over_rpc_needs_the_current_index() {
    let story = Story::begin().await;
    let write = |op: &str, path: &str, index: u64| VariablesApply {
        op: op.into(),
        var: Some(VariableDecrypted {
            namespace: "default".into(),
            path: path.into(),
            modify_index: index,
            items: Some([("k".into(), Secret::new("v"))].into()),
            ..VariableDecrypted::default()
        }),
        ..VariablesApply::default()
    };
    let show = |done: VariablesApplyAnswer| format!("{} {}", done.op, done.result);
    story.check("root", write("set", "a/b", 0), show, "set ok").await;
    let key = VariableKey { namespace: "default".into(), path: "a/b".into() };
    let known = story.server.core.view().variable(&key).unwrap().meta.modify_index;
    story.check("root", write("cas", "a/b", known), show, "cas ok").await;
    story.check("root", write("cas", "a/b", 1), show, "cas conflict").await;
    story.check("root", write("delete-cas", "a/b", 1), show, "delete-cas conflict").await;
    story.check("root", write("delete", "a/b", 0), show, "delete ok").await;
    story.check("root", write("delete", "a/gone", 0), show, "delete ok").await;
    story.check("nobody", write("set", "a/b", 0), show, "Permission denied").await;
    story.check("root", write("steal", "a/b", 0), show, "invalid variable operation").await;
    story.check("root", VariablesApply { op: "set".into(), ..VariablesApply::default() }, show, "error: ").await;
    story.garble("Variables.Apply", json!({ "Op": "set", "Var": { "Items": "all" } })).await;
    story.end().await;
}
