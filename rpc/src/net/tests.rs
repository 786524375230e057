//! Captured conversations on connections, and stories of pools. The budget of sessions is in `tests/budget.rs`.

mod budget;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::msgpack::{from_slice, to_vec};
use crate::port::{self, Accept, Conn, Dialer, FirstByte, PortLimits};

const GOLDEN: &str = include_str!("../../tests/golden/connections.txt");

/// Answers pings, and some calls for the stories.
#[derive(Default)]
struct Answers {
    sessions: AtomicUsize,
    wait: Notify,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Ping {
    #[serde(rename = "Region")]
    _region: String,
}

#[derive(Serialize, Deserialize, Debug, PartialEq, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Text {
    text: String,
}

fn text(text: impl Into<String>) -> Bytes {
    to_vec(&Text { text: text.into() }).unwrap().into()
}

impl Dispatch for Answers {
    async fn call(&self, method: &str, body: Bytes, _: &Caller) -> Result<Bytes, Refusal> {
        let Some((service, name)) = method.split_once('.') else { return Err(Refusal::NoService) };
        if service != "Status" {
            return Err(Refusal::NoService);
        }
        match name {
            "Ping" => {
                let _: Ping = from_slice(&body)?;
                Ok(Bytes::from_static(&[0x80]))
            }
            "Echo" => Ok(body),
            "Wait" => {
                self.wait.notified().await;
                Ok(body)
            }
            "Fail" => Err(RpcError::remote("it failed").into()),
            "Coded" => Err(RpcError::Coded { code: 404, text: "not here, sorry".into() }.into()),
            _ => Err(Refusal::NoMethod),
        }
    }

    fn streams(&self, method: &str) -> bool {
        method == "Status.Count"
    }

    async fn stream(&self, _: &str, mut channel: Channel, _: &Caller) {
        let request = channel.next().await.unwrap().unwrap();
        let wanted: Text = from_slice(&request).unwrap();
        for at in 0..wanted.text.len() {
            channel.send(&text(at.to_string())).await.unwrap();
        }
        while let Ok(Some(more)) = channel.next().await {
            channel.send(&more).await.unwrap();
        }
    }
}

impl Accept for Answers {
    async fn accept(self: Arc<Self>, first: FirstByte, conn: Conn, from: SocketAddr) {
        self.sessions.fetch_add(1, Ordering::Relaxed);
        serve(first, conn, Caller::plain(from), self).await;
    }
}

struct Served {
    answers: Arc<Answers>,
    address: String,
    closing: CancellationToken,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

async fn served() -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (answers, closing) = (Arc::new(Answers::default()), CancellationToken::new());
    let limits = PortLimits { handshake_within: Duration::from_millis(300), ..PortLimits::default() };
    tokio::spawn(port::serve(listener, limits, Arc::clone(&answers), closing.clone()));
    Served { answers, address, closing }
}

fn pool() -> Pool {
    Pool::new(Dialer::plain(), PoolLimits::default(), None)
}

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn odd_connections_are_answered_as_captured() {
    let served = served().await;
    let mut seen = 0;
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [case, sent, received, end] = fields[..] else { panic!("{line}") };
        let mut conn = TcpStream::connect(&served.address).await.unwrap();
        conn.set_nodelay(true).unwrap();
        conn.write_all(&bytes(sent)).await.unwrap();
        let mut answer = vec![0; received.len() / 2];
        conn.read_exact(&mut answer).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(hex(&answer), received, "{case}");
        // An open connection sends nothing more; a closed one ends.
        let more =
            tokio::time::timeout(Duration::from_millis(if end == "closed" { 5000 } else { 50 }), conn.read_u8()).await;
        match (end, more) {
            ("closed", Ok(Err(_))) | ("open", Err(_)) => {}
            (_, more) => panic!("{case}: to be {end}, but then {more:?}"),
        }
        seen += 1;
    }
    assert!(seen > 30, "{seen} cases");
}

