//! Periodic jobs: forced launches.

use expect_test::expect;

use crate::server::{Memory, check};

const JOB: &str = r#"{"Job": {"ID": "cron", "Type": "batch", "Periodic": {"Specs": ["0 0 1 1 *"]}, "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "true"}}]}]}}"#;

#[tokio::test]
async fn forced_periodic_launch_creates_a_child_job_with_an_eval() {
    let server = Memory::new();
    check(
        &server,
        &format!(
            "PUT /v1/jobs {JOB}
            PUT /v1/job/cron/periodic/force
            GET /v1/job/cron/summary
            GET /v1/job/cron%2Fperiodic-1700000002/evaluations
            PUT /v1/job/nope/periodic/force"
        ),
        expect![[r#"
            PUT /v1/jobs {"Job": {"ID": "cron", "Type": "batch", "Periodic": {"Specs": ["0 0 1 1 *"]}, "TaskGrou
                200 @2 {"EvalID":"","EvalCreateIndex":0,"JobModifyIndex":2,"Warnings":"","Index":2,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/job/cron/periodic/force
                200 @3 {"EvalID":"00000000-0000-0001-8000-000000000001","EvalCreateIndex":3,"Index":3}
            GET /v1/job/cron/summary
                200 @3 {"JobID":"cron","Namespace":"default","Summary":{"g":{"Queued":0,"Complete":0,"Failed":0,"Running":0,"Starting":0,"Lost":0,"Unknown":0}},"Children":{"Pending":1,"Running":0,"Dead":0},"CreateIndex":2,"ModifyIndex":3}
            GET /v1/job/cron%2Fperiodic-1700000002/evaluations
                200 @3 [{"ID":"00000000-0000-0001-8000-000000000001","Namespace":"default","Priority":50,"Type":"batch","TriggeredBy":"periodic-job","JobID":"cron/periodic-1700000002","JobModifyIndex":3,"Status":"pending","CreateIndex":3,"ModifyIndex":3,"CreateTime":1700000003000000000,"ModifyTime":1700000003000000000}]
            PUT /v1/job/nope/periodic/force
                500 job not found
        "#]],
    )
    .await;
    let view = songline_api::Reads::view(&*server);
    let child = view.job("default", "cron/periodic-1700000002").expect("the child is there");
    assert!(child.periodic.is_none() && child.parent_id == "cron" && child.name == "cron/periodic-1700000002");
    let launch = view.periodic_launch("default", "cron").expect("the parent has launched");
    assert_eq!((launch.launch.secs(), launch.create_index, launch.modify_index), (1_700_000_002, 2, 3));
}

#[tokio::test]
async fn plan_of_a_periodic_job_shows_its_next_launch_in_the_job_time_zone() {
    let server = Memory::new();
    let plan = |periodic: &str| {
        format!(
            r#"PUT /v1/job/cron/plan {{"Job": {{"ID": "cron", "Type": "batch", "Periodic": {periodic}, "TaskGroups": [{{"Name": "g", "Tasks": [{{"Name": "t", "Driver": "raw_exec", "Config": {{"command": "true"}}}}]}}]}}}}"#
        )
    };
    check(
        &server,
        &[
            plan(r#"{"Specs": ["0 0 1 1 *", "@daily"]}"#),
            plan(r#"{"Spec": "30 4 * * *", "TimeZone": "Etc/GMT+5"}"#),
            plan(r#"{"Spec": "0 0 31 2 *"}"#),
            plan(r#"{"Spec": "@daily", "Enabled": false}"#),
            plan(r#"{"Spec": "61 * * * *"}"#),
        ]
        .join("\n"),
        expect![[r#"
            PUT /v1/job/cron/plan {"Job": {"ID": "cron", "Type": "batch", "Periodic": {"Specs": ["0 0 1 1 *", "@
                200 @0 {"Annotations":null,"FailedTGAllocs":null,"JobModifyIndex":0,"CreatedEvals":null,"Diff":null,"NextPeriodicLaunch":"2023-11-15T00:00:00Z","Warnings":"","Index":0}
            PUT /v1/job/cron/plan {"Job": {"ID": "cron", "Type": "batch", "Periodic": {"Spec": "30 4 * * *", "Ti
                200 @0 {"Annotations":null,"FailedTGAllocs":null,"JobModifyIndex":0,"CreatedEvals":null,"Diff":null,"NextPeriodicLaunch":"2023-11-15T04:30:00-05:00","Warnings":"1 warning:\n\n* cron is deprecated and may be removed in a future release. Use crons instead","Index":0}
            PUT /v1/job/cron/plan {"Job": {"ID": "cron", "Type": "batch", "Periodic": {"Spec": "0 0 31 2 *"}, "T
                200 @0 {"Annotations":null,"FailedTGAllocs":null,"JobModifyIndex":0,"CreatedEvals":null,"Diff":null,"NextPeriodicLaunch":null,"Warnings":"1 warning:\n\n* cron is deprecated and may be removed in a future release. Use crons instead","Index":0}
            PUT /v1/job/cron/plan {"Job": {"ID": "cron", "Type": "batch", "Periodic": {"Spec": "@daily", "Enable
                200 @0 {"Annotations":null,"FailedTGAllocs":null,"JobModifyIndex":0,"CreatedEvals":null,"Diff":null,"NextPeriodicLaunch":null,"Warnings":"1 warning:\n\n* cron is deprecated and may be removed in a future release. Use crons instead","Index":0}
            PUT /v1/job/cron/plan {"Job": {"ID": "cron", "Type": "batch", "Periodic": {"Spec": "61 * * * *"}, "T
                500 1 error occurred:
            	* 1 error occurred:
            	* Invalid cron spec "61 * * * *": syntax error in minute field: '61'
        "#]],
    )
    .await;
}
