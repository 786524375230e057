//! Attacks on connections between servers: unauthenticated diallers ask each topic, and an eavesdropper records all
//! bytes.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use expect_test::expect;
use parking_lot::Mutex;
use serde_json::{Value, json};
use songline_rpc::msgpack::to_vec;
use songline_rpc::net::{Pool, PoolLimits};
use songline_rpc::port::{Dialer, FirstByte, ServerKey, ServerTrust, Tls, TlsSettings, Unproven};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::peers::{AskError, Peers, Topic};
use crate::config::{EncryptKey, ServerConfig};
use crate::testing::{Settings, TestServer, http_client};
use crate::trust;

const WITHIN: Duration = Duration::from_secs(60);
const TOPICS: [Topic; 8] = [
    Topic::Consensus,
    Topic::Greeting,
    Topic::Join,
    Topic::Promise,
    Topic::KeyEncryptionKey,
    Topic::Archive,
    Topic::Leave,
    Topic::Objects,
];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../rpc/tests/tls").join(name)
}

fn tls(who: &str) -> TlsSettings {
    TlsSettings {
        ca_file: file("ca.pem"),
        cert_file: file(&format!("{who}.pem")),
        key_file: file(&format!("{who}.key.pem")),
        region: "global".into(),
        // Connections between servers check names regardless of `verify_server_hostname`.
        ..TlsSettings::default()
    }
}

fn settings(dir: &Path, own: usize) -> Settings {
    Settings {
        name: format!("server-{own}"),
        data_dir: Some(dir.join(own.to_string())),
        acl: true,
        ..Settings::default()
    }
}

/// A dialer with this certificate and key. Without a key it accepts every other end.
fn dialer(certificate: Option<&str>, key: Option<&ServerKey>) -> Dialer {
    let unproven = if key.is_some() { Unproven::Refused } else { Unproven::Anybody };
    let dialer = certificate
        .map_or_else(Dialer::plain, |who| Dialer::secured(Tls::load(&tls(who)).expect("the files are there")));
    dialer.of_server(ServerTrust::new("global", certificate.is_some(), key.cloned(), unproven))
}

