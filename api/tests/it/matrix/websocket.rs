//! A websocket request on a real connection: the route refuses it after the upgrade, by a close frame.

use std::sync::Arc;

use axum::http::StatusCode;
use songline_api::{Limits, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::server::Memory;

/// Largest head or frame that is read, in bytes.
const READ_MAX: usize = 4096;

/// Requests the upgrade. Returns the response if the server does not upgrade, else the reason in the close frame,
/// whose code 1011 becomes status 500, and every other code 400.
pub async fn ask(server: &Arc<Memory>, secret: &str, line: &str) -> (StatusCode, String) {
    let path = line.split(' ').nth(1).unwrap_or_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let addr = listener.local_addr().expect("has an address");
    let over = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, Arc::clone(server), Limits::default(), over.clone()));
    let mut stream = TcpStream::connect(addr).await.expect("connects");
    let token = if secret.is_empty() { String::new() } else { format!("X-Nomad-Token: {secret}\r\n") };
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\n{token}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("sends");
    let answer = answer(&mut stream).await;
    drop(stream);
    over.cancel();
    serving.await.expect("ends");
    answer
}

async fn answer(stream: &mut TcpStream) -> (StatusCode, String) {
    let mut read = Vec::new();
    let head = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        assert!(more(stream, &mut read).await, "the head ends: {}", String::from_utf8_lossy(&read));
    };
    let text = String::from_utf8_lossy(&read[..head]).into_owned();
    let code = text.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok()).expect("a status");
    if code != 101 {
        return (StatusCode::from_u16(code).expect("a status"), text);
    }
    let mut frames = read.split_off(head);
    // A close frame: kind, length, code, reason. The server sends no other frame before a command runs.
    while frames.len() < 2 || frames.len() < 2 + usize::from(frames[1]) {
        assert!(more(stream, &mut frames).await, "a close frame comes: {frames:?}");
    }
    assert_eq!(frames[0], 0x88, "a close frame: {frames:?}");
    let code = u16::from_be_bytes([frames[2], frames[3]]);
    let reason = String::from_utf8_lossy(&frames[4..2 + usize::from(frames[1])]).into_owned();
    (if code == 1011 { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::BAD_REQUEST }, reason)
}

/// Reads the next bytes. False: the connection has ended.
async fn more(stream: &mut TcpStream, into: &mut Vec<u8>) -> bool {
    assert!(into.len() < READ_MAX, "too much: {}", String::from_utf8_lossy(into));
    let mut piece = [0; 512];
    let count = stream.read(&mut piece).await.expect("reads");
    into.extend_from_slice(&piece[..count]);
    count > 0
}
