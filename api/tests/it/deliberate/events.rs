//! Event streams.

use serde_json::{Value, json};

use super::World;
use crate::acl::ALL;
use crate::server::answer;
use crate::stream::{Reader, settled};

async fn stream(world: &World, token: &str, query: &str) -> Reader {
    Reader::new(answer(&world.server, &format!("GET /v1/event/stream?{query} [x-nomad-token: {token}]")).await)
}

/// Topic and key of each event in the next frame that has events.
async fn next(reader: &mut Reader) -> Vec<String> {
    loop {
        let line = reader.line().await.expect("the stream goes on");
        let frame: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no frame: {line}"));
        let events = frame["Events"].as_array().cloned().unwrap_or_default();
        if !events.is_empty() {
            let told = |event: &Value| format!("{} {}", event["Topic"], event["Key"]).replace('"', "");
            return events.iter().map(told).collect();
        }
    }
}

/// Namespaces `seen` and `hidden`, and a token that may read the first.
async fn two_namespaces() -> (World, String) {
    let world = World::guarded().await;
    world.namespace("seen").await;
    world.namespace("hidden").await;
    let secret = world.token("seen", r#"namespace "seen" { policy = "read" }"#).await;
    (world, secret)
}

#[tokio::test]
async fn acl_enforce_events_wildcard() {
    let (world, secret) = two_namespaces().await;
    let mut live = stream(&world, &secret, "topic=Job&namespace=*").await;
    world.job("hidden", "of-hidden").await;
    world.job("seen", "of-seen").await;
    assert_eq!(
        next(&mut live).await,
        ["Job of-seen"],
        "what happens in a namespace that the token may not read is not told"
    );
}

#[tokio::test]
async fn eventsacl_namespace_star_leak() {
    let (world, secret) = two_namespaces().await;
    world.job("hidden", "of-hidden").await;
    let eval = world.job("seen", "of-seen").await;
    settled(&world.server).await;
    // Stored events are filtered like new ones, in both dialects.
    for query in ["topic=Evaluation&namespace=*&index=1", "topic=Evaluation&namespace=*&after_index=0"] {
        let mut past = stream(&world, &secret, query).await;
        assert_eq!(next(&mut past).await, [format!("Evaluation {eval}")], "{query}");
    }
    let mut all = stream(&world, ALL, "topic=Job&namespace=*&index=1").await;
    assert_eq!(next(&mut all).await, ["Job of-hidden"], "a management token is told of both");
}

#[tokio::test]
async fn eventsacl_role_changed() {
    let world = World::guarded().await;
    for (policy, rules) in [("nodes", "node { policy = \"read\" }"), ("agents", "agent { policy = \"read\" }")] {
        world.done(&format!("PUT /v1/acl/policy/{policy}"), json!({"Name": policy, "Rules": rules})).await;
    }
    let role = world.done("POST /v1/acl/role", json!({"Name": "r", "Policies": [{"Name": "nodes"}]})).await;
    let roles = json!([{"ID": role["ID"]}]);
    let token = world.done("POST /v1/acl/token", json!({"Name": "t", "Type": "client", "Roles": roles})).await;
    let secret = token["SecretID"].as_str().expect("a secret");
    let mut reader = stream(&world, secret, "topic=Node").await;
    assert_eq!(reader.line().await.as_deref(), Some("{}"));
    let update = json!({"ID": role["ID"], "Name": "r", "Policies": [{"Name": "agents"}]});
    world.done(&format!("PUT /v1/acl/role/{}", role["ID"].as_str().expect("an id")), update).await;
    let ended = reader.line().await;
    assert_eq!(ended.as_deref(), Some("subscription closed by server, client should resubscribe"));
    assert_eq!(reader.line().await, None);
}

#[tokio::test]
async fn events_two_keys_twice() {
    let world = World::guarded().await;
    let eval = world.job("default", "web").await;
    settled(&world.server).await;
    let query = format!("topic=Evaluation:web&topic=Evaluation:{eval}&index=1");
    let mut reader = stream(&world, ALL, &query).await;
    assert_eq!(next(&mut reader).await, [format!("Evaluation {eval}")], "both keys are of one event");
}

#[tokio::test]
async fn events_star_and_key() {
    let world = World::guarded().await;
    world.job("default", "web").await;
    world.job("default", "other").await;
    world.done("DELETE /v1/job/web", Value::Null).await;
    settled(&world.server).await;
    let mut reader = stream(&world, ALL, "topic=Job:*&topic=Job:web&index=1").await;
    assert_eq!(next(&mut reader).await, ["Job web"], "once");
    assert_eq!(next(&mut reader).await, ["Job web"], "a star beside a key is a key that no job has");
}

#[tokio::test]
async fn events_encodings() {
    let world = World::guarded().await;
    world.job("default", "web").await;
    settled(&world.server).await;
    let mut json = stream(&world, ALL, "topic=Job&index=1").await;
    assert_eq!(json.line().await.as_deref(), Some("{}"));
    let frame: Value = serde_json::from_str(&json.line().await.expect("a frame")).expect("JSON");
    for (query, accept) in [("&format=msgpack", ""), ("", " [Accept: application/msgpack]")] {
        let line = format!("GET /v1/event/stream?topic=Job&index=1{query} [x-nomad-token: {ALL}]{accept}");
        let mut packed = answer(&world.server, &line).await;
        assert_eq!(packed.headers()["content-type"], "application/msgpack");
        let mut frames = Vec::new();
        while frames.len() < 2 {
            let bytes = http_body_util::BodyExt::frame(packed.body_mut()).await.expect("a frame").expect("data");
            frames.push(rmp_serde::from_slice::<Value>(&bytes.into_data().expect("data")).expect("msgpack"));
        }
        assert_eq!(frames, [json!({}), frame.clone()]);
    }
    let line = format!("GET /v1/event/stream?topic=Job&index=1 [x-nomad-token: {ALL}] [Accept-Encoding: gzip]");
    assert_eq!(answer(&world.server, &line).await.headers()["content-encoding"], "gzip");
}
