//! Commands that requests write to the log.

use std::future::Future;

use songline_commands::{Actor, Cause, Command, Idempotency};
use songline_projections::{Outcome, Rejected};

use super::Reads;

/// Writes to the log.
pub trait Writes: Reads {
    /// Writes a command to the log and answers once this server has applied it. The shell stamps its time.
    fn propose(&self, proposal: Proposal) -> impl Future<Output = Result<Written, ProposeError>> + Send;
}

/// A command that a request wants written.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// Caller that proposes the command.
    pub actor: Actor,
    /// Entry of the log that led to the command, if there is one.
    pub cause: Option<Cause>,
    /// Idempotency key and body hash: a retried write is applied once.
    pub idempotency: Option<Idempotency>,
    /// The command.
    pub command: Command,
}

/// A command that was applied and not refused.
#[derive(Debug, Clone)]
pub struct Written {
    /// Index of the command's entry, as users see it. For a repeated write, the index of the first write.
    pub index: u64,
    /// Result of apply.
    pub outcome: Outcome,
}

/// Failure of a proposal.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProposeError {
    /// Apply refused the command. Its entry stays in the log.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// No leader is known.
    #[error("No cluster leader")]
    NoLeader,
    /// The outcome is unknown: leadership was lost, or the log closed, while the command was under way. The text says
    /// which of the two.
    #[error("{0}")]
    OutcomeUnknown(String),
    /// The server has failed, or the command cannot be written to the log; the text says which.
    #[error("{0}")]
    Unavailable(String),
}
