//! Calls to a node with captured requests and answers.

use std::net::SocketAddr;
use std::sync::Arc;

use expect_test::{Expect, expect};
use parking_lot::Mutex;

use super::*;
use crate::message::{RequestMeta, StreamErrWrapper};
use crate::net::{Caller as From, Dispatch, Refusal, serve_session};
use crate::yamux::SessionLimits;
use crate::{ExecInput, ExecOutput};

/// A node that gives prepared answers and records the requests.
#[derive(Default)]
struct Told {
    answer: Vec<u8>,
    payloads: Vec<StreamErrWrapper>,
    asked: Mutex<Vec<String>>,
}

impl Told {
    fn note(&self, method: &str, body: &[u8]) {
        let meta: RequestMeta = msgpack::from_slice(body).unwrap();
        assert_eq!((meta.region.as_str(), meta.auth_token.reveal()), ("global", "token"), "{method}");
        let tree = msgpack::Tree::read(body).unwrap();
        let msgpack::Tree::Map(fields) = tree else { panic!("{method} asks with a map") };
        let own = fields.into_iter().filter(|(key, value)| {
            let key = key.as_text().unwrap();
            !["Region", "AuthToken"].contains(&key)
                && *value != msgpack::Tree::Int(0)
                && !matches!(value, msgpack::Tree::Bool(false))
        });
        let own: Vec<String> = own
            .filter(|(_, value)| value.as_text() != Some(""))
            .map(|(key, value)| format!("{key:?} {value:?}"))
            .collect();
        self.asked.lock().push(format!("{method} {}", own.join(", ")));
    }
}

impl Dispatch for Told {
    async fn call(&self, method: &str, body: Bytes, _: &From) -> Result<Bytes, Refusal> {
        self.note(method, &body);
        if self.answer.is_empty() {
            return Err(Refusal::Failed(RpcError::Coded { code: 404, text: "Unknown allocation \"x\"".to_owned() }));
        }
        Ok(self.answer.clone().into())
    }

    fn streams(&self, _: &str) -> bool {
        true
    }

    async fn stream(&self, method: &str, mut channel: Channel, _: &From) {
        let request = channel.next().await.unwrap().unwrap();
        self.note(method, &request);
        // An exec session is answered once its input has ended.
        let mut listening = method == AllocationsExec::METHOD;
        while listening {
            let message: crate::message::ExecMessage =
                msgpack::from_slice(&channel.next().await.unwrap().unwrap()).unwrap();
            self.asked.lock().push(format!("{message:?}"));
            listening = message.stdin.is_none_or(|stdin| !stdin.close);
        }
        for payload in &self.payloads {
            channel.send(&msgpack::to_vec(payload).unwrap()).await.unwrap();
        }
    }
}

fn node(told: Told) -> (RemoteAgent<Session>, Arc<Told>) {
    let (here, there) = tokio::io::duplex(1 << 16);
    let told = Arc::new(told);
    let session = Session::dialled(there, SessionLimits::default());
    let from: SocketAddr = ([127, 0, 0, 1], 1).into();
    tokio::spawn(serve_session(session, true, From::plain(from), told.clone()));
    let caller =
        Caller { region: "global".into(), auth_token: songline_model::Secret::new("token"), ..Caller::default() };
    let agent =
        RemoteAgent::new(Session::accepted(here, SessionLimits::default()), NodeId::from_bytes([7; 16]), caller);
    (agent, told)
}

fn answering<T: serde::Serialize>(answer: &T) -> Told {
    Told { answer: msgpack::to_vec(answer).unwrap(), ..Told::default() }
}

fn saying(payloads: &[&str]) -> Told {
    let payloads = payloads.iter().map(|payload| StreamErrWrapper::payload(payload.as_bytes().to_vec())).collect();
    Told { payloads, ..Told::default() }
}

fn asked(told: &Told, expected: &Expect) {
    expected.assert_eq(&told.asked.lock().join("\n"));
}

