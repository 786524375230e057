//! Reads of the servers' API for templates.

use std::fmt;

use songline_model::Secret;

use crate::driver::Boxed;

/// Answer to a read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadAnswer {
    /// HTTP status.
    pub status: u16,
    /// Index of the answer.
    pub index: u64,
    /// JSON, or the text of an error.
    pub body: Vec<u8>,
}

/// Reads of the servers' API, with the token of a task.
pub trait ServerReads: fmt::Debug + Send + Sync {
    /// Gets a path with its query. The error says why there is no answer.
    fn get(&self, path: String, token: Secret) -> Boxed<'_, Result<ReadAnswer, String>>;
}