#[tokio::test]
async fn concurrent_rpc_calls_share_one_session_with_a_stream_each() {
    let (served, pool) = (served().await, pool());
    let mut calls = Vec::new();
    for at in 0..100 {
        let (pool, address) = (pool.clone(), served.address.clone());
        calls.push(tokio::spawn(async move {
            let body = text("x".repeat(at * 1000));
            assert_eq!(pool.call(&address, "Status.Echo", &body).await.unwrap(), body);
        }));
    }
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(served.answers.sessions.load(Ordering::Relaxed), 1);
    let session = pool.session(&served.address).await.unwrap();
    // The server sees the ends of the streams a moment later.
    tokio::time::timeout(Duration::from_secs(10), async {
        while session.streams() > 2 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn waiting_rpc_call_does_not_block_other_calls() {
    let (served, pool) = (served().await, pool());
    let waiting = tokio::spawn({
        let (pool, address) = (pool.clone(), served.address.clone());
        async move { pool.call(&address, "Status.Wait", &text("late")).await }
    });
    assert_eq!(pool.call(&served.address, "Status.Echo", &text("early")).await.unwrap(), text("early"));
    served.answers.wait.notify_one();
    assert_eq!(waiting.await.unwrap().unwrap(), text("late"));
}

#[tokio::test]
async fn rpc_errors_are_wrapped_once_per_hop_and_coded_errors_never() {
    let (served, pool) = (served().await, pool());
    let said = async |method: &str| pool.call(&served.address, method, &[0x80]).await.unwrap_err();
    assert_eq!(said("Status.Fail").await, RpcError::remote("rpc error: it failed"));
    assert_eq!(said("Status.Coded").await, RpcError::Coded { code: 404, text: "not here, sorry".into() });
    assert_eq!(said("Status.Nope").await, RpcError::remote("rpc error: rpc: can't find method Status.Nope"));
    assert_eq!(pool.call(&served.address, "Status.Ping", &[0xc0]).await.unwrap(), [0x80][..]);
}

#[tokio::test]
async fn lost_session_fails_its_calls_and_the_next_call_opens_a_new_session() {
    let (served, pool) = (served().await, pool());
    let waiting = tokio::spawn({
        let (pool, address) = (pool.clone(), served.address.clone());
        async move { pool.call(&address, "Status.Wait", &text("late")).await }
    });
    assert_eq!(pool.call(&served.address, "Status.Ping", &[0x80]).await.unwrap(), [0x80][..]);
    pool.session(&served.address).await.unwrap().close();
    assert!(matches!(waiting.await.unwrap(), Err(RpcError::Lost(_))));
    assert_eq!(pool.call(&served.address, "Status.Ping", &[0x80]).await.unwrap(), [0x80][..]);
    assert_eq!(served.answers.sessions.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn rpc_call_to_a_closed_port_is_lost() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    assert!(matches!(pool().call(&address, "Status.Ping", &[0x80]).await, Err(RpcError::Lost(_))));
}

#[tokio::test]
async fn a_streaming_call_carries_values_both_ways() {
    let (served, pool) = (served().await, pool());
    let mut channel = pool.stream(&served.address, "Status.Count", &text("abc")).await.unwrap();
    for at in 0..3 {
        assert_eq!(channel.next().await.unwrap().unwrap(), text(at.to_string()));
    }
    channel.send(&text("more")).await.unwrap();
    assert_eq!(channel.next().await.unwrap().unwrap(), text("more"));
    let unknown = pool.stream(&served.address, "Status.Nope", &text("")).await.unwrap_err();
    assert_eq!(unknown, RpcError::remote("rpc error: Unknown rpc method: \"Status.Nope\""));
}

#[tokio::test]
async fn accepting_side_calls_back_over_the_dialled_session() {
    /// Calls each dialler back once.
    struct CallsBack(tokio::sync::mpsc::UnboundedSender<Result<Bytes, RpcError>>);
    impl Accept for CallsBack {
        async fn accept(self: Arc<Self>, _: FirstByte, conn: Conn, _: SocketAddr) {
            let session = Session::accepted(conn, crate::yamux::SessionLimits::default());
            self.0.send(call_over(&session, 1, "Status.Echo", &text("back")).await).unwrap();
            session.closed().await;
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let closing = CancellationToken::new();
    tokio::spawn(port::serve(listener, PortLimits::default(), Arc::new(CallsBack(heard)), closing.clone()));
    let answers = Arc::new(Answers::default());
    let on_session: OnSession = Arc::new(move |_, session| {
        tokio::spawn(serve_session(session, true, Caller::plain(address), Arc::clone(&answers)));
    });
    let pool = Pool::new(Dialer::plain(), PoolLimits::default(), Some(on_session));
    let _session = pool.session(&address.to_string()).await.unwrap();
    assert_eq!(hears.recv().await.unwrap().unwrap(), text("back"));
    closing.cancel();
}

#[tokio::test]
async fn bridged_streaming_calls_carry_values_both_ways() {
    /// Forwards every streaming call.
    struct Bridge(Pool, String);
    impl Dispatch for Bridge {
        async fn call(&self, _: &str, _: Bytes, _: &Caller) -> Result<Bytes, Refusal> {
            Err(Refusal::NoService)
        }
        fn streams(&self, _: &str) -> bool {
            true
        }
        async fn stream(&self, method: &str, mut channel: Channel, _: &Caller) {
            let request = channel.next().await.unwrap().unwrap();
            channel.bridge(self.0.stream(&self.1, method, &request).await.unwrap()).await;
        }
    }
    let far = served().await;
    let (here, there) = tokio::io::duplex(4096);
    let bridge = Arc::new(Bridge(pool(), far.address.clone()));
    let from = "127.0.0.1:1".parse().unwrap();
    tokio::spawn(async move { serve(FirstByte::Streaming, Box::new(there), Caller::plain(from), bridge).await });
    let mut channel = Channel::new(Box::new(here));
    channel.begin("Status.Count", &text("ab")).await.unwrap();
    for at in 0..2 {
        assert_eq!(channel.next().await.unwrap().unwrap(), text(at.to_string()));
    }
    let (mut reader, mut writer) = channel.split();
    writer.send(&text("on")).await.unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), text("on"));
    writer.finish().await.unwrap();
    assert_eq!(reader.next().await.unwrap(), None);
}
