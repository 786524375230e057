//! Requests over real connections to a server that echoes them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use songline_rpc::port::{Accept, Conn, FirstByte, PortLimits, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;

/// Echoes a request: its line, its headers by name, its body.
struct Echo {
    connections: AtomicUsize,
    requests_per_connection: usize,
}

impl Accept for Echo {
    async fn accept(self: Arc<Self>, first: FirstByte, mut conn: Conn, _: SocketAddr) {
        assert_eq!(first, FirstByte::HttpOfNodes);
        self.connections.fetch_add(1, Ordering::Relaxed);
        if self.requests_per_connection == 0 {
            // Reads the start of the request and closes the connection.
            let _ = conn.read_u8().await;
            return;
        }
        let answered = Arc::new(AtomicUsize::new(0));
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let nth = answered.fetch_add(1, Ordering::Relaxed) + 1;
            let last = nth >= self.requests_per_connection;
            async move { Ok::<_, std::convert::Infallible>(echo(request, last).await) }
        });
        let _ = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(conn), service)
            .with_upgrades()
            .await;
    }
}

async fn echo(mut request: Request<hyper::body::Incoming>, last: bool) -> Response<Body> {
    if request.headers().contains_key("upgrade") {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut io = TokioIo::new(upgrade.await.unwrap());
            let mut word = [0; 4];
            io.read_exact(&mut word).await.unwrap();
            word.reverse();
            io.write_all(&word).await.unwrap();
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("upgrade", "backwards".parse().unwrap());
        response.headers_mut().insert("connection", "upgrade".parse().unwrap());
        return response;
    }
    let (parts, body) = request.into_parts();
    let mut names: Vec<_> = parts.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    let head = format!("{} {} [{}] ", parts.method, parts.uri, names.join(" "));
    let body = to_bytes(Body::new(body), usize::MAX).await.unwrap();
    let mut response = Response::new(Body::from([head.as_bytes(), &body].concat()));
    response.headers_mut().insert("x-nomad-index", "7".parse().unwrap());
    if last {
        response.headers_mut().insert("connection", "close".parse().unwrap());
    }
    response
}

async fn started(requests_per_connection: usize) -> (Arc<Echo>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let echo = Arc::new(Echo { connections: AtomicUsize::new(0), requests_per_connection });
    tokio::spawn(serve(listener, PortLimits::default(), Arc::clone(&echo), CancellationToken::new()));
    (echo, address)
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn forwarded_request_and_answer_pass_without_hop_by_hop_headers() {
    let (echo, address) = started(usize::MAX).await;
    let forwarder = Forwarder::of_node(Dialer::plain());
    for _ in 0..20 {
        let request = Request::put("http://somewhere/v1/jobs?x=%20y")
            .header("X-Nomad-Token", "secret")
            .header("Connection", "keep-alive")
            .header("Expect", "100-continue")
            .body(Body::from("{}"))
            .unwrap();
        let response = forwarder.pass(&address, request).await.unwrap();
        assert_eq!(response.headers()["x-nomad-index"], "7");
        assert_eq!(text(response).await, "PUT /v1/jobs?x=%20y [content-length host x-nomad-token] {}");
    }
    assert_eq!(echo.connections.load(Ordering::Relaxed), 1, "one connection was enough");
}

#[tokio::test]
async fn forwarded_body_of_unknown_length_is_streamed() {
    let (_, address) = started(usize::MAX).await;
    let forwarder = Forwarder::of_node(Dialer::plain());
    let pieces = tokio_stream::iter((0..3).map(|n| Ok::<_, std::io::Error>(format!("{n},"))));
    let request = Request::put("/v1/operator/snapshot").body(Body::from_stream(pieces)).unwrap();
    let answer = text(forwarder.pass(&address, request).await.unwrap()).await;
    assert_eq!(answer, "PUT /v1/operator/snapshot [host transfer-encoding] 0,1,2,");
}

#[tokio::test]
async fn closed_forwarding_connections_are_replaced_without_errors() {
    let (echo, address) = started(3).await;
    let forwarder = Forwarder::of_node(Dialer::plain());
    for n in 0..9 {
        let request = Request::get(format!("/{n}")).body(Body::empty()).unwrap();
        assert_eq!(text(forwarder.pass(&address, request).await.unwrap()).await, format!("GET /{n} [host] "));
    }
    assert_eq!(echo.connections.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn unsent_request_is_returned_whole_and_a_possibly_sent_one_is_lost() {
    let forwarder = Forwarder::of_node(Dialer::plain());
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().to_string();
    let request = || Request::put("/v1/jobs").body(Body::from("job")).unwrap();
    let Err(ForwardError::NotSent { request: back, .. }) = forwarder.pass(&closed, request()).await else {
        panic!("nobody listens there")
    };
    assert_eq!(to_bytes(back.into_body(), 10).await.unwrap(), "job");

    let (_, hangs_up) = started(0).await;
    assert!(matches!(forwarder.pass(&hangs_up, request()).await, Err(ForwardError::Lost(_))));
}

#[tokio::test]
async fn upgraded_connection_is_joined_with_the_connection_of_the_caller() {
    let (_, address) = started(usize::MAX).await;
    let forwarder = Forwarder::of_node(Dialer::plain());
    let (caller, ours) = tokio::io::duplex(1024);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (forwarder, address) = (forwarder.clone(), address.clone());
        async move { Ok::<_, std::convert::Infallible>(forwarder.pass(&address, request.map(Body::new)).await.unwrap()) }
    });
    tokio::spawn(
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(ours), service).with_upgrades(),
    );
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(caller)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let request = Request::get("/exec")
        .header("connection", "upgrade")
        .header("upgrade", "backwards")
        .body(Body::empty())
        .unwrap();
    let mut response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let mut io = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    io.write_all(b"abcd").await.unwrap();
    let mut word = [0; 4];
    io.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"dcba");
}
