//! What HTTP needs of a server that knows its past: states at past indexes, and the entries of the log. The shell implements it.

use std::ops::Range;
use std::sync::Arc;

use axum::http::StatusCode;
use futures_util::future::BoxFuture;
use songline_commands::Envelope;
use songline_projections::State;

use crate::error::ApiError;
use crate::touches::Touches;

/// One entry of the log that holds a command.
#[derive(Debug, Clone)]
pub struct LoggedCommand {
    /// Its index, as users see it.
    pub index: u64,
    /// What stands there.
    pub envelope: Envelope,
}

/// Why the past could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PastError {
    /// It is not kept any more, or is that of a state that was replaced.
    #[error("index {wanted} is below the oldest retained index {oldest}")]
    BelowOldest {
        /// Index that was asked for.
        wanted: u64,
        /// Oldest one that can be read.
        oldest: u64,
    },
    /// It has not come yet.
    #[error("index {wanted} is above the newest applied index {newest}")]
    AboveNewest {
        /// Index that was asked for.
        wanted: u64,
        /// Index of the newest state.
        newest: u64,
    },
    /// Reading failed; the text says why.
    #[error("reading the past: {0}")]
    Failed(String),
}

impl From<PastError> for ApiError {
    fn from(error: PastError) -> Self {
        let code = match &error {
            PastError::BelowOldest { .. } => StatusCode::GONE,
            PastError::AboveNewest { .. } => StatusCode::NOT_FOUND,
            PastError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(code, error.to_string())
    }
}

/// An answer about the past, some time.
pub type PastFuture<'a, T> = BoxFuture<'a, Result<T, PastError>>;

/// A server's past.
pub trait Past: Send + Sync {
    /// What entries did.
    fn touches(&self) -> &Arc<Touches>;

    /// Index of the oldest entry that can be read.
    fn oldest_entry(&self) -> u64;

    /// The state after the entry at `index`. Rebuilding it ends when the answer is dropped.
    fn state_at(&self, index: u64) -> PastFuture<'_, Arc<State>>;

    /// The commands among the applied entries of a range, in order. What of it is not there is left out.
    fn commands(&self, range: Range<u64>) -> PastFuture<'_, Vec<LoggedCommand>>;
}
