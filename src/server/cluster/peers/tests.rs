//! Servers ask and answer each other over real connections.

use std::net::SocketAddr;

use songline_rpc::port::{Accept, PortLimits};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;

/// Says back what it is told; refuses the empty question.
struct Echo {
    peers: Peers,
}

impl Answers for Echo {
    async fn answer(&self, topic: Topic, question: Bytes) -> Result<Bytes, String> {
        if question.is_empty() { Err(format!("nothing about {topic:?}")) } else { Ok(question) }
    }
}

impl Accept for Echo {
    async fn accept(self: Arc<Self>, first: FirstByte, conn: Conn, _: SocketAddr) {
        assert_eq!(first, FirstByte::Peers);
        // How it ended is told to the one who asked.
        let _ = self.peers.serve(conn, &*self).await;
    }
}

async fn echo(key: Option<SharedKey>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let echo = Arc::new(Echo { peers: Peers::new(Dialer::plain(), key) });
    tokio::spawn(songline_rpc::port::serve(listener, PortLimits::default(), echo, CancellationToken::new()));
    address
}

async fn ask(key: Option<SharedKey>, address: &str, question: &[u8]) -> Result<Bytes, AskError> {
    Peers::new(Dialer::plain(), key).ask(address, Topic::Greeting, question, Duration::from_secs(10)).await
}

#[tokio::test]
async fn questions_are_answered_or_refused_over_kept_connections() {
    let address = echo(None).await;
    let peers = Peers::new(Dialer::plain(), None);
    let long = vec![7; 3 << 20];
    for question in [&b"who"[..], &long, b"again"] {
        let answer = peers.ask(&address, Topic::Greeting, question, Duration::from_secs(10)).await;
        assert_eq!(answer.unwrap(), question);
        assert_eq!(lock(&peers.idle)[&*address].len(), 1);
    }
    let refused = peers.ask(&address, Topic::Join, b"", Duration::from_secs(10)).await;
    assert_eq!(refused, Err(AskError::Refused("nothing about Join".into())));
}

#[tokio::test]
async fn only_servers_with_the_same_key_talk() {
    let (ours, theirs) = ([1; 32], [2; 32]);
    let (open, keyed) = (echo(None).await, echo(Some(ours)).await);
    assert_eq!(ask(Some(ours), &keyed, b"hello").await.unwrap(), "hello");
    let why = |answer: Result<Bytes, AskError>| answer.unwrap_err().to_string();
    assert!(why(ask(Some(theirs), &keyed, b"hello").await).contains("does not have this server's encrypt key"));
    assert!(why(ask(Some(ours), &open, b"hello").await).contains("does not have this server's encrypt key"));
    assert!(why(ask(None, &keyed, b"hello").await).contains("this one has none"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_is_silent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let peers = Peers::new(Dialer::plain(), None);
    let within = Duration::from_millis(300);
    assert!(matches!(peers.ask(&gone, Topic::Greeting, b"?", within).await, Err(AskError::Unreachable(_))));
    assert!(matches!(peers.ask(&silent, Topic::Greeting, b"?", within).await, Err(AskError::Lost(_))));
}
