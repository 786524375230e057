//! Blocking queries.

use std::sync::Arc;
use std::time::Duration;

use songline_api::Server;
use songline_commands::UpsertNamespaces;
use songline_model::Namespace;

use crate::server::{Memory, answer, text};

fn namespaces(name: &str) -> UpsertNamespaces {
    UpsertNamespaces { namespaces: vec![Namespace { name: name.into(), ..Namespace::default() }] }
}

/// Starts a request and returns once the request waits.
async fn waiting(server: &Arc<Memory>, line: String) -> tokio::task::JoinHandle<(u64, String)> {
    let before = server.watches().waiting();
    let other = Arc::clone(server);
    let task = tokio::spawn(async move {
        let response = answer(&other, &line).await;
        let index = response.headers()["x-nomad-index"].to_str().expect("text").parse().expect("a number");
        (index, text(response).await)
    });
    while server.watches().waiting() == before {
        tokio::task::yield_now().await;
    }
    task
}

#[tokio::test]
async fn a_query_for_one_object_waits_for_that_object_only() {
    let server = Memory::new();
    let index = server.run(namespaces("dev"));
    let query = waiting(&server, format!("GET /v1/namespace/dev?index={index}")).await;
    server.run(namespaces("other"));
    tokio::task::yield_now().await;
    assert!(!query.is_finished());
    let changed = server.run(namespaces("dev"));
    assert_eq!(query.await.expect("answers").0, changed);
}

#[tokio::test]
async fn a_list_waits_for_its_table() {
    let server = Memory::new();
    let index = server.run(namespaces("dev"));
    let query = waiting(&server, format!("GET /v1/namespaces?index={index}")).await;
    let changed = server.run(namespaces("other"));
    assert_eq!(query.await.expect("answers").0, changed);
}

#[tokio::test(start_paused = true)]
async fn a_query_whose_time_is_up_answers_what_there_is() {
    let server = Memory::new();
    let index = server.run(namespaces("dev"));
    let started = tokio::time::Instant::now();
    let response = answer(&server, &format!("GET /v1/namespace/dev?index={index}&wait=10s")).await;
    assert_eq!(response.headers()["x-nomad-index"], index.to_string().as_str());
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(10) && waited <= Duration::from_millis(10_630), "{waited:?}");
}

#[tokio::test]
async fn shutdown_ends_the_wait() {
    let server = Memory::new();
    let index = server.run(namespaces("dev"));
    let query = waiting(&server, format!("GET /v1/namespace/dev?index={index}")).await;
    server.shutdown().cancel();
    assert_eq!(query.await.expect("answers").0, index);
}

#[tokio::test]
async fn an_index_that_has_passed_does_not_wait() {
    let server = Memory::new();
    let index = server.run(namespaces("dev"));
    let response = answer(&server, &format!("GET /v1/namespace/dev?index={}", index - 1)).await;
    assert_eq!(response.headers()["x-nomad-index"], index.to_string().as_str());
}
