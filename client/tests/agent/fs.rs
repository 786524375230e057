//! Reading files and logs of allocations.

use songline_model::AllocClientStatus;
use songline_rpc::{NodeAgent, Origin, ReadFile, ReadLogs, RpcError};

use crate::fake::{Stage, is_running, shell};

async fn read(stage: &Stage, read: ReadFile) -> Result<String, RpcError> {
    let mut frames = stage.client.fs_read(read).await?;
    let mut data = Vec::new();
    while let Some(frame) = frames.recv().await {
        data.extend_from_slice(&frame?.data);
    }
    Ok(String::from_utf8_lossy(&data).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_read_in_parts() {
    let stage = Stage::new().await;
    let id = stage.run(shell("printf 0123456789 > local/file"));
    stage.until_status(id, AllocClientStatus::Complete).await;
    let part = |offset, limit, origin| ReadFile {
        alloc: id,
        path: "web/local/file".into(),
        offset,
        limit,
        origin,
        follow: false,
    };
    assert_eq!(read(&stage, part(0, 0, Origin::Start)).await.unwrap(), "0123456789");
    assert_eq!(read(&stage, part(3, 4, Origin::Start)).await.unwrap(), "3456");
    assert_eq!(read(&stage, part(3, 0, Origin::End)).await.unwrap(), "789");
    assert_eq!(read(&stage, part(99, 0, Origin::Start)).await.unwrap(), "");
    let stat = stage.client.fs_stat(id, "web/local/file").await.unwrap();
    assert_eq!((stat.size, stat.content_type.as_str()), (10, "text/plain; charset=utf-8"));
}

#[tokio::test(flavor = "multi_thread")]
async fn log_follow_delivers_new_output_and_bad_requests_are_refused() {
    let stage = Stage::new().await;
    let id = stage
        .run(shell("echo one; while [ ! -e local/go ]; do sleep 0.02; done; echo two; while :; do sleep 0.02; done"));
    stage.until("running", id, is_running).await;
    let logs = |task: &str, kind: &str| ReadLogs {
        alloc: id,
        task: task.into(),
        kind: kind.into(),
        offset: 0,
        origin: Origin::Start,
        follow: true,
    };
    let mut frames = stage.client.fs_logs(logs("web", "stdout")).await.unwrap();
    let mut seen = String::new();
    while seen != "one\ntwo\n" {
        let frame = frames.recv().await.expect("goes on").expect("is readable");
        seen.push_str(&String::from_utf8_lossy(&frame.data));
        if seen == "one\n" {
            std::fs::write(stage.alloc_dir(id).join("web/local/go"), "").unwrap();
        }
    }
    let wrong = |error: RpcError| match error {
        RpcError::Coded { code, text } => (code, text),
        other => (500, other.to_string()),
    };
    let error = async |task: &str, kind: &str| wrong(stage.client.fs_logs(logs(task, kind)).await.unwrap_err());
    assert_eq!(error("", "stdout").await, (400, "must provide task name".to_owned()));
    assert_eq!(error("web", "both").await, (400, "must provide log type (stdout/stderr)".to_owned()));
    assert_eq!(error("db", "stdout").await, (400, "unknown task name \"db\"".to_owned()));
}
