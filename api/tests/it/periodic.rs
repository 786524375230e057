//! Periodic jobs: a launch by hand.

use expect_test::expect;

use crate::server::{Memory, check};

const JOB: &str = r#"{"Job": {"ID": "cron", "Type": "batch", "Periodic": {"Specs": ["0 0 1 1 *"]}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "true"}}]}]}}"#;

#[tokio::test]
async fn a_launch_by_hand_makes_a_child_with_an_evaluation() {
    let server = Memory::new();
    check(
        &server,
        &format!(
            "PUT /v1/jobs {JOB}
            PUT /v1/job/cron/periodic/force
            GET /v1/job/cron/summary
            GET /v1/job/cron%2Fperiodic-1700000001/evaluations
            PUT /v1/job/nope/periodic/force"
        ),
        expect![[r#""#]],
    )
    .await;
    let view = songline_api::Server::view(&*server);
    let child = view.job("default", "cron/periodic-1700000001").expect("the child is there");
    assert!(child.periodic.is_none() && child.parent_id == "cron" && child.name == "cron/periodic-1700000001");
    let launch = view.periodic_launch("default", "cron").expect("the parent has launched");
    assert_eq!((launch.launch.secs(), launch.create_index, launch.modify_index), (1_700_000_001, 2, 3));
}
