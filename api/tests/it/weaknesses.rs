//! Weaknesses of the reference that are fixed here. The name of a test has the number of its weakness in
//! `tests/tidy/defects.txt`. Some are tested elsewhere: secrets of nodes and streams in `callers`, auth methods and
//! logins in their files, rights of routes in `matrix`.

use std::sync::Arc;

use axum::http::StatusCode;
use expect_test::expect;
use songline_api::Reads;

use crate::acl::{ALL, check, guarded};
use crate::server::{Memory, answer, shown, text};
use crate::world::{
    ALLOC, MANAGEMENT, OF_API, OTHER_ALLOC, VOLUME, ask, bound_policy, identity, rules, token_with, told, world,
};

#[tokio::test]
async fn defect_19_token_update_keeps_its_expiration_time() {
    let server = guarded().await;
    let update = r##"all PUT /v1/acl/token/#2 {"AccessorID": "#2", "Name": "b", "Type": "client", "Policies": ["x"], "ExpirationTTL": "1h0m0s"}"##;
    check(
        &server,
        &format!(
            r##"all POST /v1/acl/token {{"Name": "a", "Type": "client", "Policies": ["x"], "ExpirationTTL": "1h"}}
            {update}
            #3 GET /v1/acl/policies"##
        ),
        expect![[r##"
            all POST /v1/acl/token {"Name": "a", "Type": "client", "Policies": ["x"], "ExpirationTTL": "1h"}
                200 {"ExpirationTTL":"1h0m0s","AccessorID":"#2","SecretID":"#3","Name":"a","Type":"client","Policies":["x"],"Roles":null,"Global":false,"Hash":"qWmA/iUGzq33wNPwIf6BVP7tEMlP1P9BrPz2r1PFJWI=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":"2023-11-14T23:13:23Z","CreateIndex":3,"ModifyIndex":3}
            all PUT /v1/acl/token/#2 {"AccessorID": "#2", "Name": "b", "Type": "client", "Policies": ["x"], "ExpirationTTL": "1h0m0s"}
                200 {"ExpirationTTL":"1h0m0s","AccessorID":"#2","SecretID":"#3","Name":"b","Type":"client","Policies":["x"],"Roles":null,"Global":false,"Hash":"cOK21gOLq1lZloqDreihJWVJnqilXzisiEuDh3cFUIQ=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":"2023-11-14T23:13:23Z","CreateIndex":3,"ModifyIndex":4}
            #3 GET /v1/acl/policies
                200 []
        "##]],
    )
    .await;
    server.pass_minutes(120);
    check(
        &server,
        "#3 GET /v1/acl/policies",
        expect![[r#"
        #3 GET /v1/acl/policies
            403 Permission denied
    "#]],
    )
    .await;
}

#[tokio::test]
async fn defect_20_expired_token_cannot_read_itself_or_use_one_time_tokens() {
    let server = guarded().await;
    check(
        &server,
        r##"all POST /v1/acl/token {"Name": "a", "Type": "client", "Policies": ["x"], "ExpirationTTL": "1m"}
        #3 PUT /v1/acl/token/onetime"##,
        expect![[r##"
            all POST /v1/acl/token {"Name": "a", "Type": "client", "Policies": ["x"], "ExpirationTTL": "1m"}
                200 {"ExpirationTTL":"1m0s","AccessorID":"#2","SecretID":"#3","Name":"a","Type":"client","Policies":["x"],"Roles":null,"Global":false,"Hash":"qWmA/iUGzq33wNPwIf6BVP7tEMlP1P9BrPz2r1PFJWI=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":"2023-11-14T22:14:23Z","CreateIndex":3,"ModifyIndex":3}
            #3 PUT /v1/acl/token/onetime
                200 {"OneTimeToken":{"OneTimeSecretID":"#4","AccessorID":"#2","ExpiresAt":"2023-11-14T22:23:27Z","CreateIndex":4,"ModifyIndex":4},"Index":4}
        "##]],
    )
    .await;
    server.pass_minutes(2);
    check(
        &server,
        r##"#3 GET /v1/acl/token/self
        #3 PUT /v1/acl/token/onetime
        #3 GET /v1/acl/token/#2
        - PUT /v1/acl/token/onetime/exchange {"OneTimeSecretID": "#4"}"##,
        expect![[r##"
            #3 GET /v1/acl/token/self
                403 ACL token expired
            #3 PUT /v1/acl/token/onetime
                403 ACL token expired
            #3 GET /v1/acl/token/#2
                500 ACL token expired
            - PUT /v1/acl/token/onetime/exchange {"OneTimeSecretID": "#4"}
                403 ACL token expired
        "##]],
    )
    .await;
}

#[tokio::test]
async fn defect_22_bodies_with_null_where_an_object_should_be_are_refused() {
    check(
        &guarded().await,
        r##"all POST /v1/acl/token {"Type": "client", "Roles": [null]}
        all POST /v1/acl/role {"Name": "r", "Policies": [null]}
        all POST /v1/acl/token {"Type": "client", "Policies": ["x"]}
        all PUT /v1/acl/token/#2 {"AccessorID": "#2", "Type": "client", "Policies": ["x"], "ExpirationTime": "2030-01-01T00:00:00Z"}"##,
        expect![[r##"
            all POST /v1/acl/token {"Type": "client", "Roles": [null]}
                400 role link must not be null
            all POST /v1/acl/role {"Name": "r", "Policies": [null]}
                400 role policy must not be null
            all POST /v1/acl/token {"Type": "client", "Policies": ["x"]}
                200 {"ExpirationTTL":"","AccessorID":"#2","SecretID":"#3","Name":"","Type":"client","Policies":["x"],"Roles":null,"Global":false,"Hash":"otutRTfaCBdLO3cieLFwjQgSHEFu/ZTQKBmBZCPUQcs=","CreateTime":"2023-11-14T22:13:25Z","ExpirationTime":null,"CreateIndex":3,"ModifyIndex":3}
            all PUT /v1/acl/token/#2 {"AccessorID": "#2", "Type": "client", "Policies": ["x"], "ExpirationTime": "2030-01-01T00:00:00Z"}
                400 token 0 invalid: 1 error occurred:
            	* cannot update expiration time
        "##]],
    )
    .await;
}

#[tokio::test]
async fn defect_16_policy_bound_to_a_namespace_alone_is_accepted() {
    check(
        &guarded().await,
        r##"all PUT /v1/acl/policy/all {"Name": "all", "JobACL": {"Namespace": "default"}}
        all GET /v1/acl/policy/all"##,
        expect![[r#"
            all PUT /v1/acl/policy/all {"Name": "all", "JobACL": {"Namespace": "default"}}
                200 
            all GET /v1/acl/policy/all
                200 {"Name":"all","Description":"","Rules":"","RulesJSON":{"Namespaces":null,"NodePools":null,"HostVolumes":null,"Agent":null,"Node":null,"Operator":null,"Quota":null,"Plugin":null,"Raw":""},"JobACL":{"Namespace":"default","JobID":"","Group":"","Task":""},"Hash":"4nZpUNXZdMQ4LBNFvVL8rhGZGGhJEF9dnB9KbE8AVZ0=","CreateIndex":3,"ModifyIndex":3}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn defect_23_root_keys_are_listed_for_management_tokens_only() {
    check(
        &guarded().await,
        "- GET /v1/operator/keyring/keys
        all GET /v1/operator/keyring/keys",
        expect![[r#"
            - GET /v1/operator/keyring/keys
                403 Permission denied
            all GET /v1/operator/keyring/keys
                200 []
        "#]],
    )
    .await;
}

#[tokio::test]
async fn defect_8_agent_join_without_a_token_is_refused() {
    check(
        &guarded().await,
        "- PUT /v1/agent/join?address=127.0.0.1:1
        all PUT /v1/agent/join",
        expect![[r#"
            - PUT /v1/agent/join?address=127.0.0.1:1
                403 Permission denied
            all PUT /v1/agent/join
                400 missing address to join
        "#]],
    )
    .await;
}

#[tokio::test]
async fn defect_24_unauthorized_restore_is_refused_whatever_its_body() {
    check(
        &guarded().await,
        "- PUT /v1/operator/snapshot no archive",
        expect![[r#"
        - PUT /v1/operator/snapshot no archive
            403 Permission denied
    "#]],
    )
    .await;
}

#[tokio::test]
async fn defect_5_volume_write_is_authorized_in_the_namespace_of_the_volume() {
    check(
        &guarded().await,
        r##"all PUT /v1/namespace {"Name": "dev"}
        all PUT /v1/acl/policy/dev {"Name": "dev", "Rules": "namespace \"dev\" { policy = \"write\" } plugin { policy = \"read\" }"}
        all POST /v1/acl/token {"Type": "client", "Policies": ["dev"]}
        #3 PUT /v1/volumes?namespace=dev {"Volumes": [{"ID": "v", "Namespace": "default", "PluginID": "p"}]}
        #3 PUT /v1/volume/csi/v/create?namespace=dev {"Volumes": [{"ID": "v", "Namespace": "default", "PluginID": "p"}]}"##,
        expect![[r##"
            all PUT /v1/namespace {"Name": "dev"}
                200 
            all PUT /v1/acl/policy/dev {"Name": "dev", "Rules": "namespace \"dev\" { policy = \"write\" } plugin { policy = \"read\" }"}
                200 
            all POST /v1/acl/token {"Type": "client", "Policies": ["dev"]}
                200 {"ExpirationTTL":"","AccessorID":"#2","SecretID":"#3","Name":"","Type":"client","Policies":["dev"],"Roles":null,"Global":false,"Hash":"ON0asRYaz5a7RmTnn4R1p4lud8xfD1XyhH1JxQn2qxE=","CreateTime":"2023-11-14T22:13:27Z","ExpirationTime":null,"CreateIndex":5,"ModifyIndex":5}
            #3 PUT /v1/volumes?namespace=dev {"Volumes": [{"ID": "v", "Namespace": "default", "PluginID": "p"}]}
                403 Permission denied
            #3 PUT /v1/volume/csi/v/create?namespace=dev {"Volumes": [{"ID": "v", "Namespace": "default", "PluginID": "p"}]}
                403 Permission denied
        "##]],
    )
    .await;
}

/// A server with a variable, a job and an evaluation in each of `default` and `dev`, and a token that reads `dev`.
async fn two_namespaces() -> (Arc<Memory>, String) {
    let server = guarded().await;
    let group = r#""TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]"#;
    let rules =
        r#"namespace \"dev\" { policy = \"read\" variables { path \"web/s*\" { capabilities = [\"list\"] } } }"#;
    for line in [
        r#"PUT /v1/namespace {"Name": "dev"}"#.to_owned(),
        "PUT /v1/operator/keyring/rotate".to_owned(),
        r#"PUT /v1/var/web/secret {"Items": {"k": "v"}}"#.to_owned(),
        r#"PUT /v1/var/web/shared?namespace=dev {"Items": {"k": "v"}}"#.to_owned(),
        r#"PUT /v1/var/web/hidden?namespace=dev {"Items": {"k": "v"}}"#.to_owned(),
        format!(r#"PUT /v1/jobs {{"Job": {{"ID": "web-here", {group}}}}}"#),
        format!(r#"PUT /v1/jobs {{"Job": {{"ID": "web-dev", "Namespace": "dev", {group}}}}}"#),
        format!(r#"PUT /v1/acl/policy/dev {{"Name": "dev", "Rules": "{rules}"}}"#),
    ] {
        let answer = ask(&server, ALL, &line).await;
        assert!(answer.0.is_success(), "{line}: {answer:?}");
    }
    let token = ask(&server, ALL, r#"POST /v1/acl/token {"Type": "client", "Policies": ["dev"]}"#).await.1;
    let token: serde_json::Value = serde_json::from_str(&token).expect("a token");
    (server, token["SecretID"].as_str().expect("a secret").to_owned())
}

/// Status and matches of a search.
async fn found(server: &Arc<Memory>, secret: &str, route: &str, body: &str) -> String {
    let (status, answer) = ask(server, secret, &format!("PUT {route} {body}")).await;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap_or(answer.into());
    format!("{} {}", status.as_u16(), answer["Matches"])
}

#[tokio::test]
async fn defect_15_search_finds_only_variables_that_the_caller_may_list() {
    let (server, dev) = two_namespaces().await;
    let body = r#"{"Prefix": "web", "Context": "vars"}"#;
    for namespace in ["*", "dev", "default", "de"] {
        let route = format!("/v1/search?namespace={namespace}");
        assert_eq!(found(&server, &dev, &route, body).await, r#"200 {"vars":["web/shared"]}"#, "{namespace}");
    }
    let all = r#"200 {"vars":["web/hidden","web/secret","web/shared"]}"#;
    assert_eq!(found(&server, ALL, "/v1/search?namespace=*", body).await, all);
}

#[tokio::test]
async fn defect_18_search_over_all_namespaces_finds_only_readable_objects() {
    let (server, dev) = two_namespaces().await;
    let eval = server.view().evals_of_job("dev", "web-dev").next().expect("is there").id;
    let evals = format!(r#"200 {{"evals":["{eval}"]}}"#);
    for (route, body, expected) in [
        ("/v1/search", r#"{"Prefix": "web", "Context": "jobs"}"#, r#"200 {"jobs":["web-dev"]}"#),
        ("/v1/search", r#"{"Prefix": "", "Context": "evals"}"#, &evals),
        (
            "/v1/search/fuzzy",
            r#"{"Text": "web", "Context": "jobs"}"#,
            r#"200 {"jobs":[{"ID":"web-dev","Scope":["dev","web-dev"]}]}"#,
        ),
    ] {
        assert_eq!(found(&server, &dev, &format!("{route}?namespace=*"), body).await, expected, "{route} {body}");
        assert_eq!(
            found(&server, &dev, route, &body.replacen('{', "{\"Namespace\": \"*\", ", 1)).await,
            expected,
            "{route} {body}"
        );
    }
}

#[tokio::test]
async fn defect_16_policy_bound_to_a_namespace_applies_only_to_its_workloads() {
    let server = world().await;
    bound_policy(&server, "all", &rules("read-job", "default"), Some(("default", "")));
    for (alloc, expected) in [(ALLOC, "200 "), (OF_API, "200 "), (OTHER_ALLOC, "403 Permission denied")] {
        let told = told(&server, &identity(&server, alloc), "GET /v1/allocations").await;
        assert!(told.starts_with(expected), "{alloc}: {told}");
    }
}

#[tokio::test]
async fn defect_21_refused_file_read_answers_403_instead_of_content() {
    let server = world().await;
    let weak = token_with(&server, 7, &rules("read-job", "default"));
    for route in ["cat", "readat"] {
        let line = format!("GET /v1/client/fs/{route}/{ALLOC}?path=a&offset=0&limit=1");
        for secret in [&weak, ""] {
            assert_eq!(told(&server, secret, &line).await, "403 Permission denied", "{route}");
        }
    }
}

#[tokio::test]
async fn defect_6_volume_keeps_its_stored_secrets_and_mount_flags_when_shown() {
    let server = world().await;
    let all = MANAGEMENT.to_string();
    let secret = r#""Secrets": {"key": "s3cret"}, "MountOptions": {"FSType": "ext4", "MountFlags": ["pass=s3cret"]}"#;
    let volume = VOLUME.replacen('{', &format!("{{{secret}, "), 1);
    assert_eq!(ask(&server, &all, &format!("PUT /v1/volumes {{\"Volumes\": [{volume}]}}")).await.0, StatusCode::OK);
    for target in ["/v1/volume/csi/v", "/v1/volumes?type=csi"] {
        let shown = told(&server, &all, &format!("GET {target}")).await;
        assert!(shown.starts_with("200 ") && !shown.contains("s3cret"), "{shown}");
    }
    let view = server.view();
    let stored = view.csi_volume("default", "v").expect("is there");
    let mount = stored.mount_options.as_ref().and_then(|options| options.mount_flags.reveal());
    assert_eq!(
        stored.secrets.reveal().and_then(|secrets| secrets.get("key")).map(|value| value.as_str()),
        Some("s3cret")
    );
    assert_eq!(format!("{mount:?}"), r#"Some(["pass=s3cret"])"#);
}

#[tokio::test]
async fn defect_7_refused_event_stream_answers_an_error_and_ends() {
    let server = world().await;
    let weak = token_with(&server, 7, &rules("list-jobs", "default"));
    for secret in [&*weak, "", "5f7d9a52-0000-4000-8000-00000000dead"] {
        let refused = answer(&server, &shown(secret, "GET /v1/event/stream?topic=Job")).await;
        assert!(
            refused.status().is_server_error() || refused.status() == StatusCode::FORBIDDEN,
            "{}",
            refused.status()
        );
        // The body ends, so nothing is streamed after the refusal.
        let body = text(refused).await;
        assert!(body.trim_end().ends_with("Permission denied") && body.lines().count() == 1, "{body}");
    }
}
