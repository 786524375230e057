//! Migration of old bytes: brings rows and commands of earlier versions into the shapes that this version reads.
//!
//! A step is a pure function from one shape to the next over msgpack values, so that it keeps working when the types
//! change. The steps of a table or of a kind of command form one chain from schema 1 to the newest; `check` verifies
//! this at every start. Bytes of the newest shape are returned unchanged. A step changes only the encoding of a
//! command's body, never its effect.

mod chain;
mod steps;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use chain::ChainError;
use steps::STEPS;

/// Schema of the rows: a checkpoint records it, and only digests of the same schema are compared. A change of the row
/// of any table raises it by one.
pub const SCHEMA: u16 = 3;

/// Table or command kind that a step applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The rows of a table, by its name. The versions are those of [`SCHEMA`]; a table has a step only where its shape
    /// changes.
    Table(&'static str),
    /// The bodies of a kind of command, by its number. Each kind counts its own schemas.
    Command(u16),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Subject::Table(name) => write!(f, "table `{name}`"),
            Subject::Command(kind) => write!(f, "command {kind}"),
        }
    }
}

/// Reason why bytes could not be migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// The schema is newer than this version knows.
    #[error("{of} has schema {schema}, this version knows up to {newest}")]
    Newer {
        /// Table or command kind of the bytes.
        of: String,
        /// Schema of the bytes.
        schema: u16,
        /// Newest schema that this version knows.
        newest: u16,
    },
    /// The schema is 0; schemas count from 1.
    #[error("{0} has schema 0, which never was")]
    Never(String),
    /// The bytes are not msgpack.
    #[error("{of} of schema {schema} is no msgpack")]
    Unreadable {
        /// Table or command kind of the bytes.
        of: String,
        /// Schema of the bytes.
        schema: u16,
        #[source]
        source: rmpv::decode::Error,
    },
    /// A step found a value that its schema does not allow.
    #[error("{of} cannot go from schema {from} on: {reason}")]
    Refused {
        /// Table or command kind of the bytes.
        of: String,
        /// Schema that the step starts from.
        from: u16,
        /// The unexpected value.
        reason: String,
    },
}

/// Migrates a row of `table` from schema `from` to [`SCHEMA`].
pub fn row<'a>(table: &'static str, from: u16, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, MigrationError> {
    chain::run(STEPS, Subject::Table(table), SCHEMA, from, bytes)
}

/// Migrates a body of the command `kind` from schema `from` to its [`command_schema`].
pub fn command(kind: u16, from: u16, bytes: &[u8]) -> Result<Cow<'_, [u8]>, MigrationError> {
    chain::run(STEPS, Subject::Command(kind), command_schema(kind), from, bytes)
}

/// The newest schema of the body of a kind of command.
pub fn command_schema(kind: u16) -> u16 {
    chain::newest(STEPS, Subject::Command(kind))
}

/// Checks that every chain of steps leads from schema 1 to the newest, without gap, fork or circle.
pub fn check() -> Result<(), ChainError> {
    chain::check(STEPS, SCHEMA)
}

/// Every table and command kind that has steps, so that a caller that knows tables and kinds can check that they
/// exist.
pub fn subjects() -> impl Iterator<Item = Subject> {
    STEPS.iter().map(|step| step.of)
}
