//! Rights after the deletion of an object that a request names, and the fields that answers about the past show to
//! each caller.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use expect_test::{Expect, expect};
use serde_json::Value;
use songline_api::{Agent, Reads};
use songline_commands::{
    Actor, ApplyPlan, Cause, Command, DeleteEvals, EvalChoice, ReapEvals, RegisterJob, SetDesiredTransitions,
    SetSchedulerConfig, Slice, UpdateEvals, UpdateNodeStatus,
};
use songline_model::{
    AllocClientStatus, AllocId, Allocation, DesiredTransition, EvalId, EvalTrigger, Evaluation, NodeEvent, NodeStatus,
    PreemptAlloc, SchedulerConfiguration, StopAlloc, Time, UnixSecs,
};

use crate::server::{Memory, answer, parsed, shown};
use crate::world::{
    ALLOC, GONE_DEPLOYMENT, GONE_EVAL, MANAGEMENT, NODE, OF_API, OTHER_ALLOC, OTHER_DEPLOYMENT, OVER, ask, identity,
    job, rules, token_with, told, world,
};

pub const READS: &str = "namespace \"default\" { policy = \"read\" }";
const READS_BOTH: &str = "namespace \"default\" { policy = \"read\" } namespace \"other\" { policy = \"read\" }";

/// Ids of the rows in an answer.
async fn ids(server: &Arc<Memory>, secret: &str, target: &str) -> String {
    let (status, body) = ask(server, secret, &format!("GET {target}")).await;
    let rows: Vec<Value> = serde_json::from_str(&body).unwrap_or_default();
    let ids: Vec<&str> = rows.iter().filter_map(|row| row["ID"].as_str()).map(|id| &id[..8]).collect();
    if status.is_success() { format!("200 {}", ids.join(" ")) } else { format!("{} {body}", status.as_u16()) }
}

#[tokio::test]
async fn allocs_of_a_deleted_eval_or_deployment_are_authorized_by_their_own_namespace() {
    let server = world().await;
    let (here, both) = (token_with(&server, 7, READS), token_with(&server, 8, READS_BOTH));
    for target in
        [format!("/v1/evaluation/{GONE_EVAL}/allocations"), format!("/v1/deployment/allocations/{GONE_DEPLOYMENT}")]
    {
        for namespace in ["default", "*"] {
            let target = format!("{target}?namespace={namespace}");
            assert_eq!(ids(&server, &here, &target).await, "200 ", "{target}");
            assert_eq!(ids(&server, &both, &target).await, "200 a2a2a2a2", "{target}");
        }
        assert_eq!(ids(&server, &here, &format!("{target}?namespace=other")).await, "403 Permission denied");
    }
    // An existing deployment names the namespace itself.
    let target = format!("/v1/deployment/allocations/{OTHER_DEPLOYMENT}");
    assert_eq!(ids(&server, &here, &target).await, "403 Permission denied");
}

#[tokio::test]
async fn dry_run_shows_preempted_allocs_of_readable_namespaces_only() {
    let server = world().await;
    let writes = "namespace \"default\" { policy = \"write\" }";
    let here = token_with(&server, 7, writes);
    let both = token_with(&server, 8, &format!("{writes} namespace \"other\" {{ policy = \"read\" }}"));
    let job = r#"{"Job": {"ID": "large", "Type": "service", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "true"}}]}]}}"#;
    let mut namespaces = Vec::new();
    for secret in [&here, &both] {
        let (status, body) = ask(&server, secret, &format!("PUT /v1/job/large/plan {job}")).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let plan: Value = serde_json::from_str(&body).expect("is JSON");
        let stubs = plan["Annotations"]["PreemptedAllocs"].as_array().expect("a list").clone();
        let found: BTreeSet<String> =
            stubs.iter().map(|stub| stub["Namespace"].as_str().unwrap_or("").into()).collect();
        namespaces.push(found.into_iter().collect::<Vec<_>>().join(" "));
    }
    assert_eq!(namespaces, ["default", "default other"]);
}

