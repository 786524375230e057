//! Real connections.

use std::sync::Arc;

use songline_api::{Agent, Limits, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::server::Memory;

async fn listening(limits: Limits) -> (Arc<Memory>, std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let server = Memory::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let addr = listener.local_addr().expect("has an address");
    let task = tokio::spawn(serve(listener, Arc::clone(&server), limits, server.shutdown().clone()));
    (server, addr, task)
}

async fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("writes");
    let mut read = vec![0; 4096];
    let count = stream.read(&mut read).await.expect("reads");
    String::from_utf8_lossy(&read[..count]).into_owned()
}

#[tokio::test]
async fn http_connection_serves_many_requests_and_closes_at_shutdown() {
    let (server, addr, task) = listening(Limits::default()).await;
    let mut stream = TcpStream::connect(addr).await.expect("connects");
    for _ in 0..3 {
        let answer = exchange(&mut stream, "GET /v1/regions HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("[\"global\"]"), "{answer}");
    }
    server.shutdown().cancel();
    task.await.expect("ends");
    assert_eq!(stream.read(&mut [0; 16]).await.expect("reads"), 0);
}

#[tokio::test]
async fn connection_above_the_client_limit_is_answered_429() {
    let (_server, addr, _task) = listening(Limits { connections_per_client_max: 1, ..Limits::default() }).await;
    let mut first = TcpStream::connect(addr).await.expect("connects");
    exchange(&mut first, "GET /v1/regions HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let mut second = TcpStream::connect(addr).await.expect("connects");
    let mut answer = String::new();
    second.read_to_string(&mut answer).await.expect("reads");
    assert!(
        answer.starts_with("HTTP/1.1 429 Too Many Requests") && answer.ends_with("please rate limit your calls\n"),
        "{answer}"
    );
}
