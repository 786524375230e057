//! Ends that may speak as servers: each kind of dialler with each kind of acceptor, over real connections.

use std::net::SocketAddr;
use std::path::PathBuf;

use expect_test::expect;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::super::{Accept, Dialer, PortLimits, Tls, TlsSettings, serve};
use super::*;

const OF_SERVERS: [FirstByte; 3] = [FirstByte::Peers, FirstByte::Http, FirstByte::RpcOfServers];

/// Sends `welcome` over each accepted connection.
struct Welcomes;

impl Accept for Welcomes {
    async fn accept(self: Arc<Self>, _: FirstByte, mut conn: Conn, _: SocketAddr) {
        let _ = conn.read_u8().await;
        let _ = conn.write_all(b"welcome").await;
        let _ = conn.shutdown().await;
    }
}

fn tls(who: &str) -> Tls {
    let file = |name: &str| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name);
    let settings = TlsSettings {
        ca_file: file("ca.pem"),
        cert_file: file(&format!("{who}.pem")),
        key_file: file(&format!("{who}.key.pem")),
        region: "global".into(),
        // Between servers names count regardless of this setting.
        verify_server_hostname: false,
        upgrade: true,
        ..TlsSettings::default()
    };
    Tls::load(&settings).unwrap()
}

/// One end: its name in the story, its certificate, its key, and its treatment of servers that prove nothing.
#[derive(Clone, Copy)]
struct End(&'static str, Option<&'static str>, Option<u8>, Unproven);

impl End {
    fn trust(self) -> ServerTrust {
        let End(_, certificate, key, unproven) = self;
        ServerTrust::new("global", certificate.is_some(), key.map(|byte| ServerKey::new([byte; 32])), unproven)
    }

    fn dialer(self) -> Dialer {
        self.1.map_or_else(Dialer::plain, |who| Dialer::secured(tls(who))).of_server(self.trust())
    }

    async fn served(self) -> (String, CancellationToken) {
        let limits = PortLimits { tls: self.1.map(tls), servers: Some(self.trust()), ..PortLimits::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, closing) = (listener.local_addr().unwrap().to_string(), CancellationToken::new());
        tokio::spawn(serve(listener, limits, Arc::new(Welcomes), closing.clone()));
        (address, closing)
    }
}

async fn dialled(dialer: &Dialer, address: &str, first: FirstByte) -> String {
    let spoken = async {
        let mut conn = dialer.connect(address, first).await?;
        conn.write_all(b"?").await?;
        conn.flush().await?;
        let mut said = String::new();
        conn.read_to_string(&mut said).await?;
        Ok::<_, io::Error>(said)
    };
    spoken.await.unwrap_or_else(|error| match error.get_ref().and_then(|error| error.downcast_ref::<Refused>()) {
        Some(refused) => format!("refused: {refused:?}"),
        None => "closed".to_owned(),
    })
}

