//! Real processes: their output, exit codes and stops.

use std::path::PathBuf;

use expect_test::expect;
use serde_json::json;
use songline_model::{AllocClientStatus, Dur, JobType, LogConfig, RestartPolicy};
use songline_rpc::{NodeAgent, Origin};

use crate::fake::{Stage, alloc, is_alive, is_running, kinds, messages, shell, task, until, web};

#[tokio::test(flavor = "multi_thread")]
async fn a_script_runs_and_its_output_is_kept() {
    let stage = Stage::new().await;
    let id = stage.run(shell("echo hello from $NOMAD_TASK_NAME; echo oops >&2; pwd; exit 0"));
    let update = stage.until_status(id, AllocClientStatus::Complete).await;
    let dir = stage.alloc_dir(id).join("web");
    assert_eq!(
        stage.logs(id, "stdout", 0, Origin::Start).await.unwrap(),
        format!("hello from web\n{}\n", dir.display())
    );
    assert_eq!(stage.logs(id, "stderr", 0, Origin::Start).await.unwrap(), "oops\n");
    expect![[r#"
        [
            "Task received by client",
            "Building Task Directory",
            "Task started by client",
            "Exit Code: 0",
        ]
    "#]]
    .assert_debug_eq(&messages(&update));
    assert!(!web(&update).failed && web(&update).finished_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_task_restarts_as_its_policy_says_and_then_fails() {
    let stage = Stage::new().await;
    let policy = RestartPolicy {
        attempts: 1,
        interval: Dur::from_mins(5),
        delay: Dur::from_millis(10),
        mode: "fail".into(),
        render_templates: false,
    };
    let failing = songline_model::Task { restart_policy: Some(policy), ..shell("echo again; exit 3") };
    let id = stage.servers.place(alloc(JobType::Service, vec![failing]));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    expect![[r#"
        [
            "Received",
            "Task Setup",
            "Started",
            "Terminated",
            "Restarting",
            "Started",
            "Terminated",
            "Not Restarting",
        ]
    "#]]
    .assert_debug_eq(&kinds(&update));
    assert_eq!((web(&update).failed, web(&update).restarts), (true, 1));
    let last = messages(&update).pop();
    assert_eq!(last.as_deref(), Some("Exceeded allowed attempts 1 in interval 5m0s and mode is \"fail\""));
    assert_eq!(stage.logs(id, "stdout", 0, Origin::Start).await.unwrap(), "again\nagain\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_rotate_and_read_back_as_one() {
    let stage = Stage::new().await;
    let mut noisy = shell("head -c 2500000 /dev/zero | tr '\\0' x; echo end");
    noisy.log_config = Some(LogConfig { max_files: 2, max_file_size_mb: 1, disabled: false });
    let id = stage.run(noisy);
    stage.until_status(id, AllocClientStatus::Complete).await;
    let listed = stage.client.fs_list(id, "alloc/logs").await.unwrap();
    let names: Vec<_> = listed.iter().map(|file| (file.name.as_str(), file.size)).collect();
    assert_eq!(names, [("web.stderr.0", 0), ("web.stdout.1", 1 << 20), ("web.stdout.2", 2_500_004 - (2 << 20))]);
    assert_eq!(stage.logs(id, "stdout", 0, Origin::Start).await.unwrap().len(), 2_500_004 - (1 << 20));
    assert_eq!(stage.logs(id, "stdout", 6, Origin::End).await.unwrap(), "xxend\n");
    let across = stage.logs(id, "stdout", (1 << 20) - 3, Origin::Start).await.unwrap();
    assert_eq!(across.len(), 2_500_004 - (2 << 20) + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_reaches_the_process() {
    let stage = Stage::new().await;
    let id = stage.run(shell("trap 'echo hup; exit 4' HUP; echo $$ > local/ready; while :; do sleep 0.05; done"));
    stage.number_in(id, "web/local/ready").await;
    stage.until("running", id, is_running).await;
    stage.client.alloc_signal(id, "", "SIGHUP").await.unwrap();
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    assert!(messages(&update).contains(&"Task being sent a signal".to_owned()), "{:?}", messages(&update));
    assert!(messages(&update).contains(&"Exit Code: 4".to_owned()), "{:?}", messages(&update));
    assert_eq!(stage.logs(id, "stdout", 0, Origin::Start).await.unwrap(), "hup\n");
    assert_eq!(stage.client.alloc_signal(id, "web", "SIGHUP").await.unwrap_err().to_string(), "Task not running");
    assert_eq!(stage.client.alloc_signal(id, "db", "SIGHUP").await.unwrap_err().to_string(), "Task not found");
}

/// A shell cannot trap a signal that it ignores from the beginning.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_the_agent_ignores_reaches_the_process() {
    let stage = Stage::with(|config| {
        let deaf = ["sh", "-c", "trap '' HUP INT; exec \"$0\" \"$@\""].map(PathBuf::from);
        config.executor.splice(0..0, deaf);
    })
    .await;
    let id = stage.run(shell("trap 'exit 4' HUP; echo $$ > local/ready; while :; do sleep 0.05; done"));
    stage.number_in(id, "web/local/ready").await;
    stage.until("running", id, is_running).await;
    stage.client.alloc_signal(id, "", "SIGHUP").await.unwrap();
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    assert!(messages(&update).contains(&"Exit Code: 4".to_owned()), "{:?}", messages(&update));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ignores_its_signal_is_killed_with_all_its_children() {
    let stage = Stage::new().await;
    let mut stubborn = shell(
        "trap '' INT; (trap '' INT; while :; do sleep 0.05; done) & echo $! > local/child; echo $$ > local/ready; while :; do sleep 0.05; done",
    );
    stubborn.kill_timeout = Dur::from_millis(100);
    let id = stage.run(stubborn);
    let (parent, child) = (stage.number_in(id, "web/local/ready").await, stage.number_in(id, "web/local/child").await);
    stage.until("running", id, is_running).await;
    stage.servers.stop(id);
    let update = stage.until_status(id, AllocClientStatus::Complete).await;
    expect![[r#"
        [
            "Task received by client",
            "Building Task Directory",
            "Task started by client",
            "Sent interrupt. Waiting 100ms before force killing",
            "Exit Code: 137, Signal: 9",
            "Task successfully killed",
        ]
    "#]]
    .assert_debug_eq(&messages(&update));
    until("both processes to be gone", || (!is_alive(parent) && !is_alive(child)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_fails_the_task() {
    let stage = Stage::new().await;
    let id = stage.run(task("raw_exec", json!({ "command": "no-such-program" })));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    expect![[r#"
        [
            "Task received by client",
            "Building Task Directory",
            "failed to launch command with executor: rpc error: code = Unknown desc = binary \"no-such-program\" could not be found",
            "Policy allows no restarts",
        ]
    "#]]
    .assert_debug_eq(&messages(&update));
}

#[tokio::test(flavor = "multi_thread")]
async fn driver_config_with_an_unknown_variable_fails_validation() {
    let stage = Stage::new().await;
    let id = stage.run(task("raw_exec", json!({ "command": "/bin/echo", "args": ["${nope}"] })));
    let update = stage.until_status(id, AllocClientStatus::Failed).await;
    expect![[r#"
        [
            "Task received by client",
            "Building Task Directory",
            "2 errors occurred:\n\t* failed to parse config: \n\t* Unknown variable: There is no variable named \"nope\". Did you mean \"node\"?\n\n",
            "Policy allows no restarts",
        ]
    "#]]
    .assert_debug_eq(&messages(&update));
}
