//! Bound on the time for a request's body. A bound between two pieces would permit one byte per second, and a bound
//! on the whole would be too short for an archive. So a body has a budget of waiting time, and every received byte
//! refills it, at most to its initial value.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// Number of bytes that refill the budget by one second. Even the slowest lines are faster.
const BYTES_PER_SECOND: u32 = 4096;

/// Error: a body was given up because it came too slowly.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the body of the request came too slowly")]
pub(crate) struct TooSlow;

/// A body that fails when its budget of waiting time is spent.
pub(crate) struct Paced<B> {
    body: B,
    /// Rest of the budget.
    left: Duration,
    /// Upper bound of the budget: a fast beginning does not pay for an endless rest.
    left_max: Duration,
    /// Start of the current wait, and the timer that ends it.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<B> Paced<B> {
    /// A body with an initial budget of `timeout`.
    pub(crate) fn new(body: B, timeout: Duration) -> Self {
        Self { body, left: timeout, left_max: timeout, waiting: None }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Paced<B>
where
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) else {
            let left = this.left;
            let begin = || (Instant::now(), Box::pin(tokio::time::sleep(left)));
            let (_, sleep) = this.waiting.get_or_insert_with(begin);
            ready!(sleep.as_mut().poll(cx));
            return Poll::Ready(Some(Err(TooSlow.into())));
        };
        if let Some((since, _)) = this.waiting.take() {
            this.left = this.left.saturating_sub(since.elapsed());
        }
        let bytes =
            frame.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref).map_or(0, Bytes::len);
        let earned = Duration::from_secs(bytes as u64) / BYTES_PER_SECOND;
        this.left = (this.left + earned).min(this.left_max);
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use http_body_util::BodyExt;

    use super::*;

    /// Reads a body of `pieces` pieces, one per interval `every`. Returns the bytes read, the seconds that it took,
    /// and whether the body was complete.
    async fn check(pieces: usize, piece_bytes: usize, every: Duration) -> (usize, u64, bool) {
        let stream = async_stream::stream! {
            for _ in 0..pieces {
                tokio::time::sleep(every).await;
                yield Ok::<_, Infallible>(Bytes::from(vec![0; piece_bytes]));
            }
        };
        let mut body = Paced::new(Body::from_stream(stream), Duration::from_secs(60));
        let began = Instant::now();
        let mut read = 0;
        loop {
            match body.frame().await {
                None => return (read, began.elapsed().as_secs(), true),
                Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
                Some(Err(error)) => {
                    assert!(error.is::<TooSlow>(), "{error}");
                    return (read, began.elapsed().as_secs(), false);
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn body_at_one_byte_per_second_times_out_after_60_seconds() {
        assert_eq!(check(1_000_000, 1, Duration::from_secs(1)).await, (60, 60, false));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_body_times_out_after_60_seconds() {
        assert_eq!(check(1, 1, Duration::from_secs(1_000_000)).await, (0, 60, false));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_but_steady_body_may_take_hours() {
        assert_eq!(check(10_000, 8192, Duration::from_secs(1)).await, (81_920_000, 10_000, true));
    }

    #[tokio::test(start_paused = true)]
    async fn fast_start_of_a_body_does_not_extend_its_stall_timeout() {
        let fast = vec![Bytes::from(vec![0; 32 << 20])];
        let stream = async_stream::stream! {
            for piece in fast { yield Ok::<_, Infallible>(piece); }
            std::future::pending::<()>().await;
        };
        let mut body = Paced::new(Body::from_stream(stream), Duration::from_secs(60));
        let began = Instant::now();
        while body.frame().await.is_some_and(|frame| frame.is_ok()) {}
        assert_eq!(began.elapsed().as_secs(), 60);
    }
}
