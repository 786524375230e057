//! Many streams over one connection, as the node RPC has it: both sides may open streams, each with windows of its own.
//!
//! What is said in a stream is not here. `frame` is bytes alone, `state` is what frames mean, `session` moves them.

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

/// How many bytes one side may have sent that the other has not read, per stream.
pub const WINDOW_BYTES: u32 = 256 * 1024;

/// The largest data frame that is written, in bytes. Larger ones are read.
pub const DATA_FRAME_BYTES_MAX: usize = 4096;

/// How patient a session is, and how much of it there may be.
#[derive(Debug, Clone)]
pub struct SessionLimits {
    /// How often the other side is pinged.
    pub keepalive_every: Duration,
    /// How long an answer to a ping, or a write, may take before the session ends.
    pub answer_within: Duration,
    /// How long the other side may take to acknowledge a stream before the session ends.
    pub open_within: Duration,
    /// How long a stream that is closed here waits for the other side to close it before it is reset.
    pub close_within: Duration,
    /// How many streams wait to be accepted, or to be acknowledged, at a time.
    pub backlog_max: usize,
    /// How many streams of the other side there may be at a time; one more is reset.
    pub streams_max: usize,
    /// How many bytes of all streams may wait to be read; one more ends the session.
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

/// Why a session has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// It was closed here.
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
    /// The other side said that something went wrong with it.
    #[error("remote end is gone: code {0}")]
    GoneAway(u32),
    /// A frame that is none.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// More data than there was room for.
    #[error("receive window exceeded")]
    WindowExceeded,
    /// A stream was opened twice.
    #[error("duplicate stream initiated")]
    Duplicate,
    /// Too much of all streams together waits to be read.
    #[error("too many unread bytes")]
    Unread,
}

impl Ended {
    /// As an error of reading or writing.
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
