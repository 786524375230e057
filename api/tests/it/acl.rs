//! ACL objects: bootstrap, policies, tokens, roles, one-time tokens; their answers and refusals.

use std::sync::Arc;

use expect_test::{Expect, expect};
use uuid::Uuid;

use crate::server::{Memory, answer, text};

/// The secret of the management token.
pub const ALL: &str = "2b778dd9-f5f1-6f29-b4b4-9a5fa948757a";

/// The nth id that a server generates.
pub fn made(nth: u128) -> String {
    Uuid::from_u128(nth << 64 | 0x8000_0000_0000_0001).to_string()
}

/// A server with ACLs and a management token, which took the first generated id.
pub async fn guarded() -> Arc<Memory> {
    let server = Memory::guarded();
    let line = format!("PUT /v1/acl/bootstrap {{\"BootstrapSecret\": \"{ALL}\"}}");
    assert_eq!(answer(&server, &line).await.status(), 200);
    server
}

/// Sends requests one after another. Each begins with its caller: `all` has the management token, `-` has none, `#3`
/// sends the third generated id as its token. In a request, `#3` is replaced by that id, too.
pub async fn check(server: &Arc<Memory>, story: &str, expected: Expect) {
    let mut out = String::new();
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let named = (1..20).rev().fold(line.to_owned(), |line, nth| line.replace(&format!("#{nth}"), &made(nth)));
        let (who, request) = named.split_once(' ').expect("who asks");
        let token = match who {
            "-" => String::new(),
            "all" => format!("[x-nomad-token: {ALL}] "),
            secret => format!("[x-nomad-token: {secret}] "),
        };
        let mut words = request.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (method, path, body) = (word(), word(), word());
        let response = answer(server, &format!("{method} {path} {token}{body}")).await;
        let status = response.status().as_u16();
        let body = (1..20).fold(text(response).await, |body, nth| body.replace(&made(nth), &format!("#{nth}")));
        out.push_str(&format!("{line}\n    {status} {}\n", body.trim_end()));
    }
    expected.assert_eq(&out);
}

