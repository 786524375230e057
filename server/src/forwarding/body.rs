//! The body of an answer. Reading a body to its end makes its connection reusable.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::pool::{Pool, Sender};

/// A body and the connection that carries it.
pub(super) struct Lent {
    body: Incoming,
    /// `None` after the connection was given back.
    from: Option<(Pool, Box<str>, Sender)>,
}

impl Lent {
    pub(super) fn new(body: Incoming, pool: Pool, address: &str, sender: Sender) -> Self {
        let mut lent = Self { body, from: Some((pool, address.into(), sender)) };
        lent.give_back_at_end();
        lent
    }

    fn give_back_at_end(&mut self) {
        if self.body.is_end_stream()
            && let Some((pool, address, sender)) = self.from.take()
        {
            pool.give_back(&address, sender);
        }
    }
}

impl Body for Lent {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            Some(Ok(_)) => self.give_back_at_end(),
            Some(Err(_)) => self.from = None,
            None => {
                if let Some((pool, address, sender)) = self.from.take() {
                    pool.give_back(&address, sender);
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