#[tokio::test]
async fn blocking_alloc_query_shows_no_other_namespace_after_its_eval_is_deleted() {
    let server = world().await;
    let here = token_with(&server, 7, READS);
    let view = server.view();
    let eval = view.evals_of_job("default", "web").next().expect("is there").id;
    let index = view.table_index(songline_projections::Table::Allocs);
    let before = server.watches().waiting();
    let (other, secret) = (Arc::clone(&server), here.clone());
    let target = format!("/v1/evaluation/{eval}/allocations?index={index}");
    let query = tokio::spawn(async move { ids(&other, &secret, &target).await });
    while server.watches().waiting() == before {
        tokio::task::yield_now().await;
    }
    server.run(ReapEvals { evals: vec![eval], ..ReapEvals::default() });
    // An alloc of another namespace that names this evaluation: the evaluation is deleted, so only the alloc names a
    // namespace.
    let stray = Allocation { eval_id: Some(eval), ..Allocation::clone(view.alloc(OTHER_ALLOC).expect("is there")) };
    server.run(ApplyPlan { updated: vec![stray.into()], ..ApplyPlan::default() });
    assert_eq!(query.await.expect("answers"), "200 02020202 05050505");
}

#[tokio::test]
async fn history_and_explanations_of_deleted_objects_stay_in_their_namespace() {
    let server = world().await;
    server.run(ReapEvals { allocs: vec![OTHER_ALLOC], ..ReapEvals::default() });
    let (here, both) = (token_with(&server, 7, READS), token_with(&server, 8, READS_BOTH));
    let targets = [
        format!("/v1/history/evaluation/{GONE_EVAL}"),
        format!("/v1/history/deployment/{GONE_DEPLOYMENT}"),
        format!("/v1/history/allocation/{OTHER_ALLOC}"),
        format!("/v1/explain/allocation/{OTHER_ALLOC}"),
    ];
    for target in targets {
        for namespace in ["default", "*"] {
            let status = ask(&server, &here, &format!("GET {target}?namespace={namespace}")).await.0;
            assert_eq!(status, StatusCode::NOT_FOUND, "{target}");
        }
        assert_eq!(ask(&server, &both, &format!("GET {target}?namespace=*")).await.0, StatusCode::OK, "{target}");
    }
}

/// The holder of a token registers the job. Its node goes down, so its alloc has to move. Then a job of the other
/// namespace preempts it.
fn eventful(server: &Memory, accessor: &str) {
    let (leader, holder) = (Actor::Leader("test".into()), Actor::Accessor(accessor.into()));
    let job = server.view().job("default", "web").cloned().expect("is there");
    let eval = |id: u8, namespace: &str, triggered_by| Evaluation {
        id: EvalId::from_bytes([id; 16]),
        namespace: namespace.into(),
        job_id: "web".into(),
        triggered_by,
        ..Evaluation::default()
    };
    let act = |actor: &Actor, cause: Option<Cause>, command: Command| {
        let kind = command.kind().number();
        Some(Cause { index: server.run_as(actor.clone(), cause, command), kind })
    };
    let by = |eval: u8| ApplyPlan { eval_id: EvalId::from_bytes([eval; 16]), ..ApplyPlan::default() };
    let registered = Some(eval(0x11, "default", EvalTrigger::JobRegister));
    act(&holder, None, RegisterJob { job: Arc::clone(&job), eval: registered, ..RegisterJob::default() }.into());
    let placed = Allocation { eval_id: Some(EvalId::from_bytes([0x11; 16])), job: Some(job), ..alloc(server, ALLOC) };
    act(&leader, None, ApplyPlan { updated: vec![Allocation { id: PLACED, ..placed }.into()], ..by(0x11) }.into());
    let event = Some(NodeEvent { message: "disk is on fire".into(), ..NodeEvent::default() });
    let silent = act(
        &holder,
        None,
        UpdateNodeStatus { node_id: NODE, status: NodeStatus::Down, event, updated_at: UnixSecs(1) }.into(),
    );
    let noticed =
        act(&leader, silent, UpdateEvals { evals: vec![eval(0x12, "default", EvalTrigger::NodeUpdate)] }.into());
    let migrate = DesiredTransition { migrate: Some(true), ..DesiredTransition::default() };
    act(&holder, silent, SetDesiredTransitions { allocs: [(PLACED, migrate)].into(), evals: Vec::new() }.into());
    let lost = StopAlloc { id: PLACED, client_status: Some(AllocClientStatus::Lost), ..StopAlloc::default() };
    act(&leader, noticed, ApplyPlan { stopped: vec![lost], ..by(0x12) }.into());
    act(&holder, None, UpdateEvals { evals: vec![eval(0x13, "other", EvalTrigger::JobRegister)] }.into());
    let preempted = PreemptAlloc { id: PLACED, preempted_by: OTHER_ALLOC, modify_time: Time::from_nanos(1) };
    act(&leader, None, ApplyPlan { preempted: vec![preempted], ..by(0x13) }.into());
}

