//! Variables and root keys over HTTP.

use expect_test::expect;

use crate::server::{Memory, check};

#[tokio::test]
async fn a_variable_is_written_read_listed_and_deleted() {
    check(
        &Memory::new(),
        r#"PUT /v1/operator/keyring/rotate
        PUT /v1/var/app/db {"Namespace": "dev", "Path": "other", "ModifyIndex": 9, "Items": {"user": "u", "password": null}}
        GET /v1/var/app/db?namespace=dev
        GET /v1/var/app/db
        POST /v1/var/app/db {"Items": {"k": "v"}}
        GET /v1/vars?prefix=app&namespace=*&per_page=1
        GET /v1/vars?prefix=app&namespace=*&per_page=1&next_token=dev.app/db
        GET /v1/vars?filter=VariableMetadata.ModifyIndex==4
        GET /v1/vars?filter=VariableData.Data+is+not+empty
        DELETE /v1/var/app/db?namespace=dev
        DELETE /v1/var/app/db?namespace=dev
        GET /v1/vars?namespace=dev"#,
        expect![[r#"
            PUT /v1/operator/keyring/rotate
                200 @2 {"Key":{"KeyID":"09090909-0909-0909-0909-090909090909","Algorithm":"aes256-gcm","CreateTime":1,"CreateIndex":0,"ModifyIndex":0,"State":"active"},"Index":2}
            PUT /v1/var/app/db {"Namespace": "dev", "Path": "other", "ModifyIndex": 9, "Items": {"user": "u", "p
                200 @3 {"Namespace":"dev","Path":"app/db","CreateIndex":3,"CreateTime":1700000001000000000,"ModifyIndex":3,"ModifyTime":1700000001000000000,"Items":{"password":"","user":"u"}}
            GET /v1/var/app/db?namespace=dev
                200 @3 {"Namespace":"dev","Path":"app/db","CreateIndex":3,"CreateTime":1700000001000000000,"ModifyIndex":3,"ModifyTime":1700000001000000000,"Items":{"password":"","user":"u"}}
            GET /v1/var/app/db
                404 @3 variable not found
            POST /v1/var/app/db {"Items": {"k": "v"}}
                200 @4 {"Namespace":"default","Path":"app/db","CreateIndex":4,"CreateTime":1700000003000000000,"ModifyIndex":4,"ModifyTime":1700000003000000000,"Items":{"k":"v"}}
            GET /v1/vars?prefix=app&namespace=*&per_page=1
                200 @4 next=dev.app/db [{"Namespace":"default","Path":"app/db","CreateIndex":4,"CreateTime":1700000003000000000,"ModifyIndex":4,"ModifyTime":1700000003000000000}]
            GET /v1/vars?prefix=app&namespace=*&per_page=1&next_token=dev.app/db
                200 @4 [{"Namespace":"dev","Path":"app/db","CreateIndex":3,"CreateTime":1700000001000000000,"ModifyIndex":3,"ModifyTime":1700000001000000000}]
            GET /v1/vars?filter=VariableMetadata.ModifyIndex==4
                200 @4 [{"Namespace":"default","Path":"app/db","CreateIndex":4,"CreateTime":1700000003000000000,"ModifyIndex":4,"ModifyTime":1700000003000000000}]
            GET /v1/vars?filter=VariableData.Data+is+not+empty
                200 @4 []
            DELETE /v1/var/app/db?namespace=dev
                204 @5 
            DELETE /v1/var/app/db?namespace=dev
                204 @6 
            GET /v1/vars?namespace=dev
                200 @5 []
        "#]],
    )
    .await;
}

#[tokio::test]
async fn variable_cas_with_a_wrong_index_answers_409_with_the_stored_variable() {
    check(
        &Memory::new(),
        r#"PUT /v1/operator/keyring/rotate
        PUT /v1/var/a?cas=7 {"Items": {"k": "1"}}
        PUT /v1/var/a?cas=0 {"Items": {"k": "1"}}
        PUT /v1/var/a?cas=0 {"Items": {"k": "2"}}
        PUT /v1/var/a?cas=4 {"Items": {"k": "3"}}
        DELETE /v1/var/a?cas=4
        DELETE /v1/var/a?cas=6
        DELETE /v1/var/a?cas=6"#,
        expect![[r#"
            PUT /v1/operator/keyring/rotate
                200 @2 {"Key":{"KeyID":"09090909-0909-0909-0909-090909090909","Algorithm":"aes256-gcm","CreateTime":1,"CreateIndex":0,"ModifyIndex":0,"State":"active"},"Index":2}
            PUT /v1/var/a?cas=7 {"Items": {"k": "1"}}
                409 @0 {"Namespace":"default","Path":"a","CreateIndex":0,"CreateTime":0,"ModifyIndex":0,"ModifyTime":0,"Items":null}
            PUT /v1/var/a?cas=0 {"Items": {"k": "1"}}
                200 @4 {"Namespace":"default","Path":"a","CreateIndex":4,"CreateTime":1700000003000000000,"ModifyIndex":4,"ModifyTime":1700000003000000000,"Items":{"k":"1"}}
            PUT /v1/var/a?cas=0 {"Items": {"k": "2"}}
                409 @4 {"Namespace":"default","Path":"a","CreateIndex":4,"CreateTime":1700000003000000000,"ModifyIndex":4,"ModifyTime":1700000003000000000,"Items":{"k":"1"}}
            PUT /v1/var/a?cas=4 {"Items": {"k": "3"}}
                200 @6 {"Namespace":"default","Path":"a","CreateIndex":4,"CreateTime":1700000003000000000,"ModifyIndex":6,"ModifyTime":1700000007000000000,"Items":{"k":"3"}}
            DELETE /v1/var/a?cas=4
                409 @6 {"Namespace":"default","Path":"a","CreateIndex":4,"CreateTime":1700000003000000000,"ModifyIndex":6,"ModifyTime":1700000007000000000,"Items":{"k":"3"}}
            DELETE /v1/var/a?cas=6
                204 @8 
            DELETE /v1/var/a?cas=6
                409 @0 {"Namespace":"default","Path":"a","CreateIndex":0,"CreateTime":0,"ModifyIndex":0,"ModifyTime":0,"Items":null}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn invalid_variables_are_refused_before_anything_is_written() {
    let server = Memory::new();
    check(
        &server,
        r#"PUT /v1/var/a {"Items": {"k": "1"}}
        PUT /v1/operator/keyring/rotate
        PUT /v1/var/
        HEAD /v1/var/a
        PATCH /v1/var/a
        PUT /v1/var/a
        PUT /v1/var/a {}
        PUT /v1/var/a?cas=x {"Items": {}}
        PUT /v1/var/a?cas=-1 {"Items": {"k": "1"}}
        PUT /v1/var/a?cas=18446744073709551616 {"Items": {"k": "1"}}
        PUT /v1/var/a {"Items": {"k": 1}}
        PUT /v1/var/a?namespace=* {"Items": {"k": "1"}}
        PUT /v1/var/a.b {"Items": {"k": "1"}}
        PUT /v1/var/nomad/x {"Items": {"k": "1"}}
        GET /v1/vars"#,
        expect![[r#"
            PUT /v1/var/a {"Items": {"k": "1"}}
                500 no such key "09090909-0909-0909-0909-090909090909" in keyring
            PUT /v1/operator/keyring/rotate
                200 @3 {"Key":{"KeyID":"09090909-0909-0909-0909-090909090909","Algorithm":"aes256-gcm","CreateTime":1,"CreateIndex":0,"ModifyIndex":0,"State":"active"},"Index":3}
            PUT /v1/var/
                400 missing variable path
            HEAD /v1/var/a
                400 Invalid method
            PATCH /v1/var/a
                400 Invalid method
            PUT /v1/var/a
                400 Request body is empty
            PUT /v1/var/a {}
                400 variable missing required Items object
            PUT /v1/var/a?cas=x {"Items": {}}
                400 variable missing required Items object
            PUT /v1/var/a?cas=-1 {"Items": {"k": "1"}}
                400 can not parse cas: strconv.ParseUint: parsing "-1": invalid syntax
            PUT /v1/var/a?cas=18446744073709551616 {"Items": {"k": "1"}}
                400 can not parse cas: strconv.ParseUint: parsing "18446744073709551616": value out of range
            PUT /v1/var/a {"Items": {"k": 1}}
                400 json: cannot unmarshal number into Go struct field VariableDecrypted.Items of type string
            PUT /v1/var/a?namespace=* {"Items": {"k": "1"}}
                500 @0 can not target wildcard ("*")namespace
            PUT /v1/var/a.b {"Items": {"k": "1"}}
                500 @0 invalid path "a.b"
            PUT /v1/var/nomad/x {"Items": {"k": "1"}}
                500 @0 only paths at "nomad/jobs" or "nomad/job-templates" and below are valid paths under the top-level "nomad" directory
            GET /v1/vars
                200 @1 []
        "#]],
    )
    .await;
    let largest = format!("PUT /v1/var/large {}", serde_json::json!({"Items": {"k": "x".repeat(65535)}}));
    let larger = format!("PUT /v1/var/larger {}", serde_json::json!({"Items": {"k": "x".repeat(65536)}}));
    assert_eq!(crate::server::answer(&server, &largest).await.status(), 200);
    let refused = crate::server::answer(&server, &larger).await;
    assert_eq!(refused.status(), 500);
    assert_eq!(crate::server::text(refused).await, "variables are limited to 64KiB in total size");
    let far_too_large = format!("PUT /v1/var/larger {}", "x".repeat(600 << 10));
    assert_eq!(crate::server::answer(&server, &far_too_large).await.status(), 413);
}

#[tokio::test]
async fn root_keys_are_listed_rotated_and_deleted_without_their_material() {
    check(
        &Memory::new(),
        "GET /v1/operator/keyring/keys
        PUT /v1/operator/keyring/rotate?full
        PUT /v1/operator/keyring/rotate
        GET /v1/operator/keyring/keys
        DELETE /v1/operator/keyring/key/09090909-0909-0909-0909-090909090909
        DELETE /v1/operator/keyring/key/nope
        DELETE /v1/operator/keyring/key/
        GET /v1/operator/keyring/other
        DELETE /v1/operator/keyring/keys",
        expect![[r#"
            GET /v1/operator/keyring/keys
                200 @0 []
            PUT /v1/operator/keyring/rotate?full
                200 @2 {"Key":{"KeyID":"09090909-0909-0909-0909-090909090909","Algorithm":"aes256-gcm","CreateTime":1,"CreateIndex":0,"ModifyIndex":0,"State":"active"},"Index":2}
            PUT /v1/operator/keyring/rotate
                200 @3 {"Key":{"KeyID":"09090909-0909-0909-0909-090909090909","Algorithm":"aes256-gcm","CreateTime":1,"CreateIndex":0,"ModifyIndex":0,"State":"active"},"Index":3}
            GET /v1/operator/keyring/keys
                200 @3 [{"KeyID":"09090909-0909-0909-0909-090909090909","Algorithm":"aes256-gcm","CreateTime":1,"CreateIndex":2,"ModifyIndex":3,"State":"active"}]
            DELETE /v1/operator/keyring/key/09090909-0909-0909-0909-090909090909
                500 active root key cannot be deleted - call rotate first
            DELETE /v1/operator/keyring/key/nope
                200 @0 {"Index":0}
            DELETE /v1/operator/keyring/key/
                500 root key ID is required
            GET /v1/operator/keyring/other
                405 Invalid method
            DELETE /v1/operator/keyring/keys
                405 Invalid method
        "#]],
    )
    .await;
}

#[tokio::test]
async fn variable_write_retried_under_its_key_gets_the_first_answer() {
    check(
        &Memory::new(),
        r#"PUT /v1/operator/keyring/rotate
        PUT /v1/var/a [Idempotency-Key: one] {"Items": {"k": "1"}}
        PUT /v1/var/a {"Items": {"k": "2"}}
        PUT /v1/var/a [Idempotency-Key: one] {"Items": {"k": "1"}}
        PUT /v1/var/a [Idempotency-Key: one] {"Items": {"k": "3"}}
        GET /v1/var/a"#,
        expect![[r#"
            PUT /v1/operator/keyring/rotate
                200 @2 {"Key":{"KeyID":"09090909-0909-0909-0909-090909090909","Algorithm":"aes256-gcm","CreateTime":1,"CreateIndex":0,"ModifyIndex":0,"State":"active"},"Index":2}
            PUT /v1/var/a [Idempotency-Key: one] {"Items": {"k": "1"}}
                200 @3 {"Namespace":"default","Path":"a","CreateIndex":3,"CreateTime":1700000002000000000,"ModifyIndex":3,"ModifyTime":1700000002000000000,"Items":{"k":"1"}}
            PUT /v1/var/a {"Items": {"k": "2"}}
                200 @4 {"Namespace":"default","Path":"a","CreateIndex":3,"CreateTime":1700000002000000000,"ModifyIndex":4,"ModifyTime":1700000004000000000,"Items":{"k":"2"}}
            PUT /v1/var/a [Idempotency-Key: one] {"Items": {"k": "1"}}
                200 @3 {"Namespace":"default","Path":"a","CreateIndex":3,"CreateTime":1700000002000000000,"ModifyIndex":3,"ModifyTime":1700000002000000000,"Items":{"k":"1"}}
            PUT /v1/var/a [Idempotency-Key: one] {"Items": {"k": "3"}}
                409 idempotency key "one" was used with another request
            GET /v1/var/a
                200 @4 {"Namespace":"default","Path":"a","CreateIndex":3,"CreateTime":1700000002000000000,"ModifyIndex":4,"ModifyTime":1700000004000000000,"Items":{"k":"2"}}
        "#]],
    )
    .await;
}

#[tokio::test]
async fn search_finds_variables_by_path() {
    check(
        &Memory::new(),
        r#"PUT /v1/operator/keyring/rotate
        PUT /v1/var/app/db {"Items": {"k": "1"}}
        PUT /v1/var/app/mail?namespace=dev {"Items": {"k": "1"}}
        PUT /v1/search {"Prefix": "app/", "Context": "vars"}
        PUT /v1/search/fuzzy {"Text": "ai", "Context": "vars", "Namespace": "dev"}"#,
        expect![[r#"
            PUT /v1/operator/keyring/rotate
                200 @2 {"Key":{"KeyID":"09090909-0909-0909-0909-090909090909","Algorithm":"aes256-gcm","CreateTime":1,"CreateIndex":0,"ModifyIndex":0,"State":"active"},"Index":2}
            PUT /v1/var/app/db {"Items": {"k": "1"}}
                200 @3 {"Namespace":"default","Path":"app/db","CreateIndex":3,"CreateTime":1700000001000000000,"ModifyIndex":3,"ModifyTime":1700000001000000000,"Items":{"k":"1"}}
            PUT /v1/var/app/mail?namespace=dev {"Items": {"k": "1"}}
                200 @4 {"Namespace":"dev","Path":"app/mail","CreateIndex":4,"CreateTime":1700000003000000000,"ModifyIndex":4,"ModifyTime":1700000003000000000,"Items":{"k":"1"}}
            PUT /v1/search {"Prefix": "app/", "Context": "vars"}
                200 @4 {"Matches":{"vars":["app/db","app/mail"]},"Truncations":{"vars":false},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search/fuzzy {"Text": "ai", "Context": "vars", "Namespace": "dev"}
                200 @4 {"Matches":{"vars":[{"ID":"app/mail","Scope":["dev","app/mail"]}]},"Truncations":{"vars":false},"Index":4,"LastContact":0,"KnownLeader":true,"NextToken":""}
        "#]],
    )
    .await;
}
