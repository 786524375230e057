//! Servers call a node over its session.

use std::collections::BTreeMap;

use expect_test::expect;
use parking_lot::Mutex;
use songline_model::{AllocId, Blob, Str, Time};
use songline_rpc::message::CheckResult;
use songline_rpc::message::{ExecMessage, ExecStdin, StreamErrWrapper};
use songline_rpc::net::{call_over, open_channel};
use songline_rpc::yamux::{Session, SessionLimits};
use songline_rpc::{
    AllocFileInfo, ExecCommand, ExecInput, ExecOutput, ExecSession, NodeMeta, ReadFile, ReadLogs, StreamFrame,
};
use tokio::sync::mpsc;

use super::*;

/// A node that records its calls.
#[derive(Default)]
struct Notes {
    asked: Mutex<Vec<String>>,
}

impl Notes {
    fn note(&self, line: String) {
        self.asked.lock().push(line);
    }

    fn frames(&self, line: String) -> Result<frames::Frames, RpcError> {
        self.note(line);
        let (to, frames) = mpsc::channel(4);
        for (offset, data) in [(0, "one"), (3, ""), (3, "two")] {
            let frame = if data.is_empty() {
                StreamFrame::default()
            } else {
                StreamFrame { offset, data: data.into(), file: "web.stdout.0".into(), file_event: Str::default() }
            };
            to.try_send(Ok(frame)).unwrap();
        }
        to.try_send(Err(RpcError::Coded { code: 404, text: "file deleted".into() })).unwrap();
        Ok(frames)
    }
}

impl CsiNode for Notes {
    async fn csi(&self, method: &str, _: &[u8]) -> Result<Bytes, Refusal> {
        self.note(method.to_owned());
        Err(Refusal::NoMethod)
    }
}

impl NodeAgent for Notes {
    async fn fs_list(&self, alloc: AllocId, path: &str) -> Result<Vec<AllocFileInfo>, RpcError> {
        self.note(format!("list {alloc:?} {path}"));
        let (file_mode, mod_time) = ("drwxrwxrwx".into(), Time::from_secs(7));
        Ok(vec![AllocFileInfo {
            name: "alloc".into(),
            is_dir: true,
            size: 4096,
            file_mode,
            mod_time,
            content_type: Str::default(),
        }])
    }

    async fn fs_stat(&self, _: AllocId, path: &str) -> Result<AllocFileInfo, RpcError> {
        Err(RpcError::Coded { code: 404, text: format!("no {path}") })
    }

    async fn fs_read(&self, read: ReadFile) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        self.frames(format!("{read:?}"))
    }

    async fn fs_logs(&self, logs: ReadLogs) -> Result<mpsc::Receiver<Result<StreamFrame, RpcError>>, RpcError> {
        self.frames(format!("{logs:?}"))
    }

    async fn alloc_restart(&self, alloc: AllocId, task: &str, all: bool) -> Result<(), RpcError> {
        self.note(format!("restart {alloc:?} {task:?} {all}"));
        Ok(())
    }

    async fn alloc_signal(&self, alloc: AllocId, task: &str, signal: &str) -> Result<(), RpcError> {
        self.note(format!("signal {alloc:?} {task:?} {signal}"));
        Err(RpcError::remote("invalid signal"))
    }

    async fn alloc_gc(&self, _: AllocId) -> Result<(), RpcError> {
        Ok(())
    }

    async fn gc_all(&self) -> Result<(), RpcError> {
        Ok(())
    }

    async fn alloc_stats(&self, _: AllocId, _: &str) -> Result<Bytes, RpcError> {
        Ok(Bytes::from_static(b"{\"Tasks\":{},\"Timestamp\":7}"))
    }

    async fn alloc_checks(&self, _: AllocId) -> Result<BTreeMap<Str, CheckResult>, RpcError> {
        Ok([("c1".into(), CheckResult { status: "success".into(), ..CheckResult::default() })].into())
    }

    async fn node_meta(&self) -> Result<NodeMeta, RpcError> {
        Ok(NodeMeta::default())
    }

    async fn node_meta_apply(&self, change: BTreeMap<Str, Option<Str>>) -> Result<NodeMeta, RpcError> {
        Ok(NodeMeta { dynamic: change, ..NodeMeta::default() })
    }

    async fn alloc_exec(&self, command: ExecCommand) -> Result<ExecSession, RpcError> {
        self.note(format!("{:?} in {}", command.command, command.task));
        let (input, mut from) = mpsc::channel(4);
        let (to, output) = mpsc::channel(4);
        tokio::spawn(async move {
            while let Some(piece) = from.recv().await {
                match piece {
                    ExecInput::Stdin(bytes) => to.send(Ok(ExecOutput::Stdout(bytes))).await.unwrap(),
                    ExecInput::StdinClose => break,
                    ExecInput::TtySize { .. } => {}
                }
            }
            to.send(Ok(ExecOutput::Exited { exit_code: 3, signal: 0 })).await.unwrap();
        });
        Ok(ExecSession { input, output })
    }

    async fn alloc_snapshot(&self, _: AllocId) -> Result<mpsc::Receiver<std::io::Result<Bytes>>, RpcError> {
        let (to, pieces) = mpsc::channel(4);
        to.try_send(Ok(Bytes::from_static(b"tar"))).unwrap();
        Ok(pieces)
    }

    async fn agent_host(&self) -> Result<Bytes, RpcError> {
        Ok(Bytes::from_static(b"{\"OS\":\"linux\"}"))
    }

    async fn agent_profile(&self, ask: AskProfile) -> Result<songline_rpc::Profile, RpcError> {
        self.note(format!("{ask:?}"));
        Ok(songline_rpc::Profile {
            headers: [("a".into(), "b".into())].into(),
            payload: Bytes::from_static(b"profile"),
        })
    }

    async fn agent_monitor(&self, ask: AskMonitor) -> Result<frames::Frames, RpcError> {
        self.frames(format!("{ask:?}"))
    }

    async fn host_stats(&self) -> Result<Bytes, RpcError> {
        Ok(Bytes::from_static(b"{\"Uptime\":1}"))
    }
}

