//! What the reference lets through and we do not, each under a name of its own. Some are shown elsewhere: nodes' secrets and streams in
//! `callers`, secrets of volumes in `csi`, of auth methods and logins in their files, and what routes need in `matrix`.

use expect_test::expect;

use crate::acl::{check, guarded};

#[tokio::test]
async fn an_update_of_a_token_keeps_its_end() {
    let server = guarded().await;
    let update =
        r##"all PUT /v1/acl/token/#2 {"AccessorID": "#2", "Name": "b", "Type": "client", "Policies": ["x"], "ExpirationTTL": "1h0m0s"}"##;
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
async fn an_expired_token_neither_reads_itself_nor_makes_one_time_tokens_nor_is_exchanged() {
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
async fn bodies_with_null_where_an_object_should_be_are_refused_and_the_connection_lives() {
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
async fn a_policy_of_a_namespace_is_one_of_all_its_workloads() {
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
async fn keys_are_listed_for_management_tokens_alone() {
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
async fn joining_needs_the_right_to_change_the_agent() {
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
async fn a_refused_restore_is_refused_whatever_its_body() {
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
async fn a_volume_is_checked_in_its_own_namespace() {
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

#[tokio::test]
async fn a_search_over_all_namespaces_finds_what_the_caller_may_read() {
    check(
        &guarded().await,
        r##"all PUT /v1/namespace {"Name": "dev"}
        all PUT /v1/operator/keyring/rotate
        all PUT /v1/var/web/secret {"Items": {"k": "v"}}
        all PUT /v1/var/web/shared?namespace=dev {"Items": {"k": "v"}}
        all PUT /v1/jobs {"Job": {"ID": "web-here", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]}}
        all PUT /v1/jobs {"Job": {"ID": "web-dev", "Namespace": "dev", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]}}
        all PUT /v1/acl/policy/dev {"Name": "dev", "Rules": "namespace \"dev\" { policy = \"read\" variables { path \"web/s*\" { capabilities = [\"list\"] } } }"}
        all POST /v1/acl/token {"Type": "client", "Policies": ["dev"]}
        #5 PUT /v1/search?namespace=* {"Prefix": "web", "Context": "jobs"}
        #5 PUT /v1/search?namespace=* {"Prefix": "web", "Context": "vars"}
        #5 PUT /v1/search?namespace=default {"Prefix": "web", "Context": "vars"}
        #5 PUT /v1/search/fuzzy?namespace=* {"Text": "web", "Context": "jobs"}
        #5 PUT /v1/search?namespace=* {"Prefix": "", "Context": "evals"}"##,
        expect![[r##"
            all PUT /v1/namespace {"Name": "dev"}
                200 
            all PUT /v1/operator/keyring/rotate
                200 {"Key":{"KeyID":"09090909-0909-0909-0909-090909090909","Algorithm":"aes256-gcm","CreateTime":1,"CreateIndex":0,"ModifyIndex":0,"State":"active"},"Index":4}
            all PUT /v1/var/web/secret {"Items": {"k": "v"}}
                200 {"Namespace":"default","Path":"web/secret","CreateIndex":5,"CreateTime":1700000007000000000,"ModifyIndex":5,"ModifyTime":1700000007000000000,"Items":{"k":"v"}}
            all PUT /v1/var/web/shared?namespace=dev {"Items": {"k": "v"}}
                200 {"Namespace":"dev","Path":"web/shared","CreateIndex":6,"CreateTime":1700000010000000000,"ModifyIndex":6,"ModifyTime":1700000010000000000,"Items":{"k":"v"}}
            all PUT /v1/jobs {"Job": {"ID": "web-here", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]}}
                200 {"EvalID":"#2","EvalCreateIndex":7,"JobModifyIndex":7,"Warnings":"","Index":7,"LastContact":0,"KnownLeader":false,"NextToken":""}
            all PUT /v1/jobs {"Job": {"ID": "web-dev", "Namespace": "dev", "TaskGroups": [{"Name": "g", "Tasks": [{"Name": "t", "Driver": "d"}]}]}}
                200 {"EvalID":"#3","EvalCreateIndex":8,"JobModifyIndex":8,"Warnings":"","Index":8,"LastContact":0,"KnownLeader":false,"NextToken":""}
            all PUT /v1/acl/policy/dev {"Name": "dev", "Rules": "namespace \"dev\" { policy = \"read\" variables { path \"web/s*\" { capabilities = [\"list\"] } } }"}
                200 
            all POST /v1/acl/token {"Type": "client", "Policies": ["dev"]}
                200 {"ExpirationTTL":"","AccessorID":"#4","SecretID":"#5","Name":"","Type":"client","Policies":["dev"],"Roles":null,"Global":false,"Hash":"ON0asRYaz5a7RmTnn4R1p4lud8xfD1XyhH1JxQn2qxE=","CreateTime":"2023-11-14T22:13:43Z","ExpirationTime":null,"CreateIndex":10,"ModifyIndex":10}
            #5 PUT /v1/search?namespace=* {"Prefix": "web", "Context": "jobs"}
                200 {"Matches":{"jobs":["web-dev"]},"Truncations":{"jobs":false},"Index":8,"LastContact":0,"KnownLeader":true,"NextToken":""}
            #5 PUT /v1/search?namespace=* {"Prefix": "web", "Context": "vars"}
                200 {"Matches":{"vars":["web/shared"]},"Truncations":{"vars":false},"Index":6,"LastContact":0,"KnownLeader":true,"NextToken":""}
            #5 PUT /v1/search?namespace=default {"Prefix": "web", "Context": "vars"}
                200 {"Matches":{"vars":["web/shared"]},"Truncations":{"vars":false},"Index":6,"LastContact":0,"KnownLeader":true,"NextToken":""}
            #5 PUT /v1/search/fuzzy?namespace=* {"Text": "web", "Context": "jobs"}
                200 {"Matches":{"jobs":[{"ID":"web-dev","Scope":["dev","web-dev"]}]},"Truncations":{"jobs":false},"Index":8,"LastContact":0,"KnownLeader":true,"NextToken":""}
            #5 PUT /v1/search?namespace=* {"Prefix": "", "Context": "evals"}
                200 {"Matches":{"evals":["#3"]},"Truncations":{"evals":false},"Index":8,"LastContact":0,"KnownLeader":true,"NextToken":""}
        "##]],
    )
    .await;
}