/// Results of dialling with each first byte of servers and asking each topic; equal neighbouring results are merged.
async fn tried(dialer: Dialer, address: &str) -> String {
    let mut said = Vec::new();
    for first in [FirstByte::Http, FirstByte::RpcOfServers] {
        said.push(
            dialer.connect(address, first).await.map_or_else(|error| error.to_string(), |_| "is let in".to_owned()),
        );
    }
    let peers = Peers::new(dialer);
    for topic in TOPICS {
        said.push(match peers.ask(address, topic, b"?", WITHIN).await {
            // The question arrived. Its answer does not matter here: the question has no content.
            Ok(_) | Err(AskError::Refused(_)) => "is let in".to_owned(),
            Err(AskError::Unreachable(why)) => why.trim_start_matches(address).trim_start_matches(": ").to_owned(),
            Err(AskError::Lost(why)) => format!("lost: {}", why.trim_start_matches(address)),
        });
    }
    said.dedup();
    said.join("; ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_port_answers_topics_only_to_servers() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let key = EncryptKey::generate().and_then(|key| EncryptKey::parse(&key)).expect("a key can be made");
    let (own, other) = (trust::server_key(&key), ServerKey::new([7; 32]));
    let mut told = String::new();
    let mut check = async |what: &str, settings: Settings, diallers: &[(&str, Dialer)]| {
        let server = TestServer::start(settings).await.expect("a single server starts");
        told.push_str(&format!("{what}\n"));
        for (who, dialer) in diallers {
            told.push_str(&format!("  {who}: {}\n", tried(dialer.clone(), server.core.cluster().address()).await));
        }
        server.stop().await;
    };
    let with_tls = Settings { tls: Some(tls("server")), ..settings(dir.path(), 0) };
    let of_certificates = [
        ("a node's certificate", dialer(Some("client"), None)),
        ("a server's certificate", dialer(Some("server"), None)),
    ];
    check("certificates", with_tls, &of_certificates).await;

    let mut with_key = settings(dir.path(), 1);
    with_key.server.encrypt = Some(key);
    let of_keys = [
        ("nobody", dialer(None, None)),
        ("another key", dialer(None, Some(&other))),
        ("the key", dialer(None, Some(&own))),
    ];
    check("key", with_key.clone(), &of_keys).await;

    with_key.tls = Some(tls("server"));
    with_key.data_dir = Some(dir.path().join("2"));
    let of_both = [
        ("a node's certificate and the key", dialer(Some("client"), Some(&own))),
        ("a server's certificate and another key", dialer(Some("server"), Some(&other))),
        ("a server's certificate", dialer(Some("server"), None)),
        ("a server's certificate and the key", dialer(Some("server"), Some(&own))),
    ];
    check("certificates and key", with_key, &of_both).await;

    check(
        "neither, alone",
        settings(dir.path(), 3),
        &[("nobody", dialer(None, None)), ("a key", dialer(None, Some(&own)))],
    )
    .await;
    expect![[r#"
        certificates
          a node's certificate: the certificate is not that of a server: it lacks the name server.<region>.nomad
          a server's certificate: is let in
        key
          nobody: only one of the two servers has an encrypt key
          another key: the encrypt keys of the two servers differ
          the key: is let in
        certificates and key
          a node's certificate and the key: the certificate is not that of a server: it lacks the name server.<region>.nomad
          a server's certificate and another key: the encrypt keys of the two servers differ
          a server's certificate: only one of the two servers has an encrypt key
          a server's certificate and the key: is let in
        neither, alone
          nobody: without an encrypt key or certificates, only servers that were told of each other on one machine talk to each other
          a key: only one of the two servers has an encrypt key
    "#]]
    .assert_eq(&told);
}

/// A proxy that forwards all bytes to and from a port, and records them.
#[derive(Default)]
struct Listener {
    to: OnceLock<SocketAddr>,
    heard: Mutex<Vec<u8>>,
}

impl Listener {
    async fn start() -> (Arc<Self>, String) {
        let (listens, own) = (TcpListener::bind("127.0.0.1:0").await.expect("a port is free"), Arc::<Self>::default());
        let address = listens.local_addr().expect("it is bound").to_string();
        let kept = Arc::clone(&own);
        tokio::spawn(async move {
            while let Ok((here, _)) = listens.accept().await {
                let own = Arc::clone(&own);
                tokio::spawn(async move {
                    let Some(to) = own.to.get() else { return };
                    let Ok(there) = TcpStream::connect(to).await else { return };
                    let ((from_here, to_here), (from_there, to_there)) = (here.into_split(), there.into_split());
                    tokio::join!(own.copy(from_here, to_there), own.copy(from_there, to_here));
                });
            }
        });
        (kept, address)
    }

    async fn copy(&self, mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin) {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            self.heard.lock().extend_from_slice(&bytes[..count]);
            if to.write_all(&bytes[..count]).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    }

    fn has_heard(&self, what: &[u8]) -> bool {
        self.heard.lock().windows(what.len()).any(|bytes| bytes == what)
    }
}

async fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let looked = async {
        loop {
            if let Some(found) = found() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(WITHIN, looked).await.unwrap_or_else(|_| panic!("waited too long until {what}"))
}

/// Runs two servers with an eavesdropper between them. Returns the secrets that the eavesdropper could read: the
/// key-encryption key, and the tokens of HTTP and node RPC requests that one server forwards to the other.
async fn read_on_the_way(encrypt: Option<EncryptKey>) -> Vec<&'static str> {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let (one, two) = (Listener::start().await, Listener::start().await);
    let (listeners, addresses) = ([one.0, two.0], [one.1, two.1]);
    let mut servers = Vec::new();
    for own in 0..2 {
        let mut server =
            ServerConfig { encrypt: encrypt.clone(), bootstrap_expect: Some(2), ..ServerConfig::default() };
        server.join.retry_join = addresses.to_vec();
        let settings = Settings { advertise: Some(addresses[own].clone()), server, ..settings(dir.path(), own) };
        let server = TestServer::start(settings).await.expect("a server starts without the other");
        listeners[own].to.set(SocketAddr::from(([127, 0, 0, 1], server.rpc_port))).expect("it is set once");
        servers.push(server);
    }
    let leads = until("one leads", || servers.iter().position(|server| server.core.term().is_some())).await;
    let follower = &servers[1 - leads];
    let kek_of = |server: usize| {
        let text = std::fs::read_to_string(dir.path().join(server.to_string()).join("server/keystore/kek")).ok()?;
        let bytes = (0..64).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok());
        bytes.collect::<Option<Vec<u8>>>()
    };
    let kek = until("both have the key-encryption key", || kek_of(0).filter(|_| kek_of(1).is_some())).await;

    let http = http_client();
    let url = |path: &str| format!("{}{path}", follower.http_addr());
    let made = http.put(url("/v1/acl/bootstrap")).send().await.expect("the follower answers");
    let made: Value = made.json().await.expect("it is a token");
    let token = made["SecretID"].as_str().expect("it has a secret").to_owned();
    let listed =
        http.get(url("/v1/acl/tokens")).header("X-Nomad-Token", &token).send().await.expect("the follower answers");
    assert_eq!(listed.status(), 200);
    // A token that does not exist is forwarded, too.
    let shown = "5ec2e700-0000-4000-8000-000000000001";
    let calls = Pool::new(Dialer::plain(), PoolLimits::default(), None);
    let asked = to_vec(&json!({ "Region": "global", "AuthToken": shown })).expect("it can be written");
    let refused = calls.call(&format!("127.0.0.1:{}", follower.rpc_port), "Node.List", &asked).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("Permission denied")));
    calls.close();

    let heard = |what: &[u8]| listeners.iter().any(|listener| listener.has_heard(what));
    let secrets = [
        ("the key-encryption key", &kek[..]),
        ("a token of HTTP", token.as_bytes()),
        ("a token of the RPC", shown.as_bytes()),
    ];
    let read = secrets.into_iter().filter(|(_, secret)| heard(secret)).map(|(what, _)| what).collect();
    for server in servers {
        server.stop().await;
    }
    read
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypt_key_hides_server_traffic_from_eavesdroppers() {
    let key = EncryptKey::generate().and_then(|key| EncryptKey::parse(&key)).expect("a key can be made");
    assert_eq!(read_on_the_way(Some(key)).await, [""; 0]);
    // Without a key, which loopback addresses allow, all three secrets are readable: the eavesdropper is in the right
    // place.
    let all = ["the key-encryption key", "a token of HTTP", "a token of the RPC"];
    assert_eq!(read_on_the_way(None).await, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_with_remote_members_in_its_log_needs_a_key_to_start() {
    let dir = tempfile::tempdir().expect("a directory can be made");
    let mut servers = Vec::new();
    let mut first: Option<String> = None;
    for own in 0..2 {
        let mut server = ServerConfig { bootstrap_expect: Some(2), ..ServerConfig::default() };
        server.join.retry_join = first.iter().cloned().collect();
        let settings = Settings { server, ..settings(dir.path(), own) };
        servers.push(TestServer::start(settings).await.expect("a server starts without the other"));
        first.get_or_insert_with(|| servers[0].core.cluster().address().to_owned());
    }
    until("both are members", || servers.iter().all(|server| server.core.other_servers().len() == 1).then_some(()))
        .await;
    for server in servers {
        server.stop().await;
    }
    // The configuration names no other server, but the log has one.
    let alone = settings(dir.path(), 1);
    let server = TestServer::start(alone.clone()).await.expect("members at loopback addresses need no key");
    server.stop().await;
    let moved = Settings { advertise: Some("192.0.2.1:4647".to_owned()), ..alone };
    let refused = TestServer::start(moved)
        .await
        .map(|_| ())
        .expect_err("strangers could pass themselves off as the other")
        .to_string();
    assert!(refused.contains("192.0.2.1:4647 is not an address of this machine"), "{refused}");
    assert!(refused.contains("songline operator gossip keyring generate"), "{refused}");
}
