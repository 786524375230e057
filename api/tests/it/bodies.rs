//! Bodies of requests: the namespace and the region that they may name, and fields of a wrong type.

use std::sync::Arc;

use expect_test::expect;
use songline_api::Reads;

use crate::server::{Memory, check};
use crate::world::{MANAGEMENT, ask, job, token_with, told, world};

/// Writes whose body may name a namespace; the job is in the namespace `other`.
const WRITES: [(&str, &str); 4] = [
    ("evaluate", r#""JobID": "far""#),
    ("dispatch", r#""JobID": "far""#),
    ("revert", r#""JobID": "far", "JobVersion": 0"#),
    ("stable", r#""JobID": "far", "JobVersion": 0, "Stable": true"#),
];

/// A server with the job `far` in `other`, and the secrets of two callers: one may write jobs in `default`, one in
/// `other`.
async fn far() -> (Arc<Memory>, String, String) {
    let server = world().await;
    let line = format!("PUT /v1/jobs?namespace=other {{\"Job\": {}}}", job("far", "zebra", "raw_exec"));
    let answer = ask(&server, &MANAGEMENT.to_string(), &line).await;
    assert!(answer.0.is_success(), "{answer:?}");
    let rules =
        |namespace| format!("namespace \"{namespace}\" {{ capabilities = [\"submit-job\", \"dispatch-job\"] }}");
    let (here, there) = (token_with(&server, 7, &rules("default")), token_with(&server, 8, &rules("other")));
    (server, here, there)
}

/// Answers to all writes with this query and this field in the body; of a success only the status.
async fn writes(server: &Arc<Memory>, secret: &str, query: &str, field: &str) -> Vec<String> {
    let mut answers = Vec::new();
    for (verb, fields) in WRITES {
        let answer = told(server, secret, &format!("PUT /v1/job/far/{verb}{query} {{{fields}, {field}}}")).await;
        answers.push(if answer.starts_with("200 ") { "200".to_owned() } else { answer });
    }
    answers
}

const DENIED: [&str; 4] = ["403 Permission denied"; 4];
/// Answers to writes that find the job.
const FOUND: [&str; 4] =
    ["200", "500 Specified job \"far\" is not a parameterized job", "500 can't revert to current version", "200"];
/// Answers to writes that look for the job in `default`.
const MISSED: [&str; 4] = [
    "500 job not found",
    "500 parameterized job not found",
    "500 job \"far\" not found",
    "500 job \"far\" in namespace \"default\" at version 0 not found",
];

#[tokio::test]
async fn namespace_of_the_body_counts_where_the_query_names_none() {
    let (server, here, there) = far().await;
    let in_other = r#""Namespace": "other""#;
    assert_eq!(writes(&server, &there, "", in_other).await, FOUND);
    assert_eq!(writes(&server, &there, "?namespace=", in_other).await, FOUND);
    assert_eq!(writes(&server, &there, "?namespace=other", r#""Namespace": "default""#).await, FOUND);
    assert_eq!(writes(&server, &here, "?namespace=default", in_other).await, MISSED);
    assert_eq!(writes(&server, &here, "", r#""Namespace": """#).await, MISSED);
}

#[tokio::test]
async fn caller_acts_in_no_namespace_without_the_capability_there() {
    let (server, here, there) = far().await;
    let before = server.view().applied_index();
    for field in [
        r#""Namespace": "other""#,
        r#""namespace": "other""#,
        r#""Namespace": "default", "NAMESPACE": "other""#,
        r#""Namespace": "other&namespace=default""#,
        r#""Namespace": "default&namespace=other""#,
    ] {
        for query in ["", "?namespace=", "?pretty&namespace="] {
            assert_eq!(writes(&server, &here, query, field).await, DENIED, "{query} {field}");
        }
        assert_eq!(writes(&server, &here, "?namespace=other", field).await, DENIED, "{field}");
        assert_eq!(writes(&server, &there, "?namespace=default", field).await, DENIED, "{field}");
    }
    // No namespace has this name: it stands for all of them in lists only.
    let everywhere = writes(&server, &here, "", r#""Namespace": "*""#).await;
    assert_eq!(everywhere, MISSED.map(|text| text.replace("\"default\"", "\"*\"")));
    assert_eq!(writes(&server, &there, "", r#""Namespace": "default""#).await, DENIED);
    assert_eq!(writes(&server, &there, "", r#""Meta": null"#).await, DENIED);
    // A malformed body names no namespace.
    assert_eq!(writes(&server, &there, "", r#""Namespace": 5"#).await, DENIED);
    assert_eq!(writes(&server, "", "", r#""Namespace": "other""#).await, DENIED);
    assert_eq!(server.view().applied_index(), before, "a refused write is not in the log");
}

#[tokio::test]
async fn region_of_the_body_counts_where_the_query_names_none() {
    let (server, _, there) = far().await;
    let on_mars = r#""Namespace": "other", "Region": "mars""#;
    assert_eq!(writes(&server, &there, "", on_mars).await, ["500 No path to region"; 4]);
    assert_eq!(writes(&server, &there, "?region=global", on_mars).await, FOUND);
}

#[tokio::test]
async fn fields_of_a_wrong_type_are_refused_with_their_go_type() {
    check(
        &Memory::new(),
        r#"PUT /v1/job/web/dispatch {"Payload": 5}
        PUT /v1/job/web/dispatch {"Namespace": 5}
        PUT /v1/job/web/evaluate {"JobID": "web", "Region": 5}
        PUT /v1/job/web/revert {"VaultToken": 5}
        PUT /v1/job/web/revert {"ConsulToken": 5}
        PUT /v1/job/web/stable {"Namespace": []}
        PUT /v1/job/web/scale {"PolicyOverride": "x"}
        PUT /v1/jobs/parse {"JobHCL": "x", "HCLv1": "x"}
        PUT /v1/node/11111111-2222-3333-4444-555555555555/drain {"NodeID": 1}"#,
        expect![[r#"
            PUT /v1/job/web/dispatch {"Payload": 5}
                400 json: cannot unmarshal number into Go struct field JobDispatchRequest.Payload of type []uint8
            PUT /v1/job/web/dispatch {"Namespace": 5}
                400 json: cannot unmarshal number into Go struct field JobDispatchRequest.Namespace of type string
            PUT /v1/job/web/evaluate {"JobID": "web", "Region": 5}
                400 json: cannot unmarshal number into Go struct field JobEvaluateRequest.Region of type string
            PUT /v1/job/web/revert {"VaultToken": 5}
                400 json: cannot unmarshal number into Go struct field JobRevertRequest.VaultToken of type string
            PUT /v1/job/web/revert {"ConsulToken": 5}
                400 json: cannot unmarshal number into Go struct field JobRevertRequest.ConsulToken of type string
            PUT /v1/job/web/stable {"Namespace": []}
                400 json: cannot unmarshal array into Go struct field JobStabilityRequest.Namespace of type string
            PUT /v1/job/web/scale {"PolicyOverride": "x"}
                400 json: cannot unmarshal string into Go struct field ScalingRequest.PolicyOverride of type bool
            PUT /v1/jobs/parse {"JobHCL": "x", "HCLv1": "x"}
                400 json: cannot unmarshal string into Go struct field JobsParseRequest.hclv1 of type bool
            PUT /v1/node/11111111-2222-3333-4444-555555555555/drain {"NodeID": 1}
                400 json: cannot unmarshal number into Go struct field NodeUpdateDrainRequest.NodeID of type string
        "#]],
    )
    .await;
}

#[tokio::test]
async fn volume_mount_without_volume_or_destination_is_refused() {
    let server = Memory::new();
    let body = |mount: &str| {
        let task = format!(r#"{{"Name": "t", "Driver": "raw_exec", "VolumeMounts": [{mount}]}}"#);
        format!(r#"{{"Job": {{"ID": "m", "TaskGroups": [{{"Name": "g", "Tasks": [{task}]}}]}}}}"#)
    };
    for route in ["/v1/jobs", "/v1/job/m", "/v1/job/m/plan", "/v1/validate/job"] {
        for mount in [r#"{"Volume": "v"}"#, r#"{"Destination": "/d"}"#, r#"{"Volume": "v", "Destination": null}"#, "{}"]
        {
            let answer = told(&server, "", &format!("PUT {route} {}", body(mount))).await;
            assert_eq!(answer, "400 volume mount needs Volume and Destination", "{route} {mount}");
        }
        let answer =
            told(&server, "", &format!("PUT {route} {}", body(r#"{"Volume": "v", "Destination": "/d"}"#))).await;
        assert!(!answer.starts_with("400"), "{route}: {answer}");
    }
}

#[tokio::test]
async fn malformed_numbers_in_queries_of_jobs_are_refused_as_go_does() {
    check(
        &Memory::new(),
        "DELETE /v1/job/x?eval_priority=99999999999999999999
        DELETE /v1/job/x?eval_priority=%20
        GET /v1/job/x/submission?version=%2B0",
        expect![[r#"
            DELETE /v1/job/x?eval_priority=99999999999999999999
                500 Failed to parse value of "eval_priority" (99999999999999999999) as a int: strconv.Atoi: parsing "99999999999999999999": value out of range
            DELETE /v1/job/x?eval_priority=%20
                500 Failed to parse value of "eval_priority" ( ) as a int: strconv.Atoi: parsing " ": invalid syntax
            GET /v1/job/x/submission?version=%2B0
                400 Unable to parse job submission version parameter
        "#]],
    )
    .await;
}