async fn all<T>(mut receiver: mpsc::Receiver<T>) -> Vec<T> {
    let mut all = Vec::new();
    while let Some(one) = receiver.recv().await {
        all.push(one);
    }
    all
}

const ALLOC: AllocId = AllocId::from_bytes([1; 16]);

#[tokio::test]
async fn node_rpc_calls_send_their_fields_and_decode_the_answer() {
    let written = crate::message::Written::default();
    let (agent, told) = node(answering(&written));
    agent.alloc_restart(ALLOC, "web", true).await.unwrap();
    agent.alloc_signal(ALLOC, "web", "SIGHUP").await.unwrap();
    agent.alloc_gc(ALLOC).await.unwrap();
    agent.gc_all().await.unwrap();
    asked(
        &told,
        &expect![[r#"
        Allocations.Restart "AllocID" "01010101-0101-0101-0101-010101010101", "TaskName" "web", "AllTasks" true
        Allocations.Signal "AllocID" "01010101-0101-0101-0101-010101010101", "Task" "web", "Signal" "SIGHUP"
        Allocations.GarbageCollect "AllocID" "01010101-0101-0101-0101-010101010101"
        Allocations.GarbageCollectAll "NodeID" "07070707-0707-0707-0707-070707070707""#]],
    );
    let meta = NodeMeta { meta: [("a".into(), "1".into())].into(), ..NodeMeta::default() };
    let (agent, told) = node(answering(&meta));
    assert_eq!(agent.node_meta().await, Ok(meta.clone()));
    assert_eq!(agent.node_meta_apply([("a".into(), Some("1".into())), ("b".into(), None)].into()).await, Ok(meta));
    asked(
        &told,
        &expect![[r#"
        NodeMeta.Read "NodeID" "07070707-0707-0707-0707-070707070707"
        NodeMeta.Apply "NodeID" "07070707-0707-0707-0707-070707070707", "Meta" {"a": "1", "b": nil}"#]],
    );
    let stats = serde_json::json!({ "Timestamp": 5, "Tasks": { "web": { "Percent": 0.5 } } });
    let stats = crate::message::AllocationsStatsAnswer { stats: RawValue::of(&stats).unwrap(), ..Default::default() };
    let (agent, _) = node(answering(&stats));
    let shown = agent.alloc_stats(ALLOC, "").await.unwrap();
    assert_eq!(shown, r#"{"Timestamp":5,"Tasks":{"web":{"Percent":0.5}}}"#);
    let row = crate::message::CheckResult { status: "success".into(), status_code: 204, ..Default::default() };
    let results = BTreeMap::from([("c1".into(), row)]);
    let answer = crate::message::AllocationsChecksAnswer { results: Some(results.clone()), ..Default::default() };
    let (agent, told) = node(answering(&answer));
    assert_eq!(agent.alloc_checks(ALLOC).await, Ok(results));
    asked(&told, &expect![[r#"Allocations.Checks "AllocID" "01010101-0101-0101-0101-010101010101""#]]);
}

#[tokio::test]
async fn node_rpc_refusal_keeps_its_status_code() {
    let unknown = RpcError::Coded { code: 404, text: "Unknown allocation \"x\"".to_owned() };
    let (agent, _) = node(Told::default());
    assert_eq!(agent.alloc_gc(ALLOC).await, Err(unknown.clone()));
    let (agent, _) = node(Told { payloads: vec![StreamErrWrapper::failed(&unknown)], ..Told::default() });
    assert_eq!(agent.fs_logs(ReadLogs::default()).await.unwrap_err(), unknown);
    assert_eq!(agent.fs_read(ReadFile::default()).await.unwrap_err(), unknown);
    assert_eq!(agent.alloc_snapshot(ALLOC).await.unwrap_err(), unknown);
    let session = agent.alloc_exec(ExecCommand::default()).await.unwrap();
    drop(session.input);
    assert_eq!(all(session.output).await, [Err(unknown)]);
}

#[tokio::test]
async fn fs_frames_are_received_until_the_node_ends_the_stream() {
    let (agent, told) =
        node(saying(&[r#"{"Data":"aGVs","File":"t.stdout.0","Offset":3}"#, "{}", r#"{"FileEvent":"truncated"}"#]));
    let logs = ReadLogs {
        alloc: ALLOC,
        task: "t".into(),
        kind: "stdout".into(),
        origin: Origin::End,
        offset: 5,
        follow: true,
    };
    let frames = all(agent.fs_logs(logs).await.unwrap()).await;
    let hel = StreamFrame {
        offset: 3,
        data: Bytes::from_static(b"hel"),
        file: "t.stdout.0".into(),
        ..StreamFrame::default()
    };
    let event = StreamFrame { file_event: "truncated".into(), ..StreamFrame::default() };
    assert_eq!(frames, [Ok(hel), Ok(StreamFrame::default()), Ok(event)]);
    asked(
        &told,
        &expect![[
            r#"FileSystem.Logs "AllocID" "01010101-0101-0101-0101-010101010101", "Task" "t", "LogType" "stdout", "Offset" 5, "Origin" "end", "Follow" true"#
        ]],
    );
    let (agent, _) = node(saying(&[]));
    assert_eq!(all(agent.fs_read(ReadFile::default()).await.unwrap()).await, [], "an empty file has no frames");
}

#[tokio::test]
async fn alloc_snapshot_without_its_end_mark_is_an_error() {
    let (agent, _) = node(saying(&["ab", "cd", ""]));
    let pieces = all(agent.alloc_snapshot(ALLOC).await.unwrap()).await;
    assert_eq!(pieces.into_iter().map(Result::unwrap).collect::<Vec<_>>(), ["ab", "cd"]);
    let (agent, _) = node(saying(&["ab"]));
    let pieces = all(agent.alloc_snapshot(ALLOC).await.unwrap()).await;
    assert_eq!(pieces.len(), 2);
    assert_eq!(pieces[1].as_ref().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn exec_session_carries_input_and_output() {
    let (agent, told) = node(saying(&[
        r#"{"stdout":{"data":"aGVs"}}"#,
        "{}",
        r#"{"stdout":{"close":true},"stderr":{"data":"eA==","close":true}}"#,
        r#"{"exited":true,"result":{"exit_code":3}}"#,
    ]));
    let command = ExecCommand { alloc: ALLOC, task: "t".into(), command: vec!["cat".into(), "-".into()], tty: true };
    let session = agent.alloc_exec(command).await.unwrap();
    session.input.send(ExecInput::TtySize { height: 2, width: 3 }).await.unwrap();
    session.input.send(ExecInput::Stdin(Bytes::from_static(b"in"))).await.unwrap();
    drop(session.input);
    let said = all(session.output).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let exited = ExecOutput::Exited { exit_code: 3, signal: 0 };
    let (hel, x) = (ExecOutput::Stdout(Bytes::from_static(b"hel")), ExecOutput::Stderr(Bytes::from_static(b"x")));
    assert_eq!(said, [hel, ExecOutput::StdoutClose, x, ExecOutput::StderrClose, exited]);
    asked(
        &told,
        &expect![[r#"
        Allocations.Exec "AllocID" "01010101-0101-0101-0101-010101010101", "Task" "t", "Tty" true, "Cmd" ["cat", "-"]
        ExecMessage { setup: None, stdin: None, tty_size: Some(ExecTtySize { height: 2, width: 3 }) }
        ExecMessage { setup: None, stdin: Some(ExecStdin { data: Some(Blob(2 bytes)), close: false }), tty_size: None }
        ExecMessage { setup: None, stdin: Some(ExecStdin { data: None, close: true }), tty_size: None }"#]],
    );
}

#[tokio::test]
async fn broken_exec_session_reports_a_lost_connection() {
    let (agent, _) = node(saying(&[]));
    let session = agent.alloc_exec(ExecCommand::default()).await.unwrap();
    session.input.send(ExecInput::StdinClose).await.unwrap();
    assert!(matches!(all(session.output).await.as_slice(), [Err(RpcError::Lost(_))]));
}
