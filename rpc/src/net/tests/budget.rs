//! The budget of a session for the requests of all its streams.

use super::*;
use crate::yamux::{Ended, SessionLimits, Stream};

const BUDGET: usize = 256 * 1024;
/// Three requests of this length exceed the budget.
const TWO_FIFTHS: usize = BUDGET * 2 / 5;

/// Serves one session with a small budget. Returns the dialling side.
fn session(is_server: bool) -> Session {
    let (here, there) = tokio::io::duplex(1 << 16);
    let limits = SessionLimits { unread_bytes_max: BUDGET, ..SessionLimits::default() };
    let accepted = Session::accepted(there, limits);
    let caller = Caller { is_server, ..Caller::plain("127.0.0.1:1".parse().unwrap()) };
    tokio::spawn(serve_session(accepted, true, caller, Arc::new(Answers::default())));
    Session::dialled(here, SessionLimits::default())
}

/// Begins a call of `method` with a body of `length` bytes, of which `sent` are sent.
async fn begin(session: &Session, method: &str, length: u32, sent: usize) -> Stream {
    let mut stream = session.open().await.unwrap();
    stream.write_all(&[FirstByte::Rpc as u8]).await.unwrap();
    stream.write_all(&to_vec(&RequestHeader { seq: 1, service_method: method.to_owned() }).unwrap()).await.unwrap();
    // A text of 32 bits of length.
    stream.write_all(&[&[0xdb], &length.to_be_bytes()[..]].concat()).await.unwrap();
    // The other side may end the session meanwhile.
    let _ = stream.write_all(&vec![b'a'; sent]).await;
    stream
}

async fn ended(session: &Session) -> Ended {
    tokio::time::timeout(Duration::from_secs(10), session.closed()).await.unwrap()
}

#[tokio::test]
async fn unfinished_requests_of_all_streams_share_one_budget() {
    let session = session(false);
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(begin(&session, "Status.Ping", 1 << 20, TWO_FIFTHS).await);
    }
    assert_ne!(ended(&session).await, Ended::Here);
}

#[tokio::test]
async fn requests_that_are_being_answered_count_towards_the_budget() {
    let session = session(false);
    let mut streams = Vec::new();
    for _ in 0..3 {
        streams.push(begin(&session, "Status.Wait", TWO_FIFTHS as u32, TWO_FIFTHS).await);
    }
    assert_ne!(ended(&session).await, Ended::Here);
}

#[tokio::test]
async fn answered_requests_give_their_share_of_the_budget_back() {
    let session = session(false);
    let body = to_vec(&Text { text: "a".repeat(TWO_FIFTHS) }).unwrap();
    for seq in 0..6 {
        assert_eq!(call_over(&session, seq, "Status.Echo", &body).await.unwrap(), body);
    }
    assert_eq!(session.ended(), None);
}

#[tokio::test]
async fn requests_of_servers_have_no_budget() {
    let session = session(true);
    let body = to_vec(&Text { text: "a".repeat(2 * BUDGET) }).unwrap();
    assert_eq!(call_over(&session, 1, "Status.Echo", &body).await.unwrap(), body);
}