/// A node, and the server's end of its session.
fn met() -> (Arc<Notes>, Session) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let calls = Arc::new(NodeCalls::<Notes>::default());
    let node = Arc::new(Notes::default());
    calls.set(&node);
    calls.on_session()("127.0.0.1:4647", Session::dialled(ours, SessionLimits::default()));
    (node, Session::accepted(theirs, SessionLimits::default()))
}

async fn ask<R: Call>(session: &Session, request: R) -> Result<R::Answer, RpcError> {
    let answer = call_over(session, 1, R::METHOD, &encoded(&request)?).await?;
    msgpack::from_slice(&answer).map_err(|error| RpcError::remote(error.to_string()))
}

/// All payloads of a stream as text, and its final message.
async fn heard(mut channel: Channel) -> Vec<String> {
    let mut heard = Vec::new();
    while let Ok(Some(value)) = channel.next().await {
        let message: StreamErrWrapper = msgpack::from_slice(&value).unwrap();
        match (message.error, message.payload) {
            (Some(error), _) => heard.push(format!("error {:?} {}", error.code, error.message)),
            (None, Some(Blob(bytes))) => heard.push(String::from_utf8_lossy(&bytes).into_owned()),
            (None, None) => heard.push("nothing".into()),
        }
    }
    heard
}

fn alloc() -> AllocId {
    AllocId::from_bytes([5; 16])
}

