//! Frames, plain bytes, heartbeats and errors of file streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use songline_rpc::{RpcError, StreamFrame};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{HEARTBEAT, RECHECK, frame_stream, media_type};

fn piece(text: &'static str, offset: i64) -> StreamFrame {
    StreamFrame {
        offset,
        data: Bytes::from_static(text.as_bytes()),
        file: "alloc/logs/t.stdout.0".into(),
        ..StreamFrame::default()
    }
}

/// The body of a stream with these frames.
async fn body(frames: Vec<Result<StreamFrame, RpcError>>, plain: bool) -> String {
    let (to, from) = mpsc::channel(8);
    for frame in frames {
        to.send(frame).await.expect("has room");
    }
    drop(to);
    let pieces = frame_stream(from, plain, CancellationToken::new(), || true).map(|piece| piece.expect("never fails"));
    pieces.fold(String::new(), async |text, piece| text + &String::from_utf8_lossy(&piece)).await
}

#[tokio::test]
async fn fs_frames_are_concatenated_without_empty_fields() {
    let deleted = StreamFrame { file: "a".into(), file_event: "file deleted".into(), ..StreamFrame::default() };
    let frames = vec![Ok(piece("one\n", 3)), Ok(StreamFrame::default()), Ok(deleted)];
    let expected =
        r#"{"Data":"b25lCg==","File":"alloc/logs/t.stdout.0","Offset":7}{}{"File":"a","FileEvent":"file deleted"}"#;
    assert_eq!(body(frames.clone(), false).await, expected);
    assert_eq!(body(frames, true).await, "one\n");
}

#[tokio::test]
async fn fs_stream_ends_after_its_first_error() {
    let frames = vec![Ok(piece("a", 1)), Err(RpcError::remote("disk is gone")), Ok(piece("b", 2))];
    assert_eq!(body(frames, true).await, "adisk is gone");
}

#[tokio::test(start_paused = true)]
async fn idle_fs_stream_sends_heartbeats_unless_plain() {
    for (plain, expected) in [(false, vec!["{}", "{}"]), (true, Vec::new())] {
        let (_to, from) = mpsc::channel::<Result<StreamFrame, RpcError>>(1);
        let shutdown = CancellationToken::new();
        let end = shutdown.clone();
        tokio::spawn(async move {
            tokio::time::sleep(2 * HEARTBEAT + Duration::from_millis(1)).await;
            end.cancel();
        });
        let seen: Vec<Bytes> =
            frame_stream(from, plain, shutdown, || true).map(|piece| piece.expect("never fails")).collect().await;
        assert_eq!(seen, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn fs_stream_ends_within_a_second_after_its_caller_loses_read_permission() {
    for plain in [false, true] {
        let (to, from) = mpsc::channel(8);
        to.send(Ok(piece("one", 3))).await.expect("has room");
        let may = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&may);
        let mut pieces =
            Box::pin(frame_stream(from, plain, CancellationToken::new(), move || asked.load(Ordering::Relaxed)));
        assert!(pieces.next().await.is_some());
        may.store(false, Ordering::Relaxed);
        let began = tokio::time::Instant::now();
        // Further frames arrive.
        to.send(Ok(piece("two", 6))).await.expect("has room");
        while pieces.next().await.is_some() {}
        assert!(began.elapsed() <= RECHECK, "{:?}", began.elapsed());
    }
}

#[test]
fn html_content_type_is_served_as_plain_text() {
    for (kind, head, expected) in [
        ("text/html; charset=utf-8", "<html>", "text/plain"),
        ("image/png", "\u{89}PNG", "image/png"),
        ("", "abc", "text/plain; charset=utf-8"),
        ("", "a\0c", "application/octet-stream"),
    ] {
        assert_eq!(media_type(kind, head.as_bytes()), expected);
    }
}
