//! The list of routes, and answers to unknown paths.

use expect_test::{expect, expect_file};
use songline_api::routes_text;

use crate::server::{Memory, answer, check};

#[test]
fn routes_txt_lists_every_route() {
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
async fn unknown_verb_of_an_alloc_is_told_before_a_wrong_method() {
    check(
        &Memory::new(),
        "GET /v1/allocation/11111111-2222-3333-4444-555555555555/nope
        PUT /v1/allocation/11111111-2222-3333-4444-555555555555/nope
        POST /v1/allocation/11111111-2222-3333-4444-555555555555/stop/it
        DELETE /v1/allocation/a/b/c
        PUT /v1/allocation/11111111-2222-3333-4444-555555555555
        DELETE /v1/allocation/11111111-2222-3333-4444-555555555555/stop",
        expect![[r#"
            GET /v1/allocation/11111111-2222-3333-4444-555555555555/nope
                404 resource not found
            PUT /v1/allocation/11111111-2222-3333-4444-555555555555/nope
                404 resource not found
            POST /v1/allocation/11111111-2222-3333-4444-555555555555/stop/it
                404 resource not found
            DELETE /v1/allocation/a/b/c
                404 resource not found
            PUT /v1/allocation/11111111-2222-3333-4444-555555555555
                405 Invalid method
            DELETE /v1/allocation/11111111-2222-3333-4444-555555555555/stop
                405 Invalid method
        "#]],
    )
    .await;
}

#[tokio::test]
async fn answers_are_compressed_as_accept_encoding_asks() {
    let server = Memory::new();
    for (asked, sent) in
        [("gzip", Some("gzip")), ("deflate, gzip", Some("deflate")), ("GZIP", None), ("br", None), ("*", None)]
    {
        let response = answer(&server, &format!("GET /v1/regions [Accept-Encoding: {asked}]")).await;
        assert_eq!(
            response.headers().get("content-encoding").map(|value| value.to_str().expect("text")),
            sent,
            "{asked}"
        );
        assert_eq!(response.headers()["vary"], "Accept-Encoding");
    }
}

#[tokio::test]
async fn small_compressed_answers_have_a_known_length_and_large_ones_none() {
    use axum::body::HttpBody as _;
    for (line, bytes) in [("GET /v1/nope", 23), ("GET /v1/job/none", 37), ("GET /v1/node/pools?prefix=none", 26)] {
        let response = answer(&Memory::new(), &format!("{line} [Accept-Encoding: gzip]")).await;
        assert_eq!(response.body().size_hint().exact(), Some(bytes), "{line}");
    }
    let response = answer(&Memory::new(), "GET /v1/openapi.json [Accept-Encoding: gzip]").await;
    assert_eq!(response.body().size_hint().exact(), None, "a large one is compressed as it is sent");
    let response = answer(&Memory::new(), "GET /v1/namespaces [Accept-Encoding: gzip]").await;
    let length = response.body().size_hint().exact();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("a whole body").to_bytes();
    assert_eq!(length, Some(body.len() as u64));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&*body), &mut text).expect("gzip");
    assert!(text.starts_with("[{") && text.ends_with("}]"), "{text}");
}

#[tokio::test]
async fn only_routes_for_browsers_let_other_origins_in() {
    let server = Memory::new();
    let line = "OPTIONS /v1/client/stats [Origin: http://x] [Access-Control-Request-Method: GET]";
    let response = answer(&server, line).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["access-control-allow-methods"]),
        (204, &"GET".parse().expect("valid"))
    );
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
async fn body_of_the_wrong_type_is_refused_with_the_go_type_of_its_route() {
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

/// The routes of `not-routed.txt`: methods and path, without the reasons.
fn not_routed() -> Vec<(&'static str, &'static str)> {
    let text = include_str!("../not-routed.txt");
    let rows = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let (route, reason) = line.split_once(": ").expect("a reason after a colon");
        assert!(!reason.is_empty(), "{line}");
        route.split_once(' ').expect("methods and a path")
    })
    .collect()
}

fn covers((methods, path): (&str, &str), route: &str) -> bool {
    let (method, asked) = route.split_once(' ').expect("a method and a path");
    let path_fits = path.strip_suffix('*').map_or(asked == path, |start| asked.starts_with(start));
    path_fits && (methods == "*" || methods.split(',').any(|one| one == method))
}

#[test]
fn every_reference_route_is_served_or_listed_with_a_reason() {
    let routes = songline_api::routes::<Memory>();
    let (unknown, missing) = songline_api::openapi::differences(&routes);
    assert_eq!(unknown, Vec::<String>::new(), "add these to openapi/ours.txt");
    let listed = not_routed();
    let unlisted: Vec<_> = missing.iter().filter(|route| !listed.iter().any(|row| covers(*row, route))).collect();
    assert_eq!(unlisted, Vec::<&String>::new(), "routes without a handler that not-routed.txt does not explain");
    for row in listed {
        let is_known =
            songline_api::openapi::table().rows.iter().any(|known| covers(("*", row.1), &format!("* {}", known.path)));
        let is_waited_for = missing.iter().any(|route| covers(row, route));
        let is_later =
            !is_known && !routes.iter().any(|route| route.path == songline_api::openapi::table::unnamed(row.1));
        assert!(is_waited_for || is_later, "{row:?} answers: take it out of not-routed.txt");
    }
}

#[test]
fn every_component_that_the_openapi_document_names_is_defined() {
    let document = songline_api::openapi::document("test", &songline_api::openapi::whole_table());
    let text = document.to_string();
    for part in text.split("\"#/components/").skip(1) {
        let path = part.split('"').next().expect("a quote ends it");
        let found = path.split('/').try_fold(&document["components"], |at, key| at.get(key));
        assert!(found.is_some(), "{path}");
    }
    assert!(document["components"]["schemas"].as_object().is_some_and(|schemas| schemas.len() > 250));
}

#[tokio::test]
async fn openapi_document_is_served_with_unique_operation_ids() {
    let response = answer(&Memory::new(), "GET /v1/openapi.json").await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["content-type"]),
        (200, &"application/json".parse().expect("valid"))
    );
    let document: serde_json::Value = serde_json::from_str(&crate::server::text(response).await).expect("JSON");
    assert_eq!(document["openapi"], "3.1.0");
    let mut seen = std::collections::BTreeSet::new();
    for (path, slot) in document["paths"].as_object().expect("paths") {
        for (method, operation) in slot.as_object().expect("operations") {
            assert!(seen.insert(operation["operationId"].to_string()), "{method} {path}: its id is not its own");
            assert!(operation["x-capability"].is_string() && operation["responses"].is_object(), "{method} {path}");
        }
    }
    assert!(seen.len() > 150, "{}", seen.len());
}
