//! Quotas: requests, refusals, and who may read them.

use expect_test::expect;

use crate::server::{Memory, check};

#[tokio::test]
async fn a_quota_is_made_read_used_and_deleted() {
    check(
        &Memory::new(),
        r#"PUT /v1/quota {"Name": "gold", "Description": "d", "Limits": [{"RegionLimit": {"CPU": 500, "MemoryMB": 256, "Devices": [{"Name": "gpu", "Count": 2}]}, "VariablesLimit": 1, "AllocationsLimit": -1}]}
        GET /v1/quota/gold
        GET /v1/quotas?prefix=go
        PUT /v1/namespace {"Name": "dev", "Quota": "gold"}
        GET /v1/quota-usages
        GET /v1/quota/usage/gold
        DELETE /v1/quota/gold
        PUT /v1/search {"Context": "quotas", "Prefix": "g"}
        PUT /v1/search {"Context": "all", "Prefix": "gold"}
        PUT /v1/search/fuzzy {"Context": "quotas", "Text": "ol"}
        PUT /v1/namespace {"Name": "dev"}
        POST /v1/quota/gold {"Name": "gold"}
        GET /v1/quota/usage/gold
        DELETE /v1/quota/gold
        GET /v1/quota/gold
        GET /v1/quotas"#,
        expect![[r#"
            PUT /v1/quota {"Name": "gold", "Description": "d", "Limits": [{"RegionLimit": {"CPU": 500, "MemoryMB
                200 @2 
            GET /v1/quota/gold
                200 @2 {"Name":"gold","Description":"d","Limits":[{"Region":"global","RegionLimit":{"CPU":500,"Cores":0,"MemoryMB":256,"MemoryMaxMB":0,"DiskMB":0,"IOPS":0,"Networks":null,"Devices":[{"Name":"gpu","Count":2,"Constraints":null,"Affinities":null}]},"VariablesLimit":1,"AllocationsLimit":-1,"Hash":"NpyNKGI45mgqWsrjt/5r86lX5UpOXcEmzRZeM9wEzTI="}],"Hash":"EcSQZu9+8XHLP9KYt1rfOgmO82FDP6YEOmnbPcpa3TI=","CreateIndex":2,"ModifyIndex":2}
            GET /v1/quotas?prefix=go
                200 @2 [{"Name":"gold","Description":"d","Limits":[{"Region":"global","RegionLimit":{"CPU":500,"Cores":0,"MemoryMB":256,"MemoryMaxMB":0,"DiskMB":0,"IOPS":0,"Networks":null,"Devices":[{"Name":"gpu","Count":2,"Constraints":null,"Affinities":null}]},"VariablesLimit":1,"AllocationsLimit":-1,"Hash":"NpyNKGI45mgqWsrjt/5r86lX5UpOXcEmzRZeM9wEzTI="}],"Hash":"EcSQZu9+8XHLP9KYt1rfOgmO82FDP6YEOmnbPcpa3TI=","CreateIndex":2,"ModifyIndex":2}]
            PUT /v1/namespace {"Name": "dev", "Quota": "gold"}
                200 @3 
            GET /v1/quota-usages
                200 @2 [{"Name":"gold","Used":{"NpyNKGI45mgqWsrjt/5r86lX5UpOXcEmzRZeM9wEzTI=":{"Region":"global","RegionLimit":{"CPU":0,"Cores":0,"MemoryMB":0,"MemoryMaxMB":0,"DiskMB":0,"IOPS":0,"Networks":null,"Devices":[{"Name":"gpu","Count":0,"Constraints":null,"Affinities":null}]},"VariablesLimit":0,"AllocationsLimit":0,"Hash":"NpyNKGI45mgqWsrjt/5r86lX5UpOXcEmzRZeM9wEzTI="}},"CreateIndex":2,"ModifyIndex":2}]
            GET /v1/quota/usage/gold
                200 @2 {"Name":"gold","Used":{"NpyNKGI45mgqWsrjt/5r86lX5UpOXcEmzRZeM9wEzTI=":{"Region":"global","RegionLimit":{"CPU":0,"Cores":0,"MemoryMB":0,"MemoryMaxMB":0,"DiskMB":0,"IOPS":0,"Networks":null,"Devices":[{"Name":"gpu","Count":0,"Constraints":null,"Affinities":null}]},"VariablesLimit":0,"AllocationsLimit":0,"Hash":"NpyNKGI45mgqWsrjt/5r86lX5UpOXcEmzRZeM9wEzTI="}},"CreateIndex":2,"ModifyIndex":2}
            DELETE /v1/quota/gold
                400 quota "gold" is used by namespace "dev": take it from the namespace first
            PUT /v1/search {"Context": "quotas", "Prefix": "g"}
                200 @2 {"Matches":{"quotas":["gold"]},"Truncations":{"quotas":false},"Index":2,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search {"Context": "all", "Prefix": "gold"}
                200 @3 {"Matches":{"jobs":null,"namespaces":null,"node_pools":null,"plugins":null,"quotas":["gold"],"scaling_policy":null,"vars":null,"volumes":null},"Truncations":{"jobs":false,"namespaces":false,"node_pools":false,"plugins":false,"quotas":false,"scaling_policy":false,"vars":false,"volumes":false},"Index":3,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/search/fuzzy {"Context": "quotas", "Text": "ol"}
                200 @2 {"Matches":{"quotas":[{"ID":"gold"}]},"Truncations":{"quotas":false},"Index":2,"LastContact":0,"KnownLeader":true,"NextToken":""}
            PUT /v1/namespace {"Name": "dev"}
                200 @5 
            POST /v1/quota/gold {"Name": "gold"}
                200 @6 
            GET /v1/quota/usage/gold
                200 @6 {"Name":"gold","Used":{},"CreateIndex":2,"ModifyIndex":6}
            DELETE /v1/quota/gold
                200 @7 
            GET /v1/quota/gold
                404 @7 quota not found
            GET /v1/quotas
                200 @7 []
        "#]],
    )
    .await;
}

#[tokio::test]
async fn invalid_quota_requests_are_refused() {
    check(
        &Memory::new(),
        r#"PUT /v1/quota
        PUT /v1/quota {"Name": "a b"}
        PUT /v1/quota {"Name": "q", "Limits": [{"RegionLimit": {"DiskMB": 7, "Networks": [{"MBits": 5}], "Devices": [{"Name": "a/b/c/d", "Constraints": [{}]}]}}, {"Region": "global"}]}
        PUT /v1/quota/other {"Name": "q"}
        PUT /v1/quota/ {"Name": "q"}
        DELETE /v1/quota/none
        GET /v1/quota/none
        GET /v1/quota/usage/none
        PUT /v1/namespace {"Name": "dev", "Quota": "none"}
        GET /v1/quota
        PUT /v1/quotas {}
        DELETE /v1/quota/usage/none"#,
        expect![[r#"
            PUT /v1/quota
                400 Request body is empty
            PUT /v1/quota {"Name": "a b"}
                400 invalid quota "a b": 1 error occurred:
            	* invalid name "a b". Must match regex ^[a-zA-Z0-9-]{1,128}$
            PUT /v1/quota {"Name": "q", "Limits": [{"RegionLimit": {"DiskMB": 7, "Networks": [{"MBits": 5}], "De
                400 invalid quota "q": 5 errors occurred:
            	* limit of region "global": disk can not be limited
            	* limit of region "global": networks can not be limited
            	* limit of region "global": invalid device "a/b/c/d", must be type, vendor/type or vendor/type/name
            	* limit of region "global": device "a/b/c/d" can not have constraints or affinities
            	* region "global" has more than one limit
            PUT /v1/quota/other {"Name": "q"}
                400 Quota name does not match request path
            PUT /v1/quota/ {"Name": "q"}
                400 Missing Quota Name
            DELETE /v1/quota/none
                404 quota "none" not found
            GET /v1/quota/none
                404 @1 quota not found
            GET /v1/quota/usage/none
                404 @1 quota not found
            PUT /v1/namespace {"Name": "dev", "Quota": "none"}
                500 namespace "dev" using non-existent quota "none"
            GET /v1/quota
                405 Invalid method
            PUT /v1/quotas {}
                405 Invalid method
            DELETE /v1/quota/usage/none
                405 Invalid method
        "#]],
    )
    .await;
}

#[tokio::test]
async fn variable_above_the_quota_of_its_namespace_is_refused_with_the_numbers() {
    check(
        &Memory::new(),
        r#"PUT /v1/operator/keyring/rotate
        PUT /v1/quota {"Name": "gold", "Limits": [{"VariablesLimit": -1}]}
        PUT /v1/namespace {"Name": "default", "Quota": "gold"}
        PUT /v1/var/a {"Items": {"k": "v"}}
        PUT /v1/quota {"Name": "gold", "Limits": [{"VariablesLimit": 1}]}
        PUT /v1/var/a?cas=0 {"Items": {"k": "v"}}
        GET /v1/quota/usage/gold"#,
        expect![[r#"
            PUT /v1/operator/keyring/rotate
                200 @2 {"Key":{"KeyID":"09090909-0909-0909-0909-090909090909","Algorithm":"aes256-gcm","CreateTime":1,"CreateIndex":0,"ModifyIndex":0,"State":"active"},"Index":2}
            PUT /v1/quota {"Name": "gold", "Limits": [{"VariablesLimit": -1}]}
                200 @3 
            PUT /v1/namespace {"Name": "default", "Quota": "gold"}
                200 @4 
            PUT /v1/var/a {"Items": {"k": "v"}}
                400 quota "gold" exceeded: variables bytes exhausted (9 needed > 0 limit)
            PUT /v1/quota {"Name": "gold", "Limits": [{"VariablesLimit": 1}]}
                200 @6 
            PUT /v1/var/a?cas=0 {"Items": {"k": "v"}}
                200 @7 {"Namespace":"default","Path":"a","CreateIndex":7,"CreateTime":1700000006000000000,"ModifyIndex":7,"ModifyTime":1700000006000000000,"Items":{"k":"v"}}
            GET /v1/quota/usage/gold
                200 @7 {"Name":"gold","Used":{"SxC8qjTisRcP12YvHlFJqLGtGHPtSVlFDo5DR0lc5IU=":{"Region":"global","RegionLimit":{"CPU":0,"Cores":0,"MemoryMB":0,"MemoryMaxMB":0,"DiskMB":0,"IOPS":0,"Networks":null,"Devices":null},"VariablesLimit":1,"AllocationsLimit":0,"Hash":"SxC8qjTisRcP12YvHlFJqLGtGHPtSVlFDo5DR0lc5IU="}},"CreateIndex":3,"ModifyIndex":7}
        "#]],
    )
    .await;
}
