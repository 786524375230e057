//! Deletion of evaluations by operators, and its long work.

use std::sync::Arc;

use expect_test::expect;
use songline_commands::{ContinueWork, SetSchedulerConfig, Slice, UpdateEvals, WorkId};
use songline_model::{EvalId, EvalStatus, Evaluation, SchedulerConfiguration};

use crate::server::{Memory, answer, check, text};

fn eval(n: u16, status: EvalStatus) -> Evaluation {
    let mut id = [0x40; 16];
    id[..2].copy_from_slice(&n.to_be_bytes());
    Evaluation {
        id: EvalId::from_bytes(id),
        namespace: "default".into(),
        job_id: "web".into(),
        status,
        priority: 50,
        ..Evaluation::default()
    }
}

fn paused(server: &Arc<Memory>, pause_eval_broker: bool) {
    server.run(SetSchedulerConfig {
        config: SchedulerConfiguration { pause_eval_broker, ..SchedulerConfiguration::default() },
        cas: None,
    });
}

#[tokio::test]
async fn small_eval_deletion_completes_in_its_first_log_entry() {
    let server = Memory::new();
    paused(&server, true);
    let statuses = [EvalStatus::Complete, EvalStatus::Failed, EvalStatus::Complete];
    let evals = (1..).zip(statuses).map(|(n, status)| eval(n, status)).collect();
    server.run(UpdateEvals { evals });
    check(
        &server,
        r#"GET /v1/evaluations/count?filter=Status==complete
        DELETE /v1/evaluations {"Filter":"Status == complete"}
        DELETE /v1/evaluations {"Filter":"Status == complete"}
        DELETE /v1/evaluations {"Filter":"Status =="}
        DELETE /v1/evaluations {"EvalIDs":["00024040-4040-4040-4040-404040404040"]}
        GET /v1/evaluations/count
        GET /v1/operator/pending-work
        GET /v1/operator/pending-work/4
        GET /v1/operator/pending-work/77
        DELETE /v1/operator/pending-work/4
        DELETE /v1/operator/pending-work/x"#,
        expect![[r#"
            GET /v1/evaluations/count?filter=Status==complete
                200 @3 {"Count":2,"Index":3,"LastContact":0,"KnownLeader":true,"NextToken":""}
            DELETE /v1/evaluations {"Filter":"Status == complete"}
                200 @4 {"Count":2,"Index":4}
            DELETE /v1/evaluations {"Filter":"Status == complete"}
                200 @0 {"Count":0,"Index":0}
            DELETE /v1/evaluations {"Filter":"Status =="}
                500 1:10 (9): no match found, expected: "-", "0", "\"", "`", [ \t\r\n], [1-9] or [a-zA-Z]
            DELETE /v1/evaluations {"EvalIDs":["00024040-4040-4040-4040-404040404040"]}
                200 @6 {"Count":1,"Index":6}
            GET /v1/evaluations/count
                200 @6 {"Count":0,"Index":6,"LastContact":0,"KnownLeader":true,"NextToken":""}
            GET /v1/operator/pending-work
                200 @6 [{"ID":4,"Kind":"eval-delete","Filter":"Status == complete","Status":"complete","StatusDescription":"","Actor":"anonymous","Total":3,"Looked":3,"Deleted":2,"OpenedAt":"2023-11-14T22:13:22Z","EndedAt":"2023-11-14T22:13:22Z","CreateIndex":4,"ModifyIndex":4},{"ID":5,"Kind":"eval-delete","Filter":"Status == complete","Status":"complete","StatusDescription":"","Actor":"anonymous","Total":1,"Looked":1,"Deleted":0,"OpenedAt":"2023-11-14T22:13:23Z","EndedAt":"2023-11-14T22:13:23Z","CreateIndex":5,"ModifyIndex":5},{"ID":6,"Kind":"eval-delete","Filter":"","Status":"complete","StatusDescription":"","Actor":"anonymous","Total":1,"Looked":1,"Deleted":1,"OpenedAt":"2023-11-14T22:13:24Z","EndedAt":"2023-11-14T22:13:24Z","CreateIndex":6,"ModifyIndex":6}]
            GET /v1/operator/pending-work/4
                200 @4 {"ID":4,"Kind":"eval-delete","Filter":"Status == complete","Status":"complete","StatusDescription":"","Actor":"anonymous","Total":3,"Looked":3,"Deleted":2,"OpenedAt":"2023-11-14T22:13:22Z","EndedAt":"2023-11-14T22:13:22Z","CreateIndex":4,"ModifyIndex":4}
            GET /v1/operator/pending-work/77
                404 @6 work not found
            DELETE /v1/operator/pending-work/4
                404 work 4 is not under way
            DELETE /v1/operator/pending-work/x
                400 invalid id of work: "x"
        "#]],
    )
    .await;
}

#[tokio::test]
async fn id_that_a_deletion_names_twice_counts_twice() {
    let server = Memory::new();
    paused(&server, true);
    server.run(UpdateEvals { evals: vec![eval(1, EvalStatus::Complete)] });
    let id = "00014040-4040-4040-4040-404040404040";
    let asked = format!(r#"DELETE /v1/evaluations {{"EvalIDs":["{id}","{id}"]}}"#);
    assert_eq!(text(answer(&server, &asked).await).await, r#"{"Count":2,"Index":4}"#);
}

#[tokio::test]
async fn eval_deletion_request_answers_when_its_pending_work_completes() {
    let server = Memory::new();
    paused(&server, true);
    let made = server.run(UpdateEvals { evals: (0..1000).map(|n| eval(n, EvalStatus::Complete)).collect() });
    let work = WorkId(made + 1);
    let request = tokio::spawn({
        let server = Arc::clone(&server);
        async move { text(answer(&server, r#"DELETE /v1/evaluations {"Filter":"Priority == 50"}"#).await).await }
    });
    let mut index = made;
    while index == made {
        tokio::task::yield_now().await;
        index = songline_api::Reads::view(&*server).applied_index();
    }
    check(
        &server,
        &format!("GET /v1/operator/pending-work/{}", work.0),
        expect![[r#"
            GET /v1/operator/pending-work/4
                200 @4 {"ID":4,"Kind":"eval-delete","Filter":"Priority == 50","Status":"running","StatusDescription":"","Actor":"anonymous","Total":1000,"Looked":256,"Deleted":256,"OpenedAt":"2023-11-14T22:13:22Z","EndedAt":null,"CreateIndex":4,"ModifyIndex":4}
        "#]],
    )
    .await;
    while songline_api::Reads::view(&*server).work_under_way().next().is_some() {
        assert!(!request.is_finished(), "it waits");
        index = server.run(ContinueWork { work, slice: Slice::of_rows(300) });
    }
    assert_eq!(request.await.expect("answers"), format!(r#"{{"Count":1000,"Index":{index}}}"#));
}

#[tokio::test]
async fn stopped_pending_work_answers_an_error_to_the_waiting_request() {
    let server = Memory::new();
    paused(&server, true);
    let made = server.run(UpdateEvals { evals: (0..1000).map(|n| eval(n, EvalStatus::Complete)).collect() });
    let request = tokio::spawn({
        let server = Arc::clone(&server);
        async move { text(answer(&server, r#"DELETE /v1/evaluations {"Filter":"Priority == 50"}"#).await).await }
    });
    while songline_api::Reads::view(&*server).work_under_way().next().is_none() {
        tokio::task::yield_now().await;
    }
    check(
        &server,
        &format!("DELETE /v1/operator/pending-work/{}\nGET /v1/operator/pending-work", made + 1),
        expect![[r#"
            DELETE /v1/operator/pending-work/4
                200 @5 
            GET /v1/operator/pending-work
                200 @5 [{"ID":4,"Kind":"eval-delete","Filter":"Priority == 50","Status":"stopped","StatusDescription":"stopped by anonymous","Actor":"anonymous","Total":1000,"Looked":256,"Deleted":256,"OpenedAt":"2023-11-14T22:13:22Z","EndedAt":"2023-11-14T22:13:23Z","CreateIndex":4,"ModifyIndex":5}]
        "#]],
    )
    .await;
    assert_eq!(request.await.expect("answers"), "stopped by anonymous");
}
