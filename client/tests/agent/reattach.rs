//! Agents restart; each task keeps running as one process.

use songline_model::AllocClientStatus;
use songline_rpc::Origin;

use crate::fake::{Stage, is_alive, is_running, kinds, shell, until, web};

const COUNTING: &str = "trap 'exit 7' USR1; echo $$ > local/pid; n=0; while :; do n=$((n+1)); echo line $n; echo $n > local/count.new; \
                        mv local/count.new local/count; sleep 0.02; done";

/// Whether the lines count up from one without a hole or a repeat.
fn is_whole(log: &str) -> bool {
    log.lines().enumerate().all(|(at, line)| line == format!("line {}", at + 1))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_task_survives_its_agent_and_is_found_again() {
    let stage = Stage::new().await;
    let id = stage.run(shell(COUNTING));
    let pid = stage.number_in(id, "web/local/pid").await;
    stage.until("running", id, is_running).await;
    let node = stage.client.node_id();

    let stage = stage.crash().await;
    assert_eq!(stage.client.node_id(), node, "a restarted agent is the same node");
    let before = stage.number_in(id, "web/local/count").await;
    until("the task to go on", || {
        let text = std::fs::read_to_string(stage.alloc_dir(id).join("web/local/count")).ok()?;
        (text.trim().parse::<i32>().ok()? > before + 5).then_some(())
    })
    .await;
    assert!(is_alive(pid));
    assert_eq!(stage.number_in(id, "web/local/pid").await, pid, "it was not started again");

    songline_rpc::NodeAgent::alloc_signal(&stage.client, id, "web", "SIGUSR1").await.unwrap();
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    assert_eq!(
        web(&update).events.iter().flatten().find(|event| event.kind == "Terminated").map(|event| event.exit_code),
        Some(7)
    );
    let started = kinds(&update).iter().filter(|kind| *kind == "Started").count();
    assert_eq!(started, 1, "{:?}", kinds(&update));
    let log = stage.logs(id, "stdout", 0, Origin::Start).await.unwrap();
    assert!(is_whole(&log), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn task_exit_while_the_agent_is_down_is_reported_by_the_next_agent() {
    let stage = Stage::new().await;
    let id = stage.run(shell("echo $$ > local/pid; while [ ! -e local/go ]; do sleep 0.02; done; exit 9"));
    let pid = stage.number_in(id, "web/local/pid").await;
    stage.until("running", id, is_running).await;
    let go = stage.alloc_dir(id).join("web/local/go");
    stage.client.shutdown(false).await;
    assert!(is_alive(pid), "an agent that ends leaves its tasks alone");
    std::fs::write(go, "").unwrap();
    until("the task to end", || (!is_alive(pid)).then_some(())).await;

    let stage = stage.start_again().await;
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    assert_eq!(
        web(&update).events.iter().flatten().find(|event| event.kind == "Terminated").map(|event| event.exit_code),
        Some(9)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn alloc_stopped_while_the_agent_is_down_is_stopped_by_the_next_agent() {
    let stage = Stage::new().await;
    let id = stage.run(shell("echo $$ > local/pid; while :; do sleep 0.02; done"));
    let pid = stage.number_in(id, "web/local/pid").await;
    stage.until("running", id, is_running).await;
    stage.client.shutdown(false).await;
    stage.servers.stop(id);
    let stage = stage.start_again().await;
    stage.until_status(id, AllocClientStatus::Complete).await;
    assert!(!is_alive(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn alloc_deleted_while_the_agent_is_down_is_removed_by_the_next_agent() {
    let stage = Stage::new().await;
    let id = stage.run(shell("echo $$ > local/pid; while :; do sleep 0.02; done"));
    let pid = stage.number_in(id, "web/local/pid").await;
    stage.until("running", id, is_running).await;
    let stage = {
        stage.client.shutdown(false).await;
        stage.servers.forget(id);
        stage.start_again().await
    };
    until("the process to be gone", || (!is_alive(pid)).then_some(())).await;
    until("the directory to be gone", || (!stage.alloc_dir(id).exists()).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn completed_alloc_is_not_run_again_by_a_restarted_agent() {
    let stage = Stage::new().await;
    let id = stage.run(shell("echo once; exit 0"));
    let before = stage.until_status(id, AllocClientStatus::Complete).await;
    let stage = stage.restart().await;
    let other = stage.run(shell("exit 0"));
    stage.until_status(other, AllocClientStatus::Complete).await;
    assert_eq!(stage.logs(id, "stdout", 0, Origin::Start).await.unwrap(), "once\n");
    let after = stage.servers.updates_of(id).pop().expect("was told once");
    assert_eq!(kinds(&after), kinds(&before));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_executor_was_killed_is_not_left_running() {
    let stage = Stage::new().await;
    let id = stage.run(shell("echo $$ > local/pid; echo $PPID > local/executor; while :; do sleep 0.02; done"));
    let (pid, executor) = (stage.number_in(id, "web/local/pid").await, stage.number_in(id, "web/local/executor").await);
    stage.until("running", id, is_running).await;
    let executor = rustix::process::Pid::from_raw(executor).expect("not zero");
    rustix::process::kill_process(executor, rustix::process::Signal::KILL).unwrap();
    stage.until_status(id, AllocClientStatus::Failed).await;
    until("the task to be gone", || (!is_alive(pid)).then_some(())).await;
}
