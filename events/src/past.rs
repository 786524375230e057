//! Interface of a server that keeps its past: states at past indexes, and entries of the log. The shell implements
//! it.

use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use songline_commands::Envelope;
use songline_projections::State;

use crate::hub::EventHub;
use crate::object_history::ObjectHistory;

/// An entry of the log that holds a command.
#[derive(Debug, Clone)]
pub struct LoggedCommand {
    /// Index of the entry, as users see it.
    pub index: u64,
    /// Envelope and command of the entry.
    pub envelope: Envelope,
}

/// Failure to read the past.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PastError {
    /// The index is not retained any more, or belongs to a state that was replaced.
    #[error("index {wanted} is below the oldest retained index {oldest}")]
    BelowOldest {
        /// Wanted index.
        wanted: u64,
        /// Oldest readable index.
        oldest: u64,
    },
    /// The index has not been applied yet.
    #[error("index {wanted} is above the newest applied index {newest}")]
    AboveNewest {
        /// Wanted index.
        wanted: u64,
        /// Index of the newest state.
        newest: u64,
    },
    /// Reading failed; the text says why.
    #[error("reading the past: {0}")]
    Failed(String),
}

/// Future of an answer about the past.
pub type PastFuture<'a, T> = BoxFuture<'a, Result<T, PastError>>;

/// Access to a server's past.
pub trait Past: Send + Sync {
    /// The record of what entries did to objects.
    fn object_history(&self) -> &Arc<ObjectHistory>;

    /// The events of entries, which have the rows that the record refers to.
    fn events(&self) -> &Arc<EventHub>;

    /// Index of the oldest readable entry.
    fn oldest_entry(&self) -> u64;

    /// The state after the entry at `index`. Dropping the future cancels the rebuild.
    fn state_at(&self, index: u64) -> PastFuture<'_, Arc<State>>;

    /// Commands of the applied entries in a range of indexes, in order. Missing entries are left out.
    fn commands(&self, range: Range<u64>) -> PastFuture<'_, Vec<LoggedCommand>>;
}