#[tokio::test]
async fn calls_reach_the_node_and_answers_and_errors_come_back() {
    let (node, session) = met();
    let restart = AllocationsRestart { alloc_id: alloc(), task_name: "web".into(), ..AllocationsRestart::default() };
    ask(&session, restart).await.unwrap();
    let signal = AllocationsSignal { alloc_id: alloc(), signal: "SIGNOT".into(), ..AllocationsSignal::default() };
    assert_eq!(ask(&session, signal).await.unwrap_err().to_string(), "invalid signal");
    let list = FileSystemList { alloc_id: alloc(), path: "/".into(), ..FileSystemList::default() };
    let files = ask(&session, list).await.unwrap().files.unwrap();
    assert_eq!((files[0].name.as_str(), files[0].is_dir, files[0].mod_time), ("alloc", true, Time::from_secs(7)));
    let stat = FileSystemStat { alloc_id: alloc(), path: "x".into(), ..FileSystemStat::default() };
    assert_eq!(ask(&session, stat).await.unwrap_err(), RpcError::Coded { code: 404, text: "no x".into() });
    let stats: serde_json::Value = ask(&session, ClientStats::default()).await.unwrap().host_stats.read().unwrap();
    assert_eq!(stats["Uptime"], 1);
    let meta = [(Str::from("rack"), Some(Str::from("r1"))), (Str::from("gone"), None)];
    let apply = NodeMetaApply { meta: Some(meta.clone().into()), ..NodeMetaApply::default() };
    assert_eq!(ask(&session, apply).await.unwrap().dynamic, meta.into());
    expect![[r#"
        [
            "restart AllocId(05050505-0505-0505-0505-050505050505) \"web\" false",
            "signal AllocId(05050505-0505-0505-0505-050505050505) \"\" SIGNOT",
            "list AllocId(05050505-0505-0505-0505-050505050505) /",
        ]
    "#]]
    .assert_debug_eq(&*node.asked.lock());
}

#[tokio::test]
async fn unknown_node_rpc_method_is_named_in_the_error() {
    let (_node, session) = met();
    for (method, text) in [
        ("Allocations.Nope", "rpc: can't find method Allocations.Nope"),
        ("Node.Register", "rpc: can't find service Node.Register"),
    ] {
        assert_eq!(call_over(&session, 1, method, &[0x80]).await.unwrap_err().to_string(), text);
    }
    let error = open_channel(&session, "Allocations.Nope", &[0x80]).await.unwrap_err();
    assert_eq!(error.to_string(), "Unknown rpc method: \"Allocations.Nope\"");
}

#[tokio::test]
async fn task_logs_stream_as_frames_or_plain_text_and_end_with_the_error() {
    let (node, session) = met();
    for plain_text in [false, true] {
        let logs = FileSystemLogs {
            alloc_id: alloc(),
            task: "web".into(),
            log_type: "stdout".into(),
            origin: "end".into(),
            plain_text,
            ..FileSystemLogs::default()
        };
        let channel = open_channel(&session, FileSystemLogs::METHOD, &encoded(&logs).unwrap()).await.unwrap();
        node.note(format!("plain {plain_text}: {:?}", heard(channel).await));
    }
    expect![[r#"
        [
            "ReadLogs { alloc: AllocId(05050505-0505-0505-0505-050505050505), task: \"web\", kind: \"stdout\", offset: 0, origin: End, follow: false }",
            "plain false: [\"{\\\"Data\\\":\\\"b25l\\\",\\\"File\\\":\\\"web.stdout.0\\\"}\", \"{}\", \"{\\\"Data\\\":\\\"dHdv\\\",\\\"File\\\":\\\"web.stdout.0\\\",\\\"Offset\\\":3}\", \"error Some(404) file deleted\"]",
            "ReadLogs { alloc: AllocId(05050505-0505-0505-0505-050505050505), task: \"web\", kind: \"stdout\", offset: 0, origin: End, follow: false }",
            "plain true: [\"one\", \"two\", \"error Some(404) file deleted\"]",
        ]
    "#]].assert_debug_eq(&*node.asked.lock());
}

#[tokio::test]
async fn exec_session_carries_input_output_and_the_exit_code() {
    let (node, session) = met();
    let cmd = Some(vec!["cat".into()]);
    let exec = AllocationsExec { alloc_id: alloc(), task: "web".into(), cmd, ..AllocationsExec::default() };
    let mut channel = open_channel(&session, AllocationsExec::METHOD, &encoded(&exec).unwrap()).await.unwrap();
    for (data, close) in [(Some(Blob(b"hello".to_vec())), false), (None, true)] {
        let message = ExecMessage { stdin: Some(ExecStdin { data, close }), ..ExecMessage::default() };
        channel.send(&encoded(&message).unwrap()).await.unwrap();
    }
    node.note(format!("{:?}", heard(channel).await));
    expect![[r#"
        [
            "[\"cat\"] in web",
            "[\"{\\\"stdout\\\":{\\\"data\\\":\\\"aGVsbG8=\\\"}}\", \"{\\\"exited\\\":true,\\\"result\\\":{\\\"exit_code\\\":3}}\"]",
        ]
    "#]]
    .assert_debug_eq(&*node.asked.lock());
}

#[tokio::test]
async fn alloc_snapshot_stream_ends_with_an_empty_piece() {
    let (_node, session) = met();
    let ask = AllocationsGarbageCollect { alloc_id: alloc(), ..AllocationsGarbageCollect::default() };
    let channel = open_channel(&session, SNAPSHOT, &encoded(&ask).unwrap()).await.unwrap();
    assert_eq!(heard(channel).await, ["tar", ""]);
}

#[tokio::test]
async fn call_to_a_node_that_has_not_started_is_an_error() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let calls = Arc::new(NodeCalls::<Notes>::default());
    calls.on_session()("127.0.0.1:4647", Session::dialled(ours, SessionLimits::default()));
    let session = Session::accepted(theirs, SessionLimits::default());
    let error = ask(&session, ClientStats::default()).await.unwrap_err().to_string();
    assert!(error.contains("the node is not there"), "{error}");
}

/// Authorizes callers with the right token, and records what they request.
struct Doorkeeper(Mutex<Vec<String>>);

impl Guard for Doorkeeper {
    fn may(&self, right: Right, asked: Asked) -> futures_util::future::BoxFuture<'_, Result<(), RpcError>> {
        let may = asked.auth_token.reveal() == "good";
        self.0.lock().push(format!("{right:?} of {} in {:?}: {may}", asked.alloc_id, asked.task.as_str()));
        Box::pin(std::future::ready(if may { Ok(()) } else { Err(RpcError::remote("Permission denied")) }))
    }
}

#[tokio::test]
async fn node_with_acls_checks_the_token_of_every_call() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let calls = Arc::new(NodeCalls::<Notes>::default());
    let (node, door) = (Arc::new(Notes::default()), Arc::new(Doorkeeper(Mutex::default())));
    calls.guard(door.clone());
    calls.set(&node);
    calls.on_session()("127.0.0.1:4647", Session::dialled(ours, SessionLimits::default()));
    let session = Session::accepted(theirs, SessionLimits::default());
    for token in ["good", "bad"] {
        let token = songline_model::Secret::new(token);
        let list = FileSystemList {
            alloc_id: alloc(),
            path: "/".into(),
            auth_token: token.clone(),
            ..FileSystemList::default()
        };
        let listed = ask(&session, list).await.map(|answer| answer.files.map(|files| files.len()));
        node.note(format!("{listed:?}"));
        let (task, cmd) = ("web".into(), Some(vec!["cat".into()]));
        let exec =
            AllocationsExec { alloc_id: alloc(), task, cmd, auth_token: token.clone(), ..AllocationsExec::default() };
        let mut channel = open_channel(&session, AllocationsExec::METHOD, &encoded(&exec).unwrap()).await.unwrap();
        let end = ExecMessage { stdin: Some(ExecStdin { data: None, close: true }), ..ExecMessage::default() };
        // The node does not read from a refused stream any more.
        let _ = channel.send(&encoded(&end).unwrap()).await;
        node.note(format!("{:?}", heard(channel).await));
        let host = AgentHost { auth_token: token, ..AgentHost::default() };
        node.note(format!(
            "{:?}",
            ask(&session, host).await.map(|answer| answer.host_data.read::<serde_json::Value>().unwrap())
        ));
    }
    expect![[r#"
        (
            [
                "list AllocId(05050505-0505-0505-0505-050505050505) /",
                "Ok(Some(1))",
                "[\"cat\"] in web",
                "[\"{\\\"exited\\\":true,\\\"result\\\":{\\\"exit_code\\\":3}}\"]",
                "Ok(Object {\"OS\": String(\"linux\")})",
                "Err(Remote(\"Permission denied\"))",
                "[\"error Some(500) Permission denied\"]",
                "Err(Remote(\"Permission denied\"))",
            ],
            [
                "ReadFs of 05050505-0505-0505-0505-050505050505 in \"\": true",
                "Exec of 05050505-0505-0505-0505-050505050505 in \"web\": true",
                "AgentRead of  in \"\": true",
                "ReadFs of 05050505-0505-0505-0505-050505050505 in \"\": false",
                "Exec of 05050505-0505-0505-0505-050505050505 in \"web\": false",
                "AgentRead of  in \"\": false",
            ],
        )
    "#]]
    .assert_debug_eq(&(&*node.asked.lock(), &*door.0.lock()));
}

#[tokio::test]
async fn agent_profile_and_monitor_answer_over_the_node_session() {
    let (node, session) = met();
    let profile =
        AgentProfile { req_type: "lookup".into(), profile: "goroutine".into(), debug: 2, ..AgentProfile::default() };
    let profile = ask(&session, profile).await.unwrap();
    let payload = profile.payload.map(|payload| String::from_utf8(payload.0).unwrap());
    node.note(format!("{payload:?} {:?}", profile.http_headers));
    let unknown = AgentProfile { req_type: "guess".into(), ..AgentProfile::default() };
    node.note(ask(&session, unknown).await.unwrap_err().to_string());
    let monitor = AgentMonitor { log_level: "debug".into(), log_json: true, ..AgentMonitor::default() };
    let channel = open_channel(&session, AgentMonitor::METHOD, &encoded(&monitor).unwrap()).await.unwrap();
    node.note(format!("{:?}", heard(channel).await));
    expect![[r#"
        [
            "AskProfile { name: \"goroutine\", seconds: 0, debug: 2, gc: 0 }",
            "Some(\"profile\") Some({\"a\": \"b\"})",
            "Unknown profile type: \"guess\"",
            "AskMonitor { level: \"debug\", json: true, location: false }",
            "[\"{\\\"Data\\\":\\\"b25l\\\",\\\"File\\\":\\\"web.stdout.0\\\"}\", \"{}\", \"{\\\"Data\\\":\\\"dHdv\\\",\\\"File\\\":\\\"web.stdout.0\\\",\\\"Offset\\\":3}\", \"error Some(404) file deleted\"]",
        ]
    "#]]
    .assert_debug_eq(&*node.asked.lock());
}
