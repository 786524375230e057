//! Failures of the record of what entries did to objects.

use std::io;

use crate::hub::error::HistoryError;

/// Failure to read or write the record.
#[derive(Debug, thiserror::Error)]
pub enum ObjectHistoryError {
    /// The record was closed because its disk failed, and has not been reopened since.
    #[error("the record of what entries did is closed until its disk works")]
    Closed,
    /// The store failed.
    #[error("{doing} the record of what entries did")]
    Store {
        /// Operation that failed.
        doing: &'static str,
        #[source]
        source: fjall::Error,
    },
    /// A row could not be converted to JSON, or recorded JSON cannot be read.
    #[error("a change of entry {index} in the record of what entries did")]
    Content {
        /// Index of the entry.
        index: u64,
        #[source]
        source: serde_json::Error,
    },
    /// Recorded bytes have an unknown form, or the event of a recorded change is missing.
    #[error("the record of what entries did is damaged at index {0}")]
    Damaged(u64),
    /// The rows of a change could not be read from the event history.
    #[error("reading the rows of a change")]
    Events(#[from] HistoryError),
    /// The record's thread could not be started.
    #[error("starting the thread that records what entries did")]
    Thread(#[source] io::Error),
}
