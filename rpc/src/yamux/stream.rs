//! One stream of a session, for reading and writing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::Session;
use super::session::Held;

/// A stream. Bytes are sent in the order of the writes. Dropping the stream ends the sending direction and discards
/// further input.
pub struct Stream {
    id: u32,
    held: Arc<Held>,
}

impl Stream {
    pub(super) fn new(id: u32, held: Arc<Held>) -> Self {
        Self { id, held }
    }

    /// Id of the stream in its session.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The session of the stream.
    pub fn session(&self) -> Session {
        Session::of(&self.held)
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let shared = self.held.shared();
        let (read, unsent) = shared.state.lock().read(self.id, cx, buf);
        if unsent {
            shared.tell_writer();
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let shared = self.held.shared();
        let written = shared.state.lock().write(self.id, cx, bytes);
        if written.is_ready() {
            shared.tell_writer();
        }
        written
    }

    /// Does nothing: written bytes are sent without a flush.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shared = self.held.shared();
        shared.state.lock().finish(self.id);
        shared.tell_writer();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let shared = self.held.shared();
        shared.state.lock().let_go(self.id, Instant::now());
        shared.tell_writer();
        shared.tell_openers();
    }
}
