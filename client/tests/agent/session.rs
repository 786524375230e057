//! Commands in tasks, started on the node itself: after its restart, inside a task's own root, with the bound
//! reached, and disabled.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use songline_client::executor::place::{Isolation, Order, Place, Spec};
use songline_model::{AllocClientStatus, AllocId};
use songline_rpc::{ExecCommand, ExecInput, ExecOutput, ExecSession, NodeAgent, RpcError};

use crate::escapes::may_run;
use crate::fake::{Stage, is_running, shell, task, until};

/// Running time of a simulated command: longer than any test.
const LONG: &str = "1h";

pub async fn begin(stage: &Stage, alloc: AllocId, command: &[&str]) -> Result<ExecSession, RpcError> {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    stage.client.alloc_exec(ExecCommand { alloc, task: "web".into(), command, tty: false }).await
}

pub async fn hear_all(mut session: ExecSession) -> (String, Option<Result<ExecOutput, RpcError>>) {
    let (mut printed, mut last) = (Vec::new(), None);
    while let Some(said) = session.output.recv().await {
        match &said {
            Ok(ExecOutput::Stdout(bytes) | ExecOutput::Stderr(bytes)) => printed.extend_from_slice(bytes),
            Ok(_) | Err(_) => last = Some(said),
        }
    }
    (String::from_utf8_lossy(&printed).into_owned(), last)
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_in_a_task_that_an_earlier_agent_has_started() {
    let stage = Stage::new().await;
    let id = stage.run(shell("exec sleep 86400"));
    stage.until("running", id, is_running).await;
    let stage = stage.crash().await;
    stage.until("running again", id, is_running).await;
    // The new agent knows that the task runs before it has recovered its process.
    let session = loop {
        match begin(&stage, id, &["sh", "-c", "echo $NOMAD_TASK_NAME; cat; exit 4"]).await {
            Ok(session) => break session,
            Err(refusal) => assert!(refusal.to_string().ends_with("not started yet."), "{refusal}"),
        }
        tokio::task::yield_now().await;
    };
    session.input.send(ExecInput::Stdin("typed".into())).await.expect("is heard");
    session.input.send(ExecInput::StdinClose).await.expect("is heard");
    let (printed, last) = hear_all(session).await;
    assert_eq!(printed, "web\ntyped");
    assert_eq!(last, Some(Ok(ExecOutput::Exited { exit_code: 4, signal: 0 })));
}

#[tokio::test(flavor = "multi_thread")]
async fn node_allows_256_exec_sessions_and_a_dropped_one_makes_room() {
    let stage = Stage::new().await;
    let id = stage.run(task("mock_driver", json!({"run_for": LONG, "exec_command": {"run_for": LONG}})));
    stage.until("running", id, is_running).await;
    let mut sessions = Vec::new();
    let refusal = loop {
        match begin(&stage, id, &["anything"]).await {
            Ok(session) => sessions.push(session),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(
        (sessions.len(), refusal.to_string().as_str()),
        (256, "too many sessions on this node: at most 256 at the same time")
    );
    sessions.pop();
    while begin(&stage, id, &["anything"]).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_may_refuse_all_sessions_and_an_ended_task_has_none() {
    let stage = Stage::with(|config| config.disable_remote_exec = true).await;
    let id = stage.run(shell("exec sleep 86400"));
    stage.until("running", id, is_running).await;
    assert_eq!(begin(&stage, id, &["true"]).await.err(), Some(RpcError::remote("Permission denied")));

    let stage = Stage::new().await;
    let id = stage.run(shell("exit 0"));
    stage.until_status(id, AllocClientStatus::Complete).await;
    let refusal = begin(&stage, id, &["true"]).await.err();
    assert_eq!(refusal, Some(RpcError::Coded { code: 404, text: "task \"web\" is not running.".to_owned() }));
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_command_in_an_isolated_task_shares_its_root_and_processes() {
    if !may_run("root: namespaces", rustix::process::geteuid().is_root()) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("local")).expect("makes");
    let host = ["/bin", "/lib", "/lib64", "/usr"].into_iter().filter(|path| Path::new(path).exists());
    let program = env!("CARGO_BIN_EXE_songline-executor");
    let spec = Spec {
        command: "sleep".into(),
        args: vec!["86400".to_owned()],
        env: BTreeMap::from([
            ("GREETING".to_owned(), "hello".to_owned()),
            ("PATH".to_owned(), "/bin:/usr/bin".to_owned()),
        ]),
        dir: "/".into(),
        user: "nobody".into(),
        logs: None,
        network: None,
        cgroups: None,
        isolation: Some(Isolation {
            root,
            binds: host.map(crate::isolation::read_only).collect(),
            own_pids: true,
            own_ipc: true,
            init: vec![program.into()],
            ..Isolation::default()
        }),
    };
    let place = Place::new(dir.path().join("run"));
    let lock = place.prepare(&spec).expect("prepares");
    let mut executor = Command::new(program)
        .arg("run")
        .arg(place.dir())
        .stdin(Stdio::from(lock))
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let started = until("the start", || place.read_started().expect("readable")).await;
    // The first process inside becomes the task after it has set up its mounts.
    let name = format!("/proc/{}/comm", started.task);
    until("the task", || std::fs::read_to_string(&name).ok().filter(|name| name == "sleep\n")).await;
    let script = "cat /proc/1/comm; id -u; ls -d /local /etc 2>&1; echo $GREETING; exit 9";
    let ran = Command::new(program)
        .arg("session")
        .args([place.dir(), &dir.path().join("report")])
        .args(["pipes", "sh", "-c", script])
        .stdin(Stdio::null())
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.first(), Some(&"sleep"), "{said} {}", String::from_utf8_lossy(&ran.stderr));
    assert_ne!(lines[1], "0", "{said}");
    assert!(said.contains("/local\n") && !said.contains("\n/etc\n"), "{said}");
    assert_eq!((lines.last(), ran.status.code()), (Some(&"hello"), Some(9)));
    place.order(&Order::Stop { signal: 9, timeout: std::time::Duration::ZERO }).expect("is heard");
    executor.wait().expect("ends");
}
