//! Requests that the authoritative region answers, whatever region they come to, and those that stay. The replication of
//! what is written there is not here.

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::{Expect, expect};
use parking_lot::Mutex;
use songline_api::{Agent as _, Reads as _};
use songline_commands::{RegisterJob, UpsertAclAuthMethods, UpsertAclTokens, UpsertNamespaces};
use songline_model::{AclAuthMethod, AclAuthMethodKind, AclToken, Job, JobStatus, Namespace, Time, TokenLocality};

use crate::acl::guarded;
use crate::server::Memory;

/// The authoritative region of each other region.
#[derive(Default)]
pub struct Elsewhere {
    authoritative: Mutex<BTreeMap<String, String>>,
}

impl Elsewhere {
    /// Names of the regions that take `region` for their authoritative one.
    pub fn followers_of(&self, region: &str) -> Vec<String> {
        let regions = self.authoritative.lock();
        let follow = regions.iter().filter(|(_, authoritative)| *authoritative == region);
        follow.map(|(name, _)| name.clone()).collect()
    }
}

/// Makes the server of another region known to one.
fn knows(server: &Memory, other: &Arc<Memory>) {
    let info = other.info();
    server.place.knows_region(&info.region, other);
    server.elsewhere.authoritative.lock().insert(info.region.clone(), info.authoritative_region.clone());
}

/// Two regions that know each other. `east` is the authoritative region of both; the management token is in both.
async fn federation() -> (Arc<Memory>, Arc<Memory>) {
    let east = guarded().await.in_region("east", "east");
    let west = Memory::guarded().in_region("west", "east");
    knows(&east, &west);
    knows(&west, &east);
    replicate_tokens(&east, &west);
    (east, west)
}

/// Copies the global tokens, as the leader of `west` does.
fn replicate_tokens(east: &Memory, west: &Memory) {
    let tokens = east.view().acl_tokens().filter(|token| token.global).map(|token| AclToken::clone(token)).collect();
    west.run(UpsertAclTokens { tokens });
}

async fn check(server: &Arc<Memory>, story: &str, expected: Expect) {
    crate::acl::check(server, story, expected).await;
}