#[tokio::test]
async fn only_proven_servers_may_open_server_connections() {
    use Unproven::{Anybody, Refused, SameMachine};
    let acceptors = [
        End("certificates", Some("server"), None, Refused),
        End("key", None, Some(1), Refused),
        End("certificates and key", Some("server"), Some(1), Refused),
        End("loopback", None, None, SameMachine),
        End("alone", None, None, Refused),
        End("anybody", None, None, Anybody),
        End("anybody, key", None, Some(1), Anybody),
    ];
    // Ends with certificates are in upgrade mode, so they accept the key alone over a connection without TLS. The
    // diallers' own demands are tested elsewhere.
    let diallers = [
        End("nobody", None, None, Anybody),
        End("a node's certificate", Some("client"), None, Anybody),
        End("a server's certificate", Some("server"), None, Anybody),
        End("the key", None, Some(1), Refused),
        End("another key", None, Some(2), Refused),
        End("a node's certificate and the key", Some("client"), Some(1), Anybody),
        End("a server's certificate and the key", Some("server"), Some(1), Refused),
    ];
    let mut told = String::new();
    for acceptor in acceptors {
        let (address, _closing) = acceptor.served().await;
        told.push_str(&format!("{}\n", acceptor.0));
        for dialler in diallers {
            let dialer = dialler.dialer();
            let mut said = Vec::new();
            for first in OF_SERVERS {
                said.push(dialled(&dialer, &address, first).await);
            }
            said.dedup();
            told.push_str(&format!("  {}: {}\n", dialler.0, said.join(", ")));
        }
    }
    expect![[r#"
        certificates
          nobody: refused: Unproven
          a node's certificate: refused: Certificate
          a server's certificate: welcome
          the key: refused: KeyMissing
          another key: refused: KeyMissing
          a node's certificate and the key: refused: Certificate
          a server's certificate and the key: refused: KeyMissing
        key
          nobody: refused: KeyMissing
          a node's certificate: closed
          a server's certificate: closed
          the key: welcome
          another key: refused: KeyDiffers
          a node's certificate and the key: closed
          a server's certificate and the key: closed
        certificates and key
          nobody: refused: KeyMissing
          a node's certificate: refused: Certificate
          a server's certificate: refused: KeyMissing
          the key: welcome
          another key: refused: KeyDiffers
          a node's certificate and the key: refused: Certificate
          a server's certificate and the key: welcome
        loopback
          nobody: welcome
          a node's certificate: closed
          a server's certificate: closed
          the key: refused: KeyMissing
          another key: refused: KeyMissing
          a node's certificate and the key: closed
          a server's certificate and the key: closed
        alone
          nobody: refused: Unproven
          a node's certificate: closed
          a server's certificate: closed
          the key: refused: KeyMissing
          another key: refused: KeyMissing
          a node's certificate and the key: closed
          a server's certificate and the key: closed
        anybody
          nobody: welcome
          a node's certificate: closed
          a server's certificate: closed
          the key: refused: KeyMissing
          another key: refused: KeyMissing
          a node's certificate and the key: closed
          a server's certificate and the key: closed
        anybody, key
          nobody: welcome
          a node's certificate: closed
          a server's certificate: closed
          the key: welcome
          another key: refused: KeyDiffers
          a node's certificate and the key: closed
          a server's certificate and the key: closed
    "#]]
    .assert_eq(&told);
}

#[tokio::test]
async fn dialled_server_must_prove_itself_too() {
    use Unproven::{Refused, SameMachine};
    // The right key with a node's certificate, and an end with another key.
    let node = End("a node", Some("client"), Some(1), Unproven::Anybody).served().await;
    let stranger = End("a stranger", None, Some(2), Unproven::Anybody).served().await;
    let open = End("open", None, None, SameMachine).served().await;
    let mut told = String::new();
    for (dialler, address) in [
        (End("certificates to a node", Some("server"), None, Refused), &node.0),
        (End("certificates and key to a node", Some("server"), Some(1), Refused), &node.0),
        (End("key to another key", None, Some(1), Refused), &stranger.0),
        (End("key to none", None, Some(1), Refused), &open.0),
        (End("alone to loopback", None, None, Refused), &open.0),
        (End("loopback to loopback", None, None, SameMachine), &open.0),
    ] {
        told.push_str(&format!("{}: {}\n", dialler.0, dialled(&dialler.dialer(), address, FirstByte::Peers).await));
    }
    told.push_str(&format!("a node to loopback: {}\n", dialled(&Dialer::plain(), &open.0, FirstByte::Peers).await));
    expect![[r#"
        certificates to a node: refused: Certificate
        certificates and key to a node: refused: Certificate
        key to another key: refused: KeyDiffers
        key to none: refused: KeyMissing
        alone to loopback: refused: Unproven
        loopback to loopback: welcome
        a node to loopback: refused: NoServer
    "#]]
    .assert_eq(&told);
}

#[test]
fn unproven_servers_are_admitted_only_from_the_same_machine() {
    let trust = ServerTrust::new("global", false, None, Unproven::SameMachine);
    let judged = |ip: &str| trust.judge(FirstByte::Peers, OtherEnd { ip: ip.parse().unwrap(), names: None }, false);
    assert_eq!(judged("127.0.0.1"), Ok(()));
    assert_eq!(judged("::1"), Ok(()));
    assert_eq!(judged("::ffff:127.0.0.1"), Ok(()));
    assert_eq!(judged("10.0.0.1"), Err(Refused::Unproven));
    assert_eq!(judged("::ffff:10.0.0.1"), Err(Refused::Unproven));
}

#[tokio::test]
async fn invalid_server_greeting_is_answered_only_with_a_refusal_code() {
    let (address, _closing) = End("key", None, Some(1), Unproven::Refused).served().await;
    let garbage = [0xff; HANDSHAKE_BYTES];
    let hellos: [(&[u8], Refused); 4] = [
        (&[9, 0], Refused::Version),
        (&[VERSION, 9], Refused::Version),
        (&[VERSION, 0], Refused::KeyMissing),
        (&[&[VERSION, 1][..], &garbage].concat(), Refused::KeyDiffers),
    ];
    for (hello, refused) in hellos {
        let mut conn = tokio::net::TcpStream::connect(&address).await.unwrap();
        conn.write_all(&[FirstByte::Peers as u8]).await.unwrap();
        conn.write_all(hello).await.unwrap();
        let mut answer = Vec::new();
        // Closing with unread bytes resets the connection after the answer.
        let _ = conn.read_to_end(&mut answer).await;
        assert_eq!(answer, [refused as u8], "{hello:?}");
    }
}

#[tokio::test]
async fn certificate_of_another_region_is_refused_by_a_dialler_of_one_region() {
    let server = End("certificates", Some("server"), None, Unproven::Refused);
    let (address, _closing) = server.served().await;
    let mut told = Vec::new();
    for dialer in
        [server.dialer().of_any_region(), server.dialer().of_region("global"), server.dialer().of_region("mars")]
    {
        told.push(dialled(&dialer, &address, FirstByte::Regions).await);
    }
    assert_eq!(told, ["welcome", "welcome", "refused: Certificate"]);
}
