//! Namespaces, and behaviour that all routes share.

use expect_test::expect;

use crate::server::{Memory, check};

#[tokio::test]
async fn a_namespace_is_made_read_changed_and_deleted() {
    check(
        &Memory::new(),
        r#"PUT /v1/namespace {"Name": "dev"}
        GET /v1/namespace/dev
        POST /v1/namespace/dev {"name": "dev", "DESCRIPTION": "two", "Meta": {"a": "1"}}
        GET /v1/namespaces?prefix=d
        DELETE /v1/namespace/dev
        GET /v1/namespace/dev
        DELETE /v1/namespace/dev"#,
        expect![[r#"
            PUT /v1/namespace {"Name": "dev"}
                200 @2 
            GET /v1/namespace/dev
                200 @2 {"Name":"dev","Description":"","Quota":"","Capabilities":null,"NodePoolConfiguration":null,"Meta":null,"Hash":"CNkP07PWwT8Z6IwgrBHBq2egxnricV8P/4pqiSNJX6w=","CreateIndex":2,"ModifyIndex":2}
            POST /v1/namespace/dev {"name": "dev", "DESCRIPTION": "two", "Meta": {"a": "1"}}
                200 @3 
            GET /v1/namespaces?prefix=d
                200 @3 [{"Name":"default","Description":"Default shared namespace","Quota":"","Capabilities":null,"NodePoolConfiguration":null,"Meta":null,"Hash":"C7UbjDwBK0dK8wQq7Izg7SJIzaV+lIo2X7wRtzY3pSw=","CreateIndex":1,"ModifyIndex":1},{"Name":"dev","Description":"two","Quota":"","Capabilities":null,"NodePoolConfiguration":null,"Meta":{"a":"1"},"Hash":"aqMlbL1q6PZDWUA6P5U2H5h5AxEZk7yqrqpvC86w4TQ=","CreateIndex":2,"ModifyIndex":3}]
            DELETE /v1/namespace/dev
                200 @4 
            GET /v1/namespace/dev
                404 @4 Namespace not found
            DELETE /v1/namespace/dev
                200 @5 
        "#]],
    )
    .await;
}

#[tokio::test]
async fn invalid_namespace_requests_are_refused() {
    check(
        &Memory::new(),
        r#"PUT /v1/namespace
        PUT /v1/namespace [
        PUT /v1/namespace {"Name": "a b", "NodePoolConfiguration": {}}
        PUT /v1/namespace {"Name": "dev", "Quota": "q"}
        PUT /v1/namespace/dev {"Name": "other"}
        PUT /v1/namespace/ {"Name": "other"}
        DELETE /v1/namespace/default
        PATCH /v1/namespace/default
        GET /v1/namespaces?region=mars
        GET /v1/namespaces?index=x"#,
        expect![[r#"
            PUT /v1/namespace
                400 Request body is empty
            PUT /v1/namespace [
                400 unexpected EOF
            PUT /v1/namespace {"Name": "a b", "NodePoolConfiguration": {}}
                500 Invalid namespace "a b": 2 errors occurred:
            	* invalid name "a b". Must match regex ^[a-zA-Z0-9-]{1,128}$
            	* invalid node pool configuration: Node Pools Governance is unlicensed.
            PUT /v1/namespace {"Name": "dev", "Quota": "q"}
                500 namespace "dev" using non-existent quota "q"
            PUT /v1/namespace/dev {"Name": "other"}
                400 Namespace name does not match request path
            PUT /v1/namespace/ {"Name": "other"}
                400 Missing Namespace Name
            DELETE /v1/namespace/default
                500 can not delete default namespace
            PATCH /v1/namespace/default
                405 Invalid method
            GET /v1/namespaces?region=mars
                500 No path to region
            GET /v1/namespaces?index=x
                400 Invalid index
        "#]],
    )
    .await;
}

#[tokio::test]
async fn namespace_write_repeated_under_one_idempotency_key_runs_once() {
    check(
        &Memory::new(),
        r#"PUT /v1/namespace [Idempotency-Key: k1] {"Name": "dev"}
        PUT /v1/namespace [Idempotency-Key: k1] {"Name": "dev"}
        PUT /v1/namespace [Idempotency-Key: k1] {"Name": "prod"}
        GET /v1/namespace/prod"#,
        expect![[r#"
            PUT /v1/namespace [Idempotency-Key: k1] {"Name": "dev"}
                200 @2 
            PUT /v1/namespace [Idempotency-Key: k1] {"Name": "dev"}
                200 @2 
            PUT /v1/namespace [Idempotency-Key: k1] {"Name": "prod"}
                409 idempotency key "k1" was used with another request
            GET /v1/namespace/prod
                404 @2 Namespace not found
        "#]],
    )
    .await;
}
