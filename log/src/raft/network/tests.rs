//! Sending a checkpoint to a member that takes long to install it, or dies of it.

use std::collections::VecDeque;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::*;
use crate::checkpoint::Meta;
use crate::disk::RealDisk;
use crate::machine::CheckpointSource;
use crate::members::Members;
use crate::position::{Edge, Position};

/// A member that gives these answers one after another, then none.
struct Member {
    answers: Mutex<VecDeque<Response<()>>>,
    asked: Mutex<Vec<(u64, usize)>>,
}

impl Transport for Member {
    fn send<'a>(
        &'a self,
        to: NodeId,
        _: &'a str,
        message: Bytes,
        within: Duration,
    ) -> BoxFuture<'a, Result<Bytes, TransportError>> {
        Box::pin(async move {
            let Ok(Request::<()>::Part(part)) = Request::decode(to, message) else { panic!("only pieces are sent") };
            self.asked.lock().push((part.offset, part.data.len()));
            let answer = self.answers.lock().pop_front();
            match answer {
                Some(answer) => Ok(answer.encode()),
                None => {
                    tokio::time::sleep(within).await;
                    Err(TransportError::Lost("silence".to_owned()))
                }
            }
        })
    }
}

struct Content(usize);

impl CheckpointSource for Content {
    fn write_to(self: Box<Self>, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        out.write_all(&vec![7; self.0])
    }
}

/// Sends a checkpoint of a few bytes to a member with these answers. Returns the pieces sent, the outcome and the
/// seconds taken.
async fn sent_to(answers: impl FnOnce(u64) -> Vec<Response<()>>) -> (Vec<(u64, usize)>, Result<Vote, String>, u64) {
    let dir = tempfile::tempdir().unwrap();
    let meta =
        Meta { position: Position { term: 1, index: 9 }, members_set: Edge::default(), members: Members::default() };
    let checkpoint = Checkpoint::write(&RealDisk, dir.path(), meta, Box::new(Content(100))).unwrap();
    let file_bytes = std::fs::metadata(&checkpoint.path).unwrap().len();
    let member = Arc::new(Member { answers: Mutex::new(answers(file_bytes).into()), asked: Mutex::default() });
    let mut network = Network::new(Arc::new(RealDisk), Arc::clone(&member) as Arc<dyn Transport>);
    let peer = RaftNetworkFactory::<Types<()>>::new_client(&mut network, 2, &BasicNode::new("server-2")).await;
    let begun = Instant::now();
    let sent = peer.send_parts::<()>(Vote::new_committed(3, 1), &checkpoint).await;
    let asked = std::mem::take(&mut *member.asked.lock());
    (asked, sent.map_err(|error| error.to_string()), begun.elapsed().as_secs())
}

fn have(have: u64) -> Response<()> {
    Response::Part { vote: Vote::new_committed(3, 1), have }
}

#[tokio::test(start_paused = true)]
async fn member_installing_a_checkpoint_is_polled_until_it_is_done() {
    let mut all = 0;
    let (asked, sent, _) = sent_to(|file_bytes| {
        all = file_bytes;
        vec![have(0), Response::Installing, Response::Installing, Response::Installing, have(file_bytes)]
    })
    .await;
    assert_eq!(sent, Ok(Vote::new_committed(3, 1)));
    assert_eq!(asked, [(0, 0), (0, all as usize), (0, 0), (0, 0), (0, 0)]);
}

#[tokio::test(start_paused = true)]
async fn member_that_dies_after_the_last_piece_is_given_up_within_20_seconds() {
    let (asked, sent, seconds) = sent_to(|_| vec![have(0)]).await;
    assert!(sent.unwrap_err().contains("silence"));
    assert!(asked.len() == 2 && seconds <= 20, "{asked:?} took {seconds} s");
    let (asked, sent, seconds) = sent_to(|_| vec![have(0), Response::Installing]).await;
    assert!(sent.unwrap_err().contains("silence"));
    assert!(asked.len() == 3 && seconds <= 20, "{asked:?} took {seconds} s");
}
