//! Dynamic node metadata as the servers see it.

use std::collections::BTreeMap;

use songline_model::Str;
use songline_rpc::NodeAgent;

use crate::fake::{Stage, until};

fn change(pairs: &[(&str, Option<&str>)]) -> BTreeMap<Str, Option<Str>> {
    pairs.iter().map(|(key, value)| (Str::new(key), value.map(Str::new))).collect()
}

async fn until_seen(stage: &Stage, key: &str, value: Option<&str>) {
    let seen =
        || stage.servers.node().and_then(|node| node.meta).is_some_and(|meta| meta.get(key).map(Str::as_str) == value);
    until(key, || seen().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dynamic_node_meta_reaches_the_servers_and_survives_an_agent_crash() {
    let stage = Stage::with(|config| drop(config.meta.insert("rack".into(), "r1".into()))).await;
    until_seen(&stage, "rack", Some("r1")).await;
    let refused = stage.client.node_meta_apply(change(&[("a b", Some("x"))])).await.expect_err("is no identifier");
    assert!(refused.to_string().contains("must be valid dotted hcl identifiers"), "{refused}");
    let answer = stage.client.node_meta_apply(change(&[("rack", None), ("probe", Some("1"))])).await.expect("is sound");
    assert_eq!((answer.meta.get("rack"), answer.meta.get("probe").map(Str::as_str)), (None, Some("1")));
    assert_eq!(answer.fixed.get("rack").map(Str::as_str), Some("r1"));
    until_seen(&stage, "probe", Some("1")).await;
    until_seen(&stage, "rack", None).await;

    let stage = stage.crash().await;
    let kept = stage.client.node_meta().await.expect("answers");
    assert_eq!(kept, answer);
    stage.client.node_meta_apply(change(&[("rack", Some("r2")), ("probe", None)])).await.expect("is sound");
    until_seen(&stage, "rack", Some("r2")).await;
    until_seen(&stage, "probe", None).await;
}