/// The alloc in the story of `eventful`.
const PLACED: AllocId = AllocId::from_bytes([6; 16]);

fn alloc(server: &Memory, id: AllocId) -> Allocation {
    Allocation::clone(server.view().alloc(id).expect("is there"))
}

pub async fn json(server: &Arc<Memory>, secret: &str, target: &str) -> Value {
    let (status, body) = ask(server, secret, &format!("GET {target}")).await;
    assert_eq!(status, StatusCode::OK, "{target}: {body}");
    serde_json::from_str(&body).expect("is JSON")
}

/// An explanation: its summary, and each step with its sentence, without times and indexes.
async fn explained(server: &Arc<Memory>, secret: &str, expected: Expect) {
    let answer = json(server, secret, &format!("/v1/explain/allocation/{PLACED}")).await;
    let mut shown = format!("{} NodeName {}\n", answer["Summary"].as_str().unwrap_or_default(), answer["NodeName"]);
    let said = answer["Sentences"].as_array().into_iter().flatten().filter_map(|line| line.as_str()?.split_once("): "));
    for (step, (_, said)) in answer["Steps"].as_array().into_iter().flatten().zip(said) {
        assert!(said.trim_end_matches('.') == step["Text"], "{step} {said}");
        let id: String = step["ID"].as_str().unwrap_or_default().chars().take(8).collect();
        shown.push_str(&format!("{} {id:?} {} {}: {said}\n", step["About"], step["Command"], step["Actor"]));
    }
    expected.assert_eq(&shown.replace('"', ""));
}

