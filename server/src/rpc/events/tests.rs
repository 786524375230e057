//! Event streams over the node RPC: where they begin, and what they end with.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use serde_json::{Value, json};
use songline_api::Api;
use songline_model::Secret;
use songline_rpc::message::{EventStream, EventStreamWrapper, StreamCall as _, StreamError};
use songline_rpc::msgpack::{from_slice, to_vec};
use songline_rpc::net::Channel;

use super::super::tests::{pool, start};
use crate::testing::TestServer;

/// Writes over HTTP.
async fn write(server: &TestServer, method: &str, path: &str, token: &Secret, body: Value) -> Value {
    let request = Request::builder().method(method).uri(path).header("x-nomad-token", token.reveal());
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = Api::new(server.core.clone()).answer(request).await;
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    serde_json::from_slice(&body).unwrap_or_default()
}

async fn make_pool(server: &TestServer, name: &str) {
    write(server, "PUT", "/v1/node/pools", &Secret::default(), json!({ "Name": name })).await;
}

async fn next(channel: &mut Channel) -> Result<Value, StreamError> {
    let message = channel.next().await.unwrap().expect("the stream goes on");
    let EventStreamWrapper { error, event } = from_slice(&message).unwrap();
    match (error, event.and_then(|event| event.data)) {
        (Some(error), _) => Err(error),
        (None, Some(data)) => Ok(serde_json::from_slice(&data.0).unwrap()),
        (None, None) => panic!("a message has a frame or an error"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_stream_over_rpc_ends_with_an_error_that_names_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), true).await;
    // The first root key is the last entry that a new cluster writes by itself.
    server.core.signer().await.unwrap();
    let (pool, address) = (pool(), server.core.rpc_addr());
    let root = write(&server, "PUT", "/v1/acl/bootstrap", &Secret::default(), json!({})).await;
    let root = Secret::new(root["SecretID"].as_str().unwrap());
    let made = json!({ "Name": "reader", "Type": "management" });
    let reader = write(&server, "PUT", "/v1/acl/token", &root, made).await;
    let ask = EventStream {
        region: "global".into(),
        auth_token: Secret::new(reader["SecretID"].as_str().unwrap()),
        ..EventStream::default()
    };
    let mut channel = pool.stream(&address, EventStream::METHOD, &to_vec(&ask).unwrap()).await.unwrap();
    assert_eq!(next(&mut channel).await.unwrap(), json!({}));
    let path = format!("/v1/acl/token/{}", reader["AccessorID"].as_str().unwrap());
    write(&server, "DELETE", &path, &root, Value::Null).await;
    let error = loop {
        if let Err(error) = next(&mut channel).await {
            break error;
        }
    };
    assert_eq!(error.code, Some(500));
    assert_eq!(error.message.as_str(), "subscription closed by server, client should resubscribe");
    pool.close();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn event_stream_over_rpc_with_a_negative_index_has_only_new_events() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), false).await;
    // The first root key is the last entry that a new cluster writes by itself.
    server.core.signer().await.unwrap();
    let (pool, address) = (pool(), server.core.rpc_addr());
    make_pool(&server, "old").await;
    let (events, last) = (server.core.events(), server.core.view().applied_index());
    assert!(events.reach(last, std::time::Duration::from_secs(60)).await);
    for (index, expected) in [(0, "old"), (-1, "new")] {
        let ask = EventStream { region: "global".into(), index, ..EventStream::default() };
        let mut channel = pool.stream(&address, EventStream::METHOD, &to_vec(&ask).unwrap()).await.unwrap();
        assert_eq!(next(&mut channel).await.unwrap(), json!({}));
        if expected == "new" {
            make_pool(&server, "new").await;
        }
        let frame = next(&mut channel).await.unwrap();
        assert_eq!(frame["Events"][0]["Key"], expected, "{frame}");
        assert!(frame.get("CaughtUp").is_none(), "{frame}");
    }
    pool.close();
    server.stop().await;
}
