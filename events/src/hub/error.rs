//! Failures of the event history.

use std::io;

/// Failure to read or write the history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The store failed.
    #[error("{doing} event history")]
    Store {
        /// Operation that failed.
        doing: &'static str,
        #[source]
        source: fjall::Error,
    },
    /// A stored event cannot be read.
    #[error("event history is damaged at index {0}")]
    Damaged(u64),
    /// The entry is no longer in memory, and not in the history yet.
    #[error("the events of index {0} are not written to the event history yet")]
    NotWritten(u64),
    /// The history was closed because its disk failed, and has not been reopened since.
    #[error("event history is closed until its disk works")]
    Closed,
    /// A thread of the hub could not be started.
    #[error("starting a thread of the event hub")]
    Thread(#[source] io::Error),
}
