//! Messages to the agent, which are sent while the session goes on: while the command takes no input, neither does the
//! agent.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::time::Duration;

use futures_util::{Sink, SinkExt};
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

/// Longest wait for a session to close that this side ends.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Bytes of waiting messages from which on no more input is read. Much more than anybody types: the escape is found
/// though the command takes no input.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// The queue of messages in front of a connection.
#[derive(Debug)]
pub(super) struct Outbox<S> {
    to: S,
    waiting: VecDeque<Message>,
    /// Length of the messages that wait.
    bytes: usize,
    /// Whether the connection has messages that it has not written yet.
    is_unflushed: bool,
    /// Whether the connection takes no more messages.
    is_over: bool,
}

impl<S: Sink<Message> + Unpin> Outbox<S> {
    /// An empty queue.
    pub(super) fn new(to: S) -> Self {
        Self { to, waiting: VecDeque::new(), bytes: 0, is_unflushed: false, is_over: false }
    }

    /// Queues a message. After an error of the connection it is dropped.
    pub(super) fn say(&mut self, what: &Value) {
        if !self.is_over {
            let message = Message::text(what.to_string());
            self.bytes += message.len();
            self.waiting.push_back(message);
        }
    }

    /// Whether messages are not sent yet.
    pub(super) fn is_busy(&self) -> bool {
        self.is_unflushed || !self.waiting.is_empty()
    }

    /// Whether more input can be queued.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < WAITING_BYTES_MAX
    }

    /// Sends the queued messages. Dropping the future loses none: a message leaves the queue when the connection takes
    /// it.
    ///
    /// An error ends the sending and is not returned: the agent has said why, and that is read next.
    pub(super) async fn send(&mut self) {
        if self.try_send().await.is_err() {
            self.is_over = true;
            self.is_unflushed = false;
            self.waiting.clear();
            self.bytes = 0;
        }
    }

    async fn try_send(&mut self) -> Result<(), S::Error> {
        while !self.waiting.is_empty() {
            poll_fn(|context| self.to.poll_ready_unpin(context)).await?;
            if let Some(message) = self.waiting.pop_front() {
                self.bytes -= message.len();
                self.is_unflushed = true;
                self.to.start_send_unpin(message)?;
            }
        }
        self.to.flush().await?;
        self.is_unflushed = false;
        Ok(())
    }

    /// Closes the connection; messages that wait are dropped. This side leaves in any case: no error is returned.
    pub(super) async fn close(&mut self) {
        let _ = tokio::time::timeout(CLOSE_WITHIN, self.to.close()).await;
    }
}
