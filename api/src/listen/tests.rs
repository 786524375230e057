//! Stories of connections whose clients do not read.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::service_fn;
use parking_lot::Mutex;
use songline_commands::Kind;
use songline_events::hub::{Dialect, EventHub, Format, HubConfig, Interest, Start};
use songline_model::NodePool;
use songline_projections::Change;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

use super::{Bounded, Stalled, TokioIo, http1};

/// Captured log output.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Write::write(&mut *self.0.lock(), bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn stalled_subscriber_is_disconnected_and_its_cursor_is_logged() {
    let lines = Lines::default();
    let writer = lines.clone();
    let logged = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let _logging = tracing::subscriber::set_default(logged);
    let hub = EventHub::start(HubConfig::default(), None, 2).expect("starts");
    for index in 2..500 {
        let row = NodePool { name: "a".into(), description: "d".repeat(1000).into(), ..NodePool::default() };
        hub.publish(
            index,
            Kind::NodePoolUpsert,
            Arc::new(vec![Change::NodePool { before: None, after: Some(Arc::new(row)) }]),
        );
    }
    while hub.settled() < 499 {
        tokio::task::yield_now().await;
    }
    // The client's half buffers 64 KiB and no more.
    let (mut client, served) = tokio::io::duplex(64 * 1024);
    let stalled = Stalled::default();
    let io = TokioIo::new(Bounded {
        stream: served,
        write_timeout: Duration::from_secs(60),
        waiting: None,
        stalled: stalled.clone(),
    });
    let service = service_fn(move |_: hyper::Request<Incoming>| {
        let interest = Interest::parse("*", std::iter::empty()).expect("is valid");
        let subscription =
            hub.subscribe(interest, Format::Json, Dialect::Ours, Start::After(1)).watched_by(Arc::clone(&stalled.0));
        let frames = subscription.into_stream(CancellationToken::new());
        async move { Ok::<_, std::convert::Infallible>(Response::new(Body::from_stream(frames))) }
    });
    let began = tokio::time::Instant::now();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("sends");
    let ended = http1::Builder::new().serve_connection(io, service).await;
    assert!(ended.is_err());
    assert!((60..62).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let logged = String::from_utf8_lossy(&lines.0.lock()).into_owned();
    let cursor = logged
        .split("cursor=")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|text| text.parse::<u64>().ok());
    // The cursor covers the entries in the two buffers between client and stream, not all entries.
    assert!(cursor.is_some_and(|cursor| (30..499).contains(&cursor)), "{logged}");
    drop(client);
}
