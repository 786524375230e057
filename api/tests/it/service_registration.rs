//! Services and scaling policies over HTTP.

use expect_test::expect;
use songline_commands::UpsertServiceRegistrations;
use songline_model::{AllocId, NodeId, ServiceRegistration, Str};

use crate::server::{Memory, check};

fn registration(namespace: &str, id: &str, name: &str, tags: &[&str]) -> ServiceRegistration {
    ServiceRegistration {
        id: id.into(),
        service_name: name.into(),
        namespace: namespace.into(),
        node_id: NodeId::from_bytes([1; 16]),
        alloc_id: AllocId::from_bytes([2; 16]),
        job_id: "web".into(),
        datacenter: "dc1".into(),
        tags: tags.iter().map(Str::new).collect(),
        address: "10.0.0.1".into(),
        port: 80,
        ..ServiceRegistration::default()
    }
}

#[tokio::test]
async fn services_are_listed_filtered_paged_and_deregistered() {
    let server = Memory::new();
    let rows =
        [("default", "s1", "web", &["a", "b"][..]), ("default", "s2", "web", &["b", "c"]), ("dev", "s3", "db", &[])];
    let services =
        rows.into_iter().map(|(namespace, id, name, tags)| registration(namespace, id, name, tags)).collect();
    server.run(UpsertServiceRegistrations { services });
    check(
        &server,
        "GET /v1/services
            GET /v1/services?namespace=*
            GET /v1/services?namespace=none
            GET /v1/service/web?filter=Tags%20contains%20%22c%22
            GET /v1/service/web?per_page=1
            GET /v1/service/web?per_page=1&next_token=default.s2
            GET /v1/service/web?namespace=dev
            GET /v1/service/web?choose=1
            GET /v1/service/
            GET /v1/service/web/s1
            GET /v1/service/web/s1/x
            DELETE /v1/service/web
            DELETE /v1/service/web/s1/x
            DELETE /v1/service/web/s9
            DELETE /v1/service/anything/s1
            GET /v1/service/web
            POST /v1/service/web
            GET /v1/job/web/services
            GET /v1/allocation/02020202-0202-0202-0202-020202020202/services",
        expect![[r#"
            GET /v1/services
                200 @2 [{"Namespace":"default","Services":[{"ServiceName":"web","Tags":["a","b","c"]}]}]
            GET /v1/services?namespace=*
                200 @2 [{"Namespace":"default","Services":[{"ServiceName":"web","Tags":["a","b","c"]}]},{"Namespace":"dev","Services":[{"ServiceName":"db","Tags":[]}]}]
            GET /v1/services?namespace=none
                200 @2 []
            GET /v1/service/web?filter=Tags%20contains%20%22c%22
                200 @2 [{"ID":"s2","ServiceName":"web","Namespace":"default","NodeID":"01010101-0101-0101-0101-010101010101","Datacenter":"dc1","JobID":"web","AllocID":"02020202-0202-0202-0202-020202020202","Tags":["b","c"],"Address":"10.0.0.1","Port":80,"CreateIndex":2,"ModifyIndex":2}]
            GET /v1/service/web?per_page=1
                200 @2 next=default.s2 [{"ID":"s1","ServiceName":"web","Namespace":"default","NodeID":"01010101-0101-0101-0101-010101010101","Datacenter":"dc1","JobID":"web","AllocID":"02020202-0202-0202-0202-020202020202","Tags":["a","b"],"Address":"10.0.0.1","Port":80,"CreateIndex":2,"ModifyIndex":2}]
            GET /v1/service/web?per_page=1&next_token=default.s2
                200 @2 [{"ID":"s2","ServiceName":"web","Namespace":"default","NodeID":"01010101-0101-0101-0101-010101010101","Datacenter":"dc1","JobID":"web","AllocID":"02020202-0202-0202-0202-020202020202","Tags":["b","c"],"Address":"10.0.0.1","Port":80,"CreateIndex":2,"ModifyIndex":2}]
            GET /v1/service/web?namespace=dev
                200 @2 []
            GET /v1/service/web?choose=1
                400 failed to choose services: Parameter for choose must be in form '<number>|<key>'
            GET /v1/service/
                400 missing service name
            GET /v1/service/web/s1
                405 Invalid method
            GET /v1/service/web/s1/x
                400 invalid URI
            DELETE /v1/service/web
                405 Invalid method
            DELETE /v1/service/web/s1/x
                400 invalid URI
            DELETE /v1/service/web/s9
                500 service registration not found
            DELETE /v1/service/anything/s1
                200 @4 
            GET /v1/service/web
                200 @4 [{"ID":"s2","ServiceName":"web","Namespace":"default","NodeID":"01010101-0101-0101-0101-010101010101","Datacenter":"dc1","JobID":"web","AllocID":"02020202-0202-0202-0202-020202020202","Tags":["b","c"],"Address":"10.0.0.1","Port":80,"CreateIndex":2,"ModifyIndex":2}]
            POST /v1/service/web
                405 Invalid method
            GET /v1/job/web/services
                404 @0 job not found
            GET /v1/allocation/02020202-0202-0202-0202-020202020202/services
                404 allocation not found
        "#]],
    )
    .await;
}

#[tokio::test]
async fn scaling_policies_are_listed_by_job_type_and_prefix() {
    let server = Memory::new();
    let job = |id: &str, max: u32| {
        format!(
            r#"PUT /v1/jobs {{"Job": {{"Type": "batch", "ID": "{id}", "TaskGroups": [{{"Name": "g", "Count": 1, "Scaling": {{"Max": {max}}}, "Tasks": [{{"Name": "t", "Driver": "raw_exec", "Config": {{"command": "sleep"}}}}]}}]}}}}"#
        )
    };
    check(
        &server,
        &format!(
            "{}
            {}
            GET /v1/scaling/policies
            GET /v1/scaling/policies?job=web
            GET /v1/scaling/policies?job=web&type=vertical
            GET /v1/scaling/policies?prefix=00000000-0000-0002&job=other
            GET /v1/scaling/policies?namespace=dev
            GET /v1/scaling/policy/none
            PUT /v1/job/web/scale {{\"Target\": {{\"Group\": \"g\"}}, \"Message\": \"told\", \"Meta\": {{\"n\": 1}}}}
            GET /v1/job/web/scale
            POST /v1/search {{\"Prefix\": \"00000000-0000-0001\", \"Context\": \"scaling_policy\"}}
            DELETE /v1/job/web?purge=true
            GET /v1/scaling/policies",
            job("web", 5),
            job("other", 7)
        ),
        expect![[r#"
            PUT /v1/jobs {"Job": {"Type": "batch", "ID": "web", "TaskGroups": [{"Name": "g", "Count": 1, "Scalin
                200 @2 {"EvalID":"00000000-0000-0002-8000-000000000001","EvalCreateIndex":2,"JobModifyIndex":2,"Warnings":"","Index":2,"LastContact":0,"KnownLeader":false,"NextToken":""}
            PUT /v1/jobs {"Job": {"Type": "batch", "ID": "other", "TaskGroups": [{"Name": "g", "Count": 1, "Scal
                200 @3 {"EvalID":"00000000-0000-0004-8000-000000000001","EvalCreateIndex":3,"JobModifyIndex":3,"Warnings":"","Index":3,"LastContact":0,"KnownLeader":false,"NextToken":""}
            GET /v1/scaling/policies
                200 @3 [{"ID":"00000000-0000-0001-8000-000000000001","Enabled":true,"Type":"horizontal","Target":{"Group":"g","Job":"web","Namespace":"default"},"CreateIndex":2,"ModifyIndex":2},{"ID":"00000000-0000-0003-8000-000000000001","Enabled":true,"Type":"horizontal","Target":{"Group":"g","Job":"other","Namespace":"default"},"CreateIndex":3,"ModifyIndex":3}]
            GET /v1/scaling/policies?job=web
                200 @3 [{"ID":"00000000-0000-0001-8000-000000000001","Enabled":true,"Type":"horizontal","Target":{"Group":"g","Job":"web","Namespace":"default"},"CreateIndex":2,"ModifyIndex":2}]
            GET /v1/scaling/policies?job=web&type=vertical
                200 @3 []
            GET /v1/scaling/policies?prefix=00000000-0000-0002&job=other
                200 @3 []
            GET /v1/scaling/policies?namespace=dev
                200 @3 []
            GET /v1/scaling/policy/none
                404 @3 policy not found
            PUT /v1/job/web/scale {"Target": {"Group": "g"}, "Message": "told", "Meta": {"n": 1}}
                200 @4 {"EvalID":"","EvalCreateIndex":0,"JobModifyIndex":2,"Warnings":"","Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            GET /v1/job/web/scale
                200 @4 {"JobID":"web","Namespace":"default","JobCreateIndex":2,"JobModifyIndex":2,"JobStopped":false,"TaskGroups":{"g":{"Desired":1,"Placed":0,"Running":0,"Healthy":0,"Unhealthy":0,"Events":[{"Time":1700000006000000000,"Count":null,"PreviousCount":1,"Message":"told","Error":false,"Meta":{"n":1},"EvalID":null,"CreateIndex":4}]}}}
            POST /v1/search {"Prefix": "00000000-0000-0001", "Context": "scaling_policy"}
                200 @3 {"Matches":{"scaling_policy":["00000000-0000-0001-8000-000000000001"]},"Truncations":{"scaling_policy":false},"Index":3,"LastContact":0,"KnownLeader":true,"NextToken":""}
            DELETE /v1/job/web?purge=true
                200 @5 {"EvalCreateIndex":5,"EvalID":"00000000-0000-0005-8000-000000000001","Index":5,"JobModifyIndex":5,"KnownLeader":false,"LastContact":0,"NextToken":"","VolumeEvalID":"","VolumeEvalIndex":0}
            GET /v1/scaling/policies
                200 @5 [{"ID":"00000000-0000-0003-8000-000000000001","Enabled":true,"Type":"horizontal","Target":{"Group":"g","Job":"other","Namespace":"default"},"CreateIndex":3,"ModifyIndex":3}]
        "#]],
    )
    .await;
}