#[tokio::test]
async fn shared_objects_are_written_in_the_authoritative_region() {
    let (_east, west) = federation().await;
    check(
        &west,
        r#"- PUT /v1/acl/bootstrap
        - PUT /v1/acl/policy/p {"Name": "p", "Rules": "node { policy = \"read\" }"}
        all PUT /v1/acl/policy/p {"Name": "p", "Rules": "node { policy = \"read\" }"}
        all GET /v1/acl/policies
        all GET /v1/acl/policies?region=east
        all PUT /v1/acl/role {"Name": "r", "Policies": [{"Name": "p"}]}
        all PUT /v1/quota {"Name": "q"}
        all PUT /v1/namespace?region=west {"Name": "n", "Quota": "q"}
        all PUT /v1/namespace?region=mars {"Name": "n", "Quota": "q"}
        all PUT /v1/node/pools {"Name": "pool"}
        all GET /v1/namespaces?prefix=n
        all GET /v1/namespaces?prefix=n&region=east
        all DELETE /v1/node/pool/pool
        all DELETE /v1/acl/policy/p"#,
        expect![[r##"
            - PUT /v1/acl/bootstrap
                400 ACL bootstrap already done (reset index: 2)
            - PUT /v1/acl/policy/p {"Name": "p", "Rules": "node { policy = \"read\" }"}
                403 Permission denied
            all PUT /v1/acl/policy/p {"Name": "p", "Rules": "node { policy = \"read\" }"}
                200 
            all GET /v1/acl/policies
                200 []
            all GET /v1/acl/policies?region=east
                200 [{"Name":"p","Description":"","Hash":"PHT5rXLC63SZ5Pd03Kk5RGWrIFkBIze05U77FzKAjPI=","CreateIndex":3,"ModifyIndex":3}]
            all PUT /v1/acl/role {"Name": "r", "Policies": [{"Name": "p"}]}
                200 {"ID":"#2","Name":"r","Description":"","Policies":[{"Name":"p"}],"Hash":"uz6U3e5kqkEAprAbJQKR5pXPRRrJsNcrkImZ1vCWXAQ=","CreateIndex":4,"ModifyIndex":4}
            all PUT /v1/quota {"Name": "q"}
                200 
            all PUT /v1/namespace?region=west {"Name": "n", "Quota": "q"}
                200 
            all PUT /v1/namespace?region=mars {"Name": "n", "Quota": "q"}
                200 
            all PUT /v1/node/pools {"Name": "pool"}
                200 
            all GET /v1/namespaces?prefix=n
                200 []
            all GET /v1/namespaces?prefix=n&region=east
                200 [{"Name":"n","Description":"","Quota":"q","Capabilities":null,"NodePoolConfiguration":null,"Meta":null,"Hash":"k9BNrKCW5q4hyJ2WPkSbvkASQXZ7X1u7h+/AsClRw7I=","CreateIndex":6,"ModifyIndex":7}]
            all DELETE /v1/node/pool/pool
                200 
            all DELETE /v1/acl/policy/p
                200 
        "##]],
    )
    .await;
}

#[tokio::test]
async fn local_tokens_stay_and_global_ones_go_to_the_authoritative_region() {
    let (east, west) = federation().await;
    check(
        &west,
        r#"all PUT /v1/acl/token {"Name": "here", "Type": "management"}
        all PUT /v1/acl/token {"Name": "all", "Type": "management", "Global": true}
        all PUT /v1/acl/token {"Global": "no"}
        all GET /v1/acl/tokens
        all GET /v1/acl/tokens?region=east
        all PUT /v1/acl/token?region=east {"Name": "there", "Type": "management"}"#,
        expect![[r##"
            all PUT /v1/acl/token {"Name": "here", "Type": "management"}
                200 {"ExpirationTTL":"","AccessorID":"#11","SecretID":"#12","Name":"here","Type":"management","Policies":null,"Roles":null,"Global":false,"Hash":"rxhJ5KnwwOK2oMk9adUl5kBcfDSp7b3ZNCbRFlOe1W4=","CreateTime":"2023-11-14T22:13:22Z","ExpirationTime":null,"CreateIndex":3,"ModifyIndex":3}
            all PUT /v1/acl/token {"Name": "all", "Type": "management", "Global": true}
                200 {"ExpirationTTL":"","AccessorID":"#2","SecretID":"#3","Name":"all","Type":"management","Policies":null,"Roles":null,"Global":true,"Hash":"GBRo0iQk1g9xMi+Au8/q40RPThI3DydeTRJfGlzaZjo=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":null,"CreateIndex":3,"ModifyIndex":3}
            all PUT /v1/acl/token {"Global": "no"}
                400 json: cannot unmarshal string into Go struct field .Alias.Global of type bool
            all GET /v1/acl/tokens
                200 [{"AccessorID":"#1","Name":"Bootstrap Token","Type":"management","Policies":null,"Roles":null,"Global":true,"Hash":"BUJ3BerTfrqFVm1P+vZr1gz9ubOkd+JAvYjNAJyaU9Y=","CreateTime":"2023-11-14T22:13:20Z","ExpirationTime":null,"CreateIndex":2,"ModifyIndex":2},{"AccessorID":"#11","Name":"here","Type":"management","Policies":null,"Roles":null,"Global":false,"Hash":"rxhJ5KnwwOK2oMk9adUl5kBcfDSp7b3ZNCbRFlOe1W4=","CreateTime":"2023-11-14T22:13:22Z","ExpirationTime":null,"CreateIndex":3,"ModifyIndex":3}]
            all GET /v1/acl/tokens?region=east
                200 [{"AccessorID":"#1","Name":"Bootstrap Token","Type":"management","Policies":null,"Roles":null,"Global":true,"Hash":"BUJ3BerTfrqFVm1P+vZr1gz9ubOkd+JAvYjNAJyaU9Y=","CreateTime":"2023-11-14T22:13:20Z","ExpirationTime":null,"CreateIndex":2,"ModifyIndex":2},{"AccessorID":"#2","Name":"all","Type":"management","Policies":null,"Roles":null,"Global":true,"Hash":"GBRo0iQk1g9xMi+Au8/q40RPThI3DydeTRJfGlzaZjo=","CreateTime":"2023-11-14T22:13:23Z","ExpirationTime":null,"CreateIndex":3,"ModifyIndex":3}]
            all PUT /v1/acl/token?region=east {"Name": "there", "Type": "management"}
                200 {"ExpirationTTL":"","AccessorID":"#4","SecretID":"#5","Name":"there","Type":"management","Policies":null,"Roles":null,"Global":false,"Hash":"cQgRcV1IqyP3+vpbYaIsg5+K3il5EeM5XkyoFp8K2+s=","CreateTime":"2023-11-14T22:13:27Z","ExpirationTime":null,"CreateIndex":4,"ModifyIndex":4}
        "##]],
    )
    .await;
    replicate_tokens(&east, &west);
    check(
        &west,
        r#"all DELETE /v1/acl/token/#2
        all GET /v1/acl/tokens?region=east
        all DELETE /v1/acl/token/#11"#,
        expect![[r##"
            all DELETE /v1/acl/token/#2
                200 
            all GET /v1/acl/tokens?region=east
                200 [{"AccessorID":"#1","Name":"Bootstrap Token","Type":"management","Policies":null,"Roles":null,"Global":true,"Hash":"BUJ3BerTfrqFVm1P+vZr1gz9ubOkd+JAvYjNAJyaU9Y=","CreateTime":"2023-11-14T22:13:20Z","ExpirationTime":null,"CreateIndex":2,"ModifyIndex":2},{"AccessorID":"#4","Name":"there","Type":"management","Policies":null,"Roles":null,"Global":false,"Hash":"cQgRcV1IqyP3+vpbYaIsg5+K3il5EeM5XkyoFp8K2+s=","CreateTime":"2023-11-14T22:13:27Z","ExpirationTime":null,"CreateIndex":4,"ModifyIndex":4}]
            all DELETE /v1/acl/token/#11
                200 
        "##]],
    )
    .await;
}

#[tokio::test]
async fn logins_of_global_methods_are_answered_by_the_authoritative_region() {
    let (_east, west) = federation().await;
    for (name, token_locality) in [("everywhere", TokenLocality::Global), ("here", TokenLocality::Local)] {
        let method = AclAuthMethod {
            name: name.into(),
            kind: AclAuthMethodKind::Jwt,
            token_locality,
            create_time: Time::from_secs(1),
            modify_time: Time::from_secs(1),
            ..AclAuthMethod::default()
        };
        let hash = Some(method.compute_hash());
        west.run(UpsertAclAuthMethods { auth_methods: vec![AclAuthMethod { hash, ..method }] });
    }
    // The authoritative region has neither method, and says so.
    check(
        &west,
        r#"- POST /v1/acl/login {"AuthMethodName": "everywhere", "LoginToken": "x"}
        - POST /v1/acl/login {"AuthMethodName": "everywhere", "LoginToken": "x", "Region": "west"}
        - POST /v1/acl/login {"AuthMethodName": "here", "LoginToken": "x"}"#,
        expect![[r#"
            - POST /v1/acl/login {"AuthMethodName": "everywhere", "LoginToken": "x"}
                400 auth-method "everywhere" not found
            - POST /v1/acl/login {"AuthMethodName": "everywhere", "LoginToken": "x", "Region": "west"}
                400 auth-method "everywhere" not found
            - POST /v1/acl/login {"AuthMethodName": "here", "LoginToken": "x"}
                400 missing auth method Config
        "#]],
    )
    .await;
}

#[tokio::test]
async fn namespace_with_jobs_in_a_following_region_is_not_deleted() {
    let (east, west) = federation().await;
    let namespace = Namespace { name: "n".into(), ..Namespace::default() };
    for region in [&east, &west] {
        region.run(UpsertNamespaces { namespaces: vec![namespace.clone()] });
    }
    let job = Job { id: "web".into(), namespace: "n".into(), status: JobStatus::Running, ..Job::default() };
    west.run(RegisterJob { job: Arc::new(job), ..RegisterJob::default() });
    check(
        &west,
        "all DELETE /v1/namespace/n",
        expect![[r#"
        all DELETE /v1/namespace/n
            500 1 error occurred:
        	* namespace "n" has non-terminal jobs in regions: [west]
    "#]],
    )
    .await;
    drop(west);
    check(
        &east,
        "all DELETE /v1/namespace/n",
        expect![[r#"
            all DELETE /v1/namespace/n
                500 rpc error: failed to get conn: connection refused
        "#]],
    )
    .await;
}

#[tokio::test]
async fn without_the_authoritative_region_shared_objects_are_read_only() {
    let (east, west) = federation().await;
    drop(east);
    check(
        &west,
        r#"all PUT /v1/namespace {"Name": "n"}
        all PUT /v1/acl/token {"Type": "management", "Global": true}
        all PUT /v1/acl/token {"Type": "management"}
        all GET /v1/namespaces"#,
        expect![[r##"
            all PUT /v1/namespace {"Name": "n"}
                500 rpc error: failed to get conn: connection refused
            all PUT /v1/acl/token {"Type": "management", "Global": true}
                500 rpc error: failed to get conn: connection refused
            all PUT /v1/acl/token {"Type": "management"}
                200 {"ExpirationTTL":"","AccessorID":"#11","SecretID":"#12","Name":"","Type":"management","Policies":null,"Roles":null,"Global":false,"Hash":"jckQe/qabhRHZYeJSCXqnkyXdtqTuNj7Kw/nhRrJ/Cw=","CreateTime":"2023-11-14T22:13:22Z","ExpirationTime":null,"CreateIndex":3,"ModifyIndex":3}
            all GET /v1/namespaces
                200 [{"Name":"default","Description":"Default shared namespace","Quota":"","Capabilities":null,"NodePoolConfiguration":null,"Meta":null,"Hash":"C7UbjDwBK0dK8wQq7Izg7SJIzaV+lIo2X7wRtzY3pSw=","CreateIndex":1,"ModifyIndex":1}]
        "##]],
    )
    .await;
    let unmet = Memory::new().in_region("west", "east");
    check(
        &unmet,
        r#"- PUT /v1/namespace {"Name": "n"}
        - PUT /v1/acl/policy/p {"Name": "p"}
        - PUT /v1/acl/bootstrap"#,
        expect![[r#"
            - PUT /v1/namespace {"Name": "n"}
                500 No path to region
            - PUT /v1/acl/policy/p {"Name": "p"}
                400 ACL support disabled
            - PUT /v1/acl/bootstrap
                400 ACL support disabled
        "#]],
    )
    .await;
}

#[tokio::test]
async fn regions_that_take_each_other_for_authoritative_refuse_writes() {
    let (east, west) = (Memory::new().in_region("east", "west"), Memory::new().in_region("west", "east"));
    knows(&east, &west);
    knows(&west, &east);
    check(&west, r#"- PUT /v1/namespace {"Name": "n"}"#, expect![[r#"
        - PUT /v1/namespace {"Name": "n"}
            500 region "east" is not authoritative, although region "west" takes it for that: its own authoritative region is "west"; set server { authoritative_region } to the same region everywhere
    "#]]).await;
}
