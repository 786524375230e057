//! Failures of what-if questions.

/// Reason why a what-if question has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WhatIfFailure {
    /// The question cannot be answered; the text says why.
    #[error("{0}")]
    Refused(String),
    /// The server answers as many questions as it may already.
    #[error("what-if: other questions are being answered; ask again later")]
    Busy,
    /// The server has failed.
    #[error("{0}")]
    Unavailable(String),
}
