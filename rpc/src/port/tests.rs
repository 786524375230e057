//! Stories of the port: TLS and accepted callers, bounds on connections.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::*;

/// Sends the type of each connection and the names in its certificate; stays until the other side closes.
struct Says;

impl Accept for Says {
    async fn accept(self: Arc<Self>, first: FirstByte, mut conn: Conn, _: SocketAddr) {
        conn.write_all(format!("{first:?}\n").as_bytes()).await.unwrap();
        let _ = conn.read_u8().await;
    }

    async fn accept_named(self: Arc<Self>, first: FirstByte, mut conn: Conn, _: SocketAddr, names: Arc<[String]>) {
        conn.write_all(format!("{first:?} {}\n", names.join(",")).as_bytes()).await.unwrap();
        let _ = conn.read_u8().await;
    }
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

fn settings(who: &str) -> TlsSettings {
    TlsSettings {
        ca_file: file("ca.pem"),
        cert_file: file(&format!("{who}.pem")),
        key_file: file(&format!("{who}.key.pem")),
        region: "global".into(),
        verify_server_hostname: true,
        ..TlsSettings::default()
    }
}

fn tls(who: &str) -> Tls {
    Tls::load(&settings(who)).unwrap()
}

async fn served(limits: PortLimits) -> (String, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let closing = CancellationToken::new();
    tokio::spawn(serve(listener, limits, Arc::new(Says), closing.clone()));
    (address, closing)
}

/// The server's text for a dialler, or `closed`.
async fn says(dialer: Dialer, address: &str, first: FirstByte) -> String {
    let Ok(mut conn) = dialer.connect(address, first).await else { return "closed".into() };
    said(&mut conn).await
}

async fn said(conn: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut text = String::new();
    loop {
        match conn.read_u8().await {
            Ok(b'\n') => return text,
            Ok(byte) => text.push(char::from(byte)),
            Err(_) => return "closed".into(),
        }
    }
}

fn requires(tls: Tls) -> PortLimits {
    PortLimits { tls: Some(tls), ..PortLimits::default() }
}

#[tokio::test]
async fn server_and_node_certificates_are_distinguished_and_strangers_refused() {
    let (address, _closing) = served(requires(tls("server"))).await;
    let says = async |who: &str| says(Dialer::secured(tls(who)), &address, FirstByte::MultiplexV2).await;
    assert_eq!(says("server").await, "MultiplexV2 server.global.nomad");
    assert_eq!(says("client").await, "MultiplexV2 client.global.nomad");
    assert_eq!(says("stranger").await, "closed");
}

#[tokio::test]
async fn port_that_requires_tls_refuses_plain_connections_except_in_upgrade_mode() {
    let (address, _closing) = served(requires(tls("server"))).await;
    assert_eq!(says(Dialer::plain(), &address, FirstByte::Rpc).await, "closed");
    let upgrading = Tls::load(&TlsSettings { upgrade: true, ..settings("server") }).unwrap();
    let (address, _closing) = served(requires(upgrading)).await;
    assert_eq!(says(Dialer::plain(), &address, FirstByte::Rpc).await, "Rpc");
    assert_eq!(
        says(Dialer::secured(tls("client")), &address, FirstByte::HttpOfNodes).await,
        "HttpOfNodes client.global.nomad"
    );
}

#[tokio::test]
async fn server_with_a_wrong_name_is_dialled_only_without_hostname_verification() {
    // The certificate is valid, but a node's.
    let (address, _closing) = served(requires(tls("client"))).await;
    assert_eq!(says(Dialer::secured(tls("server")), &address, FirstByte::Rpc).await, "closed");
    let lenient = Tls::load(&TlsSettings { verify_server_hostname: false, ..settings("server") }).unwrap();
    assert_eq!(says(Dialer::secured(lenient), &address, FirstByte::Rpc).await, "Rpc server.global.nomad");
    // A certificate of another CA is refused even then.
    let stranger = Tls::load(&TlsSettings { ca_file: file("other-ca.pem"), ..settings("stranger") }).unwrap();
    let (address, _closing) = served(requires(stranger)).await;
    let lenient = Tls::load(&TlsSettings { verify_server_hostname: false, ..settings("server") }).unwrap();
    assert_eq!(says(Dialer::secured(lenient), &address, FirstByte::Rpc).await, "closed");
}

#[tokio::test]
async fn tls_within_tls_and_tls_without_certificates_are_refused() {
    let (address, _closing) = served(requires(tls("server"))).await;
    assert_eq!(says(Dialer::secured(tls("client")), &address, FirstByte::Tls).await, "closed");
    let (address, _closing) = served(PortLimits::default()).await;
    assert_eq!(says(Dialer::secured(tls("client")), &address, FirstByte::Rpc).await, "closed");
}

#[tokio::test]
async fn unfinished_tls_handshake_times_out() {
    let limits = PortLimits { handshake_within: Duration::from_millis(100), ..requires(tls("server")) };
    let (address, _closing) = served(limits).await;
    let mut conn = TcpStream::connect(&address).await.unwrap();
    conn.write_all(&[FirstByte::Tls as u8]).await.unwrap();
    assert_eq!(said(&mut conn).await, "closed");
}

#[tokio::test]
async fn streaming_connections_of_an_address_leave_20_connections_for_calls() {
    let (address, _closing) = served(PortLimits { connections_per_address_max: 25, ..PortLimits::default() }).await;
    let held = Mutex::new(Vec::new());
    let dial = async |first: FirstByte| {
        let mut conn = Dialer::plain().connect(&address, first).await.unwrap();
        let text = said(&mut conn).await;
        held.lock().push(conn);
        text
    };
    for _ in 0..5 {
        assert_eq!(dial(FirstByte::Streaming).await, "Streaming");
    }
    assert_eq!(dial(FirstByte::Streaming).await, "closed");
    held.lock().pop();
    for _ in 0..20 {
        assert_eq!(dial(FirstByte::Rpc).await, "Rpc");
    }
    assert_eq!(dial(FirstByte::Rpc).await, "closed");
    held.lock().clear();
    // The server notices closed connections a moment later.
    while dial(FirstByte::Rpc).await == "closed" {
        tokio::task::yield_now().await;
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let missing = Tls::load(&TlsSettings { ca_file: file("nobody.pem"), ..settings("server") }).unwrap_err();
    assert!(missing.to_string().contains("nobody.pem"), "{missing}");
    let mixed = Tls::load(&TlsSettings { key_file: file("client.key.pem"), ..settings("server") }).unwrap_err();
    assert!(mixed.to_string().starts_with("tls: "), "{mixed}");
}
