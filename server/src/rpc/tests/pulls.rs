//! `Alloc.GetAllocs` as a blocking query, and the bounds of a node's waiting calls.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use songline_commands::{Actor, ApplyPlan};
use songline_model::{AllocId, Allocation};

use super::{NODE, SECRET, call, node, pool, start};

const ALLOC: AllocId = AllocId::from_bytes([3; 16]);
const JOB: &str = r#"{"ID": "web", "Name": "web", "Type": "service", "Datacenters": ["dc1"],
    "TaskGroups": [{"Name": "g", "Count": 0, "Tasks": [{"Name": "t", "Driver": "raw_exec"}]}]}"#;

fn pull(min_index: u64, wait: Duration) -> Value {
    json!({
        "Region": "global", "AuthToken": SECRET, "AllocIDs": [ALLOC.to_string()],
        "MinQueryIndex": min_index, "MaxQueryTime": u64::try_from(wait.as_nanos()).unwrap(),
    })
}

fn parsed(answer: &str) -> Value {
    serde_json::from_str(answer).unwrap_or_else(|_| panic!("{answer}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pull_of_an_unknown_allocation_waits_and_then_answers_with_the_true_index() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), false).await;
    let (pool, address) = (pool(), server.core.rpc_addr());
    let registered = call(&pool, &address, "Node.Register", json!({ "Region": "global", "Node": node() })).await;
    assert!(registered.contains("HeartbeatTTL"), "{registered}");
    let (began, wait) = (Instant::now(), Duration::from_millis(200));
    let answer = parsed(&call(&pool, &address, "Alloc.GetAllocs", pull(100_000, wait)).await);
    assert!(began.elapsed() >= wait, "{:?}", began.elapsed());
    assert_eq!(answer["Allocs"], json!([]));
    assert!(answer["Index"].as_u64().is_some_and(|index| index < 100_000), "{answer}");
    pool.close();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pull_is_answered_once_all_asked_allocations_exist() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), false).await;
    let (pool, address) = (pool(), server.core.rpc_addr());
    call(&pool, &address, "Node.Register", json!({ "Region": "global", "Node": node() })).await;
    let job: Value = serde_json::from_str(JOB).unwrap();
    let made = call(&pool, &address, "Job.Register", json!({ "Region": "global", "Job": job })).await;
    assert!(made.contains("EvalID"), "{made}");
    let waiting = {
        let (pool, address) = (super::pool(), address.clone());
        tokio::spawn(async move {
            let answer = call(&pool, &address, "Alloc.GetAllocs", pull(1, Duration::from_secs(60))).await;
            pool.close();
            answer
        })
    };
    let alloc = Allocation {
        id: ALLOC,
        namespace: "default".into(),
        job_id: "web".into(),
        task_group: "g".into(),
        name: "web.g[0]".into(),
        node_id: Some(NODE.parse().unwrap()),
        ..Allocation::default()
    };
    let job = server.core.view().job("default", "web").cloned();
    let plan = ApplyPlan { job, updated: vec![alloc.into()], ..ApplyPlan::default() };
    let index = server.core.propose_as(Actor::Anonymous, None, plan).await.unwrap();
    let answer = parsed(&waiting.await.unwrap());
    assert_eq!(answer["Allocs"][0]["ID"], json!(ALLOC.to_string()));
    assert!(answer["Index"].as_u64().is_some_and(|found| found >= index), "{answer} at {index}");
    pool.close();
    server.stop().await;
}
