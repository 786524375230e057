//! Jobs of several regions: their registration in each of them, the deployment that comes with it, and its way on.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value, json};
use songline_api::Reads;
use songline_commands::{ApplyPlan, UpdateDeploymentStatus};
use songline_model::{Deployment, DeploymentStatus, DeploymentStatusUpdate, EvalTrigger, INCOMPLETE};

use crate::place::Fault;
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

/// The regions `global` and `mars`, which know each other.
fn two_regions() -> (Arc<Memory>, Arc<Memory>) {
    let (global, mars) = (Memory::new(), Memory::of_region("mars"));
    global.place.knows_region("mars", &mars);
    mars.place.knows_region("global", &global);
    (global, mars)
}

/// The version of the job in each region.
fn versions(regions: [&Arc<Memory>; 2]) -> [Option<u64>; 2] {
    regions.map(|server| server.view().job("default", "web").map(|job| job.version))
}

#[tokio::test]
async fn registration_creates_a_deployment_that_waits_for_its_groups() {
    let (server, _mars) = two_regions();
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
    let (server, _mars) = two_regions();
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

const UPDATE: &str = r#"{"MaxParallel": 1}"#;

fn service(regions: &[&str]) -> String {
    job("service", serde_json::from_str(UPDATE).expect("is JSON"), regions)
}

#[tokio::test]
async fn registration_reaches_every_region_in_the_same_version() {
    let (global, mars) = two_regions();
    // Mars alone has had the job twice.
    for count in [1, 2] {
        let task = json!({"Name": "t", "Driver": "raw_exec", "Config": {"command": "true"}});
        let alone = json!({"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": count, "Tasks": [task]}]}});
        asked(&mars, format!("PUT /v1/jobs {alone}")).await;
    }
    let (status, body) = asked(&global, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(versions([&global, &mars]), [Some(2), Some(2)]);
    let view = mars.view();
    let stored = view.job("default", "web").expect("is registered");
    assert_eq!((stored.region.as_str(), stored.groups().next().map(|group| group.count)), ("mars", Some(3)));
    let deployment = view.latest_deployment("default", "web").expect("waits");
    assert_eq!((deployment.job_version, deployment.status), (2, DeploymentStatus::Initializing));
    // The same job again changes no region, and each evaluates it.
    let (status, _) = asked(&global, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    assert_eq!((status, versions([&global, &mars])), (StatusCode::OK, [Some(2), Some(2)]));
    assert_eq!(mars.view().evals_of_job("default", "web").count(), 4);
}

#[tokio::test]
async fn registration_elsewhere_goes_to_the_first_region_or_to_the_one_that_it_names() {
    let (global, mars) = two_regions();
    let venus = Memory::of_region("venus");
    for (name, server) in [("global", &global), ("mars", &mars)] {
        venus.place.knows_region(name, server);
    }
    let (status, body) = asked(&venus, format!("PUT /v1/jobs {}", service(&["mars", "global"]))).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!((versions([&global, &mars]), venus.view().job("default", "web")), ([Some(0), Some(0)], None));
    assert_eq!((*mars.place.passed.lock(), *global.place.passed.lock()), (2, 0), "mars asks global twice");
    let body = service(&["mars", "global"]).replace("{\"Job\":", "{\"Region\": \"mars\", \"Job\":");
    let (status, body) = asked(&global, format!("PUT /v1/jobs {body}")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!((*mars.place.passed.lock(), *global.place.passed.lock()), (4, 1), "global passes it on to mars");
}

#[tokio::test]
async fn unknown_region_refuses_the_whole_registration() {
    let (global, mars) = two_regions();
    let (status, answer) = asked(&global, format!("PUT /v1/jobs {}", service(&["global", "mars", "pluto"]))).await;
    let expected = "No path to region \"pluto\" of job \"web\": no server of it is known in region \"global\". Nothing was written";
    assert_eq!((status, answer), (StatusCode::INTERNAL_SERVER_ERROR, json!(expected)));
    assert_eq!(versions([&global, &mars]), [None, None]);
}

#[tokio::test]
async fn region_that_refuses_or_is_away_refuses_the_whole_registration() {
    let (global, mars) = two_regions();
    asked(&global, "PUT /v1/namespace/team {\"Name\": \"team\"}".to_owned()).await;
    let register = || format!("PUT /v1/jobs?namespace=team {}", service(&["global", "mars"]));
    let (status, answer) = asked(&global, register()).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    let text = answer.as_str().expect("a text");
    assert!(text.starts_with("region \"mars\": ") && text.ends_with(". Nothing was written"), "{text}");
    asked(&mars, "PUT /v1/namespace/team {\"Name\": \"team\"}".to_owned()).await;
    global.place.fails(Fault::Refused);
    let (_, answer) = asked(&global, register()).await;
    let expected = "region \"mars\": rpc error: failed to get conn: connection refused. Nothing was written";
    assert_eq!(answer, json!(expected));
    assert_eq!([&global, &mars].map(|server| server.view().job("team", "web").is_some()), [false, false]);
    let (status, answer) = asked(&global, register()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
}

#[tokio::test]
async fn region_that_fails_late_is_named_and_the_next_registration_completes_it() {
    let (global, mars) = two_regions();
    [Fault::None, Fault::Refused].into_iter().for_each(|fault| global.place.fails(fault));
    let (status, answer) = asked(&global, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    let expected = "version 0 of job \"web\" is registered in \"global\", and not in \"mars\": \
                    rpc error: failed to get conn: connection refused; register it again";
    assert_eq!((status, answer), (StatusCode::INTERNAL_SERVER_ERROR, json!(expected)));
    assert_eq!(versions([&global, &mars]), [Some(0), None]);
    let (status, _) = asked(&global, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    assert_eq!((status, versions([&global, &mars])), (StatusCode::OK, [Some(0), Some(0)]));
}

#[tokio::test]
async fn version_that_was_given_up_is_registered_again_as_the_next_one() {
    let (global, mars) = two_regions();
    [Fault::None, Fault::Refused].into_iter().for_each(|fault| global.place.fails(fault));
    asked(&global, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    let latest = global.view().latest_deployment("default", "web").cloned().expect("waits for mars");
    let set = |description: &str| {
        let (status, status_description) = (DeploymentStatus::Failed, description.into());
        let update = DeploymentStatusUpdate { deployment_id: latest.id, status, status_description };
        global.run(UpdateDeploymentStatus { update, ..UpdateDeploymentStatus::default() });
    };
    set(INCOMPLETE);
    let (status, answer) = asked(&global, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    assert_eq!((status, versions([&global, &mars])), (StatusCode::OK, [Some(1), Some(1)]), "{answer}");
    let latest = global.view().latest_deployment("default", "web").map(|row| (row.job_version, row.status));
    assert_eq!(latest, Some((1, DeploymentStatus::Initializing)));
    // It waits now: the same job again changes nothing.
    asked(&global, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    assert_eq!(versions([&global, &mars]), [Some(1), Some(1)]);
}

#[tokio::test]
async fn region_whose_answer_is_lost_may_have_the_job() {
    let (global, mars) = two_regions();
    [Fault::None, Fault::CutAfter].into_iter().for_each(|fault| global.place.fails(fault));
    let (_, answer) = asked(&global, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    let expected = "version 0 of job \"web\" is registered in \"global\", and not in \"mars\": rpc error: connection reset, \
                    so the region may have done it all the same; register it again";
    assert_eq!(answer, json!(expected));
    assert_eq!(versions([&global, &mars]), [Some(0), Some(0)]);
    let (status, _) = asked(&global, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    assert_eq!((status, versions([&global, &mars])), (StatusCode::OK, [Some(0), Some(0)]));
}

/// The names of the job in both regions.
fn names(regions: [&Arc<Memory>; 2]) -> [Option<String>; 2] {
    regions.map(|server| server.view().job("default", "web").map(|job| job.name.to_string()))
}

fn named(name: &str) -> String {
    service(&["global", "mars"]).replace("\"ID\":\"web\"", &format!("\"ID\":\"web\",\"Name\":\"{name}\""))
}

#[tokio::test]
async fn of_two_registrations_that_meet_one_is_written_and_the_other_nowhere() {
    let (global, mars) = two_regions();
    let (first, second) = tokio::join!(
        asked(&global, format!("PUT /v1/jobs {}", named("from-global"))),
        asked(&mars, format!("PUT /v1/jobs {}", named("from-mars"))),
    );
    assert_eq!(versions([&global, &mars]), [Some(0), Some(0)], "{first:?} {second:?}");
    let [in_global, in_mars] = names([&global, &mars]);
    assert_eq!(in_global, in_mars, "one version, one job: {first:?} {second:?}");
    let (written, refused) =
        if in_global.as_deref() == Some("from-global") { (first, second) } else { (second, first) };
    assert_eq!(written.0, StatusCode::OK, "{written:?}");
    let text = refused.1.as_str().expect("a text");
    assert!(text.ends_with("so it cannot become version 0. Nothing was written"), "{text}");
    // The one that lost is the next version.
    let (status, answer) = asked(&mars, format!("PUT /v1/jobs {}", named("again"))).await;
    assert_eq!((status, versions([&global, &mars])), (StatusCode::OK, [Some(1), Some(1)]), "{answer}");
}

#[tokio::test]
async fn region_whose_first_write_is_lost_may_have_the_job_alone() {
    let (global, mars) = two_regions();
    [Fault::None, Fault::CutAfter].into_iter().for_each(|fault| mars.place.fails(fault));
    let (_, answer) = asked(&mars, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    let expected = "region \"global\": rpc error: connection reset, so the region may have done it all the same. \
                    No other region has written it; register it again";
    assert_eq!((answer, versions([&global, &mars])), (json!(expected), [Some(0), None]));
    let (status, _) = asked(&mars, format!("PUT /v1/jobs {}", service(&["global", "mars"]))).await;
    assert_eq!((status, versions([&global, &mars])), (StatusCode::OK, [Some(0), Some(0)]));
}

#[tokio::test]
async fn index_counts_in_the_region_of_the_request_alone() {
    let (global, mars) = two_regions();
    let with_index = |index: u64| {
        service(&["global", "mars"])
            .replace("{\"Job\":", &format!("{{\"EnforceIndex\": true, \"JobModifyIndex\": {index}, \"Job\":"))
    };
    // Other entries in one region: the indexes differ.
    asked(&global, "PUT /v1/namespace/team {\"Name\": \"team\"}".to_owned()).await;
    let (status, answer) = asked(&global, format!("PUT /v1/jobs {}", with_index(0))).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let (status, _) = asked(&global, format!("PUT /v1/jobs {}", with_index(1))).await;
    assert_eq!((status, versions([&global, &mars])), (StatusCode::INTERNAL_SERVER_ERROR, [Some(0), Some(0)]));
}

#[tokio::test]
async fn global_stop_reaches_every_region_and_names_those_that_it_does_not() {
    let (global, mars) = two_regions();
    register(&global, service(&["global", "mars"])).await;
    let stopped = || [&global, &mars].map(|server| server.view().job("default", "web").is_some_and(|job| job.stop));
    global.place.fails(Fault::Refused);
    let (_, answer) = asked(&global, "DELETE /v1/job/web?global=true".to_owned()).await;
    let expected = "job \"web\" is stopped in \"global\", and not in \"mars\": \
                    rpc error: failed to get conn: connection refused; stop it again";
    assert_eq!((answer, stopped()), (json!(expected), [true, false]));
    let (status, answer) = asked(&global, "DELETE /v1/job/web?global=true".to_owned()).await;
    assert_eq!((status, stopped()), (StatusCode::OK, [true, true]), "{answer}");
    // Without the parameter only the own region's part stops.
    register(&global, service(&["global", "mars"])).await;
    asked(&mars, "DELETE /v1/job/web".to_owned()).await;
    assert_eq!(stopped(), [false, true]);
}
