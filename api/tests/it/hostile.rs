//! Hostile or confused clients: their requests are answered briefly or cut off, and others are served meanwhile.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use songline_api::http::Api;
use songline_api::{Agent, Limits, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{Memory, answer, text};

/// Largest length of an error text, in bytes.
const ERROR_BYTES_MAX: usize = 4096;

/// Routes that parse texts of users.
const READERS: &[&str] = &[
    "PUT /v1/jobs",
    "PUT /v1/jobs/parse",
    "PUT /v1/job/web",
    "PUT /v1/job/web/plan",
    "PUT /v1/job/web/scale",
    "PUT /v1/job/web/dispatch",
    "PUT /v1/validate/job",
    "PUT /v1/namespace",
    "PUT /v1/node/pools",
    "PUT /v1/var/a",
    "PUT /v1/search",
    "PUT /v1/search/fuzzy",
    "PUT /v1/system/gc",
    "PUT /v1/operator/scheduler/configuration",
    "PUT /v1/operator/autopilot/configuration",
    "PUT /v1/operator/snapshot",
    "PUT /v1/volume/csi/a",
    "PUT /v1/deployment/promote/x",
    "PUT /v1/node/x/drain",
    "PUT /v1/client/metadata",
    "DELETE /v1/evaluations",
];

async fn send(server: &Arc<Memory>, line: &str, body: impl Into<Body>) -> (StatusCode, String) {
    let (method, target) = line.split_once(' ').expect("a method");
    let request = Request::builder().method(method).uri(target).body(body.into()).expect("a request");
    let response = Api::new(Arc::clone(server)).answer(request).await;
    let status = response.status();
    (status, text(response).await)
}

/// Sends a body to every route that parses one: each refusal is short.
async fn check(body: impl Into<Bytes>) {
    let server = Memory::new();
    let body: Bytes = body.into();
    for line in READERS {
        let (status, said) = send(&server, line, body.clone()).await;
        let shown: String = said.chars().take(200).collect();
        assert!(said.len() <= ERROR_BYTES_MAX || status.is_success(), "{line}: {status} {} bytes: {shown}", said.len());
        assert!(!said.contains("panicked") && !said.contains("src/"), "{line}: {status} {shown}");
    }
}

#[tokio::test]
async fn deeply_nested_bodies_are_refused_with_a_short_error() {
    for open in [
        "[",
        "{\"a\":",
        "{\"Job\":",
        "{\"Job\":{\"Meta\":",
        "{\"Items\":",
        "{\"Job\":{\"TaskGroups\":[{\"Tasks\":[{\"Config\":{\"a\":",
    ] {
        check(open.repeat(100_000)).await;
    }
}

#[tokio::test]
async fn binary_bodies_are_refused_with_a_short_error() {
    check(vec![0; 100_000]).await;
    check(vec![0xff; 100_000]).await;
    check(b"{\"Job\":{\"ID\":\"\xff\xfe\0\",\"Name\":\"\xc3\x28\"}}".to_vec()).await;
    check(b"{\"Items\":{\"\xff\":\"\0\"}}".to_vec()).await;
}

#[tokio::test]
async fn huge_numbers_are_refused_with_a_short_error() {
    let digits = "9".repeat(100_000);
    for body in [
        format!("{{\"Job\":{{\"ID\":\"a\",\"Priority\":{digits}}}}}"),
        format!("{{\"Job\":{{\"ID\":\"a\",\"Priority\":1e{digits}}}}}"),
        format!("{{\"Count\":{digits},\"Target\":{{\"Group\":\"g\"}}}}"),
        format!("{{\"JobHCL\":\"job \\\"a\\\" {{ priority = {digits} }}\"}}"),
        format!("{{\"JobHCL\":\"job \\\"a\\\" {{ priority = {digits} }}\",\"HCLv1\":true}}"),
        format!("-{digits}"),
    ] {
        check(body).await;
    }
}

#[tokio::test]
async fn long_body_texts_are_truncated_in_errors() {
    let long = "ä".repeat(100_000);
    for body in [
        format!(
            "{{\"Job\":{{\"ID\":\"{long}\",\"Type\":\"{long}\",\"TaskGroups\":[{{\"Name\":\"{long}\",\"Tasks\":[{{\"Name\":\"{long}\"}}]}}]}}}}"
        ),
        format!("{{\"Name\":\"{long}\",\"Description\":\"{long}\"}}"),
        format!("{{\"JobHCL\":\"{long}\"}}"),
        format!("{{\"JobHCL\":\"{}\"}}", "a {\\n".repeat(50_000)),
        format!("{{\"Prefix\":\"{long}\",\"Context\":\"{long}\"}}"),
        format!("{{\"NodePool\":{{\"Name\":\"{long}\"}},\"Items\":{{\"{long}\":\"{long}\"}}}}"),
        format!("\"{long}\""),
    ] {
        check(body).await;
    }
}

#[tokio::test]
async fn long_parameters_are_truncated_in_errors() {
    let server = Memory::new();
    let long = "x".repeat(60_000);
    for target in [
        format!("/v1/jobs?filter={long}"),
        format!("/v1/jobs?filter={}", "(".repeat(60_000)),
        format!("/v1/jobs?filter={}", "not%20".repeat(10_000)),
        format!("/v1/jobs?filter=Name%20matches%20%22{}%22", "(".repeat(50_000)),
        format!("/v1/jobs?next_token={long}"),
        format!("/v1/jobs?stale={long}"),
        format!("/v1/jobs?wait={long}"),
        format!("/v1/jobs?index={long}"),
        format!("/v1/jobs?per_page={long}"),
        format!("/v1/jobs?namespace={long}"),
        format!("/v1/jobs?region={long}"),
        format!("/v1/jobs?{}", "a=b&".repeat(15_000)),
        format!("/v1/job/{long}"),
        format!("/v1/job/{}", "%2f".repeat(20_000)),
        format!("/v1/node/{long}"),
        format!("/v1/allocation/{long}"),
        format!("/v1/var/{long}"),
        format!("/v1/event/stream?topic={long}"),
        format!("/v1/event/stream?after_index={long}"),
        format!("/v1/audit?after_index={long}"),
        format!("/v1/history/jobs/{long}"),
        format!("/v1/{}", "../".repeat(20_000)),
        format!("/v1/client/fs/cat/{long}?path={}", "../".repeat(1000)),
        format!("/{long}"),
    ] {
        let response = answer(&server, &format!("GET {target}")).await;
        let status = response.status();
        if status.is_client_error() || status.is_server_error() {
            let said = text(response).await;
            assert!(said.len() <= ERROR_BYTES_MAX, "{} {status} {}", &target[..40], said.len());
        }
    }
}

#[tokio::test]
async fn endless_body_is_refused_as_too_large_before_its_end() {
    let server = Memory::new();
    for line in ["PUT /v1/jobs", "PUT /v1/var/a", "PUT /v1/jobs/parse"] {
        let piece = Bytes::from(vec![b' '; 1 << 20]);
        // The body is endless: the answer has to come before its end.
        let endless = async_stream_of(piece);
        let (status, said) = send(&server, line, Body::from_stream(endless)).await;
        assert_eq!((status.as_u16(), said.as_str()), (413, "http: request body too large"), "{line}");
    }
}

fn async_stream_of(piece: Bytes) -> impl futures_util::Stream<Item = Result<Bytes, std::convert::Infallible>> {
    futures_util::stream::repeat_with(move || Ok(piece.clone()))
}

async fn listening(limits: Limits) -> (Arc<Memory>, std::net::SocketAddr) {
    let server = Memory::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let addr = listener.local_addr().expect("has an address");
    tokio::spawn(serve(listener, Arc::clone(&server), limits, server.shutdown().clone()));
    (server, addr)
}

fn impatient() -> Limits {
    let short = Duration::from_millis(200);
    Limits { header_timeout: short, body_timeout: short, ..Limits::default() }
}

/// The complete response of the server to these bytes, until it closes the connection.
async fn until_hung_up(addr: std::net::SocketAddr, bytes: Vec<u8>) -> String {
    let (mut read, mut write) = TcpStream::connect(addr).await.expect("connects").into_split();
    // The server may close the connection while these bytes are being written.
    let writing = tokio::spawn(async move {
        let _cut_off = write.write_all(&bytes).await;
        write
    });
    let mut answer = Vec::new();
    let _reset = read.read_to_end(&mut answer).await;
    drop(writing.await);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn connection_with_an_unfinished_request_head_is_closed() {
    let (_server, addr) = listening(impatient()).await;
    for head in ["", "G", "GET /v1/jobs HTTP/1.1\r\nHost: a\r\n", "GET /v1/jobs HTTP/1.1\r\nX: "] {
        let answer = until_hung_up(addr, head.as_bytes().to_vec()).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{head:?}: {answer}");
    }
}

#[tokio::test]
async fn request_with_a_stalled_body_is_refused() {
    let (_server, addr) = listening(impatient()).await;
    for head in [
        "PUT /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{",
        "PUT /v1/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        "PUT /v1/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffff",
        "PUT /v1/operator/snapshot HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    ] {
        let answer = until_hung_up(addr, head.as_bytes().to_vec()).await;
        assert!(
            answer.starts_with("HTTP/1.1 4") && answer.ends_with("the body of the request came too slowly"),
            "{head:?}: {answer}"
        );
    }
}

#[tokio::test]
async fn connection_that_does_not_speak_http_is_closed() {
    let (_server, addr) = listening(impatient()).await;
    let many = |piece: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", piece.repeat(100_000));
    for bytes in [
        vec![0; 100_000],
        vec![0xff; 100_000],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        many("a: b\r\n").into_bytes(),
        format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(10 << 20)).into_bytes(),
        format!("GET /v1/jobs?{} HTTP/1.1\r\nHost: a\r\n\r\n", "a=b&".repeat(1_000_000)).into_bytes(),
        format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(10 << 20)).into_bytes(),
        b"PUT /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999999\r\n\r\n".to_vec(),
        b"PUT /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n".to_vec(),
        b"PUT /v1/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n".to_vec(),
    ] {
        let answer = until_hung_up(addr, bytes).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    // Other clients are served.
    let answer =
        until_hung_up(addr, b"GET /v1/regions HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec()).await;
    assert!(answer.ends_with("[\"global\"]"), "{answer}");
}

#[test]
fn corpus_http_requests_get_bounded_answers() {
    crate::corpus::replay("http", crate::http::http);
}

#[test]
fn corpus_exec_messages_are_read_or_refused() {
    crate::corpus::replay("frames", crate::frames::frames);
}