#[tokio::test]
async fn acl_bootstrap_needs_no_token_and_succeeds_once() {
    check(
        &Memory::guarded(),
        r#"- GET /v1/jobs
        - PUT /v1/acl/bootstrap {"BootstrapSecret": "short"}
        - PUT /v1/acl/bootstrap {"BootstrapSecret": "00000000-0000-0000-0000-000000000000"}
        nonsense PUT /v1/acl/bootstrap
        #1 GET /v1/jobs
        - PUT /v1/acl/bootstrap"#,
        expect![[r##"
            - GET /v1/jobs
                403 Permission denied
            - PUT /v1/acl/bootstrap {"BootstrapSecret": "short"}
                400 invalid acl token
            - PUT /v1/acl/bootstrap {"BootstrapSecret": "00000000-0000-0000-0000-000000000000"}
                400 invalid acl token
            nonsense PUT /v1/acl/bootstrap
                200 {"ExpirationTTL":"","AccessorID":"#2","SecretID":"#1","Name":"Bootstrap Token","Type":"management","Policies":null,"Roles":null,"Global":true,"Hash":"BUJ3BerTfrqFVm1P+vZr1gz9ubOkd+JAvYjNAJyaU9Y=","CreateTime":"2023-11-14T22:13:20Z","ExpirationTime":null,"CreateIndex":2,"ModifyIndex":2}
            #1 GET /v1/jobs
                200 []
            - PUT /v1/acl/bootstrap
                400 ACL bootstrap already done (reset index: 2)
        "##]],
    )
    .await;
}

#[tokio::test]
async fn acl_bootstrap_repeats_once_when_the_server_holds_the_right_reset_index() {
    let server = guarded().await;
    check(
        &server,
        "- PUT /v1/acl/bootstrap
        - PUT /v1/acl/bootstrap {\"ResetIndex\": 2}",
        expect![[r#"
            - PUT /v1/acl/bootstrap
                400 ACL bootstrap already done (reset index: 2)
            - PUT /v1/acl/bootstrap {"ResetIndex": 2}
                400 ACL bootstrap already done (reset index: 2)
        "#]],
    )
    .await;
    server.allow_bootstrap(9);
    check(
        &server,
        "- PUT /v1/acl/bootstrap",
        expect![[r#"
        - PUT /v1/acl/bootstrap
            400 Invalid bootstrap reset index (specified 9, reset index: 2)
    "#]],
    )
    .await;
    server.allow_bootstrap(2);
    check(
        &server,
        "- PUT /v1/acl/bootstrap
        - PUT /v1/acl/bootstrap
        all GET /v1/jobs",
        expect![[r##"
            - PUT /v1/acl/bootstrap
                200 {"ExpirationTTL":"","AccessorID":"#3","SecretID":"#2","Name":"Bootstrap Token","Type":"management","Policies":null,"Roles":null,"Global":true,"Hash":"BUJ3BerTfrqFVm1P+vZr1gz9ubOkd+JAvYjNAJyaU9Y=","CreateTime":"2023-11-14T22:13:22Z","ExpirationTime":null,"CreateIndex":3,"ModifyIndex":3}
            - PUT /v1/acl/bootstrap
                400 Invalid bootstrap reset index (specified 2, reset index: 3)
            all GET /v1/jobs
                200 []
        "##]],
    )
    .await;
}

#[tokio::test]
async fn a_policy_is_written_shown_and_deleted() {
    check(
        &guarded().await,
        r#"all PUT /v1/acl/policy/readers {"Name": "readers", "Description": "d", "Rules": "node { policy = \"read\" }", "JobACL": {"Namespace": "default"}}
        all GET /v1/acl/policy/readers
        all GET /v1/acl/policies
        all GET /v1/acl/policies?prefix=x
        all PUT /v1/acl/policy/a_b {"Name": "a_b", "Rules": "node {}", "JobACL": {"JobID": "j", "Task": "t"}}
        all DELETE /v1/acl/policy/readers
        all DELETE /v1/acl/policy/readers
        all GET /v1/acl/policy/readers"#,
        expect![[r#"
            all PUT /v1/acl/policy/readers {"Name": "readers", "Description": "d", "Rules": "node { policy = \"read\" }", "JobACL": {"Namespace": "default"}}
                200 
            all GET /v1/acl/policy/readers
                200 {"Name":"readers","Description":"d","Rules":"node { policy = \"read\" }","RulesJSON":{"Namespaces":null,"NodePools":null,"HostVolumes":null,"Agent":null,"Node":{"Policy":"read"},"Operator":null,"Quota":null,"Plugin":null,"Raw":"node { policy = \"read\" }"},"JobACL":{"Namespace":"default","JobID":"","Group":"","Task":""},"Hash":"E2euD1dXnG11WZHaKJKjb3AH6OgAm2otmckDH0hIbcU=","CreateIndex":3,"ModifyIndex":3}
            all GET /v1/acl/policies
                200 [{"Name":"readers","Description":"d","Hash":"E2euD1dXnG11WZHaKJKjb3AH6OgAm2otmckDH0hIbcU=","CreateIndex":3,"ModifyIndex":3}]
            all GET /v1/acl/policies?prefix=x
                200 []
            all PUT /v1/acl/policy/a_b {"Name": "a_b", "Rules": "node {}", "JobACL": {"JobID": "j", "Task": "t"}}
                400 policy 0 invalid: 4 errors occurred:
            	* invalid name 'a_b'
            	* failed to parse rules: Invalid node policy: &acl.NodePolicy{Policy:""}
            	* namespace must be set to set job ID
            	* group must be set to set task
            all DELETE /v1/acl/policy/readers
                200 
            all DELETE /v1/acl/policy/readers
                200 
            all GET /v1/acl/policy/readers
                404 ACL policy not found
        "#]],
    )
    .await;
}

#[tokio::test]
async fn a_token_is_made_changed_listed_and_deleted() {
    check(
        &guarded().await,
        r##"all POST /v1/acl/token {"Name": "a", "Type": "client", "Policies": ["x"], "ExpirationTTL": "1h"}
        #3 GET /v1/acl/token/self
        #3 GET /v1/acl/token/#2
        #3 GET /v1/acl/token/#1
        #3 GET /v1/acl/tokens
        all PUT /v1/acl/token/#2 {"AccessorID": "#2", "Name": "b", "Type": "client", "Policies": ["y"], "ExpirationTTL": 3600000000000}
        all GET /v1/acl/tokens?filter=SecretID+==+%22#3%22
        all GET /v1/acl/tokens?per_page=1
        all GET /v1/acl/tokens?per_page=1&reverse=true
        all DELETE /v1/acl/token/#2
        all DELETE /v1/acl/token/#2
        all DELETE /v1/acl/token/short
        all GET /v1/acl/token/#2
        #3 GET /v1/acl/token/self"##,
        expect![[r##"
            all POST /v1/acl/token {"Name": "a", "Type": "client", "Policies": ["x"], "ExpirationTTL": "1h"}
                200 {"ExpirationTTL":"1h0m0s","AccessorID":"#2","SecretID":"#3","Name":"a","Type":"client","Policies":["x"],"Roles":null,"Global":false,"Hash":"qWmA/iUGzq33wNPwIf6BVP7tEMlP1P9BrPz2r1PFJWI=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":"2023-11-14T23:13:23Z","CreateIndex":3,"ModifyIndex":3}
            #3 GET /v1/acl/token/self
                200 {"ExpirationTTL":"1h0m0s","AccessorID":"#2","SecretID":"#3","Name":"a","Type":"client","Policies":["x"],"Roles":null,"Global":false,"Hash":"qWmA/iUGzq33wNPwIf6BVP7tEMlP1P9BrPz2r1PFJWI=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":"2023-11-14T23:13:23Z","CreateIndex":3,"ModifyIndex":3}
            #3 GET /v1/acl/token/#2
                200 {"ExpirationTTL":"1h0m0s","AccessorID":"#2","SecretID":"#3","Name":"a","Type":"client","Policies":["x"],"Roles":null,"Global":false,"Hash":"qWmA/iUGzq33wNPwIf6BVP7tEMlP1P9BrPz2r1PFJWI=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":"2023-11-14T23:13:23Z","CreateIndex":3,"ModifyIndex":3}
            #3 GET /v1/acl/token/#1
                403 Permission denied
            #3 GET /v1/acl/tokens
                403 Permission denied
            all PUT /v1/acl/token/#2 {"AccessorID": "#2", "Name": "b", "Type": "client", "Policies": ["y"], "ExpirationTTL": 3600000000000}
                200 {"ExpirationTTL":"1h0m0s","AccessorID":"#2","SecretID":"#3","Name":"b","Type":"client","Policies":["y"],"Roles":null,"Global":false,"Hash":"42oFyzA9D+nrmzG1plYuahQNpSS+x1zfsn22kdXLKCQ=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":"2023-11-14T23:13:23Z","CreateIndex":3,"ModifyIndex":4}
            all GET /v1/acl/tokens?filter=SecretID+==+%22#3%22
                200 [{"AccessorID":"#2","Name":"b","Type":"client","Policies":["y"],"Roles":null,"Global":false,"Hash":"42oFyzA9D+nrmzG1plYuahQNpSS+x1zfsn22kdXLKCQ=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":"2023-11-14T23:13:23Z","CreateIndex":3,"ModifyIndex":4}]
            all GET /v1/acl/tokens?per_page=1
                200 [{"AccessorID":"#1","Name":"Bootstrap Token","Type":"management","Policies":null,"Roles":null,"Global":true,"Hash":"BUJ3BerTfrqFVm1P+vZr1gz9ubOkd+JAvYjNAJyaU9Y=","CreateTime":"2023-11-14T22:13:20Z","ExpirationTime":null,"CreateIndex":2,"ModifyIndex":2}]
            all GET /v1/acl/tokens?per_page=1&reverse=true
                200 [{"AccessorID":"#2","Name":"b","Type":"client","Policies":["y"],"Roles":null,"Global":false,"Hash":"42oFyzA9D+nrmzG1plYuahQNpSS+x1zfsn22kdXLKCQ=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":"2023-11-14T23:13:23Z","CreateIndex":3,"ModifyIndex":4}]
            all DELETE /v1/acl/token/#2
                200 
            all DELETE /v1/acl/token/#2
                400 Cannot delete nonexistent tokens: #2
            all DELETE /v1/acl/token/short
                400 token lookup failed: acl token lookup failed: index error: UUID must be 36 characters
            all GET /v1/acl/token/#2
                404 ACL token not found
            #3 GET /v1/acl/token/self
                404 ACL token not found
        "##]],
    )
    .await;
}

#[tokio::test]
async fn invalid_acl_tokens_are_refused() {
    check(
        &guarded().await,
        r##"all POST /v1/acl/token
        all POST /v1/acl/token {"Type": "client"}
        all POST /v1/acl/token {"Type": "management", "Policies": ["x"], "ExpirationTTL": "1s"}
        all POST /v1/acl/token {"Type": "none", "ExpirationTTL": "-1s"}
        all POST /v1/acl/token {"Type": "client", "Policies": ["x"], "ExpirationTTL": "soon"}
        all POST /v1/acl/token {"Type": "client", "Policies": ["x"], "ExpirationTTL": true}
        all POST /v1/acl/token {"Type": "client", "Policies": "x"}
        all POST /v1/acl/token {"Type": "client", "Roles": [{"ID": 5}]}
        all POST /v1/acl/token {"AccessorID": "#9", "Type": "management"}
        all POST /v1/acl/token {"AccessorID": "short", "Type": "management"}
        all PUT /v1/acl/token/ {"Type": "management"}
        all PUT /v1/acl/token/#1 {"Type": "management"}
        all GET /v1/acl/tokens?prefix=a
        all GET /v1/acl/tokens?filter=nope"##,
        expect![[r##"
            all POST /v1/acl/token
                400 Request body is empty
            all POST /v1/acl/token {"Type": "client"}
                400 token 0 invalid: 1 error occurred:
            	* client token missing policies or roles
            all POST /v1/acl/token {"Type": "management", "Policies": ["x"], "ExpirationTTL": "1s"}
                400 token 0 invalid: 2 errors occurred:
            	* management token cannot be associated with policies or roles
            	* expiration time cannot be less than 1m0s in the future (was 1s)
            all POST /v1/acl/token {"Type": "none", "ExpirationTTL": "-1s"}
                400 token 0 invalid: 4 errors occurred:
            	* token type must be client or management
            	* token expiration TTL '-1s' should not be negative
            	* expiration time cannot be before create time
            	* expiration time cannot be less than 1m0s in the future (was -1s)
            all POST /v1/acl/token {"Type": "client", "Policies": ["x"], "ExpirationTTL": "soon"}
                400 time: invalid duration "soon"
            all POST /v1/acl/token {"Type": "client", "Policies": ["x"], "ExpirationTTL": true}
                200 {"ExpirationTTL":"","AccessorID":"#8","SecretID":"#9","Name":"","Type":"client","Policies":["x"],"Roles":null,"Global":false,"Hash":"otutRTfaCBdLO3cieLFwjQgSHEFu/ZTQKBmBZCPUQcs=","CreateTime":"2023-11-14T22:13:31Z","ExpirationTime":null,"CreateIndex":3,"ModifyIndex":3}
            all POST /v1/acl/token {"Type": "client", "Policies": "x"}
                400 json: cannot unmarshal string into Go struct field .Alias.Policies of type []string
            all POST /v1/acl/token {"Type": "client", "Roles": [{"ID": 5}]}
                400 json: cannot unmarshal number into Go struct field ACLTokenRoleLink.Alias.Roles.ID of type string
            all POST /v1/acl/token {"AccessorID": "#9", "Type": "management"}
                400 cannot find token #9
            all POST /v1/acl/token {"AccessorID": "short", "Type": "management"}
                500 token lookup failed: acl token lookup failed: index error: UUID must be 36 characters
            all PUT /v1/acl/token/ {"Type": "management"}
                400 Missing Token Accessor
            all PUT /v1/acl/token/#1 {"Type": "management"}
                400 ACL token accessor does not match request path
            all GET /v1/acl/tokens?prefix=a
                500 acl token lookup failed: index error: Input (without hyphens) must be even length
            all GET /v1/acl/tokens?filter=nope
                400 failed to create result paginator: failed to read filter expression: 1:5 (4): no match found, expected: "!=", ".", "==", "[", [ \t\r\n] or [a-zA-Z0-9_/]
        "##]],
    )
    .await;
}

#[tokio::test]
async fn role_grants_its_policies_and_may_be_renamed() {
    check(
        &guarded().await,
        r##"all PUT /v1/acl/policy/readers {"Name": "readers", "Rules": "node { policy = \"read\" }"}
        all POST /v1/acl/role {"Name": "ops", "Policies": [{"Name": "readers"}, {"Name": "readers"}]}
        all POST /v1/acl/token {"Type": "client", "Roles": [{"Name": "ops"}]}
        #4 GET /v1/nodes
        #4 GET /v1/acl/roles
        #4 GET /v1/acl/role/#2
        #4 GET /v1/acl/role/name/ops
        #4 GET /v1/acl/role/name/none
        #4 GET /v1/acl/policies
        all PUT /v1/acl/role/#2 {"ID": "#2", "Name": "crew", "Policies": [{"Name": "readers"}]}
        all GET /v1/acl/token/#3
        all GET /v1/acl/role/name/ops
        all POST /v1/acl/role {"Name": "crew", "Policies": [{"Name": "readers"}]}
        all POST /v1/acl/role {"Name": "c d", "Policies": []}
        all POST /v1/acl/role {"Name": "other", "Policies": [{"Name": "gone"}]}
        all PUT /v1/acl/role/#9 {"ID": "#9", "Name": "other", "Policies": [{"Name": "readers"}]}
        all PUT /v1/acl/role/#9 {"Name": "other", "Policies": [{"Name": "readers"}]}
        all GET /v1/acl/role/
        all GET /v1/acl/role/name/
        all GET /v1/acl/role/a/b
        all DELETE /v1/acl/role/#2
        all DELETE /v1/acl/role/#2
        all DELETE /v1/acl/role/short
        all GET /v1/acl/token/#3
        #4 GET /v1/nodes"##,
        expect![[r##"
            all PUT /v1/acl/policy/readers {"Name": "readers", "Rules": "node { policy = \"read\" }"}
                200 
            all POST /v1/acl/role {"Name": "ops", "Policies": [{"Name": "readers"}, {"Name": "readers"}]}
                200 {"ID":"#2","Name":"ops","Description":"","Policies":[{"Name":"readers"}],"Hash":"BjKpeoTtbyMN6/JPwsFLqmoDDEfn4x8Arxvsl/Mmcdo=","CreateIndex":4,"ModifyIndex":4}
            all POST /v1/acl/token {"Type": "client", "Roles": [{"Name": "ops"}]}
                200 {"ExpirationTTL":"","AccessorID":"#3","SecretID":"#4","Name":"","Type":"client","Policies":[],"Roles":[{"ID":"#2","Name":"ops"}],"Global":false,"Hash":"bP9uE1ppzNVfXW5KyCQPWGnnKkRaSB66+CfEhWKMGNs=","CreateTime":"2023-11-14T22:13:27Z","ExpirationTime":null,"CreateIndex":5,"ModifyIndex":5}
            #4 GET /v1/nodes
                200 []
            #4 GET /v1/acl/roles
                200 [{"ID":"#2","Name":"ops","Description":"","Policies":[{"Name":"readers"}],"Hash":"BjKpeoTtbyMN6/JPwsFLqmoDDEfn4x8Arxvsl/Mmcdo=","CreateIndex":4,"ModifyIndex":4}]
            #4 GET /v1/acl/role/#2
                200 {"ID":"#2","Name":"ops","Description":"","Policies":[{"Name":"readers"}],"Hash":"BjKpeoTtbyMN6/JPwsFLqmoDDEfn4x8Arxvsl/Mmcdo=","CreateIndex":4,"ModifyIndex":4}
            #4 GET /v1/acl/role/name/ops
                200 {"ID":"#2","Name":"ops","Description":"","Policies":[{"Name":"readers"}],"Hash":"BjKpeoTtbyMN6/JPwsFLqmoDDEfn4x8Arxvsl/Mmcdo=","CreateIndex":4,"ModifyIndex":4}
            #4 GET /v1/acl/role/name/none
                403 Permission denied
            #4 GET /v1/acl/policies
                200 [{"Name":"readers","Description":"","Hash":"g1ofuMGmvAK9nu/KjDNwg4HiRwpLVheqa5RTZ7g918M=","CreateIndex":3,"ModifyIndex":3}]
            all PUT /v1/acl/role/#2 {"ID": "#2", "Name": "crew", "Policies": [{"Name": "readers"}]}
                200 {"ID":"#2","Name":"crew","Description":"","Policies":[{"Name":"readers"}],"Hash":"0rvWy3RiiNrQE+9lJUeETdHyxOVQciWNHk5VoAmDzrM=","CreateIndex":4,"ModifyIndex":6}
            all GET /v1/acl/token/#3
                200 {"ExpirationTTL":"","AccessorID":"#3","SecretID":"#4","Name":"","Type":"client","Policies":[],"Roles":[{"ID":"#2","Name":"crew"}],"Global":false,"Hash":"bP9uE1ppzNVfXW5KyCQPWGnnKkRaSB66+CfEhWKMGNs=","CreateTime":"2023-11-14T22:13:27Z","ExpirationTime":null,"CreateIndex":5,"ModifyIndex":5}
            all GET /v1/acl/role/name/ops
                404 ACL role not found
            all POST /v1/acl/role {"Name": "crew", "Policies": [{"Name": "readers"}]}
                400 role with name crew already exists
            all POST /v1/acl/role {"Name": "c d", "Policies": []}
                400 role 0 invalid: 2 errors occurred:
            	* invalid name 'c d'
            	* at least one policy should be specified
            all POST /v1/acl/role {"Name": "other", "Policies": [{"Name": "gone"}]}
                400 cannot find policy gone
            all PUT /v1/acl/role/#9 {"ID": "#9", "Name": "other", "Policies": [{"Name": "readers"}]}
                400 cannot find role #9
            all PUT /v1/acl/role/#9 {"Name": "other", "Policies": [{"Name": "readers"}]}
                400 ACL role ID does not match request path
            all GET /v1/acl/role/
                400 missing ACL role ID
            all GET /v1/acl/role/name/
                400 missing ACL role name
            all GET /v1/acl/role/a/b
                400 invalid URI
            all DELETE /v1/acl/role/#2
                200 
            all DELETE /v1/acl/role/#2
                500 ACL role not found
            all DELETE /v1/acl/role/short
                500 ACL role not found
            all GET /v1/acl/token/#3
                200 {"ExpirationTTL":"","AccessorID":"#3","SecretID":"#4","Name":"","Type":"client","Policies":[],"Roles":[],"Global":false,"Hash":"bP9uE1ppzNVfXW5KyCQPWGnnKkRaSB66+CfEhWKMGNs=","CreateTime":"2023-11-14T22:13:27Z","ExpirationTime":null,"CreateIndex":5,"ModifyIndex":5}
            #4 GET /v1/nodes
                403 Permission denied
        "##]],
    )
    .await;
}

#[tokio::test]
async fn a_one_time_token_is_exchanged_once() {
    check(
        &guarded().await,
        r##"- PUT /v1/acl/token/onetime
        nonsense PUT /v1/acl/token/onetime
        #9 PUT /v1/acl/token/onetime
        all PUT /v1/acl/token/onetime
        - PUT /v1/acl/token/onetime/exchange {"OneTimeSecretID": "#2"}
        - PUT /v1/acl/token/onetime/exchange {"OneTimeSecretID": "#2"}
        - PUT /v1/acl/token/onetime/exchange
        - PUT /v1/acl/token/onetime/exchange {}
        - PUT /v1/acl/token/onetime/exchange {"OneTimeSecretID": "short"}"##,
        expect![[r##"
            - PUT /v1/acl/token/onetime
                500 acl token lookup failed: missing secret id
            nonsense PUT /v1/acl/token/onetime
                500 acl token lookup failed: index error: UUID must be 36 characters
            #9 PUT /v1/acl/token/onetime
                403 Permission denied
            all PUT /v1/acl/token/onetime
                200 {"OneTimeToken":{"OneTimeSecretID":"#2","AccessorID":"#1","ExpiresAt":"2023-11-14T22:23:24Z","CreateIndex":3,"ModifyIndex":3},"Index":3}
            - PUT /v1/acl/token/onetime/exchange {"OneTimeSecretID": "#2"}
                200 {"Token":{"ExpirationTTL":"","AccessorID":"#1","SecretID":"2b778dd9-f5f1-6f29-b4b4-9a5fa948757a","Name":"Bootstrap Token","Type":"management","Policies":null,"Roles":null,"Global":true,"Hash":"BUJ3BerTfrqFVm1P+vZr1gz9ubOkd+JAvYjNAJyaU9Y=","CreateTime":"2023-11-14T22:13:20Z","ExpirationTime":null,"CreateIndex":2,"ModifyIndex":2},"Index":4}
            - PUT /v1/acl/token/onetime/exchange {"OneTimeSecretID": "#2"}
                403 Permission denied
            - PUT /v1/acl/token/onetime/exchange
                400 Request body is empty
            - PUT /v1/acl/token/onetime/exchange {}
                500 one-time token lookup failed: missing secret
            - PUT /v1/acl/token/onetime/exchange {"OneTimeSecretID": "short"}
                500 one-time token lookup failed: index error: UUID must be 36 characters
        "##]],
    )
    .await;
}

#[tokio::test]
async fn acl_routes_look_at_path_and_body_and_then_say_that_acls_are_disabled() {
    check(
        &Memory::new(),
        "- GET /v1/acl/policies
        - PUT /v1/acl/bootstrap
        - GET /v1/acl/token/self
        - PUT /v1/acl/policies
        - PUT /v1/acl/policy/x {}
        - PUT /v1/acl/policy/x {\"Name\": \"x\", \"Rules\": \"wrong\"}
        - GET /v1/acl/policy/
        - GET /v1/acl/role/
        - GET /v1/acl/role/name/
        - PUT /v1/acl/role
        - PUT /v1/acl/role {}
        - DELETE /v1/acl/token/
        - PUT /v1/acl/auth-method/x {\"Name\": \"y\"}
        - DELETE /v1/acl/binding-rule/x",
        expect![[r#"
            - GET /v1/acl/policies
                400 ACL support disabled
            - PUT /v1/acl/bootstrap
                400 ACL support disabled
            - GET /v1/acl/token/self
                400 ACL support disabled
            - PUT /v1/acl/policies
                405 Invalid method
            - PUT /v1/acl/policy/x {}
                400 ACL policy name does not match request path
            - PUT /v1/acl/policy/x {"Name": "x", "Rules": "wrong"}
                400 ACL support disabled
            - GET /v1/acl/policy/
                400 Missing Policy Name
            - GET /v1/acl/role/
                400 missing ACL role ID
            - GET /v1/acl/role/name/
                400 missing ACL role name
            - PUT /v1/acl/role
                400 Request body is empty
            - PUT /v1/acl/role {}
                400 ACL support disabled
            - DELETE /v1/acl/token/
                400 Missing Token Accessor
            - PUT /v1/acl/auth-method/x {"Name": "y"}
                400 ACL auth-method name does not match request path
            - DELETE /v1/acl/binding-rule/x
                400 ACL support disabled
        "#]],
    )
    .await;
}
