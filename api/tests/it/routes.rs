//! Which routes there are, and what paths that are none answer.

use expect_test::{expect, expect_file};
use songline_api::routes_text;

use crate::server::{Memory, answer, check};

#[test]
fn every_route_stands_in_the_reviewed_list() {
    expect_file!["../../routes.txt"].assert_eq(&routes_text::<Memory>());
}

#[tokio::test]
async fn paths_are_routed_as_go_routes_them() {
    check(
        &Memory::new(),
        "GET /v1/nope
        GET /v1/jobs/
        GET /v1/job
        POST /v1/job
        GET /v1/job/
        GET /v1//jobs?a=b
        GET /v1/x/../jobs
        GET /v1%2Fregions
        GET /v1/regions%zz
        GET /
        GET /?a=b
        GET /v1/node/pools/
        HEAD /v1/regions
        PUT /v1/regions",
        expect![[r#"
            GET /v1/nope
                404 
            GET /v1/jobs/
                404 
            GET /v1/job
                301 -> /v1/job/ <a href="/v1/job/">Moved Permanently</a>.
            POST /v1/job
                301 -> /v1/job/ 
            GET /v1/job/
                404 @0 job not found
            GET /v1//jobs?a=b
                301 -> /v1/jobs?a=b <a href="/v1/jobs?a=b">Moved Permanently</a>.
            GET /v1/x/../jobs
                301 -> /v1/jobs <a href="/v1/jobs">Moved Permanently</a>.
            GET /v1%2Fregions
                200 ["global"]
            GET /v1/regions%zz
                400 400 Bad Request
            GET /
                307 -> /ui/ <a href="/ui/">Temporary Redirect</a>.
            GET /?a=b
                307 -> /ui/?a=b <a href="/ui/?a=b">Temporary Redirect</a>.
            GET /v1/node/pools/
                500 node lookup failed: index error: UUID must be 36 characters
            HEAD /v1/regions
                405 Invalid method
            PUT /v1/regions
                405 Invalid method
        "#]],
    )
    .await;
}

#[tokio::test]
async fn answers_are_compressed_as_asked() {
    let server = Memory::new();
    for (asked, sent) in [("gzip", Some("gzip")), ("deflate, gzip", Some("deflate")), ("GZIP", None), ("br", None), ("*", None)] {
        let response = answer(&server, &format!("GET /v1/regions [Accept-Encoding: {asked}]")).await;
        assert_eq!(response.headers().get("content-encoding").map(|value| value.to_str().expect("text")), sent, "{asked}");
        assert_eq!(response.headers()["vary"], "Accept-Encoding");
    }
}

#[tokio::test]
async fn only_routes_for_browsers_let_other_origins_in() {
    let server = Memory::new();
    let line = "OPTIONS /v1/client/stats [Origin: http://x] [Access-Control-Request-Method: GET]";
    let response = answer(&server, line).await;
    assert_eq!((response.status().as_u16(), &response.headers()["access-control-allow-methods"]), (204, &"GET".parse().expect("valid")));
    let response = answer(&server, "GET /v1/regions [Origin: http://x]").await;
    assert!(!response.headers().contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn pretty_answers_are_indented_and_end_with_a_line_feed() {
    let server = Memory::new();
    let response = answer(&server, "GET /v1/regions?pretty").await;
    assert_eq!(crate::server::text(response).await, "[\n    \"global\"\n]\n");
}

#[tokio::test]
async fn a_body_of_the_wrong_kind_is_told_in_the_words_of_its_route() {
    check(
        &Memory::new(),
        "PUT /v1/node/11111111-2222-3333-4444-555555555555/drain []
        PUT /v1/node/11111111-2222-3333-4444-555555555555/eligibility []",
        expect![[r#"
            PUT /v1/node/11111111-2222-3333-4444-555555555555/drain []
                400 json: cannot unmarshal array into Go value of type api.NodeUpdateDrainRequest
            PUT /v1/node/11111111-2222-3333-4444-555555555555/eligibility []
                400 json: cannot unmarshal array into Go value of type structs.NodeUpdateEligibilityRequest
        "#]],
    )
    .await;
}
