//! Stories of what nodes pass on for people, and of a node's own drain: each once as it should be, and once as it should not.
//! What HTTP makes of the same requests is told in its own stories.

use std::fmt::Write as _;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use expect_test::expect;
use serde_json::{Value, json};
use songline_api::Api;
use songline_model::{DrainStrategy, Dur, Job, NodeId, Secret, VariableKey};
use songline_rpc::message::{
    Call, Caller, JobEvaluations, JobGetJob, JobList, JobRegister, NodeRegister, NodeUpdateDrain, Signed, VariableDecrypted, VariablesApply,
};
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_rpc::net::Pool;

use super::super::tests::{NODE, SECRET, core, node, pool, start};
use crate::agent::Agent;

/// A server that asks for tokens, somebody who may everything, and somebody who may nothing.
struct Story {
    agent: Agent,
    pool: Pool,
    address: String,
    root: Secret,
    nobody: Secret,
    told: String,
    _dir: tempfile::TempDir,
}

impl Story {
    async fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let agent = start(dir.path(), true).await;
        let mut story = Self {
            address: core(&agent).rpc_addr(),
            agent,
            pool: pool(),
            root: Secret::default(),
            nobody: Secret::default(),
            told: String::new(),
            _dir: dir,
        };
        core(&story.agent).wait_for_index(5, std::time::Duration::from_secs(60)).await.expect("a new cluster gets its root key");
        story.root = story.token("/v1/acl/bootstrap", json!({})).await;
        story.nobody = story.token("/v1/acl/token", json!({ "Name": "nobody", "Type": "client", "Policies": ["none"] })).await;
        story
    }

    /// Has HTTP make a token.
    async fn token(&self, path: &str, body: Value) -> Secret {
        let api = Api::new(core(&self.agent).clone());
        let request = Request::builder().method("PUT").uri(path).header("x-nomad-token", self.root.reveal());
        let response = api.answer(request.body(Body::from(body.to_string())).unwrap()).await;
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        let made: Value = serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&body)));
        Secret::new(made["SecretID"].as_str().unwrap())
    }

    /// Calls in the name of a token, and notes what `show` makes of the answer, or the refusal.
    async fn ask<C: Call + Signed>(&mut self, who: &str, request: C, show: impl Fn(C::Answer) -> String) {
        let auth_token = match who {
            "root" => self.root.clone(),
            "nobody" => self.nobody.clone(),
            other => Secret::new(other),
        };
        let caller = Caller { region: "global".into(), namespace: "default".into(), auth_token };
        let request = to_vec(&request.signed(&caller)).unwrap();
        let said = match self.pool.call(&self.address, C::METHOD, &request).await {
            Ok(answer) => show(from_slice(&answer).unwrap()),
            Err(error) => format!("error: {error}"),
        };
        let who = if who == SECRET { "the node" } else { who };
        writeln!(self.told, "{} of {who}: {said}", C::METHOD).unwrap();
    }

    /// The same with a body of the wrong shape.
    async fn garble(&mut self, method: &str, body: Value) {
        let mut body = body;
        body["Region"] = json!("global");
        body["AuthToken"] = json!(self.root.reveal());
        let said = match self.pool.call(&self.address, method, &to_vec(&body).unwrap()).await {
            Ok(_) => "an answer".to_owned(),
            Err(error) => format!("error: {error}"),
        };
        // Where in the bytes it is says nothing.
        let said = match (said.find("[pos "), said.find("]: ")) {
            (Some(from), Some(to)) => format!("{}[pos ..{}", &said[..from], &said[to..]),
            _ => said,
        };
        writeln!(self.told, "{method} garbled: {said}").unwrap();
    }

    async fn end(self, expected: expect_test::Expect) {
        expected.assert_eq(&self.told);
        self.pool.close();
        self.agent.stop().await;
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
async fn jobs_are_registered_in_the_name_of_whoever_asked() {
    let mut story = Story::begin().await;
    let show = |made: songline_rpc::message::JobRegisterAnswer| {
        format!("an evaluation: {}, warnings: {:?}", !made.eval_id.is_empty(), made.warnings)
    };
    story.ask("root", registration("web"), show).await;
    story.ask("nobody", registration("web"), show).await;
    story.ask("5d1e0000-0000-0000-0000-0000000000ff", registration("web"), show).await;
    story.ask("root", JobRegister::default(), show).await;
    story.ask("root", JobRegister { enforce_index: true, job_modify_index: 7, ..registration("web") }, show).await;
    story.ask("root", JobRegister { job: Some(Job { task_groups: None, ..job("web") }), ..JobRegister::default() }, show).await;
    story.garble("Job.Register", json!({ "Job": 7 })).await;
    story.end(expect![[""]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_are_shown_to_those_who_may_see_them() {
    let mut story = Story::begin().await;
    story.ask("root", registration("web"), |_| "done".to_owned()).await;
    let one = |id: &str| JobGetJob { job_id: id.into(), ..JobGetJob::default() };
    let show = |found: songline_rpc::message::JobGetJobAnswer| match found.job {
        Some(job) => format!("{} version {}, index {}", job.id, job.version, if found.index > 0 { "set" } else { "zero" }),
        None => "no job".to_owned(),
    };
    story.ask("root", one("web"), show).await;
    story.ask("root", one("gone"), show).await;
    story.ask("nobody", one("web"), show).await;
    story.garble("Job.GetJob", json!({ "JobID": 7 })).await;

    let of = |id: &str| JobEvaluations { job_id: id.into(), ..JobEvaluations::default() };
    let show = |found: songline_rpc::message::JobEvaluationsAnswer| {
        let evals = found.evaluations.unwrap_or_default();
        let first = evals.iter().find(|eval| eval.triggered_by.as_str() == "job-register").map(|eval| eval.job_id.to_string());
        format!("of the registration: {first:?}")
    };
    story.ask("root", of("web"), show).await;
    story.ask("root", of("gone"), show).await;
    story.ask("nobody", of("web"), show).await;
    story.garble("Job.Evaluations", json!({ "JobID": [] })).await;

    let list = |prefix: &str, meta: bool| JobList {
        prefix: prefix.into(),
        fields: meta.then(|| [("Meta".into(), true)].into()),
        ..JobList::default()
    };
    let show = |found: songline_rpc::message::JobListAnswer| {
        let stubs: Value = found.jobs.read().unwrap();
        let stubs = stubs.as_array().cloned().unwrap_or_default();
        stubs.iter().map(|stub| format!("{} {} {}", stub["ID"], stub["Status"], stub["Meta"])).collect::<Vec<_>>().join(", ")
    };
    story.ask("root", list("", false), show).await;
    story.ask("root", list("we", true), show).await;
    story.ask("root", list("x", true), show).await;
    story.ask("root", JobList { filter: "Name ==".into(), ..JobList::default() }, show).await;
    story.ask("nobody", list("", false), show).await;
    story.garble("Job.List", json!({ "PerPage": "many" })).await;
    story.end(expect![[""]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_may_drain_itself_and_no_other() {
    let mut story = Story::begin().await;
    let node = from_slice(&to_vec(&node()).unwrap()).unwrap();
    story.ask("", NodeRegister { node: Some(node), ..NodeRegister::default() }, |_| "done".to_owned()).await;
    let id: NodeId = NODE.parse().unwrap();
    let strategy = |secs: i64| DrainStrategy { deadline: Dur::from_secs(secs), ..DrainStrategy::default() };
    let drain = |node_id: NodeId| NodeUpdateDrain { node_id, drain_strategy: Some(strategy(60)), ..NodeUpdateDrain::default() };
    let show =
        |done: songline_rpc::message::NodeUpdateDrainAnswer| format!("written: {}", done.index > 0 && done.index == done.node_modify_index);
    story.ask(SECRET, drain(id), show).await;
    let row = core(&story.agent).view().node(id).cloned().unwrap();
    let known = row.drain_strategy.clone().unwrap();
    let event = row.events.as_deref().and_then(|events| events.last()).map(|event| event.message.to_string());
    writeln!(
        story.told,
        "  {:?}, since then and until then: {}, {event:?}",
        row.scheduling_eligibility,
        known.started_at < known.force_deadline
    )
    .unwrap();
    story.ask("root", NodeUpdateDrain { drain_strategy: None, mark_eligible: true, ..drain(id) }, show).await;
    let row = core(&story.agent).view().node(id).cloned().unwrap();
    writeln!(story.told, "  {:?}, drains: {}", row.scheduling_eligibility, row.drain_strategy.is_some()).unwrap();
    let another: NodeId = "5d1e0000-0000-0000-0000-000000000002".parse().unwrap();
    story.ask(SECRET, drain(another), show).await;
    story.ask("nobody", drain(id), show).await;
    story.ask("", drain(id), show).await;
    story.ask("root", drain(another), show).await;
    story.ask("root", NodeUpdateDrain { node_event: Some(Default::default()), ..drain(id) }, show).await;
    story.garble("Node.UpdateDrain", json!({ "NodeID": NODE, "DrainStrategy": "now" })).await;
    story.end(expect![[""]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_are_written_at_the_index_that_is_known_or_not_at_all() {
    let mut story = Story::begin().await;
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
    let items = |var: &Option<VariableDecrypted>| {
        var.as_ref().map(|var| var.items.iter().flatten().map(|(name, value)| format!("{name}={}", value.reveal())).collect::<Vec<_>>())
    };
    let show = |done: songline_rpc::message::VariablesApplyAnswer| {
        format!("{} {}, output {:?}, conflict {:?}", done.op, done.result, items(&done.output), items(&done.conflict))
    };
    story.ask("root", write("set", "a/b", 0), show).await;
    let key = VariableKey { namespace: "default".into(), path: "a/b".into() };
    let known = core(&story.agent).view().variable(&key).unwrap().meta.modify_index;
    story.ask("root", write("cas", "a/b", known), show).await;
    story.ask("root", write("cas", "a/b", known), show).await;
    story.ask("root", write("delete-cas", "a/b", known), show).await;
    story.ask("root", write("delete", "a/b", 0), show).await;
    story.ask("root", write("delete", "a/gone", 0), show).await;
    story.ask("nobody", write("set", "a/b", 0), show).await;
    story.ask("root", write("steal", "a/b", 0), show).await;
    story.ask("root", VariablesApply { op: "set".into(), ..VariablesApply::default() }, show).await;
    story.garble("Variables.Apply", json!({ "Op": "set", "Var": { "Items": "all" } })).await;
    story.end(expect![[""]]).await;
}
