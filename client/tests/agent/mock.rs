//! The options of `mock_driver`, as the servers see their effects.

use serde_json::{Value, json};
use songline_model::AllocClientStatus;
use songline_rpc::{NodeAgent, Origin};

use crate::fake::{Stage, is_running, messages, task, web};

async fn ended(stage: &Stage, config: Value, status: AllocClientStatus) -> Vec<String> {
    let id = stage.run(task("mock_driver", config));
    messages(&stage.until_status(id, status).await).split_off(2)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mocked_task_ends_as_its_options_say() {
    use AllocClientStatus::{Complete, Failed};
    let stage = Stage::new().await;
    let started = "Task started by client";
    assert_eq!(ended(&stage, json!({}), Complete).await, [started, "Exit Code: 0"]);
    let failed =
        ended(&stage, json!({ "run_for": "10ms", "exit_code": 2, "exit_signal": 9, "exit_err_msg": "boom" }), Failed)
            .await;
    assert_eq!(failed, [started, "Exit Code: 2, Signal: 9, Exit Message: \"boom\"", "Policy allows no restarts"]);
    let not_started = ended(&stage, json!({ "start_error": "no way", "start_block_for": "5ms" }), Failed).await;
    assert_eq!(not_started, ["no way", "Policy allows no restarts"]);
    let plugin = ended(&stage, json!({ "run_for": "1h", "plugin_exit_after": "5ms" }), Failed).await;
    assert_eq!(plugin, [started, "Exit Code: 0, Exit Message: \"plugin is shut down\"", "Policy allows no restarts"]);
    let ports = ended(&stage, json!({ "driver_port_map": "a:b:c" }), Failed).await;
    assert_eq!(ports, ["malformed port map: \"a:b:c\"", "Policy allows no restarts"]);
    let span = ended(&stage, json!({ "run_for": "soon" }), Failed).await;
    assert!(span[0].contains("run_for \"soon\" not a valid duration"), "{span:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mocked_task_prints_and_is_stopped() {
    let stage = Stage::new().await;
    let config = json!({
        "run_for": "1h", "stdout_string": "tick ", "stdout_repeat": 2, "stdout_repeat_duration": "1ms",
        "signal_error": "not now", "kill_after": "5ms",
    });
    let id = stage.run(task("mock_driver", config));
    stage.until("running", id, is_running).await;
    let mut printed = String::new();
    while printed != "tick tick tick " {
        printed = stage.logs(id, "stdout", 0, Origin::Start).await.unwrap();
        assert!("tick tick tick ".starts_with(&printed), "{printed}");
    }
    let refused = stage.client.alloc_signal(id, "web", "SIGHUP").await.unwrap_err().to_string();
    assert_eq!(refused, "not now");
    stage.servers.stop(id);
    let update = stage.until_status(id, AllocClientStatus::Complete).await;
    assert!(!web(&update).failed);
    assert_eq!(
        messages(&update).split_off(4),
        ["Sent interrupt. Waiting 5s before force killing", "Exit Code: 0", "Task successfully killed"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mocked_task_goes_on_after_a_restart_of_the_agent() {
    let stage = Stage::new().await;
    let id = stage.run(task("mock_driver", json!({ "run_for": "1h" })));
    stage.until("running", id, is_running).await;
    let stage = stage.restart().await;
    stage.servers.stop(id);
    let update = stage.until_status(id, AllocClientStatus::Complete).await;
    let shown = messages(&update);
    assert_eq!(shown.iter().filter(|message| *message == "Task started by client").count(), 1, "{shown:?}");
}
