//! Nodes, their allocations and their drains, and deployments that are paused or failed by hand.

use songline_api::Reads;
use songline_commands::ApplyPlan;
use songline_model::{Deployment, DeploymentId, DeploymentState, DeploymentStatus};

use crate::server::{answer, shown};
use crate::world::{MANAGEMENT, NODE, OTHER_ALLOC, token_with, told, world};

#[tokio::test]
async fn drained_node_names_the_token_that_drained_it() {
    let server = world().await;
    let operator = token_with(&server, 9, "node { policy = \"write\" }");
    let body = r#"{"DrainSpec": {"Deadline": 3600000000000}}"#;
    let drained = told(&server, &operator, &format!("PUT /v1/node/{NODE}/drain {body}")).await;
    assert!(drained.starts_with("200 "), "{drained}");
    let view = server.view();
    let drain = view.node(NODE).and_then(|node| node.last_drain.clone()).expect("a drain");
    assert_eq!(drain.accessor_id, "09090909-0909-0909-0909-090909090909");
}

#[tokio::test]
async fn index_of_a_nodes_allocations_counts_those_that_the_caller_may_not_read() {
    let server = world().await;
    let view = server.view();
    let newest = view.allocs_of_node(NODE).map(|alloc| alloc.modify_index).max().expect("allocations");
    assert!(view.alloc(OTHER_ALLOC).is_some_and(|alloc| alloc.modify_index < newest), "it is older");
    let reader = token_with(&server, 9, "node { policy = \"read\" } namespace \"other\" { policy = \"read\" }");
    let response = answer(&server, &shown(&reader, &format!("GET /v1/node/{NODE}/allocations"))).await;
    assert_eq!(response.headers()["x-nomad-index"], newest.to_string());
}

#[tokio::test]
async fn deployment_is_running_when_resumed_and_says_that_no_version_was_stable_when_failed() {
    let server = world().await;
    let id = DeploymentId::from_bytes([0x31; 16]);
    let group = DeploymentState { auto_revert: true, desired_canaries: 1, desired_total: 1, ..Default::default() };
    let deployment = Deployment {
        id,
        namespace: "default".into(),
        job_id: "api".into(),
        status: DeploymentStatus::Running,
        task_groups: Some([("g".into(), group)].into()),
        ..Deployment::default()
    };
    server.run(ApplyPlan { deployment: Some(deployment), ..ApplyPlan::default() });
    let all = MANAGEMENT.to_string();
    let mut said = String::new();
    for line in [
        format!("PUT /v1/deployment/pause/{id} {{\"DeploymentID\": \"{id}\", \"Pause\": true}}"),
        format!("PUT /v1/deployment/pause/{id} {{\"DeploymentID\": \"{id}\", \"Pause\": false}}"),
        format!("PUT /v1/deployment/fail/{id}"),
    ] {
        let answer = told(&server, &all, &line).await;
        assert!(answer.starts_with("200 "), "{line}: {answer}");
        let view = server.view();
        let row = view.deployment(id).expect("the deployment");
        said += &format!("{}: {}\n", row.status, row.status_description);
    }
    expect_test::expect![[r#"
        paused: Deployment is paused
        running: Deployment is running
        failed: Deployment marked as failed - no stable job version to auto revert to
    "#]]
    .assert_eq(&said);
}
