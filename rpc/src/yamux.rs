//! Yamux: many streams over one connection, as in the node RPC. Both sides may open streams; each stream has its own
//! windows.
//!
//! The content of streams is opaque here. `frame` encodes frames, `state` handles them, `session` moves their bytes.

mod frame;
mod session;
mod state;
mod stream;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use frame::{Decoder, Flags, FrameError, HEADER_BYTES, Header, Kind, Piece};
pub use session::Session;
pub use stream::Stream;

/// Most bytes per stream that one side may have sent and the other has not read.
pub const WINDOW_BYTES: u32 = 256 * 1024;

/// Largest data frame that is written, in bytes. Larger ones are accepted.
pub const DATA_FRAME_BYTES_MAX: usize = 4096;

/// Timeouts and bounds of a session.
#[derive(Debug, Clone)]
pub struct SessionLimits {
    /// Interval of pings.
    pub keepalive_every: Duration,
    /// Timeout of an answer to a ping, and of a write; then the session ends.
    pub answer_within: Duration,
    /// Time within which the other side must acknowledge a stream; then the session ends.
    pub open_within: Duration,
    /// Time for which a stream closed here waits for the other side to close it; then it is reset.
    pub close_within: Duration,
    /// Most streams that wait to be accepted, and most that wait to be acknowledged.
    pub backlog_max: usize,
    /// Most streams opened by the other side; a further one is reset.
    pub streams_max: usize,
    /// Most bytes of all streams together that are unread, or held in requests that are unfinished or being answered;
    /// more end the session.
    pub unread_bytes_max: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            keepalive_every: Duration::from_secs(30),
            answer_within: Duration::from_secs(10),
            open_within: Duration::from_secs(75),
            close_within: Duration::from_mins(5),
            backlog_max: 256,
            streams_max: 8192,
            unread_bytes_max: 64 << 20,
        }
    }
}

/// Reason why a session has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The session was closed on this side.
    #[error("session shutdown")]
    Here,
    /// The connection ended.
    #[error("EOF")]
    Eof,
    /// The connection failed.
    #[error("{0}")]
    Connection(String),
    /// A ping was not answered, or a write took too long.
    #[error("keepalive timeout")]
    Silent,
    /// The other side never acknowledged a stream.
    #[error("stream open timeout")]
    NeverAcknowledged,
    /// The other side reported an error of its own.
    #[error("remote end is gone: code {0}")]
    GoneAway(u32),
    /// Bytes that are not a valid frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// More data than the stream's window allowed.
    #[error("receive window exceeded")]
    WindowExceeded,
    /// A stream was opened twice.
    #[error("duplicate stream initiated")]
    Duplicate,
    /// More unread and held bytes of all streams than `unread_bytes_max`.
    #[error("too many unread bytes")]
    Unread,
}

impl Ended {
    /// The reason as an IO error.
    pub fn io(&self) -> std::io::Error {
        let kind = match self {
            Self::Eof => std::io::ErrorKind::UnexpectedEof,
            Self::Silent | Self::NeverAcknowledged => std::io::ErrorKind::TimedOut,
            Self::Here
            | Self::Connection(_)
            | Self::GoneAway(_)
            | Self::Frame(_)
            | Self::WindowExceeded
            | Self::Duplicate
            | Self::Unread => std::io::ErrorKind::ConnectionAborted,
        };
        std::io::Error::new(kind, self.clone())
    }
}
