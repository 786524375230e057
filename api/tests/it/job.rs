//! Jobs: writes, and the reads that follow them.

use expect_test::expect;

use crate::server::{Memory, check};

const JOB: &str = r#"{"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{"Name": "t", "Driver": "raw_exec", "Config": {"command": "sleep"}}]}]}}"#;

#[tokio::test]
async fn a_job_is_registered_again_evaluated_stopped_and_purged() {
    let server = Memory::new();
    check(
        &server,
        &format!(
            "PUT /v1/jobs {JOB}
            PUT /v1/job/web {JOB}
            PUT /v1/job/web/evaluate
            GET /v1/jobs
            GET /v1/job/web/summary
            GET /v1/job/web/deployment
            DELETE /v1/job/web
            DELETE /v1/job/web?purge=true
            GET /v1/job/web
            DELETE /v1/job/web"
        ),
        expect![[r#"
            PUT /v1/jobs {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{"Name": "t", 
                200 @2 {"EvalID":"00000000-0000-0001-8000-000000000001","EvalCreateIndex":2,"JobModifyIndex":2,"Warnings":"","Index":2,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/job/web {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{"Name": "t
                200 @3 {"EvalID":"00000000-0000-0002-8000-000000000001","EvalCreateIndex":3,"JobModifyIndex":2,"Warnings":"","Index":3,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/job/web/evaluate
                200 @4 {"EvalID":"00000000-0000-0003-8000-000000000001","EvalCreateIndex":4,"JobModifyIndex":2,"Warnings":"","Index":4,"LastContact":0,"KnownLeader":false,"NextToken":""}
            GET /v1/jobs
                200 @2 [{"ID":"web","ParentID":"","Name":"web","Namespace":"default","Datacenters":["*"],"NodePool":"default","Multiregion":null,"Type":"service","Priority":50,"Periodic":false,"ParameterizedJob":false,"Stop":false,"Status":"pending","StatusDescription":"","JobSummary":{"JobID":"web","Namespace":"default","Summary":{"g":{"Queued":0,"Complete":0,"Failed":0,"Running":0,"Starting":0,"Lost":0,"Unknown":0}},"Children":{"Pending":0,"Running":0,"Dead":0},"CreateIndex":2,"ModifyIndex":2},"CreateIndex":2,"ModifyIndex":2,"JobModifyIndex":2,"SubmitTime":1700000000000000000}]
            GET /v1/job/web/summary
                200 @2 {"JobID":"web","Namespace":"default","Summary":{"g":{"Queued":0,"Complete":0,"Failed":0,"Running":0,"Starting":0,"Lost":0,"Unknown":0}},"Children":{"Pending":0,"Running":0,"Dead":0},"CreateIndex":2,"ModifyIndex":2}
            GET /v1/job/web/deployment
                200 @0 null
            DELETE /v1/job/web
                200 @5 {"EvalCreateIndex":5,"EvalID":"00000000-0000-0004-8000-000000000001","Index":5,"JobModifyIndex":5,"KnownLeader":false,"LastContact":0,"NextToken":"","VolumeEvalID":"","VolumeEvalIndex":0}
            DELETE /v1/job/web?purge=true
                200 @6 {"EvalCreateIndex":6,"EvalID":"00000000-0000-0005-8000-000000000001","Index":6,"JobModifyIndex":6,"KnownLeader":false,"LastContact":0,"NextToken":"","VolumeEvalID":"","VolumeEvalIndex":0}
            GET /v1/job/web
                404 @6 job not found
            DELETE /v1/job/web
                200 @0 {"EvalCreateIndex":0,"EvalID":"","Index":0,"JobModifyIndex":0,"KnownLeader":false,"LastContact":0,"NextToken":"","VolumeEvalID":"","VolumeEvalIndex":0}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn invalid_job_requests_are_refused() {
    let server = Memory::new();
    check(
        &server,
        &format!(
            r#"PUT /v1/jobs
            PUT /v1/jobs {{}}
            PUT /v1/jobs {{"Job": {{}}}}
            PUT /v1/jobs {{"Job": {{"ID": "x"}}}}
            PUT /v1/jobs {{"Job": {{"ID": "x", "Region": "mars"}}}}
            PUT /v1/job/other {JOB}
            PUT /v1/jobs {{"Job": {{"ID": "x"}}, "EvalPriority": 101}}
            PUT /v1/jobs?namespace=nowhere {JOB}
            GET /v1/job/web/submission
            GET /v1/job/none/versions
            PUT /v1/validate/job {{"Job": {{"ID": "x"}}}}
            PUT /v1/job/web/plan {JOB}
            PUT /v1/job/web/revert {{"JobID": "web"}}
            DELETE /v1/job/web?eval_priority=x"#
        ),
        expect![[r#"
            PUT /v1/jobs
                400 Request body is empty
            PUT /v1/jobs {}
                400 Job must be specified
            PUT /v1/jobs {"Job": {}}
                400 Job ID hasn't been provided
            PUT /v1/jobs {"Job": {"ID": "x"}}
                500 1 error occurred:
            	* Missing job task groups
            PUT /v1/jobs {"Job": {"ID": "x", "Region": "mars"}}
                500 No path to region
            PUT /v1/job/other {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{"Name": 
                400 Job ID does not match name
            PUT /v1/jobs {"Job": {"ID": "x"}, "EvalPriority": 101}
                400 Eval priority must be between 1 and 100 inclusively
            PUT /v1/jobs?namespace=nowhere {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Tasks
                500 1 error occurred:
            	* job "web" is in nonexistent namespace "nowhere"
            GET /v1/job/web/submission
                400 Unable to parse job submission version parameter
            GET /v1/job/none/versions
                404 @0 job versions not found
            PUT /v1/validate/job {"Job": {"ID": "x"}}
                200 {"DriverConfigValidated":true,"ValidationErrors":["Missing job task groups"],"Error":"1 error occurred:\n\t* Missing job task groups\n\n","Warnings":""}
            PUT /v1/job/web/plan {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{"Name
                200 @0 {"Annotations":null,"FailedTGAllocs":null,"JobModifyIndex":0,"CreatedEvals":null,"Diff":null,"NextPeriodicLaunch":null,"Warnings":"","Index":0}
            PUT /v1/job/web/revert {"JobID": "web"}
                500 job "web" not found
            DELETE /v1/job/web?eval_priority=x
                500 Failed to parse value of "eval_priority" (x) as a int: strconv.Atoi: parsing "x": invalid syntax
        "#]],
    )
    .await;
}

#[tokio::test]
async fn job_is_reverted_to_a_version_and_a_version_is_marked_stable() {
    let server = Memory::new();
    let second = JOB.replace("\"Count\": 2", "\"Count\": 3");
    check(
        &server,
        &format!(
            r#"PUT /v1/jobs {JOB}
            PUT /v1/jobs {second}
            PUT /v1/job/web/revert {{"JobID": "web", "JobVersion": 1}}
            PUT /v1/job/web/revert {{"JobID": "web", "JobVersion": 0}}
            PUT /v1/job/web/stable {{"JobID": "web", "JobVersion": 2, "Stable": true}}
            PUT /v1/job/web/stable {{"JobID": "web", "JobVersion": 9, "Stable": true}}
            GET /v1/job/web/scale"#
        ),
        expect![[r#"
            PUT /v1/jobs {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{"Name": "t", 
                200 @2 {"EvalID":"00000000-0000-0001-8000-000000000001","EvalCreateIndex":2,"JobModifyIndex":2,"Warnings":"","Index":2,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/jobs {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 3, "Tasks": [{"Name": "t", 
                200 @3 {"EvalID":"00000000-0000-0002-8000-000000000001","EvalCreateIndex":3,"JobModifyIndex":3,"Warnings":"","Index":3,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/job/web/revert {"JobID": "web", "JobVersion": 1}
                500 can't revert to current version
            PUT /v1/job/web/revert {"JobID": "web", "JobVersion": 0}
                200 @4 {"EvalID":"00000000-0000-0003-8000-000000000001","EvalCreateIndex":4,"JobModifyIndex":4,"Warnings":"","Index":4,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/job/web/stable {"JobID": "web", "JobVersion": 2, "Stable": true}
                200 @5 {"Index":5}
            PUT /v1/job/web/stable {"JobID": "web", "JobVersion": 9, "Stable": true}
                500 job "web" in namespace "default" at version 9 not found
            GET /v1/job/web/scale
                200 @5 {"JobID":"web","Namespace":"default","JobCreateIndex":2,"JobModifyIndex":5,"JobStopped":false,"TaskGroups":{"g":{"Desired":2,"Placed":0,"Running":0,"Healthy":0,"Unhealthy":0,"Events":null}}}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn job_registration_retried_under_its_key_gets_the_first_answer() {
    check(
        &Memory::new(),
        &format!(
            "PUT /v1/jobs [Idempotency-Key: k] {JOB}
            PUT /v1/jobs [Idempotency-Key: k] {JOB}
            GET /v1/job/web/evaluations"
        ),
        expect![[r#"
            PUT /v1/jobs [Idempotency-Key: k] {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Ta
                200 @2 {"EvalID":"2105b143-02a4-865e-b2b3-615bb57921df","EvalCreateIndex":2,"JobModifyIndex":2,"Warnings":"","Index":2,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/jobs [Idempotency-Key: k] {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Ta
                200 @2 {"EvalID":"2105b143-02a4-865e-b2b3-615bb57921df","EvalCreateIndex":2,"JobModifyIndex":2,"Warnings":"","Index":2,"LastContact":0,"KnownLeader":false,"NextToken":""}
            GET /v1/job/web/evaluations
                200 @2 [{"ID":"2105b143-02a4-865e-b2b3-615bb57921df","Namespace":"default","Priority":50,"Type":"service","TriggeredBy":"job-register","JobID":"web","JobModifyIndex":2,"Status":"pending","CreateIndex":2,"ModifyIndex":2,"CreateTime":1700000002000000000,"ModifyTime":1700000002000000000}]
        "#]],
    )
    .await;
}

#[tokio::test]
async fn job_plan_shows_the_diff_to_the_stored_version() {
    let second = JOB.replace("\"Count\": 2", "\"Count\": 3");
    let plan = second.replace("{\"Job\":", "{\"Diff\": true, \"Job\":");
    check(
        &Memory::new(),
        &format!(
            "PUT /v1/jobs {JOB}
            PUT /v1/job/web/plan {plan}"
        ),
        expect![[r#"
            PUT /v1/jobs {"Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Tasks": [{"Name": "t", 
                200 @2 {"EvalID":"00000000-0000-0001-8000-000000000001","EvalCreateIndex":2,"JobModifyIndex":2,"Warnings":"","Index":2,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/job/web/plan {"Diff": true, "Job": {"ID": "web", "TaskGroups": [{"Name": "g", "Count": 3, "T
                200 @2 {"Annotations":null,"FailedTGAllocs":null,"JobModifyIndex":2,"CreatedEvals":null,"Diff":{"Type":"Edited","ID":"web","Fields":null,"Objects":null,"TaskGroups":[{"Type":"Edited","Name":"g","Fields":[{"Type":"Edited","Name":"Count","Old":"2","New":"3","Annotations":["forces create"]}],"Objects":null,"Tasks":[{"Type":"None","Name":"t","Fields":null,"Objects":null,"Annotations":null}],"Updates":null}]},"NextPeriodicLaunch":null,"Warnings":"","Index":2}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn hcl_job_file_is_parsed_into_a_job() {
    check(
        &Memory::new(),
        r#"PUT /v1/jobs/parse {"JobHCL": "job \"x\" { type = \"batch\" }"}
        PUT /v1/jobs/parse {"JobHCL": ""}
        PUT /v1/jobs/parse {"JobHCL": "job {"}
        PUT /v1/jobs/parse null"#,
        expect![[r#"
            PUT /v1/jobs/parse {"JobHCL": "job \"x\" { type = \"batch\" }"}
                200 {"Region":null,"Namespace":null,"ID":"x","Name":"x","Type":"batch","Priority":null,"AllAtOnce":null,"Datacenters":null,"NodePool":null,"Constraints":null,"Affinities":null,"TaskGroups":null,"Update":null,"Multiregion":null,"Spreads":null,"Periodic":null,"ParameterizedJob":null,"Reschedule":null,"Migrate":null,"Meta":null,"ConsulToken":null,"VaultToken":null,"Stop":null,"ParentID":null,"Dispatched":false,"DispatchIdempotencyToken":null,"Payload":null,"ConsulNamespace":null,"VaultNamespace":null,"NomadTokenID":null,"Status":null,"StatusDescription":null,"Stable":null,"Version":null,"SubmitTime":null,"CreateIndex":null,"ModifyIndex":null,"JobModifyIndex":null}
            PUT /v1/jobs/parse {"JobHCL": ""}
                400 Job spec is empty
            PUT /v1/jobs/parse {"JobHCL": "job {"}
                400 Failed to parse job: input.hcl:1,6-6: Argument or block definition required; An argument or block definition is required here.
            PUT /v1/jobs/parse null
                400 Job spec is empty
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_group_is_scaled_within_its_policy() {
    let job = JOB
        .replace("\"Count\": 2", "\"Count\": 2, \"Scaling\": {\"Min\": 1, \"Max\": 3}")
        .replace("\"ID\"", "\"Type\": \"batch\", \"ID\"");
    check(
        &Memory::new(),
        &format!(
            r#"PUT /v1/jobs {job}
            PUT /v1/job/web/scale {{"Target": {{"Group": "g"}}, "Count": 3}}
            PUT /v1/job/web/scale {{"Target": {{"Group": "g"}}, "Count": 4}}
            PUT /v1/job/web/scale {{"Target": {{"Group": "g"}}, "Count": 0}}
            PUT /v1/job/web/scale {{"Target": {{"Group": "h"}}, "Count": 1}}
            PUT /v1/job/web/scale {{"Target": {{"Job": "other", "Group": "g"}}, "Count": 1}}
            PUT /v1/job/web/scale {{"Count": 1}}
            PUT /v1/job/web/scale {{"Count": 1.5}}
            PUT /v1/job/none/scale {{"Target": {{"Group": "g"}}, "Count": 1}}
            GET /v1/job/web/scale"#
        ),
        expect![[r#"
            PUT /v1/jobs {"Job": {"Type": "batch", "ID": "web", "TaskGroups": [{"Name": "g", "Count": 2, "Scalin
                200 @2 {"EvalID":"00000000-0000-0002-8000-000000000001","EvalCreateIndex":2,"JobModifyIndex":2,"Warnings":"","Index":2,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/job/web/scale {"Target": {"Group": "g"}, "Count": 3}
                200 @4 {"EvalID":"00000000-0000-0003-8000-000000000001","EvalCreateIndex":3,"JobModifyIndex":3,"Warnings":"","Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/job/web/scale {"Target": {"Group": "g"}, "Count": 4}
                400 group count was greater than scaling policy maximum: 4 > 3
            PUT /v1/job/web/scale {"Target": {"Group": "g"}, "Count": 0}
                400 group count was less than scaling policy minimum: 0 < 1
            PUT /v1/job/web/scale {"Target": {"Group": "h"}, "Count": 1}
                400 task group "h" specified for scaling does not exist in job
            PUT /v1/job/web/scale {"Target": {"Job": "other", "Group": "g"}, "Count": 1}
                400 job ID in payload did not match URL
            PUT /v1/job/web/scale {"Count": 1}
                400 missing task group name for scaling action
            PUT /v1/job/web/scale {"Count": 1.5}
                400 json: cannot unmarshal number 1.5 into Go struct field ScalingRequest.Count of type int64
            PUT /v1/job/none/scale {"Target": {"Group": "g"}, "Count": 1}
                404 job "none" not found
            GET /v1/job/web/scale
                200 @4 {"JobID":"web","Namespace":"default","JobCreateIndex":2,"JobModifyIndex":3,"JobStopped":false,"TaskGroups":{"g":{"Desired":3,"Placed":0,"Running":0,"Healthy":0,"Unhealthy":0,"Events":[{"Time":1700000006000000000,"Count":3,"PreviousCount":2,"Message":"","Error":false,"Meta":null,"EvalID":"00000000-0000-0003-8000-000000000001","CreateIndex":4}]}}}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn parameterized_job_dispatches_child_jobs() {
    let job = JOB.replace("\"ID\"", "\"Type\": \"batch\", \"ParameterizedJob\": {\"MetaRequired\": [\"a\"]}, \"ID\"");
    check(
        &Memory::new(),
        &format!(
            r#"PUT /v1/jobs {job}
            PUT /v1/job/web/dispatch {{"Meta": {{"a": "1"}}, "Payload": "aGVsbG8="}}
            PUT /v1/job/web/dispatch {{"Meta": {{"b": "1"}}}}
            PUT /v1/job/web/dispatch {{}}
            PUT /v1/job/web/dispatch {{"Payload": "not base64!"}}
            PUT /v1/job/web/dispatch?idempotency_token=t {{"Meta": {{"a": "1"}}}}
            PUT /v1/job/web/dispatch?idempotency_token=t {{"Meta": {{"a": "1"}}}}
            PUT /v1/job/web/evaluate
            PUT /v1/job/web/periodic/force"#
        ),
        expect![[r#"
            PUT /v1/jobs {"Job": {"Type": "batch", "ParameterizedJob": {"MetaRequired": ["a"]}, "ID": "web", "Ta
                200 @2 {"EvalID":"","EvalCreateIndex":0,"JobModifyIndex":2,"Warnings":"","Index":2,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/job/web/dispatch {"Meta": {"a": "1"}, "Payload": "aGVsbG8="}
                200 @3 {"DispatchedJobID":"web/dispatch-1700000002-00000000","EvalID":"00000000-0000-0002-8000-000000000001","EvalCreateIndex":3,"JobCreateIndex":3,"Index":3}
            PUT /v1/job/web/dispatch {"Meta": {"b": "1"}}
                500 Dispatch request included unpermitted metadata keys: [b]
            PUT /v1/job/web/dispatch {}
                500 Dispatch did not provide required meta keys: [a]
            PUT /v1/job/web/dispatch {"Payload": "not base64!"}
                400 illegal base64 data at input byte 3
            PUT /v1/job/web/dispatch?idempotency_token=t {"Meta": {"a": "1"}}
                200 @4 {"DispatchedJobID":"web/dispatch-1700000005-00000000","EvalID":"00000000-0000-0004-8000-000000000001","EvalCreateIndex":4,"JobCreateIndex":4,"Index":4}
            PUT /v1/job/web/dispatch?idempotency_token=t {"Meta": {"a": "1"}}
                200 @4 {"DispatchedJobID":"web/dispatch-1700000005-00000000","EvalID":"","EvalCreateIndex":0,"JobCreateIndex":4,"Index":4}
            PUT /v1/job/web/evaluate
                500 can't evaluate parameterized job
            PUT /v1/job/web/periodic/force
                500 can't force launch non-periodic job
        "#]],
    )
    .await;
}
