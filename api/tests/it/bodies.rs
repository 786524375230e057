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

#[tokio::test]
async fn fields_without_an_effect_are_refused_when_their_type_is_wrong() {
    let field = |text: &str| format!("400 json: cannot unmarshal {text}");
    let of_volume = |value: &str, name: &str, kind: &str| {
        field(&format!("{value} into Go struct field CSIVolume.Volumes.{name} of type {kind}"))
    };
    let server = Memory::new();
    for (path, body, expected) in [
        ("/v1/volumes", r#"{"Volumes": [{"Schedulable": 1}]}"#, of_volume("number", "Schedulable", "bool")),
        ("/v1/volumes", r#"{"Volumes": [{"Provider": 1}]}"#, of_volume("number", "Provider", "string")),
        ("/v1/volumes", r#"{"Volumes": [{"NodesHealthy": "x"}]}"#, of_volume("string", "NodesHealthy", "int")),
        ("/v1/volumes", r#"{"Volumes": [{"ModifyIndex": "x"}]}"#, of_volume("string", "ModifyIndex", "uint64")),
        (
            "/v1/volumes",
            r#"{"Volumes": [{"ReadAllocs": 5}]}"#,
            of_volume("number", "ReadAllocs", "map[string]*structs.Allocation"),
        ),
        (
            "/v1/volumes",
            r#"{"Volumes": [{"ResourceExhausted": 5}]}"#,
            "400 Time.UnmarshalJSON: input is not a JSON string".to_owned(),
        ),
        (
            "/v1/operator/scheduler/configuration",
            r#"{"CreateIndex": "x"}"#,
            field("string into Go struct field SchedulerConfiguration.CreateIndex of type uint64").replacen(
                "400 ",
                "400 Error parsing scheduler config: ",
                1,
            ),
        ),
        (
            "/v1/operator/autopilot/configuration",
            r#"{"ModifyIndex": "x"}"#,
            field("string into Go struct field .Alias.ModifyIndex of type uint64").replacen(
                "400 ",
                "400 Error parsing autopilot config: ",
                1,
            ),
        ),
    ] {
        assert_eq!(told(&server, "", &format!("PUT {path} {body}")).await, expected, "{path} {body}");
    }
    // The indexes of a configuration that was read and is sent back have no effect.
    let sent = r#"{"SchedulerAlgorithm": "spread", "CreateIndex": 7, "ModifyIndex": 7}"#;
    let written = told(&server, "", &format!("PUT /v1/operator/scheduler/configuration {sent}")).await;
    assert!(written.starts_with("200 "), "{written}");
    let view = server.view();
    let stored = view.scheduler_config().expect("is stored");
    assert_eq!((stored.create_index, stored.modify_index), (view.applied_index(), view.applied_index()));
}

#[tokio::test]
async fn expiration_time_that_has_no_form_is_not_taken_for_none() {
    let server = world().await;
    let secret = MANAGEMENT.to_string();
    for (time, expected) in [
        ("3000-01-01T00:00:00Z", "expiration time cannot be more than 24h0m0s in the future"),
        ("1500-01-01T00:00:00Z", "expiration time cannot be before create time"),
        ("0001-01-02T00:00:00Z", "expiration time cannot be before create time"),
        // Go's zero time is none.
        ("0001-01-01T00:00:00Z", "200 "),
    ] {
        let line = format!("PUT /v1/acl/token {{\"Type\": \"management\", \"ExpirationTime\": \"{time}\"}}");
        let answer = told(&server, &secret, &line).await;
        assert!(answer.contains(expected), "{time}: {answer}");
    }
}
