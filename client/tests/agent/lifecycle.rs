//! Orders of the servers and the agent's reports.

use std::sync::Arc;

use serde_json::json;
use songline_model::{AllocClientStatus, EphemeralDisk, JobType, NodeStatus};
use songline_rpc::{NodeAgent, Origin};

use crate::fake::{Stage, is_alive, is_running, kinds, shell, task, until, web};

#[tokio::test(flavor = "multi_thread")]
async fn node_agent_registers_and_then_heartbeats() {
    let stage = Stage::new().await;
    let node = until("registration", || stage.servers.node()).await;
    assert_eq!(node.status, NodeStatus::Initializing);
    assert_eq!(node.attribute("driver.raw_exec").map(|value| value.as_str()), Some("1"));
    assert_eq!(node.attribute("driver.mock_driver").map(|value| value.as_str()), Some("1"));
    until("three heartbeats", || (stage.servers.heartbeats() >= 3).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_restart_stops_the_process_and_starts_another() {
    let stage = Stage::new().await;
    let id = stage.run(shell("echo $$ > local/pid; while :; do sleep 0.02; done"));
    let first = stage.number_in(id, "web/local/pid").await;
    stage.until("running", id, is_running).await;
    stage.client.alloc_restart(id, "web", false).await.unwrap();
    let update = stage.until("a second start", id, |update| web(update).restarts == 1 && is_running(update)).await;
    assert_eq!(
        kinds(&update),
        ["Received", "Task Setup", "Started", "Restart Signaled", "Terminated", "Restarting", "Started"]
    );
    until("another process", || {
        let pid = std::fs::read_to_string(stage.alloc_dir(id).join("web/local/pid")).ok()?;
        (pid.trim().parse::<i32>().ok()? != first).then_some(())
    })
    .await;
    assert!(!is_alive(first));
    assert_eq!(
        stage.client.alloc_restart(id, "db", false).await.unwrap_err().to_string(),
        "Could not find task runner for task: db"
    );
    assert_eq!(
        stage.client.alloc_restart(id, "web", true).await.unwrap_err().to_string(),
        "task name cannot be set when restarting all tasks"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_the_agent_with_its_tasks_leaves_nothing_behind() {
    let stage = Stage::new().await;
    let id = stage.run(shell("echo $$ > local/pid; while :; do sleep 0.02; done"));
    let pid = stage.number_in(id, "web/local/pid").await;
    stage.until("running", id, is_running).await;
    stage.client.shutdown(true).await;
    assert!(!is_alive(pid));
    assert!(!stage.alloc_dir(id).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn client_gc_collects_only_terminal_allocs() {
    let stage = Stage::new().await;
    let id = stage.run(task("mock_driver", json!({ "run_for": "1h" })));
    stage.until("running", id, is_running).await;
    let refused = stage.client.alloc_gc(id).await.unwrap_err().to_string();
    assert_eq!(refused, "No such allocation on client, or allocation not eligible for GC");
    stage.servers.stop(id);
    stage.until_status(id, AllocClientStatus::Complete).await;
    stage.client.alloc_gc(id).await.unwrap();
    assert!(!stage.alloc_dir(id).exists());
    let gone = stage.client.fs_list(id, "/").await.unwrap_err().to_string();
    assert_eq!(gone, format!("open {}: no such file or directory", stage.alloc_dir(id).display()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allocation_that_cannot_be_set_up_fails_with_the_reason() {
    let stage = Stage::new().await;
    let mut broken = crate::fake::alloc(songline_model::JobType::Batch, vec![shell("exit 0")]);
    broken.allocated_resources = None;
    let id = stage.servers.place(broken);
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    assert_eq!(
        update.client_description,
        "Unable to add allocation due to error: failed creating runner for task \"web\": no task resources found on allocation"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn client_stats_have_the_json_form_of_nomad() {
    let stage = Stage::new().await;
    let id = stage.run(shell("echo $$ > local/pid; while :; do sleep 0.02; done"));
    let pid = stage.number_in(id, "web/local/pid").await;
    stage.until("running", id, is_running).await;
    let usage: serde_json::Value = serde_json::from_slice(&stage.client.alloc_stats(id, "").await.unwrap()).unwrap();
    assert!(usage["Tasks"]["web"]["ResourceUsage"]["MemoryStats"]["RSS"].as_u64() > Some(0), "{usage}");
    assert!(usage["Tasks"]["web"]["Pids"][pid.to_string()].is_object(), "{usage}");
    let host: serde_json::Value = serde_json::from_slice(&stage.client.host_stats().await.unwrap()).unwrap();
    assert!(
        host["Memory"]["Total"].as_u64() > Some(0) && host["CPU"].as_array().is_some_and(|cpus| !cpus.is_empty()),
        "{host}"
    );
    assert!(host["AllocDirStats"]["Size"].as_u64() > Some(0), "{host}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_gc_removes_the_oldest_terminal_allocs_above_the_limit() {
    let stage = Stage::with(|config| config.gc_allocs_max = 2).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        let id = stage.run(task("mock_driver", json!({})));
        stage.until_status(id, AllocClientStatus::Complete).await;
        ids.push(id);
    }
    until("the oldest to be collected", || {
        (!stage.alloc_dir(ids[0]).exists() && !stage.alloc_dir(ids[1]).exists()).then_some(())
    })
    .await;
    assert!(stage.alloc_dir(ids[3]).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_waits_for_its_predecessor_and_inherits_its_disk() {
    let stage = Stage::new().await;
    let sticky = |script: &str| {
        let mut alloc = crate::fake::alloc(JobType::Service, vec![shell(script)]);
        let job = Arc::make_mut(alloc.job.as_mut().expect("has a job"));
        let group = &mut job.task_groups.as_mut().expect("has groups")[0];
        group.ephemeral_disk = Some(EphemeralDisk { sticky: true, size_mb: 10, migrate: false });
        alloc
    };
    let wait = "echo left > $NOMAD_ALLOC_DIR/data/file; echo own > local/file; while :; do sleep 0.02; done";
    let first = stage.servers.place(sticky(wait));
    stage.until("running", first, is_running).await;
    until("its data", || stage.alloc_dir(first).join("web/local/file").exists().then_some(())).await;
    let mut successor = sticky("cat $NOMAD_ALLOC_DIR/data/file local/file; while :; do sleep 0.02; done");
    successor.previous_allocation = Some(first);
    let second = stage.servers.place(successor);
    stage.until("pending", second, |update| update.client_status == AllocClientStatus::Pending).await;
    stage.servers.stop(first);
    stage.until("running", second, is_running).await;
    assert_eq!(stage.servers.updates_of(first).pop().expect("was told").client_status, AllocClientStatus::Complete);
    let mut printed = String::new();
    while printed != "left\nown\n" {
        printed = stage.logs(second, "stdout", 0, Origin::Start).await.unwrap();
        assert!("left\nown\n".starts_with(&printed), "{printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_changes_nothing_is_fetched_once() {
    let stage = Stage::new().await;
    let id = stage.run(task("mock_driver", json!({ "run_for": "1h" })));
    stage.until("running", id, is_running).await;
    stage.servers.edit(id, |_| {});
    until("the second fetch", || (stage.servers.fetched() == 2).then_some(())).await;
    // The runner processes the update asynchronously; the whole life of another allocation is long enough.
    let other = stage.run(task("mock_driver", json!({})));
    stage.until_status(other, AllocClientStatus::Complete).await;
    let before = stage.servers.fetched();
    let last = stage.run(task("mock_driver", json!({})));
    stage.until_status(last, AllocClientStatus::Complete).await;
    assert_eq!(stage.servers.fetched(), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn alloc_marked_unknown_by_the_servers_gets_a_reconnected_event() {
    let stage = Stage::new().await;
    let id = stage.run(task("mock_driver", json!({ "run_for": "1h" })));
    stage.until("running", id, is_running).await;
    stage.servers.edit(id, |alloc| alloc.client_status = AllocClientStatus::Unknown);
    let update = stage.until("the event", id, |update| kinds(update).contains(&"Reconnected".to_owned())).await;
    assert_eq!(update.client_status, AllocClientStatus::Running);
}
