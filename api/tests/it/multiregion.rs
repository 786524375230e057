//! Jobs of several regions: their registration, the deployment that comes with it, and its way on.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value, json};
use songline_api::Reads;
use songline_commands::{ApplyPlan, UpdateDeploymentStatus};
use songline_model::{Deployment, DeploymentStatus, DeploymentStatusUpdate, EvalTrigger};

use crate::server::Memory;
use crate::world::ask;

/// Asks without a token. Returns the JSON body, or the text of an error.
async fn asked(server: &Arc<Memory>, line: String) -> (StatusCode, Value) {
    let (status, body) = ask(server, "", &line).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

fn job(kind: &str, update: Value, regions: &[&str]) -> String {
    let regions: Vec<Value> =
        regions.iter().map(|name| json!({"Name": name, "Count": 3, "Datacenters": ["dc1"]})).collect();
    let task = json!({"Name": "t", "Driver": "raw_exec", "Config": {"command": "true"}});
    json!({"Job": {"ID": "web", "Type": kind, "Multiregion": {"Regions": regions},
        "TaskGroups": [{"Name": "g", "Count": 0, "Update": update, "Tasks": [task]}]}})
    .to_string()
}

async fn register(server: &Arc<Memory>, job: String) -> Option<Arc<Deployment>> {
    let (status, body) = asked(server, format!("PUT /v1/jobs {job}")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    server.view().latest_deployment("default", "web").cloned()
}

#[tokio::test]
async fn registration_creates_a_deployment_that_waits_for_its_groups() {
    let server = Memory::new();
    let deployment = register(&server, job("service", json!({"MaxParallel": 1}), &["global", "mars"])).await;
    let deployment = deployment.expect("the job waits for other regions");
    assert_eq!((deployment.status, deployment.is_multiregion), (DeploymentStatus::Initializing, true));
    let view = server.view();
    let stored = view.job("default", "web").expect("is registered");
    assert_eq!((deployment.job_version, deployment.job_create_index), (0, stored.create_index));
    assert_eq!(stored.groups().next().map(|group| group.count), Some(3), "the region's count");
    let eval = view.evals_of_job("default", "web").next().expect("an evaluation");
    assert_eq!((&eval.triggered_by, eval.deployment_id), (&EvalTrigger::JobRegister, Some(deployment.id)));
    // The next version ends the wait of the first.
    let next = register(&server, job("service", json!({"MaxParallel": 2}), &["global", "mars"])).await;
    let old = server.view().deployment(deployment.id).map(|row| row.status);
    assert_eq!((old, next.map(|row| row.job_version)), (Some(DeploymentStatus::Cancelled), Some(1)));
}

#[tokio::test]
async fn job_type_without_deployments_and_job_without_regions_do_not_wait() {
    let server = Memory::new();
    assert_eq!(register(&server, job("batch", Value::Null, &["global"])).await, None);
    let server = Memory::new();
    assert_eq!(register(&server, job("service", json!({"MaxParallel": 1}), &[])).await, None);
}

#[tokio::test]
async fn job_of_other_regions_is_refused() {
    let body = job("service", json!({"MaxParallel": 1}), &["mars"]);
    let (status, answer) = asked(&Memory::new(), format!("PUT /v1/jobs {body}")).await;
    assert_eq!((status, answer), (StatusCode::INTERNAL_SERVER_ERROR, json!("No path to region")));
}

#[tokio::test]
async fn unblock_moves_the_deployment_from_pending_to_running_and_from_blocked_to_its_end() {
    let server = Memory::new();
    let deployment = register(&server, job("service", json!({"MaxParallel": 1}), &["global", "mars"])).await;
    let id = deployment.expect("the job waits for other regions").id;
    let set = |status| {
        let update = DeploymentStatusUpdate { deployment_id: id, status, status_description: "".into() };
        server.run(UpdateDeploymentStatus { update, ..UpdateDeploymentStatus::default() });
    };
    let line = format!("PUT /v1/deployment/unblock/{id} {{\"DeploymentID\": \"{id}\"}}");
    let (status, answer) = asked(&server, line.clone()).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(answer, json!("can't unblock initializing deployment: its evaluation has not run yet"));
    // The plan of the registration's evaluation.
    let update =
        DeploymentStatusUpdate { deployment_id: id, status: DeploymentStatus::Pending, status_description: "".into() };
    server.run(ApplyPlan { deployment_updates: vec![update], ..ApplyPlan::default() });
    let mut seen = Vec::new();
    for at in [None, None, Some(DeploymentStatus::Blocked), None] {
        at.into_iter().for_each(set);
        let (status, answer) = asked(&server, line.clone()).await;
        let row = server.view().deployment(id).map(|row| row.status).expect("is there");
        seen.push(format!("{} {row} {}", status.as_u16(), answer["EvalID"].as_str().is_some_and(|id| !id.is_empty())));
    }
    assert_eq!(seen, ["200 running true", "200 running false", "200 successful true", "500 successful false"]);
}
