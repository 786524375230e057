//! Servers ask and answer each other over real connections.

use std::net::SocketAddr;

use songline_rpc::port::{Accept, PortLimits, ServerTrust, Unproven};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;

/// Echoes the question; refuses the empty question.
struct Echo;

impl Answers for Echo {
    async fn answer(&self, topic: Topic, question: Bytes) -> Result<Bytes, String> {
        if question.is_empty() { Err(format!("nothing about {topic:?}")) } else { Ok(question) }
    }
}

impl Accept for Echo {
    async fn accept(self: Arc<Self>, first: FirstByte, conn: Conn, _: SocketAddr) {
        assert_eq!(first, FirstByte::Peers);
        // The asking side reports the result.
        let _ = serve(conn, &*self).await;
    }
}

fn trust() -> ServerTrust {
    ServerTrust::new("global", false, None, Unproven::SameMachine)
}

async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let limits = PortLimits { servers: Some(trust()), ..PortLimits::default() };
    tokio::spawn(songline_rpc::port::serve(listener, limits, Arc::new(Echo), CancellationToken::new()));
    address
}

fn peers() -> Peers {
    Peers::new(Dialer::plain().of_server(trust()))
}

#[tokio::test]
async fn server_requests_are_answered_or_refused_over_reused_connections() {
    let address = echo().await;
    let peers = peers();
    let long = vec![7; 3 << 20];
    for question in [&b"who"[..], &long, b"again"] {
        let answer = peers.ask(&address, Topic::Greeting, question, Duration::from_secs(10)).await;
        assert_eq!(answer.unwrap(), question);
        assert_eq!(peers.idle.lock()[&*address].len(), 1);
    }
    let refused = peers.ask(&address, Topic::Join, b"", Duration::from_secs(10)).await;
    assert_eq!(refused, Err(AskError::Refused("nothing about Join".into())));
}

#[tokio::test]
async fn unreachable_server_is_distinguished_from_a_silent_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let peers = peers();
    let within = Duration::from_millis(300);
    assert!(matches!(peers.ask(&gone, Topic::Greeting, b"?", within).await, Err(AskError::Unreachable(_))));
    assert!(matches!(peers.ask(&silent, Topic::Greeting, b"?", within).await, Err(AskError::Lost(_))));
}
