//! Blocking queries.

use std::sync::Arc;
use std::time::Duration;

use songline_api::{Agent, Reads};
use songline_commands::{RestoreArchive, UpsertNamespaces};
use songline_model::{Blob, Namespace};

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
async fn blocking_object_query_wakes_only_on_changes_of_its_object() {
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
async fn blocking_list_query_wakes_on_any_change_of_its_table() {
    let server = Memory::new();
    let index = server.run(namespaces("dev"));
    let query = waiting(&server, format!("GET /v1/namespaces?index={index}")).await;
    let changed = server.run(namespaces("other"));
    assert_eq!(query.await.expect("answers").0, changed);
}

#[tokio::test(start_paused = true)]
async fn blocking_query_that_times_out_answers_the_current_state() {
    let server = Memory::new();
    let index = server.run(namespaces("dev"));
    let started = tokio::time::Instant::now();
    let response = answer(&server, &format!("GET /v1/namespace/dev?index={index}&wait=10s")).await;
    assert_eq!(response.headers()["x-nomad-index"], index.to_string().as_str());
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(10) && waited <= Duration::from_millis(10_630), "{waited:?}");
}

#[tokio::test]
async fn shutdown_ends_blocking_queries() {
    let server = Memory::new();
    let index = server.run(namespaces("dev"));
    let query = waiting(&server, format!("GET /v1/namespace/dev?index={index}")).await;
    server.shutdown().cancel();
    assert_eq!(query.await.expect("answers").0, index);
}

#[tokio::test]
async fn blocking_query_below_the_current_index_answers_at_once() {
    let server = Memory::new();
    let index = server.run(namespaces("dev"));
    let response = answer(&server, &format!("GET /v1/namespace/dev?index={}", index - 1)).await;
    assert_eq!(response.headers()["x-nomad-index"], index.to_string().as_str());
}

#[tokio::test]
async fn restore_answers_blocking_queries_whose_object_has_a_lower_index_then() {
    let server = Memory::new();
    let archived = server.run(namespaces("dev"));
    let mut archive = Vec::new();
    server.view().write_checkpoint(&mut archive).expect("writes");
    let index = server.run(namespaces("dev"));
    let query = waiting(&server, format!("GET /v1/namespace/dev?index={index}")).await;
    let digest = blake3::hash(&archive).to_hex().as_str().into();
    server.run(RestoreArchive { archive: Blob(archive), digest, ..RestoreArchive::default() });
    assert_eq!(query.await.expect("answers").0, archived);
}