#[tokio::test]
async fn explanation_names_nodes_tokens_and_namespaces_only_to_callers_with_the_right() {
    let server = world().await;
    let here = token_with(&server, 7, READS);
    let nodes = token_with(&server, 8, &format!("{READS_BOTH} node {{ policy = \"read\" }}"));
    eventful(&server, &nodes);
    explained(&server, &here, expect![[r#"
        alloc 06060606 (web.g[0]) of job web was stopped (Preempted by alloc ID a2a2a2a2-a2a2-a2a2-a2a2-a2a2a2a2a2a2) and is lost on node 01010101. NodeName 
        job web JobRegister token: the holder of a token registered job web in namespace default.
        evaluation 11111111 JobRegister token: evaluation 11111111 (job-register) of job web was made because the job was registered.
        plan 11111111 ApplyPlanResults leader:test: the plan of evaluation 11111111 placed alloc 06060606 (web.g[0]) on node 01010101.
        node   null: a node changed (shown to callers with node:read).
        evaluation 12121212 EvalUpdate leader:test: evaluation 12121212 (node-update) of job web was made because a node changed.
        allocation 06060606 AllocUpdateDesiredTransition token: the holder of a token asked to move alloc 06060606 (web.g[0]).
        plan 12121212 ApplyPlanResults leader:test: the plan of evaluation 12121212 stopped alloc 06060606 (web.g[0]) and took it for lost.
        evaluation 13131313  null: evaluation 13131313 is of a job of another namespace (shown to callers with read-job there).
        plan 13131313 ApplyPlanResults leader:test: the plan of evaluation 13131313 stopped alloc 06060606 (web.g[0]) (Preempted by alloc ID a2a2a2a2-a2a2-a2a2-a2a2-a2a2a2a2a2a2).
    "#]]).await;
    // The owner of the token may see its accessor.
    explained(&server, &nodes, expect![[r#"
        alloc 06060606 (web.g[0]) of job web was stopped (Preempted by alloc ID a2a2a2a2-a2a2-a2a2-a2a2-a2a2a2a2a2a2) and is lost on node stable. NodeName stable
        job web JobRegister token:08080808-0808-0808-0808-080808080808: the holder of token 08080808-0808-0808-0808-080808080808 registered job web in namespace default.
        evaluation 11111111 JobRegister token:08080808-0808-0808-0808-080808080808: evaluation 11111111 (job-register) of job web was made because the job was registered.
        plan 11111111 ApplyPlanResults leader:test: the plan of evaluation 11111111 placed alloc 06060606 (web.g[0]) on node stable (01010101).
        node 01010101 NodeUpdateStatus token:08080808-0808-0808-0808-080808080808: node stable (01010101) became down (disk is on fire).
        evaluation 12121212 EvalUpdate leader:test: evaluation 12121212 (node-update) of job web was made because a node changed.
        allocation 06060606 AllocUpdateDesiredTransition token:08080808-0808-0808-0808-080808080808: the holder of token 08080808-0808-0808-0808-080808080808 asked to move alloc 06060606 (web.g[0]).
        plan 12121212 ApplyPlanResults leader:test: the plan of evaluation 12121212 stopped alloc 06060606 (web.g[0]) and took it for lost.
        evaluation 13131313 EvalUpdate token:08080808-0808-0808-0808-080808080808: evaluation 13131313 (job-register) of job web was made because the job was registered.
        plan 13131313 ApplyPlanResults leader:test: the plan of evaluation 13131313 stopped alloc 06060606 (web.g[0]) (Preempted by alloc ID a2a2a2a2-a2a2-a2a2-a2a2-a2a2a2a2a2a2).
    "#]]).await;
    let all = MANAGEMENT.to_string();
    let target = format!("/v1/explain/allocation/{PLACED}");
    assert_eq!(json(&server, &nodes, &target).await, json(&server, &all, &target).await);
}

/// The history of an object: command, actor and cause of each change, and its `NodeName` fields.
async fn history(server: &Arc<Memory>, secret: &str, object: &str) -> String {
    let changes = json(server, secret, &format!("/v1/history/{object}?order=oldest")).await;
    let mut shown = String::new();
    for change in changes.as_array().into_iter().flatten() {
        let named = change["Diff"].as_array().into_iter().flatten().filter(|field| field["Path"] == "NodeName");
        let named: String = named.map(|field| format!(" NodeName {}", field["New"])).collect();
        shown.push_str(&format!(
            "{} by {} for {}{named}\n",
            change["Command"], change["Actor"], change["Cause"]["Command"]
        ));
    }
    shown.replace('"', "")
}

#[tokio::test]
async fn history_names_nodes_and_tokens_only_to_callers_who_may_read_them() {
    let server = world().await;
    let here = token_with(&server, 7, READS);
    let nodes = token_with(&server, 8, &format!("{READS} node {{ policy = \"read\" }}"));
    let all = MANAGEMENT.to_string();
    eventful(&server, &nodes);
    let mut shown = String::new();
    for object in [
        format!("allocation/{PLACED}"),
        "evaluation/12121212-1212-1212-1212-121212121212".to_owned(),
        "job/web".to_owned(),
    ] {
        for (who, secret) in [("who reads jobs", &here), ("who reads nodes", &nodes), ("management", &all)] {
            shown.push_str(&format!("{object} for {who}\n{}", history(&server, secret, &object).await));
        }
    }
    expect![[r#"
        allocation/06060606-0606-0606-0606-060606060606 for who reads jobs
        ApplyPlanResults by leader:test for null
        AllocUpdateDesiredTransition by token for 
        ApplyPlanResults by leader:test for EvalUpdate
        ApplyPlanResults by leader:test for null
        allocation/06060606-0606-0606-0606-060606060606 for who reads nodes
        ApplyPlanResults by leader:test for null NodeName stable
        AllocUpdateDesiredTransition by token:08080808-0808-0808-0808-080808080808 for NodeUpdateStatus
        ApplyPlanResults by leader:test for EvalUpdate
        ApplyPlanResults by leader:test for null
        allocation/06060606-0606-0606-0606-060606060606 for management
        ApplyPlanResults by leader:test for null NodeName stable
        AllocUpdateDesiredTransition by token:08080808-0808-0808-0808-080808080808 for NodeUpdateStatus
        ApplyPlanResults by leader:test for EvalUpdate
        ApplyPlanResults by leader:test for null
        evaluation/12121212-1212-1212-1212-121212121212 for who reads jobs
        EvalUpdate by leader:test for 
        evaluation/12121212-1212-1212-1212-121212121212 for who reads nodes
        EvalUpdate by leader:test for NodeUpdateStatus
        evaluation/12121212-1212-1212-1212-121212121212 for management
        EvalUpdate by leader:test for NodeUpdateStatus
        job/web for who reads jobs
        JobRegister by token for null
        ApplyPlanResults by leader:test for null
        JobRegister by token for null
        job/web for who reads nodes
        JobRegister by token for null
        ApplyPlanResults by leader:test for null
        JobRegister by token:08080808-0808-0808-0808-080808080808 for null
        job/web for management
        JobRegister by token:eeeeeeee-eeee-eeee-eeee-eeeeeeeeeeee for null
        ApplyPlanResults by leader:test for null
        JobRegister by token:08080808-0808-0808-0808-080808080808 for null
    "#]]
    .assert_eq(&shown);
    // A node's own history needs `node:read`, and it does not name tokens either.
    let of_node = format!("node/{NODE}");
    assert_eq!(told(&server, &here, &format!("GET /v1/history/{of_node}")).await, "403 Permission denied");
    let reads_nodes = token_with(&server, 9, "node { policy = \"read\" }");
    expect![[r#"
        NodeRegister by leader:test for null
        AllocClientUpdate by leader:test for null
        NodeUpdateStatus by token for null
    "#]]
    .assert_eq(&history(&server, &reads_nodes, &of_node).await);
}

#[tokio::test]
async fn audit_is_readable_by_management_tokens_only() {
    let server = world().await;
    eventful(&server, &MANAGEMENT.to_string());
    let everything = "namespace \"*\" { policy = \"write\" } node { policy = \"write\" } agent { policy = \"write\" } operator { policy = \"write\" }";
    let strong = token_with(&server, 7, everything);
    assert_eq!(told(&server, &strong, "GET /v1/audit").await, "403 Permission denied");
    let rows = json(&server, &MANAGEMENT.to_string(), "/v1/audit?filter=Command==NodeUpdateStatus").await;
    assert_eq!(rows[0]["Actor"], format!("token:{MANAGEMENT}"));
}

#[tokio::test]
async fn pending_work_names_tokens_only_to_callers_who_may_read_them() {
    let server = world().await;
    let holder = Actor::Accessor("3c9f1e00-0000-4000-8000-000000000001".into());
    let config = SchedulerConfiguration { pause_eval_broker: true, ..SchedulerConfiguration::default() };
    server.run(SetSchedulerConfig { config, cas: None });
    let choice = EvalChoice::Filter("Status == none".into());
    server.run_as(holder, None, DeleteEvals { choice, slice: Slice::of_rows(1) }.into());
    let operator = token_with(&server, 7, "operator { policy = \"read\" }");
    let all = MANAGEMENT.to_string();
    let actors = [&operator, &all].map(|secret| json(&server, secret, "/v1/operator/pending-work"));
    let [seen, whole] = actors;
    assert_eq!(seen.await[0]["Actor"], "token");
    assert_eq!(whole.await[0]["Actor"], "token:3c9f1e00-0000-4000-8000-000000000001");
}

#[tokio::test]
async fn task_identity_reads_its_own_variables_until_its_alloc_is_terminal() {
    let server = world().await;
    let all = MANAGEMENT.to_string();
    for path in ["nomad/jobs/web", "nomad/jobs/api"] {
        let answer = told(&server, &all, &format!("PUT /v1/var/{path} {{\"Items\": {{\"k\": \"v\"}}}}")).await;
        assert!(answer.starts_with("200 "), "{answer}");
    }
    let mut shown = String::new();
    for (who, alloc) in [("web", ALLOC), ("api", OF_API), ("over", OVER), ("other", OTHER_ALLOC)] {
        let secret = identity(&server, alloc);
        for target in [
            "/v1/var/nomad/jobs/web",
            "/v1/var/nomad/jobs/web?namespace=other",
            "/v1/var/nomad/jobs/api",
            "/v1/services",
        ] {
            let status = ask(&server, &secret, &format!("GET {target}")).await.0;
            shown.push_str(&format!("{who} GET {target} {}\n", status.as_u16()));
        }
    }
    expect![[r#"
        web GET /v1/var/nomad/jobs/web 200
        web GET /v1/var/nomad/jobs/web?namespace=other 403
        web GET /v1/var/nomad/jobs/api 403
        web GET /v1/services 200
        api GET /v1/var/nomad/jobs/web 403
        api GET /v1/var/nomad/jobs/web?namespace=other 403
        api GET /v1/var/nomad/jobs/api 200
        api GET /v1/services 200
        over GET /v1/var/nomad/jobs/web 403
        over GET /v1/var/nomad/jobs/web?namespace=other 403
        over GET /v1/var/nomad/jobs/api 403
        over GET /v1/services 403
        other GET /v1/var/nomad/jobs/web 403
        other GET /v1/var/nomad/jobs/web?namespace=other 404
        other GET /v1/var/nomad/jobs/api 403
        other GET /v1/services 200
    "#]]
    .assert_eq(&shown);
}

/// A request with an idempotency key.
async fn keyed(server: &Arc<Memory>, secret: &str, method_and_path: &str, body: &str) -> (u16, Value) {
    parsed(answer(server, &shown(secret, &format!("{method_and_path} [idempotency-key: deploy-1] {body}"))).await).await
}

#[tokio::test]
async fn idempotency_key_does_not_reveal_the_one_time_token_of_another_caller() {
    let server = world().await;
    let (all, weak) = (MANAGEMENT.to_string(), token_with(&server, 7, READS));
    let (status, made) = keyed(&server, &all, "PUT /v1/acl/token/onetime", "").await;
    assert_eq!(status, 200, "{made}");
    let (again, repeated) = keyed(&server, &all, "PUT /v1/acl/token/onetime", "").await;
    assert_eq!((again, &repeated), (200, &made), "a retry gets the first answer");
    let (status, stolen) = keyed(&server, &weak, "PUT /v1/acl/token/onetime", "").await;
    assert_eq!(status, 409, "{stolen}");
}

#[tokio::test]
async fn stored_answer_of_a_key_is_for_callers_that_still_have_the_right() {
    let server = world().await;
    let mut parameterized: Value = serde_json::from_str(&job("p", "p", "raw_exec")).expect("is JSON");
    parameterized["Type"] = "batch".into();
    parameterized["ParameterizedJob"] = serde_json::json!({});
    let registered = ask(&server, &MANAGEMENT.to_string(), &format!("PUT /v1/jobs {{\"Job\": {parameterized}}}")).await;
    assert_eq!(registered.0, StatusCode::OK, "{}", registered.1);
    let secret = token_with(&server, 7, &rules("dispatch-job", "default"));
    let dispatch = async || keyed(&server, &secret, "PUT /v1/job/p/dispatch?idempotency_token=once", "{}").await;
    let (first, second) = (dispatch().await, dispatch().await);
    assert_eq!((first.0, &first), (200, &second));
    token_with(&server, 7, &rules("read-job", "default"));
    assert_eq!(dispatch().await.0, 403);
}

#[tokio::test]
async fn one_time_token_is_exchanged_once_even_under_an_idempotency_key() {
    let server = world().await;
    let (_, made) = keyed(&server, &MANAGEMENT.to_string(), "PUT /v1/acl/token/onetime", "").await;
    let body = format!("{{\"OneTimeSecretID\": {}}}", made["OneTimeToken"]["OneTimeSecretID"]);
    let (status, token) = keyed(&server, "", "POST /v1/acl/token/onetime/exchange", &body).await;
    assert_eq!((status, &token["Token"]["SecretID"]), (200, &Value::String(MANAGEMENT.to_string())));
    assert_eq!(
        keyed(&server, "", "POST /v1/acl/token/onetime/exchange", &body).await,
        (403, "Permission denied".into())
    );
}

#[tokio::test]
async fn repeated_acl_bootstrap_under_its_key_does_not_return_the_secret_again() {
    let server = Memory::guarded().remembering();
    let (status, first) = keyed(&server, "", "PUT /v1/acl/bootstrap", "").await;
    assert_eq!(status, 200, "{first}");
    let (status, again) = keyed(&server, "", "PUT /v1/acl/bootstrap", "").await;
    assert_eq!((status, again), (400, "ACL bootstrap already done (reset index: 2)".into()));
}

#[tokio::test]
async fn token_secret_is_not_derived_from_the_idempotency_key() {
    let body = "{\"Name\": \"ci\", \"Type\": \"management\"}";
    let mut secrets = Vec::new();
    for others in 0..2 {
        let server = world().await;
        // Two clusters whose random ids differ.
        for _ in 0..others {
            server.fresh_uuid();
        }
        let (status, made) = keyed(&server, &MANAGEMENT.to_string(), "POST /v1/acl/token", body).await;
        assert_eq!(status, 200, "{made}");
        assert_eq!(
            keyed(&server, &MANAGEMENT.to_string(), "POST /v1/acl/token", body).await.1,
            made,
            "a retry gets the first answer"
        );
        secrets.push(made["SecretID"].clone());
    }
    assert_ne!(secrets[0], secrets[1], "who knows key and request could make the secret himself");
}
