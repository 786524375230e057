//! `exec` with limits: enforcement, the result when a task exceeds them, and complete removal. Needs cgroups and
//! root; elsewhere each test passes with a message, or fails where the environment variable `CI` is set.

use serde_json::json;
use songline_client::cgroup::Cgroups;
use songline_client::cgroup::hierarchy::{Hierarchy, Limits};
use songline_model::{AllocClientStatus, AllocId, Task};
use songline_rpc::{NodeAgent, Origin};

use crate::attacks::can_isolate;
use crate::fake::{Stage, is_alive, is_running, messages, shell, task, until, web};

/// Script that runs without starting further programs until the file `go` exists.
const WAITING: &str = "echo up; while [ ! -e /local/go ]; do sleep 0.02; done; exit 3";

fn exec(script: &str) -> Task {
    task("exec", json!({ "command": "/bin/sh", "args": ["-c", script] }))
}

/// Cgroups of an allocation's task.
fn cgroups_of(id: AllocId) -> Cgroups {
    let found = Hierarchy::find("").expect("looked at before");
    found.limited(&format!("{id}.web.scope"), &Limits { cores: &[0], ..Limits::default() }).at
}

/// Existing cgroups of an allocation's task.
fn present(id: AllocId) -> Vec<String> {
    cgroups_of(id).dirs().into_iter().filter(|dir| dir.exists()).map(|dir| dir.display().to_string()).collect()
}

async fn until_gone(id: AllocId) {
    until("the cgroups to be gone", || present(id).is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_above_its_memory_limit_is_killed_and_reported_as_oom_killed() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    // A line of 512 MiB, kept in memory, where 64 MiB are allowed.
    let id = stage.run(exec("head -c 536870912 /dev/zero | tr '\\0' x | tail -n 1 > /dev/null"));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    let ended = web(&update).events.iter().flatten().find(|event| event.kind == "Terminated").expect("it has ended");
    assert_eq!(ended.exit_code, 137);
    assert_eq!(
        ended.details.as_ref().and_then(|details| details.get("oom_killed")).map(|told| told.as_str()),
        Some("true")
    );
    until_gone(id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_with_limits_keeps_its_exit_code_and_leaves_no_cgroup() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    let id = stage.run(exec(WAITING));
    stage.until("running", id, is_running).await;
    let found = Hierarchy::find("").expect("looked at before");
    // The same limits as the tests' allocation has.
    let asked = found
        .limited(&format!("{id}.web.scope"), &Limits { memory_bytes: 64 << 20, cpu_shares: 100, ..Limits::default() });
    for setting in asked.settings.iter().filter(|setting| setting.needed) {
        let set = std::fs::read_to_string(&setting.file).expect("is there");
        assert_eq!(set.trim(), setting.value, "{}", setting.file.display());
    }
    let usage: serde_json::Value = serde_json::from_slice(&stage.client.alloc_stats(id, "web").await.unwrap()).unwrap();
    let memory = &usage["Tasks"]["web"]["ResourceUsage"]["MemoryStats"];
    assert!(
        memory["Usage"].as_u64().is_some_and(|bytes| bytes > 0) && memory["Measured"].to_string().contains("\"Usage\""),
        "{usage}"
    );
    std::fs::write(stage.alloc_dir(id).join("web/local/go"), "").unwrap();
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    assert_eq!(messages(&update).get(3).map(String::as_str), Some("Exit Code: 3"), "{:?}", messages(&update));
    assert_eq!(stage.logs(id, "stdout", 0, Origin::Start).await.unwrap(), "up\n");
    until_gone(id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_with_limits_is_recovered_and_stopped_with_all_its_processes() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    let id = stage.run(exec(&format!("trap 'exit 3' INT; setsid sleep 1000 & {WAITING}")));
    stage.until("running", id, is_running).await;
    let members = until("all of it", || Some(cgroups_of(id).members()).filter(|members| members.len() > 1)).await;
    let stage = stage.crash().await;
    until("the agent", || stage.servers.node()).await;
    assert!(!present(id).is_empty());
    stage.servers.stop(id);
    stage.until("the end", id, |update| update.client_status.is_terminal()).await;
    until("the end of all", || members.iter().all(|pid| !is_alive(*pid)).then_some(())).await;
    until_gone(id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn task_whose_executor_was_killed_leaves_no_process_or_cgroup() {
    if !can_isolate() {
        return;
    }
    for task in [exec(&format!("setsid sleep 1000 & {WAITING}")), shell("setsid sleep 1000 & sleep 1000")] {
        let stage = Stage::new().await;
        let id = stage.run(task);
        stage.until("running", id, is_running).await;
        let members = until("all of it", || Some(cgroups_of(id).members()).filter(|members| members.len() > 1)).await;
        let executor = members
            .iter()
            .copied()
            .map(parent_of)
            .find(|parent| !members.contains(parent))
            .expect("somebody started it");
        let executor = rustix::process::Pid::from_raw(executor).expect("a process");
        rustix::process::kill_process(executor, rustix::process::Signal::KILL).expect("is there");
        until("the end of all", || members.iter().all(|pid| !is_alive(*pid)).then_some(())).await;
        until_gone(id).await;
        stage.servers.stop(id);
        stage.until("the end", id, |update| update.client_status.is_terminal()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_exec_usage_covers_processes_that_left_the_process_group() {
    if !can_isolate() {
        return;
    }
    let stage = Stage::new().await;
    let id = stage.run(shell("setsid sleep 1000 & echo $! > local/child; sleep 1000"));
    let child = stage.number_in(id, "web/local/child").await;
    stage.until("running", id, is_running).await;
    let usage: serde_json::Value = serde_json::from_slice(&stage.client.alloc_stats(id, "web").await.unwrap()).unwrap();
    let task = &usage["Tasks"]["web"];
    assert!(task["Pids"].as_object().is_some_and(|pids| pids.contains_key(&child.to_string())), "{usage}");
    // The sum of processes: cgroups of this driver count nothing.
    let measured = &task["ResourceUsage"]["MemoryStats"]["Measured"];
    assert_eq!(*measured, json!(["RSS", "Swap"]), "{usage}");
    stage.servers.stop(id);
    stage.until("the end", id, |update| update.client_status.is_terminal()).await;
}

fn parent_of(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}
